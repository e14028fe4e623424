"""Recorded sessions of several turns as dialogs: the items shown and the replies are those of the session."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fashioniq.askers.recorded_items import RecordedItems
from fashioniq.config import EvalDialogs
from fashioniq.data.cards import ItemCards
from fashioniq.data.catalog import Catalog
from fashioniq.data.facts import SessionFacts
from fashioniq.data.sessions import CAPTIONS, SESSION_SPLITS, Session, leakage, read_sessions
from fashioniq.features.cards import AttributeWords
from fashioniq.features.selection import pairs_with_targets
from fashioniq.files import UserError
from fashioniq.loop.gallery import Gallery
from fashioniq.loop.rollout import System
from fashioniq.loop.task import Batch, Task
from fashioniq.runs.evaluation_inputs import EvaluationInputs, facts_of
from fashioniq.runs.wording import with_words_of
from fashioniq.users.noisy import chances, corrupt, negation
from fashioniq.users.recorded import RecordedReplies


@dataclass(frozen=True)
class Usable:
    """Sessions whose products are all in the gallery, how many there are in all, and which are clean."""

    sessions: list[Session]
    clean: list[bool]
    count: int


def check_recorded(options: EvalDialogs, users: Sequence[str], catalog: Catalog) -> None:
    """Raise UserError if the recorded words of one of several users are missing, before the others are evaluated."""
    check_sessions(replace(options, user=["sessions" if "sessions" in users else users[0]], index=None))
    if "human" in users:
        pairs_with_targets(catalog, options.split)
    if "sessions" in users:
        _usable(options, catalog, set(catalog.ids(options.split)))


def check_sessions(options: EvalDialogs) -> None:
    """Raise UserError for options that recorded sessions need, or cannot be combined with."""
    if options.only_user != "sessions":
        if options.sessions:
            raise UserError("--sessions needs --user sessions; add it or leave --sessions out")
        return
    if options.sessions is None:
        raise UserError("--user sessions needs the folder of Multiturn FashionIQ; give --sessions FOLDER")
    if options.index:
        raise UserError("--index cannot be combined with --user sessions, which shows the recorded products")


def session_tasks(options: EvalDialogs, parts: EvaluationInputs) -> list[Task]:
    """Recorded sessions inside the gallery as dialogs, one task for each number of turns.

    Sessions of both files are used: retrievers are trained on the train split of the catalog, so none has seen a
    product of val. Raises UserError without such a session.
    """
    folder = options.sessions
    assert folder is not None, "checked by check_sessions"
    covered = len(parts.items) / len(parts.catalog.ids(options.split))
    usable = _usable(options, parts.catalog, parts.items.positions)
    gallery = Gallery(parts.items, parts.items.embedded(parts.retriever.embed_images))
    cards = ItemCards(parts.catalog.images, parts.catalog.titles, AttributeWords(parts.store))
    system = System(parts.retriever, RecordedItems(torch.tensor([])), gallery, parts.vocabulary, cards)
    assert options.run is not None, "the folder of the results depends on it"
    if options.score == "words":
        system = with_words_of(system, options.run, parts.catalog, parts.vocabulary)
    tasks = []
    for turns in sorted({len(session.steps) for session in usable.sessions}):
        rows = [row for row, session in enumerate(usable.sessions) if len(session.steps) == turns]
        sessions = [usable.sessions[row] for row in rows]
        of_user = {
            "user": "recorded sessions",
            "captions": "human",
            "decoding": "none",
            "errors": options.word_noise,
            "sessions": str(folder),
            "coverage_of_sessions": len(usable.sessions) / usable.count,
            "clean_rows": [number for number, row in enumerate(rows) if usable.clean[row]],
        }
        facts = facts_of(options, parts, of_user) | {"coverage": covered, "exclude_shown": False}
        tasks.append(
            Task(
                name=f"{turns}-turns",
                protocol="recorded sessions",
                count=len(sessions),
                turns=turns,
                batch=_Batches(system, parts, sessions, options).batch,
                facts=SessionFacts(**facts),
                data={parts.catalog.category: parts.catalog.fingerprint()},
                truth=parts.truth,
                retriever=parts.about.provenance or None,
                cards=cards,
                repeated=True,
                advice=f"{options.run} has diverged; train it again with a lower --learning-rate",
            )
        )
    return tasks


def _usable(options: EvalDialogs, catalog: Catalog, products: Collection[str]) -> Usable:
    """Sessions whose products are all among these; those of the train file do not count as clean.

    One of the two files may be missing.
    """
    folder = options.sessions
    assert folder is not None, "checked by check_sessions"
    files: dict[str, list[Session]] = {}
    errors: dict[str, UserError] = {}
    for split in SESSION_SPLITS:
        try:
            files[split] = read_sessions(folder, catalog.category, split)
        except UserError as error:
            errors[split] = error
    if not files:
        raise errors[SESSION_SPLITS[-1]]
    found = [session for split in SESSION_SPLITS for session in files.get(split, [])]
    inside = [session for session in found if session.inside(products)]
    if not inside:
        raise UserError(
            f"expected sessions whose products are all in the {options.split} split of {catalog.category} and "
            f"have features, found none of {len(found)} in {folder}; give --split val"
        )
    leaks = leakage(files.get("train", []))
    clean = [session.split != "train" and not leaks(session) for session in inside]
    return Usable(inside, clean, len(found))


class _Batches:
    """Dialogs of sessions with the same number of turns: items N×T, words N×T×L and targets N.

    Where no noise is added, the texts are as they were typed.
    """

    def __init__(
        self, system: System, parts: EvaluationInputs, sessions: Sequence[Session], options: EvalDialogs
    ) -> None:
        self.system, position_of = system, parts.items.positions
        turns, max_words = len(sessions[0].steps), parts.retriever.max_words * CAPTIONS
        self.item_NT = torch.tensor(
            [[position_of[step.item] for step in session.steps] for session in sessions], device=parts.device
        )
        self.target_N = torch.tensor(
            [position_of[session.target] for session in sessions], device=parts.device
        )
        texts = [step.text for session in sessions for step in session.steps]
        words_RL = parts.vocabulary.encode([system.corrected(text) for text in texts], max_words)
        self.texts = None if options.word_noise else texts
        if options.word_noise:
            chance_TNL = chances(options.seed, turns, len(sessions), max_words)
            chance_RL = chance_TNL.transpose(0, 1).reshape(words_RL.shape)
            words_RL = corrupt(words_RL, options.word_noise, chance_RL, negation(parts.vocabulary))
        self.words_NTL: Tensor = words_RL.view(len(sessions), turns, max_words).to(parts.device)

    def batch(self, rows: Sequence[int]) -> Batch:
        """Dialogs with these numbers."""
        row_B, turns = torch.tensor(list(rows), device=self.target_N.device), self.item_NT.shape[1]
        asker = RecordedItems(self.item_NT[row_B])
        said = self.texts
        texts = None if said is None else [said[row * turns : (row + 1) * turns] for row in rows]
        user = RecordedReplies.of_words(self.words_NTL[row_B], texts)
        return Batch(replace(self.system, asker=asker), user, self.target_N[row_B], asker.first)
