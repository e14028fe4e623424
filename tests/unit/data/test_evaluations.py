"""metrics.json and dialogs.jsonl are written and read by the same classes."""

import json
from pathlib import Path

import msgspec
import pytest

from fashioniq.data.dialog_log import LoggedDialog
from fashioniq.data.evaluations import Metrics, RoundMetrics, TurnMetrics, metrics_of, read_metrics
from fashioniq.data.facts import RoundFacts
from fashioniq.files import UserError, json_line

RUN = Path(__file__).resolve().parents[3] / "results/people/demo-0.own.json"


def read(path, content, kind=Metrics):
    path.write_text(json.dumps(content))
    return read_metrics(path, "the metrics", kind, "evaluate again")


def test_what_was_read_is_written_again():
    metrics = read_metrics(RUN, "the metrics", Metrics, "")
    assert isinstance(metrics, TurnMetrics) and metrics.plain() == json.loads(RUN.read_text())


class OwnFacts(RoundFacts, kw_only=True):
    theirs: list[int]


def test_what_a_system_of_ones_own_states_is_written_in_its_place():
    content = {"protocol": "ChatIR", "name": "a", "gallery": 9, "dialogs": 2, "query": "all", "rounds": []}
    content |= {"BRI": None, "provenance": {"version": "1"}}
    metrics = metrics_of(content, RoundMetrics)
    assert list(metrics.plain().items()) == list(content.items())
    metrics.facts = OwnFacts(query="all", theirs=[1])
    assert list(metrics.plain())[4:6] == ["query", "theirs"] and metrics.plain()["theirs"] == [1]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"gallery": "many"}, r"metrics.json is malformed .*`int`, got `str` - at `\$.gallery`"),
        ({"provenance": {"seconds": {"cpu": "long"}}}, r"at `\$.provenance.seconds"),
        ({"protocol": "ChatIR"}, "expected Fashion IQ dialogs, recorded sessions, found ChatIR in"),
        ({"protocol": None}, "expected Fashion IQ dialogs, recorded sessions, found None in"),
    ],
)
def test_a_value_of_a_wrong_type_is_named_with_its_file(change, why, tmp_path):
    with pytest.raises(UserError, match=why + ".*; evaluate again|" + why + ".*: evaluate again"):
        read(tmp_path / "metrics.json", json.loads(RUN.read_text()) | change, TurnMetrics)


def test_a_missing_key_is_named(tmp_path):
    with pytest.raises(UserError, match=r"metrics.json lacks dialogs, turns: evaluate again"):
        read(tmp_path / "metrics.json", {"protocol": "Fashion IQ dialogs", "gallery": 9})


def test_dialogs_of_earlier_versions_lack_offers_and_replies():
    line = '{"target": "a", "turns": [{"shown": "b", "words": "is red", "rank": 3}], "top": ["c"]}'
    assert json_line(msgspec.json.decode(line, type=LoggedDialog)) == line
