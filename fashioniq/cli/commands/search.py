"""`fashioniq search`."""

import json
import sys

from fashioniq.config import Search
from fashioniq.data.cards import Product
from fashioniq.files import UserError, explaining
from fashioniq.loop.dialog import Dialog
from fashioniq.loop.exact import NotFiniteError
from fashioniq.systems import load
from fashioniq.terminal.view import NONE_LEFT, print_products, unknown_of_all


def run(settings: Search) -> list[Product]:
    """Print the products nearest to one request, as a table or as JSON."""
    system = load(
        settings.run,
        settings.features,
        settings.split,
        settings.device,
        encoder=settings.encoder,
        data=settings.data,
        category=settings.category,
        index=settings.index,
        gallery=settings.gallery,
    )
    request = system.read(settings.text)
    if not request.understood and not (settings.like and request.like_shown):
        searched = settings.run or settings.encoder
        raise UserError(
            f"no word of --text {settings.text!r} is known to {searched} or its catalog; give other words"
        )
    with explaining(
        f"{settings.run or settings.encoder} has diverged",
        "; train it again with a lower --learning-rate",
        NotFiniteError,
    ):
        live = Dialog.start(system)
        live = (live.more_like(settings.like) if settings.like else live).say(settings.text)
        products = live.nearest(settings.count)
    if settings.json:
        found = [{**one._asdict(), "picture": str(one.picture) if one.picture else None} for one in products]
        answer = {
            "text": settings.text,
            "like": settings.like,
            "unknown_words": request.unknown,
            "changed": dict(request.changed),
            "not_limited": live.unlimited,
            "products": found,
        }
        print(json.dumps(answer, ensure_ascii=False, indent=2))
        return products
    if request.unknown:
        print(f"unknown words: {', '.join(dict.fromkeys(request.unknown))}", file=sys.stderr)
    for said, meant in request.changed:
        print(f"{said} → {meant}", file=sys.stderr)
    for name in live.unlimited:
        print(unknown_of_all(name), file=sys.stderr)
    if products:
        print_products(products, system.offers, scores=True)
    else:
        print(NONE_LEFT)
    return products
