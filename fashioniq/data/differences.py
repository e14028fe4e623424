"""Relative captions from the attribute labels of two products."""

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from fashioniq.data.languages import ENGLISH, LANGUAGES, Language, PhraseGroup, language

_NOT_CONTRASTED = {"detail", "trim", "occasion"}  # "pockets instead of buttons" makes no sense


@dataclass(frozen=True)
class Fact:
    """One difference of the target: it "is" or "has" something, or does not if `denied`.

    `verb` is one of the two of the language. `words` are the labels that it has or lacks, none for a comparison,
    and `family` is their family.
    """

    verb: str
    what: str
    instead: str = ""
    denied: bool = False
    family: str = ""
    words: tuple[str, ...] = ()


# user feedback has up to 8 words; values of more than 3 words are not used
_USUAL_WORDS, _MOST_WORDS, _SPEAKABLE = 8, 12, 3


class Described:
    """Label words of a product by family: the `speakable` ones, which are short enough for captions, and the
    others.
    """

    def __init__(self, labels: list[list[str]], speech: Language = ENGLISH) -> None:
        self.language = speech
        self.speakable, self.others = _spoken_of(labels, True, speech), _spoken_of(labels, False, speech)


def is_no_difference(caption: str) -> bool:
    """Whether a caption, without punctuation, is one of those without information about the target."""
    return any(caption in (*speech.same, *speech.different) for speech in map(language, LANGUAGES))


def describe_difference(
    candidate: list[list[str]], target: list[list[str]], seed: int, speech: Language = ENGLISH
) -> tuple[str, str]:
    """Two captions of how the labels of the target differ from those of the candidate.

    One caption is a sentence, the other a phrase, in random order. They usually have at most 8 words, never
    more than 12. The same seed gives the same captions.
    """
    return captions_of(Described(candidate, speech), Described(target, speech), random.Random(seed))


def captions_of(candidate: Described, target: Described, chance: random.Random) -> tuple[str, str]:
    """Two captions as `describe_difference` returns, for products that are described many times."""
    facts, speech = label_differences(candidate, target, chance), target.language
    if not facts:
        return speech.same if candidate.others == target.others else speech.different
    first, second = facts[: chance.choice((1, 2, 2))], facts[1:3] or facts
    ways = [sentence, phrase]
    chance.shuffle(ways)
    return _caption(first, ways[0], speech, chance), _caption(second, ways[1], speech, chance)


def can_tell_apart(candidate: list[list[str]], target: list[list[str]], speech: Language = ENGLISH) -> bool:
    """Whether a difference between two products can be described by their labels."""
    return bool(label_differences(Described(candidate, speech), Described(target, speech), random.Random(0)))


def label_differences(candidate: Described, target: Described, chance: random.Random) -> list[Fact]:
    """Differences of the target's speakable labels from the candidate's: gains, then losses, in random order."""
    has, wanted, speech = candidate.speakable, target.speakable, target.language
    gains, losses = [], []
    for family in dict.fromkeys([*wanted, *has]):
        ours, theirs = wanted.get(family, {}), has.get(family, {})
        gained, lost = _only_in(ours, theirs, [*ours]), _only_in(theirs, ours, [*ours, *theirs])
        if gained:
            on_scale = _on_scale(family, theirs, ours, speech)
            said = on_scale if on_scale and chance.random() < 1 / 3 else _gain(family, gained, lost, speech)
            gains.append(said)
        # a title without a garment word does not describe the garment
        elif lost and (ours or family != "garment"):
            losses.append(_loss(family, *next(iter(lost.items())), speech))
    chance.shuffle(gains)
    chance.shuffle(losses)
    return gains + losses


def _spoken_of(
    labels: list[list[str]], speakable: bool, speech: Language
) -> dict[str, dict[str, PhraseGroup]]:
    """Label words by family: those that are short enough for captions, or those that are not."""
    families: dict[str, dict[str, PhraseGroup]] = {}
    for kind, words in enumerate(labels):
        for word in words:
            if (len(word.split()) <= _SPEAKABLE) == speakable:
                group = _group_of(word, kind, speech)
                families.setdefault(group.family, {})[word] = group
    return families


def _group_of(word: str, kind: int, speech: Language) -> PhraseGroup:
    """Phrasing for a label, by its word, its last word (bottle green is a green) or its list."""
    last = speech.group_of.get(speech.word_of.get(word.split(" ")[-1], ""))
    return speech.group_of.get(word) or (last if last and last.kind == kind else speech.other[kind])


def _only_in(
    words: dict[str, PhraseGroup], others: dict[str, PhraseGroup], implying: list[str]
) -> dict[str, PhraseGroup]:
    """Words missing from `others`, except those implied by a longer word: navy blue implies blue."""
    implied = {word for word in words if any(longer.endswith(" " + word) for longer in implying)}
    return {word: group for word, group in words.items() if word not in others and word not in implied}


def _on_scale(
    family: str, before: dict[str, PhraseGroup], after: dict[str, PhraseGroup], speech: Language
) -> Fact | None:
    if family not in speech.scales or not before:
        return None
    verb, less, more, levels = speech.scales[family]
    ranks = [
        {rank for rank, level in enumerate(levels) if words.keys() <= level} for words in (before, after)
    ]
    if not all(ranks) or ranks[0] == ranks[1]:
        return None
    return Fact(verb, more if max(ranks[1]) > max(ranks[0]) else less, family=family)


def _gain(
    family: str, gained: dict[str, PhraseGroup], lost: dict[str, PhraseGroup], speech: Language
) -> Fact:
    group = next(iter(gained.values()))
    words = [word for word, other in gained.items() if other.lead == group.lead and other.item == group.item]
    words = words[: 2 if family == "colour" else 1]
    what = f" {speech.joint} ".join(_item(group, word) for word in words)
    against = [_item(other, word) for word, other in lost.items() if other.lead == group.lead]
    instead = against[0] if against and family not in _NOT_CONTRASTED else ""
    verb, _, rest = group.lead.partition(" ")
    if rest == speech.more and instead:
        rest = ""  # casual instead of formal
    return Fact(verb, f"{rest} {what}".strip(), instead, family=family, words=tuple(words))


def _loss(family: str, word: str, group: PhraseGroup, speech: Language) -> Fact:
    verb, _, rest = group.lead.partition(" ")
    if rest == speech.more:
        return Fact(verb, f"{speech.less} {word}", family=family)
    return Fact(verb, f"{rest} {_item(group, word)}".strip(), denied=True, family=family, words=(word,))


def _item(group: PhraseGroup, word: str) -> str:
    return re.sub(r"^a (?=[aeio])", "an ", group.item.format(word))


def _caption(
    facts: list[Fact], say: Callable[[list[Fact], Language], str], speech: Language, chance: random.Random
) -> str:
    limit = _MOST_WORDS if chance.random() < 0.1 else _USUAL_WORDS
    plain = [replace(fact, instead="") for fact in facts]
    for chosen in (facts, plain, facts[:1], plain[:1]):
        order = sorted(
            chosen, key=lambda fact: (fact.verb == speech.have.verb, fact.denied, fact.instead != "")
        )
        text = say(order, speech)
        if len(text.split()) <= limit:
            break
    return text


def sentence(facts: list[Fact], speech: Language) -> str:
    """Sentence such as "is striped and more casual" or "is navy blue instead of red and has no pockets"."""
    text, before = "", None
    for fact in facts:
        has = fact.verb == speech.have.verb
        opening = (speech.have if has else speech.be).sentence[fact.denied]
        shared = before and before.verb == fact.verb and not before.denied and not fact.denied
        what = re.sub(f"^{speech.article}", "", fact.what) if has and fact.denied else fact.what
        text += (f" {speech.joint} " if before else "") + ("" if shared else opening) + what
        text += f" {speech.instead[0]} {fact.instead}" if fact.instead else ""
        before = fact
    return text


def phrase(facts: list[Fact], speech: Language) -> str:
    """Phrase such as "striped and more casual" or "navy blue rather than red without pockets"."""
    text, before = "", None
    for fact in facts:
        has = fact.verb == speech.have.verb
        opening = (speech.have if has else speech.be).phrase[fact.denied]
        shared = before and before.verb == fact.verb and has and not fact.denied
        after_be = has and before is not None and before.verb == speech.be.verb
        joint = "" if before is None else " " if after_be else f" {speech.joint} "
        text += joint + ("" if shared else opening) + fact.what
        text += f" {speech.instead[1]} {fact.instead}" if fact.instead else ""
        before = fact
    return text
