"""Baselines of searches in conversations."""

from types import SimpleNamespace

import torch

from fashioniq.data.conversation_records import (
    ConversationSample,
    ConversationTurn,
    SampleOrigin,
    Text,
    TurnPicture,
)
from fashioniq.encoders.protocol import unit
from fashioniq.features.frozen import FrozenFeatures
from fashioniq.loop.messages import Message
from fashioniq.systems.chatsearch import (
    _PENALTIES,
    ConversationRetriever,
    Found,
    VectorSearch,
    _Space,
    searches,
)

TARGETS, D = 40, 30


class Noisy:
    """Encoder of the text "7" as the vector of item 7 with noise in all other dimensions."""

    limit = 8

    def __init__(self, vectors_ND):
        noise_ND = torch.randn(vectors_ND.shape, generator=torch.Generator().manual_seed(1))
        self.vectors_ND = vectors_ND + 0.3 * noise_ND

    def lengths(self, texts):
        return [1] * len(texts)

    def texts(self, texts):
        return self.vectors_ND[[int(text) for text in texts]]


def asked(number):
    turns = (ConversationTurn("user", (Text(str(number)),)),)
    return ConversationSample(
        str(number), "t", "text", turns, f"i{number:02}", SampleOrigin("people"), "train"
    )


def test_the_penalty_of_the_concatenation_is_chosen_on_targets_that_are_not_fitted(capsys):
    """There are more dimensions than conversations: without a penalty, the map fits their noise."""
    vectors_ND = unit(torch.randn(TARGETS, D, generator=torch.Generator().manual_seed(0)))
    space = _Space(Noisy(vectors_ND), vectors_ND, {f"i{number:02}": number for number in range(TARGETS)})
    space.concatenation([asked(number) for number in range(TARGETS)])
    penalty = float(capsys.readouterr().out.split("penalty ")[1].split(",")[0])
    assert penalty > min(_PENALTIES) == 1e-4  # by the least one, every fitted target is found


class Lengths:
    """Encoder whose texts are as long as they have words, at most three of which fit."""

    limit = 3

    def __init__(self):
        self.read = []

    def lengths(self, texts):
        return [len(text.split()) for text in texts]

    def texts(self, texts):
        self.read = texts
        return torch.ones(len(texts), 2)


def test_the_oldest_turns_are_left_out_until_the_words_fit_and_the_last_one_stays():
    def said(*texts):
        turns = tuple(ConversationTurn("user", (Text(text),)) for text in texts)
        return ConversationSample("", "t", "text", turns, "", SampleOrigin("people"), "train")

    encoder = Lengths()
    space = _Space(encoder, torch.eye(2), {})
    space.text([said("a", "b c"), said("a", "b", "c d"), said("a b c d"), said("a", "b c d e")])
    assert encoder.read == ["a b c", "b c d", "a b c d", "b c d e"]


def test_pictures_are_compared_by_the_direction_from_the_mean():
    features = FrozenFeatures(["a", "b", "c"], torch.tensor([[9.0, 1.0], [9.0, -1.0], [12.0, 0.0]]), {})
    settings = SimpleNamespace(methods=["image"], run=None, encoder=None, retriever=None)
    found = searches(settings, None, features, torch.device("cpu"))["image"]
    assert found.vectors_ND.tolist() == unit(torch.tensor([[-1.0, 1.0], [-1.0, -1.0], [2.0, 0.0]])).tolist()
    shown = (
        ConversationTurn("assistant", (TurnPicture("b"),)),
        ConversationTurn("user", (TurnPicture("c"), Text("red"))),
    )
    asked = ConversationSample("", "i", "mdc_i", shown, "a", SampleOrigin("people"), "train")
    assert torch.equal(found.queries([asked]).query_QD[0], found.vectors_ND[2])


def test_a_turn_adds_what_was_offered_and_said_and_queries_are_zeros_where_a_search_does_not_apply():
    asked, answers = [], [Found(torch.ones(2, 3)), None]
    search = VectorSearch(torch.zeros(5, 3), lambda samples: asked.append(samples) or answers[len(asked) - 1])
    retriever = ConversationRetriever(search)
    first = SimpleNamespace(offer=Message(), reply=Message(content=[(Text("a"),), (Text("b"),)]))
    query_BD, state = retriever.step(retriever.start(2), first)
    assert query_BD.tolist() == [[1, 1, 1]] * 2 and state.found is answers[0]
    second = SimpleNamespace(
        offer=Message(content=[(TurnPicture("p"),), ()]), reply=Message(content=[(Text("c"),)] * 2)
    )
    query_BD, state = retriever.step(state, second)
    assert query_BD.tolist() == [[0, 0, 0]] * 2 and state.found is None
    said = [[(turn.role, turn.content) for turn in one.turns] for one in asked[1]]
    begins = [("user", (Text("a"),)), ("user", (Text("b"),))]
    assert said == [
        [begins[0], ("assistant", (TurnPicture("p"),)), ("user", (Text("c"),))],
        [begins[1], ("user", (Text("c"),))],
    ]
