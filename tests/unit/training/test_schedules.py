"""Learning rates by step."""

import math
from types import SimpleNamespace

import pytest
from torch import nn

from fashioniq.training.attributes import AttributeTraining
from fashioniq.training.chatsearcher import ChatSearcherTraining
from fashioniq.training.generator import GeneratorTraining
from fashioniq.training.retriever import RetrieverTraining

STEPS = 200


def shares(kind, steps=STEPS, **options):
    """Share of the learning rate in every step of a module of this kind."""
    module = kind.__new__(kind)
    nn.Module.__init__(module)
    module._fabric = module._jit_is_scripting = None
    module._trainer = SimpleNamespace(estimated_stepping_batches=steps, precision="32-true")
    module.model, module.learning_rate = nn.Linear(1, 1), 0.1
    for name, value in options.items():
        setattr(module, name, value)
    made = module.configure_optimizers()
    assert made["lr_scheduler"]["interval"] == "step"
    found = []
    for _ in range(steps):
        found.append(made["optimizer"].param_groups[0]["lr"] / 0.1)
        made["optimizer"].step()
        made["lr_scheduler"]["scheduler"].step()
    return found


def cosine(step, first=0):
    return 0.5 + 0.5 * math.cos(math.pi * (step - first) / (STEPS - first))


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (1, [1]),
        (2, [1, 1]),
        (5, [1, 1, 0.5 + 0.5**1.5, 0.5, 0.5 - 0.5**1.5]),
        (25, [1 / 2, 1, *(0.5 + 0.5 * math.cos(math.pi * step / 23) for step in range(23))]),
    ],
)
def test_a_retriever_warms_up_in_a_tenth_of_its_steps_and_in_one_at_least(steps, expected):
    assert shares(RetrieverTraining, steps=steps, schedule="cosine") == pytest.approx(expected)


@pytest.mark.parametrize(
    ("kind", "options", "rising", "falling"),
    [
        (RetrieverTraining, {"schedule": "cosine"}, 20, lambda step: cosine(step, 20)),
        (ChatSearcherTraining, {}, 6, lambda step: cosine(step, 6)),
        (GeneratorTraining, {}, 10, cosine),
        (AttributeTraining, {}, 0, cosine),
    ],
)
def test_the_learning_rate_rises_by_equal_steps_and_falls_as_a_cosine(kind, options, rising, falling):
    found = shares(kind, **options)
    assert found[:rising] == pytest.approx([(step + 1) / rising for step in range(rising)], abs=0.01)
    assert found[rising:] == pytest.approx([falling(step) for step in range(rising, STEPS)])
    assert len(shares(kind, steps=1, **options)) == 1
