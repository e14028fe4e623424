"""What is changed in mutation testing, and which tests are run on it (`make mutants`)."""

import ast
import sys
from pathlib import Path

import pytest

pytest.importorskip("cosmic_ray", reason="make mutants installs it")
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "mutants"))

import warm
from covering import EVERY, Statement, covering, statement
from population import Mutant, changed_lines, mutated, population, sample
from warm import _function, constants, exchanged

from fashioniq.metrics import measures, single_turn

SOURCE = '''\
"""Sums."""

LEAST = 2


@cached
def total(numbers: list[int] | None, *, least: int = LEAST) -> int | None:
    if not numbers:
        return None
    return sum(
        one
        for one in numbers
        if one >= least
    )
'''


@pytest.fixture
def checkout(tmp_path):
    for room in ("loop", "metrics"):
        (tmp_path / "fashioniq" / room).mkdir(parents=True)
        (tmp_path / "fashioniq" / room / "sums.py").write_text(SOURCE)
    return tmp_path


def test_the_changes_of_a_file_are_small_bugs(checkout):
    made = {
        line
        for _, source in sample(checkout, 99, 0)
        for line in changed_lines(SOURCE, source)
        if line[0] == "+"
    }
    assert {"+ LEAST = 3", "+ LEAST = 1", "+ if  numbers:", "+ if one > least"} <= made
    assert all(ast.parse(source) for _, source in sample(checkout, 99, 0))


def test_types_and_ways_to_call_are_not_changed(checkout):
    lines = {(mutant.line, mutant.operator) for mutant, _ in sample(checkout, 99, 0)}
    found = {(mutant.line, mutant.operator) for mutant in population(checkout, ["loop"])}
    assert {(7, "ReplaceBinaryOperator_BitOr_BitAnd"), (7, "ReplaceBinaryOperator_Mul_Div")} <= found - lines


@pytest.mark.parametrize(
    ("line", "changes"),
    [
        ("LEAST = 16", 0),
        ("LEAST = 14", 2),
        ("FIRST, LAST = 30, 2", 2),
        ("AT_A_TIME = 2**20", 0),
        ("SECONDS = 4 * 3600", 3),  # 3, 5 and 4 / 3600
        ("RECALLS = (10, 50)", 4),
        ("total = least(20)", 2),
        ("def total(least=20): return least", 0),
        ("def total(least=2): return least", 2),
        ("def total(least=2): ...", 0),
        ("if TYPE_CHECKING: import total", 0),
        ("total = zip(one, two, strict=True)", 0),
        ("total = load(one, strict=True)", 1),
        ("@torch.no_grad()\ndef total(): ...", 0),
        ("@property\ndef total(): return one", 1),
        ("@property\ndef total(): ...", 0),
        ("@dataclass(frozen=True)\nclass Total: ...", 1),  # no decorator
    ],
)
def test_limits_speed_and_what_mypy_checks_are_not_changed(tmp_path, line, changes):
    (tmp_path / "fashioniq" / "loop").mkdir(parents=True)
    (tmp_path / "fashioniq" / "loop" / "sums.py").write_text(f"{line}\n")
    assert len(sample(tmp_path, 99, 0)) == changes


def test_an_exception_that_cannot_be_replaced_is_left_as_it_is():
    source = "try:\n    total()\nexcept (OSError, csv.Error):\n    pass\n"
    assert mutated(source, Mutant("", 3, "ExceptionReplacer", 0))
    assert mutated(source, Mutant("", 3, "ExceptionReplacer", 1)) is None


def test_a_sample_depends_on_its_seed_and_is_the_beginning_of_a_larger_one(checkout):
    assert sample(checkout, 5, 0) == sample(checkout, 9, 0)[:5] != sample(checkout, 5, 1)
    assert {mutant.path for mutant, _ in sample(checkout, 99, 0)} == {
        f"fashioniq/{room}/sums.py" for room in ("loop", "metrics")
    }


def test_a_change_of_the_package_changes_only_the_mutants_of_its_lines(checkout):
    before = sample(checkout, 99, 0)
    path = checkout / "fashioniq" / "loop" / "sums.py"
    path.write_text(SOURCE.replace("LEAST = 2\n", "MOST = 9\nLEAST = 2\n"))
    after = sample(checkout, 99, 0)
    moved = [mutant._replace(line=mutant.line - 1) if mutant.line > 3 and "loop" in mutant.path else mutant
             for mutant, _ in after if mutant.line != 3 or "metrics" in mutant.path]  # fmt: skip
    assert [mutant[:3] for mutant in moved] == [mutant[:3] for mutant, _ in before]
    assert len(after) == len(before) + 2


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (1, Statement(EVERY)),
        (3, Statement(EVERY, ("LEAST",))),
        (6, Statement(range(6, 15))),
        (7, Statement(range(6, 15))),
        (8, Statement(range(8, 9))),
        (9, Statement(range(9, 10))),
        (12, Statement(range(10, 15))),
    ],
)
def test_a_change_can_be_noticed_where_its_statement_is_run(line, expected):
    assert statement(SOURCE, line) == expected


def test_the_tests_that_reach_a_statement_are_run_and_all_of_a_file_after_a_fixture(checkout):
    path = "fashioniq/loop/sums.py"
    reached = {
        "a": {"seconds": {"a::one": 1.0, "a::two": 2.0}, "lines": {path: {"8": [0, 1], "10": [1]}}},
        "b": {"seconds": {"b::one": 1.0, "b::two": 1.0}, "lines": {path: {"8": [0], "11": [-1]}}},
        "c": {"seconds": {"c::one": 1.0}, "lines": {"fashioniq/metrics/sums.py": {"14": [0]}}},
        "d": {"seconds": {"d::one": 1.0}, "lines": {path: {"99": [0]}}},
    }
    for name in reached:
        (checkout / name).write_text("from fashioniq.loop.sums import LEAST" if name == "d" else "")

    def names(line):
        return set(covering(Mutant(path, line, "AddNot", 0), checkout, reached))

    assert names(9) == set() and names(8) == {"a::one", "a::two", "b::one"}
    assert names(13) == {"a::two", "b::one", "b::two"}  # any line of the statement counts
    assert names(6) == {"a::one", "a::two", "b::one", "b::two"}
    assert names(3) == {"a::one", "a::two", "b::one", "b::two", "c::one", "d::one"}


def test_a_mutant_that_cannot_be_parsed_is_none():
    assert mutated("def f(*, one): ...\n", Mutant("", 1, "ReplaceBinaryOperator_Mul_Div", 0)) is None


MEASURES = Path(measures.__file__)


@pytest.mark.parametrize(
    ("before", "after", "name"),
    [
        ("(rank < n)", "(rank <= n)", "hits"),
        ("return 100 * (1 - rank", "return 100 * (2 - rank", "percentiles"),
        ("from torch import Tensor", "from torch import Tensor as T", None),  # outside of functions
        ("def hits", "# a comment\ndef hits", None),
    ],
)
def test_a_change_within_a_function_is_found_with_its_code(before, after, name):
    source = MEASURES.read_text()
    found = exchanged(MEASURES, source.replace(before, after, 1))
    if name is None:
        assert found is None
        return
    function, attribute, code = found.args
    assert function is getattr(measures, name) and attribute == "__code__" and code.co_qualname == name
    assert (function.__code__.co_code, function.__code__.co_consts) != (code.co_code, code.co_consts)


def test_a_constant_is_set_where_it_is_imported_and_in_what_is_made_of_it(monkeypatch):
    monkeypatch.setattr(warm, "RECALLS", single_turn.RECALLS, raising=False)
    for module in list(sys.modules.values()):  # all that import them, to have them back in the end
        for name in ("RECALLS", "MEASURES"):
            if vars(module).get(name) is vars(single_turn)[name]:
                monkeypatch.setattr(module, name, vars(single_turn)[name])
    path = Path(single_turn.__file__)
    source = path.read_text()
    constants(path, source.replace("RECALLS = (1, ", "RECALLS = (2, "))()
    assert single_turn.RECALLS == warm.RECALLS == (2, 10, 50) and single_turn.MEASURES[0] == "R@2"
    assert constants(path, source.replace("def mean(", "def means(")) is None


def test_methods_properties_and_decorated_functions_are_found_by_their_names():
    from fashioniq.loop import gallery
    from fashioniq.training import retriever_run

    assert _function(gallery, "Gallery.top") is gallery.Gallery.top
    assert _function(gallery, "Gallery.vectors_ND") is gallery.Gallery.vectors_ND.fget
    assert _function(gallery, "Gallery.mean_1D") is vars(gallery.Gallery)["mean_1D"].func
    assert _function(retriever_run, "train_retriever") is retriever_run.train_retriever.__wrapped__
    assert _function(gallery, "Gallery.unknown") is None and _function(gallery, "QUERIES") is None
