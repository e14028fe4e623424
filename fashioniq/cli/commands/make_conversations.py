"""`fashioniq make-conversations`."""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
from rich.progress import track

from fashioniq.config import MakeConversations
from fashioniq.data.catalog import Catalog
from fashioniq.data.catalog_files import categories_in
from fashioniq.data.conversation_records import (
    CONVERSATION_SPLITS,
    SUBTASKS,
    ConversationItem,
    ConversationSample,
    ConversationSplit,
    Subtask,
)
from fashioniq.data.conversations import fault_of_sample
from fashioniq.data.writers import Writer
from fashioniq.features.store import open_store
from fashioniq.files import UserError, check_writable, remove_leftovers, write_json
from fashioniq.locks import locked
from fashioniq.prepare.conversation_files import (
    ReviewLine,
    Samples,
    Stock,
    read_review,
    review_of,
    write_folder,
)
from fashioniq.prepare.conversation_pool import Embed, Pool
from fashioniq.prepare.conversation_summary import (
    PLAN,
    Report,
    Summary,
    check_plan,
    fingerprint,
    plan_of,
    write_summary,
)
from fashioniq.prepare.conversing import LINES, Pipeline
from fashioniq.prepare.mixture import add_mixture
from fashioniq.prepare.session_conversations import WRITER as PEOPLE, items_of, samples_of
from fashioniq.prepare.templates import Templates
from fashioniq.report.conversations import write_samples_page
from fashioniq.report.tables import print_table


def run(settings: MakeConversations) -> Summary | None:
    """Make the conversations batch by batch in the folder OUT.parts, then write the output folder; or add those of
    LLaVA or InstructPix2Pix to it, and return None.
    """
    out = settings.out
    if not out.name:
        raise UserError(f"expected a folder in --out, found {out}; give a folder name such as chatsearch")
    check_writable(out)
    if settings.sessions and settings.adds_others:
        with locked(out):
            count, new, lost = add_mixture(settings.sessions, settings.data, out)
        print(f"{count:,} conversations of {settings.sessions} and {new:,} items in {out}")
        if lost:
            print(f"left out: {lost:,}, in which a picture, a turn or its answer is missing")
        return None
    catalogs = [Catalog(settings.data, name) for name in settings.category or categories_in(settings.data)]
    if not catalogs:
        raise UserError(
            f"there is no category in {settings.data}; give a folder in Fashion IQ's layout with --data"
        )
    if settings.sessions:
        return _write_sessions(settings, settings.sessions, catalogs[0])
    stock = Stock(out)
    for catalog in catalogs:
        stock.add(catalog)
    pools, vectors = _pools(settings, catalogs, stock)
    writer = _writer(settings, catalogs)
    pipeline = Pipeline(pools, writer, settings.seed, settings.batch_size)
    parts = out.with_name(out.name + ".parts")
    plan = plan_of(asdict(settings), fingerprint(stock.items.values(), vectors))
    check_plan(plan, out, parts)
    reviewed = read_review(out)
    with locked(parts):
        for folder in (parts, out):
            remove_leftovers(folder)
        write_json(parts / PLAN, plan)
        report = Report(frozenset(verdict.sample for verdict in reviewed if verdict.failed))
        samples: dict[tuple[Subtask, ConversationSplit], list[ConversationSample]] = {
            (subtask, split): [] for subtask in SUBTASKS for split in CONVERSATION_SPLITS
        }
        for split in CONVERSATION_SPLITS:
            wanted = settings.train if split == "train" else settings.test
            for line in LINES:
                made = pipeline.conversations(split, line, wanted, parts, report)
                for group in track(made, f"{split} {line}", wanted):
                    for sample in group:
                        if fault := fault_of_sample(sample, stock.items, sample.subtask, split):
                            raise UserError(f"a batch in {parts} is damaged ({fault}); remove the folder")
                        samples[sample.subtask, split].append(sample)
        _write(settings, stock.items, samples, reviewed)
        summary = write_summary(out, plan, samples, report, writer=writer.name, copies=stock.copies)
        shutil.rmtree(parts)
    _print(summary, out)
    return summary


def _write_sessions(settings: MakeConversations, folder: Path, catalog: Catalog) -> Summary:
    """Write recorded sessions as conversations."""
    out, items, samples = settings.out, items_of(catalog, settings.out), samples_of(catalog, folder)
    plan = {"sessions": str(folder), "data": fingerprint(items.values(), [])}
    check_plan(plan, out, out.with_name(out.name + ".parts"))
    _write(settings, items, samples, read_review(out))
    summary = write_summary(out, plan, samples, Report(frozenset()), writer=PEOPLE, copies=0)
    _print(summary, out)
    return summary


def _write(
    settings: MakeConversations,
    items: Mapping[str, ConversationItem],
    samples: Samples,
    reviewed: Sequence[ReviewLine],
) -> None:
    """Write the files of the output folder but its summary."""
    out = settings.out
    review = review_of(samples, reviewed, settings.seed)
    write_folder(out, items, samples, review, whole=bool(settings.sessions))
    reviewed_ids = {verdict.sample for verdict in review if verdict.is_open}
    every = [sample for made in samples.values() for sample in made]
    shown = [sample for sample in every if sample.id in reviewed_ids]
    write_samples_page(out / "samples.html", out, items, shown, len(every))


def _print(summary: Summary, out: Path) -> None:
    for header, rows in summary.tables():
        print_table(header, rows)
    count = sum(count.samples for count in summary.samples.values())
    print(f"{count:,} samples in {out}, written by {summary.writer}")


def _writer(settings: MakeConversations, catalogs: Sequence[Catalog]) -> Writer:
    """Templates, or the language model of the options. Raises UserError if the templates lack the language."""
    if (name := settings.language_model) is None:
        if other := [catalog.category for catalog in catalogs if catalog.language != "en"]:
            raise UserError(
                f"the labels of {other[0]} are not English, as templates are; give --language-model"
            )
        return Templates()
    from fashioniq.askers.by_name import language_model
    from fashioniq.llm.conversations import LanguageModelWriter

    return LanguageModelWriter(name, language_model(settings, name, settings.device))


def _pools(
    settings: MakeConversations, catalogs: Sequence[Catalog], stock: Stock
) -> tuple[dict[ConversationSplit, list[Pool]], list[np.ndarray]]:
    """Pools of both splits, and all their vectors. Raises UserError if a split has fewer than two products."""
    pools: dict[ConversationSplit, list[Pool]] = {split: [] for split in CONVERSATION_SPLITS}
    every = []
    for catalog in catalogs:
        products = {split: stock.products.get((catalog.category, split), []) for split in CONVERSATION_SPLITS}
        ids = [product.id for split in CONVERSATION_SPLITS for product in products[split]]
        present, vectors_ND, embed = _vectors(settings, catalog, ids)
        row_of = {name: row for row, name in enumerate(present)}
        for split in CONVERSATION_SPLITS:
            kept = [product for product in products[split] if product.id in row_of]
            if len(kept) < 2:
                raise UserError(
                    f"expected two products of {catalog.category} for {split} with labels and vectors, found "
                    f"{len(kept)} in {catalog.root}; add products, or give other categories with --category"
                )
            every.append(vectors_ND[[row_of[product.id] for product in kept]])
            pools[split].append(Pool(kept, every[-1], embed))
    return pools, every


def _vectors(
    settings: MakeConversations, catalog: Catalog, ids: Sequence[str]
) -> tuple[list[str], np.ndarray, Embed | None]:
    """Products with a picture vector, these vectors N×D of unit length, and the encoder of texts, if there is one."""
    if settings.encoder is None:
        store = open_store(catalog.root, catalog.category, settings.features)
        present, vectors_ND = store.vectors(ids)
        length_N1 = np.linalg.norm(vectors_ND, axis=1, keepdims=True)
        if not (np.isfinite(length_N1) & (length_N1 > 0)).all():
            raise UserError(
                f"the feature store {store.root} has a vector that is zero or not finite; extract it again"
            )
        return present, vectors_ND / length_N1, None
    from fashioniq.models.device import pick_device
    from fashioniq.runs.search_space import search_space

    space = search_space(
        settings.encoder, ids, pick_device(settings.device), store=settings.features, catalog=catalog
    )
    encoder = space.encoder
    assert encoder is not None, "only search_space_of_vectors returns no encoder"
    vectors_ND = space.vectors_ND.float().cpu().numpy()
    return space.ids, vectors_ND, lambda text: encoder.texts([text])[0].float().cpu().numpy()
