"""A shop of 30 drawn dresses and a run of each kind with random weights: nothing is trained."""

import json
import shutil
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch
from PIL import Image

from fashioniq import sample as drawn
from fashioniq.data import conversations
from fashioniq.data.catalog import Catalog
from fashioniq.data.conversation_records import (
    ConversationItem,
    ConversationSample,
    ConversationTurn,
    SampleOrigin,
    Text,
    TurnPicture,
)
from fashioniq.data.words import Vocabulary, tokenize
from fashioniq.features.frozen import frozen_features
from fashioniq.features.store import Contents, FeatureStore
from fashioniq.features.writer import StorePart, fill_store
from fashioniq.files import checksum, write_json
from fashioniq.models.attributes import AttributePredictor
from fashioniq.models.configs import ChatSearcherConfig, DialogEncoderConfig, RetrieverConfig
from fashioniq.models.dialog_encoder import DialogEncoder
from fashioniq.models.encoder import create_encoder, encoder_size
from fashioniq.models.rnn import RNNRetriever
from fashioniq.runs import (
    CatalogOrigin,
    ChatSearcherRun,
    DialogEncoderRun,
    DialoguesOrigin,
    PredictorRun,
    RetrieverRun,
)
from fashioniq.runs.trained import new_chatsearcher
from fashioniq.runs.weights import save_model

ENCODER, SHOWN = "test_efficientnet", 8  # attribute words that the store has of a product


@dataclass(frozen=True)
class Shop:
    """Folder of the catalog, and those of the runs. The feature store lies where commands look for it."""

    root: Path

    @property
    def data(self):
        return self.root / "data"

    @property
    def store(self):
        return self.data / "features" / "dress"

    @cached_property
    def catalog(self):
        return Catalog(self.data, "dresses")

    @cached_property
    def features(self):
        return FeatureStore(self.store)

    def run(self, name):
        return self.root / name

    def dialogues(self, split="test"):
        return self.data / "dialogues" / f"dress.{split}.json"


@pytest.fixture(scope="session")
def shop(tmp_path_factory):
    """Not to be written to."""
    made = Shop(tmp_path_factory.mktemp("shop"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(drawn, "draw_garment", lambda garment, size, rng: Image.new("RGB", (8, 8), "red"))
        drawn.draw_sample(made.data, 30, categories=["dresses"])
    labels = made.catalog.labels
    words = sorted({word for lists in labels.values() for some in lists for word in some})
    with torch.random.fork_rng():
        torch.manual_seed(0)
        identity = _predictor(made.run("predictor"), words)
        _store(made, identity, words)
        texts = [
            *made.catalog.titles.values(),
            *words,
            "is a with no yes and or does it have what more less not",
        ]
        vocabulary = Vocabulary(sorted({word for text in texts for word in tokenize(text)}))
        _dialog_encoder(made, vocabulary)
        _retriever(made, vocabulary)
    return made


def _predictor(run, words):
    encoder = create_encoder(ENCODER)
    model = AttributePredictor(encoder, encoder_size(encoder), len(words))
    torch.nn.init.normal_(model.head.weight, std=0.2)
    about = PredictorRun(
        kind=PredictorRun.KIND, category="dresses", encoder=ENCODER, image_size=32, attribute_words=words
    )
    save_model(run, model, about)
    return {
        "encoder": ENCODER,
        "weights": checksum(run / "weights.safetensors"),
        "image_size": 32,
        "dimensions": encoder_size(encoder),
    }


def _store(shop, identity, words):
    def extract(lists, advance):
        for ids in lists:
            features_ND = torch.randn(len(ids), identity["dimensions"]).numpy().astype(np.float16)
            attributes_NA = np.tile(np.arange(SHOWN), (len(ids), 1))
            yield StorePart(list(ids), features_ND, attributes_NA, {})

    facts = Contents(**identity, attribute_words=words, attributes="predicted", precision="float32")
    fill_store(shop.store, shop.catalog.all_ids(), facts, extract, lambda count, of: None)


def _dialog_encoder(shop, vocabulary):
    config = DialogEncoderConfig(width=16, heads=2, hidden=16, layers=1)
    store = shop.features
    model = DialogEncoder(config, vocabulary=vocabulary, features=store.size)
    about = DialogEncoderRun(
        kind=DialogEncoderRun.KIND,
        model="transformer",
        encoder="transformer",
        sizes=config.sizes(features=store.size),
        words=vocabulary.words,
        features=store.identity,
        joined=", ",
        data=DialoguesOrigin(),
    )
    save_model(shop.run("encoder"), model, about)
    where = {"data": str(shop.data), "category": "dresses", "features": str(shop.store)}
    write_json(shop.run("encoder") / "config.yaml", where)


def parted_by_bert(shop, run):
    """A copy of the run of the dialog encoder, trained with BERT's separator."""
    shutil.copytree(shop.run("encoder"), run)
    about = json.loads((run / "model.json").read_text())
    (run / "model.json").write_text(json.dumps(about | {"joined": " [SEP] "}))
    return run


def _retriever(shop, vocabulary):
    config, store = RetrieverConfig(kind="rnn", width=16), shop.features
    of_data = {
        "vocabulary": len(vocabulary),
        "features": store.size,
        "attributes": 0,
    }
    model = RNNRetriever(config, **of_data)
    about = RetrieverRun(
        kind=RetrieverRun.KIND,
        category="dresses",
        attrs=False,
        model="rnn",
        sizes=config.sizes(**of_data, max_words=8, word_vector_size=0),
        words=vocabulary.words,
        features=store.identity,
        data=CatalogOrigin(folder=str(shop.data), fingerprint=shop.catalog.fingerprint()),
        user=None,
    )
    save_model(shop.run("retriever"), model, about)
    write_json(shop.run("retriever") / "config.yaml", {"data": str(shop.data), "features": str(shop.store)})


SAID = ["user", "assistant", "a", "red", "dress", "longer", "please", "sure"]  # words of a ChatSearcher


def sample(subtask, target, *turns, split="test", name="s"):
    """A conversation; each turn is a list of words and pictures, the latter with a #, of user and assistant in turn."""
    made = [
        ConversationTurn(
            ("user", "assistant")[number % 2],
            tuple(TurnPicture(one[1:]) if one.startswith("#") else Text(one) for one in parts),
        )
        for number, parts in enumerate(turns)
    ]
    kind = {"t": "text", "i": "mdc_i", "m": "merged"}[subtask]
    return ConversationSample(name, subtask, kind, tuple(made), target, SampleOrigin("people"), split)


@pytest.fixture(scope="session")
def conversation_folder(shop, tmp_path_factory):
    """Conversations about the products of the shop, and a ChatSearcher with random weights. Not to be written to."""
    root = tmp_path_factory.mktemp("conversations")
    splits = {"train": shop.catalog.ids("train"), "test": shop.catalog.ids("val")}
    items = [
        ConversationItem(
            name,
            str(shop.catalog.images[name]),
            f"dress {name}",
            "catalog",
            split,
            ("dresses", "tops")[row % 2],
        )
        for split, names in splits.items()
        for row, name in enumerate(names)
    ]
    unseen = ConversationItem("unseen", "unseen.jpg", "", "catalog", "train", "dresses")  # has no features
    conversations.write_items(root, [*items, unseen])
    for subtask in ("t", "i", "m"):
        for split, names in splits.items():
            turns = {
                "t": (["a red dress"], ["sure"], ["longer please"]),
                "i": ([f"#{names[0]}", "longer please"],),
                "m": (["a red dress"], ["sure", f"#{names[0]}"], ["longer please"]),
            }[subtask]
            target = names[1] if subtask != "m" else "unseen"
            more = [sample(subtask, names[2], *turns, split=split, name="another")] if subtask == "t" else []
            made = [sample(subtask, target, *turns, split=split), *more]
            conversations.write_samples(root, subtask, split, made)
            conversations.write_gallery(root, subtask, split, names)
    config = ChatSearcherConfig(image_tokens=2, space=8, width=16, heads=2, hidden=16, layers=1, dropout=0.0)
    words = Vocabulary(SAID)
    sizes, facts = (
        config.sizes(features=shop.features.size),
        frozen_features(["D000000004"], [str(shop.store)]).facts,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model, _ = new_chatsearcher(sizes, words.words, "", half=False, tune="all")
    about = ChatSearcherRun(
        kind=ChatSearcherRun.KIND,
        stage="conversations",
        language_model="",
        tuned="all",
        sizes=sizes,
        words=words.words,
        features=facts,
        negatives="batch",
        data=DialoguesOrigin(),
    )
    save_model(root / "run", model, about)
    write_json(root / "run" / "config.yaml", {"data": str(root), "features": [str(shop.store)]})
    return root


def stated(task):
    """What a task states in metrics.json."""
    return msgspec.to_builtins(task.facts)
