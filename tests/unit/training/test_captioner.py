import pytest
import torch

from fashioniq.data.catalog import Pair
from fashioniq.data.items import Items
from fashioniq.data.words import END, PAD, START, UNKNOWN, Vocabulary
from fashioniq.language.statements import StatementCheck
from fashioniq.metrics.captions import bleu
from fashioniq.models.captioner import Captioner
from fashioniq.models.configs import CaptionerConfig
from fashioniq.training.captioner import CaptionerTraining, caption_examples, collate_pairs
from fashioniq.training.linear import fit_listener

SHAPES, COLOURS = (
    ("longer", "much shorter", "more formal", "darker with sleeves"),
    ("red", "blue", "green", "black", "white"),
)
CAPTIONS = [f"is {shape} and {colour}" for shape in SHAPES for colour in COLOURS]


def training(captions, attributes=0):
    """A module in training on one caption of each of as many pairs, and its one batch."""
    torch.manual_seed(0)
    vocabulary = Vocabulary.of(captions, at_least=1)
    products = 2 * len(captions)
    items = Items(
        [f"P{n}" for n in range(products)], torch.randn(products, 16), torch.randint(1, 10, (products, 8))
    )
    pairs = [Pair(f"P{2 * n}", f"P{2 * n + 1}", (text,)) for n, text in enumerate(captions)]
    config = CaptionerConfig(width=48, heads=4, hidden=96, layers=2, dropout=0.0)
    model = Captioner(config, vocabulary=len(vocabulary), features=16, attributes=attributes)
    options = {"vocabulary": vocabulary, "val_pairs": pairs, "noam_factor": 1.0, "warmup": 40, "beam": 1}
    module = CaptionerTraining(model, train=items, val=items, **options)
    return module, list(caption_examples(pairs, items, vocabulary, 8))


def test_the_captions_of_a_pair_are_framed_by_start_and_end_and_padded_where_other_pairs_have_more():
    vocabulary = Vocabulary(["red", "blue"])
    items = Items(["A", "B"], torch.zeros(2, 1), torch.zeros(2, 8, dtype=torch.long))
    pairs = [
        Pair("A", "B", ("red", "blue odd red blue")),
        Pair(None, "A", ("red",)),
        Pair("B", "A", ("blue",)),
    ]
    reference_N, target_N, words_NKL = caption_examples(pairs, items, vocabulary, 3)
    assert (reference_N.tolist(), target_N.tolist()) == ([1, 0], [0, 1])
    first, second = (
        [[START, 4, END, PAD, PAD], [START, 5, UNKNOWN, 4, END]],
        [[START, 5, END, PAD, PAD], [PAD] * 5],
    )
    assert words_NKL.tolist() == [first, second]
    _, _, trimmed_BKL = collate_pairs([(reference_N[1], target_N[1], words_NKL[1])])
    assert trimmed_BKL.tolist() == [[[START, 5, END]]]
    three = list(zip(reference_N[[1, 1, 1]], target_N[[1, 1, 1]], words_NKL[[1, 1, 1]], strict=True))
    assert collate_pairs(three)[2].tolist() == [[[START, 5, END]]] * 3


def test_captions_are_true_by_the_labels_of_their_targets(monkeypatch):
    module, _ = training(["is red", "is blue", "is nicer"])
    textures = {"P0": "red", "P1": "green", "P2": "green", "P3": "blue", "P4": "red"}
    module.truth = StatementCheck({name: [[], [word]] for name, word in textures.items()})
    logged = {}
    monkeypatch.setattr(module, "log", logged.__setitem__)
    module._captions = [(0, "is red"), (1, "is blue"), (2, "is nicer")]  # the second is said of the candidate
    module.on_validation_epoch_end()
    assert logged["val_true"] == 50
    module._captions = [(2, "is nicer")]
    module.on_validation_epoch_end()
    assert logged["val_true"] == 0


def test_validation_reports_bleu_of_single_words_and_of_four(monkeypatch):
    module, _ = training(["is red with long sleeves", "is blue"])
    logged = {}
    monkeypatch.setattr(module, "log", logged.__setitem__)
    module._captions = [(0, "is red with long sleeves"), (1, "blue is")]
    module.on_validation_epoch_end()
    of_1, _, of_3, of_4 = bleu(
        [text for _, text in module._captions], [pair.captions for pair in module.val_pairs]
    )
    assert logged == {"val_BLEU-1": of_1, "val_BLEU-3": of_3, "val_BLEU-4": of_4} and of_4 < of_1


def test_the_learning_rate_rises_in_the_warmup_and_falls_with_the_root_of_the_step():
    module, _ = training(["is red"])  # 40 steps of warmup
    made = module.configure_optimizers()
    factor = made["lr_scheduler"]["scheduler"].lr_lambdas[0]
    assert made["optimizer"].param_groups[0]["initial_lr"] == pytest.approx(48**-0.5)
    rates = [factor(step) for step in range(160)]
    assert rates[39] == max(rates) == pytest.approx(40**-0.5)
    assert rates[19] == pytest.approx(rates[39] / 2) == pytest.approx(rates[159])


def test_the_loss_is_the_cross_entropy_of_the_next_words_of_each_caption_without_padding():
    module, (reference_N, target_N, words_N1L) = training(CAPTIONS)
    module.eval()
    model, items = module.model, module.items["train"]
    words_NKL = torch.cat([words_N1L, words_N1L.roll(3, 0)], 1)  # each pair has two captions …
    words_NKL[4, 1] = PAD  # … but one
    said = []
    for caption_NL in words_NKL.unbind(1):
        looks = [items.inputs(place_N) for place_N in (reference_N, target_N)]
        log_NLV = model(*looks, caption_NL[:, :-1]).log_softmax(-1)
        said += [
            log_NLV[row, place, word]
            for row, words in enumerate(caption_NL.tolist())
            for place, word in enumerate(words[1:])
            if word != PAD
        ]
    torch.testing.assert_close(
        module.training_step([reference_N, target_N, words_NKL], 0), -torch.stack(said).mean()
    )


@pytest.mark.parametrize(("attributes", "steps"), [(0, 60), (10, 120)])
def test_the_captioner_learns_20_captions_by_heart(attributes, steps):
    module, batch = training(CAPTIONS, attributes)
    settings = module.configure_optimizers()
    optimizer, schedule = settings["optimizer"], settings["lr_scheduler"]["scheduler"]
    for _ in range(steps):
        loss = module.training_step(batch, 0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    module.eval()
    looks = [module._inputs("train", place_N) for place_N in batch[:2]]
    assert module.vocabulary.decode(module.model.greedy(*looks)) == CAPTIONS
    assert module.vocabulary.decode(module.model.beam(*looks, 3)) == CAPTIONS


def test_the_learning_rate_is_noams():
    module, _ = training(CAPTIONS)
    settings = module.configure_optimizers()
    optimizer, schedule = settings["optimizer"], settings["lr_scheduler"]["scheduler"]
    assert settings["lr_scheduler"]["interval"] == "step"
    assert (optimizer.defaults["betas"], optimizer.defaults["eps"]) == ((0.9, 0.98), 1e-9)
    for step in range(1, 101):
        expected = 48**-0.5 * min(step**-0.5, step * 40**-1.5)
        assert optimizer.param_groups[0]["lr"] == pytest.approx(expected)
        optimizer.step()
        schedule.step()


def test_validation_scores_what_is_said_against_the_captions_of_the_pair(monkeypatch):
    module, (reference_N, target_N, words_NKL) = training(CAPTIONS)
    logged = {}
    monkeypatch.setattr(module, "log", logged.__setitem__)
    said_BL = words_NKL[:, 0, 1:9].masked_fill(words_NKL[:, 0, 1:9] == END, PAD)
    monkeypatch.setattr(module.model, "beam", lambda reference, target, beams: said_BL)
    module.on_validation_epoch_start()
    module.validation_step([reference_N, target_N, torch.arange(20)], 0)
    module.on_validation_epoch_end()
    assert logged == pytest.approx({"val_BLEU-4": 100, "val_BLEU-3": 100, "val_BLEU-1": 100}, abs=0.01)
    module.on_validation_epoch_start()
    module.validation_step([reference_N, target_N, torch.arange(20).roll(7)], 0)
    module.on_validation_epoch_end()
    assert logged["val_BLEU-4"] < 50


def test_the_bleu_of_validation_is_named_by_the_length_of_its_phrases(monkeypatch):
    module, _ = training(["is red and has long sleeves", "is blue"])
    logged, said = {}, ["is red and has short sleeves", "is blue and long"]
    monkeypatch.setattr(module, "log", logged.__setitem__)
    module._captions = list(enumerate(said))
    module.on_validation_epoch_end()
    scores = bleu(said, [pair.captions for pair in module.val_pairs])
    assert logged == {f"val_BLEU-{n}": scores[n - 1] for n in (4, 3, 1)} and len({*scores}) == 4


def test_captions_are_informative_if_a_listener_who_knows_only_those_of_people_finds_the_target(monkeypatch):
    """The first dimension of the vectors is the color. The captions of validation are wrong in the second half."""
    torch.manual_seed(0)
    vectors_ND = 0.1 * torch.randn(80, 6)
    vectors_ND[:, 0] = torch.arange(80) % 2 * 2.0 - 1
    items = Items.without_attributes([f"P{n}" for n in range(80)], vectors_ND)
    pairs = [
        Pair(
            f"P{n}",
            f"P{(7 * n + 3) % 80}",
            ("is red" if n % 2 else "is blue", "in red" if n % 2 else "in blue"),
        )
        for n in range(80)
    ]
    vocabulary = Vocabulary.of([text for pair in pairs for text in pair.captions])
    module, _ = training(["is red", "is blue"])
    module.judge = fit_listener(pairs, items, vocabulary)
    module.items["val"] = items
    module.val_pairs = pairs
    logged, informative = {}, []
    monkeypatch.setattr(module, "log", logged.__setitem__)
    for said in ("is red", "is blue"):
        module._captions = [(n, said) for n in range(1, 80, 2)]  # these targets are red
        module.on_validation_epoch_end()
        informative.append(logged["val_P"])
    assert informative[0] > 65 and informative[1] < 35
