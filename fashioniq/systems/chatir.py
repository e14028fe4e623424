"""ChatIR's system: the person describes a picture, then the system asks about it, and a text encoder reads all of it."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from fashioniq.askers.attribute_questions import CandidateAware, known
from fashioniq.askers.limited import Limited
from fashioniq.askers.recorded import Recorded as RecordedOffers
from fashioniq.checkpoints import read_facts
from fashioniq.config import EvalChatIR
from fashioniq.data.cards import ItemCards
from fashioniq.data.catalog import ATTRIBUTE_LISTS, Catalog
from fashioniq.data.dialogues import (
    Dialogue,
    dialog_text,
    in_search_space,
    read_dialogues,
    read_search_space,
    recorded_rounds,
    split_round,
)
from fashioniq.data.items import Items
from fashioniq.data.topics import topics_of
from fashioniq.features.cards import cards_of
from fashioniq.features.store import FeatureStore
from fashioniq.files import UserError, checksum
from fashioniq.loop.gallery import Gallery
from fashioniq.loop.messages import Message, Retriever
from fashioniq.loop.rollout import System
from fashioniq.metrics.chat import repetition
from fashioniq.models.text import RecordedQueries, TextRetriever, unit
from fashioniq.systems.places import check_split, first_path, settings_of, store_of
from fashioniq.systems.search_space import (
    EncoderSource,
    SearchSpace,
    encode_search_space,
    search_space_of_vectors,
    picture_paths,
    read_unit_vectors,
)
from fashioniq.systems.task import Batch, Task
from fashioniq.trained import load_dialog_encoder, pick_device
from fashioniq.users.recorded import Recorded as RecordedReplies

CANDIDATES = 100  # nearest products that the questions are chosen by


class Place(NamedTuple):
    """The catalog of a run, None for a run without a category, and its feature store."""

    catalog: Catalog | None
    store: FeatureStore


def place_of(run: Path, *, features: Path | None, data: Path | None, category: str | None) -> Place:
    """The data of a run of train-dialog-encoder; what is given takes precedence. Raises UserError where they are missing."""
    read_facts(run, "dialog encoder")
    settings = settings_of(run)
    own = None if data else first_path(settings.get("features"))
    data, category = data or first_path(settings.get("data")), category or settings.get("category")
    store = store_of(run, data, category, features or own)
    return Place(Catalog(data, category) if data and category else None, store)


def load(
    run: Path, *, features: Path | None, split: str, device: str, data: Path | None, category: str | None
) -> System:
    """The system of a run of train-dialog-encoder, which asks the question that splits the candidates best.

    It asks nothing where the catalog has no labels. Without a category all images of the feature store are
    searched. Raises UserError where a file is missing or does not fit the run.
    """
    check_split(split)
    catalog, store = place_of(run, features=features, data=data, category=category)
    encoder, separator = load_dialog_encoder(run, store)
    encoder.to(pick_device(device)).requires_grad_(False)
    found = store.items(catalog.ids(split) if catalog else store.ids).to(pick_device(device))
    vectors_ND = unit(encoder.embed_images(found.features_ND))
    gallery = Gallery(Items.without_attributes(found.ids, vectors_ND), vectors_ND)
    cards = cards_of(catalog, store, found.ids) if catalog else ItemCards()
    retriever = TextRetriever(encoder, separator)
    vocabulary = getattr(encoder, "vocabulary", None)  # CLIP and BLIP read any word
    return System(retriever, _asker(catalog, found.ids), gallery, vocabulary, cards)


def _asker(catalog: Catalog | None, ids: list[str]) -> Limited:
    """Questions about the attributes in which the products of a catalog differ, each once."""
    topics = topics_of(catalog.labels, catalog.all_ids()) if catalog else []
    if catalog is None or not topics:
        return Limited(None, 0)
    labels = [catalog.labels.get(name, [[]] * ATTRIBUTE_LISTS) for name in ids]
    return Limited(CandidateAware(known(topics, labels), CANDIDATES), len(topics))


def build(options: EvalChatIR) -> list[Task]:
    """The recorded dialogs of each file, whose images are searched for after every round.

    Raises UserError where a file is missing or does not fit, and for options that exclude each other.
    """
    _check(options)
    space = read_search_space(options.search_space)
    alone = {"auto": None, "rounds": False, "last": True}[options.query]
    paths = [Path(path) for path in options.dialogues]
    files = {path.stem: in_search_space(read_dialogues(path, alone), space, path) for path in paths}
    if len(files) < len(paths):
        raise UserError(f"two of --dialogues have the same name: {', '.join(map(str, paths))}; rename one")
    images = picture_paths(options.images, space)
    source = _search_space(options, space, images)
    if options.images and not images:
        print(f"note: {options.images} has no picture of the search space, such as {space[0]}: the page shows none")
    separator = source.joined if options.separator is None else options.separator
    gallery, cards = source.gallery(), ItemCards(images)
    tasks = []
    for number, (name, dialogues) in enumerate(files.items()):
        retriever_of, about = _retriever(options, source, separator, dialogues, number=number)
        checksums = {path.name: checksum(path) for path in (paths[number], options.search_space)}
        covered = {"search_space": str(options.search_space), "coverage": len(source.ids) / len(space)}
        tasks.append(
            Task(
                name=name,
                protocol="ChatIR",
                count=len(dialogues),
                turns=len(dialogues[0].rounds),
                batch=_batches(dialogues, retriever_of, gallery, cards, name),
                facts={**covered, **source.facts, **about, "questions": _questions(dialogues)},
                data=checksums,
                cards=cards,
                advice=f"the weights of {options.encoder} are damaged",
            )
        )
    return tasks


def _check(options: EvalChatIR) -> None:
    """Raise UserError unless there is either an encoder, or the vectors of both sides."""
    if not options.dialogues:
        raise UserError("no dialogues given: give --dialogues FILE, or several for one table")
    own = bool(options.query_vectors or options.gallery_vectors)
    if own == bool(options.encoder) or bool(options.query_vectors) != bool(options.gallery_vectors):
        raise UserError("give either --encoder, or both --query-vectors and --gallery-vectors")
    if own and (unused := [name for name in ("weights", "features", "separator") if getattr(options, name) is not None]):
        raise UserError(f"--{unused[0]} needs an --encoder: it cannot be combined with --query-vectors")
    if own and len(options.query_vectors) != len(options.dialogues):
        counts = f"{len(options.query_vectors)} files for {len(options.dialogues)} of --dialogues"
        raise UserError(f"--query-vectors has {counts}: give one for each")


def _search_space(options: EvalChatIR, space: Sequence[str], images: dict[str, Path]) -> SearchSpace:
    device = pick_device(options.device)
    if options.gallery_vectors:
        return search_space_of_vectors(options.gallery_vectors, space, device)
    assert options.encoder is not None, "_check has seen to it"
    source = EncoderSource(
        options.encoder,
        device,
        options.weights,
        options.features,
        options.images,
        workers=options.workers,
        batch_size=options.batch_size,
    )
    return encode_search_space(source, space, images)


def _retriever(
    options: EvalChatIR, source: SearchSpace, separator: str, dialogues: Sequence[Dialogue], *, number: int
) -> tuple[Callable[[Sequence[int]], Retriever], dict[str, Any]]:
    """The retriever of some dialogs, and how many texts of each round exceed the encoder's limit."""
    rounds = len(dialogues[0].rounds)
    if source.encoder is None:
        path, size = Path(options.query_vectors[number]), source.vectors_ND.shape[1]
        what = "dialogs × rounds × D of the gallery's vectors"
        vectors_NTD = read_unit_vectors(path, (len(dialogues), rounds, size), what).to(source.vectors_ND.device)
        return lambda rows: RecordedQueries(vectors_NTD[list(rows)]), {"query": f"vectors of {path}"}
    cut = []
    for round in range(rounds):
        lengths = source.encoder.lengths([dialog_text(dialogue, round, separator) for dialogue in dialogues])
        cut.append(sum(length > source.encoder.limit for length in lengths))
    query = "each round alone" if dialogues[0].alone else f"rounds joined by {separator!r}"
    retriever = TextRetriever(source.encoder, separator, dialogues[0].alone)
    return lambda rows: retriever, {"query": query, "cut": cut}


def _batches(
    dialogues: Sequence[Dialogue],
    retriever_of: Callable[[Sequence[int]], Retriever],
    gallery: Gallery,
    cards: ItemCards,
    name: str,
) -> Callable[[Sequence[int]], Batch]:
    """What gives the dialogs in some rows: who asks and who replies were recorded; the reply to the empty first offer is the caption."""
    places = gallery.items.positions
    if missing := [dialogue.image for dialogue in dialogues if dialogue.image not in places]:
        what = f"{len(missing)} images sought in the dialogs of {name} have no readable picture, such as {missing[0]}"
        raise UserError(f"{what}: get them first")

    def batch(rows: Sequence[int]) -> Batch:
        some = [dialogues[row] for row in rows]
        questions, answers = zip(*(zip(*recorded_rounds(dialogue), strict=True) for dialogue in some), strict=True)
        offers = [Message(texts=texts) if any(texts) else Message() for texts in zip(*questions, strict=True)]
        user = RecordedReplies([Message(texts=texts) for texts in zip(*answers, strict=True)])
        system = System(retriever_of(rows), RecordedOffers(offers), gallery, cards=cards)
        target_B = torch.tensor([places[dialogue.image] for dialogue in some], device=gallery.vectors_ND.device)
        return Batch(system, user, target_B, Message())

    return batch


def _questions(dialogues: Sequence[Dialogue]) -> dict[str, Any] | None:
    """How often questions repeat in a dialog, and how many rounds have no question mark; None where rounds are whole queries."""
    if dialogues[0].alone:
        return None
    asked = [[question for question, _ in map(split_round, one.rounds[1:]) if question] for one in dialogues]
    count = sum(len(dialogue.rounds) - 1 for dialogue in dialogues)
    return {**repetition(asked), "without_mark": count - sum(map(len, asked))}
