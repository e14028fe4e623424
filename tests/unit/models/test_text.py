"""Retrievers of question dialogs."""

import pytest
import torch

from fashioniq.data.dialogues import each, last_round
from fashioniq.loop.messages import Message, Turn
from fashioniq.models.text import RecordedQueries, TextRetriever


class Spelling:
    """Encodes a text as how often the letters a to z come."""

    size, limit = 26, 1000

    def texts(self, texts):
        return torch.tensor(
            [[text.count(letter) for letter in "abcdefghijklmnopqrstuvwxyz"] for text in texts],
            dtype=torch.float32,
        )

    def lengths(self, texts):
        return [len(text) for text in texts]


def turn(*replies, questions=None):
    return Turn(Message(questions=questions), Message(texts=replies))


@pytest.mark.parametrize(("last_only", "texts"), [(False, ["x, q? y", "z, y"]), (True, ["q? y", "y"])])
def test_a_retriever_of_texts_encodes_all_rounds_or_the_last_alone(last_only, texts):
    retriever = TextRetriever(Spelling(), each(last_round if last_only else ", ".join))
    first, state = retriever.step(retriever.start(2), turn("x", "z"))
    second, _ = retriever.step(state, turn("y", "y", questions=["q?", ""]))
    assert torch.equal(first, Spelling().texts(["x", "z"])) and torch.equal(second, Spelling().texts(texts))


def test_recorded_queries_come_in_the_order_of_the_turns():
    query_BTD = torch.randn(2, 3, 4)
    retriever = RecordedQueries(query_BTD)
    state, queries = retriever.start(2), []
    for _ in range(3):
        query_BD, state = retriever.step(state, turn("x", "y"))
        queries.append(query_BD)
    assert torch.equal(torch.stack(queries, 1), query_BTD)
