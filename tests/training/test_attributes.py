import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from fashioniq.models.attributes import AttributePredictor
from fashioniq.training.attributes import AttributeTraining, LabelledImages, attribute_scores


def module_of(head_only):
    torch.manual_seed(0)
    encoder = nn.Sequential(nn.Conv2d(3, 6, 3, stride=2), nn.BatchNorm2d(6), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return AttributeTraining(AttributePredictor(encoder, 6, 3), (0.5,) * 3, (0.5,) * 3, head_only, 0.05)


def colours():
    """Pictures of one colour channel each, and which it is."""
    torch.manual_seed(1)
    labels_BA = torch.eye(3).repeat(8, 1)
    return [(labels_BA.view(24, 3, 1, 1) * 200 + 30 * torch.rand(24, 3, 16, 16)).to(torch.uint8), labels_BA]


def test_scores_by_hand():
    labels_NA = np.array([[1, 0, 0], [0, 1, 0], [1, 1, 0]], dtype=np.float32)
    scores_NA = np.array([[0.9, 0.8, 0.0], [0.5, 0.7, 0.0], [0.4, 0.1, 0.0]], dtype=np.float32)
    # first word: hits at places 1 and 3, (1 + 2/3) / 2; second: at 2 and 3, (1/2 + 2/3) / 2; the third is nowhere and does not count
    assert attribute_scores(scores_NA, labels_NA, k=1) == pytest.approx({"mAP": 100 * (5 / 6 + 7 / 12) / 2, "recall@1": 100 * 3 / 4})
    assert attribute_scores(scores_NA, labels_NA)["recall@8"] == 100


def test_unreadable_pictures_are_left_out_with_their_labels_and_told(tmp_path):
    for name in ("a", "c"):
        Image.new("RGB", (30, 20), "red").save(tmp_path / f"{name}.png")
    (tmp_path / "b.png").write_text("<html>")
    images = LabelledImages([tmp_path / f"{name}.png" for name in "abcd"], np.arange(8).reshape(4, 2), 16)
    assert len(images) == 2 and sorted(name[-5:] for name in images.failures) == ["b.png", "d.png"]
    picture, labels_A = images[1]
    assert picture.shape == (3, 16, 16) and picture.dtype == torch.uint8 and labels_A.tolist() == [4, 5]


@pytest.mark.parametrize("head_only", [True, False])
def test_the_second_stage_trains_the_last_layer_alone(head_only):
    module = module_of(head_only).train()
    before = {name: tensor.clone() for name, tensor in module.model.state_dict().items()}
    optimizer = torch.optim.SGD([weight for weight in module.model.parameters() if weight.requires_grad], lr=0.1)
    module.training_step(colours(), 0).backward()
    optimizer.step()
    changed = {name.split(".")[0] for name, tensor in module.model.state_dict().items() if not torch.equal(tensor, before[name])}
    assert changed == ({"head"} if head_only else {"head", "encoder"})  # running statistics are among the encoder's tensors


def test_the_predictor_learns_colours():
    module = module_of(False)
    optimizer = torch.optim.AdamW(module.model.parameters(), lr=0.05)
    for _ in range(40):
        loss = module.training_step(colours(), 0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    module.eval()
    logged = {}
    module.log = logged.__setitem__
    module.on_validation_epoch_start()
    with torch.no_grad():
        module.validation_step(colours(), 0)
    module.on_validation_epoch_end()
    assert logged == pytest.approx({"val_mAP": 100, "val_recall@8": 100})
