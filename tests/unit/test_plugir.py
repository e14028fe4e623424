"""PlugIR's choice of questions: representatives of the candidates, and the smallest change of belief."""

import math

import pytest
import torch

from fashioniq.askers.attribute_questions import Known
from fashioniq.askers.language_model import FALLBACK
from fashioniq.askers.plugir import AboutCandidates, ByLanguageModel, FromLabels, divergence, representatives
from fashioniq.data.items import Items
from fashioniq.loop.gallery import Gallery
from fashioniq.loop.messages import DialogState, Message, Turn
from fashioniq.loop.query import Query

# two groups of directions in the plane, in degrees
ANGLES = [0, 4, 9, 90, 95, 101]


def plane(angles):
    radians = torch.tensor(angles).float() * math.pi / 180
    return torch.stack([radians.cos(), radians.sin()], 1)


def test_each_cluster_has_the_candidate_with_the_lowest_entropy():
    vectors_KD = plane(ANGLES)
    entropies = []
    for own in vectors_KD:
        weights = [math.exp(float(own @ other)) for other in vectors_KD]
        shares = [weight / sum(weights) for weight in weights]
        entropies.append(-sum(share * math.log(share) for share in shares))
    best = [min(group, key=entropies.__getitem__) for group in ((0, 1, 2), (3, 4, 5))]
    assert representatives(3 * vectors_KD, 2) == best
    assert representatives(vectors_KD, 6) == representatives(vectors_KD, 9) == list(range(6))


def test_the_change_of_belief_is_a_divergence_of_softmax_distributions():
    vectors_KD, (before_D, after_D) = plane(ANGLES), plane([10, 80])
    chances = []
    for query_D in (before_D, after_D):
        weights = [math.exp(float(query_D @ vector)) for vector in vectors_KD]
        chances.append([weight / sum(weights) for weight in weights])
    expected = sum(p * math.log(p / q) for p, q in zip(*chances, strict=True))
    assert divergence(before_D, after_D, vectors_KD) == pytest.approx(expected, abs=1e-6)
    assert divergence(before_D, before_D, vectors_KD) == 0


def encode(texts):
    """Texts as directions: each question has its own angle."""
    angles = {"color?": 5, "belt?": 60, "length?": 10}
    return plane([next((angle for key, angle in angles.items() if text.endswith(key)), 0) for text in texts])


QUESTIONS = [
    Known("color?", ["red", "blue", "red", "blue", "red", "blue"]),
    Known("belt?", ["yes", "no", "yes", "no", "yes", "no"]),
    Known("length?", ["maxi"] * 6),  # the same answer for all
]


def asked(rounds, **options):
    propose = FromLabels(
        QUESTIONS, lambda question, text: question == "color?" and "red" in text, clusters=2, **options
    )
    return offered(propose, rounds)


def offered(propose, rounds):
    vectors_ND = plane(ANGLES)
    gallery = Gallery(Items.without_attributes(list("abcdef"), vectors_ND), vectors_ND)
    asker = AboutCandidates(
        propose, encode, lambda dialogs: [", ".join(texts) for texts in dialogs], nearest=6
    )
    turns = [Turn(Message(questions=[q]) if q else Message(), Message(texts=[a])) for q, a in rounds]
    return asker.offer(DialogState(1, None, tuple(turns), (Query(plane([0])),)), gallery).questions


def test_the_question_that_changes_the_belief_least_is_asked():
    assert asked([("", "a dress")]) == ["color?"]
    assert asked([("", "a dress"), ("color?", "blue")]) == ["belt?"]


def test_a_question_that_the_dialog_answers_is_dropped_unless_the_filter_is_left_out():
    assert asked([("", "a red dress")]) == ["belt?"]
    assert asked([("", "a red dress")], filtered=False) == ["color?"]


def test_a_question_with_one_answer_is_asked_last():
    assert asked([("", "a dress"), ("color?", "blue"), ("belt?", "no")]) == ["length?"]


def test_with_captions_the_entropy_is_that_of_texts_and_images():
    vectors_KD, captions_KD = plane(ANGLES), plane([9, 0, 45, 91, 100, 40])
    shares_KK = torch.softmax(captions_KD @ vectors_KD.T, 1)
    entropy_K = -(shares_KK * shares_KK.log()).sum(1)
    best = [min(group, key=lambda place: float(entropy_K[place])) for group in ((0, 1, 2), (3, 4, 5))]
    assert representatives(vectors_KD, 2, 2 * captions_KD) == best != representatives(vectors_KD, 2)


class Model:
    """In a language model's place: proposes the questions, and is certain about those in `known`."""

    def __init__(self, questions, known=()):
        self.questions, self.known, self.prompts = questions, known, []

    def complete(self, prompts, tokens):
        self.prompts += prompts
        return [
            self.questions
            if "for one of these" in prompt
            else "red"
            if any(one in prompt for one in self.known)
            else "Uncertain."
            for prompt in prompts
        ]


def by_model(model, rounds, **options):
    captions = [f"dress {name}" for name in "abcdef"]
    return offered(ByLanguageModel(model, captions, encode, clusters=2, **options), rounds)


def test_a_language_model_reads_captions_of_the_representatives_and_asks():
    model = Model("1. is it long? belt?\n2. color?")
    assert by_model(model, [("", "a dress")]) == ["is it long?"]  # the change is 0: encoded like the dialog
    listed = model.prompts[0].splitlines()
    assert sum(line.startswith("- dress ") for line in listed) == 2 and "a dress" in listed
    assert [prompt.split("Question: ")[1].splitlines()[0] for prompt in model.prompts[1:]] == [
        "is it long?",
        "belt?",
        "color?",
    ]


def test_what_the_model_can_answer_or_has_asked_is_not_asked_again():
    questions = "belt?\ncolor?"
    assert by_model(Model(questions), [("", "a dress")]) == ["color?"]  # the smaller change
    assert by_model(Model(questions, known=["color?"]), [("", "a dress")]) == ["belt?"]
    assert by_model(Model(questions, known=["color?"]), [("", "a dress")], filtered=False) == ["color?"]
    assert by_model(Model(questions), [("", "a dress"), ("color?", "red")]) == ["belt?"]
    assert by_model(Model(""), [("", "a dress")]) == [FALLBACK]


def test_without_context_the_model_reads_the_nearest_items():
    model = Model("belt?")
    by_model(model, [("", "a dress")], context=False)
    assert "- dress a\n- dress b\n" in model.prompts[0]
