"""The residual retriever: what it is before training, and what it can learn that a bag of words cannot."""

import pytest
import torch

from fashioniq.data.items import ItemInputs, Items
from fashioniq.data.words import Vocabulary
from fashioniq.loop.messages import Message, Turn
from fashioniq.models.configs import RetrieverConfig
from fashioniq.models.linear import LinearRetriever
from fashioniq.models.residual import ResidualRetriever
from fashioniq.training.linear import start_linear
from fashioniq.training.losses import cross_entropy

WORDS = Vocabulary(["red", "blue", "not", "but"])
PRODUCTS, FEATURES = 8, 12
SIZES = {"vocabulary": len(WORDS), "features": FEATURES, "attributes": 0, "bigrams": 0, "max_words": 8}


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


@pytest.fixture
def items():
    return Items.without_attributes(
        [str(number) for number in range(PRODUCTS)], torch.randn(PRODUCTS, FEATURES)
    )


def fitted(kind, items, examples):
    """A retriever that is ridge regression on examples."""
    config = RetrieverConfig(kind=kind, width=8, heads=2, hidden=64, layers=1)
    model = (ResidualRetriever if kind == "residual" else LinearRetriever)(config, **SIZES)
    start_linear(model.linear if kind == "residual" else model, [], examples, items, WORDS)
    return model


def query(model, items, says):
    """The query after one turn about the first product."""
    about = ItemInputs(
        items.features_ND[:1].expand(len(says), -1), torch.zeros(len(says), 1, dtype=torch.long)
    )
    turn = Turn(Message(), Message(words_BL=WORDS.encode(says, 8)), about)
    return model.step(model.start(len(says)), turn)[0]


def test_before_training_it_is_ridge_regression(items):
    examples = [("0", "red", "1"), ("0", "blue", "2"), ("3", "not red", "4")]
    says = ["red", "blue", "not red but blue"]
    linear, residual = (query(fitted(kind, items, examples), items, says) for kind in ("linear", "residual"))
    assert torch.equal(linear, residual)


@pytest.mark.parametrize(("kind", "learns"), [("linear", False), ("residual", True)])
def test_it_learns_requests_that_a_bag_of_words_cannot_read(kind, learns, items):
    says, targets = ["not red but blue", "not blue but red"], [2, 1]
    model = fitted(
        kind, items, [("0", text, str(target)) for text, target in zip(says, targets, strict=True)]
    )
    same_BN = torch.eye(PRODUCTS, dtype=torch.bool)[targets]
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    for _ in range(150):
        vectors_ND = model.embed_images(items.features_ND)
        loss = cross_entropy(query(model, items, says).unsqueeze(1), vectors_ND, same_BN, 0.1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    found = (query(model, items, says) @ model.embed_images(items.features_ND).T).argmax(1)
    assert (found.tolist() == targets) == learns


def test_a_residual_retriever_has_unit_vectors_and_keeps_word_vectors_frozen(items):
    config = RetrieverConfig(kind="residual", width=8, heads=2, hidden=64, layers=1)
    model = ResidualRetriever(config, word_vector_size=5, **SIZES)
    model.set_word_vectors(vectors_VD := torch.randn(len(WORDS), 5))
    torch.nn.init.normal_(model.transformer.query.weight)
    query_BD = query(model, items, ["red", "blue"])
    torch.testing.assert_close(query_BD.norm(dim=1), torch.ones(2))
    query_BD.sum().backward()
    assert torch.equal(model.transformer.word[0].weight, vectors_VD)
    assert model.transformer.word[0].weight.grad is None
