import copy

import pytest
import timm
import torch
from efficientnet_pytorch import EfficientNet
from torch import nn

from fashioniq.encoders.timm import Encoding
from fashioniq.models.attributes import AttributePredictor, top_attributes
from fashioniq.models.encoder import (
    convert_efficientnet_pytorch,
    create_encoder,
    encoder_mean_std,
    encoder_size,
    normalise,
    prepare_inference,
)


@pytest.fixture(scope="module")
def released_weights():
    """Those of an EfficientNet as the released code has it, with statistics that let its outputs vary."""
    torch.manual_seed(0)
    model = EfficientNet.from_name("efficientnet-b0")
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(std=0.1)
            module.running_var.uniform_(0.5, 1.5)
            module.weight.data.uniform_(0.8, 1.5)
            module.bias.data.normal_(std=0.1)
    return model.state_dict()


@torch.no_grad()
@pytest.mark.parametrize("size", [65, 97])
def test_converted_weights_give_the_released_features(released_weights, size):
    released = EfficientNet.from_name("efficientnet-b0", image_size=size).eval()
    released.load_state_dict(released_weights)
    encoder = create_encoder("efficientnet-b0").eval()
    encoder.load_state_dict(convert_efficientnet_pytorch(released_weights, encoder))
    images_BCHW = torch.randn(2, 3, size, size)
    expected_BD = released.extract_features(images_BCHW).mean((2, 3))
    assert expected_BD.abs().mean() > 0.01
    assert (encoder(images_BCHW) - expected_BD).abs().max() < 1e-4 * expected_BD.abs().max()


@torch.inference_mode()
def test_prepared_for_inference_it_gives_the_same_features(released_weights):
    encoder = create_encoder("efficientnet-b0").eval()
    encoder.load_state_dict(convert_efficientnet_pytorch(released_weights, encoder))
    prepared = prepare_inference(copy.deepcopy(encoder))
    assert not any(isinstance(module, nn.BatchNorm2d) for module in prepared.modules())
    images_BCHW = torch.randn(2, 3, 65, 65).to(memory_format=torch.channels_last)
    expected_BD = encoder(images_BCHW)
    assert (prepared(images_BCHW) - expected_BD).abs().max() < 1e-4 * expected_BD.abs().max()


def shirts(count, size):
    """Pictures of rectangles on white in their colour, striped or plain, uint8; and what they are, as 12
    answers of yes or no.
    """
    colours_BC, striped_B = torch.randint(0, 230, (count, 3)), torch.randint(2, (count,))
    rows_H = torch.arange(size) % 8 < 4
    images_BCHW = torch.full((count, 3, size, size), 255)
    cloth_BCH = torch.where(
        rows_H & (striped_B[:, None, None] > 0), colours_BC[:, :, None] // 2, colours_BC[:, :, None]
    )
    images_BCHW[:, :, 4:-4, size // 4 : -size // 4] = cloth_BCH[:, :, 4:-4, None]
    bright_BA = (colours_BC[:, :, None] > torch.tensor([60, 120, 180])).flatten(1)
    yellow_B, pink_B = bright_BA[:, 1] & bright_BA[:, 4], bright_BA[:, 1] & bright_BA[:, 7]
    return images_BCHW.to(torch.uint8), torch.cat(
        [bright_BA, torch.stack([striped_B > 0, yellow_B, pink_B], 1)], 1
    ).float()


def test_the_fast_path_gives_features_and_attributes_of_float32():
    """With the bounds that the project sets itself, of a small network that has learnt something: random ones
    double any difference.
    """
    torch.manual_seed(0)
    encoder = create_encoder("test_efficientnet")
    model = AttributePredictor(encoder, encoder_size(encoder), 12)
    prepare, optimizer = normalise(*encoder_mean_std(encoder)), torch.optim.AdamW(model.parameters(), 3e-3)
    for _ in range(40):
        images_BCHW, labels_BA = shirts(24, 40)
        optimizer.zero_grad()
        nn.functional.binary_cross_entropy_with_logits(model(prepare(images_BCHW))[1], labels_BA).backward()
        optimizer.step()
    images_BCHW, _ = shirts(60, 40)
    with torch.no_grad():
        expected_BD, logits_BA = model.eval()(prepare(images_BCHW))
    features_BD, attributes_BK = Encoding(model, encoder, torch.device("cpu"), bfloat16=True)(
        list(images_BCHW.numpy())
    )
    assert torch.cosine_similarity(features_BD.float(), expected_BD).min() >= 0.999
    assert (attributes_BK == top_attributes(logits_BA)).float().mean() >= 0.95


@torch.inference_mode()
def test_features_are_rounded_only_where_they_were_computed_in_bfloat16():
    network, images = (
        create_encoder("resnet18").eval(),
        list(torch.randint(256, (2, 3, 64, 64), dtype=torch.uint8).numpy()),
    )
    made = {half: Encoding(network, network, torch.device("cpu"), half)(images)[0] for half in (False, True)}
    none = {half: Encoding(network, network, torch.device("cpu"), half)([])[0] for half in (False, True)}
    assert [made[half].dtype for half in (False, True)] == [torch.float32, torch.float16]
    assert [none[half].dtype for half in (False, True)] == [torch.float32, torch.float16]
    assert not torch.equal(made[False], made[False].half().float())


@torch.inference_mode()
def test_a_network_of_another_kind_is_left_as_it_is():
    encoder = create_encoder("resnet18").eval()
    expected_BD = encoder(images_BCHW := torch.randn(1, 3, 64, 64))
    assert torch.equal(prepare_inference(encoder)(images_BCHW), expected_BD)


def test_weights_of_a_lite_network_are_found_by_their_names():
    """Its blocks neither squeeze nor change in number with the size, so that efficientnet_pytorch does not have it."""
    encoder = create_encoder("efficientnet-lite0")
    norm = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
    parts = [("_depthwise_conv", "_bn1"), ("_project_conv", "_bn2")]
    names = []
    for block in range(16):
        for conv, bn in [("_expand_conv", "_bn0"), *parts] if block else parts:
            names += [f"_blocks.{block}.{conv}.weight", *(f"_blocks.{block}.{bn}.{one}" for one in norm)]
    names = ["_conv_stem.weight", *(f"_bn0.{one}" for one in norm), *names, "_conv_head.weight"]
    names += [f"_bn1.{one}" for one in norm]
    tensors = {name: torch.rand_like(own.float()) for name, own in encoder.state_dict().items()}
    released = dict(zip(names, tensors.values(), strict=True)) | {"_fc.weight": torch.zeros(1000, 1280)}
    converted = convert_efficientnet_pytorch(released, encoder)
    assert converted.keys() == tensors.keys()
    assert all(converted[name] is tensors[name] for name in tensors)


def test_the_order_of_the_file_does_not_matter(released_weights):
    encoder = create_encoder("efficientnet-b0")
    converted = convert_efficientnet_pytorch(dict(reversed(released_weights.items())), encoder)
    expected = convert_efficientnet_pytorch(released_weights, encoder)
    assert converted.keys() == expected.keys() and all(
        torch.equal(converted[name], expected[name]) for name in expected
    )


def test_weights_of_another_size_are_refused(released_weights):
    with pytest.raises(ValueError, match=r"_conv|_bn|_blocks|tensors"):
        convert_efficientnet_pytorch(released_weights, create_encoder("efficientnet-b1"))
    with pytest.raises(ValueError, match=r"_conv|_bn|_blocks|tensors"):
        convert_efficientnet_pytorch(
            EfficientNet.from_name("efficientnet-b1").state_dict(), create_encoder("efficientnet-b0")
        )
    wider = {
        name: tensor.repeat(2, *[1] * (tensor.ndim - 1)) if tensor.ndim else tensor
        for name, tensor in released_weights.items()
    }
    with pytest.raises(ValueError, match=r"_conv_stem.weight"):
        convert_efficientnet_pytorch(wider, create_encoder("efficientnet-b0"))


@pytest.mark.parametrize("name", ["efficientnet-b0", "resnet18"])
def test_the_size_is_that_of_the_features(name):
    encoder = create_encoder(name).eval()
    with torch.no_grad():
        assert encoder(torch.randn(1, 3, 64, 64)).shape == (1, encoder_size(encoder))


def test_b7_has_the_2560_features_of_the_paper():
    with torch.device("meta"):
        assert encoder_size(create_encoder("efficientnet-b7")) == 2560


def test_the_papers_name_is_the_network_with_its_padding():
    assert create_encoder("efficientnet-b0").pretrained_cfg["architecture"] == "tf_efficientnet_b0"


def test_mean_and_deviation_are_those_of_the_weights():
    encoder = create_encoder("efficientnet-b0")
    config = timm.get_pretrained_cfg("tf_efficientnet_b0")
    assert encoder_mean_std(encoder) == (tuple(config.mean), tuple(config.std))


def test_normalised_pixels_have_the_mean_and_deviation_of_the_weights():
    pixels = normalise((0.5, 0.25, 0.0), (0.5, 0.25, 1.0))(
        torch.tensor([255, 0, 255], dtype=torch.uint8).view(1, 3, 1, 1)
    )
    torch.testing.assert_close(pixels.flatten(), torch.tensor([1.0, -1.0, 1.0]))


def test_an_unknown_network_is_refused_by_name():
    with pytest.raises(ValueError, match=r"efficientnet-b99|b99"):
        create_encoder("efficientnet-b99")


def test_the_predictor_gives_features_and_a_score_for_each_word():
    encoder = nn.Sequential(nn.Flatten(), nn.Linear(12, 5))
    model = AttributePredictor(encoder, 5, 3)
    images_BCHW = torch.randn(2, 3, 2, 2)
    features_BD, logits_BA = model(images_BCHW)
    assert torch.equal(features_BD, encoder(images_BCHW)) and torch.equal(logits_BA, model.head(features_BD))


def test_top_attributes_are_the_most_confident_counted_from_1():
    logits_BA = torch.tensor([[0.1, 3.0, -2.0, 1.0], [5.0, 4.0, 6.0, -1.0]])
    assert top_attributes(logits_BA, 2).tolist() == [[2, 4], [3, 1]]
    assert top_attributes(logits_BA, 6).tolist() == [[2, 4, 1, 3, 0, 0], [3, 1, 2, 4, 0, 0]]
