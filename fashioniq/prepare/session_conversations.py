"""Recorded sessions in people's words as conversations: those of Multiturn FashionIQ inside one split of the catalog.

The person's words stand beside the first picture, and after each later one that the assistant shows. Train also has the
captioned pairs of the catalog as conversations of one round. There is no sub-task t: the words are about the pictures.
"""

from pathlib import Path

from fashioniq.categories import file_name
from fashioniq.data.catalog import Catalog
from fashioniq.data.conversation_records import (
    SUBTASKS,
    ConversationItem,
    ConversationSample,
    ConversationSplit,
    ConversationTurn,
    SampleOrigin,
    Subtask,
    Text,
    TurnPicture,
)
from fashioniq.data.sessions import SESSION_SPLITS, SessionStep, read_sessions
from fashioniq.files import UserError
from fashioniq.prepare.conversation_files import Samples, caption_of, picture_from

WRITER = "people"
SPLITS: dict[ConversationSplit, str] = {
    "train": "train",
    "test": "val",
}  # of the conversations: of the catalog


def items_of(catalog: Catalog, out: Path) -> dict[str, ConversationItem]:
    """Products of train, and those of val as test; no released session is inside the catalog's test split."""
    return {
        name: ConversationItem(
            name,
            image=picture_from(out, catalog.images.get(name)),
            caption=caption_of(catalog.titles.get(name, ""), catalog.labels.get(name) or []),
            source="catalog",
            split=split,
            category=catalog.category,
        )
        for split, name_of_split in SPLITS.items()
        for name in catalog.ids(name_of_split)
    }


def samples_of(catalog: Catalog, folder: Path) -> Samples:
    """Samples of i and m.

    A session of m is named as in the score files of Multiturn FashionIQ's authors, SPLIT_CATEGORY_FIRST_TARGET_NUMBER;
    its last round, a sample of i, has i- before that. Sessions that have shown their target are left out. Raises
    UserError for a missing or malformed file, and without a session of m inside a split.
    """
    category = file_name(catalog.category)
    named = [
        (f"{split}_{category}_{session.first}_{session.target}_{number}", session)
        for split in SESSION_SPLITS
        for number, session in enumerate(read_sessions(folder, category, split))
    ]
    made: dict[tuple[Subtask, ConversationSplit], list[ConversationSample]] = {
        (subtask, split): [] for subtask in SUBTASKS for split in SPLITS
    }
    for split, name_of_split in SPLITS.items():
        products = set(catalog.ids(name_of_split))
        for name, session in named:
            if session.inside(products) and session.target not in session.items[:-1]:
                made["i", split].append(_sample(f"i-{name}", "i", session.steps[-1:], session.target, split))
                if len(session.steps) > 1:
                    made["m", split].append(_sample(name, "m", session.steps, session.target, split))
        if not made["m", split]:
            raise UserError(
                f"expected sessions inside the {name_of_split} split of {catalog.category}, found none in {folder}; "
                "give the folders of Fashion IQ with --data and of Multiturn FashionIQ with --sessions"
            )
    for number, pair in enumerate(catalog.pairs("train")):
        if pair.target and pair.target != pair.candidate:
            step = SessionStep(pair.candidate, pair.captions)
            made["i", "train"].append(_sample(f"i-pair-{number}", "i", (step,), pair.target, "train"))
    return made


def _sample(
    name: str, subtask: Subtask, steps: tuple[SessionStep, ...], target: str, split: ConversationSplit
) -> ConversationSample:
    first, *others = steps
    turns = [ConversationTurn("user", (TurnPicture(first.item), Text(first.text)))]
    for step in others:
        turns += [
            ConversationTurn("assistant", (TurnPicture(step.item),)),
            ConversationTurn("user", (Text(step.text),)),
        ]
    return ConversationSample(
        name,
        subtask,
        kind="session",
        turns=tuple(turns),
        target=target,
        source=SampleOrigin(WRITER),
        split=split,
    )
