"""Users that a retriever is trained with: captioners, attribute labels, recorded captions and sessions.

A retriever that hears a single simulator learns the private language of that simulator. Several users, one
per training step, keep it to words that mean the same to all of them.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor

from fashioniq import plugins
from fashioniq.config import TrainRetriever
from fashioniq.data.catalog import Catalog, Pair
from fashioniq.data.items import Items
from fashioniq.data.languages import language
from fashioniq.data.sessions import CAPTIONS, with_steps
from fashioniq.data.words import SPECIAL, Vocabulary
from fashioniq.features.selection import pairs_with_features, split_items
from fashioniq.features.store import FeatureStore
from fashioniq.files import UserError
from fashioniq.language.statements import StatementCheck
from fashioniq.loop.messages import Message, User
from fashioniq.models.configs import DRAWN_IN_TRAINING, FITTED
from fashioniq.runs import RetrieverRun, read_run
from fashioniq.runs.trained import load_simulator
from fashioniq.training.dialog_sources import (
    DialogSimulation,
    RecordedDialogs,
    RecordedSessions,
    RecordedTurns,
    Source,
)
from fashioniq.training.linear import MAX_WORDS as MOST_WORDS, Example, examples_of
from fashioniq.training.user_names import (
    SESSIONS,
    check_user_options,
    folders_of_sessions,
    names_of,
    sessions_of,
)
from fashioniq.users.by_name import WordedUser, named_user
from fashioniq.users.captioner import Simulator
from fashioniq.users.describing import DescribingUser
from fashioniq.users.differences import LabelSpeaker
from fashioniq.users.remembering import RememberingUser

MAX_WORDS = 8  # length limit of recorded captions (paper); 5 to 8 % of the released ones are longer
DESCRIBED = 4  # random pairs per product whose descriptions enter the vocabulary


@dataclass(frozen=True)
class TrainingUsers:
    """Sources of the training dialogs, in their order, with the products of train and val, and the vocabulary.

    `examples` are those that a linear retriever starts from: recorded captions and those of sessions, or else
    descriptions of random pairs by their labels. `names` are those of --users, with the folders of captioners,
    and "sessions" for one of sessions; `captioner` is the first captioner. `pairs_alone` are the recorded captions if
    there is no other user.
    """

    sources: list[Source]
    items: dict[str, Items]
    names: list[str]
    vocabulary: Vocabulary
    max_words: int
    examples: list[Example]
    captioner: Path | None
    pairs_alone: dict[str, list[Pair]] | None

    @property
    def kind(self) -> str:
        """Whether the users are simulated, recorded, or both."""
        recorded = set(self.names) & {"recorded", SESSIONS}
        return ("both" if len(self.names) > len(recorded) else "recorded") if recorded else "simulated"


def training_users(settings: TrainRetriever, catalog: Catalog, store: FeatureStore) -> TrainingUsers:
    """Users of --users, or those that the catalog allows: captioner, differences and recorded.

    Raises UserError if a captioner is missing or does not match, if the catalog lacks what a user needs,
    or if an option needs a simulated user.
    """
    names = names_of(settings, catalog)
    if settings.captioner and str(settings.captioner) not in names:
        print(f"note: {settings.captioner} is not used, because --users names no captioner")
    folders = folders_of_sessions(names)
    check_user_options(settings, names, folders)
    simulators = _load_captioners([name for name in names if name not in folders], settings, catalog, store)
    items = {split: split_items(catalog, store, split) for split in ("train", "val")}
    sessions = sessions_of(folders, catalog.category, items["train"])
    speakers = _label_speakers(catalog, items) if "differences" in names else {}
    splits = ("train", "val") if "recorded" in names else ()
    pairs = {split: pairs_with_features(catalog, store, split) for split in splits}
    fitted = settings.model.kind in FITTED
    described = _descriptions(speakers["train"], items["train"].ids) if speakers else []
    user_inputs: Any = {"catalog": catalog, "options": getattr(settings, "users_options", None)}
    max_words = max([one.captioner.max_words for one in simulators.values()] or [MAX_WORDS])
    for name in names:
        if name != "differences" and plugins.is_part("users", name):
            described += _rehearsed(name, items["train"], max_words, **user_inputs)
    captioned = with_steps(pairs.get("train", []), sessions)
    examples = examples_of(captioned) if pairs or sessions else described
    if fitted and not examples and not settings.init_from:
        raise UserError(
            f"--model.kind {settings.model.kind} starts from captions; add recorded or differences to --users"
        )
    vocabulary = (
        Vocabulary(read_run(settings.init_from, RetrieverRun).words[len(SPECIAL) :])
        if settings.init_from
        else _vocabulary([simulator.words for simulator in simulators.values()], captioned, described)
    )
    recorded_words = MOST_WORDS if fitted else max_words
    distinct = len({Path(name).name for name in simulators}) == len(simulators)
    simulated: Any = {
        "vocabulary": vocabulary,
        "items": items,
        "turns": settings.turns,
        "seed": settings.seed,
        "word_noise": settings.word_noise,
        "similar_first": settings.similar_first,
    }

    def source(name: str) -> Source:
        if name == "recorded":
            recorded = {
                split: RecordedTurns.of_pairs(
                    of_split, items[split], vocabulary, recorded_words, joined=fitted
                )
                for split, of_split in pairs.items()
            }
            return RecordedDialogs(recorded, items)
        if name in sessions:
            steps = [(one.target, one.turns, 1.0) for one in sessions[name]]
            words = recorded_words if fitted else CAPTIONS * recorded_words
            return RecordedSessions({"train": steps, "val": []}, items, vocabulary, words, SESSIONS)
        if name in simulators:
            user_name = Path(name).name if distinct else name
            return captioner_dialogs(simulators[name], name=user_name, **simulated)
        make_user = _user_factory(name, speakers, vocabulary, max_words, **user_inputs)
        return DialogSimulation(make_user, max_words=max_words, name=plugins.file_name(name), **simulated)

    return TrainingUsers(
        sources=[source(name) for name in names],
        items=items,
        names=list(dict.fromkeys(SESSIONS if name in sessions else name for name in names)),
        vocabulary=vocabulary,
        max_words=recorded_words,
        examples=examples,
        captioner=Path(next(iter(simulators))) if simulators else None,
        pairs_alone=pairs if names == ["recorded"] else None,
    )


def captioner_dialogs(
    simulator: Simulator,
    vocabulary: Vocabulary,
    items: dict[str, Items],
    *,
    name: str = "captioner",
    **options: Any,
) -> DialogSimulation:
    """Dialogs with a frozen captioner, whose words are translated to `vocabulary`.

    `options` are those of DialogSimulation.
    """
    said: dict[tuple[int, int], tuple[int, Tensor]] = {}

    def user(split: str, some: Items, seed: int) -> User:
        speaker = simulator.user(some, vocabulary, seed)
        return RememberingUser(speaker, said) if split == "val" else speaker  # val has one seed

    return DialogSimulation(
        user,
        vocabulary,
        items,
        max_words=simulator.captioner.max_words,
        name=name,
        **options,
    )


def _load_captioners(
    names: Sequence[str], settings: TrainRetriever, catalog: Catalog, store: FeatureStore
) -> dict[str, Simulator]:
    """Captioners by their folders, which are the names that no other user has."""
    truth = StatementCheck.of(catalog)
    options: Any = {"beams": settings.beam, "samples": settings.samples, "usual": DRAWN_IN_TRAINING}
    return {
        name: load_simulator(Path(name), settings.category, store, truth, **options)[0]
        for name in names
        if name != "recorded" and not plugins.is_part("users", name)
    }


def _label_speakers(catalog: Catalog, items: dict[str, Items]) -> dict[str, LabelSpeaker]:
    """Speakers who describe differences by the labels of the products of each split."""
    return {
        split: LabelSpeaker(
            [catalog.labels.get(name, []) for name in of_split.ids], language(catalog.language)
        )
        for split, of_split in items.items()
    }


def _user_factory(
    name: str, speakers: dict[str, LabelSpeaker], vocabulary: Vocabulary, max_words: int, **inputs: Any
) -> Callable[[str, Items, int], User]:
    """Function that makes a user who describes differences, or is found by its name, for the products of a split."""

    def make_user(split: str, items: Items, seed: int) -> User:
        if name == "differences":
            return WordedUser(DescribingUser(speakers[split], seed), vocabulary, max_words)
        own: Any = {"ids": items.ids, "items": items, "seed": seed}
        return named_user(name, vocabulary=vocabulary, max_words=max_words, **own, **inputs)[0]

    return make_user


def _descriptions(speaker: LabelSpeaker, ids: Sequence[str]) -> list[Example]:
    """Random pairs of products with descriptions of their difference, the same in every training."""
    chance = random.Random(0)
    pairs = [(target, chance.randrange(len(ids))) for target in range(len(ids)) for _ in range(DESCRIBED)]
    return [
        (ids[candidate], speaker.describe(target, candidate, chance), ids[target])
        for target, candidate in pairs
    ]


def _rehearsed(name: str, items: Items, max_words: int, **given: Any) -> list[Example]:
    """What a user says about random pairs of products, the same in every training."""
    given |= {"ids": items.ids, "items": items}
    pl.seed_everything(0, verbose=False)  # the user may draw random numbers
    user, _ = named_user(name, vocabulary=Vocabulary([]), max_words=max_words, **given)
    chance, count = random.Random(0), len(items)
    pairs = [(target, chance.randrange(count)) for target in range(count) for _ in range(DESCRIBED)]
    target_R, item_R = torch.tensor(pairs).T
    texts = user.reply(target_R, Message(item_B=item_R), 0).texts or [""] * len(pairs)
    return [
        (items.ids[item], text, items.ids[target]) for (target, item), text in zip(pairs, texts, strict=True)
    ]


def _vocabulary(captioners: list[Vocabulary], pairs: Sequence[Pair], described: list[Example]) -> Vocabulary:
    """Words of the captioners, then those of train's captions and of descriptions that occur at least twice."""
    texts = [text for pair in pairs for text in pair.captions]
    texts += [text for _, text, _ in described]
    words = [word for vocabulary in captioners for word in vocabulary.words[len(SPECIAL) :]]
    return Vocabulary(list(dict.fromkeys([*words, *Vocabulary.of(texts).words[len(SPECIAL) :]])))
