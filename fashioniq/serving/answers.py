"""What an answer says of products, words and pictures."""

from collections.abc import Iterable, Sequence
from urllib.parse import quote

from fashioniq.data.cards import Product
from fashioniq.data.clauses import clauses_of
from fashioniq.data.statements import stated_attributes
from fashioniq.serving.schemas import Filters, Heard, Notice, Picture, Price, Result, Why
from fashioniq.serving.served import Served

WIDTH = 320  # pixels of a picture on the page


def result(served: Served, product: Product, rank: int, texts: Iterable[str]) -> Result:
    """A product as the API shows it; scores are rounded, so that they do not give the vectors away."""
    row = served.shelf.row(product.id)
    title = (row.title if row and row.title else product.title) or product.id
    picture = None
    if product.picture is not None:
        url = f"/v1/categories/{served.category}/products/{quote(product.id, safe='')}/image?w={WIDTH}"
        picture = Picture(url=url, width=WIDTH, alt=title)
    priced = row is not None and row.price_minor is not None and row.currency is not None
    return Result(
        product_id=product.id,
        rank=rank,
        score=round(_score(product.distance), 2),
        title=title,
        price=Price.model_construct(minor=row.price_minor, currency=row.currency) if row and priced else None,
        sizes=list(row.sizes) or None if row else None,
        in_stock=row.in_stock if row else None,
        url=row.url if row else None,
        image=picture,
        why=_why(texts, title, product.attributes),
    )


def notices(served: Served, turns: int, heard: Heard, unmet: Filters | None) -> list[Notice]:
    """What the person should know of an answer; `unmet` are filters that no product meets."""
    found = []
    if served.max_turns and turns > served.max_turns:
        text = f"The model was trained on conversations of {served.max_turns} turns; more may not help."
        found.append(Notice(code="more-turns-than-trained", text=text))
    if heard.cut_after:
        found.append(Notice(code="text-cut", text=f"Words after “{heard.cut_after}” were not read."))
    if unmet is not None:
        counts = served.shelf.without_each(unmet)
        rest = ", ".join(f"without {name.replace('_', ' ')} {count:,}" for name, count in counts.items())
        found.append(Notice(code="nothing-fits", text=f"No product meets the filters; {rest}."))
    return found


def distant(served: Served, turns: int, products: Sequence[Product]) -> list[Notice]:
    """A notice if even the nearest product is farther than nearly all targets of the training were."""
    far = served.metrics.get("val_distance_95")
    if not turns or not products or far is None or products[0].distance <= far:
        return []
    return [Notice(code="nothing-near", text="Nothing here fits well; these are the nearest products.")]


def undrawn(width: int | None) -> list[Notice]:
    """A notice if no picture could be generated; `width` is None where none was wanted."""
    text = "No picture could be drawn from these words, so they were searched for as a text."
    return [Notice(code="no-picture", text=text)] if width == 0 else []


def generated_picture(session_id: str, n: int, width: int | None, texts: Sequence[str]) -> Picture | None:
    """Address of the generated picture of a turn, described by the last of the texts."""
    if not width:
        return None
    words = next((text for text in reversed(texts) if text), "words that are no longer stored")
    return Picture(url=f"/v1/sessions/{session_id}/turns/{n}/picture", width=width, alt=words)


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
    return list(found.values())[:4]


def _words(text: str) -> list[str]:
    """Attribute words that a text asserts, clause by clause."""
    return [word for clause in clauses_of(text) for word in stated_attributes(clause)[0]]
