"""Words of prompts and of the products of a catalog."""

import json

import numpy as np
import pytest

from fashioniq.data.catalog import Catalog
from fashioniq.data.prompts import MAIN, NAMED, PromptWords, described_products
from fashioniq.files import UserError

TYPES = {
    "dress": "garment", "navy blue": "texture", "red": "texture", "blue": "texture", "polka dot": "texture",
    "maxi": "shape", "long sleeve": "part", "v-neck": "part", "belt": "part", "city chic": "style",
}  # fmt: skip
WORDS = PromptWords(list(TYPES), list(TYPES.values()))


@pytest.mark.parametrize(
    ("prompt", "words"),
    [
        ("a navy maxi dress with long sleeves, not red", ["navy blue", "maxi", "dress", "long sleeve"]),
        ("Is RED and has a V neck.", ["red", "v-neck"]),
        ("not red, polka dots", ["polka dot"]),  # a negation ends with its clause
        ("without a belt; is blue", ["blue"]),
        ("is red. is blue instead of red", ["blue"]),  # denied later
        ("is not red but blue", ["blue"]),
        ("a floor length gown", ["maxi", "dress"]),  # synonyms
        ("city chic dresses", ["city chic", "dress"]),  # a label that is in no list of the package
        ("longer and more elegant", []),  # comparisons and unknown words
        ("", []),
    ],
)
def test_a_prompt_is_read_as_the_words_it_asks_for(prompt, words):
    assert WORDS.read(prompt) == sorted(words, key=list(TYPES).index)


def test_a_list_of_words_is_read_as_itself():
    assert WORDS.read(", ".join(TYPES)) == list(TYPES)


def test_words_of_a_row_are_those_encoded_without_the_unknown():
    words_NV = WORDS.encode([["belt", "red", "sporty"], []])
    assert WORDS.of_row(words_NV[0]) == ["red", "belt"] and not words_NV[1].any()


@pytest.mark.parametrize(
    ("prompt", "main", "others"),
    [
        ("a red dress with navy polka dots", ["dress", "red", "polka dot"], ["navy blue"]),
        ("navy with red. polka dots, blue", ["navy blue", "polka dot"], ["red", "blue"]),
        ("is red. not red, blue and navy", ["blue"], ["navy blue"]),
        ("a belt and long sleeves", ["belt", "long sleeve"], []),  # details are no alternatives
    ],
)
def test_the_first_word_of_a_question_is_the_main_one(prompt, main, others):
    (row_V,) = WORDS.encode([WORDS.read(prompt)])
    assert {word for word, value in zip(WORDS.words, row_V, strict=True) if value == MAIN} == set(main)
    assert {word for word, value in zip(WORDS.words, row_V, strict=True) if value == NAMED} == set(others)
    assert np.array_equal(WORDS.encode([WORDS.read(", ".join(WORDS.of_row(row_V)))])[0], row_V)


def test_the_main_color_is_known_in_all_languages():
    words = PromptWords(["gestreift", "rot", "weiß"], ["texture"] * 3, "de")
    assert words.encode([["weiß", "gestreift", "rot"]]).tolist() == [[MAIN, NAMED, MAIN]]


def test_a_title_fills_the_lists_without_labels(sample, tmp_path):
    catalog = Catalog(sample, "dresses")
    words, products = described_products([catalog], at_least=1)
    assert {"dress", "solid"} <= set(words.words) and set(products) == {"train", "val", "test"}
    for folder in ("image_splits", "images"):
        (tmp_path / folder).symlink_to(sample / folder)
    (tmp_path / "titles").mkdir()
    for split in ("train", "val", "test"):
        title = "Navy Maxi Dress" if split == "train" else "A gown"
        titles = {name: {"title": title} for name in catalog.ids(split)}
        (tmp_path / "titles" / f"dress.{split}.json").write_text(json.dumps(titles))
    words, products = described_products([Catalog(tmp_path, "dresses")], at_least=1)
    assert words.words == ["dress", "maxi", "navy blue"] and words.types == ["garment", "shape", "texture"]
    assert np.array_equal(products["train"].labels_NA, np.full((len(catalog.ids("train")), 3), MAIN))
    assert (products["val"].labels_NA > 0).sum() == len(catalog.ids("val"))


def test_words_that_are_too_rare_are_refused(sample):
    with pytest.raises(UserError, match=r"no word has 999 training products .* lower --min-count"):
        described_products([Catalog(sample, "dresses")], at_least=999)
