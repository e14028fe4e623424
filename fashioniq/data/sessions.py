"""Recorded sessions of several turns in people's words: Multiturn FashionIQ (Yuan and Lam, SIGIR 2021).

    dress.val.json          [{"target": [url, id], "reference": [[url, [caption, caption], id], …]}, …]
    split.dress.val.json    [id, …], the gallery

The captions of a turn describe the step from its item to the item of the next turn, and those of the last turn
the step to the target. In the release, the sessions are in `data/` and the galleries in `image_splits/`; all
files may also be in one folder.
"""

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fashioniq.categories import file_name
from fashioniq.data.catalog import Pair
from fashioniq.data.words import tokenize
from fashioniq.files import UserError, read_json

SESSION_SPLITS = ("train", "val")
CAPTIONS = 2  # captions per turn, which are joined
_SESSION_FOLDERS, _GALLERY_FOLDERS = (".", "data"), (".", "image_splits", "../image_splits")


@dataclass(frozen=True)
class SessionStep:
    """One turn: the item shown, and what the person said about it: usually two captions, sometimes one or
    three.
    """

    item: str
    captions: tuple[str, ...]

    @property
    def text(self) -> str:
        """All captions, joined by "and"."""
        return " and ".join(self.captions)


@dataclass(frozen=True)
class Session:
    """A session of one turn or more, and its target; `split` is that of its file."""

    steps: tuple[SessionStep, ...]
    target: str
    split: str = "val"

    @property
    def first(self) -> str:
        """The item shown first."""
        return self.steps[0].item

    @property
    def items(self) -> tuple[str, ...]:
        """The items in order, the target last."""
        return (*(step.item for step in self.steps), self.target)

    @property
    def last_pair(self) -> tuple[str, str]:
        """The last item shown, and the target."""
        return self.steps[-1].item, self.target

    @property
    def turns(self) -> list[tuple[str, str]]:
        """The item and the text of each turn."""
        return [(step.item, step.text) for step in self.steps]

    @property
    def pairs(self) -> list[Pair]:
        """The step of each turn as a pair: its item, and the item that its captions describe."""
        steps = zip(self.steps, self.items[1:], strict=True)
        return [Pair(target=target, candidate=step.item, captions=step.captions) for step, target in steps]

    def inside(self, products: Collection[str]) -> bool:
        """Whether all items, and the target, are among `products`."""
        return all(name in products for name in self.items)


def read_sessions(folder: Path, category: str, split: str) -> list[Session]:
    """Sessions of a category, `split` is train or val.

    Captions without a word are dropped. Raises UserError for a missing or malformed file, and for a turn
    without a caption.
    """
    path = _found(folder, _SESSION_FOLDERS, f"{file_name(category)}.{split}.json", category)
    rows = read_json(path, "the sessions", list)
    if not rows:
        raise UserError(f"expected sessions, found none in {path}; copy the released file again")
    return [_session(row, split, f"{path}, entry {number}") for number, row in enumerate(rows)]


def holds_sessions(folder: Path) -> bool:
    """Whether a folder has sessions to train with, of any category."""
    return any(any((folder / place).glob("*.train.json")) for place in _SESSION_FOLDERS)


def sessions_among(folder: Path, category: str, products: Collection[str]) -> list[Session]:
    """The sessions of train of which all products are among these; raises UserError without one."""
    sessions = read_sessions(folder, category, "train")
    found = [session for session in sessions if session.inside(products)]
    if not found:
        raise UserError(
            f"none of the {len(sessions):,} sessions of {category} in {folder} is about products of train alone that "
            f"have features ({len(products):,} have); leave the folder out of --users"
        )
    return found


def with_steps(pairs: Sequence[Pair], sessions: Mapping[str, Sequence[Session]]) -> list[Pair]:
    """Captioned pairs and those of the steps of sessions, which have some of the pairs again."""
    steps = dict.fromkeys(pair for some in sessions.values() for one in some for pair in one.pairs)
    known = set(pairs)
    return [*pairs, *(step for step in steps if step not in known)]


def read_gallery(folder: Path, categories: str | Sequence[str], split: str) -> list[str]:
    """Ids of the products of a category's split, or of several, each once.

    Some ids are in the lists of two categories. Raises UserError for a missing or malformed file.
    """
    ids: list[str] = []
    for category in [categories] if isinstance(categories, str) else categories:
        path = _found(folder, _GALLERY_FOLDERS, f"split.{file_name(category)}.{split}.json", category)
        listed = read_json(path, "the gallery of the sessions", list)
        if not listed or not all(isinstance(name, str) and name for name in listed):
            raise UserError(f"expected a list of product ids in {path}; copy the released file again")
        ids += listed
    return list(dict.fromkeys(ids))


def leakage(train: Iterable[Session]) -> Callable[[Session], bool]:
    """Function that returns whether the end of a session is known from training.

    The last step, from the last item to the target, is a step of a train session, or the session ends with a whole one.
    """
    train = list(train)
    steps = {pair for session in train for pair in zip(session.items, session.items[1:], strict=False)}
    whole = {session.items for session in train}

    def leaks(session: Session) -> bool:
        tails = (session.items[start:] for start in range(len(session.steps)))
        return session.last_pair in steps or any(tail in whole for tail in tails)

    return leaks


def _found(folder: Path, places: Sequence[str], name: str, category: str) -> Path:
    if not folder.is_dir():
        raise UserError(
            f"there is no folder {folder}; give the folder of Multiturn FashionIQ with --sessions FOLDER"
        )
    if found := [path for place in places if (path := folder / place / name).is_file()]:
        return found[0]
    raise UserError(
        f"expected {name} in {folder}, found no such file; give the folder of Multiturn FashionIQ, which has "
        f"train and val of dresses, shirts and tops, found --category {category}"
    )


def _session(row: Any, split: str, where: str) -> Session:
    try:
        (_, target), references = row["target"], row["reference"]
        steps = tuple(
            SessionStep(name, tuple(text.strip() for text in captions if tokenize(text)))
            for _, captions, name in references
        )
    except (TypeError, ValueError, KeyError) as error:
        raise UserError(
            f'{where}: expected {{"target": [url, id], "reference": [[url, [caption, …], id], …]}}, found '
            f"{json.dumps(row)[:80]}; copy the released file again"
        ) from error
    if not steps or not isinstance(target, str) or not all(isinstance(step.item, str) for step in steps):
        raise UserError(f"{where}: expected a target and at least one turn, found {json.dumps(row)[:80]}")
    if any(not step.captions for step in steps):
        raise UserError(f"{where}: a turn has no caption with a word; remove the session")
    return Session(steps, target, split)
