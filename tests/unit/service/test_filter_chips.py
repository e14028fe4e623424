"""Chips of the page."""

from fashioniq.service.filter_chips import chips_of, families, replaced, suggestions
from fashioniq.service.reply_schemas import Changed, FacetCounts, FamilyCounts, Held, LabelCount


def family(name, **counts):
    return FamilyCounts(
        family=name, labels=[LabelCount(label=label, count=count) for label, count in counts.items()]
    )


def held(text, labels=(), name="", denied=False, kind="wish"):
    return Held(id=text, kind=kind, text=text, labels=list(labels), family=name, denied=denied)


def test_families_take_turns():
    divided = [
        family("colour", red=9, blue=8, green=7, pink=6),
        family("pattern", floral=5, solid=1),
        family("fit"),
    ]
    assert [one.label for one in suggestions(divided, [])] == ["red", "floral", "blue", "green"]
    assert [one.label for one in suggestions(divided, [held("red", name="colour")])] == ["floral"]
    denial = held("not red", name="colour", denied=True)
    assert suggestions(divided, [denial])[0].label == "red"


def test_families_have_their_order_and_others_are_left_out():
    given = [family("garment", dress=9), family("style", casual=2), family("colour", red=1)]
    facets = FacetCounts(products=9, families=given, sizes=[], in_stock=0, prices=[])
    assert [one.family for one in families(facets)] == ["colour", "style"]
    assert families(None) == []


def test_a_wish_is_named_by_its_labels_as_long_as_they_are_few():
    many = held("patterned", ["a", "b", "c", "d"], "pattern")
    given = [
        held("burgundy", ["red"], "colour"),
        many,
        held("belt", ["belt"], "detail", True),
        held("in stock", kind="in_stock"),
    ]
    assert [one.words for one in chips_of(given)] == ["red", "patterned", "belt"]
    assert [one.without for one in chips_of(given)] == [False, False, True]


def test_corrections_are_followed_to_their_end():
    given = [("burgndy", "burgundy"), ("burgundy", "red"), ("flowery", "floral")]
    changed = [Changed(said=said, meant=meant) for said, meant in given]
    assert replaced(changed) == [("burgndy", "red"), ("flowery", "floral")]
