"""What was shown in live conversations, as files for TREC tools."""

import ir_measures
from ir_measures import RR, Success

from fashioniq.data.catalog import SPLITS
from fashioniq.files import write_json
from fashioniq.service.learning.export import write_sessions
from fashioniq.service.learning.rules import choose


def test_conversations_are_rankings_by_query_id(rows, shop, tmp_path):
    first = rows.session(
        "train-1", "is red", "is long", shown=[["train-3", "train-4"], ["train-5", "train-1", "train-2"]]
    )
    second = rows.session("train-2", "is red and is long and is dark", shown=[["train-2", "train-7"]])
    late = rows.session("test-1", "is red", about="test-0", shown=[["test-1"]])
    chosen = choose([first, second, late], shop, 0.2, words=2)
    for split in SPLITS:
        ids = [f"{split}-{number}" for number in range(10)]
        write_json(tmp_path / "catalog" / "image_splits" / f"split.dress.{split}.json", ids)
    write_sessions(tmp_path, "dresses", chosen.sessions)

    def measured():
        qrels = list(ir_measures.read_trec_qrels(str(tmp_path / "qrels.trec")))
        run = list(ir_measures.read_trec_run(str(tmp_path / "run.trec")))
        return ir_measures.calc_aggregate([RR, Success @ 1], qrels, run)

    assert measured() == {RR: (0 + 1 / 2 + 1 + 1) / 4, Success @ 1: 2 / 4}
    topics = (tmp_path / "topics.tsv").read_text().splitlines()
    assert topics[:3] == [
        "s1-1\t[train-9] is red",
        "s1-2\t[train-9] is red [train-9] is long",
        "s2-1\t[train-9] is red [train-9] is long [train-9] is dark",
    ]
    write_sessions(tmp_path, "dresses", [one for one in chosen.sessions if one.session != "s1"])
    assert measured() == {RR: 1, Success @ 1: 1}
    assert not any(
        "s1-" in (tmp_path / name).read_text() for name in ("run.trec", "qrels.trec", "topics.tsv")
    )
