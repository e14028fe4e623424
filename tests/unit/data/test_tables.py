import json
import sys
from decimal import Decimal

import pytest

from fashioniq.files import UserError
from fashioniq.prepare.offers import parse_price
from fashioniq.prepare.tables import read_rows


@pytest.fixture
def table(tmp_path):
    """Write a table's text, or its bytes, under a name; return its path."""

    def table(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return table


@pytest.fixture
def parquet(tmp_path):
    """Write columns as Parquet, two rows a group; return the path."""
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow.parquet import write_table

    def parquet(**columns):
        write_table(pyarrow.table(columns), tmp_path / "shop.parquet", row_group_size=2)
        return tmp_path / "shop.parquet"

    return parquet


def values(path, *needed, wanted=()):
    return [tuple(row.values.values()) for row in read_rows(path, needed, wanted) if not row.reason]


def reasons(path, *needed):
    return {row.line: row.reason for row in read_rows(path, needed) if row.reason}


def refused(match, path, *needed):
    with pytest.raises(UserError, match=match) as caught:
        list(read_rows(path, needed))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "name, delimiter", [("a.csv", ","), ("a.csv", ";"), ("a.csv", "\t"), ("a.tsv", "\t"), ("A.CSV", ",")]
)
def test_fields_are_apart_by_the_delimiter_that_gives_the_columns(table, name, delimiter):
    lines = [["id", "name", "price"], ["1", '"red; or, so"', "2,5" if delimiter == ";" else "2.5"]]
    path = table(name, "\ufeff" + "\n".join(delimiter.join(line) for line in lines))
    assert values(path, "name", "id") == [("red; or, so", "1")]


def test_a_missing_column_is_told_with_the_columns_of_the_likeliest_delimiter(table):
    refused("no column 'title': found id, name$", table("a.csv", "id;name\n1;x\n"), "id", "title")


def test_the_same_products_are_read_of_every_kind_of_table(table, parquet):
    rows = [
        {"id": 7, "name": "ä shirt", "price": 2.5, "on": True},
        {"id": 8, "name": None, "price": 3.0, "on": False},
    ]
    expected = [("7", "ä shirt", "2.5", "true"), ("8", "", "3", "false")]
    lines = table("a.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    assert (
        values(
            table("a.csv", "id,name,price,on\n7, ä shirt ,2.5,true\n8,,3,false\n"),
            "id",
            "name",
            "price",
            "on",
        )
        == expected
    )
    assert values(lines, "id", "name", "price", "on") == expected
    assert (
        values(parquet(**{key: [row[key] for row in rows] for key in rows[0]}), "id", "name", "price", "on")
        == expected
    )


def test_columns_that_are_wanted_are_read_where_they_are(table, parquet):
    assert values(table("a.csv", "id,summary\n1,x\n"), "id", wanted=("summary", "description")) == [
        ("1", "x")
    ]
    assert values(table("a.jsonl", '{"id": 1, "summary": "x"}\n{"id": 2}\n'), "id", wanted=("summary",)) == [
        ("1", "x"),
        ("2",),
    ]
    assert values(
        parquet(id=["1"], summary=[["a", "list"]], description=["y"]), "id", wanted=("summary", "description")
    ) == [("1", "y")]


def test_unreadable_rows_of_a_csv_are_told_by_the_line_where_they_begin(table):
    path = table("a.csv", 'id,name\n1,x\n2\n3,x,y\n\n4,"two\nlines"\n5,"open\n6,x\n')
    assert values(path, "id") == [("1",), ("4",)]
    assert reasons(path, "id") == {
        3: "unreadable row: expected 2 fields, found 1",
        4: "unreadable row: expected 2 fields, found 3",
        8: "unreadable row: unexpected end of data, lines 8 to 9",
    }


def test_malformed_json_lines_are_told_by_their_numbers(table):
    lines = [
        b'{"id": 1}',
        b'{"id": ',
        b"",
        b"[1]",
        b'{"id": [1]}',
        b'{"id": "\xff"}',
        b'{"id": "\\ud800"}',
        b"[" * 100_000,
        b'{"id": 9, "x": {}}',
    ]
    path = table("a.ndjson", b"\n".join(lines))
    assert values(path, "id") == [("1",), ("9",)]
    told = reasons(path, "id")
    assert list(told) == [2, 4, 5, 6, 7, 8] and all(
        reason.startswith("unreadable row: ") for reason in told.values()
    )
    assert told[5] == "unreadable row: 'id' holds a list"


def test_a_column_that_no_json_line_has_is_told(table):
    refused("no column 'sku': found id, name", table("a.jsonl", '{"id": 1}\n{"name": "x"}\n'), "id", "sku")
    refused("found an empty file", table("b.jsonl", "\n"), "id")
    assert list(reasons(table("c.jsonl", "junk\n"), "id")) == [1]


def test_whole_numbers_of_a_column_with_gaps_are_read_as_they_were(parquet, table):
    assert values(parquet(id=[15970.0, None, float("nan")]), "id") == [("15970",), ("",), ("",)]
    assert values(table("a.jsonl", '{"id": 15970.0}\n{"id": NaN}\n'), "id") == [("15970",), ("",)]


def test_a_number_with_three_decimals_is_not_a_price_in_thousands(parquet, table, workbook):
    exact = parquet(price=[Decimal("59.900"), Decimal("1299.000")])
    tables = [exact, table("a.jsonl", '{"price": 19.635}\n'), workbook(first=[["price"], [19.635]])]
    read = [parse_price(price, "EUR")[0] for path in tables for (price,) in values(path, "price")]
    assert read == [5990, 129900, 1964, 1964]
    assert values(table("b.jsonl", '{"price": "19.635"}\n'), "price") == [("19.635",)]


def test_rows_of_parquet_are_counted_across_row_groups(parquet):
    assert [row.line for row in read_rows(parquet(id=list("abcde")), ["id"])] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("nested", [[["red"], []], [{"a": 1}, {"a": 2}]])
def test_a_nested_column_of_parquet_is_refused_only_where_it_is_needed(parquet, nested):
    path = parquet(id=["1", "2"], colours=nested)
    refused(
        "expected text, numbers or dates in the column 'colours', found (list|struct)", path, "id", "colours"
    )
    assert values(path, "id") == [("1",), ("2",)]


def test_text_of_parquet_that_is_kept_as_bytes_is_read(parquet):
    assert values(parquet(id=[b"a", "é".encode()]), "id") == [("a",), ("é",)]
    refused("not UTF-8 text", parquet(id=[b"\xff"]), "id")


def test_a_damaged_parquet_is_refused(parquet):
    path = parquet(id=["1"] * 1000)
    content = path.read_bytes()
    for damaged in (b"", content[:-8], b"id,name\n1,x\n", content[:4] + bytes(40) + content[44:]):
        path.write_bytes(damaged)
        refused("shop.parquet", path, "id")


def test_a_column_that_is_there_twice_is_refused(table):
    refused("has the column 'name' 2 times", table("a.csv", "id,name,name\n1,x,y\n"), "id", "name")


@pytest.mark.parametrize(
    "name, told",
    [
        ("none.csv", "there is no file"),
        ("a.xls", r"expected a table with the suffix \.csv, \.tsv, \.xlsx, \.parquet"),
    ],
)
def test_a_table_that_is_not_there_or_of_another_kind_is_refused(table, name, told):
    table("a.xls", "id\n1\n")
    refused(told, table("a.xls", "").parent / name, "id")


@pytest.fixture
def workbook(tmp_path):
    """Write sheets of rows as an .xlsx; return its path."""
    openpyxl = pytest.importorskip("openpyxl")

    def workbook(**sheets):
        book = openpyxl.Workbook()
        book.remove(book.active)
        for name, rows in sheets.items():
            sheet = book.create_sheet(name)
            for row in rows:
                sheet.append(row)
        book.save(tmp_path / "shop.xlsx")
        return tmp_path / "shop.xlsx"

    return workbook


def test_the_first_sheet_of_a_workbook_is_read_or_the_one_of_that_name(workbook):
    dresses = [["id", " Farbe ", "Preis", None], [7, " grün ", 2.5, None], [None] * 4, [8.0, None, True, "x"]]
    path = workbook(Kleider=dresses, Blusen=[["id"], ["b"]])
    rows = list(read_rows(path, ["id", "Farbe", "Preis"]))
    assert [(row.line, *row.values.values()) for row in rows] == [
        (2, "7", "grün", "2.5"),
        (4, "8", "", "true"),
    ]
    assert [row.values for row in read_rows(path, ["id"], sheet="Blusen")] == [{"id": "b"}]
    with pytest.raises(UserError, match="no sheet 'Hosen': found Kleider, Blusen"):
        list(read_rows(path, ["id"], sheet="Hosen"))
    refused("no column 'Größe': found id, Farbe, Preis$", path, "Größe")


def test_a_damaged_workbook_is_refused(table, workbook, monkeypatch):
    whole = workbook(a=[["id"], [1]]).read_bytes()
    refused("is not a valid .xlsx workbook", table("cut.xlsx", whole[: len(whole) // 2]), "id")
    refused("is not a valid .xlsx workbook", table("text.xlsx", "id\n1\n"), "id")
    monkeypatch.setattr("fashioniq.prepare.tables._MOST_BYTES", 100)
    refused("unpacks to more than 100 bytes", table("large.xlsx", whole), "id")


def test_a_workbook_without_openpyxl_is_refused_with_the_command_that_installs_it(table, monkeypatch):
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    refused(r"need the package openpyxl; pip install 'fashioniq\[xlsx\]'", table("a.xlsx", "x"), "id")


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16", "UTF-8", "utf-16-le"])
def test_a_csv_is_read_in_its_encoding(table, encoding):
    mark = "\ufeff" if encoding == "utf-16-le" else ""  # as Excel writes it
    path = table("a.csv", (mark + "id;Größe\n1;groß\n").encode(encoding))
    assert [row.values for row in read_rows(path, ["id", "Größe"], encoding=encoding)] == [
        {"id": "1", "Größe": "groß"}
    ]


def test_another_encoding_is_refused_with_the_option(table):
    path = table("a.csv", "id;Größe\n1;groß\n".encode("latin-1"))
    refused("is not UTF-8 text .*: give its --encoding, such as cp1252", path, "id")
    refused("give its --encoding, such as utf-16", table("b.csv", "id;Größe\n".encode("utf-16")), "id")
    for encoding, told in (
        ("ascii", "is not ascii text"),
        ("klingon", "found 'klingon'"),
        ("hex", "found 'hex'"),
    ):
        with pytest.raises(UserError, match=told):
            list(read_rows(path, ["id"], encoding=encoding))


def test_options_of_another_kind_of_table_are_refused(table):
    for options in ({"encoding": "utf-8"}, {"sheet": "a"}):
        with pytest.raises(UserError, match=f"--{next(iter(options))} is for"):
            list(read_rows(table("a.jsonl", '{"id": 1}\n'), ["id"], **options))
