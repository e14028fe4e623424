"""CLIP, SigLIP, BLIP, BLIP-2 and a sentence encoder, tiny and random, saved to disk and loaded as real ones are."""

import json
import re
import shutil

import numpy as np
import pytest
import torch
from PIL import Image

from fashioniq import encoders
from fashioniq.files import UserError

transformers = pytest.importorskip("transformers", reason="no transformers: pip install '.[chat]'")

from safetensors.torch import load_file, save_file  # noqa: E402

from fashioniq.encoders.transformers import blip_names  # noqa: E402

TEXTS = ["a red dress", "a red dress, is it long? yes", "blue"]
FAMILIES = ["clip", "siglip", "blip", "blip2", "beit3"]


def images(count, size=(50, 40)):
    drawn = np.random.default_rng(0).integers(0, 255, (count, *size, 3), dtype=np.uint8)
    return [Image.fromarray(pixels) for pixels in drawn]


@pytest.fixture(params=FAMILIES)
def encoder(request):
    return encoders.load(str(request.getfixturevalue(f"tiny_{request.param}")))


def test_texts_and_images_are_vectors_of_unit_length_in_one_space(encoder):
    for vectors, count in ((encoder.texts(TEXTS), 3), (encoder.images(images(2)), 2)):
        assert vectors.shape == (count, encoder.size) == (count, encoder.identity.dimensions)
        assert vectors.dtype == torch.float32
        assert torch.allclose(vectors.norm(dim=1), torch.ones(count))
    assert not torch.allclose(*encoder.texts(TEXTS[:2]), atol=1e-3)


@pytest.mark.parametrize("family", [*FAMILIES, "sentence"])
def test_a_text_is_the_same_alone_and_among_longer_ones(family, request):
    encoder = encoders.load(str(request.getfixturevalue(f"tiny_{family}")))
    assert torch.allclose(encoder.texts(TEXTS)[:1], encoder.texts(TEXTS[:1]), atol=1e-5)


@pytest.mark.parametrize("family", [*FAMILIES, "sentence"])
def test_what_is_too_long_is_cut_and_counted(family, request):
    encoder = encoders.load(str(request.getfixturevalue(f"tiny_{family}")))
    long = "red " * 40
    lengths = encoder.lengths(["red", long])
    assert lengths[0] <= encoder.limit < lengths[1]
    assert torch.allclose(encoder.texts([long]), encoder.texts([long + "blue"]))


def test_nothing_gives_no_vectors(encoder):
    assert encoder.texts([]).shape == encoder.images([]).shape == (0, encoder.size)


def given(folder, texts=TEXTS, **options):
    """The inputs of a model, as its own tokenizer and processor make them."""
    tokens = transformers.AutoTokenizer.from_pretrained(folder)(
        texts, **({"padding": True} | options), return_tensors="pt"
    )
    processor = transformers.AutoImageProcessor.from_pretrained(folder, backend="pil")
    pixels = processor(images(3), return_tensors="pt")["pixel_values"]
    return {name: tokens[name] for name in ("input_ids", "attention_mask")}, {"pixel_values": pixels}


def scores(encoder):
    return encoder.texts(TEXTS) @ encoder.images(images(3)).T


@torch.no_grad()
@pytest.mark.parametrize("family", ["clip", "siglip"])
def test_vectors_are_those_of_the_models_own_scores(family, request):
    folder = request.getfixturevalue(f"tiny_{family}")
    model = transformers.AutoModel.from_pretrained(folder).eval()
    tokens, pictures = given(
        folder, **({"padding": "max_length", "max_length": 24} if family == "siglip" else {})
    )
    found = model(**tokens, **pictures)
    expected = (found.logits_per_text - getattr(model, "logit_bias", 0)) / model.logit_scale.exp()
    assert torch.allclose(scores(encoders.load(str(folder))), expected, atol=1e-5)


@torch.no_grad()
def test_vectors_of_blip_are_those_of_its_own_scores(tiny_blip):
    model = transformers.BlipForImageTextRetrieval.from_pretrained(tiny_blip).eval()
    tokens, pictures = given(tiny_blip)
    expected = model(**tokens, **pictures, use_itm_head=False).itm_score.T
    assert torch.allclose(scores(encoders.load(str(tiny_blip))), expected, atol=1e-5)


@torch.no_grad()
def test_a_vector_of_blip2_is_the_mean_of_its_queries(tiny_blip2):
    model = transformers.Blip2ForImageTextRetrieval.from_pretrained(tiny_blip2).eval()
    tokens, pictures = given(tiny_blip2)
    found, encoder = (
        model(**tokens, **pictures, use_image_text_matching_head=False),
        encoders.load(str(tiny_blip2)),
    )
    expected = torch.nn.functional.normalize(found.image_embeds.mean(1), dim=-1)
    assert torch.allclose(encoder.images(images(3)), expected, atol=1e-5)
    assert torch.allclose(encoder.texts(TEXTS), found.text_embeds, atol=1e-5)


@torch.no_grad()
def test_token_features_are_those_of_the_layer_before_the_last(tiny_clip):
    model = transformers.AutoModel.from_pretrained(tiny_clip).eval()
    hidden = model.vision_model(**given(tiny_clip)[1], output_hidden_states=True).hidden_states
    vectors, patches = encoders.load(str(tiny_clip)).images_and_patches(images(3))
    assert torch.allclose(patches, hidden[-2], atol=1e-5) and vectors.shape == (3, 8)


@torch.no_grad()
def test_a_sentence_is_the_mean_of_its_tokens(tiny_sentence):
    model = transformers.AutoModel.from_pretrained(tiny_sentence).eval()
    tokens = given_texts(tiny_sentence)
    hidden, mask = model(**tokens).last_hidden_state, tokens["attention_mask"].unsqueeze(-1)
    expected = torch.nn.functional.normalize((hidden * mask).sum(1) / mask.sum(1), dim=-1)
    encoder = encoders.load(str(tiny_sentence))
    assert torch.allclose(encoder.texts(TEXTS), expected, atol=1e-5) and encoder.limit == 16
    pooling = tiny_sentence / "1_Pooling/config.json"
    content = pooling.read_text()
    try:
        pooling.write_text(json.dumps({"pooling_mode_cls_token": True}))
        first = torch.nn.functional.normalize(hidden[:, 0], dim=-1)
        assert torch.allclose(encoders.load(str(tiny_sentence)).texts(TEXTS), first, atol=1e-5)
        pooling.write_text(json.dumps({"pooling_mode_max_tokens": True}))
        with pytest.raises(UserError, match="its pooling pooling_mode_max_tokens is not supported"):
            encoders.load(str(tiny_sentence))
    finally:
        pooling.write_text(content)


def given_texts(folder):
    tokens = transformers.AutoTokenizer.from_pretrained(folder)(TEXTS, padding=True, return_tensors="pt")
    return {name: tokens[name] for name in ("input_ids", "attention_mask")}


def test_a_half_that_is_missing_is_named(tiny_sentence):
    encoder = encoders.load(str(tiny_sentence))
    with pytest.raises(UserError, match="the encoder bert has no picture half"):
        encoder.images(images(1))


def copied(folder, to):
    return shutil.copytree(folder, to / "model")


def damaged(family, request, tmp_path, change):
    """A copy of a model with changed weights."""
    folder = copied(request.getfixturevalue(f"tiny_{family}"), tmp_path)
    weights = load_file(folder / "model.safetensors")
    save_file(change(weights), folder / "model.safetensors", {"format": "pt"})
    return folder


LACKING = {"clip": "text_projection", "siglip": "vision_model.head", "blip": "vision_proj", "blip2": "text_projection", "sentence": "encoder"}  # fmt: skip


@pytest.mark.parametrize("family", LACKING)
def test_a_model_without_a_half_is_refused(family, request, tmp_path):
    def change(weights):
        return {name: tensor for name, tensor in weights.items() if not name.startswith(LACKING[family])}

    folder = damaged(family, request, tmp_path, change)
    with pytest.raises(UserError, match=rf"cannot load .*tensors are missing.*such as {LACKING[family]}"):
        encoders.load(str(folder))


@pytest.mark.parametrize("family", LACKING)
def test_weights_that_are_no_numbers_are_refused(family, request, tmp_path):
    def change(weights):
        name = next(name for name in weights if LACKING[family] in name)
        return weights | {name: weights[name] * float("nan")}

    with pytest.raises(UserError, match=r"cannot load .* NaN or infinite"):
        encoders.load(str(damaged(family, request, tmp_path, change)))


@pytest.mark.parametrize("family", LACKING)
def test_truncated_weights_are_refused(family, request, tmp_path):
    folder = copied(request.getfixturevalue(f"tiny_{family}"), tmp_path)
    content = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(content[: len(content) // 2])
    with pytest.raises(UserError, match="cannot load ") as raised:
        encoders.load(str(folder))
    assert "\n" not in str(raised.value)


def test_a_model_of_another_kind_is_refused(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "gpt2"}))
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"expected a model of type clip.*found the type gpt2"):
        encoders.load(str(tmp_path))
    with pytest.raises(UserError, match=r"found no config.json of a"):
        encoders.load(str(tmp_path / "empty"))
    with pytest.raises(UserError, match="has no model"):
        encoders.load("json")


def test_options_of_timm_are_refused(tiny_clip):
    with pytest.raises(UserError, match="--image-size 64 is for timm networks"):
        encoders.load(str(tiny_clip), image_size=64)
    with pytest.raises(UserError, match="--weights none is for timm networks"):
        encoders.load(str(tiny_clip), weights="none")


def test_a_model_that_cannot_be_downloaded_is_refused(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(UserError, match="cannot load the encoder nobody/nothing-at-all"):
        encoders.load("nobody/nothing-at-all")


def test_other_weights_of_the_pictures_have_another_identity(tiny_blip, tmp_path):
    encoder = encoders.load(str(tiny_blip))
    changed = {
        name: tensor + (0.5 if name == "text_proj.bias" else 0)
        for name, tensor in encoder.model.state_dict().items()
    }
    save_file(changed, tmp_path / "text.safetensors")
    same_images = encoders.load(str(tiny_blip), weights=str(tmp_path / "text.safetensors"))
    assert same_images.identity == encoder.identity
    assert not torch.allclose(same_images.texts(TEXTS), encoder.texts(TEXTS))
    changed["vision_proj.bias"] = changed["vision_proj.bias"] + 0.5
    save_file(changed, tmp_path / "both.safetensors")
    other = encoders.load(str(tiny_blip), weights=str(tmp_path / "both.safetensors"))
    assert other.identity.difference(encoder.identity) == "weights"


def of_blips_own_code(name):
    """The name that a tensor of transformers has in BLIP's own code."""
    for ours, theirs in (
        ("vision_model.embeddings.class_embedding", "visual_encoder.cls_token"),
        ("vision_model.embeddings.position_embedding", "visual_encoder.pos_embed"),
        ("vision_model.embeddings.patch_embedding", "visual_encoder.patch_embed.proj"),
        ("vision_model.post_layernorm", "visual_encoder.norm"),
    ):
        name = name.replace(ours, theirs)
    block = re.fullmatch(r"vision_model\.encoder\.layers\.(\d+)\.(.+)", name)
    if block:
        rest = (
            block[2]
            .replace("layer_norm", "norm")
            .replace("self_attn.projection", "attn.proj")
            .replace("self_attn.qkv", "attn.qkv")
        )
        name = f"visual_encoder.blocks.{block[1]}.{rest}"
    return name


def test_weights_of_blips_own_code_and_of_another_image_size_are_loaded(
    tiny_blip, tiny_blip_of_size, tmp_path
):
    trained = tiny_blip_of_size(48).state_dict()
    theirs = {of_blips_own_code(name): tensor for name, tensor in trained.items()} | {
        "text_encoder.embeddings.position_ids": torch.arange(24)
    }
    assert not any(name.startswith("vision_model") for name in theirs)
    assert blip_names(theirs).keys() >= trained.keys()
    torch.save({"model": theirs}, tmp_path / "theirs.pth")
    encoder = encoders.load(str(tiny_blip), weights=str(tmp_path / "theirs.pth"))
    assert encoder.identity.image_size == 48 and encoder.images(images(1)).isfinite().all()
    for name, tensor in encoder.model.state_dict().items():
        assert torch.equal(tensor, trained[name]), name


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda own: own.pop("text_proj.bias"), "1 tensors of the text encoder are missing, such as text_proj.bias"),
        (lambda own: own.update({"text_proj.bias": torch.zeros(9)}), r"text_proj.bias: expected shape \(8,\), found \(9,\)"),
    ],
)  # fmt: skip
def test_weights_that_lack_text_or_do_not_fit_are_refused(
    change, told, tiny_blip, tiny_blip_of_size, tmp_path
):
    own = dict(tiny_blip_of_size(32).state_dict())
    change(own)
    save_file(own, tmp_path / "weights.safetensors")
    with pytest.raises(UserError, match=told):
        encoders.load(str(tiny_blip), weights=str(tmp_path / "weights.safetensors"))
