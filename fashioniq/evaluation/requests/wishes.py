"""Kinds of requests about labels: wishes, denials, and comparisons with the product talked about."""

from fashioniq.data.requested import RequestCase, RequestTruth
from fashioniq.evaluation.requests.maker import COLOUR, Maker

ALTERNATIVES = {"colour", "pattern", "fabric", "length", "fit", "neck", "sleeves", "style"}  # of "instead of"


def one_wish(maker: Maker) -> RequestCase:
    """One wish, no product named."""
    labels = maker.labels(1)
    return maker.of_labels(labels, wanted=labels, base=maker.product(labels[0]))


def several_wishes(maker: Maker) -> RequestCase:
    """Two wishes of different families, in one turn or in two: the first one must hold after the second."""
    base = maker.product()
    labels = maker.labels(2, base)
    return maker.of_labels(labels, wanted=labels, base=base)


def about_product(maker: Maker, by_place: bool = False) -> RequestCase:
    """One wish about a product that lacks it; if it is named `by_place`, several are shown."""
    about, labels = maker.product(), maker.labels(1)
    maker.require(not maker.shelf.has(about, labels[0]))
    ordinal = maker.ordinal() if by_place else None
    return maker.of_labels(labels, wanted=labels, about=about, ordinal=ordinal)


def change_of_mind(maker: Maker) -> RequestCase:
    """Three turns: the third wish is in place of the first, which need not hold any more; the second one must."""
    base = maker.product()
    last, second = maker.labels(2, base)
    maker.require(maker.shelf.family(last) in ALTERNATIVES)
    return maker.of_labels([maker.alternative(last), second, last], wanted=[second, last], base=base)


def denial(maker: Maker) -> RequestCase:
    """One denial about a product that has the label."""
    labels = maker.labels(1)
    return maker.of_labels(labels, denied=labels, about=maker.product(labels[0]))


def two_denials(maker: Maker) -> RequestCase:
    """Two denials about a product that has both labels."""
    about = maker.product()
    labels = maker.labels(2, about)
    return maker.of_labels(labels, denied=labels, about=about)


def wish_and_denial(maker: Maker) -> RequestCase:
    """About a product that lacks the label wanted and has the one denied, of another family."""
    about, wished = maker.product(), maker.labels(1)
    denied = maker.labels(1, about)
    maker.require(not maker.shelf.has(about, wished[0]))
    maker.require(maker.shelf.family(wished[0]) != maker.shelf.family(denied[0]))
    return maker.of_labels([*wished, *denied], wanted=wished, denied=denied, about=about)


def product_without(maker: Maker) -> RequestCase:
    """A wish and a denial of another family, no product named."""
    wished, denied = maker.labels(1), maker.labels(1)
    maker.require(maker.shelf.family(wished[0]) != maker.shelf.family(denied[0]))
    base = maker.product(wished[0])
    return maker.of_labels([*wished, *denied], wanted=wished, denied=denied, base=base)


def instead_of(maker: Maker) -> RequestCase:
    """A label that the product talked about lacks in place of one that it has, of the same family."""
    had = maker.labels(1)
    maker.require(maker.shelf.family(had[0]) in ALTERNATIVES)
    about, wished = maker.product(had[0]), maker.alternative(had[0])
    maker.require(not maker.shelf.has(about, wished))
    return maker.of_labels([wished, *had], wanted=[wished], denied=had, about=about)


def word_order(maker: Maker) -> RequestCase:
    """A label and not another one of its family, no product named: in another order, the words ask for that one."""
    wished = maker.labels(1)
    maker.require(maker.shelf.family(wished[0]) in ALTERNATIVES)
    denied, base = maker.alternative(wished[0]), maker.product(wished[0])
    return maker.of_labels([*wished, denied], wanted=wished, denied=[denied], base=base)


def name(maker: Maker) -> RequestCase:
    """A name that titles begin with, no product named."""
    return maker.of_labels([], named=maker.name(), base=maker.product())


def name_and_wish(maker: Maker) -> RequestCase:
    """A name that titles begin with, and a wish."""
    labels = maker.labels(1)
    return maker.of_labels(labels, wanted=labels, named=maker.name(), base=maker.product(labels[0]))


def comparison(maker: Maker, by_place: bool = False) -> RequestCase:
    """A step on a scale of the language, such as longer, from the level of the product talked about, which is one of
    several shown if it is named `by_place`.

    A product is at a level if its labels on the scale are of this level only, and of no other. Products that are off
    the scale do not obey, except for colors: a color off the scale, such as green, lies between the dark and the light
    ones, and all colors of a product count.
    """
    wording, slots = maker.wording, maker.ordinal() if by_place else {}
    phrasings = wording.comparisons_by_place if by_place else wording.comparisons
    speech, about = maker.shelf.speech, maker.product()
    family = maker.rng.choice(sorted(speech.scales.keys() & phrasings.keys()))
    levels = speech.scales[family].levels
    labels = maker.shelf.labels_of[about]
    own = [label for label in labels if maker.shelf.group_of[label].family == family]
    at = {number for number, words in enumerate(levels) for label in own if label in words}
    maker.require(len(at) == 1)
    (level,) = at
    maker.require(family != COLOUR or all(label in levels[level] for label in own))
    more = maker.rng.random() < 0.5
    right = range(level + 1, len(levels)) if more else range(level)
    wanted = {label for number in right for label in levels[number]}
    denied = {label for words in levels for label in words} - wanted
    if family == COLOUR:
        wanted = {label for label, group in maker.shelf.group_of.items() if group.family == COLOUR}
        denied = set(levels[level])
    maker.require(right)
    there = maker.shelf.group_of.keys()
    truth = RequestTruth(wanted=(tuple(sorted(wanted & there)),), denied=tuple(sorted(denied & there)))
    return maker.request(phrasings[family]["more" if more else "less"], slots, truth, about)
