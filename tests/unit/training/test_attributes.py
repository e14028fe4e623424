import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image
from torch import nn

from fashioniq.data.images import UnreadableImage
from fashioniq.data.labelled import NO, UNKNOWN, YES, LabeledPhotos
from fashioniq.data.photos import Photo
from fashioniq.models.attributes import AttributePredictor, top_attributes
from fashioniq.training.attributes import (
    AttributeTraining,
    attribute_loss,
    augment,
    chance_logits,
    score,
)
from fashioniq.training.labelled_images import LabelledImages

TYPES = ["texture", "texture", "style"]


def labels_of(shares, count=200, seed=0):
    """Labels of each word at its prevalence, int8."""
    return (np.random.default_rng(seed).random((count, len(shares))) < shares).astype(np.int8)


def module_of(head_only=False, labels_NA=None):
    torch.manual_seed(0)
    encoder = nn.Sequential(
        nn.Conv2d(3, 6, 3, stride=2), nn.BatchNorm2d(6), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()
    )
    model = AttributePredictor(encoder, 6, 3)
    model.answer_always(chance_logits(np.eye(3, dtype=np.int8) if labels_NA is None else labels_NA))
    mean_std = ((0.5,) * 3, (0.5,) * 3)
    return AttributeTraining(model, types=TYPES, mean_std=mean_std, head_only=head_only, learning_rate=0.05)


def colours(seed=1):
    """Pictures of one colour channel each, and which it is."""
    torch.manual_seed(seed)
    labels_BA = torch.eye(3, dtype=torch.int8).repeat(8, 1)
    return [(labels_BA.view(24, 3, 1, 1) * 200 + 30 * torch.rand(24, 3, 16, 16)).to(torch.uint8), labels_BA]


def trained(module, batch, steps=40):
    optimizer = torch.optim.AdamW(module.model.parameters(), lr=0.05)
    module.train()
    for _ in range(steps):
        loss = module.training_step(batch, 0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return module


def validated(module, batch, monkeypatch):
    logged = {}
    monkeypatch.setattr(module, "log", lambda name, value, **_: logged.__setitem__(name, float(value)))
    module.eval()
    module.on_validation_epoch_start()
    with torch.no_grad():
        module.validation_step(batch, 0)
    module.on_validation_epoch_end()
    return logged


# the pictures


def test_unreadable_pictures_are_left_out_with_their_labels_and_told(tmp_path):
    for name in ("a", "c"):
        Image.new("RGB", (30, 20), "red").save(tmp_path / f"{name}.png")
    (tmp_path / "b.png").write_text("<html>")
    photos = [Photo(tmp_path / f"{name}.png") for name in "abcd"]
    images = LabelledImages(photos, np.arange(8, dtype=np.int8).reshape(4, 2), 16)
    assert len(images) == 2 and sorted(name[-5:] for name in images.failures) == ["b.png", "d.png"]
    picture, labels_A = images[1]
    assert picture.shape == (3, 16, 16) and picture.dtype == torch.uint8 and labels_A.tolist() == [4, 5]


@pytest.mark.parametrize(("bad", "told"), [(3, ""), (4, "  left out: 1 more\n")])
def test_three_unreadable_pictures_are_named_and_others_counted(bad, told, tmp_path, capsys):
    photos = [Photo(tmp_path / f"{number}.png") for number in range(bad + 1)]
    Image.new("RGB", (30, 20), "red").save(photos[bad].path)
    labels_NA = np.zeros((bad + 1, 1), np.int8)
    LabelledImages.of("train", LabeledPhotos(photos, labels_NA, bad + 1), 16, 0, "labels")
    named = [f"  left out: {tmp_path / str(number)}.png: no such file\n" for number in range(3)]
    counted = f"train: 1 of {bad + 1} have labels and a readable picture\n"
    assert capsys.readouterr().out == counted + "".join(named) + told


def test_photos_that_fit_into_memory_are_decoded_once_and_equal_those_decoded_again(tmp_path, monkeypatch):
    for name in ("a", "b"):
        Image.effect_noise((30, 20), 80).save(tmp_path / f"{name}.png")
    (tmp_path / "c.png").write_text("<html>")
    photos = [
        Photo(tmp_path / f"{name}.png", box)
        for name, box in (("a", (2, 2, 25, 18)), ("c", None), ("b", (90, 90, 99, 99)))
    ]
    labels_NA = np.arange(6, dtype=np.int8).reshape(3, 2)
    in_memory = LabelledImages(photos, labels_NA, 16)
    monkeypatch.setattr("fashioniq.training.labelled_images.KEPT", 3 * 3 * 16 * 16 - 1)
    again = LabelledImages(photos, labels_NA, 16)
    assert (
        again.squares_N3SS is None
        and list(again.failures) == list(in_memory.failures)
        and again.odd_boxes == in_memory.odd_boxes == 1
    )
    for (picture, labels_A), (other, other_A) in zip(in_memory, again, strict=True):
        assert torch.equal(picture, other) and torch.equal(labels_A, other_A)
    for name in ("a", "b"):
        (tmp_path / f"{name}.png").unlink()
    assert len([picture for picture, _ in in_memory]) == 2
    with pytest.raises(UnreadableImage, match="no such file"):
        again[0]


@pytest.mark.parametrize("workers", [0, 1])
def test_pictures_are_cropped_to_their_boxes_and_odd_boxes_are_counted(tmp_path, workers):
    image = Image.new("RGB", (40, 40), "white")
    image.paste("red", (10, 10, 30, 30))
    image.save(tmp_path / "a.png")
    photos = [Photo(tmp_path / "a.png", box) for box in ((10, 10, 30, 30), (90, 90, 99, 99), None)]
    images = LabelledImages(photos, np.zeros((3, 1), np.int8), 16, workers)
    assert images.odd_boxes == 1 and not images.failures
    whites = [int((images[place][0] == 255).all(0).sum()) for place in range(3)]
    assert whites[0] == 0 and whites[1] == whites[2] > 100


def test_augmented_pictures_are_moved_and_mirrored_but_not_recoloured():
    torch.manual_seed(0)
    left_and_right = torch.zeros(64, 3, 16, 16)
    left_and_right[..., 8:] = 1.0
    made = augment(left_and_right)
    assert made.shape == left_and_right.shape and made.min() >= 0 and made.max() <= 1
    mirrored = made[:, 0, 8, 0] > 0.5
    assert 10 < mirrored.sum() < 54
    plain = torch.rand(8, 3, 1, 1).expand(8, 3, 16, 16)
    torch.testing.assert_close(augment(plain), plain)


def test_augmented_pictures_are_shifted_by_at_most_a_fortieth_of_their_width():
    torch.manual_seed(0)
    dots = torch.zeros(200, 1, 80, 80)
    dots[..., 38:42, 38:42] = 1.0
    made, at = augment(dots)[:, 0], torch.arange(80) - 39.5
    for side in (1, 2):
        shift_B = (made.sum(side) * at).sum(1) / made.sum((1, 2))
        assert -2.4 < shift_B.min() < -1.5 and 1.5 < shift_B.max() < 2.4


def test_augmented_pictures_are_scaled_by_at_most_a_tenth():
    torch.manual_seed(0)
    squares = torch.zeros(200, 1, 80, 80)
    squares[..., 30:50, 30:50] = 1.0
    made = augment(squares)[:, 0]
    for side_B in (made[:, 40].sum(1), made[:, :, 40].sum(1)):
        assert 20 / 1.12 < side_B.min() < 19 and 21 < side_B.max() < 20 / 0.88


# the loss


def test_the_first_loss_is_the_entropy_of_the_labels():
    labels_NA = labels_of([0.5, 0.1, 0.02])
    module = module_of(labels_NA=labels_NA)
    images = torch.randint(0, 256, (len(labels_NA), 3, 16, 16), dtype=torch.uint8)
    share = labels_NA.mean(0)
    entropy = -(share * np.log(share) + (1 - share) * np.log(1 - share)).mean()
    assert module.training_step([images, torch.from_numpy(labels_NA)], 0).item() == pytest.approx(
        entropy, abs=1e-5
    )


def test_no_other_answer_to_all_pictures_is_better_than_the_first():
    labels_NA = labels_of([0.5, 0.1, 0.02])
    logits_A, labels_BA = chance_logits(labels_NA).requires_grad_(), torch.from_numpy(labels_NA)
    attribute_loss(logits_A.expand(len(labels_NA), 3), labels_BA).backward()
    assert logits_A.grad.abs().max() < 1e-6


def test_unknown_labels_have_no_part_in_the_loss():
    torch.manual_seed(0)
    labels_BA = torch.tensor([[YES, UNKNOWN, NO], [UNKNOWN, NO, YES]], dtype=torch.int8)
    logits_BA = torch.randn(2, 3)
    other_BA = torch.where(labels_BA == UNKNOWN, 99.0, logits_BA)
    assert attribute_loss(logits_BA, labels_BA) == attribute_loss(other_BA, labels_BA)
    assert attribute_loss(logits_BA, torch.full((2, 3), UNKNOWN, dtype=torch.int8)) == 0
    logits_BA.requires_grad_()
    attribute_loss(logits_BA, labels_BA).backward()
    assert ((logits_BA.grad == 0) == (labels_BA == UNKNOWN)).all()


def test_the_loss_is_the_mean_over_the_known_labels():
    labels_BA = torch.tensor([[YES, UNKNOWN, UNKNOWN], [UNKNOWN, UNKNOWN, NO]], dtype=torch.int8)
    assert attribute_loss(torch.zeros(2, 3), labels_BA).item() == pytest.approx(np.log(2))


def test_a_word_that_all_or_none_carry_has_a_finite_start():
    chance_A = chance_logits(np.array([[YES, NO, UNKNOWN]] * 5, np.int8))
    assert chance_A.isfinite().all()
    assert attribute_loss(chance_A.expand(2, 3), torch.tensor([[1, 0, 1]] * 2)).isfinite()


# learning


@pytest.mark.parametrize("head_only", [True, False])
def test_the_second_stage_trains_the_last_layer_alone(head_only):
    module = module_of(head_only).train()
    with torch.no_grad():
        module.model.head.weight.normal_()  # as a first stage leaves it
    before = {name: tensor.clone() for name, tensor in module.model.state_dict().items()}
    optimizer = torch.optim.SGD(
        [weight for weight in module.model.parameters() if weight.requires_grad], lr=0.1
    )
    module.training_step(colours(), 0).backward()
    optimizer.step()
    changed = {
        name.split(".")[0]
        for name, tensor in module.model.state_dict().items()
        if not torch.equal(tensor, before[name])
    }
    assert changed == (
        {"head"} if head_only else {"head", "encoder"}
    )  # running statistics are among the encoder's tensors


def test_a_last_batch_of_one_picture_is_learnt_from_without_its_statistics():
    module = module_of().train()
    before = module.model.encoder[1].running_mean.clone()
    module.training_step([part[:1] for part in colours()], 0).backward()
    assert (
        torch.equal(module.model.encoder[1].running_mean, before)
        and module.model.head.bias.grad.abs().sum() > 0
    )
    module.training_step(colours(), 0)
    assert not torch.equal(module.model.encoder[1].running_mean, before)


def test_known_words_are_taken_over_and_new_ones_keep_their_start():
    model, first = AttributePredictor(nn.Identity(), 4, 3), nn.Linear(4, 2)
    model.answer_always(torch.tensor([-1.0, -2.0, -3.0]))
    model.take_words(first, [2, 0], [0, 1])
    assert torch.equal(model.head.weight, torch.stack([first.weight[1], torch.zeros(4), first.weight[0]]))
    assert model.head.bias.tolist() == [first.bias[1], -2.0, first.bias[0]]


def test_the_predictor_learns_colours(monkeypatch):
    module = trained(module_of(), colours())
    logged = validated(module, colours(), monkeypatch)
    assert logged["val_loss"] < 0.5
    assert {name: value for name, value in logged.items() if name != "val_loss"} == pytest.approx(
        {"val_mAP": 100, "val_mAP_texture": 100, "val_mAP_style": 100, "val_recall@8": 100}
    )
    assert (
        top_attributes(torch.from_numpy(score(module, [colours()], torch.device("cpu"))), 1)
        .flatten()
        .tolist()
        == [1, 2, 3] * 8
    )


def test_shuffled_labels_teach_nothing_of_other_pictures(monkeypatch):
    images_BCHW, _ = colours()
    torch.manual_seed(0)
    shuffled_BA = F.one_hot(torch.randint(0, 3, (24,)), 3).to(torch.int8)
    logged = validated(trained(module_of(), [images_BCHW, shuffled_BA]), colours(seed=2), monkeypatch)
    assert logged["val_mAP"] < 70  # a third is chance; the true labels give 100


def test_scores_come_in_the_order_of_the_pictures_whatever_the_batches():
    module = module_of()
    with torch.no_grad():
        module.model.head.weight.normal_()
    images_BCHW, labels_BA = colours()
    parts = list(zip(images_BCHW.split(5), labels_BA.split(5), strict=True))
    whole_NA = score(module, [(images_BCHW, labels_BA)], torch.device("cpu"))
    assert whole_NA.shape == (24, 3) and score(module, parts, torch.device("cpu")) == pytest.approx(
        whole_NA, abs=1e-5
    )


@pytest.mark.parametrize(
    ("pictures", "head_only", "trains"), [(1, False, False), (2, False, True), (2, True, False)]
)
def test_statistics_are_those_of_a_batch_of_several_pictures(pictures, head_only, trains):
    module = module_of(head_only).train()
    module.training_step(
        [
            torch.zeros(pictures, 3, 32, 32, dtype=torch.uint8),
            torch.ones(pictures, len(TYPES), dtype=torch.int8),
        ],
        0,
    )
    assert module.model.encoder.training == trains
