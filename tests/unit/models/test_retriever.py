from functools import partial
from typing import NamedTuple

import pytest
import torch

from fashioniq.models.configs import RetrieverConfig
from fashioniq.models.retriever import DialogRetriever
from fashioniq.models.rnn import RNNRetriever
from fashioniq.training.losses import turn_loss


class Turn(NamedTuple):
    """What these models read of a turn."""

    words_BL: torch.Tensor
    attributes_BA: torch.Tensor
    image_BD: torch.Tensor
    item = None  # no point of the search space in place of the features


def make(kind, attributes=12, **sizes):
    torch.manual_seed(0)
    given = {"vocabulary": 30, "features": 6, "attributes": attributes, **sizes}
    if kind == "rnn":
        given.pop("max_turns", None)  # a recurrent network has no turn embedding
        return RNNRetriever(RetrieverConfig(kind="rnn", width=16), **given).eval()
    own = {"width": 16, "heads": 2, "hidden": 32, "layers": 2, "attention": kind}
    return DialogRetriever(RetrieverConfig(**own), **given).eval()


@pytest.fixture(params=["both-ways", "turn-causal", "rnn"])
def retriever(request):
    return partial(make, request.param)


def turns(batch=5, count=3):
    torch.manual_seed(1)
    made = []
    for _ in range(count):
        words_BL, attributes_BA = torch.randint(4, 30, (batch, 8)), torch.randint(1, 13, (batch, 8))
        words_BL[::2, 5:] = 0
        attributes_BA[1::2, 6:] = 0
        made.append(Turn(words_BL, attributes_BA, torch.randn(batch, 6)))
    return made


def queries(model, dialog):
    state, made = model.start(len(dialog[0].words_BL)), []
    for turn in dialog:
        query_BD, state = model.step(state, turn)
        made.append(query_BD)
    return torch.stack(made, 1)


@pytest.mark.parametrize("pretrained", [0, 50])
def test_the_tokens_of_a_turn_begin_with_a_deviation_of_about_one(pretrained):
    config = RetrieverConfig(width=128, heads=4, hidden=128, layers=1)
    model = DialogRetriever(config, vocabulary=500, features=40, attributes=300, word_vector_size=pretrained)
    if pretrained:
        model.set_word_vectors(0.3 * torch.randn(500, pretrained))
    said = Turn(torch.randint(4, 500, (64, 8)), torch.randint(1, 300, (64, 8)), torch.randn(64, 40))
    tokens_BLD = model._embed(said)[0]
    for kind in (slice(0, 1), slice(1, 9), slice(9, 17), slice(17, 18)):  # special, words, attributes, image
        assert 0.7 < (tokens_BLD[:, kind] - model.place.weight.mean(0)).std() < 1.8


def assert_same(one, other):
    scale = one.abs().max().item()
    torch.testing.assert_close(one, other, atol=1e-5 * scale, rtol=1e-4)


@pytest.mark.parametrize("sizes", [{}, {"attributes": 0}, {"word_vector_size": 10}], ids=str)
def test_padding_of_words_and_attributes_changes_nothing(retriever, sizes):
    model = retriever(**sizes)
    dialog = [turn._replace(words_BL=turn.words_BL[:, :6].clone()) for turn in turns()]
    longer = [turn._replace(words_BL=torch.nn.functional.pad(turn.words_BL, (0, 2))) for turn in dialog]
    assert_same(queries(model, dialog), queries(model, longer))
    more = [
        turn._replace(attributes_BA=torch.nn.functional.pad(turn.attributes_BA, (0, 5))) for turn in dialog
    ]
    assert_same(queries(model, dialog), queries(model, more))


@pytest.mark.parametrize("sizes", [{}, {"word_vector_size": 10}], ids=str)
def test_a_row_alone_is_the_row_in_a_batch(retriever, sizes):
    model = retriever(**sizes)
    alone = [
        queries(model, [Turn(*(x[row : row + 1] for x in turn)) for turn in turns()]) for row in range(5)
    ]
    assert_same(queries(model, turns()), torch.cat(alone))


def test_every_turn_counts_and_so_does_their_order(retriever):
    model, dialog = retriever(), turns()
    last_BD = queries(model, dialog)[:, -1]
    for changed in ([dialog[1], dialog[0], dialog[2]], [turns(5, 4)[3], *dialog[1:]]):
        assert not torch.allclose(queries(model, changed)[:, -1], last_BD, rtol=1e-3)


def test_words_attributes_and_image_all_reach_the_query(retriever):
    model, (turn, other, _) = retriever(), turns()
    query_BD = queries(model, [turn])
    for field in Turn._fields:
        assert not torch.allclose(
            queries(model, [turn._replace(**{field: getattr(other, field)})]), query_BD, rtol=1e-3
        ), field


def test_the_order_of_words_counts(retriever):
    model, (turn, *_) = retriever(), turns()
    assert not torch.allclose(
        queries(model, [turn._replace(words_BL=turn.words_BL.flip(1))]), queries(model, [turn]), rtol=1e-3
    )


def test_a_state_can_be_gone_on_from_twice(retriever):
    model, (first, one, other) = retriever(), turns()
    _, state = model.step(model.start(5), first)
    before_BD, _ = model.step(state, one)
    model.step(state, other)
    assert torch.equal(model.step(state, one)[0], before_BD)


def test_dialogs_may_be_longer_than_training_knew(retriever):
    made = queries(retriever(max_turns=2), turns(count=4))
    assert made.shape == (5, 4, 16) and made.isfinite().all()


def test_words_beyond_the_eighth_are_heard_in_any_order():
    model, (turn, *_) = make("both-ways"), turns()
    with_words = [
        turn._replace(words_BL=torch.cat([turn.words_BL, torch.tensor([[*more]] * 5)], 1))
        for more in ((7, 5, 6), (6, 7, 5))
    ]
    first, second = (queries(model, [longer]) for longer in with_words)
    torch.testing.assert_close(first, second)
    assert not torch.allclose(first, queries(model, [turn]))


def test_a_turn_without_words_or_attributes_has_a_query(retriever):
    assert (
        queries(
            retriever(),
            [
                Turn(
                    torch.zeros(2, 8, dtype=torch.long),
                    torch.zeros(2, 8, dtype=torch.long),
                    torch.randn(2, 6),
                )
            ],
        )
        .isfinite()
        .all()
    )


def test_embedded_images_have_unit_length_and_are_linear_before(retriever):
    model, features_BD = retriever(), torch.randn(4, 6)
    embedded_BD = model.embed_images(features_BD)
    torch.testing.assert_close(embedded_BD.norm(dim=1), torch.ones(4))
    torch.testing.assert_close(model.embed_images(3 * features_BD), embedded_BD)


@pytest.mark.parametrize("kind", ["both-ways", "rnn"])
def test_standardized_embeddings_are_those_of_the_released_code(kind):
    """There, an image x is (Wx − mean) / deviation · a + b, and the query is the last linear layer's output."""
    torch.manual_seed(0)
    sizes = {"vocabulary": 30, "features": 6, "attributes": 12}
    own = {"kind": "rnn"} if kind == "rnn" else {"kind": "transformer", "heads": 2, "hidden": 32, "layers": 1}
    model_of = RNNRetriever if kind == "rnn" else DialogRetriever
    model = model_of(RetrieverConfig(width=16, embedding="standardized", **own), **sizes).eval()
    torch.nn.init.normal_(model.standardize.weight)
    torch.nn.init.normal_(model.standardize.bias)
    image_BD = model.image(features_BD := torch.randn(4, 6))
    centred_BD = image_BD - image_BD.mean(1, keepdim=True)
    expected_BD = centred_BD / (centred_BD.square().mean(1, keepdim=True) + 1e-5).sqrt()
    expected_BD = expected_BD * model.standardize.weight + model.standardize.bias
    torch.testing.assert_close(model.scale * model.embed_images(features_BD), expected_BD)
    outputs = []
    model.query.register_forward_hook(lambda layer, given, made: outputs.append(made))
    query_BD, _ = model.step(model.start(5), turns()[0])
    torch.testing.assert_close(model.scale * query_BD, outputs[0])


def test_the_margin_of_the_released_loss_can_be_met_by_standardized_embeddings_alone():
    torch.manual_seed(0)
    least = {}
    for embedding in ("unit", "standardized"):
        config = RetrieverConfig(
            width=256, heads=2, hidden=32, layers=1, kind="transformer", embedding=embedding
        )
        model = DialogRetriever(config, vocabulary=30, features=300, attributes=0)
        with torch.no_grad():
            vectors_ND = model.embed_images(torch.randn(40, 300))
        loss = turn_loss("triplet-unsquared", scale=model.scale)
        least[embedding] = loss(vectors_ND.unsqueeze(1), vectors_ND, torch.eye(40, dtype=torch.bool)).item()
    assert least["unit"] > 8 and least["standardized"] == 0  # of the best queries, the targets themselves


def test_word_vectors_are_taken_over_and_stay_as_they_are(retriever):
    model, vectors_VD = retriever(word_vector_size=10), torch.randn(30, 10)
    model.set_word_vectors(vectors_VD)
    queries(model, turns()).sum().backward()
    table = (model.word if isinstance(model, RNNRetriever) else model.word[0]).weight
    assert torch.equal(table, vectors_VD) and table.grad is None and not table.requires_grad


def test_turn_causal_attention_is_that_of_the_whole_dialog_with_later_turns_hidden():
    model, dialog = make("turn-causal"), turns()
    tokens, masks = zip(*(model._embed(turn) for turn in dialog), strict=True)
    x_BLD = torch.cat([part + model.turn.weight[number] for number, part in enumerate(tokens)], 1)
    mask_BL, turn_L = torch.cat(masks, 1), torch.arange(3).repeat_interleave(tokens[0].shape[1])
    allowed_BLL = mask_BL.unsqueeze(1) & (turn_L.unsqueeze(1) >= turn_L)
    for layer in model.encoder.layers:
        y_BLD = layer.norm_attention(x_BLD)
        x_BLD = x_BLD + layer.attention(y_BLD, layer.attention.key_value(y_BLD), allowed_BLL)
        x_BLD = x_BLD + layer.feed_forward(layer.norm_feed_forward(x_BLD))
    outputs_BLD = model.encoder.norm(x_BLD) * mask_BL.unsqueeze(-1)
    for number, query_BD in enumerate(queries(model, dialog).unbind(1)):
        so_far = turn_L <= number
        mean_BD = outputs_BLD[:, so_far].sum(1) / mask_BL[:, so_far].sum(1, keepdim=True)
        assert_same(query_BD, model.query(mean_BD.relu()))


def test_both_attentions_are_one_in_the_first_turn():
    dialog = turns(count=1)
    assert_same(queries(make("both-ways"), dialog), queries(make("turn-causal"), dialog))
