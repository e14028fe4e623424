"""Kinds of requests with misspelled words, or with words that are no labels."""

import re

from fashioniq.data.requested import RequestCase, RequestTruth, RequestTurn
from fashioniq.evaluation.requests.maker import MOST, Maker


def misspelled(maker: Maker, words: int = 1, by_people: bool = False) -> RequestCase:
    """A wish, or two, with one word of a label misspelled, or two words, one of which is a label's."""
    errors = maker.by_people if by_people else maker.wording.misspellings
    base = maker.product()
    labels, phrased_as = maker.labels(words, base), "one wish" if words == 1 else "two wishes"
    request = maker.of_labels(labels, wanted=labels, base=base, phrased_as=phrased_as)
    text = request.text
    slots = maker.slots(labels, None)
    of_labels = set(re.findall(r"\w+", " ".join(slots[name] for name in slots if name.startswith("bare"))))
    places = [place for place in re.finditer(r"\w+", text) if place[0] in errors]
    maker.rng.shuffle(places)
    places.sort(key=lambda place: place[0] not in of_labels)
    chosen = places[:words]
    maker.require(len(chosen) == words and chosen[0][0] in of_labels)
    for place in sorted(chosen, key=lambda place: -place.start()):
        text = text[: place.start()] + maker.rng.choice(list(errors[place[0]])) + text[place.end() :]
    return RequestCase(maker.kind, (RequestTurn(text),), request.truth)


def other_words(maker: Maker) -> RequestCase:
    """A word of shoppers that is no label of the catalog, nor a part of one."""
    parts = {part for label in maker.shelf.group_of for part in (label, *label.split())}
    word = maker.rng.choice(maker.wording.other_words)
    means = tuple(label for label in word.means if label in maker.shelf.group_of)
    maker.require(means and maker.wording.bare(word.text) not in parts)
    truth = RequestTruth(wanted=(means,))
    maker.require(len(maker.shelf.obeying(truth)) <= MOST * len(maker.shelf.ids))
    garment = maker.garment(maker.product(maker.rng.choice(means)))
    slots = maker.wording.other_slots(word, garment)
    slots |= maker.wording.garment_slots(garment, maker.shelf.group_of.get(garment or ""))
    return maker.request(maker.wording.phrasings[maker.kind], slots, truth, None, garment)
