"""Every kind of retriever takes a turn that names no product: it is about a point of the search space."""

import pytest
import torch

from fashioniq.data.items import ItemInputs
from fashioniq.loop.messages import Message, Turn
from fashioniq.models.composer import Composer
from fashioniq.models.configs import COMPOSITIONS, ComposerConfig, RetrieverConfig
from fashioniq.models.linear import LastShown, LinearRetriever
from fashioniq.models.retriever import DialogRetriever
from fashioniq.models.rnn import RNNRetriever

B, FEATURES, WIDTH = 3, 6, 16
SIZES = {"vocabulary": 30, "features": FEATURES}


def transformer(**options):
    config = RetrieverConfig(width=WIDTH, heads=2, hidden=32, layers=1, **options)
    return DialogRetriever(config, attributes=12, **SIZES)


def linear():
    model = LinearRetriever(RetrieverConfig(kind="linear", width=FEATURES), bigrams=0, max_words=8, **SIZES)
    for tensor in (model.bag_GD, model.image_DD):
        torch.nn.init.normal_(tensor)
    return model


KINDS = {
    "transformer": transformer,
    "transformer both ways": lambda: transformer(attention="both-ways"),
    "rnn": lambda: RNNRetriever(RetrieverConfig(kind="rnn", width=WIDTH), attributes=12, **SIZES),
    "linear": linear,
    "last shown": lambda: LastShown(FEATURES),
    **{
        f"composer {name}": lambda name=name: Composer(
            ComposerConfig(composition=name, width=WIDTH), attributes=12, **SIZES
        )
        for name in COMPOSITIONS
    },
}
SEES_NO_PICTURE = {f"composer {name}" for name, parts in COMPOSITIONS.items() if "image" not in parts}


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


@pytest.fixture
def model(kind):
    torch.manual_seed(0)
    return KINDS[kind]().eval().requires_grad_(False)


def words():
    return torch.randint(4, 30, (B, 8), generator=torch.Generator().manual_seed(1))


def about(features_BD, embedded_BD=None):
    attributes_BA = torch.zeros(B, 8, dtype=torch.long)
    return Turn(Message(), Message(words_BL=words()), ItemInputs(features_BD, attributes_BA, embedded_BD))


def query(model, *turns):
    state = model.start(B)
    for turn in turns:
        query_BD, state = model.step(state, turn)
    return query_BD


def test_a_turn_about_the_point_of_a_product_is_a_turn_about_the_product(model):
    features_BD = torch.randn(B, FEATURES)
    embedded_BD = model.embed_images(features_BD)
    by_point = about(torch.zeros(B, FEATURES), embedded_BD)
    torch.testing.assert_close(query(model, by_point), query(model, about(features_BD)))


def test_a_turn_about_the_mean_differs_from_a_turn_about_a_product(model, kind):
    vectors_ND = model.embed_images(torch.randn(20, FEATURES))
    mean_BD = vectors_ND.mean(0, keepdim=True).expand(B, -1)
    of_mean = query(model, about(torch.zeros(B, FEATURES), mean_BD))
    of_product = query(model, about(torch.zeros(B, FEATURES), vectors_ND[:1].expand(B, -1)))
    assert of_mean.isfinite().all() and of_mean.shape == of_product.shape
    assert torch.equal(of_mean, of_product) == (kind in SEES_NO_PICTURE)


def test_a_dialog_goes_on_after_a_turn_about_the_mean(model):
    mean_BD = model.embed_images(torch.randn(20, FEATURES)).mean(0, keepdim=True).expand(B, -1)
    turns = about(torch.zeros(B, FEATURES), mean_BD), about(torch.randn(B, FEATURES))
    assert query(model, *turns).isfinite().all()
