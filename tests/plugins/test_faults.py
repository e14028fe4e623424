"""A part of another package that breaks its protocol is named in one line."""

import dataclasses
import sys
import types

import pytest
import torch

from fashioniq import plugins
from fashioniq.data.parts import named_part
from fashioniq.data.words import Vocabulary
from fashioniq.files import UserError
from fashioniq.loop.messages import Message
from fashioniq.metrics.measures import check_measures, measure
from fashioniq.users.by_name import named_user

pytestmark = pytest.mark.usefixtures("installed")


@pytest.fixture
def broken(monkeypatch):
    """Function that makes a module `brk` whose part `U` is as given."""

    def broken(part):
        module = types.ModuleType("brk")
        module.U = part
        monkeypatch.setitem(sys.modules, "brk", module)

    return broken


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (Message(texts=["red"]), "the user brk:U returned 1 as texts, expected 3"),
        (Message(texts="red"), "the user brk:U returned a str as texts, expected 3"),
        ("red", "the user brk:U returned str, expected a Message"),
    ],
)
def test_a_user_returns_a_text_for_each_dialog(broken, reply, told):
    user = types.SimpleNamespace(reply=lambda target_B, offer, turn: reply)
    broken(lambda inputs: user)
    made, _ = named_user("brk:U", vocabulary=Vocabulary([]), max_words=4)
    with pytest.raises(UserError, match=told):
        made.reply(torch.arange(3), Message(), 0)


@pytest.mark.parametrize(
    ("kind", "lacking"), [("users", "reply"), ("askers", "offer"), ("encoders", "identity and no size")]
)
def test_what_a_part_lacks_is_named(broken, kind, lacking):
    broken(lambda inputs: object())
    with pytest.raises(UserError, match=f"brk:U .it has no {lacking}"):
        named_part(kind, "brk:U")


def raising(rank_BT, gallery):
    raise KeyError("turn")


def test_an_unknown_measure_is_answered_by_the_installed_ones():
    with pytest.raises(ValueError, match="unknown measure 'SQUARED'; expected RR2, P, MRR"):
        measure("SQUARED")


@pytest.mark.parametrize("function", [raising, lambda rank, _: rank.double()[:, :1]])
def test_a_measure_that_fails_is_named_before_the_dialogs(monkeypatch, function):
    good = plugins.find("measures", "RR2")
    check_measures()
    monkeypatch.setattr(
        "fashioniq.metrics.measures.measure", lambda name: dataclasses.replace(good, function=function)
    )
    with pytest.raises(UserError, match="the installed measure RR2 fails"):
        check_measures()
