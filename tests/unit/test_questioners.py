"""Which questioner the option --questioner names."""

from types import SimpleNamespace

import pytest

from fashioniq.askers import by_name
from fashioniq.askers.language_model import AllAtOnce, FewShot
from fashioniq.data.dialogues import Dialogue, Round
from fashioniq.files import UserError

RECORDED = [
    Dialogue("a", (Round("a red dress"), Round.read("is it long? yes"), Round.read("any belt? no"))),
    Dialogue("b", (Round("a dress"), Round.read("mini? no"))),
]


def asker(questioner, recorded=(), rounds=2, model="endpoint:one"):
    settings = SimpleNamespace(
        questioner=questioner, rounds=rounds, language_model=model, prompt=None, seed=0, device="cpu"
    )
    return by_name.asker_of(settings, None, by_name.nothing_searched()[1], recorded)


@pytest.mark.parametrize(("questioner", "kind"), [("few-shot", FewShot), ("unanswered", AllAtOnce)])
def test_a_language_model_asks_with_examples_or_all_questions_at_once(questioner, kind, monkeypatch):
    monkeypatch.setattr(by_name, "endpoint", lambda settings, name: name)
    asked = asker(questioner)
    assert type(asked([0])) is kind and asked([0]) is asked([1])  # one for all batches
    with pytest.raises(UserError, match=f"--questioner {questioner} needs a language model"):
        asker(questioner, model=None)


def test_recorded_questions_are_asked_if_every_dialog_has_enough():
    with pytest.raises(UserError, match="expected 2 recorded rounds per dialog, found 1"):
        asker("recorded", RECORDED)
    first, second = asker("recorded", RECORDED, rounds=1)([1]).offers
    assert first.questions is None and second.questions == ("mini?",)
    with pytest.raises(UserError, match="found 0"):
        asker("recorded")
