from typing import NamedTuple

import pytest
import torch
from torch.nn.functional import pad

from fashioniq.models.composer import Composer
from fashioniq.models.configs import COMPOSITIONS, ComposerConfig
from fashioniq.training.losses import triplet

SEES = {"image": "image_BD", "attributes": "attributes_BA", "caption": "words_BL"}


class Turn(NamedTuple):
    """What these models read of a turn."""

    words_BL: torch.Tensor
    attributes_BA: torch.Tensor
    image_BD: torch.Tensor
    item = None  # no point of the search space in place of the features


def make(composition, features=6, **sizes):
    torch.manual_seed(0)
    config = ComposerConfig(composition=composition, width=16)
    return Composer(config, vocabulary=30, features=features, attributes=12, **sizes)


def turn(seed=1, batch=5):
    torch.manual_seed(seed)
    words_BL, attributes_BA = torch.randint(4, 30, (batch, 8)), torch.randint(1, 13, (batch, 8))
    words_BL[::2, 5:] = 0
    attributes_BA[1::2, 6:] = 0
    return Turn(words_BL, attributes_BA, torch.randn(batch, 6))


def query(model, said):
    return model.step(model.start(len(said.words_BL)), said)[0]


@pytest.mark.parametrize("composition", COMPOSITIONS)
def test_the_query_depends_on_the_parts_of_the_composition_and_on_no_other(composition):
    model, other = make(composition), turn(seed=2)
    before_BD = query(model, turn())
    for part, field in SEES.items():
        after_BD = query(model, turn()._replace(**{field: getattr(other, field)}))
        assert torch.equal(after_BD, before_BD) == (part not in COMPOSITIONS[composition]), part


@pytest.mark.parametrize("sizes", [{}, {"word_vector_size": 10}], ids=str)
@pytest.mark.parametrize("composition", COMPOSITIONS)
def test_padding_of_words_and_attributes_changes_nothing(composition, sizes):
    model, said = make(composition, **sizes), turn()
    longer = said._replace(words_BL=pad(said.words_BL, (0, 3)), attributes_BA=pad(said.attributes_BA, (0, 5)))
    torch.testing.assert_close(query(model, longer), query(model, said))


@pytest.mark.parametrize("composition", COMPOSITIONS)
def test_a_row_alone_is_the_row_in_a_batch(composition):
    model, said = make(composition), turn()
    alone = [query(model, Turn(*(x[row : row + 1] for x in said))) for row in range(5)]
    torch.testing.assert_close(torch.cat(alone), query(model, said), atol=1e-6, rtol=1e-5)


def test_turns_before_are_forgotten():
    model = make("A")
    _, state = model.step(model.start(5), turn(seed=2))
    assert torch.equal(model.step(state, turn())[0], query(model, turn()))


@pytest.mark.parametrize("composition", "AB")
def test_a_closed_gate_leaves_what_is_seen_and_an_open_one_adds_the_caption(composition):
    model, said = make(composition), turn()
    torch.nn.init.zeros_(model.join.weight)
    queries = []
    for bias in (-100.0, 0.0, 100.0):
        torch.nn.init.constant_(model.join.bias, bias)
        queries.append(query(model, said))
    closed_BD, half_BD, open_BD = queries
    assert not torch.allclose(closed_BD, open_BD)
    torch.testing.assert_close(half_BD, (closed_BD + open_BD) / 2)
    if composition == "B":
        torch.testing.assert_close(closed_BD, model.embed_images(said.image_BD))


def test_the_order_of_words_counts():
    model, said = make("D"), turn()
    assert not torch.allclose(
        query(model, said._replace(words_BL=said.words_BL.flip(1))), query(model, said), rtol=1e-3
    )


def test_without_words_or_attributes_there_is_a_query():
    nothing = torch.zeros(2, 8, dtype=torch.long)
    assert query(make("A"), Turn(nothing, nothing, torch.randn(2, 6))).isfinite().all()


def test_embedded_images_have_unit_length():
    torch.testing.assert_close(make("F").embed_images(torch.randn(4, 6)).norm(dim=1), torch.ones(4))


@pytest.mark.parametrize("composition", COMPOSITIONS)
def test_word_vectors_are_taken_over_and_stay_as_they_are(composition):
    model, vectors_VD = make(composition, word_vector_size=10), torch.randn(30, 10)
    model.set_word_vectors(vectors_VD)
    query(model, turn()).sum().backward()
    if "caption" in COMPOSITIONS[composition]:
        assert torch.equal(model.word.weight, vectors_VD) and model.word.weight.grad is None


@pytest.mark.parametrize("composition", COMPOSITIONS)
def test_20_pairs_are_learnt_by_heart(composition):
    model = make(composition, features=30)
    words_BL, attributes_BA = torch.randint(4, 30, (20, 6)), torch.randint(1, 13, (20, 8))
    said, targets_BD = Turn(words_BL, attributes_BA, torch.randn(20, 30)), torch.randn(20, 30)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(60):
        loss = triplet(
            query(model, said).unsqueeze(1), model.embed_images(targets_BD), torch.eye(20, dtype=torch.bool)
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    nearest_B = torch.cdist(query(model, said), model.embed_images(targets_BD)).argmin(1)
    assert (nearest_B == torch.arange(20)).double().mean() > 0.8
