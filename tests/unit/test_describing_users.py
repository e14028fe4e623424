"""Users that describe any pair: true by the labels or by the drawn garments, and repeatable."""

import json
import random
import re
import shutil

import pytest
import torch

from fashioniq.data.attributes import find_attributes
from fashioniq.data.catalog import Catalog
from fashioniq.data.differences import Described, describe_difference
from fashioniq.data.languages import ENGLISH
from fashioniq.data.words import UNKNOWN, Vocabulary
from fashioniq.files import UserError
from fashioniq.loop.messages import Message
from fashioniq.sample import garments_of
from fashioniq.sample.differences import differences
from fashioniq.sample.garments import COLOURS
from fashioniq.sample.labels import labels_of
from fashioniq.users.by_name import WordedUser
from fashioniq.users.describing import DescribingUser
from fashioniq.users.differences import LabelSpeaker
from fashioniq.users.grammar import GarmentSpeaker

RED = [["dress"], ["red", "striped"], ["cotton"], ["mini"], ["pockets"], ["casual"]]
BLUE = [["dress"], ["blue", "striped"], ["cotton"], ["maxi"], [], ["casual"]]
WORDS = Vocabulary(["is", "has", "blue", "red", "and", "instead", "of", "long", "no"])


@pytest.fixture
def garments(sample):
    return list(garments_of(Catalog(sample, "dresses")).items())


def test_the_garments_of_a_sample_are_drawn_again_from_its_seed(sample):
    for category in ("dresses", "shirts", "tops"):
        catalog = Catalog(sample, category)
        garments = garments_of(catalog)
        assert sorted(garments) == sorted(catalog.all_ids())
        assert all(labels_of(garment) == catalog.labels[name] for name, garment in garments.items())


def test_only_a_drawn_sample_has_garments(sample, tmp_path):
    other = shutil.copytree(sample, tmp_path / "catalog", ignore=shutil.ignore_patterns("images"))
    about = json.loads((other / "catalog.json").read_text())
    (other / "catalog.json").write_text(json.dumps(about | {"seed": 7}))
    with pytest.raises(UserError, match="not those of the garments of seed 7"):
        garments_of(Catalog(other, "dresses"))
    (other / "catalog.json").unlink()
    with pytest.raises(UserError, match="expected a drawn sample"):
        garments_of(Catalog(other, "dresses"))


def test_a_reply_has_the_words_of_its_text_in_the_vocabulary_of_the_retriever():
    user = WordedUser(DescribingUser(LabelSpeaker([RED, BLUE])), WORDS, max_words=8)
    reply = user.reply(torch.tensor([1]), Message(item_B=torch.tensor([0])), 0)
    assert torch.equal(reply.words_BL, WORDS.encode(reply.texts, 8)) and reply.words_BL.shape == (1, 8)
    spoken = [
        user.reply(torch.tensor([1]), Message(item_B=torch.tensor([0])), turn).words_BL for turn in range(30)
    ]
    assert (torch.cat(spoken) == UNKNOWN).any(), "maxi and striped are unknown to the retriever"


def test_a_reply_depends_on_the_pair_and_the_turn_only():
    speaker = LabelSpeaker([RED, BLUE])
    user = DescribingUser(speaker)
    pairs = torch.tensor([0, 1, 0]), torch.tensor([1, 0, 1])
    together = [user.reply(pairs[0], Message(item_B=pairs[1]), turn).texts for turn in range(20)]
    alone = [user.reply(pairs[0][1:2], Message(item_B=pairs[1][1:2]), turn).texts for turn in range(20)]
    assert [texts[1] for texts in together] == [texts[0] for texts in alone]
    assert len({texts[1] for texts in together}) > 3
    other = DescribingUser(speaker, seed=1)
    assert together != [other.reply(pairs[0], Message(item_B=pairs[1]), turn).texts for turn in range(20)]


def test_what_is_said_is_what_the_target_has_and_the_offer_lacks():
    speaker = LabelSpeaker([RED, BLUE])
    user = DescribingUser(speaker)
    for turn in range(20):
        (text,) = user.reply(torch.tensor([1]), Message(item_B=torch.tensor([0])), turn).texts
        said = re.split(" (?:instead of|rather than) ", text)[0].split()
        assert {"blue", "maxi", "longer"} & {*said} and not {"red", "mini", "shorter", "pockets"} & {*said}, (
            text
        )


def test_labels_are_described_as_in_imported_catalogs():
    speaker = LabelSpeaker([RED, BLUE, []])
    for seed in range(50):
        assert speaker.describe(1, 0, random.Random(seed)) == describe_difference(RED, BLUE, seed)[0]


def test_a_target_without_labels_lacks_nothing():
    speaker = LabelSpeaker([RED, []])
    for seed in range(20):
        assert speaker.describe(1, 0, random.Random(seed)) in ENGLISH.different
        assert " no " not in f" {speaker.describe(0, 1, random.Random(seed))} "


def test_the_grammar_says_only_what_holds(garments):
    """Colors that are stated without a denial or comparison are those of the target."""
    speaker = GarmentSpeaker([garment for _, garment in garments])
    stated = 0
    for target in range(len(garments)):
        candidate, wanted = (target * 7 + 1) % len(garments), garments[target][1]
        if candidate == target:
            continue
        said = speaker.describe(target, candidate, random.Random(target))
        own = said.split(" instead of ")[0].split(" than ")[0].split(" not ")[0]
        named = {word for word in find_attributes(own)[1] if word in COLOURS}
        stated += len(named)
        assert named <= {wanted.colour, wanted.second, "blue" if wanted.colour == "navy" else ""}, said
        assert differences(wanted, garments[candidate][1]) or "same" in said
    assert stated > 5


def test_labels_are_sorted_into_families_once(monkeypatch):
    sorted_ones = []
    monkeypatch.setattr(
        "fashioniq.users.differences.Described",
        lambda lists, speech: sorted_ones.append(lists) or Described(lists, speech),
    )
    user = DescribingUser(LabelSpeaker([RED, BLUE]))
    for turn in range(5):
        user.reply(torch.tensor([0, 1]), Message(item_B=torch.tensor([1, 0])), turn)
    assert sorted_ones == [RED, BLUE]
