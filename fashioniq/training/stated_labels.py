"""Labels of products of a catalog without such labels, as of photos without a table: from captions and pixels.

"Is black with long sleeves" says that its target is black and has long sleeves. It also says that the target is not
white, as colors are alternatives, and nothing about its pattern. The pixels of a picture say its colors, also those of
a product that is not in the training.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from fashioniq.data.attributes import find_attributes, own_words
from fashioniq.data.catalog import Catalog, Pair
from fashioniq.data.items import Items
from fashioniq.data.languages import language
from fashioniq.language.grammar import grammar
from fashioniq.language.lexicon import Lexicon
from fashioniq.language.reader import Reader
from fashioniq.language.terms import COLOR
from fashioniq.language.tokens import keys_of
from fashioniq.loop.labels import LIKELY
from fashioniq.models.labels import LabelModel
from fashioniq.training.pixels import HUES, color_words, shares_of_colors

FEW = 5  # products with a label of a family from which on the catalog is taken to label the family
PRODUCTS = 3  # that a label is said of, at least
PICTURES = 500  # whose pixels teach the colors of others
MOSTLY = 0.6  # share of a color from which on a garment certainly has it
DECAY = 0.1  # weight decay
STEPS = 40  # of L-BFGS
MOST = 20_000  # products that are looked at

Says = dict[str, dict[str, float]]  # of each product: the probability that it has a label


class StatedLabels(NamedTuple):
    """What is said of S products about L labels; `kinds` has the list of attributes of each label.

    `known_SL` is whether anything is said: that a product has the label, or that it does not. `hues` are those of all
    products by their pixels.
    """

    kinds: dict[str, int]
    ids: list[str]
    has_SL: Tensor
    known_SL: Tensor
    hues: Says


def read_stated_labels(catalog: Catalog, items: Items, pairs: Sequence[Pair], pixels: Says) -> StatedLabels:
    """What captions of pairs say of their targets, and `pixels` of colors, in families that the catalog does not label.

    Where a caption names a color of a product, its pixels do not count.
    """
    given = _families(catalog, items.ids)
    says = _by_captions(catalog, [pair for pair in pairs if pair.target in items.positions], given)
    group_of = language(catalog.language).group_of
    families = {
        name: {group_of[label].family for label, has in own.items() if has >= LIKELY}
        for name, own in says.items()
    }
    captioned = set(says)
    pictured = [name for name in items.ids if name in pixels]
    for name in pictured[:: -(-len(pictured) // PICTURES) or 1]:
        if COLOR not in families.get(name, ()):
            says[name] = says.get(name, {}) | pixels[name]
    count = Counter(label for own in says.values() for label, has in own.items() if has >= LIKELY)
    kinds = {label: group_of[label].kind for label, often in count.most_common() if often >= PRODUCTS}
    alternatives = grammar(catalog.language).alternatives

    def known(name: str, label: str) -> bool:
        family = group_of[label].family
        silent = family in alternatives and family not in families.get(name, ())
        return label in says[name] or (name in captioned and not silent)

    rows = {
        "has": [[says[name].get(label, 0.0) for label in kinds] for name in says],
        "known": [[known(name, label) for label in kinds] for name in says],
    }
    has_SL, known_SL = (
        torch.tensor(row, dtype=torch.float).reshape(len(says), len(kinds)) for row in rows.values()
    )
    return StatedLabels(kinds, list(says), has_SL, known_SL, _hues(pixels, catalog.language))


def _by_captions(catalog: Catalog, pairs: Sequence[Pair], given: Collection[str]) -> Says:
    """Attribute words that captions assert of their targets, and that they deny. Light blue is also blue."""
    speech = language(catalog.language)
    words = own_words(speech)
    lists = {
        str(number): find_attributes("; ".join(pair.captions), words) for number, pair in enumerate(pairs)
    }
    reader = Reader(Lexicon.of(lists, (), (), catalog.language))
    says: Says = {}
    for pair in pairs:
        own = says.setdefault(str(pair.target), {})
        for wish in (wish for caption in pair.captions for wish in reader.read(caption).wishes):
            if len(wish.labels) != 1 or wish.step or wish.family in given:
                continue
            parts = next(iter(wish.labels)).split()
            for label in (" ".join(parts[start:]) for start in range(1 if wish.denied else len(parts))):
                if label in speech.group_of:
                    own[label] = own.get(label) or float(not wish.denied)
    return says


def colors_by_pixels(catalog: Catalog, ids: Sequence[str]) -> Says:
    """Colors of all products with a picture, as probable as the share of the picture that has them.

    None if the catalog labels the colors of the products `ids`. Of more than MOST pictures, every n-th is looked at.
    """
    if COLOR in _families(catalog, ids):
        return {}
    words = color_words(catalog.language)
    pictured = [name for name in catalog.all_ids() if name in catalog.images]
    return {
        name: {word: min(shares.get(color, 0.0) / MOSTLY, 1.0) for color, word in words.items()}
        for name in pictured[:: -(-len(pictured) // MOST) or 1]
        if (shares := shares_of_colors(catalog.images[name]))
    }


def _hues(pixels: Says, code: str) -> Says:
    """The hues of the colors, in a language of this code. Black, white and grey depend on the light of a photo, and
    features tell them apart better.
    """
    hues = {word for color, word in color_words(code).items() if color in HUES}
    return {
        name: {word: round(has, 2) for word, has in own.items() if word in hues and has >= 0.01}
        for name, own in pixels.items()
    }


def _families(catalog: Catalog, ids: Sequence[str]) -> set[str]:
    """Families of which FEW products or more have a label in the catalog."""
    lexicon = Lexicon.of(catalog.labels, (), (), catalog.language)
    family_of = {
        label: term.family for label in lexicon.labels if (term := lexicon.find(keys_of(label))) is not None
    }
    own = (
        {family_of.get(label, "") for some in catalog.labels.get(name, ()) for label in some} for name in ids
    )
    return {
        family for family, products in Counter(one for some in own for one in some).items() if products >= FEW
    }


def with_stated_labels(model: LabelModel, said: StatedLabels, items: Items) -> LabelModel:
    """A model of labels that has, after its own, those that were said: fitted to what was said of the products."""
    if not said.kinds:
        return model
    own, before = LabelModel(model.mean_D.shape[0], len(said.kinds)), len(model.linear.bias)
    if before:
        own.mean_D, own.spread_D = model.mean_D, model.spread_D
    else:
        own.standardize(items.features_ND[:: -(-len(items) // MOST)].cpu())
    row_S = torch.tensor([items.positions[name] for name in said.ids])
    fit_label_model(own, items.features_ND[row_S].cpu(), said.has_SL, DECAY, said.known_SL)
    both = LabelModel(model.mean_D.shape[0], before + len(said.kinds))
    both.mean_D, both.spread_D = own.mean_D, own.spread_D
    both.linear.weight.data = torch.cat([model.linear.weight.data, own.linear.weight.data])
    both.linear.bias.data = torch.cat([model.linear.bias.data, own.linear.bias.data])
    return both


def fit_label_model(
    model: LabelModel, features_ND: Tensor, has_NL: Tensor, decay: float, known_NL: Tensor | None = None
) -> None:
    """Fit a model of labels to products that have them or not, and, with `known_NL`, of which only some are known."""
    torch.nn.init.zeros_(model.linear.weight)
    share_L = has_NL.mean(0) if known_NL is None else (has_NL * known_NL).sum(0) / known_NL.sum(0)
    model.linear.bias.data.copy_(share_L.clamp(1e-4, 1 - 1e-4).logit())
    optimizer = torch.optim.LBFGS(model.linear.parameters(), max_iter=STEPS, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = (
            F.binary_cross_entropy_with_logits(model(features_ND), has_NL, weight=known_NL) * has_NL.shape[1]
        )
        loss = loss + decay * model.linear.weight.square().sum()
        loss.backward()
        return loss

    with torch.enable_grad():
        optimizer.step(closure)  # type: ignore[no-untyped-call]
