"""A tiny random BEiT-3 with the names of the authors' checkpoints."""

import re
import shutil

import numpy as np
import pytest
import timm
import torch
import torch.nn.functional as F
from PIL import Image
from safetensors.torch import load_file, save_file
from timm.models.vision_transformer import checkpoint_filter_fn

from fashioniq import encoders
from fashioniq.files import UserError
from tests.conftest import beit3_weights

TEXT = "a red dress is it long"


@pytest.fixture
def folder(tiny_beit3, tmp_path):
    """A copy to be changed."""
    return shutil.copytree(tiny_beit3, tmp_path / "model")


@pytest.fixture
def weights(tiny_beit3):
    return load_file(tiny_beit3 / "beit3_tiny.safetensors")


def photos(count):
    drawn = np.random.default_rng(0).integers(0, 255, (count, 50, 40, 3), dtype=np.uint8)
    return [Image.fromarray(pixels) for pixels in drawn]


@torch.no_grad()
def test_a_picture_is_the_projected_first_token_of_timms_own_network(tiny_beit3, weights):
    network = timm.create_model(
        "beit3_base_patch16_224", img_size=32, embed_dim=128, depth=2, num_heads=2, mlp_ratio=48 / 128, num_classes=0,
        global_pool="token",
    )  # fmt: skip
    named = checkpoint_filter_fn(dict(weights), network)
    named |= {f"norm.{kind}": weights[f"beit3.encoder.layer_norm.A.{kind}"] for kind in ("weight", "bias")}
    network.load_state_dict({name: named[name] for name in network.state_dict()})
    pixels = np.stack([np.asarray(one.resize((32, 32), Image.Resampling.BICUBIC)) for one in photos(2)])
    first_BD = network.eval()((torch.from_numpy(pixels).permute(0, 3, 1, 2) / 255 - 0.5) / 0.5)
    expected = F.normalize(first_BD @ weights["vision_head.weight"].T, dim=-1)
    encoder = encoders.load(str(tiny_beit3))
    assert torch.allclose(encoder.images(photos(2)), expected, atol=1e-5)
    assert (encoder.size, encoder.identity.image_size, encoder.identity.encoder) == (128, 32, "beit3")


@torch.no_grad()
def test_a_text_is_the_projected_first_token_of_the_formula(tiny_beit3, weights):
    def of(name):
        return [weights[f"beit3.encoder.{name}.{kind}"] for kind in ("weight", "bias")]

    def norm(x, name):
        return F.layer_norm(x, x.shape[-1:], *of(name), eps=1e-5)

    ids = encoders.load(str(tiny_beit3)).tokens([TEXT])["input_ids"][0]
    assert (ids[0], ids[-1], len(ids)) == (0, 2, 8) and min(ids[1:-1]) > 3  # <s>, six known words, </s>
    x = weights["beit3.text_embed.weight"][ids] + weights["beit3.encoder.embed_positions.B.weight"][2:10]
    for layer in ("layers.0.", "layers.1."):
        within = norm(x, f"{layer}self_attn_layer_norm.B")
        q, k, v = (
            F.linear(within, *of(f"{layer}self_attn.{part}_proj.B")).unflatten(1, (2, 64)).movedim(1, 0) for part in "qkv"
        )  # fmt: skip
        mixed = ((q @ k.mT / 8).softmax(-1) @ v).movedim(0, 1).flatten(1)
        mixed = norm(mixed, f"{layer}self_attn.inner_attn_ln.B")
        x = x + F.linear(mixed, *of(f"{layer}self_attn.out_proj.B"))
        hidden = F.gelu(F.linear(norm(x, f"{layer}final_layer_norm.B"), *of(f"{layer}ffn.B.fc1")))
        x = x + F.linear(norm(hidden, f"{layer}ffn.B.ffn_layernorm"), *of(f"{layer}ffn.B.fc2"))
    expected = F.normalize(weights["language_head.weight"] @ norm(x, "layer_norm.B")[0], dim=0)
    found = encoders.load(str(tiny_beit3)).texts(["red " * 20, TEXT])[1]  # padded
    assert torch.allclose(found, expected, atol=1e-5)


def test_texts_have_at_most_64_tokens_and_checkpoints_may_be_of_torch(folder):
    (folder / "beit3_tiny.safetensors").unlink()
    torch.save({"model": beit3_weights(places=1024)}, folder / "beit3_tiny.pth")
    encoder = encoders.load(str(folder))
    assert encoder.limit == 64 and encoder.tokens(["red " * 100])["input_ids"][0, -1] == 2
    assert torch.equal(encoder.texts(["red " * 62]), encoder.texts(["red " * 62 + "blue"]))
    assert not torch.allclose(encoder.texts(["red " * 61]), encoder.texts(["red " * 61 + "blue"]), atol=1e-3)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda own: own.pop("language_head.weight"), "has no 'language_head.weight'; give a checkpoint fine-tuned for retrieval"),
        (lambda own: own.pop("vision_head.weight"), "has no 'vision_head.weight'"),
        (lambda own: own.pop("beit3.vision_embed.proj.weight"), "has no 'embed.proj.weight'"),
        (lambda own: own.pop("beit3.encoder.layers.1.self_attn.k_proj.B.bias"), "has no 'beit3.encoder.layers.1.self_attn.k_proj.B.bias'"),
        (lambda own: own.pop("beit3.encoder.layers.1.ffn.B.fc2.bias"), "Missing key.*blocks.1.mlp.fc2.bias"),
        (lambda own: own.update({"vision_head.weight": torch.ones(256, 128)}), "size mismatch for head.weight"),
        (lambda own: own.update({"beit3.encoder.embed_positions.A.weight": torch.ones(9, 128)}), "size mismatch for positions"),
        (lambda own: own.update({"beit3.vision_embed.proj.weight": torch.ones(128, 3, 8, 16)}), "size mismatch for embed.proj.weight"),
        (lambda own: own.update({"beit3.text_embed.weight": torch.ones(9, 128)}), "expected a beit3.spm of at most 9 tokens, found"),
        (lambda own: own.update({"language_head.weight": torch.ones(128, 128) * float("nan")}), "NaN or infinite"),
    ],
)  # fmt: skip
def test_a_checkpoint_that_does_not_fit_is_refused(change, told, folder, weights):
    change(weights)
    save_file(weights, folder / "beit3_tiny.safetensors")
    with pytest.raises(UserError, match=rf"{re.escape(str(folder))}.*{told}") as raised:
        encoders.load(str(folder))
    assert "\n" not in str(raised.value)


def test_files_that_are_missing_or_damaged_are_named(folder):
    words = (folder / "beit3.spm").read_bytes()
    for damaged in (b"", b"no sentencepiece model", words[:-3]):
        (folder / "beit3.spm").write_bytes(damaged)
        with pytest.raises(UserError, match="cannot load the encoder"):
            encoders.load(str(folder))
    (folder / "beit3.spm").unlink()
    with pytest.raises(
        UserError, match=r"\(.pth or .safetensors\) and beit3.spm, found beit3_tiny.safetensors"
    ):
        encoders.load(str(folder))
    (folder / "beit3_tiny.safetensors").rename(folder / "beit3.spm")
    with pytest.raises(UserError, match=r"expected one checkpoint .*, found beit3.spm"):
        encoders.load(str(folder))
    with pytest.raises(UserError, match=r"--weights other.pth cannot replace those of"):
        encoders.load(str(folder), weights="other.pth")
