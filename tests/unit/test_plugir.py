"""PlugIR's choice of questions: representatives of the candidates, and the smallest change of belief."""

import math

import pytest
import torch

from fashioniq.askers.attribute_questions import Known
from fashioniq.askers.plugir import AboutCandidates, divergence, representatives
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
    vectors_ND = plane(ANGLES)
    gallery = Gallery(Items.without_attributes(list("abcdef"), vectors_ND), vectors_ND)
    asker = AboutCandidates(
        QUESTIONS,
        encode,
        lambda dialogs: [", ".join(texts) for texts in dialogs],
        lambda question, text: question == "color?" and "red" in text,
        nearest=6,
        clusters=2,
        **options,
    )
    turns = [Turn(Message(texts=[q]) if q else Message(), Message(texts=[a])) for q, a in rounds]
    return asker.offer(DialogState(1, None, tuple(turns), (Query(plane([0])),)), gallery).texts


def test_the_question_that_changes_the_belief_least_is_asked():
    assert asked([("", "a dress")]) == ["color?"]
    assert asked([("", "a dress"), ("color?", "blue")]) == ["belt?"]


def test_a_question_that_the_dialog_answers_is_dropped_unless_the_filter_is_left_out():
    assert asked([("", "a red dress")]) == ["belt?"]
    assert asked([("", "a red dress")], filtered=False) == ["color?"]


def test_a_question_with_one_answer_is_asked_last():
    assert asked([("", "a dress"), ("color?", "blue"), ("belt?", "no")]) == ["length?"]
