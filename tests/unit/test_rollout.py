import pytest
import torch

from fashioniq.askers import BestItem, Offer
from fashioniq.data.features import Items
from fashioniq.data.words import Vocabulary
from fashioniq.gallery import Gallery
from fashioniq.models.captioner import Captioner
from fashioniq.models.retriever import DialogRetriever
from fashioniq.rollout import rollout
from fashioniq.users import CaptionerUser, RecordedUser, Words

N, T = 40, 3


def some_items():
    torch.manual_seed(3)
    return Items([str(n) for n in range(N)], torch.randn(N, 6), torch.randint(1, 10, (N, 8)))


def some_retriever():
    torch.manual_seed(0)
    return DialogRetriever(30, 6, 10, width=16, heads=2, hidden=32, layers=1)


def gallery_of(items, retriever):
    return Gallery(items, retriever.embed_images(items.features_ND))


def tensors_in(thing):
    """Every tensor that can be reached from an argument: in tuples, lists, dicts and attributes of objects."""
    if isinstance(thing, torch.Tensor):
        return [thing]
    if isinstance(thing, dict):
        parts = thing.values()
    elif isinstance(thing, (tuple, list)):
        parts = thing
    else:
        parts = vars(thing).values() if hasattr(thing, "__dict__") else ()
    return [tensor for part in parts for tensor in tensors_in(part)]


class Spy:
    """Records every tensor that is handed to one method of another object."""

    def __init__(self, other):
        self.other, self.seen = other, []

    def __getattr__(self, name):
        def spied(*arguments, **named):
            self.seen += [tensor.detach().clone() for tensor in tensors_in([arguments, named])]
            return getattr(self.other, name)(*arguments, **named)

        return spied


class Repeater:
    """Says the same words whatever the target, and remembers who asked about what."""

    def __init__(self, words_BTL):
        self.words_BTL, self.heard = words_BTL, []

    def reply(self, target_B, offer):
        self.heard.append((target_B, offer.turn, offer.item_B))
        return Words(self.words_BTL[:, offer.turn])


def spied_rollout(target_B):
    torch.manual_seed(1)
    items, retriever = some_items(), some_retriever().eval()
    user = Repeater(torch.randint(4, 30, (8, T, 8)))
    retriever_spy, asker_spy = Spy(retriever), Spy(BestItem(exclude_shown=True))
    with torch.no_grad():
        dialogs = rollout(retriever_spy, asker_spy, user, gallery_of(items, retriever), target_B, torch.arange(8), T)
    return dialogs, retriever_spy.seen, asker_spy.seen, user.heard


def test_the_target_reaches_neither_retriever_nor_asker():
    one, *seen_with_one, heard = spied_rollout(torch.arange(10, 18))
    other, *seen_with_other, _ = spied_rollout(torch.arange(30, 22, -1))
    assert all(torch.equal(target_B, one.target_B) for target_B, *_ in heard)  # the user does know it
    for with_one, with_other in zip(seen_with_one, seen_with_other, strict=True):
        assert len(with_one) == len(with_other) > 0
        assert all(torch.equal(a, b) for a, b in zip(with_one, with_other, strict=True))
    assert torch.equal(one.query_BTD, other.query_BTD) and torch.equal(one.shown_BT, other.shown_BT)
    assert not torch.equal(one.ranks, other.ranks)


def test_a_dialog_tells_what_was_shown_said_asked_and_how_the_target_ranked():
    dialogs, *_, heard = spied_rollout(torch.arange(10, 18))
    candidates = gallery_of(some_items(), some_retriever().eval())
    assert dialogs.shown_BT[:, 0].tolist() == list(range(8))
    assert [turn for _, turn, _ in heard] == [0, 1, 2]
    assert torch.equal(dialogs.shown_BT, torch.stack([item_B for *_, item_B in heard], 1))
    assert all(len(set(row)) == T for row in dialogs.shown_BT.tolist())  # none shown twice
    for turn in range(T):
        assert torch.equal(dialogs.ranks[:, turn], candidates.rank(dialogs.query_BTD[:, turn], dialogs.target_B))


def test_the_best_item_by_the_query_of_the_turn_before_is_shown_next():
    items, retriever = some_items(), some_retriever().eval()
    candidates = gallery_of(items, retriever)
    with torch.no_grad():
        dialogs = rollout(retriever, BestItem(), RecordedUser(torch.randint(4, 30, (5, T, 8))), candidates, torch.arange(5), torch.arange(5) + 9, T)
    for turn in range(1, T):
        assert (candidates.rank(dialogs.query_BTD[:, turn - 1], dialogs.shown_BT[:, turn]) == 0).all()


def test_the_retriever_hears_of_the_item_that_is_shown():
    class Deaf(DialogRetriever):
        def step(self, state, turn):
            turns.append(turn)
            return super().step(state, turn)

    turns, items = [], some_items()
    retriever = Deaf(30, 6, 10, width=16, heads=2, hidden=32, layers=1).eval()
    with torch.no_grad():
        user = RecordedUser(torch.randint(4, 30, (5, T, 8)))
        dialogs = rollout(retriever, BestItem(), user, gallery_of(items, retriever), torch.arange(5), torch.arange(5, 10), T)
    for number, turn in enumerate(turns):
        assert torch.equal(turn.image_BD, items.features_ND[dialogs.shown_BT[:, number]])
        assert torch.equal(turn.attributes_BA, items.attributes_NA[dialogs.shown_BT[:, number]])
        assert torch.equal(turn.words_BL, dialogs.words_BTL[:, number])


@pytest.mark.parametrize("beams", [1, 3])
def test_training_gives_gradients_to_the_retriever_and_none_to_the_captioner(beams):
    items, retriever, vocabulary = some_items(), some_retriever().train(), Vocabulary([f"word{n}" for n in range(26)])
    captioner = Captioner(30, 6, 10, width=16, heads=2, hidden=32, layers=1)
    user = CaptionerUser(captioner, items, vocabulary, vocabulary, beams)
    dialogs = rollout(retriever, BestItem(), user, gallery_of(items, retriever), torch.arange(5), torch.arange(5) + 5, T, rank=False)
    (dialogs.query_BTD - retriever.embed_images(items.features_ND[:5]).unsqueeze(1)).square().sum().backward()
    without = [name for name, weight in retriever.named_parameters() if weight.grad is None or not weight.grad.any()]
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
            made.append(rollout(retriever, BestItem(), RecordedUser(words_BTL), gallery_of(items, retriever), *torch.arange(10).view(2, 5), T))
    assert torch.equal(made[0].shown_BT, made[1].shown_BT) and torch.equal(made[0].ranks, made[1].ranks)
    torch.testing.assert_close(made[0].query_BTD.detach(), made[1].query_BTD)


def test_a_rollout_without_ranks_says_so():
    items, retriever = some_items(), some_retriever()
    user = RecordedUser(torch.randint(4, 30, (5, T, 8)))
    dialogs = rollout(retriever, BestItem(), user, gallery_of(items, retriever), *torch.arange(10).view(2, 5), T, rank=False)
    assert dialogs.rank_BT is None
    with pytest.raises(ValueError, match="without ranks"):
        _ = dialogs.ranks


@pytest.mark.parametrize(("exclude_shown", "expected"), [(False, [0, 2]), (True, [1, 3])])
def test_the_best_item_is_offered_and_with_exclusion_the_best_one_not_yet_shown(exclude_shown, expected):
    items = Items(list("abcd"), torch.zeros(4, 1), torch.zeros(4, 8, dtype=torch.long))
    gallery = Gallery(items, torch.tensor([[0.0], [1.0], [2.0], [2.5]]))
    offer = BestItem(exclude_shown).offer(torch.tensor([[0.0], [2.0]]), torch.tensor([[0], [2]]), gallery)
    assert isinstance(offer, Offer) and offer.turn == 1 and offer.item_B.tolist() == expected
