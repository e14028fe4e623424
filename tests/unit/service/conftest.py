"""A service on a tiny system: products at random places that a small random retriever finds."""

from dataclasses import replace

import pytest
import torch
from anyio.from_thread import start_blocking_portal
from fastapi.testclient import TestClient
from PIL import Image

from fashioniq.askers.attribute_questions import CandidateAware, Known
from fashioniq.askers.best_item import BestItem
from fashioniq.askers.generated_picture import GeneratedPicture
from fashioniq.askers.limited import Limited
from fashioniq.data.cards import ItemCards
from fashioniq.data.dialogues import each, last_round
from fashioniq.data.items import Items
from fashioniq.data.offers import Offer
from fashioniq.data.wording import Weights
from fashioniq.data.words import Vocabulary
from fashioniq.generators.illustrated import Illustrated
from fashioniq.generators.pictures import Generated
from fashioniq.language.lexicon import Lexicon
from fashioniq.llm.rewriting import prompts
from fashioniq.loop.gallery import Gallery
from fashioniq.loop.rollout import System
from fashioniq.loop.wording import Wording
from fashioniq.models.configs import RetrieverConfig
from fashioniq.models.retriever import DialogRetriever
from fashioniq.models.text import TextRetriever
from fashioniq.service.access import Access
from fashioniq.service.api import create_app
from fashioniq.service.inference import Inference
from fashioniq.service.models import Models
from fashioniq.service.served_model import Served
from fashioniq.service.service import Service
from fashioniq.service.store import Store

COUNT = 30
IDS = [f"p{number}" for number in range(COUNT)]
WORDS = [
    "is",
    "navy",
    "red",
    "with",
    "longer",
    "shorter",
    "sleeves",
    "more",
    "formal",
    "less",
    "floral",
    "and",
    "dress",
]


def showing_system(seed=0):
    torch.manual_seed(seed)
    config = RetrieverConfig(width=16, heads=2, hidden=32, layers=1)
    vocabulary = Vocabulary(WORDS)
    retriever = DialogRetriever(config, vocabulary=len(vocabulary), features=6, attributes=4)
    torch.nn.init.normal_(retriever.eval().requires_grad_(False).query.weight)
    items = Items(IDS, torch.randn(COUNT, 6), torch.randint(1, 5, (COUNT, 8)))
    titles = {name: f"{'Navy' if number % 2 else 'Red'} dress {number}" for number, name in enumerate(IDS)}
    cards = ItemCards({}, titles, {"p3": ["long sleeve", "navy"]})
    gallery = Gallery(items, retriever.embed_images(items.features_ND))
    return System(retriever, BestItem(), gallery, vocabulary, cards)


class Letters:
    """Encodes a text as how often the letters occur."""

    def texts(self, texts):
        counts = [[1e-3 + text.count(letter) for letter in "abcdefghijklmnopqrstuvwxyz"] for text in texts]
        return torch.nn.functional.normalize(torch.tensor(counts), dim=1)


def asking_system(seed=0):
    vectors_ND = torch.nn.functional.normalize(
        torch.rand(COUNT, 26, generator=torch.Generator().manual_seed(seed)), dim=1
    )
    topics = [Known(f"Is it {word}?", [word, "no"] * (COUNT // 2)) for word in ("red", "long")]
    asker = Limited(CandidateAware(topics, 10), 2)
    gallery = Gallery(Items.without_attributes(IDS, vectors_ND), vectors_ND)
    return System(TextRetriever(Letters()), asker, gallery)


class Painted:
    """Generator of pictures of one color, which is the seed; of "invisible" things it makes none."""

    def __init__(self):
        self.identity, self.made = {}, []

    def generate(self, requests):
        self.made += [request.prompt for request in requests]
        return [
            Generated(None, "black", request.seed, request.prompt)
            if "invisible" in request.prompt
            else Generated(
                Image.new("RGB", (64, 64), request.seed % 2**24), "ok", request.seed, request.prompt
            )
            for request in requests
        ]


def colors(pictures):
    """The colors of pictures of one color, in as many dimensions as Letters has."""
    found = torch.tensor([[1.0 + value for value in one.getpixel((0, 0))] for one in pictures])
    return torch.nn.functional.normalize(torch.nn.functional.pad(found, (0, 23)), dim=1)


def drawing_system(seed=0):
    system = asking_system(seed)
    retriever = Illustrated(
        TextRetriever(Letters(), each(last_round)),
        prompts(last_round),
        Painted(),
        colors,
        weights=(0.0,),
    )
    return replace(system, retriever=retriever, asker=GeneratedPicture())


COLORS, PATTERNS = ["red", "navy", "green"], ["floral", "striped"]
SLEEVES = ["sleeveless", "short sleeve", "long sleeve"]
LABELS = {
    name: [[], [COLORS[at % 3], PATTERNS[at % 2]], [], [], [SLEEVES[at // 6 % 3]], []]
    for at, name in enumerate(IDS)
}
OFFERS = {
    name: Offer(
        price_minor=1000 * (at + 1), currency="EUR", sizes=("S", "M") if at % 2 else ("L",), in_stock=at != 4
    )
    for at, name in enumerate(IDS)
}


def labels_of(name):
    return [label for labels in LABELS[name] for label in labels]


def reading_system(seed=0):
    """A system that reads wishes for labels, and counts them."""
    system = showing_system(seed)
    titles = {name: f"Dress with pockets {name}" if name in IDS[:6] else f"Dress {name}" for name in IDS}
    texts = [" ".join([titles[name], *labels_of(name)]) for name in IDS]
    lexicon = Lexicon.of(LABELS, titles.values(), WORDS, "en")
    of_products = [frozenset(labels_of(name)) for name in IDS]
    wording = Wording(lexicon, Weights(0.1, 50.0, 50.0), of_products, texts)
    return replace(
        system, wording=wording, gallery=system.gallery.with_scorer(wording), cards=ItemCards({}, titles)
    )


SYSTEMS = {
    "dresses": showing_system,
    "tops": asking_system,
    "shirts": drawing_system,
    "skirts": reading_system,
}


def served(folder):
    """A model for a folder's name: CATEGORY-SEED, such as dresses-0.

    Tops ask questions, shirts are drawn, of skirts wishes are read.
    """
    category, _, seed = folder.name.partition("-")
    system = SYSTEMS[category](int(seed))
    return Served(
        version=f"{category}@2026-01-01-{seed}",
        category=category,
        folder=folder,
        sha256=folder.name,
        system=system,
        asks=not system.shows_items,
        max_words=8,
        max_turns=2,
        requests=["is navy"],
        metrics={},
        offers=OFFERS if category == "skirts" else None,
        labels=LABELS if category == "skirts" else None,
    )


@pytest.fixture
def service_of(tmp_path, url):
    """Functions that open a service on the database, as another process would; all are closed at the end."""
    opened = []

    def open_one(runs=("dresses-0",)):
        store, inference = Store.open(url), Inference()
        models = Models(store, inference, lambda run: served(run), tmp_path / "models")
        models.open([tmp_path / "models" / run for run in runs])
        opened.append((store, inference))
        return Service(store, models, inference)

    yield open_one
    for store, inference in opened:
        inference.close()
        store.close()


@pytest.fixture
def service(service_of):
    return service_of()


@pytest.fixture(scope="session")
def portal():
    """An event loop for all clients, which would otherwise start one for each request."""
    with start_blocking_portal() as portal:
        yield portal


@pytest.fixture
def client_of(portal):
    """A client of a service, on this machine or another one."""

    def client_of(service, host="127.0.0.1"):
        app = create_app(service, Access(service.store, local=True))
        client = TestClient(app, client=(host, 1), raise_server_exceptions=False)
        client.portal = portal
        return client

    return client_of


@pytest.fixture
def client(service, client_of):
    return client_of(service)


@pytest.fixture
def remote(service, client_of):
    """A client on another machine."""
    return client_of(service, "192.0.2.1")


class Talking:
    """A session of a client."""

    def __init__(self, client, **fields):
        answer = client.post("/v1/sessions", json={"category": "dresses", **fields})
        assert answer.status_code == 201, answer.text
        self.client, self.started = client, answer.json()
        self.id, self.token = self.started["session_id"], self.started["session_token"]

    def request(self, method, path="", key=None, **fields):
        headers = {"Authorization": f"Bearer {self.token}"} | ({"Idempotency-Key": key} if key else {})
        return self.client.request(method, f"/v1/sessions/{self.id}{path}", headers=headers, **fields)

    def turn(self, key=None, **fields):
        return self.request("POST", "/turns", key=key, json=fields)


@pytest.fixture
def talking(client):
    return Talking(client)
