"""Labels that captions give to products of a catalog without such labels, as of photos without a table.

"Is black with long sleeves" says that its target is black and has long sleeves. It also says that the target is not
white, as colors are alternatives, and nothing about its pattern.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from fashioniq.data.attributes import find_attributes, own_words
from fashioniq.data.catalog import Catalog, Pair
from fashioniq.data.items import Items
from fashioniq.data.languages import language
from fashioniq.language.lexicon import Lexicon
from fashioniq.language.reader import Reader
from fashioniq.language.tokens import keys_of
from fashioniq.models.labels import LabelModel

FEW = 5  # products with a label of a family from which on the catalog is taken to label the family
TARGETS = 3  # of which a label is said
DECAY = 0.01  # weight decay
STEPS = 40  # of L-BFGS
MOST = 20_000  # products that are looked at


class Said(NamedTuple):
    """What captions say of S products about L labels; `kinds` has the list of attributes of each label.

    `known_SL` is whether anything is said: that a product has the label, or that it does not.
    """

    kinds: dict[str, int]
    ids: list[str]
    has_SL: Tensor
    known_SL: Tensor


def said_of(catalog: Catalog, items: Items, pairs: Sequence[Pair]) -> Said:
    """What the captions of pairs say of their targets, about labels of families that the catalog does not label."""
    words = own_words(language(catalog.language))
    here = [pair for pair in pairs if pair.target in items.positions]
    lists = {
        str(number): find_attributes("; ".join(pair.captions), words) for number, pair in enumerate(here)
    }
    lexicon = Lexicon.of(lists, (), (), catalog.language)
    given = _families(catalog, items.ids)
    reader = Reader(lexicon)
    says: dict[str, dict[str, bool]] = {}
    named: dict[str, set[str]] = {}  # families
    for pair in here:
        for caption in pair.captions:
            for wish in reader.read(caption).wishes:
                if len(wish.labels) == 1 and not wish.step and wish.family not in given:
                    of_target = says.setdefault(str(pair.target), {})
                    (label,) = wish.labels
                    of_target[label] = not wish.denied or of_target.get(label, False)
                    if not wish.denied:  # light blue is blue
                        parts = label.split()
                        of_target |= {" ".join(parts[start:]): True for start in range(1, len(parts))}
                    named.setdefault(str(pair.target), set()).update(() if wish.denied else (wish.family,))
    count = Counter(label for of_target in says.values() for label, has in of_target.items() if has)
    kind_of = {word: kind for found in lists.values() for kind, some in enumerate(found) for word in some}
    kinds = {label: kind_of[label] for label, targets in count.most_common() if targets >= TARGETS and label in kind_of}
    family_of = {label: _family(lexicon, label) for label in kinds}
    alternatives = lexicon.grammar.alternatives
    has = [[float(of_target.get(label, False)) for label in kinds] for of_target in says.values()]
    known = [
        [
            float(
                label in of_target
                or family_of[label] not in alternatives
                or family_of[label] in named.get(name, ())
            )
            for label in kinds
        ]
        for name, of_target in says.items()
    ]
    shape = len(says), len(kinds)
    return Said(kinds, list(says), torch.tensor(has).reshape(shape), torch.tensor(known).reshape(shape))


def _families(catalog: Catalog, ids: Iterable[str]) -> set[str]:
    """Families of which FEW products or more have a label in the catalog."""
    lexicon = Lexicon.of(catalog.labels, (), (), catalog.language)
    own = (
        {_family(lexicon, label) for some in catalog.labels.get(name, ()) for label in some} for name in ids
    )
    return {
        family for family, products in Counter(one for some in own for one in some).items() if products >= FEW
    }


def _family(lexicon: Lexicon, label: str) -> str:
    term = lexicon.find(keys_of(label))
    return term.family if term is not None else ""


def with_said(model: LabelModel, said: Said, items: Items) -> LabelModel:
    """A model of labels that has, after its own, those that were said: fitted to what was said of the products."""
    if not said.kinds:
        return model
    own, before = LabelModel(model.mean_D.shape[0], len(said.kinds)), len(model.linear.bias)
    if before:
        own.mean_D, own.spread_D = model.mean_D, model.spread_D
    else:
        own.standardize(items.features_ND[:: -(-len(items) // MOST)].cpu())
    row_S = torch.tensor([items.positions[name] for name in said.ids])
    solve(own, items.features_ND[row_S].cpu(), said.has_SL, DECAY, said.known_SL)
    both = LabelModel(model.mean_D.shape[0], before + len(said.kinds))
    both.mean_D, both.spread_D = own.mean_D, own.spread_D
    both.linear.weight.data = torch.cat([model.linear.weight.data, own.linear.weight.data])
    both.linear.bias.data = torch.cat([model.linear.bias.data, own.linear.bias.data])
    return both


def solve(
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
