"""Recorded sessions, and other dialogs that people had: the items shown and the replies are the recorded ones."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial

import torch

from fashioniq.askers.recorded import recorded_items
from fashioniq.config import EvalDialogs
from fashioniq.data.catalog import Catalog
from fashioniq.data.facts import SessionFacts
from fashioniq.data.sessions import CAPTIONS, SESSION_SPLITS, Session, leakage, read_sessions
from fashioniq.features.selection import pairs_with_targets
from fashioniq.files import UserError
from fashioniq.loop.rollout import System
from fashioniq.loop.task import Batch, Task
from fashioniq.runs.evaluation_inputs import EvaluationInputs, facts_of_dialogs
from fashioniq.users.noisy import corrupt, negation, noise_draws
from fashioniq.users.recorded import RecordedReplies

BatchOf = Callable[[System, Sequence[int]], Batch]  # the dialogs with these numbers


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


def session_tasks(options: EvalDialogs, parts: EvaluationInputs, system: System) -> list[Task]:
    """Recorded sessions inside the gallery as dialogs, one task for each number of turns.

    Sessions of both files are used: retrievers are trained on the train split of the catalog, so none has seen a
    product of val. Raises UserError without such a session.
    """
    covered = len(parts.items) / len(parts.catalog.ids(options.split))
    sessions, clean, count = _usable(options, parts.catalog, parts.items.positions)
    tasks = []
    for turns in sorted({len(session.steps) for session in sessions}):
        rows = [row for row, session in enumerate(sessions) if len(session.steps) == turns]
        dialogs = [(sessions[row].target, sessions[row].turns) for row in rows]
        of_user = {
            "user": "recorded sessions",
            "captions": "human",
            "decoding": "none",
            "errors": options.word_noise,
            "sessions": str(options.sessions),
            "coverage_of_sessions": len(sessions) / count,
            "clean_rows": [number for number, row in enumerate(rows) if clean[row]],
        }
        facts = facts_of_dialogs(options, parts, of_user) | {"coverage": covered, "exclude_shown": False}
        batch_of = recorded_dialogs(options, parts, system, dialogs, parts.retriever.max_words * CAPTIONS)
        tasks.append(
            Task(
                name=f"{turns}-turns",
                protocol="recorded sessions",
                count=len(rows),
                turns=turns,
                batch=partial(batch_of, system),
                facts=SessionFacts(**facts),
                data={parts.catalog.category: parts.catalog.fingerprint()},
                truth=parts.truth,
                retriever=parts.about.provenance or None,
                cards=system.cards,
                repeated=True,
                advice=f"{options.run} has diverged; train it again with a lower --learning-rate",
            )
        )
    return tasks


def recorded_dialogs(
    options: EvalDialogs,
    parts: EvaluationInputs,
    system: System,
    dialogs: Sequence[tuple[str, Sequence[tuple[str, str]]]],
    max_words: int,
) -> BatchOf:
    """Recorded dialogs of the same number of turns: the target of each, and the item shown and the reply of each turn.

    Where no noise is added, the texts are as they were typed.
    """
    turns, position_of = len(dialogs[0][1]), parts.items.positions
    steps = [step for _, some in dialogs for step in some]
    item_NT = torch.tensor([position_of[item] for item, _ in steps], device=parts.device).view(-1, turns)
    target_N = torch.tensor([position_of[target] for target, _ in dialogs], device=parts.device)
    words_RL = parts.vocabulary.encode([system.corrected(text) for _, text in steps], max_words)
    if options.word_noise:
        chance_NTL = noise_draws(options.seed, turns, len(dialogs), max_words).transpose(0, 1)
        chance_RL = chance_NTL.reshape(words_RL.shape)
        words_RL = corrupt(words_RL, options.word_noise, chance_RL, negation(parts.vocabulary))
    words_NTL = words_RL.view(-1, turns, max_words).to(parts.device)

    def batch(system: System, rows: Sequence[int]) -> Batch:
        row_B = torch.tensor(list(rows), device=parts.device)
        asker = recorded_items(item_NT[row_B])
        texts = None if options.word_noise else [[text for _, text in dialogs[row][1]] for row in rows]
        user = RecordedReplies.of_words(words_NTL[row_B], texts)
        return Batch(replace(system, asker=asker), user, target_N[row_B], asker.offers[0])

    return batch


def _usable(
    options: EvalDialogs, catalog: Catalog, products: Collection[str]
) -> tuple[list[Session], list[bool], int]:
    """Sessions whose products are all among these, which of them are clean, and how many there are in all.

    Those of the train file do not count as clean. One of the two files may be missing.
    """
    folder = options.sessions
    assert folder is not None, "checked by check_sessions"
    files: dict[str, list[Session]] = {}
    for split in SESSION_SPLITS:
        try:
            files[split] = read_sessions(folder, catalog.category, split)
        except UserError:
            if not files and split == SESSION_SPLITS[-1]:
                raise
    found = [session for split in SESSION_SPLITS for session in files.get(split, [])]
    inside = [session for session in found if session.inside(products)]
    if not inside:
        raise UserError(
            f"expected sessions whose products are all in the {options.split} split of {catalog.category} and "
            f"have features, found none of {len(found)} in {folder}; give --split val"
        )
    leaks = leakage(files.get("train", []))
    clean = [session.split != "train" and not leaks(session) for session in inside]
    return inside, clean, len(found)
