"""The query of whole dialogs is the query after their last turn."""

import pytest
import torch

from fashioniq.data.items import ItemInputs
from fashioniq.loop.messages import Message, Turn
from fashioniq.models.configs import RetrieverConfig
from fashioniq.models.linear import LinearRetriever, _bisect
from fashioniq.models.residual import ResidualRetriever
from fashioniq.models.retriever import DialogRetriever
from fashioniq.models.rnn import RNNRetriever

WORDS, FEATURES, ATTRIBUTES = 30, 6, 12


def make(kind, attributes=ATTRIBUTES, width=16):
    torch.manual_seed(0)
    sizes = {"vocabulary": WORDS, "features": FEATURES, "attributes": attributes}
    if kind == "linear":
        config = RetrieverConfig(kind="linear", width=width)
        model = LinearRetriever(config, bigrams=200, max_words=8, **sizes)
        for weights in model.parameters():
            torch.nn.init.normal_(weights, std=0.3)
        model.bigram_G.copy_(torch.randperm(WORDS**2)[:200].sort().values)
    elif kind == "residual":
        config = RetrieverConfig(kind="residual", width=6, heads=2, hidden=32, layers=1)
        model = ResidualRetriever(config, bigrams=200, max_words=8, max_turns=3, **sizes)
        model.linear.load_state_dict(make("linear", attributes, width=6).state_dict())
        torch.nn.init.normal_(model.transformer.query.weight, std=0.1)
    elif kind == "rnn":
        model = RNNRetriever(RetrieverConfig(kind="rnn", width=16), **sizes)
    else:
        config = RetrieverConfig(width=16, heads=2, hidden=32, layers=2, attention=kind)
        model = DialogRetriever(config, max_turns=3, **sizes)
    return model.eval()


def dialogs(batch, turns, words=8):
    """Words, attributes, images and mask of dialogs with different numbers of turns."""
    generator = torch.Generator().manual_seed(10 * batch + turns)
    words_BTL = torch.randint(1, WORDS, (batch, turns, words), generator=generator)
    words_BTL[::2, :, 5:] = 0
    attributes_BTA = torch.randint(ATTRIBUTES + 1, (batch, turns, 8), generator=generator)
    image_BTD = torch.randn(batch, turns, FEATURES, generator=generator)
    turns_B1 = torch.arange(batch).unsqueeze(1) % turns + 1
    return words_BTL, attributes_BTA, image_BTD, torch.arange(turns) < turns_B1


def by_turn(model, words_BTL, attributes_BTA, image_BTD, mask_BT):
    """Queries of each dialog alone, turn by turn."""
    queries = []
    for row, turns in enumerate(mask_BT.sum(1).tolist()):
        state = model.start(1)
        for turn in range(turns):
            words_BL, attributes_BA, image_BD = (
                part[row, turn].unsqueeze(0) for part in (words_BTL, attributes_BTA, image_BTD)
            )
            said = Turn(Message(), Message(words_BL=words_BL), ItemInputs(image_BD, attributes_BA))
            query_BD, state = model.step(state, said)
        queries.append(query_BD)
    return torch.cat(queries)


@pytest.mark.parametrize("attributes", [0, ATTRIBUTES])
@pytest.mark.parametrize("kind", ["turn-causal", "both-ways", "rnn", "linear", "residual"])
@torch.no_grad()
def test_the_query_of_whole_dialogs_is_that_of_their_last_turn(kind, attributes):
    model = make(kind, attributes)
    for batch, turns in ((1, 1), (3, 2), (8, 5)):
        given = dialogs(batch, turns)
        torch.testing.assert_close(model(*given), by_turn(model, *given), atol=1e-6, rtol=1e-4)


@torch.no_grad()
def test_bisection_finds_the_places_of_searchsorted():
    generator = torch.Generator().manual_seed(0)
    for size in (1, 2, 7, 8, 100):
        codes_G = torch.randint(50, (size,), generator=generator).sort().values
        code_BL = torch.randint(-2, 53, (4, 30), generator=generator)
        assert torch.equal(_bisect(codes_G, code_BL), torch.searchsorted(codes_G, code_BL))
