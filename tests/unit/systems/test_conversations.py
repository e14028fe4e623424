"""Searches in conversations: which queries each method makes, and a ChatSearcher as a system of dialogs."""

import json
import shutil
from types import SimpleNamespace

import pytest
import torch

from fashioniq.config import EvalChatsearch
from fashioniq.data.conversation_records import ConversationTurn, Text, TurnPicture
from fashioniq.data.conversations import Conversations, write_items
from fashioniq.data.words import Vocabulary
from fashioniq.features.frozen import frozen_features
from fashioniq.files import UserError
from fashioniq.loop.messages import Message
from fashioniq.runs.trained import load_dialog_encoder, load_retriever
from fashioniq.runs.training_data import Selection
from fashioniq.systems import chatsearch, chatsearcher
from fashioniq.systems.chatsearch import Found, _ridge, _Space, _usable, searches
from tests.unit.shop import SAID, sample

CPU = torch.device("cpu")


@pytest.fixture
def made(shop, conversation_folder):
    """Function that makes the searches of some options."""

    def made(**options):
        settings = EvalChatsearch(
            data=conversation_folder, features=[str(shop.store)], device="cpu", batch_size=2, **options
        )
        data = Conversations(conversation_folder)
        features = frozen_features(list(data.items), settings.features)
        return searches(settings, data, features, CPU), features

    return made


def test_only_methods_that_have_what_they_need_are_made(shop, conversation_folder, made):
    assert list(made()[0]) == ["image"]
    assert list(made(run=conversation_folder / "run")[0]) == ["chatsearcher", "image"]
    assert set(made(method=["text"], encoder=str(shop.run("encoder")))[0]) == {"text", "both"}
    assert set(made(method=["concatenation"], encoder=str(shop.run("encoder")))[0]) >= {"concatenation"}
    assert list(made(method=["retriever"], retriever=shop.run("retriever"))[0]) == ["retriever"]
    assert (
        list(made(method=["random"], encoder=str(shop.run("encoder")), run=conversation_folder / "run")[0])
        == []
    )


def test_a_chatsearcher_searches_by_its_own_vectors_in_the_order_of_the_conversations(
    conversation_folder, made
):
    found, features = made(run=conversation_folder / "run", method=["chatsearcher"])
    search, ids = found["chatsearcher"], features.ids
    model = search.queries.model
    assert torch.allclose(search.vectors_ND, model.embed_images(features.vector_NF))
    some = [
        sample("t", ids[0], ["a red dress please longer"]),
        sample("i", ids[0], [f"#{ids[3]}", "longer"]),
        sample("t", ids[0], ["red"]),
        sample("m", ids[0], ["a dress"], ["sure", f"#{ids[5]}"], ["longer please"]),
        sample("t", ids[0], ["a red dress"]),
    ]
    together = search.queries(some)
    assert together.query_QD.shape == (5, 8) and together.shows_Q.dtype == torch.bool
    for row, one in enumerate(some):
        alone = search.queries([one])
        assert torch.allclose(alone.query_QD[0], together.query_QD[row], atol=1e-5)
        assert alone.shows_Q[0] == together.shows_Q[row]


def test_words_and_pictures_in_the_space_of_a_dual_encoder(shop, made):
    found, features = made(method=["text", "both"], encoder=str(shop.run("encoder")))
    encoder = load_dialog_encoder(shop.run("encoder"), shop.features)[0]
    with torch.no_grad():
        vectors_ND = encoder.embed_images(features.vector_NF)
    assert torch.allclose(found["text"].vectors_ND, vectors_ND, atol=1e-6)
    one = sample("m", features.ids[0], ["a red dress"], ["sure", f"#{features.ids[4]}"], ["longer"])
    text_QD = encoder.texts(["a red dress sure longer"])
    assert torch.allclose(found["text"].queries([one]).query_QD, text_QD, atol=1e-5)
    both_QD = torch.nn.functional.normalize(text_QD + vectors_ND[4], dim=1)
    assert torch.allclose(found["both"].queries([one]).query_QD, both_QD, atol=1e-5)
    assert found["both"].queries([one, sample("t", features.ids[0], ["red"])]) is None


def test_the_vectors_of_a_pretrained_encoder_are_those_of_its_own_store(
    shop, conversation_folder, made, monkeypatch
):
    class Encoder:
        identity, limit = shop.features.facts, 10

    monkeypatch.setattr(chatsearch, "load", lambda name, device: Encoder())
    found, features = made(method=["text"], encoder="some")
    assert torch.allclose(found["text"].vectors_ND, torch.nn.functional.normalize(features.vector_NF, dim=1))
    settings = EvalChatsearch(
        data=conversation_folder, features=[str(shop.store)], encoder="some", out=conversation_folder
    )
    more = SimpleNamespace(ids=[*features.ids, "unknown", "another"])
    with pytest.raises(UserError, match="2 items have features, but none of some"):
        chatsearch._space(settings, "some", more, CPU)


class Words:
    """Encoder of words as unit vectors by their first letters."""

    limit = 8

    def lengths(self, texts):
        return [1] * len(texts)

    def texts(self, texts):
        return torch.tensor([[1.0, float("b" in text), float("c" in text)] for text in texts])


def test_the_concatenation_is_the_ridge_regression_from_words_and_the_last_picture():
    vectors_ND = torch.nn.functional.normalize(torch.eye(3) + 0.1, dim=1)
    space = _Space(Words(), vectors_ND, {"x": 0, "y": 1, "z": 2})
    train = [
        sample("m", "x", ["a"], ["b", "#y"], ["c", "#z"]),
        sample("t", "y", ["b"]),
        sample("i", "z", ["#x", "a"]),
        sample("t", "x", ["c"]),
    ]
    text_QD = torch.nn.functional.normalize(Words().texts(["a b c", "b", "a", "c"]), dim=1)
    image_QD = torch.stack([vectors_ND[2], torch.zeros(3), vectors_ND[0], torch.zeros(3)])
    x_QD = torch.cat([text_QD, image_QD, torch.ones(4, 1)], 1)
    assert torch.allclose(space._beside(train), x_QD)
    map_DD = _ridge(x_QD, vectors_ND[[0, 1, 2, 0]], 0.5)
    left = x_QD.T @ (x_QD @ map_DD - vectors_ND[[0, 1, 2, 0]]) + 0.5 * map_DD  # the gradient is zero
    assert left.abs().max() < 1e-5
    query = space.concatenation(train)(train[:1]).query_QD
    assert query.shape == (1, 3) and query.norm() == pytest.approx(1)


def test_the_penalty_is_chosen_on_a_tenth_of_the_targets(capsys):
    names = [f"i{number:02}" for number in range(25)]
    space = _Space(
        Words(),
        torch.nn.functional.normalize(torch.randn(25, 3), dim=1),
        {name: n for n, name in enumerate(names)},
    )
    space.concatenation([sample("t", name, ["b"]) for name in names for _ in range(2)])
    printed = capsys.readouterr().out
    assert printed.endswith("chosen on 6 conversations of train\n")  # two of each of i00, i10 and i20


def test_conversations_of_train_without_features_are_not_fitted(conversation_folder, made):
    _, features = made()
    found = _usable(Conversations(conversation_folder), features)
    assert [(one.subtask, one.target) for one in found] == [
        ("t", features.ids[1]), ("t", features.ids[2]), ("i", features.ids[1]),
    ]  # fmt: skip


def test_a_dialog_retriever_is_told_the_pictures_and_words_of_each_step(shop, made):
    found, features = made(method=["retriever"], retriever=shop.run("retriever"))
    search, ids = found["retriever"], features.ids
    model = load_retriever(shop.run("retriever"), "dresses", shop.features)[0]
    some = [
        sample("i", ids[0], [f"#{ids[2]}", "is red"]),
        sample("m", ids[0], ["a dress"], [f"#{ids[3]}"], ["is red"], [f"#{ids[4]}"], ["is longer"]),
        sample("i", ids[0], [f"#{ids[5]}", "is a dress"]),
        sample("i", ids[0], [f"#{ids[6]}", "is red"]),
    ]
    assert torch.allclose(search.vectors_ND, model.embed_images(features.vector_NF), atol=1e-5)
    query_QD = search.queries(some).query_QD
    for row, one in enumerate(some):
        assert torch.allclose(search.queries([one]).query_QD[0], query_QD[row], atol=1e-5)
    assert len({tuple(one) for one in query_QD.tolist()}) == 4
    assert search.queries([sample("t", ids[0], ["red"]), some[0]]) is None


# a system of dialogs


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_chatsearcher_is_loaded_in_half_precision_on_a_gpu_alone(conversation_folder, monkeypatch, device):
    def asked(run, half):
        raise LookupError(half)

    monkeypatch.setattr(chatsearcher, "load_chatsearcher", asked)
    monkeypatch.setattr(chatsearcher, "pick_device", torch.device)
    with pytest.raises(LookupError, match=str(device == "cuda")):
        chatsearcher.load(conversation_folder / "run", Selection(None, "test", device, None, None, None))


def test_a_loaded_chatsearcher_has_the_items_of_a_split_and_category(shop, conversation_folder):
    run, ids = conversation_folder / "run", shop.catalog.ids("val")
    system = chatsearcher.load(run, Selection(None, "test", "cpu", None, None, None))
    assert system.gallery.items.ids == ids and system.vocabulary.words == Vocabulary(SAID).words
    assert system.cards.titles == {name: f"dress {name}" for name in ids}
    assert set(system.cards.images) == set(ids)
    assert not any(one.requires_grad for one in system.retriever.model.parameters())
    model = system.retriever.model
    wanted_ND = model.embed_images(shop.features.items(ids).features_ND[:].float())
    assert torch.allclose(system.gallery.vectors_ND, wanted_ND, atol=1e-5)
    tops = chatsearcher.load(run, Selection(shop.store, "train", "cpu", conversation_folder, "tops", None))
    assert tops.gallery.items.ids == shop.catalog.ids("train")[1::2]
    every = chatsearcher.load(run, Selection(None, "all", "cpu", None, None, None))
    assert len(every.gallery) == 24
    with pytest.raises(UserError, match=r"expected items of test in .*, found 0"):
        chatsearcher.load(run, Selection(None, "test", "cpu", None, "shirts", None))


@pytest.mark.parametrize("count", [1, 2])
def test_a_chatsearcher_searches_among_two_items_at_least(shop, conversation_folder, tmp_path, count):
    some = dict(list(Conversations(conversation_folder).items.items())[:count])
    write_items(tmp_path, some.values())
    chosen = Selection(shop.store, "train", "cpu", tmp_path, None, None)
    if count < 2:
        with pytest.raises(UserError, match=r"expected items of train in .*, found 1"):
            chatsearcher.load(conversation_folder / "run", chosen)
    else:
        system = chatsearcher.load(conversation_folder / "run", chosen)
        assert system.gallery.items.ids == list(some)


def test_a_chatsearcher_needs_its_conversations_and_features(shop, conversation_folder, tmp_path):
    run = shutil.copytree(conversation_folder / "run", tmp_path / "run")
    (run / "config.yaml").unlink()
    with pytest.raises(UserError, match="expected the folder of the conversations"):
        chatsearcher.load(run, Selection(None, "test", "cpu", None, None, None))
    with pytest.raises(UserError, match="expected the feature stores"):
        chatsearcher.load(run, Selection(None, "test", "cpu", conversation_folder, None, None))
    about = json.loads((run / "model.json").read_text())
    (run / "model.json").write_text(json.dumps(about | {"features": {"weights": "others"}}))
    with pytest.raises(UserError, match="was trained with weights others"):
        chatsearcher.load(run, Selection(shop.store, "test", "cpu", conversation_folder, None, None))


class Answering:
    """Stands for a model whose answers are given: their ids, and the query if they show a product."""

    def __init__(self, *answers):
        self.answers, self.asked = list(answers), []
        self.log_temperature = torch.zeros(())

    def continued(self, tokens, asked, pictures, most):
        self.asked.append((asked, most))
        return self.answers[len(self.asked) - 1]

    def search(self, batch, pictures):
        return torch.tensor([[9.0, 9.0]]), torch.tensor([False])


@pytest.fixture
def talking(conversation_folder):
    """Function that makes a retriever whose model gives these answers."""

    def talking(*answers):
        system = chatsearcher.load(
            conversation_folder / "run", Selection(None, "test", "cpu", None, None, None)
        )
        own = system.retriever
        return system, chatsearcher.ChatSearcherRetriever(
            Answering(*answers), own.tokens, own.features, own.ids
        )

    return talking


def test_an_answer_is_decoded_without_its_marks_and_searches_if_it_shows(talking):
    image_query = torch.tensor([[1.0, 2.0]])
    _, retriever = talking()
    tokens = retriever.tokens
    retriever.model.answers = [
        ([*Vocabulary(SAID).ids("sure"), tokens.tokens.end], None),
        ([*Vocabulary(SAID).ids("red dress"), tokens.image], image_query),
    ]
    talk = SimpleNamespace(offer=Message(), reply=Message(texts=["a red dress", "longer please"]))
    query_BD, state = retriever.step(retriever.start(2), talk)
    assert query_BD.tolist() == [[9.0, 9.0], [1.0, 2.0]]
    assert state.answers == ("sure", "red dress") and state.shows == (False, True)
    assert [most for _, most in retriever.model.asked] == [40, 40]
    assert [[turn.role for turn in said] for said in state.said] == [["user"], ["user"]]
    assert state.said[1][0].content == (Text("longer please"),)


def test_what_is_offered_comes_before_the_reply(talking):
    _, retriever = talking()
    ids = retriever.ids
    offer = Message(questions=["sure", ""], item_B=torch.tensor([2, 0]))
    assert retriever._offered(offer, 0) == (
        ConversationTurn("assistant", (Text("sure"), TurnPicture(ids[2]))),
    )
    assert retriever._offered(offer, 1) == (ConversationTurn("assistant", (TurnPicture(ids[0]),)),)
    assert retriever._offered(Message(questions=["sure"]), 0) == (
        ConversationTurn("assistant", (Text("sure"),)),
    )
    assert retriever._offered(Message(questions=[""]), 0) == () == retriever._offered(Message(), 0)


def test_a_product_is_offered_only_if_the_model_shows_one_and_none_twice(conversation_folder):
    system = chatsearcher.load(conversation_folder / "run", Selection(None, "test", "cpu", None, None, None))
    asker, gallery = system.asker, system.gallery
    assert asker.offer(SimpleNamespace(queries=[]), gallery) == Message()
    query_1D = gallery.vectors_ND[[3]]
    nearest = gallery.top(query_1D, 3)[1][0].tolist()

    def offered(shows, *shown):
        state = chatsearcher.ChatState(((),), ("sure",), (shows,))
        return asker.offer(
            SimpleNamespace(queries=[query_1D + 1, query_1D], state=state, shown=shown), gallery
        )

    assert offered(False) == Message(questions=["sure"])
    assert offered(True).item_B.tolist() == [nearest[0]] == [3] and offered(True).questions == ["sure"]
    assert offered(True, torch.tensor([nearest[0]])).item_B.tolist() == [nearest[1]]
    assert offered(True, *torch.tensor(nearest[:2]).unsqueeze(1)).item_B.tolist() == [nearest[2]]


def test_a_chatsearcher_holds_a_dialog(conversation_folder):
    system = chatsearcher.load(conversation_folder / "run", Selection(None, "test", "cpu", None, None, None))
    dialog = system.dialog().say("a red dress").say("longer please")
    assert len(dialog.products(3)) == 3 and Found(torch.zeros(1, 1)).shows_Q is None
