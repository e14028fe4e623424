"""What an answer says of products, words and pictures, and what each word of a request did."""

import re
from collections.abc import Iterable, Sequence
from urllib.parse import quote

import numpy as np
import torch
from torch import Tensor

from fashioniq.data.attributes import stated_attributes
from fashioniq.data.cards import Product
from fashioniq.data.clauses import clauses_of
from fashioniq.data.words import tokenize
from fashioniq.language.wishes import Wishes
from fashioniq.loop.dialog import Dialog, DialogStep
from fashioniq.loop.query import Query
from fashioniq.service.product_columns import NOTHING
from fashioniq.service.reply_schemas import (
    FacetCounts,
    FamilyCounts,
    HeardReply,
    LabelCount,
    Notice,
    PictureReply,
    PriceCount,
    ResultReply,
    ScorePartsReply,
    SizeCount,
    Why,
    WishScore,
)
from fashioniq.service.schemas import FiltersBody, PriceBody
from fashioniq.service.served_model import Served

WIDTH = 320  # pixels of a picture on the page
MOST_REASONS = 4  # why a product was found
MOST_WORDS = 8  # of a request, that are left out in turn
NOTES = {  # texts of notices by their codes, but of those with numbers or words
    "no-picture": "No picture could be drawn from these words, so they were searched for as a text.",
    "no-price": "The price to compare with is not known; say what it should cost.",
    "no-prices": "The prices of these products are not known.",
    "no-sizes": "The sizes of these products are not known.",
    "no-stock": "It is not known which of these products are in stock.",
    "not-all": "No product has all of it; these come closest.",
    "other-currency": "No price here is in this currency; say it in another one.",
    "nothing-near": "Nothing here fits well; these are the nearest products.",
}


def result(
    served: Served, product: Product, rank: int, texts: Iterable[str] = (), wishes: Wishes | None = None
) -> ResultReply:
    """A product as the API shows it, after these texts of a dialog, or with the wishes, if the model reads wishes.

    Scores are rounded, so that they do not give the vectors away.
    """
    row = served.shelf.row(product.id) or NOTHING
    title = row.title or product.title or product.id
    picture = None
    if product.picture is not None:
        url = f"/v1/categories/{served.category}/products/{quote(product.id, safe='')}/image?w={WIDTH}"
        picture = PictureReply(url=url, width=WIDTH, alt=title)
    return ResultReply(
        product_id=product.id,
        rank=rank,
        score=round(_score(product.distance), 2),
        title=title,
        price=None
        if row.price_minor is None or row.currency is None
        else PriceBody.model_construct(minor=row.price_minor, currency=row.currency),
        sizes=list(row.sizes) or None,
        in_stock=row.in_stock,
        url=row.url,
        image=picture,
        why=_why(texts, title, product.attributes)
        if wishes is None or served.system.wording is None
        else _met(served, product.id, wishes, title),
    )


def notices(served: Served, codes: Iterable[str], heard: HeardReply, filters: FiltersBody) -> list[Notice]:
    """What the person should know of an answer, by the codes that are stored with it."""
    return [Notice(code=code, text=_text(served, code, heard, filters)) for code in codes]


def _text(served: Served, code: str, heard: HeardReply, filters: FiltersBody) -> str:
    if code == "more-turns-than-trained":
        return f"The model was trained on conversations of {served.max_turns} turns; more may not help."
    if code == "text-cut":
        return f"Words after “{heard.cut_after}” were not read."
    if code == "nothing-fits":
        counts = served.shelf.without_each(filters)
        rest = ", ".join(f"without {name.replace('_', ' ')} {count:,}" for name, count in counts.items())
        if served.shelf.allowed(filters)[1]:  # they were talked about, or others were asked for
            return f"No other product meets the filters; {rest}." if rest else "There are no other products."
        return f"No product meets the filters; {rest}."
    return NOTES[code]


def notice_codes(
    served: Served, live: Dialog, heard: HeardReply, products: Sequence[Product], width: int | None
) -> list[str]:
    """Codes of the notices of an answer, but those of filters that were said.

    `products` are in the order of the model, `width` is that of the generated picture, 0 if there is none.
    """
    turns, wording = len(live.state.turns), served.system.wording
    far = served.metrics.get("val_distance_95")  # nearly all targets of the training were nearer
    found = {
        "more-turns-than-trained": turns > (served.max_turns or turns),
        "text-cut": bool(heard.cut_after),
        "nothing-fits": not products,
        "no-picture": width == 0,
        "nothing-near": turns and far is not None and products and products[0].distance > far,
        "not-all": wording is not None
        and products
        and not wording.obeys(live.wishes, served.system.gallery.items.positions[products[0].id]),
    }
    return [code for code, holds in found.items() if holds]


def generated_picture(
    session_id: str, n: int, width: int | None, texts: Sequence[str]
) -> PictureReply | None:
    """Address of the generated picture of a turn, described by the last of the texts."""
    if not width:
        return None
    words = next((text for text in reversed(texts) if text), "words that are no longer stored")
    return PictureReply(url=f"/v1/sessions/{session_id}/turns/{n}/picture", width=width, alt=words)


def parts(live: Dialog, name: str) -> ScorePartsReply:
    """Parts of the score of a product in a dialog."""
    gallery, wording = live.system.gallery, live.system.wording
    item = gallery.items.positions[name]
    square = (gallery.vectors_ND[item].float() - live.query.vector_BD[0]).square().sum().item()
    lexical, met = (0.0, []) if wording is None else wording.score_of(live.wishes, item)
    return ScorePartsReply(
        vector=round(1 - square / 2, 2),
        lexical=round(lexical, 2),
        wishes=[
            WishScore(
                text=wish.text,
                labels=sorted(wish.labels),
                denied=wish.denied,
                has=round(has, 2),
                adds=round(adds, 2),
            )
            for wish, has, adds in met
        ],
    )


def effects(
    before: Dialog, step: DialogStep, words: Sequence[str], ids: Sequence[str]
) -> list[dict[str, int]]:
    """For each product, the places in the whole gallery that it would lose if a word had not been said.

    `before` is the dialog before the step, `words` are words of it that the model knows.
    """
    gallery = before.system.gallery
    item_K = torch.tensor([gallery.items.positions[name] for name in ids], device=gallery.vectors_ND.device)

    def rank_K(live: Dialog) -> Tensor:
        return gallery.rank(Query.joined([live.query] * len(item_K)), item_K)

    rank_with_K = rank_K(before.after(step))
    moved = [(rank_K(before.after(_without(before, step, word))) - rank_with_K).tolist() for word in words]
    return [dict(zip(words, places, strict=True)) for places in zip(*moved, strict=True)] or [{} for _ in ids]


def _without(before: Dialog, step: DialogStep, word: str) -> DialogStep:
    """A step without a word or phrase, and without the parts of which nothing else is known."""
    pattern = re.compile(rf"(?<!\w){re.escape(word)}(?!\w)", re.IGNORECASE)
    says = [" ".join(tokenize(pattern.sub(" ", part))) for part in step.says]
    says = [part for part in says if before.system.read(part).known]
    return step._replace(says=tuple(says), text=pattern.sub(" ", step.text))


def facets(served: Served, wishes: Wishes, filters: FiltersBody) -> FacetCounts:
    """Counts among the products that meet filters and wishes."""
    allowed_N, wording = served.shelf.allowed(filters)[0].numpy(), served.system.wording
    obeying_N = allowed_N if wording is None or not wishes.held else allowed_N & wording.obeying(wishes)
    found = int(np.count_nonzero(obeying_N))
    counted_N = obeying_N if found else allowed_N
    offers = served.shelf.counts(counted_N)
    return FacetCounts(
        products=found,
        families=[
            FamilyCounts(
                family=family, labels=[LabelCount(label=label, count=count) for label, count in some]
            )
            for family, some in served.facets.counts(counted_N).items()
        ],
        sizes=[SizeCount(size=size, count=count) for size, count in offers.sizes],
        in_stock=offers.in_stock,
        prices=[
            PriceCount(gte=one.gte, lte=one.lte, currency=one.currency, count=count)
            for one, count in offers.prices
        ],
    )


def _score(distance: float) -> float:
    """Score that falls with the distance: between 0 and 1, above 1 where the words outweigh the distance."""
    return 1 / (1 + distance) if distance >= 0 else 1 - distance


def _why(texts: Iterable[str], title: str, attributes: Sequence[str]) -> list[Why]:
    """Attribute words of the dialog that the product has too, at most four; the newest first."""
    in_attributes = {
        word: attribute for attribute in attributes for word in (_words(attribute) or [attribute])
    }
    in_title, found = set(_words(title)), dict[str, Why]()
    for word in [word for text in reversed(list(texts)) for word in _words(text)]:
        if word in in_attributes:
            found.setdefault(word, Why(word=in_attributes[word], by="attribute"))
        elif word in in_title:
            found.setdefault(word, Why(word=word, by="title"))
    return list(found.values())[:MOST_REASONS]


def _met(served: Served, name: str, wishes: Wishes, title: str) -> list[Why]:
    """What a product has of what is wanted, the newest wishes first."""
    wording, item = served.system.wording, served.system.gallery.items.positions.get(name)
    if wording is None or item is None:
        return []  # an earlier answer had it, and the catalog has it no more
    labels = frozenset(wording.labels_of(item))
    found = dict[str, Why]()
    for wish in reversed([wish for wish in wishes.held if not wish.denied]):
        for label in sorted(wish.labels & labels):
            found.setdefault(label, Why(word=label, by="attribute"))
        if not wish.labels and wish.text.lower() in title.lower():
            found.setdefault(wish.text, Why(word=wish.text, by="title"))
    return list(found.values())[:MOST_REASONS]


def _words(text: str) -> list[str]:
    """Attribute words that a text asserts, clause by clause."""
    return [word for clause in clauses_of(text) for word in stated_attributes(clause)[0]]
