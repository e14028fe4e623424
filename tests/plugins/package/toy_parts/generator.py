"""A generator of plain pictures, whose color follows from the prompt."""

import zlib
from collections.abc import Sequence

from PIL import Image

from fashioniq.data.parts import PartInputs
from fashioniq.generators.pictures import Generated, PictureRequest


class Plain:
    def __init__(self, inputs: PartInputs) -> None:
        self.identity = {"backend": "plain", "argument": inputs.argument}

    def generate(self, requests: Sequence[PictureRequest]) -> list[Generated]:
        return [
            Generated(self.picture(zlib.crc32(one.prompt.encode())), "ok", one.seed, one.prompt)
            for one in requests
        ]

    @staticmethod
    def picture(number: int) -> Image.Image:
        picture = Image.new("RGB", (32, 32), (number & 255, number >> 8 & 255, number >> 16 & 255))
        picture.paste((250, 240, 230), (8, 8, 24, 24))
        return picture
