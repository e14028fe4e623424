"""Warnings beside results that mean less than their figures say."""

import pytest
from msgspec import UNSET

from fashioniq.data.evaluations import TurnMetrics
from fashioniq.data.facts import MostSaid, TurnFacts
from fashioniq.report.page import cautions


def metrics(p=90.0, said=UNSET, features="efficientnet-b7"):
    return TurnMetrics(
        protocol="Fashion IQ dialogs",
        gallery=100,
        dialogs=100,
        facts=TurnFacts(features=features, most_frequent=said),
        turns=[{"turn": 1, "P": p}],
    )


@pytest.mark.parametrize(
    ("changed", "caution"),
    [
        (
            {"p": 51.0},
            "P after the last turn is at chance level; the retriever does not understand this user",
        ),
        (
            {"said": MostSaid("is red", 0.81)},
            "the user says 'is red' in 81 % of all turns, so there is little to understand",
        ),
        (
            {"features": "efficientnet-b0, random weights"},
            "the features are of an encoder with random weights; extract them with trained weights",
        ),
    ],
)
def test_a_result_that_means_little_says_why(changed, caution):
    assert cautions(metrics(**changed)) == [caution]


def test_a_sound_result_has_no_warning():
    assert cautions(metrics()) == cautions(metrics(said=MostSaid("is red", 0.3))) == []
