"""`fashioniq extract-features`."""

from pathlib import Path

from fashioniq import encoders
from fashioniq.config import ExtractFeatures
from fashioniq.data.catalog import Catalog
from fashioniq.data.catalog_files import IMAGE_SUFFIXES, categories_in, picture_paths
from fashioniq.data.conversations import Conversations
from fashioniq.data.dialogues import read_search_space
from fashioniq.features import pictures as sources
from fashioniq.features.picture_source import FoundPictures, Products
from fashioniq.features.store import Contents, FeatureStore, features_folder
from fashioniq.features.stores import fill
from fashioniq.features.writer import Extract, words_to_keep
from fashioniq.files import UserError
from fashioniq.models.device import pick_device
from fashioniq.models.encoder import has_bfloat16
from fashioniq.runs.predictor import predicted_features


def run(settings: ExtractFeatures) -> FeatureStore:
    """Write the feature store of a category, of conversations or of a folder of pictures, and print a summary."""
    products = _products(settings)
    root = (
        features_folder(settings.data, products.category, settings.features)
        if isinstance(products, Catalog)
        else settings.features or settings.data / "features"
    )
    if settings.vectors and settings.ids and isinstance(products, Catalog):
        return fill(root, products, sources.own_vectors(settings.vectors, settings.ids, products))
    source = _source(settings, products, words_to_keep(root, settings.update))
    if settings.engine == "ray":
        from fashioniq.features.ray_workers import RayWorkers  # needs an extra

        facts, extract = source
        if not isinstance(extract, sources.PictureSource):
            raise UserError(f"--engine ray encodes pictures, which --encoder {settings.encoder} does not")
        source = facts, RayWorkers(extract, settings.pictures, pick_device(settings.device).type == "cuda")
    if settings.metadata and isinstance(products, Catalog):
        source = sources.with_metadata(source, products)
    return fill(root, products, source, settings.update)


def _source(
    settings: ExtractFeatures, products: Products, words: list[str] | None
) -> tuple[Contents, Extract | sources.PictureSource]:
    """Vectors of an encoder, or of a run of train-attributes.

    Attributes come from --predictor, or from labels in `words` (default: words of train). Raises UserError if the
    encoder, its weights or the predictor cannot be loaded.
    """
    device = pick_device(settings.device)
    bfloat16 = settings.precision == "bfloat16" or (settings.precision == "auto" and has_bfloat16(device))
    if settings.predictor:
        return predicted_features(settings, products, settings.predictor, bfloat16)
    encoder = encoders.load(
        settings.encoder,
        weights=settings.weights,
        image_size=settings.image_size,
        device=device,
        bfloat16=bfloat16,
        catalog=products if isinstance(products, Catalog) else None,
    )
    return sources.of_encoder(encoder, products, settings, words, bfloat16)


def _products(settings: ExtractFeatures) -> Products:
    """What the options name: a category, the items of conversations, or the pictures of a folder."""
    data = settings.data
    if settings.category:
        return Catalog(data, settings.category)
    if (data / "items.jsonl").is_file():
        conversations = Conversations(data)
        images = {name: path for name in conversations.items if (path := conversations.picture(name))}
        texts = {name: item.caption for name, item in conversations.items.items()}
        return FoundPictures("conversations", data, images, texts=texts)
    if known := categories_in(data):
        raise UserError(f"expected --category for the catalog {data}, one of {', '.join(known)}; give it")
    if settings.pictures:
        space = read_search_space(settings.pictures)
        return FoundPictures("pictures", data, picture_paths(data, space), ids=space)
    paths = sorted(path for path in data.rglob("*") if path.suffix.lower() in IMAGE_SUFFIXES)
    images = {path.relative_to(data).as_posix(): path for path in paths}
    return FoundPictures("pictures", Path(data), images)
