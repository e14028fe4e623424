"""Selection of pairs, items and encoders shared by several commands."""

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
from fashioniq.files import UserError, checksum, why
from fashioniq.models.encoder import convert_efficientnet_pytorch, create_encoder


def pairs_with_targets(catalog: Catalog, split: str) -> list[Pair]:
    """Pairs of a split with a target. Raises UserError if there are none."""
    pairs = [pair for pair in catalog.pairs(split) if pair.target]
    if not pairs:
        raise UserError(
            f"the {split} captions of {catalog.category} have no targets, like the released test captions: "
            "use train or val"
        )
    return pairs


def pairs_with_features(catalog: Catalog, store: FeatureStore, split: str) -> list[Pair]:
    """Pairs of a split with a target and with features of both products; prints their number."""
    pairs = pairs_with_targets(catalog, split)
    usable = [pair for pair in pairs if pair.candidate in store and pair.target and pair.target in store]
    if not usable:
        raise UserError(
            f"no {split} pair of {catalog.category} has features of both products in {store.root}: "
            "extract this category's features"
        )
    print(f"{catalog.category} {split}: {len(usable)} of {len(pairs)} captioned pairs have features")
    return usable


def split_items(catalog: Catalog, store: FeatureStore, split: str) -> Items:
    """Products of a split with features.

    Raises UserError if there are fewer than two, too few for a ranking.
    """
    items = store.items(catalog.ids(split))
    if len(items) < 2:
        raise UserError(
            f"expected features of at least two products in the {split} split of {catalog.category}, "
            f"found {len(items)}"
        )
    return items


def check_enough_to_show(settings: TrainRetriever | EvalDialogs, *splits: Items) -> None:
    """Raise UserError if --exclude-shown leaves too few products in a split for all turns."""
    fewest = min(len(items) for items in splits)
    if settings.exclude_shown and settings.turns > fewest:
        raise UserError(
            f"--exclude-shown needs a product for each of the --turns {settings.turns}, "
            f"found {fewest} products: give fewer --turns"
        )


def describe_data(catalog: Catalog, coverage: dict[str, float]) -> dict[str, Any]:
    """Data description for a run; `coverage` is the usable share of products or pairs in each split."""
    return {
        "folder": str(catalog.root),
        "fingerprint": catalog.fingerprint(),
        "pictures": catalog.pictures_origin,
        "captions": catalog.captions_origin,
        "coverage": coverage,
    }


def run_folder(run: Path | None, kind: str, category: str, attrs: bool) -> Path:
    """Folder of a run: `run` if given, else for example runs/captioner-dresses-attrs."""
    return run or Path("runs") / f"{kind}-{canonical(category)}{'-attrs' if attrs else ''}"


def load_encoder(name: str, weights: str, image_size: int) -> tuple[nn.Module, str]:
    """Image encoder, and an identifier of its weights.

    `weights` is imagenet, none, or a file: a .pth of efficientnet_pytorch or a file of timm, also as
    .safetensors. Raises UserError if the network is unknown or does not support the image size, if the
    weights cannot be downloaded, or if the file does not match the network.
    """

    try:
        torch.manual_seed(0)  # random weights are the same in every run
        encoder = create_encoder(name)
        _try_size(encoder, name, image_size)
        if weights == "none":
            return encoder, "random"
        if weights == "imagenet":
            return create_encoder(name, pretrained=True), "imagenet"
    except UserError:
        raise
    except ValueError as error:
        raise UserError(
            f"{error}: give an EfficientNet such as efficientnet-b7, or one of timm.list_models()"
        ) from error
    except Exception as error:  # the hub client raises many kinds of errors
        raise UserError(
            f"the ImageNet weights of {name} could not be downloaded ({why(error)}): "
            "give a file with --weights FILE, or use --weights none"
        ) from error
    path = Path(weights)
    if not path.is_file():
        raise UserError(f"there is no file of weights {path}: --weights expects imagenet, none or a file")
    try:
        tensors = (
            load_file(path)
            if path.suffix == ".safetensors"
            else torch.load(path, map_location="cpu", weights_only=True)
        )
        if "_conv_stem.weight" in tensors:
            tensors = convert_efficientnet_pytorch(tensors, encoder)
        own = encoder.state_dict()
        encoder.load_state_dict(
            {
                key: tensor
                for key, tensor in tensors.items()
                if key in own or not key.startswith("classifier.")
            }
        )
    except Exception as error:  # pickle, safetensors and torch raise different errors
        raise UserError(f"{path} does not contain weights of {name}: {why(error)}") from error
    return encoder, checksum(path)


@torch.inference_mode()
def _try_size(encoder: nn.Module, name: str, image_size: int) -> None:
    """Raise UserError if the network does not support the image size, as for many vision transformers."""
    try:
        encoder.eval()(torch.zeros(1, 3, image_size, image_size))
    except (AssertionError, RuntimeError) as error:
        raise UserError(
            f"{name} does not support pictures of {image_size} pixels ({why(error)}): give another --image-size"
        ) from error
    finally:
        encoder.train()
