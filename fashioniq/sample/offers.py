"""Offers of the drawn garments: prices by what a garment is made of and for, with a spread."""

import random

from fashioniq.data.offers import Offer
from fashioniq.sample.garments import Garment

SHOP = "https://shop.example/products"

_SIZES = ("XS", "S", "M", "L", "XL", "XXL")
_LEAST_SIZES = 2
_IN_STOCK = 0.9  # share of the products
_SPREAD = 0.2  # standard deviation of the logarithm of prices
_FABRICS = {  # EUR
    "cotton": 30, "jersey": 28, "linen": 40, "chiffon": 45, "denim": 45, "flannel": 38, "poplin": 35, "knit": 42,
    "satin": 60, "lace": 65,
}  # fmt: skip
_FACTORS = {
    "dresses": 1.3, "tops": 0.75, "party": 1.3, "elegant": 1.4, "office": 1.15, "vintage": 1.15, "boho": 1.1,
    "maxi": 1.15, "mini": 0.9, "cropped": 0.9,
}  # fmt: skip
_DETAIL = 3  # EUR


def offer_of(name: str, garment: Garment, rng: random.Random) -> Offer:
    """Offer of a garment with its id."""
    euros = float(_FABRICS[garment.fabric])
    for word in (garment.category, garment.style, garment.length):
        euros *= _FACTORS.get(word, 1.0)
    euros = (euros + _DETAIL * len(garment.details)) * rng.lognormvariate(0, _SPREAD)
    first = rng.randrange(len(_SIZES) - _LEAST_SIZES)
    last = rng.randrange(first + _LEAST_SIZES, len(_SIZES) + 1)
    return Offer(
        price_minor=100 * round(euros) - 10,
        currency="EUR",
        sizes=_SIZES[first:last],
        in_stock=rng.random() < _IN_STOCK,
        url=f"{SHOP}/{name}",
    )
