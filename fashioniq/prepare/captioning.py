"""Captioning of pairs by any number of people and processes.

captions/people.NAME.json lists the pairs that people captioned or skipped, in order, and those reserved for
somebody. The caption files are authoritative for captions. All changes are made under one lock, and each file
is replaced atomically, so that a killed process leaves valid files.
"""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from fashioniq.categories import file_name
from fashioniq.data.catalog import SPLITS, Catalog
from fashioniq.files import read_json, typed, write_json
from fashioniq.prepare.caption_files import (
    CaptionError,
    CaptionFiles,
    Written,
    checked_caption,
    checked_name,
)
from fashioniq.prepare.pairs_to_caption import Comparison, Vectors, choose

LEASE = 600.0  # seconds for which a pair is reserved for the person who sees it


class Action(msgspec.Struct, frozen=True):
    """A pair that a person captioned or skipped."""

    person: str
    pair: Comparison
    skipped: bool = False


class Lease(msgspec.Struct, frozen=True):
    """A pair reserved for a person until a time in seconds since 1970; `draft` is the text of an undone
    caption.
    """

    person: str
    pair: Comparison
    until: float
    draft: str = ""


class Work(msgspec.Struct):
    """Content of people.NAME.json."""

    actions: list[Action] = []
    leases: list[Lease] = []


class Progress(NamedTuple):
    """Number of captioned and skipped pairs, of all pairs, and of captions by one person."""

    captioned: int
    skipped: int
    total: int
    own: int


class Desk:
    """Hand out pairs to people, and save what they write.

    A pair is reserved for one person at a time, for `lease` seconds. Nothing is kept in memory but the list of
    pairs, so that several processes can serve the same catalog.
    """

    def __init__(
        self,
        catalog: Catalog,
        pairs: Sequence[Comparison],
        lease: float = LEASE,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.pairs = list(pairs)
        self.files = CaptionFiles(catalog)
        self._path = self.files.folder / f"people.{file_name(catalog.category)}.json"
        self._lease, self._clock = lease, clock

    def next(self, person: str) -> Lease | None:
        """Reserve a pair for a person; None if all others are done or reserved.

        A person who has a pair already gets the same one.
        """
        with self.files.locked():
            work, now = read_work(self.files.catalog), self._clock()
            open_pairs = self._open(work)
            own = next((one for one in work.leases if one.person == person and one.pair in open_pairs), None)
            work.leases = [one for one in work.leases if one.until > now and one.pair in open_pairs]
            reserved = {one.pair for one in work.leases if one.person != person}
            pair = own.pair if own and own.pair not in reserved else None
            pair = pair or next((one for one in open_pairs if one not in reserved), None)
            if pair is None:
                return None
            lease = Lease(person, pair, now + self._lease, own.draft if own and own.pair == pair else "")
            others = [one for one in work.leases if (one.person, one.pair) != (person, pair)]
            self._save(Work(work.actions, [lease, *others]))
            return lease

    def save(self, person: str, pair: Comparison, caption: str) -> None:
        """Save a caption. A person may replace an own caption.

        Raises CaptionError if the caption is unusable, if the pair is unknown, or if another person captioned
        or skipped it first.
        """
        caption, person = checked_caption(caption), checked_name(person)
        with self.files.locked():
            work = self._started(person, pair)
            self.files.add([Written(pair, caption, person)])
            self._finish(work, Action(person, pair))

    def skip(self, person: str, pair: Comparison) -> None:
        """Skip a pair for all people. Raises CaptionError as `save` does."""
        person = checked_name(person)
        with self.files.locked():
            work = self._started(person, pair)
            self.files.remove(pair)
            self._finish(work, Action(person, pair, skipped=True))

    def undo(self, person: str) -> bool:
        """Take back the last caption or skip of a person, who gets the pair again with the text as a draft.

        Returns whether there was one.
        """
        with self.files.locked():
            work = read_work(self.files.catalog)
            known = set(self.pairs)
            last = next(
                (one for one in reversed(work.actions) if one.person == person and one.pair in known), None
            )
            if last is None:
                return False
            draft = "" if last.skipped else self.files.remove(last.pair)
            lease = Lease(person, last.pair, self._clock() + self._lease, draft)
            work.actions.remove(last)
            self._save(Work(work.actions, [lease, *work.leases]))
            return True

    def open_pairs(self) -> list[Comparison]:
        """Pairs that are neither captioned nor skipped."""
        with self.files.threads:
            return self._open(read_work(self.files.catalog))

    def progress(self, person: str = "") -> Progress:
        """Progress of all people, and the number of captions by one person."""
        with self.files.locked():
            people = self._people()
            skipped = self._skipped(read_work(self.files.catalog))
        pairs = set(self.pairs)
        done = pairs & people.keys()
        own = sum(person in people[pair] for pair in done)
        return Progress(len(done), len(pairs & skipped.keys() - done), len(self.pairs), own)

    def captions_by_split(self) -> dict[str, int]:
        """Number of pairs with captions by people in each split of the catalog."""
        return {split: len(self.files.by_people(split)) for split in SPLITS}

    def people(self) -> Counter[str]:
        """Number of captions of each person."""
        return Counter(
            name for split in SPLITS for names in self.files.by_people(split).values() for name in names
        )

    def _people(self) -> dict[Comparison, list[str]]:
        splits = dict.fromkeys(pair.split for pair in self.pairs)
        return {pair: names for split in splits for pair, names in self.files.by_people(split).items()}

    def _started(self, person: str, pair: Comparison) -> Work:
        """The work so far. Raises CaptionError if the person cannot caption the pair now."""
        if pair not in self.pairs:
            raise CaptionError("this pair is not among those to caption; reload the page")
        work = read_work(self.files.catalog)
        names = self.files.by_people(pair.split).get(pair)
        if names is not None and names != [person]:
            raise CaptionError("another person has captioned this pair meanwhile; yours was not saved")
        if self._skipped(work).get(pair, person) != person:
            raise CaptionError("another person has skipped this pair meanwhile; yours was not saved")
        return work

    def _finish(self, work: Work, action: Action) -> None:
        """Record an action as the only one on its pair, and end the leases of the pair."""
        actions = [one for one in work.actions if one.pair != action.pair]
        leases = [one for one in work.leases if one.pair != action.pair]
        self._save(Work([*actions, action], leases))

    def _open(self, work: Work) -> list[Comparison]:
        closed = self._people().keys() | self._skipped(work).keys()
        return [pair for pair in self.pairs if pair not in closed]

    @staticmethod
    def _skipped(work: Work) -> dict[Comparison, str]:
        return {one.pair: one.person for one in work.actions if one.skipped}

    def _save(self, work: Work) -> None:
        write_json(self._path, msgspec.to_builtins(work), indent=None)


def read_work(catalog: Catalog) -> Work:
    """Work of people on a category so far. Raises UserError if its file is damaged."""
    path = catalog.root / "captions" / f"people.{file_name(catalog.category)}.json"
    if not path.exists():
        return Work()
    content = read_json(path, "the list of skipped and reserved pairs", dict)
    return typed(content, Work, path, "remove it; captions are kept, skipped pairs are asked again")


def plan(
    catalog: Catalog, counts: Mapping[str, int], seed: int, vectors: Vectors | None = None
) -> list[Comparison]:
    """Pairs to caption: those that people captioned or skipped, and newly chosen ones up to the counts.

    Pairs with captions by people that were not written with this package are neither counted nor asked. The
    splits alternate, so that each soon has captions. Raises the errors of `choose`.
    """
    files, skipped = CaptionFiles(catalog), {one.pair for one in read_work(catalog).actions if one.skipped}
    places: list[tuple[float, Comparison]] = []
    for split, count in counts.items():
        captioned = files.by_people(split)
        done = [pair for pair, names in captioned.items() if names]
        done += [pair for pair in skipped if pair.split == split and pair not in captioned]
        new = choose(catalog, split, count - len(done), seed, vectors=vectors, taken={*captioned, *done})
        places += [(0.0, pair) for pair in sorted(done)]
        places += [((number + 0.5) / len(new), pair) for number, pair in enumerate(new)]
    return [pair for _, pair in sorted(places, key=lambda place: place[0])]
