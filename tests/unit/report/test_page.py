import re
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest
from PIL import Image

from fashioniq.data.dialog_log import LoggedDialog
from fashioniq.data.evaluations import TurnMetrics, metrics_of
from fashioniq.files import UserError
from fashioniq.report import templates
from fashioniq.report.page import write_dialog_page
from fashioniq.report.plots import rank_histograms, rounds_plot, turn_plot
from fashioniq.report.templates import ItemCards

IDS = [f"B{number}" for number in range(14)]
TURNS = [
    {"turn": turn, "P": 60.0 + 8 * turn, "R@10": 12.0 * turn, "R@50": 18.0 * turn, "mean_rank": 90.0 / turn}
    for turn in (1, 2, 3)
]
METRICS = {
    "protocol": "Fashion IQ dialogs", "dialogs": 0, "data": "a/folder", "category": "dresses", "split": "test", "gallery": 240, "coverage": 0.98,
    "pictures": "drawn", "captions": "drawn sample's grammar", "decoding": "beam 5", "seed": 0, "user": "runs/user", "turns": TURNS,
    "store": "told <too>",
}  # fmt: skip


class _Reader(HTMLParser):
    """Notes what a browser would: tags left open, ids, addresses, picture classes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.addresses: list[str] = []
        self.tags: set[str] = set()
        self.classes: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag not in ("meta", "input"):
            self.open.append(tag)
        self.handle_attributes(attrs)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_attributes(attrs)

    def handle_attributes(self, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            elif name in ("src", "href", "xlink:href", "data", "action"):
                self.addresses.append(value or "")
            elif name == "class":
                self.classes.append(value or "")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def _dialog(target: str, ranks: tuple[int, ...], words: str = "is navy with longer sleeves") -> dict:
    turns = [{"shown": IDS[place], "words": words, "rank": rank} for place, rank in enumerate(ranks)]
    return {"target": target, "turns": turns, "top": IDS[:10]}


@pytest.fixture
def images(tmp_path: Path) -> dict[str, Path]:
    paths = {name: tmp_path / f"{name}.png" for name in IDS}
    for number, path in enumerate(paths.values()):
        Image.new("RGB", (300, 200), (number * 15, 80, 160)).save(path)
    return paths


def _write_page(path: Path, metrics: dict, dialogs: list[dict], cards: ItemCards, **options: int) -> None:
    typed = metrics_of(metrics, TurnMetrics)
    write_dialog_page(path, typed, msgspec.convert(dialogs, list[LoggedDialog]), cards, **options)


def _write(
    tmp_path: Path, images: dict[str, Path], dialogs: list[dict], metrics: dict | None = None, **options: int
) -> str:
    path = tmp_path / "report.html"
    titles = {name: f"dress {name}" for name in IDS} | {"B2": "<script>alert(1)</script> & more"}
    attributes = {name: ["navy", "striped"] for name in IDS} | {"B2": ["<too>"]}
    _write_page(path, metrics or METRICS, dialogs, ItemCards(images, titles, attributes), **options)
    return path.read_text(encoding="utf-8")


def test_the_page_has_its_sections(tmp_path: Path, images: dict[str, Path]) -> None:
    text = _write(tmp_path, images, [_dialog("B1", (111, 40, 2))])
    for part in (
        'id="turns"',
        'id="dialogs"',
        'id="facts"',
        "112th</b> of 240",
        "41st</b>",
        "up 71",
        "3rd of 240",
        "98.0 %",
        "told &lt;too&gt;",
    ):
        assert part in text
    assert text.count("<svg") == 1
    assert "navy · striped" in text
    assert (
        "90.00</td>" in text and "30.00</td>" in text and "start at 0" in text
    )  # mean ranks as in the metrics


def test_averages_and_success_are_told(tmp_path: Path) -> None:
    more = {
        "average": {"P": 76.0, "R@10": 24.0, "R@50": 36.0, "mean_rank": 55.0},
        "success": {"within": 3, "percent": 41.0, "mean_turns": 2.2},
    }
    text = _write(tmp_path, {}, [_dialog("B1", (111, 40, 2))], METRICS | more)
    assert '<th scope="row">mean</th><td>76.00</td><td>24.00</td>' in text
    assert "<dd>41.00<small> %</small></dd>" in text and "at turn 2.20 on average" in text
    never = METRICS | {"success": {"within": 3, "percent": 0.0, "mean_turns": None}}
    assert "on average" not in _write(tmp_path, {}, [_dialog("B1", (111, 40, 2))], never)


def test_the_page_is_well_formed_and_fetches_nothing(tmp_path: Path, images: dict[str, Path]) -> None:
    text = _write(tmp_path, images, [_dialog(name, (9, 8, 7)) for name in IDS])
    reader = _Reader(text)
    assert not reader.open
    assert len(reader.ids) == len(set(reader.ids))
    assert all(address.startswith("#") and address[1:] in reader.ids for address in reader.addresses)
    assert "main" in reader.tags, "screen readers jump there"
    assert not reader.tags & {"script", "link", "iframe", "img", "object"}
    assert "http://" not in text and "https://" not in text and "@import" not in text
    assert all(address.startswith(("data:image/jpeg", "#")) for address in re.findall(r"url\(([^)]*)", text))


def test_each_picture_is_embedded_once(tmp_path: Path, images: dict[str, Path]) -> None:
    text = _write(tmp_path, images, [_dialog("B1", (30, 20, 10)), _dialog("B1", (30, 20, 11))])
    assert text.count("data:image/jpeg") == 10
    pictures = re.findall(r"base64,([^)]+)", text)
    assert len(set(pictures)) == 10
    assert _Reader(text).classes.count("tile p0") > 2


def test_text_is_escaped(tmp_path: Path, images: dict[str, Path]) -> None:
    text = _write(tmp_path, images, [_dialog("B2", (3, 2, 1), words='<img src=x onerror="alert(1)">')])
    assert "<script>" not in text and "<img" not in text and "<too>" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; more" in text


def test_missing_and_broken_pictures_become_cards(tmp_path: Path, images: dict[str, Path]) -> None:
    images["B0"].write_bytes(b"no picture")
    images["B1"].unlink()
    del images["B2"]
    text = _write(tmp_path, images, [_dialog("B3", (3, 2, 1))])
    assert text.count("data:image/jpeg") == 7
    assert '<div class="tile card"><span>dress B0</span>' in text
    assert "3 of the products shown have no readable picture" in text


def test_a_page_without_any_picture_says_so(tmp_path: Path) -> None:
    text = _write(tmp_path, {}, [_dialog("B3", (3, 2, 1))])
    assert "data:image" not in text and "<b>No pictures.</b>" in text and "dress B3" in text


def test_origins_of_pictures_and_captions_are_noted_unless_photographs_and_human(
    tmp_path: Path, images: dict[str, Path]
) -> None:
    text = _write(tmp_path, images, [_dialog("B1", (3, 2, 1))])
    assert (
        "Pictures: drawn." in text
        and "Captions: drawn sample&#39;s grammar." in text
        and "User: runs/user." in text
    )
    human = METRICS | {"pictures": "photographs", "captions": "human"}
    text = _write(tmp_path, images, [_dialog("B1", (3, 2, 1))], human)
    assert "They are" not in text and "does not record" not in text
    del human["captions"]
    assert "does not record" in _write(tmp_path, images, [_dialog("B1", (3, 2, 1))], human)


def test_best_worst_and_random_dialogs_are_shown_once_each_and_by_the_seed(tmp_path: Path) -> None:
    dialogs = [_dialog("B1", (200, rank)) for rank in range(40)]
    text = _write(tmp_path, {}, dialogs, dialogs_shown=8)
    numbers = [int(number) for number in re.findall(r"Dialog (\d+)<", text)]
    assert numbers[:4] == [1, 2, 40, 39] and len(set(numbers)) == 8
    assert text == _write(tmp_path, {}, dialogs, dialogs_shown=8)
    assert text != _write(tmp_path, {}, dialogs, dialogs_shown=8, seed=1)


def test_the_filter_counts_the_outcomes_of_any_turn(tmp_path: Path) -> None:
    text = _write(tmp_path, {}, [_dialog("B1", ranks) for ranks in ((9, 30), (10, 10), (0, 50), (7, 0))])
    counts = dict(re.findall(r"<span>([^<]+) <b>(\d+)</b></span>", text))
    assert counts == {"all": "4", "found": "2", "in the top 10": "1", "never in the top 10": "1"}
    assert "found at turn 1 · 51st of 240" in text


def test_what_all_dialogs_have_in_common_is_no_filter(tmp_path: Path) -> None:
    assert "<fieldset" not in _write(tmp_path, {}, [_dialog("B1", (0,)), _dialog("B2", (0,))])


def test_several_categories_can_be_told_apart(tmp_path: Path) -> None:
    dialogs = [
        _dialog("B1", (9,)) | {"category": "tops"},
        _dialog("B2", (9,)) | {"category": "dresses"},
        _dialog("B3", (99,)) | {"category": "tops"},
    ]
    text = _write(tmp_path, {}, dialogs)
    assert re.findall(r"<legend>([^<]+)</legend>", text) == ["Target", "Category"]
    assert "<span>tops <b>2</b></span>" in text and "<span>dresses <b>1</b></span>" in text
    assert (
        ":has([value=never]:checked):has([value=c0]:checked) .nothing" in text
    )  # no dress was never in the top 10


def test_a_page_without_dialogs_or_turns_is_still_a_page(tmp_path: Path) -> None:
    text = _write(tmp_path, {}, [], METRICS | {"turns": []})
    assert "There are no dialogs to show." in text and not _Reader(text).open


def test_a_page_stays_small_by_leaving_pictures_out(
    tmp_path: Path, images: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(templates, "PICTURE_BYTES", 3000)
    text = _write(tmp_path, images, [_dialog("B1", (3, 2, 1))])
    assert 0 < sum(len(picture) for picture in re.findall(r"base64,([^)]+)", text)) <= 3000
    assert "pictures were left out" in text


def test_the_page_is_whole_or_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full_disk(path: Path, text: str, **_: str) -> None:
        path.write_bytes(text.encode()[:100])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", full_disk)
        with pytest.raises(UserError, match="no space left"):
            _write(tmp_path, {}, [_dialog("B1", (3,))])
    assert not list(tmp_path.iterdir())


def test_a_page_of_many_rich_pictures_is_under_10_megabytes(tmp_path: Path) -> None:
    Image.effect_noise((128, 128), 120).convert("RGB").save(tmp_path / "noise.png")
    ids = [f"N{number}" for number in range(700)]
    turns = [
        [{"shown": name, "words": "word " * 100, "rank": 7} for name in ids[start : start + 6]]
        for start in range(0, 700, 6)
    ]
    dialogs = [{"target": ids[0], "turns": one} for one in turns]
    path = tmp_path / "report.html"
    looks = ItemCards(dict.fromkeys(ids, tmp_path / "noise.png"), {name: "title " * 60 for name in ids}, {})
    _write_page(path, METRICS, dialogs, looks, dialogs_shown=10_000)
    assert 5_000_000 < path.stat().st_size < 10_000_000 and "pictures were left out" in path.read_text(
        encoding="utf-8"
    )


def test_a_long_name_leaves_room_for_the_plot():
    drawn = rounds_plot({"runs/captioner-dresses-attributes-seed0": [1.0, 2.0], "grammar": [3.0, 4.0]})
    assert "…es-attributes-seed0 2.00" in " ".join(drawn.shapes.split()) and "captioner" not in drawn.shapes
    assert "grammar" in drawn.shapes and "runs/captioner-dresses-attributes-seed0: 1.00" in drawn.description


def test_a_single_turn_is_numbered_as_such():
    numbers = re.findall(r">([\d.]+)</text>", turn_plot(TURNS[:1]).shapes)
    assert [one for one in numbers if one not in ("0", "20", "40", "60", "80", "100")] == ["1"]


def test_plots_are_the_same_each_time_and_take_the_pages_colours() -> None:
    drawn = turn_plot(TURNS).shapes
    assert drawn == turn_plot(TURNS).shapes
    assert "currentColor" in drawn and not re.search(r"(fill|stroke): #", drawn)
    ids = re.findall(r'\bid="([^"]+)"', drawn)
    assert len(ids) == len(set(ids))


def test_the_histogram_counts_every_dialog_once(tmp_path: Path) -> None:
    bars = rank_histograms({"turn 1": [0, 0, 4, 5, 9, 10, 239], "turn 2": [0] * 7}, 240)
    assert bars.columns == ["turn 1", "turn 2"] and bars.most == 7
    assert [(row.positions, *row.counts) for row in bars.rows] == [
        ("1", 2, 7), ("2–5", 1, 0), ("6–10", 2, 0), ("11–50", 1, 0), ("51–100", 0, 0), ("101–240", 1, 0)]  # fmt: skip
    assert [row.near for row in bars.rows] == [True, True, True, False, False, False]
    assert [row.counts for row in rank_histograms({"turn 1": [0]}, 1).rows] == [[1]]
    text = _write(
        tmp_path,
        {},
        [_dialog("B1", (0,)), _dialog("B1", (0,)), _dialog("B1", (20,))],
        METRICS | {"turns": TURNS[:1]},
    )
    assert (
        '<span class="bar" style="--share:0.500">1</span>' in text
        and '<span class="bar" style="--share:1.000">2</span>' in text
    )


def test_the_target_is_marked_where_it_is_shown(tmp_path: Path) -> None:
    text = _write(tmp_path, {}, [_dialog("B1", (111, 40, 2))])
    assert re.findall(r'<div class="seen( hit)?">', text) == ["", " hit", ""]


def test_a_browser_shows_every_picture_without_complaint(
    tmp_path: Path, images: dict[str, Path], browse
) -> None:
    ranks = [(30, 20, 2), (9, 3, 0), (99, 80, 70), (100, 90, 8)] * 2
    dialogs = [
        _dialog("B1", one) | {"category": ("tops", "dresses")[number % 2]} for number, one in enumerate(ranks)
    ]
    _write(tmp_path, images, dialogs)
    for seen in browse(tmp_path / "report.html"):
        assert seen.complaints == [] and seen.too_wide == 0
        assert len(seen.pictures) > 80 and min(seen.pictures) >= 80
        assert seen.unnamed == 0 and seen.mouse_only == 0
        assert seen.filtered == {"first": [2, 2], "ten": [4, 4], "never": [2, 2], "c0": [4, 4], "c1": [4, 4]}


def test_the_same_plot_twice_is_the_same():
    rounds = {"one": [1.0, 20.0, 30.0], "two": [5.0, 6.0, 7.0]}
    assert rounds_plot(rounds) == rounds_plot(rounds)
