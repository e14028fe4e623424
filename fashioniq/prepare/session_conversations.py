"""Recorded sessions in people's words as conversations: those of Multiturn FashionIQ inside one split of the catalog.

The person's words stand beside the first picture, and after each later one that the assistant shows. Train also has the
captioned pairs of the catalog as conversations of one round. There is no sub-task t: the words are about the pictures.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from fashioniq.categories import file_name
from fashioniq.data.catalog import Catalog
from fashioniq.data.conversations import (
    ConversationSplit,
    Item,
    Picture,
    Sample,
    Source,
    Subtask,
    Text,
    Turn,
)
from fashioniq.data.sessions import SESSION_SPLITS, Session, read_sessions
from fashioniq.files import UserError
from fashioniq.prepare.conversation_files import Samples, caption_of, picture_from

WRITER = "people"
SPLITS: dict[ConversationSplit, str] = {
    "train": "train",
    "test": "val",
}  # of the conversations: of the catalog


def items_of(catalogs: Sequence[Catalog], out: Path) -> dict[str, Item]:
    """Products of train, and those of val as test; no session is inside the catalog's test split."""
    return {
        name: Item(
            name,
            image=picture_from(out, catalog.images.get(name)),
            caption=caption_of(catalog.titles.get(name, ""), catalog.labels.get(name) or []),
            source="catalog",
            split=split,
            category=catalog.category,
        )
        for catalog in catalogs
        for split, name_of_split in SPLITS.items()
        for name in catalog.ids(name_of_split)
    }


def samples_of(catalogs: Sequence[Catalog], folder: Path) -> Samples:
    """Samples of i and m of all categories.

    A session of m is named as in the score files of Multiturn FashionIQ's authors, SPLIT_CATEGORY_FIRST_TARGET_NUMBER;
    its last round, a sample of i, has i- before that. Raises UserError for a missing or malformed file, and without a
    session inside a split.
    """
    made: dict[tuple[Subtask, ConversationSplit], list[Sample]] = {
        (subtask, split): [] for subtask in ("t", "i", "m") for split in SPLITS
    }
    for catalog in catalogs:
        named = list(_named(catalog, folder))
        for split, name_of_split in SPLITS.items():
            products = set(catalog.ids(name_of_split))
            for name, session in named:
                if session.inside(products) and session.target not in session.items[:-1]:
                    last = Turn("user", (Picture(session.steps[-1].item), Text(session.steps[-1].text)))
                    made["i", split].append(_sample(f"i-{name}", "i", (last,), session.target, split))
                    if len(session.steps) > 1:
                        made["m", split].append(
                            _sample(name, "m", tuple(_turns(session)), session.target, split)
                        )
        for number, pair in enumerate(catalog.pairs("train")):
            if pair.target and pair.target != pair.candidate:
                turn = Turn("user", (Picture(pair.candidate), Text(" and ".join(pair.captions))))
                name = f"i-pair_{catalog.category}_{number}"
                made["i", "train"].append(_sample(name, "i", (turn,), pair.target, "train"))
    for split in SPLITS:
        if not made["m", split]:
            raise UserError(
                f"expected sessions inside the {SPLITS[split]} split of the catalog, found none in {folder}; give the "
                "folders of Fashion IQ with --data and of Multiturn FashionIQ with --sessions"
            )
    return made


def _named(catalog: Catalog, folder: Path) -> Iterator[tuple[str, Session]]:
    """Sessions of both files with their names."""
    short = file_name(catalog.category)
    for split in SESSION_SPLITS:
        for number, session in enumerate(read_sessions(folder, catalog.category, split)):
            yield f"{split}_{short}_{session.first}_{session.target}_{number}", session


def _turns(session: Session) -> Iterator[Turn]:
    for number, step in enumerate(session.steps):
        if number == 0:
            yield Turn("user", (Picture(step.item), Text(step.text)))
        else:
            yield Turn("assistant", (Picture(step.item),))
            yield Turn("user", (Text(step.text),))


def _sample(
    name: str, subtask: Subtask, turns: tuple[Turn, ...], target: str, split: ConversationSplit
) -> Sample:
    return Sample(
        name, subtask, kind="session", turns=turns, target=target, source=Source(WRITER), split=split
    )
