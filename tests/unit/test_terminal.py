"""A live dialog in the terminal: what a line does, pictures by the terminal's protocol, and the page."""

import base64
import io
import re
from types import SimpleNamespace

import pytest
from PIL import Image

from fashioniq.data.cards import Product
from fashioniq.data.offers import Offer
from fashioniq.files import UserError
from fashioniq.loop.offers import Offers
from fashioniq.report.live import write_live_page
from fashioniq.terminal.conversation import Conversation
from fashioniq.terminal.view import ROWS, SIDE, escape_sequence, picture_protocol, picture_row, print_products


class Screen(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("environment", "protocol"),
    [
        ({"TERM": "xterm-kitty"}, "kitty"),
        ({"KITTY_WINDOW_ID": "1", "TERM": "xterm"}, "kitty"),
        ({"TERM_PROGRAM": "ghostty"}, "kitty"),
        ({"TERM_PROGRAM": "iTerm.app"}, "iterm2"),
        ({"LC_TERMINAL": "iTerm2"}, "iterm2"),
        ({"TERM_PROGRAM": "WezTerm"}, "iterm2"),
        ({"TERM": "xterm-256color"}, None),
        ({}, None),
        ({"TERM": "tmux-256color", "KITTY_WINDOW_ID": "1"}, None),
        ({"TMUX": "/tmp/tmux", "LC_TERMINAL": "iTerm2"}, None),
    ],
)
def test_the_protocol_is_that_of_the_terminal(environment, protocol):
    assert picture_protocol(Screen(), environment) == protocol
    assert picture_protocol(io.StringIO(), environment) is None  # a file or a pipe


def product(name, picture=None, title="A dress", attributes=("red",)):
    return Product(name, title, 0.5, list(attributes), picture)


def test_a_row_of_pictures_has_a_place_for_each_product(tmp_path):
    Image.new("RGB", (60, 90), "red").save(tmp_path / "a.png")
    (tmp_path / "b.png").write_bytes(b"no picture")
    png = picture_row([product("a", tmp_path / "a.png"), product("b", tmp_path / "b.png"), product("c")])
    row = Image.open(io.BytesIO(png))
    assert row.size == (3 * SIDE, SIDE)
    assert [row.getpixel((place * SIDE + SIDE // 2, SIDE // 2)) for place in range(3)] == [
        (255, 0, 0),
        (211,) * 3,
        (211,) * 3,
    ]


def test_both_protocols_carry_the_whole_picture():
    png = bytes(range(256)) * 40
    kitty = re.findall(r"\033_G([^;]*);([^\033]*)\033\\", escape_sequence(png, "kitty"))
    assert kitty[0][0] == f"a=T,f=100,r={ROWS},m=1" and [head for head, _ in kitty[1:]] == ["m=1"] * (
        len(kitty) - 2
    ) + ["m=0"]
    assert (
        all(len(chunk) <= 4096 for _, chunk in kitty)
        and base64.b64decode("".join(chunk for _, chunk in kitty)) == png
    )
    iterm2 = re.fullmatch(r"\033\]1337;File=([^:]*):([^\a]*)\a\n", escape_sequence(png, "iterm2"))
    assert f"size={len(png)};" in iterm2[1] and base64.b64decode(iterm2[2]) == png


def test_titles_cannot_send_escape_sequences_or_markup_to_the_terminal(capsys):
    print_products(
        [product("x", title="\033[2Ja [red]dress[/red]\nnew line", attributes=["\033]0;title\a"])],
        None,
        marked="x",
    )
    out = capsys.readouterr().out
    assert "\033" not in out and "\a" not in out and "[red]dress[/red]" in out and "→ 1" in out


def test_prices_and_what_is_out_of_stock_are_told_where_they_are_known(capsys):
    known = {
        "a": Offer(price_minor=3490, currency="EUR", in_stock=True),
        "b": Offer(price_minor=4999, currency="JPY", in_stock=False),
        "c": Offer(in_stock=False),
    }
    offers = Offers(list("abcd"), lambda: known, str.upper)
    print_products([product(name) for name in "abcd"], offers, scores=True)
    told = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert told[0].endswith("attributes offer score") and " 34.90 EUR 0.875" in told[2]
    assert " 4999 JPY, out of stock" in told[3] and " out of stock" in told[4] and " out" not in told[5]
    print_products([product("d")], offers)
    assert "offer" not in capsys.readouterr().out


class Shown:
    """A dialog that fails for every line that is read as a request, in a catalog of a language."""

    offered, products = None, [product("a"), product("b")]

    def __init__(self, code):
        lexicon = SimpleNamespace(grammar=SimpleNamespace(code=code))
        self.system = SimpleNamespace(wording=SimpleNamespace(lexicon=lexicon), read=self.read)

    def read(self, words):
        raise UserError(f"read {words}")

    def undo(self):
        return self

    def more_like(self, name):
        raise UserError(f"more like {name}")


def typed(code, line, capsys):
    """What is printed for a line, whether it ends the dialog, and what is chosen."""
    talk = Conversation(Shown(code), SimpleNamespace(show=lambda live: live.products))
    ended = talk._ended_by(line)
    return capsys.readouterr().out.strip(), ended, talk.chosen


@pytest.mark.parametrize("code", ["en", "de"])
def test_a_slash_before_a_command_is_left_out_and_never_a_request(code, capsys):
    assert "more like 3" in typed(code, "/help", capsys)[0]
    assert "more like 3" in typed(code, "Help!", capsys)[0]
    assert typed(code, "/undo", capsys)[0] == "There is nothing to undo."
    assert typed(code, "/quit", capsys) == ("", True, None)
    assert typed(code, "/this is it 2", capsys) == ("", True, "b")
    assert typed(code, "/more like 2", capsys)[0] == "More like b."
    assert typed(code, "/hell", capsys)[0] == "There is no such command; “help” lists the commands."
    assert typed(code, "hell", capsys)[0] == "Read hell."


def test_a_german_catalog_has_commands_in_german(capsys):
    assert (
        "auf Deutsch" in typed("de", "/hilfe", capsys)[0] and "auf Deutsch" in typed("de", "Hilfe", capsys)[0]
    )
    for back in ("zurück", "zuru\u0308ck", "Rückgängig"):
        assert typed("de", back, capsys)[0] == "There is nothing to undo."
    assert typed("de", "ende", capsys) == typed("de", "beenden", capsys) == ("", True, None)
    assert typed("de", "das ist es", capsys) == ("", True, "a")
    assert typed("de", "Das ist es, Nummer 2!", capsys) == ("", True, "b")
    assert typed("de", "mehr wie 2, aber länger", capsys)[0] == "More like b."
    assert typed("en", "ende", capsys)[0] == "Read ende."
    assert "auf Deutsch" not in typed("en", "help", capsys)[0]


HOSTILE = "<script>alert(1)</script>\"'&"


def test_the_page_escapes_everything_and_refreshes_itself_until_the_end(tmp_path):
    Image.new("RGB", (60, 90), "red").save(tmp_path / "a.png")
    products = [product(HOSTILE, title=HOSTILE, attributes=[HOSTILE]), product("b", tmp_path / "a.png")]
    for ended in (False, True):
        write_live_page(tmp_path / "chat.html", [HOSTILE], f"is it {HOSTILE}?", products, "b", ended=ended)
        page = (tmp_path / "chat.html").read_text()
        assert "<script" not in page and page.count("&lt;script&gt;") >= 4 - ended
        assert ('http-equiv="refresh"' in page) != ended and "data:image/jpeg;base64," in page
        assert page.count("class=hit") == 1
