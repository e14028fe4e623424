"""Question dialogs of the drawn sample: ten topics each, answers that are true, files that follow from the
seed.
"""

import random
import re

import pytest

from fashioniq.data.catalog import Catalog
from fashioniq.data.dialogues import read_dialogues
from fashioniq.sample import draw_sample
from fashioniq.sample.garments import random_garment
from fashioniq.sample.questions import question_dialog, topics_of

CATEGORIES = ("dresses", "shirts", "tops")
TRUE_IF = {  # what is said, and the garment that it is true of
    r"\b(striped|stripes)\b": lambda garment: garment.pattern == "striped",
    r"\b(plaid|check(ed|s))\b": lambda garment: garment.pattern == "plaid",
    r"\b(floral|flowers)\b": lambda garment: garment.pattern == "floral",
    r"that is plain|\? (plain|no pattern)$": lambda garment: garment.pattern == "solid",
    r"\b(maxi|floor length)\b": lambda garment: garment.length == "maxi",
    r"\b(cropped)\b": lambda garment: garment.length == "cropped",
    r"\b(long sleeved|long sleeves)\b": lambda garment: garment.sleeves == "long",
    r"\b(v-neck|v-necked)\b": lambda garment: garment.neckline == "v-neck",
    r"\b(turtleneck|high neck)\b": lambda garment: garment.neckline == "turtleneck",
    r"\b(tight|fitted)\b": lambda garment: garment.fit == "fitted",
    r"\bzip(per| front)$": lambda garment: garment.closure == "zipper",
    r"\bletters$": lambda garment: garment.motif == "lettering",
    r"\? (satin|linen|denim)$": lambda garment: garment.fabric in ("satin", "linen", "denim"),
}
ABOUT = {name: name for name in ("ruffles", "pockets", "trim", "bell sleeves")} | {
    f"a {name}": name for name in ("belt", "bow", "pocket")
}


def drawn(category, number=300):
    for seed in range(number):
        rng = random.Random(seed)
        garment = random_garment(category, rng)
        yield garment, question_dialog(garment, rng)


@pytest.mark.parametrize("category", CATEGORIES)
def test_what_is_said_is_true_of_the_garment(category):
    tried = set()
    for garment, rounds in drawn(category):
        for text in rounds:
            for said, holds in TRUE_IF.items():
                if re.search(said, text):
                    assert holds(garment), (text, garment)
                    tried.add(said)
    assert len(tried) >= 11


@pytest.mark.parametrize("category", CATEGORIES)
def test_details_are_confirmed_where_they_are_there_and_denied_where_not(category):
    answers = {True: 0, False: 0}
    for garment, rounds in drawn(category):
        for question, answer in ((said.question, said.answer) for said in rounds[1:]):
            for asked in (name for thing, name in ABOUT.items() if question.endswith(f" {thing}?")):
                there = asked in garment.details
                assert answer.split(",")[0].split()[0] == ("yes" if there else "no"), (
                    question,
                    answer,
                    garment,
                )
                answers[there] += 1
    assert min(answers.values()) > 20


@pytest.mark.parametrize("category", CATEGORIES)
def test_a_dialog_is_a_caption_and_ten_questions_on_ten_topics_that_it_does_not_tell(category):
    for garment, (caption, *rounds) in drawn(category):
        assert re.fullmatch(r"an? \w+ that (is|has) [\w' -]+", caption)
        questions = [said.question for said in rounds]
        topics = [
            name
            for question in questions
            for name, topic in topics_of(garment).items()
            if question in topic.questions
        ]
        assert len(rounds) == 10 == len(set(topics)) and len(topics) == 10
        colours = [text for text in rounds if "color is" in text or "main color" in text]
        assert not (
            colours and colours[0].answer in caption.removesuffix("s").split(" that is ")[-1].split(" and ")
        ), (caption, colours)


def test_questions_come_in_another_order_in_every_dialog():
    firsts = {first.question for _, (_, first, *_) in drawn("dresses")}
    assert len(firsts) > 20


def test_the_files_hold_a_dialog_of_every_product_and_a_larger_sample_the_same_ones_first(tmp_path):
    for products in (30, 40):
        draw_sample(tmp_path / str(products), products=products, seed=5, categories=["tops"])
    for split in ("train", "val", "test"):
        small, large = (
            read_dialogues(tmp_path / size / "dialogues" / f"toptee.{split}.json") for size in ("30", "40")
        )
        assert [dialogue.image for dialogue in large] == Catalog(tmp_path / "40", "tops").ids(split)
        assert large[: len(small)] == small and not any(dialogue.alone for dialogue in large)
