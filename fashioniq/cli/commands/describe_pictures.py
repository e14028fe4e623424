"""`fashioniq describe-pictures`."""

import time
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from PIL import Image
from rich.progress import Progress

from fashioniq.askers.by_name import endpoint
from fashioniq.config import DescribePictures
from fashioniq.data.catalog import Catalog
from fashioniq.data.images import PictureReader, UnreadableImage, load_image
from fashioniq.encoders.protocol import digest_of
from fashioniq.files import UserError, checksum
from fashioniq.llm.describing import PictureDescriber, check_attributes, endpoint_describer, local_describer
from fashioniq.llm.endpoint import ENDPOINT
from fashioniq.locks import exclusive
from fashioniq.models.device import pick_device
from fashioniq.prepare.described import DescriptionLog, SeenPicture
from fashioniq.report.described import write_described_page
from fashioniq.report.tables import print_table


def run(settings: DescribePictures) -> Path:
    """Describe the pictures, write description files and a page of samples, and print counts and costs."""
    catalog = Catalog(settings.data, settings.category)
    check_attributes(settings.attributes)
    log = DescriptionLog(catalog, _identity(settings.model), settings.attributes)
    log.check()
    images = _images(catalog, settings.count)
    with exclusive(log.path):
        digest_of = {name: checksum(path) for name, path in images.items()}
        paths = {digest_of[name]: path for name, path in images.items()}
        new = [digest for digest in paths if digest not in log.seen]
        unreadable = _describe(settings, log, {digest: paths[digest] for digest in new}) if new else {}
        found = len(new) - len(unreadable)
        if settings.count is None:
            log.write(digest_of)
    _report(settings, log, images, digest_of, unreadable=unreadable, new=found)
    return log.path.parent


def _identity(name: str) -> str:
    """Name of the model; of a folder, with a hash of its weights."""
    if name.startswith(ENDPOINT) or not Path(name).is_dir():
        return name
    weights = "".join(checksum(path) for path in sorted(Path(name).glob("*.safetensors")))
    if not weights:
        raise UserError(f"expected a model with .safetensors in {name}, found none; correct --model")
    return f"{Path(name).resolve().name} {digest_of(weights)}"


def _images(catalog: Catalog, count: int | None) -> dict[str, Path]:
    """Pictures of the products, or of `count` of them. Raises UserError if there are none."""
    names = [name for name in catalog.all_ids() if name in catalog.images]
    if not names:
        raise UserError(
            f"expected pictures of {catalog.category} in {catalog.root / 'images'}, found none; add them, or run "
            "download-images"
        )
    step = max(1, -(-len(names) // (count or len(names))))
    return {name: catalog.images[name] for name in names[::step]}


def _describe(settings: DescribePictures, log: DescriptionLog, paths: dict[str, Path]) -> dict[str, str]:
    """Describe pictures by their SHA-256, batch by batch; returns the reasons of those that cannot be read."""
    name, unreadable = settings.model, dict[str, str]()
    if name.startswith(ENDPOINT):
        describer = endpoint_describer(endpoint(settings, name), settings.attributes)
    else:
        describer = local_describer(name, settings.attributes, pick_device(settings.device))
    with (
        PictureReader(load_image, settings.workers, ahead=2 * settings.batch_size) as reader,
        Progress() as progress,
    ):
        task = progress.add_task(f"{len(paths)} pictures", total=len(paths))
        pictures = zip(paths, reader(paths.values()), strict=True)
        while some := dict(islice(pictures, settings.batch_size)):
            read = {digest: one for digest, one in some.items() if isinstance(one, Image.Image)}
            unreadable |= {
                digest: str(one) for digest, one in some.items() if isinstance(one, UnreadableImage)
            }
            if read:
                log.add(_described(log, describer, list(read), list(read.values())))
            progress.advance(task, len(some))
    return unreadable


def _described(
    log: DescriptionLog, describer: PictureDescriber, digests: Sequence[str], pictures: Sequence[Image.Image]
) -> list[SeenPicture]:
    before, began, share = dict(describer.tokens), time.monotonic(), 1 / len(pictures)
    said = describer.describe(pictures)
    seconds = time.monotonic() - began
    tokens = {name: share * (count - before[name]) for name, count in describer.tokens.items()}
    return [
        SeenPicture(
            picture=digest,
            model=log.model,
            attributes=log.attributes,
            outcome=one.outcome,
            text=one.text,
            seconds=share * seconds,
            prompt_tokens=tokens["prompt"],
            answer_tokens=tokens["answer"],
        )
        for digest, one in zip(digests, said, strict=True)
    ]


def _report(
    settings: DescribePictures,
    log: DescriptionLog,
    images: dict[str, Path],
    digest_of: dict[str, str],
    *,
    unreadable: dict[str, str],
    new: int,
) -> None:
    """Print counts and costs, and write the page of samples."""
    seen = {digest: log.seen[digest] for digest in digest_of.values() if digest in log.seen}
    outcomes = Counter(seen[digest].outcome for digest in digest_of.values() if digest in seen)
    failed = [(name, unreadable[digest]) for name, digest in digest_of.items() if digest in unreadable]
    counts = [
        ("described", f"{outcomes['described']:,}"),
        ("empty answers", f"{outcomes['empty']:,}"),
        ("refused", f"{outcomes['refused']:,}"),
        ("unreadable", f"{len(failed):,}"),
        (
            "products without a picture",
            f"{sum(name not in log.catalog.images for name in log.catalog.all_ids()):,}",
        ),
        ("seconds of the model", f"{sum(one.seconds for one in seen.values()):,.1f}"),
        ("tokens of prompts", f"{sum(one.prompt_tokens for one in seen.values()):,.0f}"),
        ("tokens of answers", f"{sum(one.answer_tokens for one in seen.values()):,.0f}"),
    ]
    print_table([log.catalog.category, "count"], [list(row) for row in counts])
    for name, why in failed[:5]:
        print(f"unreadable: {name}: {why}")
    texts = {name: seen[digest].text if digest in seen else "" for name, digest in digest_of.items()}
    page = log.path.with_suffix(".html")
    write_described_page(page, images, texts, counts, category=log.catalog.category, model=log.model)
    print(f"{new:,} pictures were new; samples are in {page}")
    if settings.count is not None:
        print("no description files were written; run the command without --count for all pictures")
        return
    print(
        f"descriptions, words of a captioning model, are in {log.path.parent}; extract features and train again to use "
        "them"
    )
