import pytest
import torch

from fashioniq.askers.best_item import BestItem
from fashioniq.data.items import Items
from fashioniq.data.words import Vocabulary
from fashioniq.loop.gallery import Gallery
from fashioniq.loop.messages import DialogState, Message, Turn
from fashioniq.loop.query import Query
from fashioniq.loop.rollout import System, rollout
from fashioniq.models.captioner import Captioner
from fashioniq.models.configs import CaptionerConfig, RetrieverConfig
from fashioniq.models.retriever import DialogRetriever
from fashioniq.users.captioner import CaptionerUser
from fashioniq.users.recorded import RecordedReplies

N, T = 40, 3


def some_items():
    torch.manual_seed(3)
    return Items([str(n) for n in range(N)], torch.randn(N, 6), torch.randint(1, 10, (N, 8)))


def some_retriever():
    torch.manual_seed(0)
    config = RetrieverConfig(width=16, heads=2, hidden=32, layers=1, attention="both-ways")
    return DialogRetriever(config, vocabulary=30, features=6, attributes=10)


def gallery_of(items, retriever):
    return Gallery(items, retriever.embed_images(items.features_ND))


def held(retriever, user, gallery, target_B, first_B, asker=None, rank=True):
    """A rollout of T turns that begins with items."""
    return rollout(
        System(retriever, asker or BestItem(), gallery), user, target_B, Message(item_B=first_B), T, rank
    )


class Repeater:
    """Says the same words whatever the target, and remembers who asked about what."""

    def __init__(self, words_BTL):
        self.words_BTL, self.heard = words_BTL, []

    def reply(self, target_B, offer, turn):
        self.heard.append((target_B, turn, offer.item_B))
        return Message(words_BL=self.words_BTL[:, turn])


def some_dialogs(target_B):
    torch.manual_seed(1)
    items, retriever = some_items(), some_retriever().eval()
    user = Repeater(torch.randint(4, 30, (8, T, 8)))
    with torch.no_grad():
        dialogs = held(
            retriever,
            user,
            gallery_of(items, retriever),
            target_B,
            torch.arange(8),
            BestItem(exclude_shown=True),
        )
    return dialogs, user.heard


def test_a_dialog_tells_what_was_shown_said_asked_and_how_the_target_ranked():
    dialogs, heard = some_dialogs(torch.arange(10, 18))
    assert all(torch.equal(target_B, dialogs.target_B) for target_B, *_ in heard)
    candidates = gallery_of(some_items(), some_retriever().eval())
    assert dialogs.shown_BT[:, 0].tolist() == list(range(8))
    assert [turn for _, turn, _ in heard] == [0, 1, 2]
    assert torch.equal(dialogs.shown_BT, torch.stack([item_B for *_, item_B in heard], 1))
    assert all(len(set(row)) == T for row in dialogs.shown_BT.tolist())  # none shown twice
    for turn in range(T):
        assert torch.equal(
            dialogs.ranks[:, turn], candidates.rank(dialogs.query_BTD[:, turn], dialogs.target_B)
        )


def test_a_dialog_of_word_ids_is_logged_with_its_words():
    vocabulary = Vocabulary([f"word{n}" for n in range(26)])
    target_B, first_B = torch.arange(2), torch.tensor([7, 9])
    items, retriever = some_items(), some_retriever().eval()
    texts = [["word3 word5", "word0"], ["word1", "word2 word9"]]
    words_BTL = torch.stack([vocabulary.encode(said, 8) for said in texts])
    user = RecordedReplies.of_words(words_BTL)
    system = System(retriever, BestItem(), gallery_of(items, retriever))
    with torch.no_grad():
        dialogs = rollout(system, user, target_B, Message(item_B=first_B), 2)
    logged = dialogs.logged(items.ids, vocabulary)
    assert [[turn.words for turn in turns] for turns in logged] == texts
    assert [[turn.reply.text for turn in turns] for turns in logged] == texts
    assert [[turn.rank for turn in turns] for turns in logged] == dialogs.ranks.tolist()
    assert [[turn.offer.item for turn in turns] for turns in logged] == [
        [items.ids[item] for item in shown] for shown in dialogs.shown_BT.tolist()
    ]


def test_a_dialog_of_texts_is_logged_with_these_texts_whatever_the_retriever_read():
    vocabulary = Vocabulary([f"word{n}" for n in range(26)])
    items, retriever = some_items(), some_retriever().eval()
    system = System(retriever, BestItem(), gallery_of(items, retriever), vocabulary)
    user = RecordedReplies([Message(texts=["word3, zorgle!", "Word1"])])
    with torch.no_grad():
        dialogs = rollout(system, user, torch.arange(2), Message(item_B=torch.tensor([7, 9])), 1)
    logged = dialogs.logged(items.ids, vocabulary)
    assert [[(turn.words, turn.reply.text) for turn in turns] for turns in logged] == [
        [("word3, zorgle!", "word3, zorgle!")],
        [("Word1", "Word1")],
    ]


def test_the_best_item_by_the_query_of_the_turn_before_is_shown_next():
    items, retriever = some_items(), some_retriever().eval()
    candidates = gallery_of(items, retriever)
    with torch.no_grad():
        dialogs = held(
            retriever,
            RecordedReplies.of_words(torch.randint(4, 30, (5, T, 8))),
            candidates,
            torch.arange(5),
            torch.arange(5) + 9,
        )
    for turn in range(1, T):
        assert (candidates.rank(dialogs.query_BTD[:, turn - 1], dialogs.shown_BT[:, turn]) == 0).all()


def test_the_retriever_hears_of_the_item_that_is_shown():
    class Deaf(DialogRetriever):
        def step(self, state, turn):
            turns.append(turn)
            return super().step(state, turn)

    turns, items = [], some_items()
    config = RetrieverConfig(width=16, heads=2, hidden=32, layers=1, attention="both-ways")
    retriever = Deaf(config, vocabulary=30, features=6, attributes=10).eval()
    with torch.no_grad():
        words_BTL = torch.randint(4, 30, (5, T, 8))
        user = RecordedReplies.of_words(words_BTL)
        dialogs = held(retriever, user, gallery_of(items, retriever), torch.arange(5), torch.arange(5, 10))
    for number, turn in enumerate(turns):
        assert torch.equal(turn.image_BD, items.features_ND[dialogs.shown_BT[:, number]])
        assert torch.equal(turn.attributes_BA, items.attributes_NA[dialogs.shown_BT[:, number]])
        assert torch.equal(turn.words_BL, words_BTL[:, number])


@pytest.mark.parametrize("beams", [1, 3])
def test_training_gives_gradients_to_the_retriever_and_none_to_the_captioner(beams):
    items, retriever, vocabulary = (
        some_items(),
        some_retriever().train(),
        Vocabulary([f"word{n}" for n in range(26)]),
    )
    config = CaptionerConfig(width=16, heads=2, hidden=32, layers=1)
    captioner = Captioner(config, vocabulary=30, features=6, attributes=10)
    user = CaptionerUser(captioner, items, vocabulary, vocabulary, beams)
    dialogs = held(
        retriever, user, gallery_of(items, retriever), torch.arange(5), torch.arange(5) + 5, rank=False
    )
    (dialogs.query_BTD - retriever.embed_images(items.features_ND[:5]).unsqueeze(1)).square().sum().backward()
    without = [
        name for name, weight in retriever.named_parameters() if weight.grad is None or not weight.grad.any()
    ]
    assert not without
    assert all(weight.grad is None and not weight.requires_grad for weight in captioner.parameters())
    assert not captioner.training and retriever.training


def test_training_and_evaluation_are_the_same_loop():
    items, retriever = some_items(), some_retriever()
    words_BTL = torch.randint(4, 30, (5, T, 8))
    made = []
    for training in (True, False):
        retriever.train(training)
        with torch.set_grad_enabled(training):
            made.append(
                held(
                    retriever,
                    RecordedReplies.of_words(words_BTL),
                    gallery_of(items, retriever),
                    *torch.arange(10).view(2, 5),
                )
            )
    assert torch.equal(made[0].shown_BT, made[1].shown_BT) and torch.equal(made[0].ranks, made[1].ranks)
    torch.testing.assert_close(made[0].query_BTD.detach(), made[1].query_BTD)


def test_a_rollout_without_ranks_says_so():
    items, retriever = some_items(), some_retriever()
    user = RecordedReplies.of_words(torch.randint(4, 30, (5, T, 8)))
    dialogs = held(retriever, user, gallery_of(items, retriever), *torch.arange(10).view(2, 5), rank=False)
    assert dialogs.rank_BT is None
    with pytest.raises(ValueError, match="did not compute ranks"):
        _ = dialogs.ranks


@pytest.mark.parametrize(("exclude_shown", "expected"), [(False, [0, 2]), (True, [1, 3])])
def test_the_best_item_is_offered_and_with_exclusion_the_best_one_not_yet_shown(exclude_shown, expected):
    items = Items(list("abcd"), torch.zeros(4, 1), torch.zeros(4, 8, dtype=torch.long))
    gallery = Gallery(items, torch.tensor([[0.0], [1.0], [2.0], [2.5]]))
    turn = Turn(Message(item_B=torch.tensor([0, 2])), Message())
    talk = DialogState(2, None, (turn,), (Query(torch.tensor([[0.0], [2.0]])),))
    assert BestItem(exclude_shown).offer(talk, gallery).item_B.tolist() == expected


def test_before_the_first_reply_no_product_is_offered():
    items = Items(list("abc"), torch.zeros(3, 1), torch.zeros(3, 8, dtype=torch.long))
    gallery = Gallery(items, torch.tensor([[0.0], [2.5], [4.0]]))
    assert BestItem().offer(DialogState(2, None), gallery) == Message()
    assert int(gallery.top(gallery.mean_1D, 1)[1]) == 1


def test_a_rollout_continues_an_earlier_talk():
    items, retriever = some_items(), some_retriever()
    user = RecordedReplies.of_words(torch.randint(4, 30, (5, T, 8)))
    system, target_B = System(retriever, BestItem(), gallery_of(items, retriever)), torch.arange(5)
    first = Message(item_B=torch.arange(5, 10))
    whole = rollout(system, user, target_B, first, T)
    talk = rollout(system, user, target_B, first, 1, rank=False).state
    rest = rollout(system, user, target_B, system.offer(talk), T, state=talk)
    assert torch.equal(rest.query_BTD, whole.query_BTD)
    assert torch.equal(rest.ranks, whole.ranks[:, 1:]) and len(talk.turns) == 1
