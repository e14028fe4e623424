"""ChatIR's system: a person describes an image and answers questions; a text encoder encodes the whole
dialog.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch

from fashioniq.askers.attribute_questions import CandidateAware, questions_from_labels
from fashioniq.askers.limited import Limited
from fashioniq.askers.recorded import RecordedOffers
from fashioniq.config import EvalChatIR
from fashioniq.data.cards import ItemCards
from fashioniq.data.catalog import Catalog
from fashioniq.data.catalog_files import ATTRIBUTE_LISTS, picture_paths
from fashioniq.data.dialogues import (
    Dialogue,
    Round,
    dialog_text,
    each,
    in_search_space,
    join_rounds,
    last_round,
    read_dialogues,
    read_search_space,
)
from fashioniq.data.facts import Questions, RoundFacts
from fashioniq.data.topics import topics_of
from fashioniq.encoders.protocol import unit
from fashioniq.features.cards import cards_of
from fashioniq.features.store import FeatureStore
from fashioniq.files import UserError, checksum
from fashioniq.loop.gallery import Gallery
from fashioniq.loop.messages import Message, Retriever
from fashioniq.loop.rollout import System
from fashioniq.loop.task import Batch, Task
from fashioniq.metrics.chat import repetition
from fashioniq.models.device import pick_device
from fashioniq.models.text import RecordedQueries, TextRetriever
from fashioniq.runs import DialogEncoderRun, read_run
from fashioniq.runs.galleries import gallery_of
from fashioniq.runs.search_space import SearchSpace, read_unit_vectors, search_space, search_space_of_vectors
from fashioniq.runs.trained import load_dialog_encoder
from fashioniq.runs.training_data import Selection, first_path, recorded_settings, store_of
from fashioniq.users.recorded import RecordedReplies

RetrieverOf = Callable[[Sequence[int]], Retriever]  # numbers of dialogs in the file → their retriever
CANDIDATES = 100  # nearest products considered in choosing a question


class RunData(NamedTuple):
    """Catalog of a run, None for a run without a category, and its feature store."""

    catalog: Catalog | None
    store: FeatureStore


def run_data(run: Path, *, features: Path | None, data: Path | None, category: str | None) -> RunData:
    """Data of a run of train-dialog-encoder; arguments take precedence.

    Raises UserError if they are missing.
    """
    read_run(run, DialogEncoderRun)
    settings = recorded_settings(run)
    own = None if data else first_path(settings.get("features"))
    data, category = data or first_path(settings.get("data")), category or settings.get("category")
    store = store_of(run, data, category, features or own)
    return RunData(Catalog(data, category) if data and category else None, store)


def load(run: Path, chosen: Selection) -> System:
    """Load the system of a run of train-dialog-encoder, which asks the question that splits the candidates
    best.

    Without labels in the catalog it asks no questions. Without a category the gallery holds all images of the
    feature store. Its vectors may be `stored` in a folder. Raises UserError if a file is missing or does not
    match the run.
    """
    data = run_data(run, features=chosen.features, data=chosen.data, category=chosen.category)
    return system_of(run, chosen, data)


def system_of(run: Path, chosen: Selection, data: RunData) -> System:
    """The system of `load` on data that are open. Raises UserError."""
    catalog, store = data
    encoder, separator = load_dialog_encoder(run, store)
    encoder.to(pick_device(chosen.device)).requires_grad_(False)
    ids = catalog.gallery_ids(chosen.split) if catalog else store.ids
    found = store.items(ids, read=chosen.stored is None).to(pick_device(chosen.device))
    gallery = gallery_of(
        run, found, lambda x_BD: unit(encoder.embed_images(x_BD)), store.fingerprint(), chosen.stored
    )
    cards = cards_of(catalog, store, found.ids) if catalog else ItemCards()
    retriever = TextRetriever(encoder, each(partial(join_rounds, separator=separator)))
    vocabulary = getattr(encoder, "vocabulary", None)  # CLIP and BLIP encode any word
    return System(retriever, _asker(catalog, found.ids), gallery, vocabulary, cards)


def _asker(catalog: Catalog | None, ids: list[str]) -> Limited:
    """Asker of questions about attributes in which the products differ, each at most once."""
    topics = topics_of(catalog.labels, catalog.all_ids()) if catalog else []
    if catalog is None or not topics:
        return Limited(None, 0)
    labels = [catalog.labels.get(name, [[]] * ATTRIBUTE_LISTS) for name in ids]
    return Limited(CandidateAware(questions_from_labels(topics, labels), CANDIDATES), len(topics))


Wrap = Callable[
    [RetrieverOf, SearchSpace, Gallery, bool],  # and whether each round is a whole query
    tuple[RetrieverOf, dict[str, Any], Callable[[], list[dict[str, float]]]],
]


def build(options: EvalChatIR, wrap: Wrap | None = None) -> list[Task]:
    """Tasks of the recorded dialogs, one for each file; the search space is ranked after every round.

    `wrap` makes another retriever of the text retriever, with its facts and its costs.

    Raises UserError if a file is missing or does not match, or if options exclude each other.
    """
    _check(options)
    space = read_search_space(options.search_space)
    alone = {"auto": None, "rounds": False, "last": True}[options.query]
    paths = [Path(path) for path in options.dialogues]
    files = {path.stem: in_search_space(read_dialogues(path, alone), space, path) for path in paths}
    if len(files) < len(paths):
        raise UserError(
            f"expected different file names in --dialogues, found {', '.join(map(str, paths))}; rename one"
        )
    images = picture_paths(options.images, space)
    source = _search_space(options, space)
    if options.images and not images:
        print(
            f"note: {options.images} has no picture of the search space, such as {space[0]}; the page has "
            "no pictures"
        )
    separator = source.joined if options.separator is None else options.separator
    gallery, cards = source.gallery(), ItemCards(images)
    tasks = []
    for number, (name, dialogues) in enumerate(files.items()):
        retriever_of, about = _retriever(options, source, separator, dialogues, number=number)
        costs: Callable[[], list[dict[str, float]]] = list
        if wrap:
            retriever_of, further, costs = wrap(retriever_of, source, gallery, dialogues[0].alone)
            about = about | further
        checksums = {path.name: checksum(path) for path in (paths[number], options.search_space)}
        covered: dict[str, Any] = {
            "search_space": str(options.search_space),
            "coverage": len(source.ids) / len(space),
        }
        tasks.append(
            Task(
                name=name,
                protocol="ChatIR",
                count=len(dialogues),
                turns=len(dialogues[0].rounds),
                batch=_batches(dialogues, retriever_of, gallery, cards, name),
                facts=RoundFacts(**covered, **source.facts, **about, questions=_questions(dialogues)),
                data=checksums,
                cards=cards,
                advice=f"the weights of {options.encoder} are damaged",
                costs=costs,
            )
        )
    return tasks


def _check(options: EvalChatIR) -> None:
    """Raise UserError unless either an encoder or vectors of both queries and images are given."""
    if not options.dialogues:
        raise UserError("no dialogs given; give --dialogues FILE, or several files for one table")
    own = bool(options.query_vectors or options.gallery_vectors)
    if own == bool(options.encoder) or bool(options.query_vectors) != bool(options.gallery_vectors):
        raise UserError("give either --encoder, or both --query-vectors and --gallery-vectors")
    if own and (
        unused := [
            name for name in ("weights", "features", "separator") if getattr(options, name) is not None
        ]
    ):
        raise UserError(f"--{unused[0]} needs --encoder; it cannot be combined with --query-vectors")
    if own and len(options.query_vectors) != len(options.dialogues):
        counts = f"expected {len(options.dialogues)}, found {len(options.query_vectors)}"
        raise UserError(f"--query-vectors needs one file for each of --dialogues: {counts}")


def _search_space(options: EvalChatIR, space: Sequence[str]) -> SearchSpace:
    device = pick_device(options.device)
    if options.gallery_vectors:
        return search_space_of_vectors(options.gallery_vectors, space, device)
    assert options.encoder is not None, "_check requires it"
    return search_space(options.encoder, space, device, store=options.features, weights=options.weights)


def _retriever(
    options: EvalChatIR, source: SearchSpace, separator: str, dialogues: Sequence[Dialogue], *, number: int
) -> tuple[Callable[[Sequence[int]], Retriever], dict[str, Any]]:
    """Retriever as a function of the dialogs' numbers, and the number of truncated texts per round."""
    rounds = len(dialogues[0].rounds)
    if source.encoder is None:
        path, size = Path(options.query_vectors[number]), source.vectors_ND.shape[1]
        what = "dialogs × rounds × D of the gallery's vectors"
        vectors_NTD = read_unit_vectors(path, (len(dialogues), rounds, size), what).to(
            source.vectors_ND.device
        )
        return lambda rows: RecordedQueries(vectors_NTD[list(rows)]), {"query": f"vectors of {path}"}
    texts = ([dialog_text(one, round, separator) for one in dialogues] for round in range(rounds))
    cut = [sum(length > source.encoder.limit for length in source.encoder.lengths(said)) for said in texts]
    query = "each round alone" if dialogues[0].alone else f"rounds joined by {separator!r}"
    write = last_round if dialogues[0].alone else partial(join_rounds, separator=separator)
    retriever = TextRetriever(source.encoder, each(write))
    return lambda rows: retriever, {"query": query, "cut": cut}


def _batches(
    dialogues: Sequence[Dialogue],
    retriever_of: Callable[[Sequence[int]], Retriever],
    gallery: Gallery,
    cards: ItemCards,
    name: str,
) -> Callable[[Sequence[int]], Batch]:
    """Function that returns the dialogs with the given numbers.

    Questions and answers are recorded. The reply to the first offer, which is empty, is the caption.
    """
    position_of = gallery.items.positions
    if missing := [dialogue.image for dialogue in dialogues if dialogue.image not in position_of]:
        what = f"{len(missing)} target images of {name} have no readable picture, such as {missing[0]}"
        raise UserError(f"{what}; add the pictures, or remove their dialogs")

    def batch(rows: Sequence[int]) -> Batch:
        selected = [dialogues[row] for row in rows]
        rounds = [
            [_verbatim(said) for said in one] for one in zip(*(d.rounds for d in selected), strict=True)
        ]
        asked = [[said.question for said in one] for one in rounds]
        offers = [Message(questions=questions if any(questions) else None) for questions in asked]
        user = RecordedReplies([Message(texts=[said.answer for said in one]) for one in rounds])
        system = System(retriever_of(rows), RecordedOffers(offers), gallery, cards=cards)
        target_B = torch.tensor(
            [position_of[dialogue.image] for dialogue in selected], device=gallery.vectors_ND.device
        )
        return Batch(system, user, target_B, Message())

    return batch


def _verbatim(said: Round) -> Round:
    """A round whose question and answer make its text again; else the whole text is the answer."""
    return said if said == Round.of(said.question, said.answer) else Round(said)


def _questions(dialogues: Sequence[Dialogue]) -> Questions | None:
    """Repetition of questions and number of rounds without a question mark; None if each round is a complete
    query.
    """
    if dialogues[0].alone:
        return None
    asked = [[said.question for said in one.rounds[1:] if said.question] for one in dialogues]
    count = sum(len(dialogue.rounds) - 1 for dialogue in dialogues)
    return Questions(**repetition(asked), without_mark=count - sum(map(len, asked)))
