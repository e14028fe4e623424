import pytest
from ir_measures import RR, Success, calc_aggregate, read_trec_qrels, read_trec_run

from fashioniq.data.trec import COMPLETE, DEPTH, TrecTopic, depth_of, run_lines, write_topics


def test_names_with_spaces_and_texts_with_tabs_are_one_field(tmp_path):
    topics = [
        TrecTopic("my dress-1", "my dress", "[my dress]\tred\nand long"),
        TrecTopic("b-1", "b", "[a] blue"),
    ]
    write_topics(tmp_path, topics, "dresses")
    lines = [
        line
        for topic in topics
        for line in run_lines(topic.query, ["a", "b", "my dress"], [-0.1, -0.1, -0.3])
    ]
    (tmp_path / "run").write_text("\n".join(lines))
    qrels = list(read_trec_qrels(str(tmp_path / "qrels.dresses.trec")))
    found = calc_aggregate([RR, Success @ 2], qrels, list(read_trec_run(str(tmp_path / "run"))))
    assert found == {RR: (1 / 3 + 1 / 2) / 2, Success @ 2: 1 / 2}
    assert (tmp_path / "topics.dresses.tsv").read_text().splitlines() == [
        "my%20dress-1\t[my dress] red and long",
        "b-1\t[a] blue",
    ]


@pytest.mark.parametrize("name", ["a\nb", "a\tb", "a\r", "a\u2028b", "\u00a0", "\x1b[31m", "\0", "\ud800"])
def test_every_line_has_its_fields_whatever_an_id_contains(tmp_path, name):
    write_topics(tmp_path, [TrecTopic(name, name, "red")])
    lines = [*run_lines(name, [name], [1.0]), *(tmp_path / "qrels.trec").read_text().splitlines()]
    assert [len(line.split()) for line in lines] == [6, 4]
    assert all(line.isprintable() for line in lines)


def test_rankings_of_small_galleries_are_complete():
    assert [depth_of(size) for size in (12, COMPLETE, COMPLETE + 1)] == [12, COMPLETE, DEPTH]
