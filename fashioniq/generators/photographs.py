"""Generator that returns photographs of other products, as a bound for generators of photographs.

The photograph has as many attributes of the prompt as any product has; what is not said is that of some product.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fashioniq.data.images import UnreadableImage, load_image
from fashioniq.files import UserError
from fashioniq.generators.pictures import Generated, PictureRequest


class Photographs:
    """Photographs of the products in `images`, which is not empty, chosen by `labels`; `read` finds the attribute
    words of a prompt, and `revision` identifies the products.

    Of the products with the most words of a prompt, the seed chooses one. Raises UserError without pictures.
    """

    def __init__(
        self,
        read: Callable[[str], Sequence[str]],
        labels: Mapping[str, Sequence[Sequence[str]]],
        images: Mapping[str, Path],
        revision: str,
    ) -> None:
        if not images:
            raise UserError(
                "photographs: expected pictures of the products, found none; give another --generator"
            )
        self._read, self._images = read, images
        self._words = {name: {word for words in labels.get(name, ()) for word in words} for name in images}
        self.identity: Mapping[str, Any] = {"backend": "photographs", "revision": revision}

    def generate(self, requests: Sequence[PictureRequest]) -> list[Generated]:
        """Find one photograph for each request."""
        return [self._find(request) for request in requests]

    def _find(self, request: PictureRequest) -> Generated:
        asked = set(self._read(request.prompt))
        most = max(len(asked & words) for words in self._words.values())
        best = [name for name, words in self._words.items() if len(asked & words) == most]
        name = random.Random(f"{request.seed} {request.prompt}").choice(best)
        sent = " ".join(sorted(asked))
        try:
            picture = load_image(self._images[name], min_side=1)
        except UnreadableImage as error:
            return Generated(None, "error", request.seed, sent, reason=str(error))
        return Generated(picture, "ok", request.seed, sent)
