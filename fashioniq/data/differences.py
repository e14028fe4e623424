"""Relative captions from the attribute labels of two products."""

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from fashioniq.data.attributes import FABRIC, GARMENT, GROUP_OF, PART, SHAPE, STYLE, TEXTURE, WORD_OF, Group

_OTHER = (
    Group(GARMENT, "garment", "is", "a {}"),
    Group(TEXTURE, "other texture", "is", "{}"),
    Group(FABRIC, "fabric", "is made of", "{}"),
    Group(SHAPE, "other shape", "is", "{}"),
    Group(PART, "detail", "has", "{}"),
    Group(STYLE, "other style", "has", "a {} look"),
)
# Words of a family in increasing order; used only if all words of both products are on the scale.
_SCALES = {
    "colour": ("is", "darker", "lighter", (
        {"black", "charcoal", "dark grey", "navy blue", "dark blue", "dark green", "dark brown", "dark red",
         "maroon", "burgundy"},
        {"white", "off white", "ivory", "cream", "beige", "nude", "light grey", "light pink", "light blue",
         "light green", "sky blue"})),
    "length": ("is", "shorter", "longer", (
        {"cropped"}, {"short", "mini"}, {"knee length"}, {"midi"}, {"long", "maxi"})),
    "fit": ("is", "tighter", "looser", (
        {"fitted", "bodycon", "slim fit"}, {"regular fit", "straight fit"},
        {"relaxed fit", "loose", "oversized"})),
    "sleeves": ("has", "shorter sleeves", "longer sleeves", (
        {"cap sleeve"}, {"short sleeve"}, {"elbow sleeve"}, {"three quarter sleeve"}, {"long sleeve"})),
}  # fmt: skip
_NOT_CONTRASTED = {"detail", "trim", "occasion"}  # "pockets instead of buttons" makes no sense


@dataclass(frozen=True)
class _Fact:
    """One difference of the target: it "is" or "has" something, or does not if `denied`."""

    verb: str
    what: str
    instead: str = ""
    denied: bool = False


_SAME, DIFFERENT = (
    ("looks the same", "very similar to this one"),
    ("looks different", "not quite like this one"),
)
NO_DIFFERENCE = {*_SAME, *DIFFERENT}  # captions without information about the target
# user feedback has up to 8 words; values of more than 3 words are not used
_USUAL_WORDS, _MOST_WORDS, _SPEAKABLE = 8, 12, 3


class Described:
    """Label words of a product by family: the `speakable` ones, which are short enough for captions, and the
    others.
    """

    def __init__(self, labels: list[list[str]]) -> None:
        self.speakable, self.others = _spoken_of(labels, True), _spoken_of(labels, False)


def describe_difference(candidate: list[list[str]], target: list[list[str]], seed: int) -> tuple[str, str]:
    """Two captions of how the labels of the target differ from those of the candidate.

    One caption is a sentence, the other a phrase, in random order. They usually have at most 8 words, never
    more than 12. The same seed gives the same captions.
    """
    return captions_of(Described(candidate), Described(target), random.Random(seed))


def captions_of(candidate: Described, target: Described, chance: random.Random) -> tuple[str, str]:
    """Two captions as `describe_difference` returns, for products that are described many times."""
    facts = _facts(candidate, target, chance)
    if not facts:
        return _SAME if candidate.others == target.others else DIFFERENT
    first, second = facts[: chance.choice((1, 2, 2))], facts[1:3] or facts
    ways = [_sentence, _phrase]
    chance.shuffle(ways)
    return _caption(first, ways[0], chance), _caption(second, ways[1], chance)


def can_tell_apart(candidate: list[list[str]], target: list[list[str]]) -> bool:
    """Whether a difference between two products can be described by their labels."""
    return bool(_facts(Described(candidate), Described(target), random.Random(0)))


def _facts(candidate: Described, target: Described, chance: random.Random) -> list[_Fact]:
    has, wanted = candidate.speakable, target.speakable
    gains, losses = [], []
    for family in dict.fromkeys([*wanted, *has]):
        ours, theirs = wanted.get(family, {}), has.get(family, {})
        gained, lost = _only_in(ours, theirs, [*ours]), _only_in(theirs, ours, [*ours, *theirs])
        if gained:
            on_scale = _on_scale(family, theirs, ours)
            gains.append(on_scale if on_scale and chance.random() < 1 / 3 else _gain(family, gained, lost))
        # a title without a garment word does not describe the garment
        elif lost and (ours or family != "garment"):
            losses.append(_loss(*next(iter(lost.items()))))
    chance.shuffle(gains)
    chance.shuffle(losses)
    return gains + losses


def _spoken_of(labels: list[list[str]], speakable: bool) -> dict[str, dict[str, Group]]:
    """Label words by family: those that are short enough for captions, or those that are not."""
    families: dict[str, dict[str, Group]] = {}
    for kind, words in enumerate(labels):
        for word in words:
            if (len(word.split()) <= _SPEAKABLE) == speakable:
                group = _group_of(word, kind)
                families.setdefault(group.family, {})[word] = group
    return families


def _group_of(word: str, kind: int) -> Group:
    """Phrasing for a label, by its word, its last word (bottle green is a green) or its list."""
    last = GROUP_OF.get(WORD_OF.get(word.split(" ")[-1], ""))
    return GROUP_OF.get(word) or (last if last and last.kind == kind else _OTHER[kind])


def _only_in(words: dict[str, Group], others: dict[str, Group], implying: list[str]) -> dict[str, Group]:
    """Words missing from `others`, except those implied by a longer word: navy blue implies blue."""
    implied = {word for word in words if any(longer.endswith(" " + word) for longer in implying)}
    return {word: group for word, group in words.items() if word not in others and word not in implied}


def _on_scale(family: str, before: dict[str, Group], after: dict[str, Group]) -> _Fact | None:
    if family not in _SCALES or not before:
        return None
    verb, less, more, levels = _SCALES[family]
    ranks = [
        {rank for rank, level in enumerate(levels) if words.keys() <= level} for words in (before, after)
    ]
    if not all(ranks) or ranks[0] == ranks[1]:
        return None
    return _Fact(verb, more if max(ranks[1]) > max(ranks[0]) else less)


def _gain(family: str, gained: dict[str, Group], lost: dict[str, Group]) -> _Fact:
    group = next(iter(gained.values()))
    words = [word for word, other in gained.items() if other.lead == group.lead and other.item == group.item]
    what = " and ".join(_item(group, word) for word in words[: 2 if family == "colour" else 1])
    against = [_item(other, word) for word, other in lost.items() if other.lead == group.lead]
    instead = against[0] if against and family not in _NOT_CONTRASTED else ""
    verb, _, rest = group.lead.partition(" ")
    if rest == "more" and instead:
        rest = ""  # casual instead of formal
    return _Fact(verb, f"{rest} {what}".strip(), instead)


def _loss(word: str, group: Group) -> _Fact:
    verb, _, rest = group.lead.partition(" ")
    if rest == "more":
        return _Fact(verb, f"less {word}")
    return _Fact(verb, f"{rest} {_item(group, word)}".strip(), denied=True)


def _item(group: Group, word: str) -> str:
    return re.sub(r"^a (?=[aeio])", "an ", group.item.format(word))


def _caption(facts: list[_Fact], say: Callable[[list[_Fact]], str], chance: random.Random) -> str:
    limit = _MOST_WORDS if chance.random() < 0.1 else _USUAL_WORDS
    plain = [replace(fact, instead="") for fact in facts]
    for chosen in (facts, plain, facts[:1], plain[:1]):
        text = say(sorted(chosen, key=lambda fact: (fact.verb == "has", fact.denied, fact.instead != "")))
        if len(text.split()) <= limit:
            break
    return text


def _sentence(facts: list[_Fact]) -> str:
    """Sentence such as "is striped and more casual" or "is navy blue instead of red and has no pockets"."""
    text, before = "", None
    for fact in facts:
        denial = {"is": "is not ", "has": "has no "}[fact.verb] if fact.denied else ""
        shared = before and before.verb == fact.verb and not before.denied and not fact.denied
        what = re.sub(r"^an? ", "", fact.what) if denial == "has no " else fact.what
        text += (" and " if before else "") + (denial or ("" if shared else fact.verb + " ")) + what
        text += f" instead of {fact.instead}" if fact.instead else ""
        before = fact
    return text


def _phrase(facts: list[_Fact]) -> str:
    """Phrase such as "striped and more casual" or "navy blue rather than red without pockets"."""
    text, before = "", None
    for fact in facts:
        opening = {"is": ("", "not "), "has": ("with ", "without ")}[fact.verb][fact.denied]
        shared = before and before.verb == fact.verb == "has" and not fact.denied
        joint = "" if before is None else " " if fact.verb == "has" and before.verb == "is" else " and "
        text += joint + ("" if shared else opening) + fact.what
        text += f" rather than {fact.instead}" if fact.instead else ""
        before = fact
    return text
