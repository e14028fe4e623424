"""What several commands do alike."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors.torch import load_file
from torch import nn

from fashioniq.categories import canonical, file_name
from fashioniq.config import EvalDialogs, TrainCaptioner, TrainRetriever
from fashioniq.data.catalog import Catalog, Pair
from fashioniq.data.features import FeatureStore, Items
from fashioniq.data.words import SPECIAL, Vocabulary
from fashioniq.files import UserError, checksum
from fashioniq.models.captioner import Captioner
from fashioniq.models.composer import Composer
from fashioniq.models.decoding import Speaker
from fashioniq.models.encoder import convert_efficientnet_pytorch, create_encoder
from fashioniq.models.retriever import DialogRetriever, Listener
from fashioniq.models.rnn import RNNCaptioner, RNNRetriever
from fashioniq.runs import CaptionerRun, RetrieverRun, check_fits, load_weights, read_run

CAPTIONERS: dict[str, type[Speaker]] = {"transformer": Captioner, "rnn": RNNCaptioner}
RETRIEVERS: dict[str, Callable[..., Listener]] = {
    "transformer": DialogRetriever,
    "rnn": RNNRetriever,
    "composer": Composer,
}
M = TypeVar("M", bound=nn.Module)
T = TypeVar("T", TrainCaptioner, TrainRetriever)
R = TypeVar("R", CaptionerRun, RetrieverRun)


def features_folder(data: Path, category: str, features: Path | None) -> Path:
    """Where a category's feature store lies when nothing else is said."""
    return features or Path(data) / "features" / file_name(category)


def open_store(data: Path, category: str, features: Path | None, attrs: bool = False) -> FeatureStore:
    """The category's feature store. Raises UserError, with the command that makes it, where there is none, or `attrs` finds none in it."""
    root = features_folder(data, category, features)
    if not root.is_dir():
        raise UserError(f"there is no feature store {root}: make it with `fashioniq extract-features --data {data} --category {category}`")
    store = FeatureStore(root)
    if attrs and not store.attribute_words:
        raise UserError(f"{root} was extracted without attributes: leave --attrs out, or extract with labels or --predictor into another store")
    return store


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


def seed_by_seed(settings: T, folder: Path) -> Iterator[tuple[T, Path]]:
    """The settings and the folder of each of --seeds trainings: `folder` itself, or FOLDER-seed0, FOLDER-seed1 … where there are several.

    With --resume those that had begun go on, which changes nothing where they are complete.
    Raises UserError for several seeds on several devices, whose processes each give the whole command again.
    """
    if settings.seeds == 1:
        yield settings, folder
        return
    if settings.devices * settings.num_nodes > 1:
        raise UserError(f"--seeds {settings.seeds} trains on one device: give one seed at a time with --seed and --run, or leave --devices out")
    folder = folder if folder.name else folder.resolve()
    for seed in range(settings.seed, settings.seed + settings.seeds):
        run = folder.with_name(f"{folder.name}-seed{seed}")
        print(f"seed {seed}: {run}")
        yield replace(settings, seed=seed, seeds=1, resume=settings.resume and (run / "last.ckpt").exists()), run


def sizes_of(model_class: Callable[..., nn.Module], known: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the known sizes that a model takes."""
    return {name: known[name] for name in inspect.signature(model_class).parameters if name in known}


def load_captioner(run: Path, category: str, store: FeatureStore) -> tuple[Speaker, Vocabulary, CaptionerRun]:
    """A trained captioner, its vocabulary and its description, checked against the category and the features."""
    return _load(run, CaptionerRun, CAPTIONERS, category, store)


def load_retriever(run: Path, category: str, store: FeatureStore) -> tuple[Listener, Vocabulary, RetrieverRun]:
    """A trained retriever, its vocabulary and its description, checked against the category and the features."""
    return _load(run, RetrieverRun, RETRIEVERS, category, store)


def _load(
    run: Path, kind: type[R], classes: Mapping[str, Callable[..., M]], category: str, store: FeatureStore
) -> tuple[M, Vocabulary, R]:
    about = read_run(run, kind)
    check_fits(run, about, category, store)
    if about.model not in classes:
        raise UserError(f"{run} holds a {kind.KIND} of another kind, {about.model!r}: expected {', '.join(classes)}")
    model = classes[about.model](**about.sizes)
    load_weights(run, model)
    return model.eval(), Vocabulary(about.words[len(SPECIAL) :]), about


def pick_device(name: str) -> torch.device:
    """The device of a --device option. Raises UserError where it is not there."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError) as error:
        raise UserError(f"there is no device {name!r} here: use --device cpu or auto") from error
    return torch.device(name)


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
