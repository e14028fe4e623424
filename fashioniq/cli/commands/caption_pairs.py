"""`fashioniq caption-pairs`."""

from contextlib import suppress

from fashioniq.config import CaptionPairs
from fashioniq.data.catalog import SPLITS, Catalog
from fashioniq.features.store import features_folder, open_store
from fashioniq.files import check_writable, one_line
from fashioniq.prepare.caption_server import CaptionServer
from fashioniq.prepare.caption_table import export_pairs, import_captions
from fashioniq.prepare.captioning import Desk, plan, read_work
from fashioniq.prepare.pairing import write_pairs
from fashioniq.prepare.pairs_to_caption import Vectors, counts_of, source_of
from fashioniq.report.caption import caption_page


def run(settings: CaptionPairs) -> None:
    """Collect captions on the page or in a CSV file."""
    catalog = Catalog(settings.data, settings.category)
    if settings.titles:
        write_pairs(catalog)
    if settings.captions:
        read_work(catalog)  # a damaged list is refused before a caption is saved
        imported = import_captions(catalog, settings.captions)
        print(
            f"{imported.saved:,} captions saved; {imported.empty:,} rows without a caption, "
            f"{imported.before:,} pairs with one by people before, which was kept"
        )
        _print_next(settings, Desk(catalog, []))
        return
    counts, vectors = counts_of(settings.split, settings.count), _vectors(settings, catalog)
    desk = Desk(catalog, plan(catalog, counts, settings.seed, vectors))
    if settings.export:
        pairs = desk.open_pairs()
        export_pairs(catalog, pairs, settings.export)
        print(
            f"{len(pairs):,} pairs are in {settings.export}; fill the column caption, then give it to --import"
        )
        return
    check_writable(catalog.root / "captions")
    _serve(settings, desk, {source_of(catalog, split, vectors): None for split in counts})


def _vectors(settings: CaptionPairs, catalog: Catalog) -> Vectors | None:
    """Vectors of the feature store; None if there is none."""
    folder = features_folder(settings.data, settings.category, settings.features)
    if settings.features is None and not folder.is_dir():
        return None
    return open_store(settings.data, settings.category, settings.features).vectors(catalog.all_ids())


def _serve(settings: CaptionPairs, desk: Desk, sources: dict[str, None]) -> None:
    """Serve the page until Ctrl-C."""
    catalog = desk.files.catalog
    server = CaptionServer(catalog, desk, caption_page, settings.port)
    try:
        of_splits = {split: sum(pair.split == split for pair in desk.pairs) for split in SPLITS}
        splits = ", ".join(f"{split} {count:,}" for split, count in of_splits.items() if count)
        print(f"{catalog.category}: {len(desk.pairs):,} pairs ({splits}) from {' and '.join(sources)}")
        if generated := desk.files.count_generated():
            print(
                f"the first caption moves {generated:,} generated entries to {desk.files.folder / 'generated'}: "
                "they are not mixed with captions by people"
            )
        print(f"open {server.address} in a browser on this machine; Ctrl-C ends", flush=True)
        server.serve_forever()
    except KeyboardInterrupt:
        print()
    finally:
        with suppress(KeyboardInterrupt):
            server.stop()
    _print_next(settings, desk)


def _print_next(settings: CaptionPairs, desk: Desk) -> None:
    """Print the number of captions of people in the catalog, and what to do next."""
    captions = desk.captions_by_split()
    by = ", ".join(f"{one_line(name)} {count:,}" for name, count in desk.people().most_common())
    of_splits = ", ".join(f"{split} {count:,}" for split, count in captions.items())
    print(f"captions by people in {desk.files.folder}: {of_splits}" + (f"; {by}" if by else ""))
    if open_pairs := len(desk.open_pairs()):
        print(f"{open_pairs:,} pairs are open; the same command continues")
    flags = f"--data {settings.data} --category {settings.category}"
    if lacking := [split for split in ("train", "val") if not captions[split]]:
        print(f"next, caption {' and '.join(lacking)}: training needs both, train and val")
    else:
        print(f"next: `fashioniq extract-features {flags}`, then `fashioniq train-captioner {flags}`")
