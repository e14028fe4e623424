"""Drawing a request: products, labels, a phrasing, and the check that enough products obey it."""

import random
from collections.abc import Mapping, Sequence

import msgspec

from fashioniq.data.search_requests import RequestCase, RequestTruth, RequestTurn
from fashioniq.evaluation.requests.findable_products import RESULTS, FindableProducts
from fashioniq.evaluation.requests.phrasings import NotPossible, RequestPhrasings, numbered

COLOUR = "colour"
MOST = 0.9  # share of the products; what more of them have is not asked for


class Maker:
    """Draws the requests of one kind. Its methods raise NotPossible if what they have drawn makes none."""

    def __init__(
        self,
        kind: str,
        shelf: FindableProducts,
        wording: RequestPhrasings,
        seed: int,
        by_people: Mapping[str, Sequence[str]],
    ) -> None:
        self.kind, self.shelf, self.wording = kind, shelf, wording
        self.rng = random.Random(f"{seed} {kind}")
        self.by_people = by_people
        self.askable = sorted(
            label
            for label, names in shelf.having.items()
            if RESULTS <= len(names) <= MOST * len(shelf.ids) and label not in shelf.garments
        )

    def product(self, label: str | None = None) -> str:
        """A random product, with this label."""
        names = self.shelf.ids if label is None else sorted(self.shelf.having[label])
        return self.rng.choice(names)

    def name(self) -> str:
        """A random name that titles begin with; "" if there is none."""
        return self.rng.choice([*self.shelf.titled]) if self.shelf.titled else ""

    def require(self, condition: object) -> None:
        """Raise NotPossible if a condition does not hold."""
        if not condition:
            raise NotPossible

    def labels(self, count: int, of: str | None = None) -> list[str]:
        """Labels of different families: random ones, of a product if there are several."""
        if count == 1 and of is None:
            self.require(self.askable)
            return [self.rng.choice(self.askable)]
        askable = set(self.askable)
        there = [label for label in self.shelf.labels_of[of or self.product()] if label in askable]
        self.rng.shuffle(there)
        chosen: list[str] = []
        for label in there:
            family = self.shelf.family(label)
            if not any(self.shelf.related(label, one) or self.shelf.family(one) == family for one in chosen):
                chosen.append(label)
        self.require(len(chosen) >= count)
        return chosen[:count]

    def garment(self, product: str) -> str | None:
        """First garment word of a product."""
        return next((one for one in self.shelf.labels_of[product] if one in self.shelf.garments), None)

    def slots(self, labels: Sequence[str], garment: str | None) -> dict[str, str]:
        """Slots of labels and of a garment."""
        group_of = self.shelf.group_of
        filled = self.wording.garment_slots(garment, group_of.get(garment or ""))
        for number, label in enumerate(labels, 1):
            filled |= numbered(self.wording.label_slots(label, group_of[label], garment, self.rng), number)
        return filled

    def request(
        self,
        templates: Sequence[str],
        slots: Mapping[str, str],
        truth: RequestTruth,
        about: str | None = None,
        garment: str | None = None,
    ) -> RequestCase:
        """A request in one of the phrasings, if enough products obey it. A garment that is named is wanted.

        With the slot `ordinal`, several products are shown, and the one that the request is about has that place.
        """
        texts, names_garment = self.wording.say(templates, slots, self.rng)
        if names_garment and garment is not None and garment != self.shelf.name:
            truth = msgspec.structs.replace(truth, wanted=(*truth.wanted, (garment,)))
        self.require(len(self.shelf.obeying(truth) - {about}) >= RESULTS * len(texts))
        turn = RequestTurn(texts[0], about, () if about is None else (about,))
        if about is not None and "ordinal" in slots:
            turn = RequestTurn(texts[0], shown=self._shown(about, slots["ordinal"]))
        return RequestCase(self.kind, (turn, *map(RequestTurn, texts[1:])), truth)

    def _shown(self, about: str, ordinal: str) -> tuple[str, ...]:
        """As many products as there are ordinals; this one is at the place of `ordinal`."""
        ordinals = self.wording.ordinals
        others = self.rng.sample([name for name in self.shelf.ids if name != about], len(ordinals) - 1)
        others.insert(ordinals.index(ordinal), about)
        return tuple(others)

    def ordinal(self) -> dict[str, str]:
        """Slot of a random place."""
        return {"ordinal": self.rng.choice(self.wording.ordinals)}

    def of_labels(
        self,
        labels: Sequence[str],
        wanted: Sequence[str] = (),
        denied: Sequence[str] = (),
        named: str = "",
        about: str | None = None,
        base: str | None = None,
        phrased_as: str | None = None,
        ordinal: Mapping[str, str] | None = None,
    ) -> RequestCase:
        """A request about labels and, if it is given, a name in titles, in a phrasing of its kind, or of the kind
        `phrased_as`; `base` is a product whose garment may be named.
        """
        product = about or base
        garment = self.garment(product) if product else None
        truth = RequestTruth(wanted=tuple((label,) for label in wanted), denied=tuple(denied), named=named)
        slots = self.slots(labels, garment) | ({"name": named} if named else {}) | dict(ordinal or {})
        templates = self.wording.phrasings[phrased_as or self.kind]
        return self.request(templates, slots, truth, about, garment)

    def alternative(self, label: str) -> str:
        """Another label of the family that products have in place of this one: no kind of it, and, unless they are
        colors, on no product beside it.
        """
        shelf, family = self.shelf, self.shelf.family(label)
        others = [
            one
            for one in self.askable
            if shelf.family(one) == family
            and not shelf.related(one, label)
            and (family == COLOUR or not shelf.having[one] & shelf.having[label])
        ]
        self.require(others)
        return self.rng.choice(others)
