"""Speaker of the differences between attribute labels, for any catalog with labels."""

import random
from collections.abc import Sequence

from fashioniq.data.differences import Described, captions_of
from fashioniq.data.languages import ENGLISH, Language, language
from fashioniq.data.parts import PartInputs
from fashioniq.files import UserError
from fashioniq.users.describing import DescribingUser


class LabelSpeaker:
    """Describes differences between the labels of products, in the order of the gallery, in a language.

    Everything said is true by the labels. A target without labels only "looks different". The labels are
    sorted into families once.
    """

    def __init__(self, labels: Sequence[list[list[str]]], speech: Language = ENGLISH) -> None:
        self._products = [Described(lists, speech) for lists in labels]

    def describe(self, target: int, candidate: int, chance: random.Random) -> str:
        """Return one of the two captions of `describe_difference`."""
        wanted, shown = self._products[target], self._products[candidate]
        if not wanted.speakable:  # else it would lack everything that the candidate has
            return chance.choice(wanted.language.different)
        return captions_of(shown, wanted, chance)[0]


def differences(inputs: PartInputs) -> DescribingUser:
    """The user "differences". Raises UserError if the catalog has no labels."""
    catalog, ids = inputs.catalog, inputs.ids
    labels = catalog.labels if catalog else {}
    if catalog is None or not (labelled := sum(any(labels.get(name, ())) for name in ids)):
        raise UserError(
            "--user differences needs attribute labels, found none of these products"
            f"{f' in {catalog.root}' if catalog else ''}; make them with `fashioniq extract-attributes`, or give "
            "another --user"
        )
    speaker = LabelSpeaker([labels.get(name, []) for name in ids], language(catalog.language))
    return DescribingUser(
        speaker,
        inputs.seed,
        captions="differences of attribute labels",
        labelled=labelled / len(ids),
    )
