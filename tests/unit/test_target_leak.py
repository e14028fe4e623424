"""The target cannot reach a retriever or an asker: in no system, by no field, and by no number that
identifies the dialog.
"""

import ast
from dataclasses import fields, is_dataclass, replace
from pathlib import Path

import pytest
import torch
from PIL import Image

import fashioniq
from fashioniq.askers.attribute_questions import CandidateAware, Known
from fashioniq.askers.best_item import BestItem
from fashioniq.askers.generated_picture import GeneratedPicture
from fashioniq.askers.recorded import fixed_questions
from fashioniq.data.items import Items
from fashioniq.generators.illustrated import Illustrated
from fashioniq.generators.pictures import Generated
from fashioniq.llm.rewriting import prompts
from fashioniq.loop.gallery import Gallery
from fashioniq.loop.messages import DialogState, Message, Turn
from fashioniq.loop.rollout import System, rollout
from fashioniq.models.composer import Composer
from fashioniq.models.configs import ComposerConfig, RetrieverConfig
from fashioniq.models.retriever import DialogRetriever
from fashioniq.models.rnn import RNNRetriever
from fashioniq.models.text import TextRetriever

N, B, T = 40, 8, 3
PACKAGE = Path(fashioniq.__file__).parent


class Letters:
    """Encodes a text as how often the letters a to z occur."""

    size, limit = 26, 1000

    def texts(self, texts):
        counts = [[1e-3 + text.count(letter) for letter in "abcdefghijklmnopqrstuvwxyz"] for text in texts]
        return torch.nn.functional.normalize(torch.tensor(counts), dim=1)


class Script:
    """Replies with lines fixed in advance for each dialog of the batch, whatever its target; keeps the
    offers.
    """

    def __init__(self, lines, words_BTL):
        self.lines, self.words_BTL, self.offers = lines, words_BTL, []

    def reply(self, target_B, offer, turn):
        self.offers.append(offer)
        return Message(words_BL=self.words_BTL[:, turn], texts=[line[turn] for line in self.lines])


class Spy:
    """Keeps what is handed to each method of another object."""

    def __init__(self, other):
        self.other, self.seen = other, []

    def __getattr__(self, name):
        def spied(*arguments):
            self.seen.append((name, arguments))
            return getattr(self.other, name)(*arguments)

        return spied


def text_system(asker):
    torch.manual_seed(0)
    vectors_ND = torch.nn.functional.normalize(torch.rand(N, 26), dim=1)
    return System(
        TextRetriever(Letters()),
        asker,
        Gallery(Items.without_attributes([str(n) for n in range(N)], vectors_ND), vectors_ND),
    )


def word_system(retriever, exclude_shown):
    torch.manual_seed(0)
    items = Items([str(n) for n in range(N)], torch.randn(N, 6), torch.randint(1, 10, (N, 8)))
    return System(
        retriever.eval(), BestItem(exclude_shown), Gallery(items, retriever.embed_images(items.features_ND))
    )


SIZES = {"vocabulary": 30, "features": 6, "attributes": 10}


def transformer(**options):
    torch.manual_seed(0)
    return DialogRetriever(RetrieverConfig(width=16, heads=2, hidden=32, layers=1, **options), **SIZES)


TOPICS = [
    Known(f"{word}?", [("yes", "no")[(n * step) % 7 < 3] for n in range(N)])
    for step, word in enumerate(("red", "long", "new"), start=1)
]


class Letter:
    """Generator of pictures whose shade is the first letter of the prompt."""

    def generate(self, requests):
        shades = [ord((request.prompt or " ")[0]) for request in requests]
        pictures = [Image.new("L", (2, 2), shade) for shade in shades]
        return [Generated(picture, "ok", 0, "") for picture in pictures]


def picture_system(weight):
    def encode(pictures):
        shades = [[picture.getpixel((0, 0)) + place for place in range(26)] for picture in pictures]
        return torch.nn.functional.normalize(torch.tensor(shades).float().sin(), dim=1)

    system = text_system(GeneratedPicture())
    retriever = Illustrated(
        system.retriever,
        prompts(" ".join),
        Letter(),
        encode,
        weights=(weight,),
        count=2,
    )
    return replace(system, retriever=retriever)


SYSTEMS = {
    "fashion-iq transformer": lambda: word_system(transformer(), True),
    "fashion-iq both-ways": lambda: word_system(transformer(attention="both-ways"), False),
    "fashion-iq rnn": lambda: word_system(RNNRetriever(RetrieverConfig(kind="rnn", width=16), **SIZES), True),
    "fashion-iq composer": lambda: word_system(Composer(ComposerConfig(width=16), **SIZES), False),
    "chatir candidate-aware": lambda: text_system(CandidateAware(TOPICS, 10)),
    "genir": lambda: picture_system(0.0),
    "dar": lambda: picture_system(0.5),
    "chatir fixed questions": lambda: text_system(fixed_questions(["red?", "long?"], range(B))),
}


@pytest.fixture(params=SYSTEMS)
def system(request):
    return SYSTEMS[request.param]()


@torch.no_grad()
def spied(system, target_B, order):
    """What retriever and asker were handed in dialogs in this order, and what they returned."""
    generator = torch.Generator().manual_seed(1)
    words_BTL, first_B = torch.randint(4, 30, (B, T, 8), generator=generator)[order], torch.arange(B)[order]
    lines = [[f"{chr(97 + row)}{chr(97 + turn)}" for turn in range(T)] for row in order.tolist()]
    spies = Spy(system.retriever), Spy(system.asker)
    user = Script(lines, words_BTL)
    first = Message(item_B=first_B) if isinstance(system.asker, BestItem) else Message()
    dialogs = rollout(System(*spies, system.gallery), user, target_B, first, T)
    return [spy.seen for spy in spies], user.offers, dialogs


def leaves(thing):
    """Every tensor, number and text that can be reached from an argument, without the gallery, which holds
    all items alike.
    """
    if isinstance(thing, Gallery):
        return []
    if isinstance(thing, Image.Image):
        return [thing.tobytes().hex()]
    if isinstance(thing, (torch.Tensor, str, int, float, type(None))):
        return [thing]
    if is_dataclass(thing):
        thing = [getattr(thing, field.name) for field in fields(thing)]
    parts = (
        thing.values()
        if isinstance(thing, dict)
        else thing
        if isinstance(thing, (tuple, list))
        else vars(thing).values()
    )
    return [leaf for part in parts for leaf in leaves(part)]


def equal(one, other):
    return torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other


def test_whatever_the_target_retriever_and_asker_are_handed_the_same(system):
    order = torch.arange(B)
    seen, offers, one = spied(system, torch.arange(10, 10 + B), order)
    seen_too, offers_too, other = spied(system, torch.arange(30, 30 - B, -1), order)
    for with_one, with_other in zip([*seen, offers], [*seen_too, offers_too], strict=True):
        assert len(leaves(with_one)) == len(leaves(with_other)) > 0
        assert all(map(equal, leaves(with_one), leaves(with_other)))
    assert torch.equal(one.query_BTD, other.query_BTD) and not torch.equal(one.ranks, other.ranks)


def test_no_number_in_a_message_identifies_the_dialog(system):
    """Dialogs in another order get the same messages: nothing that is offered depends on the place of a
    dialog in its batch.
    """
    order = torch.tensor([3, 0, 7, 1, 6, 2, 5, 4])
    _, offers, dialogs = spied(system, torch.arange(10, 10 + B), torch.arange(B))
    _, offers_too, dialogs_too = spied(system, torch.arange(10, 10 + B)[order], order)
    for offer, other in zip(offers, offers_too, strict=True):
        assert (offer.item_B is None) == (other.item_B is None) and (offer.questions is None) == (
            other.questions is None
        )
        if offer.item_B is not None:
            assert torch.equal(offer.item_B[order], other.item_B)
        if offer.questions is not None:
            assert [offer.questions[row] for row in order.tolist()] == list(other.questions)
    torch.testing.assert_close(dialogs.query_BTD[order], dialogs_too.query_BTD)


def test_no_type_that_they_are_handed_has_a_field_for_the_target():
    names = [*Message._fields, *Turn._fields, *DialogState._fields, *(field.name for field in fields(System))]
    assert not [name for name in names if "target" in name]


@pytest.mark.parametrize("path", sorted((PACKAGE / "askers").rglob("*.py")), ids=lambda path: path.stem)
def test_no_asker_names_a_target(path):
    named = [node.arg for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.arg)]
    named += [node.attr for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute)]
    assert not [name for name in named if "target" in name]
