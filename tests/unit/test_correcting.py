"""The user of GenIR: describes the target, then corrects the description by what the system shows."""

import pytest
import torch

from fashioniq.data.descriptions import Describer
from fashioniq.data.topics import topics_of
from fashioniq.loop.messages import Message
from fashioniq.users import correcting
from fashioniq.users.correcting import Correcting, compare, refine

LABELS = {
    "a": [
        ["dress"],
        ["striped", "red", "white"],
        ["cotton"],
        ["maxi", "fitted"],
        ["long sleeve", "belt"],
        ["party"],
    ],
    "b": [["dress"], ["solid", "white"], ["lace"], ["mini", "flared"], ["sleeveless"], ["casual"]],
    "c": [["dress"], ["solid", "black"], ["cotton"], ["mini", "fitted"], ["long sleeve", "bow"], ["party"]],
}
TOPICS = topics_of(LABELS, LABELS)


@pytest.fixture
def describer():
    return Describer(TOPICS, LABELS, "dress")


def user(describer, sight=None, **options):
    return Correcting(describer, list(LABELS.values()), sight, **options)


def talk(user, turns, targets=(0, 1, 2)):
    return [user.reply(torch.tensor(targets), Message(), turn).texts for turn in range(turns)]


def test_a_description_is_read_as_it_was_written(describer):
    words = ("red", "white", "striped", "maxi", "long sleeve", "belt", "party")
    text = describer.write(words)
    assert text == "a red white striped maxi party dress with long sleeve and belt"
    assert set(describer.read(text)) == set(words)


def test_a_garment_word_is_the_noun_where_products_are_of_several_kinds():
    labels = {"a": [["shirt"], ["red"], [], [], [], []], "b": [["top"], ["blue"], [], [], [], []]}
    describer = Describer(topics_of(labels, labels), labels, "garment")
    assert describer.write(("red", "shirt")) == "a red shirt"
    assert describer.write(("red",)) == "a red garment"


def test_the_first_description_has_some_true_details_that_depend_on_the_seed(describer):
    first, again, other = (talk(user(describer, seed=seed), 1)[0] for seed in (0, 0, 1))
    assert first == again != other
    for text, labels in zip(first, LABELS.values(), strict=True):
        said = describer.read(text)
        assert said and set(said) <= {word for words in labels for word in words}
        assert len([topic for topic in TOPICS if set(topic.words) & set(said)]) == 2


def test_verbal_feedback_adds_details_until_all_are_said(describer):
    turns = talk(user(describer, details=2), 8)
    counts = [[len(describer.read(text)) for text in texts] for texts in zip(*turns, strict=True)]
    for one in counts:
        assert one == sorted(one) and one[-1] == one[-2] > one[0]
    whole = {word for words in LABELS["a"][1:] for word in words}
    assert set(describer.read(turns[-1][0])) == whole & {word for topic in TOPICS for word in topic.words}


def test_only_what_is_seen_wrong_is_corrected_and_at_most_so_many_details(describer):
    shown = (
        "black",
        "solid",
        "cotton",
        "maxi",
        "fitted",
        "long sleeve",
        "belt",
        "party",
    )  # of a: colors, pattern
    corrected = user(describer, lambda offer: [shown], details=2, seed=3)
    before, after = (describer.read(texts[0]) for texts in talk(corrected, 2, targets=(0,)))
    assert set(after) - set(before) <= {"red", "white", "striped"} and {"red", "striped"} <= set(after)


def test_a_correct_picture_leaves_the_description_as_it_is(describer):
    shown = tuple(word for words in LABELS["a"] for word in words)
    first, second = talk(user(describer, lambda offer: [shown]), 2, targets=(0,))
    assert first == second


def test_without_a_picture_the_description_itself_is_corrected(describer):
    seen, verbal = user(describer, lambda offer: [None] * 3), user(describer)
    assert talk(seen, 4) == talk(verbal, 4)


def test_a_picture_in_which_nothing_is_recognized_is_not_taken_for_none(describer, monkeypatch):
    seen = []
    monkeypatch.setattr(correcting, "compare", lambda topics, target, saw, said: seen.append(saw) or [])
    talk(user(describer, lambda offer: [(), None, ("red",)]), 2)
    described = talk(user(describer), 1)[0]
    assert seen[0] == () and set(seen[1]) == set(describer.read(described[1])) and seen[2] == ("red",)


def test_what_was_said_correctly_is_corrected_last():
    target, seen = ("red", "maxi", "long sleeve"), ("white", "mini", "sleeveless")
    names = [topic.question for topic in compare(TOPICS, target, seen, said=("red", "maxi"))]
    assert names[0] == "what are the sleeves like?" and len(names) == 3


def test_a_correction_replaces_the_wrong_word():
    (topic,) = [topic for topic in TOPICS if "red" in topic.words]
    assert refine(("white", "maxi"), ("red", "maxi"), [topic]) == ("maxi", "red")
