"""What an answer says of its products."""

from types import SimpleNamespace

from fashioniq.language.wishes import Wishes
from fashioniq.service.replies import _met


def test_a_product_of_an_earlier_answer_that_the_catalog_has_no_more_meets_nothing():
    system = SimpleNamespace(
        wording=SimpleNamespace(), gallery=SimpleNamespace(items=SimpleNamespace(positions={}))
    )
    assert _met(SimpleNamespace(system=system), "gone", Wishes(), "A dress") == []
