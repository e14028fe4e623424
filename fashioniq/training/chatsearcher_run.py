"""Training run of a ChatSearcher."""

import random
from collections.abc import Iterable, Sequence

import pytorch_lightning as pl
import torch
from torch.utils.data import TensorDataset

from fashioniq.config import TrainChatsearcher
from fashioniq.data.conversation_records import SUBTASKS, ConversationSample, Text, TurnPicture
from fashioniq.data.conversations import (
    DOCUMENTS,
    TALKS,
    Conversations,
    Document,
    Talk,
    pictures_of,
    read_documents,
    read_talks,
    samples_file,
    words_of,
)
from fashioniq.data.dialogues import Dialogue, Round, write_dialogues
from fashioniq.data.words import Vocabulary
from fashioniq.features.frozen import FrozenFeatures, check_same_features, frozen_features
from fashioniq.files import UserError, checksum
from fashioniq.models.chat_tokens import ROLES, ChatTokens, Tokenized
from fashioniq.runs import ChatSearcherRun, read_run
from fashioniq.runs.trained import load_chatsearcher, new_chatsearcher
from fashioniq.training.blip2 import read_qformer
from fashioniq.training.chatsearcher import ChatSearcherTraining
from fashioniq.training.fitting import fit, loaders
from fashioniq.training.folder import alone, begin_run, folder_of

RATES = {  # of our decoder, and of a pretrained language model, as in the paper
    ("captions", False): 1e-3,
    ("conversations", False): 5e-4,
    ("captions", True): 2e-5,
    ("conversations", True): 2e-6,
}
Examples = tuple[
    list[list[Tokenized]], list[tuple[Tokenized, int]]
]  # of train, and of val with their targets

FURTHER = {"captions": DOCUMENTS, "conversations": TALKS}  # files of further examples by stage


@alone
def train_chatsearcher(settings: TrainChatsearcher) -> str:
    """Train on the conversations or captions whose items have features; return a one-line summary.

    Raises UserError if a file is missing or does not match, or if options exclude each other.
    """
    data = Conversations(settings.data)
    subtasks = [name for name in SUBTASKS if name in settings.subtasks or not settings.subtasks]
    samples = [sample for subtask in subtasks for sample in data.samples(subtask, "train")]
    talks, documents = read_talks(data), read_documents(data)
    further = documents if settings.stage == "captions" else talks
    features = frozen_features(list(data.items), settings.features)
    folder = folder_of(settings)
    pl.seed_everything(settings.seed, verbose=False)
    half = settings.device != "cpu" and torch.cuda.is_available()
    began = settings.init_from
    blip2 = began if began and not (began / "model.json").exists() else None
    if began and not blip2:
        before = read_run(began, ChatSearcherRun)
        check_same_features(began, before.features, features.facts)
        model, tokens, _ = load_chatsearcher(began, half=half, tune=settings.tune)
        name, sizes, words = before.language_model, before.sizes, before.words
    else:
        vocabulary = (
            None
            if settings.language_model
            else _vocabulary(data, samples, words_of([*talks, *documents]), settings.min_count)
        )
        name, words = settings.language_model or "", vocabulary.words if vocabulary else []
        sizes = settings.model.sizes(features=features.vector_NF.shape[1])
        sizes |= {"token_features": features.patches[0].shape[2]} if features.patches else {}
        if blip2:
            read = sizes.get("token_features", sizes["features"])
            sizes["qformer"], qformer = read_qformer(blip2, read, settings.model.image_tokens)
        model, tokens = new_chatsearcher(sizes, words, name, half=half, tune=settings.tune)
        if blip2:
            model.perceiver = qformer
    items = [name for name in features.ids if data.items[name].split == "train"]
    train_items = torch.tensor(sorted(features.positions[name] for name in items))
    items = [name for name in items if data.items[name].caption]  # pictures of the mixture have none
    if blip2 or not began:
        model.standardise(features.vector_NF[train_items])
    kept = [sample for sample in samples if {*sample.pictures, sample.target} <= features.positions.keys()]
    if len(kept) < 2 or len(train_items) < 2:
        raise UserError(
            f"expected features for at least two conversations of {settings.data}, found them for {len(kept)}; give "
            "the feature stores of their items with --features"
        )
    held_out = _held_out(items, settings.held_out, settings.seed)
    train, val = (
        _captions(data, features, tokens, items, held_out)
        if settings.stage == "captions"
        else _conversations(kept, features, tokens, held_out)
    )
    for example in further:
        if features.positions.keys() - held_out >= set(pictures_of(example.content)):
            train += _further(example, features, tokens, settings.seed)
    if not train or not val:
        raise UserError(f"expected examples to train and to validate with, found {len(train)} and {len(val)}")
    print(f"{len(train):,} {settings.stage} to train, {len(val):,} to validate, {len(train_items):,} items")
    files = [samples_file(settings.data, subtask, "train") for subtask in subtasks]
    files += [path for path in [settings.data / FURTHER[settings.stage]] if path.exists()]
    facts = {
        "kind": "chatsearcher",
        "stage": settings.stage,
        "language_model": name,
        "tuned": settings.tune,
        "sizes": sizes,
        "words": words,
        "features": features.facts,
        "negatives": f"queue of {settings.queue}" if settings.negatives == "queue" else settings.negatives,
        "data": {
            "dialogues": {path.name: str(path) for path in files},
            "checksums": {path.name: checksum(path) for path in (settings.data / "items.jsonl", *files)},
            "coverage": {"train": len(kept) / len(samples)},
        },
    }
    begin_run(folder, settings, facts)
    for split, names in (("train", set(items) - held_out), ("val", held_out)):
        # for a dual encoder that is trained on the same words
        dialogs = [Dialogue(name, (Round(data.items[name].caption),)) for name in items if name in names]
        if settings.stage == "conversations":
            dialogs += [Dialogue(one.target, (Round(one.text),)) for one in kept if one.target in names]
        write_dialogues(folder / f"{settings.stage}.{split}.json", dialogs)
    module = ChatSearcherTraining(
        model,
        tokens,
        features,
        train=train,
        val=val,
        train_items=train_items,
        negatives=settings.negatives,
        queue=settings.queue,
        learning_rate=settings.learning_rate or RATES[settings.stage, bool(name)],
    )
    of_train, of_val = (TensorDataset(torch.arange(len(some))) for some in (train, val))
    batches = loaders(of_train, of_val, settings.batch_size, settings.seed)
    best = fit(module, model, batches, run=folder, settings=settings, facts=facts, monitor="val_score")
    return (
        f"ChatSearcher of epoch {best['epoch']:.0f} in {folder}: R@1 {best['val_R@1']:.1f}, R@10 "
        f"{best['val_R@10']:.1f} on {len(val):,} held-out {settings.stage}, among {len(train_items):,} items of train"
    )


def _vocabulary(
    data: Conversations, samples: Sequence[ConversationSample], further: Sequence[str], min_count: int
) -> Vocabulary:
    """Words of the captions and the conversations of train; those of the roles are always among them."""
    captions = (item.caption for item in data.items.values() if item.split == "train")
    said = (sample.text for sample in samples)
    return Vocabulary.of([*captions, *said, *further, *list(ROLES.values()) * min_count], min_count)


def _held_out(items: Iterable[str], share: float, seed: int) -> set[str]:
    """Some of the items, whose captions or conversations validate."""
    names = sorted(items)
    return set(random.Random(seed).sample(names, max(1, round(share * len(names)))))


def _further(
    example: Talk | Document, features: FrozenFeatures, tokens: ChatTokens, seed: int
) -> list[list[Tokenized]]:
    """A conversation, or the parts of a document, in which each picture is before or after its sentence."""
    if isinstance(example, Talk):
        return [[tokens.talk(example.turns, features.positions)]]
    content = around_sentences(example.content, random.Random(f"{seed}/{example.content}"))
    return [[part] for part in tokens.document(content, features.positions)]


def around_sentences(
    content: Sequence[Text | TurnPicture], drawn: random.Random
) -> tuple[Text | TurnPicture, ...]:
    """The same parts; a coin puts each picture before or behind the sentence after it (ChatSearch, section 4.3)."""
    placed, place = list(content), 0
    while place < len(placed) - 1:
        if isinstance(placed[place], TurnPicture) and isinstance(placed[place + 1], Text):
            if drawn.random() < 0.5:
                placed[place : place + 2] = placed[place + 1], placed[place]
            place += 1  # a picture that has moved stays there
        place += 1
    return tuple(placed)


def _captions(
    data: Conversations,
    features: FrozenFeatures,
    tokens: ChatTokens,
    items: Sequence[str],
    held_out: set[str],
) -> Examples:
    train, val = [], []
    for name in items:
        caption, item = data.items[name].caption, features.positions[name]
        first, after = (tokens.caption(caption, item, image_first) for image_first in (True, False))
        if name in held_out:  # up to the picture after the caption
            end = after.ids.index(tokens.image)
            val.append((Tokenized(after.ids[:end], after.learned[:end], []), item))
        else:
            train.append([first, after])
    return train, val


def _conversations(
    samples: Sequence[ConversationSample], features: FrozenFeatures, tokens: ChatTokens, held_out: set[str]
) -> Examples:
    train, val = [], []
    for sample in samples:
        if sample.target in held_out:
            asked = tokens.conversation(sample.turns, features.positions)
            val.append((asked, features.positions[sample.target]))
        else:
            train.append([tokens.conversation(sample.turns, features.positions, sample.target)])
    return train, val
