"""Prompts of a user's file."""

import pytest

from fashioniq.files import UserError
from fashioniq.llm.prompts import PROMPTS, fill, read_prompts


def test_a_file_replaces_the_prompts_that_it_has(tmp_path):
    (tmp_path / "own.yaml").write_text(
        'question: |\n  Ask.\n  {dialog}\nanswer: "{question} {not a field}"\n'
    )
    found = read_prompts(tmp_path / "own.yaml")
    assert found["question"] == "Ask.\n{dialog}\n" and found["rewrite"] == PROMPTS["rewrite"]
    assert fill(found["answer"], question="what {question}?") == "what {question}? {not a field}"
    assert read_prompts(None) is PROMPTS


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("ask: x {dialog}", "expected some of the prompts question, questions, .*, found ask"),
        ("question: ask", "the prompt question lacks {dialog}"),
        ("questions: about {count}", "the prompt questions lacks {caption}"),
        ("- question", "expected prompts as `name: text`"),
        ("question: 3", "expected prompts as `name: text`"),
        ("question: [", "cannot read the prompts in .*: line 1"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_in_one_line(tmp_path, content, message):
    (tmp_path / "own.yaml").write_text(content)
    with pytest.raises(UserError, match=message) as caught:
        read_prompts(tmp_path / "own.yaml")
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(UserError, match="cannot read the prompts"):
        read_prompts(tmp_path / "none.yaml")
