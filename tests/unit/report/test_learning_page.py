"""The page of `fashioniq learn`."""

from fashioniq.report.new_models import write_learning_page
from fashioniq.service.learning.export import Gate, MeasureComparison, Rule


def test_every_table_scrolls_within_the_page_and_shows_the_gate(tmp_path):
    rows = [
        MeasureComparison(
            name="R@10", running=0.25, new=0.5, low=-0.1, high=0.3, p=0.02, count=1200, passed=True
        ),
        MeasureComparison(name="P", running=1.0, new=0.5),
    ]
    rule = Rule(category="dresses", run="a", cut=None, left_out={"tests": 1500, "robots": 2})
    write_learning_page(tmp_path / "a.html", Gate(targets=9, rows=rows, reasons=[], rule=rule, new_words=[]))
    page = (tmp_path / "a.html").read_text()
    assert page.count('<div class="scroll"') == page.count("<table>") == 2
    cells = ("1,200", "0.250", "0.500", "-0.100 to +0.300", "0.0200", "yes")
    assert '<th scope="row">R@10</th>' + "".join(f"<td>{cell}</td>" for cell in cells) in page
    cells = ("", "1.000", "0.500", "", "", "no")
    assert '<th scope="row">P</th>' + "".join(f"<td>{cell}</td>" for cell in cells) in page
    assert page.index("<td>2</td>") < page.index("<td>1,500</td>")
