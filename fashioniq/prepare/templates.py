"""Conversations written from the attribute labels of products, without a language model.

The paper's texts are GPT-4's; these templates are ours. A dialog asks for some of the attributes of a product, one
or two per turn, some of them as a hint. A request names one or two differences between two products. What was
asked for earlier holds for the product that is wanted, unless the request takes it back.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

from fashioniq.data.differences import Described, Fact, label_differences, phrase, sentence
from fashioniq.data.languages import ENGLISH
from fashioniq.data.writers import DescribedProduct, FeedbackPair, TwoRounds, WrittenDialog

HINTS: dict[str, Fact] = {  # attributes paraphrased by general knowledge
    "black": Fact("is", "the color of coal"),
    "white": Fact("is", "the color of snow"),
    "red": Fact("is", "the color of a ripe tomato"),
    "yellow": Fact("is", "the color of a lemon"),
    "green": Fact("is", "the color of grass"),
    "orange": Fact("is", "the color of a carrot"),
    "grey": Fact("is", "the color of ash"),
    "brown": Fact("is", "the color of chestnuts"),
    "pink": Fact("is", "the color of a flamingo"),
    "purple": Fact("is", "the color of an eggplant"),
    "navy blue": Fact("is", "the color of a sailor's uniform"),
    "light blue": Fact("is", "the color of a clear sky"),
    "floral": Fact("is", "covered in blossoms"),
    "plaid": Fact("has", "the cloth of a kilt"),
    "striped": Fact("is", "lined like a zebra"),
    "denim": Fact("is", "made of what cowboys wear"),
    "maxi": Fact("has", "a hem at the ankles"),
    "knee length": Fact("has", "a hem at the knee"),
    "mini": Fact("has", "a hem high above the knee"),
    "cropped": Fact("has", "a hem above the waist"),
    "long sleeve": Fact("has", "sleeves down to the wrists"),
    "short sleeve": Fact("has", "sleeves that end above the elbow"),
    "sporty": Fact("is", "something to wear to a game"),
    "office": Fact("is", "something my boss would approve of"),
    "elegant": Fact("is", "something to wear to the opera"),
}
_HINTED = 0.25  # share of the attributes with a hint that are said by it
_QUESTIONS = {  # of the assistant, by the family of the attribute that the user says next
    "colour": ("Which color do you have in mind?", "Do you have a color in mind?"),
    "pattern": ("Should it have a pattern?", "Plain, or with a pattern?"),
    "print": ("Would you like something on the front?",),
    "fabric": ("What should it be made of?", "Do you prefer a certain fabric?"),
    "length": ("How long should it be?", "What length do you like?"),
    "fit": ("How should it fit?",),
    "silhouette": ("What shape do you like?",),
    "sleeves": ("What about the sleeves?", "Which sleeves would you like?"),
    "neck": ("Which neckline do you like?", "And the neckline?"),
    "detail": ("Are there details that matter to you?", "Any details it should have?"),
    "style": ("What style are you after?", "What kind of look do you want?"),
    "occasion": ("What is it for?",),
}
_OTHERWISE = ("Can you tell me more?", "What else matters to you?", "I see many of those. What else?")
_THANKS = ("", "", "Sure.", "Noted.", "Alright.", "Good choice.", "Okay, I can look for that.")
_OPENINGS = (
    "Hi, I am looking for {garment} that {sentence}.",
    "Could you help me find {garment}? I want one that {sentence}.",
    "I saw {garment} the other day and want one like it. It {sentence}.",
    "I need {garment} that {sentence}.",
    "My sister wants {garment} that {sentence}. Can you find it?",
    "Do you have {garment} that {sentence}?",
)
_ANSWERS = (
    "I would like one that {sentence}.",
    "It {sentence}, as far as I remember.",
    "I imagine that it {sentence}.",
    "Ideally it {sentence}.",
    "One that {sentence} would be perfect for me.",
    "It only works for me if it {sentence}.",
)
_REQUESTS = (
    "I like it, but I want one that {sentence}.",
    "Nice, but I prefer one that {sentence}.",
    "Similar to this, but {phrase}, please.",
    "Can you show me one like this, but {phrase}?",
    "This is close. Is there one that {sentence}?",
    "Keep the rest, but the one I want {sentence}.",
    "Something like this, just {phrase}.",
    "Almost. Mine {sentence}.",
)
_MIXED = {"detail", "trim", "occasion"}  # families of which a product can have several words
_MOST_TAKEN_BACK = 3


class Templates:
    """Writer of texts from labels, in English."""

    name = "templates"
    tokens: Mapping[str, int] = {}

    def dialogs(
        self, products: Sequence[DescribedProduct], seeds: Sequence[str]
    ) -> list[WrittenDialog | None]:
        """Dialogs of three or four rounds; None for a product with fewer than three attributes."""
        return [_dialog(one, random.Random(seed)) for one, seed in zip(products, seeds, strict=True)]

    def two_rounds(self, pairs: Sequence[FeedbackPair], seeds: Sequence[str]) -> list[TwoRounds | None]:
        """A request for two or three attributes of the wanted product, and the caption of a product that has these
        and is else as the one shown; None for a product with fewer than three attributes.
        """
        return [_two_rounds(pair, random.Random(seed)) for pair, seed in zip(pairs, seeds, strict=True)]

    def requests(self, pairs: Sequence[FeedbackPair], seeds: Sequence[str]) -> list[str | None]:
        """Requests of one or two differences.

        They take back what was said and is not true of the wanted product; None if this is too much, or if the
        labels have no other difference.
        """
        return [_request(pair, random.Random(seed)) for pair, seed in zip(pairs, seeds, strict=True)]


def _wishes(product: DescribedProduct, chance: random.Random) -> tuple[str, list[Fact]]:
    """The garment, such as "a dress", and the attributes to ask for in random order."""
    facts = label_differences(Described([[]] * len(product.labels)), product.described, chance)
    garments = [fact.what for fact in facts if fact.family == "garment"]
    return (garments or ["something"])[0], [
        replace(fact, what=fact.what.removeprefix(f"{ENGLISH.more} "))  # "is casual" for "is more casual"
        for fact in facts
        if fact.family != "garment"
    ]


def _hinted(fact: Fact, chance: random.Random) -> Fact:
    hint = HINTS.get(fact.words[0]) if len(fact.words) == 1 else None
    return replace(hint, family=fact.family) if hint and chance.random() < _HINTED else fact


def _say(template: str, facts: Sequence[Fact], garment: str = "") -> str:
    ordered = sorted(
        facts, key=lambda fact: (fact.verb == ENGLISH.have.verb, fact.denied, fact.instead != "")
    )
    return template.format(
        garment=garment, sentence=sentence(ordered, ENGLISH), phrase=phrase(ordered, ENGLISH)
    )


def _dialog(product: DescribedProduct, chance: random.Random) -> WrittenDialog | None:
    garment, wishes = _wishes(product, chance)
    rounds = min(chance.choice((3, 3, 4)), len(wishes))
    if rounds < 3:
        return None
    counts = [chance.choice((1, 2, 2)) for _ in range(rounds)]
    while sum(counts) > len(wishes):
        counts[counts.index(2)] = 1
    parts = [wishes[sum(counts[:number]) : sum(counts[: number + 1])] for number in range(rounds)]
    spoken = [[_hinted(fact, chance) for fact in part] for part in parts]
    texts = [_say(chance.choice(_OPENINGS), spoken[0], garment)]
    for facts, answer in zip(spoken[1:], chance.sample(_ANSWERS, rounds - 1), strict=True):
        asked = _QUESTIONS.get(facts[0].family, _OTHERWISE) if chance.random() < 0.7 else _OTHERWISE
        texts += [f"{chance.choice(_THANKS)} {chance.choice(asked)}".strip(), _say(answer, facts)]
    return WrittenDialog(
        tuple(texts), frozenset(word for part in parts for fact in part for word in fact.words)
    )


def _two_rounds(pair: FeedbackPair, chance: random.Random) -> TwoRounds | None:
    garment, wishes = _wishes(pair.wanted, chance)
    if len(wishes) < 3:
        return None
    kept = wishes[: chance.choice((2, 3)) if len(wishes) > 3 else 2]
    families = {fact.family for fact in kept} | {"garment"}
    own, other = pair.wanted.described.speakable, pair.shown.described.speakable
    mixed = [word for family in own if family in families for word in own[family]]
    mixed += [word for family in other if family not in families for word in other[family]]
    first = _say(chance.choice(_OPENINGS), [_hinted(fact, chance) for fact in kept], garment)
    said = frozenset(word for fact in kept for word in fact.words)
    return TwoRounds(first, ", ".join(mixed), said=said)


def _request(pair: FeedbackPair, chance: random.Random) -> str | None:
    facts = label_differences(pair.shown.described, pair.wanted.described, chance)
    said: dict[str, set[str]] = {}  # by family
    for product in (pair.shown, pair.wanted):
        for family, words in product.described.speakable.items():
            said.setdefault(family, set()).update(pair.said.intersection(words))
    broken = {family: lost for family, words in said.items() if (lost := words - pair.wanted.words)}
    taken_back = [fact for fact in facts if fact.family in broken and _takes_back(fact, broken[fact.family])]
    if len(taken_back) < len(broken) or len(taken_back) > _MOST_TAKEN_BACK:
        return None
    news = [fact for fact in facts if fact not in taken_back and not _repeats(fact, said)]
    chosen = taken_back + news[: max(0, chance.choice((1, 2, 2)) - len(taken_back))]
    return _say(chance.choice(_REQUESTS), chosen) if chosen else None


def _takes_back(fact: Fact, words: set[str]) -> bool:
    """Whether a fact makes clear that the words of its family, which were asked for, no longer hold."""
    return fact.family not in _MIXED or (fact.denied and words.issubset(fact.words))


def _repeats(fact: Fact, said: Mapping[str, set[str]]) -> bool:
    return not fact.denied and bool(said.get(fact.family)) and said[fact.family].issuperset(fact.words)
