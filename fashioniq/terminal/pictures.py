"""Pictures in a terminal, drawn with the graphics protocols of kitty and iTerm2."""

import base64
import os
from collections.abc import Mapping, Sequence
from typing import Literal, TextIO

from PIL import Image, ImageDraw, ImageFont, ImageOps

from fashioniq.data.cards import Product
from fashioniq.data.images import UnreadableImage, load_image, written_as

Protocol = Literal["kitty", "iterm2"]

SIDE = 160  # pixels per side of a picture
ROWS = 8  # height of a row of pictures in terminal lines
CHUNK = 4096  # base64 characters per escape sequence of kitty


def protocol_of(stream: TextIO, environment: Mapping[str, str] = os.environ) -> Protocol | None:
    """Protocol of the terminal of a stream; None for files, tmux, screen and other terminals."""
    if (
        not stream.isatty()
        or "TMUX" in environment
        or environment.get("TERM", "").startswith(("screen", "tmux"))
    ):
        return None
    program = environment.get("TERM_PROGRAM", "")
    if "KITTY_WINDOW_ID" in environment or "kitty" in environment.get("TERM", "") or program == "ghostty":
        return "kitty"
    if program in ("iTerm.app", "WezTerm") or environment.get("LC_TERMINAL") == "iTerm2":
        return "iterm2"
    return None


def picture_row(products: Sequence[Product]) -> bytes:
    """PNG of the products' pictures side by side with their numbers; grey for an unreadable picture."""
    row = Image.new("RGB", (SIDE * len(products), SIDE), "white")
    draw, font = ImageDraw.Draw(row), ImageFont.load_default(20)
    for column, product in enumerate(products):
        row.paste(_picture(product), (column * SIDE, 0))
        draw.text((column * SIDE + 6, 4), str(column + 1), "black", font, stroke_width=3, stroke_fill="white")
    return written_as(row, "PNG")


def escape_sequence(png: bytes, protocol: Protocol) -> str:
    """Escape sequence that draws a PNG at the cursor, ROWS lines high."""
    data = base64.b64encode(png).decode("ascii")
    if protocol == "iterm2":
        return f"\033]1337;File=inline=1;size={len(png)};height={ROWS};preserveAspectRatio=1:{data}\a\n"
    chunks = [data[start : start + CHUNK] for start in range(0, len(data), CHUNK)]
    heads = [f"a=T,f=100,r={ROWS},", *[""] * (len(chunks) - 1)]
    last = len(chunks) - 1
    drawn = (
        f"\033_G{head}m={int(number < last)};{chunk}\033\\"
        for number, (head, chunk) in enumerate(zip(heads, chunks, strict=True))
    )
    return "".join(drawn) + "\n"


def _picture(product: Product) -> Image.Image:
    try:
        if product.picture is None:
            raise UnreadableImage("no picture")
        return ImageOps.pad(load_image(product.picture), (SIDE - 4, SIDE), color="white")
    except UnreadableImage:
        return Image.new("RGB", (SIDE - 4, SIDE), "lightgrey")
