"""Baselines of searches in conversations."""

import torch

from fashioniq.data.conversations import Sample, Source, Text, Turn
from fashioniq.models.text import unit
from fashioniq.systems.chatsearch import _Space

TARGETS, D = 40, 30


class Noisy:
    """Encoder of the text "7" as the vector of item 7 with noise in all other dimensions."""

    limit = 8

    def __init__(self, vectors_ND):
        noise_ND = torch.randn(vectors_ND.shape, generator=torch.Generator().manual_seed(1))
        self.vectors_ND = vectors_ND + 0.3 * noise_ND

    def lengths(self, texts):
        return [1] * len(texts)

    def encode(self, texts):
        return self.vectors_ND[[int(text) for text in texts]]


def asked(number):
    turns = (Turn("user", (Text(str(number)),)),)
    return Sample(str(number), "t", "text", turns, f"i{number:02}", Source("people"), "train")


def test_the_penalty_of_the_concatenation_is_chosen_on_targets_that_are_not_fitted(capsys):
    """There are more dimensions than conversations: without a penalty, the map fits their noise."""
    vectors_ND = unit(torch.randn(TARGETS, D, generator=torch.Generator().manual_seed(0)))
    space = _Space(Noisy(vectors_ND), vectors_ND, {f"i{number:02}": number for number in range(TARGETS)})
    space.concatenation([asked(number) for number in range(TARGETS)])
    penalty = float(capsys.readouterr().out.split("penalty ")[1].split(",")[0])
    assert penalty > 1e-4  # the least one, by which every fitted target is found
