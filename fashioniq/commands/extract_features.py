"""`fashioniq extract-features`."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import torch
from rich.progress import Progress
from torch import Tensor, nn

from fashioniq.categories import canonical
from fashioniq.checkpoints import load_weights, read_facts
from fashioniq.commands.common import features_folder, load_encoder, pick_device
from fashioniq.config import ExtractFeatures
from fashioniq.data.attributes import label_vocabulary, top_labels
from fashioniq.data.catalog import Catalog
from fashioniq.data.features import TOP, Extract, Part, fill_store
from fashioniq.data.images import ToSquare, UnreadableImage, load_image, normalise
from fashioniq.data.metadata import metadata_vectors, words_fingerprint
from fashioniq.files import UserError, checksum, read_json
from fashioniq.models.attributes import AttributePredictor, top_attributes
from fashioniq.models.encoder import create_encoder, encoder_mean_std, encoder_size

LABELLED_OFTEN = 3  # training products that must carry a word for it to be an attribute, where labels are taken as they are


def run(settings: ExtractFeatures) -> None:
    """Fill the category's feature store and say what it holds and lacks."""
    catalog = Catalog(settings.data, settings.category)
    if not settings.vectors and (settings.ids or settings.attributes or settings.attribute_words):
        raise UserError("--ids, --attributes and --attribute-words describe --vectors: give that too")
    if settings.vectors:
        facts, extract = _own_vectors(settings, catalog)
    elif settings.encoder == "metadata":
        facts, extract = _metadata(settings, catalog)
    else:
        facts, extract = _pictures(settings, catalog)
    root = features_folder(settings.data, settings.category, settings.features)
    ids = catalog.all_ids()
    with Progress() as bar:
        task = bar.add_task(f"{settings.category}: {facts['encoder']}", total=len(ids))
        store = fill_store(root, ids, facts, extract, lambda done: bar.update(task, completed=done))
    failures = store.facts["failures"]
    print(f"{len(store.ids)} of {len(ids)} products × {store.size} in {root}, {len(store.attribute_words)} attribute words ({facts['attributes']})")
    for name, reason in list(failures.items())[:5]:
        print(f"  left out: {name}: {reason}")
    if len(failures) > 5:
        print(f"  left out: {len(failures) - 5} more, all in {root / 'store.json'}")


def _facts(encoder: str, weights: str, image_size: int | None, dimensions: int, words: list[str], attributes: str) -> dict[str, Any]:
    return {
        "encoder": encoder,
        "weights": weights,
        "image_size": image_size,
        "dimensions": dimensions,
        "attribute_words": words,
        "attributes": attributes,
    }


def _labels(catalog: Catalog) -> tuple[list[str], Callable[[Sequence[str]], np.ndarray]]:
    words = label_vocabulary(catalog.labels, catalog.ids("train"), LABELLED_OFTEN)
    return words, lambda ids: top_labels(catalog.labels, ids, words, TOP)


def _given(rows: dict[str, np.ndarray], attributes_of: Callable[[Sequence[str]], np.ndarray], missing: str) -> Extract:
    def extract(ids: Sequence[str]) -> Part:
        there = [name for name in ids if name in rows]
        features_ND = np.array([rows[name] for name in there], dtype=np.float32)
        return Part(there, features_ND, attributes_of(there), {name: missing for name in ids if name not in rows})

    return extract


def _metadata(settings: ExtractFeatures, catalog: Catalog) -> tuple[dict[str, Any], Extract]:
    words, attributes_of = _labels(catalog)
    known, vectors_ND = metadata_vectors(catalog, catalog.all_ids(), settings.dimensions)
    facts = _facts("metadata", words_fingerprint(catalog), None, vectors_ND.shape[1], words, "labels")
    return facts, _given(dict(zip(known, vectors_ND, strict=True)), attributes_of, "no title or attribute word that train knows")


def _own_vectors(settings: ExtractFeatures, catalog: Catalog) -> tuple[dict[str, Any], Extract]:
    if settings.vectors is None or settings.ids is None:
        raise UserError("--vectors needs --ids, a JSON list of the ids of its rows")
    files = (settings.vectors, settings.ids, settings.attributes, settings.attribute_words)
    vectors_ND, ids = _read_array(settings.vectors), read_json(settings.ids, "the list of ids", list)
    if len(ids) != len(vectors_ND):
        raise UserError(f"{settings.ids} has {len(ids)} ids, {settings.vectors} {len(vectors_ND)} rows: they must be as many")
    if not all(isinstance(name, str) for name in ids) or len(set(ids)) != len(ids):
        raise UserError(f"{settings.ids} should list ids as strings, each once")
    origin, (words, attributes_of) = "labels", _labels(catalog)
    if settings.attributes:
        if settings.attribute_words is None:
            raise UserError("--attributes needs --attribute-words, a JSON list of the words of its columns")
        scores_NA = _read_array(settings.attributes)
        words = read_json(settings.attribute_words, "the list of attribute words", list)
        if not all(isinstance(word, str) for word in words):
            raise UserError(f"{settings.attribute_words} should list words as strings")
        if scores_NA.shape != (len(ids), len(words)):
            raise UserError(f"{settings.attributes} is {scores_NA.shape}, not {len(ids)} ids × {len(words)} words")
        top_NA = dict(zip(ids, top_attributes(torch.from_numpy(scores_NA), TOP).numpy(), strict=True))
        origin, attributes_of = "given", lambda names: np.array([top_NA[name] for name in names]).reshape(len(names), TOP)
    facts = _facts(
        f"vectors of {settings.vectors.name}", "-".join(checksum(path) for path in files if path), None, vectors_ND.shape[1], words, origin
    )
    return facts, _given(dict(zip(ids, vectors_ND, strict=True)), attributes_of, f"not in {settings.ids}")


def _read_array(path: Path) -> np.ndarray:
    try:
        array = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError, BadZipFile) as error:
        raise UserError(f"cannot read {path} as a .npy array: {error}") from error
    if not isinstance(array, np.ndarray) or array.ndim != 2 or array.shape[1] == 0 or array.dtype.kind not in "fiu":
        found = f"{array.dtype} of shape {array.shape}" if isinstance(array, np.ndarray) else "several arrays"
        raise UserError(f"{path} should hold a matrix of numbers, one row a product; it holds {found}")
    if not np.isfinite(array).all():
        raise UserError(f"{path} holds numbers that are not finite")
    return array.astype(np.float32)


def _pictures(settings: ExtractFeatures, catalog: Catalog) -> tuple[dict[str, Any], Extract]:
    device = pick_device(settings.device)
    bfloat16 = settings.precision == "bfloat16" or (settings.precision == "auto" and _has_bfloat16(device))
    if settings.predictor:
        facts = read_facts(settings.predictor, "attribute predictor")
        if facts["category"] not in ("all", canonical(settings.category)):
            raise UserError(f"{settings.predictor} predicts attributes of {facts['category']}, not of {settings.category}")
        name, size, words = facts["encoder"], facts["image_size"], facts["attribute_words"]
        encoder = create_encoder(name)
        model: nn.Module = AttributePredictor(encoder, encoder_size(encoder), len(words))
        load_weights(settings.predictor, model)
        weights, origin, attributes_of = checksum(settings.predictor / "weights.safetensors"), "predicted", None
    else:
        name, size = settings.encoder, settings.image_size
        encoder, weights = load_encoder(name, settings.weights)
        model, origin, (words, attributes_of) = encoder, "labels", _labels(catalog)
    model = model.eval().to(device).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    facts = _facts(name, weights, size, encoder_size(encoder), words, origin) | {"precision": "bfloat16" if bfloat16 else "float32"}
    prepare = normalise(*encoder_mean_std(encoder))

    @torch.inference_mode()
    def vectors(images: list[Tensor]) -> tuple[np.ndarray, np.ndarray | None]:
        images_BCHW = prepare(torch.stack(images).to(device)).to(memory_format=torch.channels_last)
        with torch.autocast(device.type, torch.bfloat16, enabled=bfloat16):
            features_BD, logits_BA = model(images_BCHW) if attributes_of is None else (model(images_BCHW), None)
        attributes_BA = None if logits_BA is None else top_attributes(logits_BA.float(), TOP).cpu().numpy()
        return features_BD.to(torch.float16).cpu().numpy(), attributes_BA

    pool = ThreadPoolExecutor(max(1, settings.workers))  # Pillow decodes outside of Python's lock
    square = ToSquare(size)

    def decode(name: str) -> Tensor | str:
        if name not in catalog.images:
            return "no picture"
        try:
            return square(load_image(catalog.images[name]))
        except UnreadableImage as error:
            return str(error)

    def extract(ids: Sequence[str]) -> Part:
        decoded = dict(zip(ids, pool.map(decode, ids), strict=True))
        images = {name: image for name, image in decoded.items() if isinstance(image, Tensor)}
        there = list(images)
        failures = {name: reason for name, reason in decoded.items() if isinstance(reason, str)}
        made = [vectors([images[name] for name in there[at : at + settings.batch_size]]) for at in range(0, len(there), settings.batch_size)]
        if not made:
            return Part([], np.empty((0, encoder_size(encoder)), np.float16), np.empty((0, TOP), np.int64), failures)
        attributes_NA = np.concatenate([part for _, part in made]) if attributes_of is None else attributes_of(there)
        return Part(there, np.concatenate([part for part, _ in made]), attributes_NA, failures)

    return facts, extract


def _has_bfloat16(device: torch.device) -> bool:
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported()
    return bool(getattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)())
