import pytest

from fashioniq.categories import canonical, file_name, from_file_name
from fashioniq.files import UserError


@pytest.mark.parametrize(
    ("said", "category", "file"),
    [
        ("dresses", "dresses", "dress"),
        ("dress", "dresses", "dress"),
        ("Shirts", "shirts", "shirt"),
        ("shirt", "shirts", "shirt"),
        ("tops", "tops", "toptee"),
        ("toptee", "tops", "toptee"),
        ("tops&tees", "tops", "toptee"),
        (" Tops ", "tops", "toptee"),
        ("shoes", "shoes", "shoes"),
        ("summer-2024_sale", "summer-2024_sale", "summer-2024_sale"),
    ],
)
def test_a_category_has_the_name_that_people_say_and_the_one_of_its_files(said, category, file):
    assert (canonical(said), file_name(said)) == (category, file)
    assert from_file_name(file) == category


@pytest.mark.parametrize(
    "name", ["", "../dress", "a b", "-x", "dress.train", "dress/val", "dress\0", "röcke"]
)
def test_what_cannot_name_a_file_is_refused(name):
    with pytest.raises(UserError, match="is not a valid category"):
        canonical(name)
