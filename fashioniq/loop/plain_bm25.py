"""BM25 alone, the search that most shops have: a baseline."""

from fashioniq.data.wording import Weights
from fashioniq.language.wishes import Wishes
from fashioniq.loop.offers import Offers
from fashioniq.loop.wording import Wording

WEIGHTS = Weights(lexical=1.0)


class PlainBM25(Wording):
    """BM25 over titles, descriptions and labels: all words of all turns count alike, also those that deny something."""

    def after(self, wishes: Wishes, text: str, item: int | None, offers: Offers | None = None) -> Wishes:
        """Wishes after one more request: its words."""
        return Wishes(asserted=(*wishes.asserted, text))
