"""What several commands do alike."""

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import nn

from fashioniq.categories import canonical
from fashioniq.config import EvalDialogs, TrainRetriever
from fashioniq.data.catalog import Catalog, Pair
from fashioniq.data.items import Items
from fashioniq.features.store import FeatureStore
from fashioniq.files import UserError, checksum
from fashioniq.models.encoder import convert_efficientnet_pytorch, create_encoder


def pairs_with_targets(catalog: Catalog, split: str) -> list[Pair]:
    """The pairs of a split with a target. Raises UserError where there is none."""
    pairs = [pair for pair in catalog.pairs(split) if pair.target]
    if not pairs:
        raise UserError(f"the {split} captions of {catalog.category} name no target, as released test captions do: use train or val")
    return pairs


def pairs_with_features(catalog: Catalog, store: FeatureStore, split: str) -> list[Pair]:
    """The pairs of a split with a target and with features of both products; how many are left is told."""
    pairs = pairs_with_targets(catalog, split)
    there = [pair for pair in pairs if pair.candidate in store and pair.target and pair.target in store]
    if not there:
        raise UserError(f"no {split} pair of {catalog.category} has features of both products in {store.root}: extract this category's features")
    print(f"{catalog.category} {split}: {len(there)} of {len(pairs)} captioned pairs have features")
    return there


def split_items(catalog: Catalog, store: FeatureStore, split: str) -> Items:
    """The products of a split that have features. Raises UserError where fewer than two have: nothing could be ranked."""
    items = store.items(catalog.ids(split))
    if len(items) < 2:
        raise UserError(f"only {len(items)} product of the {split} split of {catalog.category} has features: at least two are needed")
    return items


def check_enough_to_show(settings: TrainRetriever | EvalDialogs, *splits: Items) -> None:
    """Raise UserError where --exclude-shown leaves a split too few products for the turns."""
    fewest = min(len(items) for items in splits)
    if settings.exclude_shown and settings.turns > fewest:
        raise UserError(f"--exclude-shown with --turns {settings.turns} leaves nothing to show: there are {fewest} products")


def describe_data(catalog: Catalog, coverage: dict[str, float]) -> dict[str, Any]:
    """What a run remembers of its data; `coverage` is the share of each split, of products or pairs, that could be used."""
    return {
        "folder": str(catalog.root),
        "fingerprint": catalog.fingerprint(),
        "pictures": catalog.pictures_origin,
        "captions": catalog.captions_origin,
        "coverage": coverage,
    }


def run_folder(run: Path | None, kind: str, category: str, attrs: bool) -> Path:
    """runs/captioner-dresses-attrs, unless another folder is named."""
    return run or Path("runs") / f"{kind}-{canonical(category)}{'-attrs' if attrs else ''}"


def load_encoder(name: str, weights: str, image_size: int) -> tuple[nn.Module, str]:
    """An image encoder and what identifies its weights.

    `weights` is imagenet, none, or a file: efficientnet_pytorch's .pth or timm's own, also as .safetensors.
    Raises UserError for an unknown network, pictures of a size that it does not take, weights that cannot be downloaded, or a file
    that does not fit.
    """

    try:
        torch.manual_seed(0)  # random weights are the same ones in every run
        encoder = create_encoder(name)
        _try_size(encoder, name, image_size)
        if weights == "none":
            return encoder, "random"
        if weights == "imagenet":
            return create_encoder(name, pretrained=True), "imagenet"
    except UserError:
        raise
    except ValueError as error:
        raise UserError(f"{error}: name an EfficientNet as efficientnet-b7, or one of timm.list_models()") from error
    except Exception as error:  # the hub's client raises many kinds
        reason = str(error).splitlines()[0][:120]
        raise UserError(
            f"the ImageNet weights of {name} could not be downloaded ({reason}): give their file with --weights FILE, or --weights none"
        ) from error
    path = Path(weights)
    if not path.is_file():
        raise UserError(f"there is no file of weights {path}; --weights takes imagenet, none or a file")
    try:
        tensors = load_file(path) if path.suffix == ".safetensors" else torch.load(path, map_location="cpu", weights_only=True)
        if "_conv_stem.weight" in tensors:
            tensors = convert_efficientnet_pytorch(tensors, encoder)
        own = encoder.state_dict()
        encoder.load_state_dict({key: tensor for key, tensor in tensors.items() if key in own or not key.startswith("classifier.")})
    except Exception as error:  # pickle, safetensors and torch each have their own
        raise UserError(f"{path} does not hold weights of {name}: {str(error).splitlines()[0][:160]}") from error
    return encoder, checksum(path)


@torch.inference_mode()
def _try_size(encoder: nn.Module, name: str, image_size: int) -> None:
    """Raise UserError where a network does not take pictures of a size: transformers of images take one alone."""
    try:
        encoder.eval()(torch.zeros(1, 3, image_size, image_size))
    except (AssertionError, RuntimeError) as error:
        raise UserError(f"{name} takes no pictures of {image_size} pixels ({error}): give another --image-size") from error
    finally:
        encoder.train()
