"""CLIP and BLIP, tiny and random, saved to disk and loaded the way real weights are."""

import re

import numpy as np
import pytest
import torch
from PIL import Image

transformers = pytest.importorskip("transformers", reason="no transformers: pip install '.[chat]'")

from fashioniq.data.dialogues import each, last_round  # noqa: E402
from fashioniq.loop.messages import Message, Turn  # noqa: E402
from fashioniq.models.text import RecordedQueries, TextRetriever, blip_names, load_text_encoder  # noqa: E402

TEXTS = ["a red dress", "a red dress, is it long? yes", "blue"]


def images(count, size=(50, 40)):
    drawn = np.random.default_rng(0).integers(0, 255, (count, *size, 3), dtype=np.uint8)
    return [Image.fromarray(pixels) for pixels in drawn]


def cosines(texts, pictures):
    return texts @ pictures.T


@pytest.fixture(params=["clip", "blip"])
def encoder(request, tiny_clip, tiny_blip):
    return load_text_encoder(str(tiny_clip if request.param == "clip" else tiny_blip))


def test_texts_and_images_are_vectors_of_unit_length_in_one_space(encoder):
    texts, pictures = encoder.encode(TEXTS), encoder.encode_images(images(2))
    assert (
        texts.shape == (3, encoder.size)
        and pictures.shape == (2, encoder.size)
        and texts.dtype == torch.float32
    )
    for vectors in (texts, pictures):
        assert torch.allclose(vectors.norm(dim=1), torch.ones(len(vectors)))
    assert not torch.allclose(texts[0], texts[1], atol=1e-3)


def test_a_text_is_the_same_alone_and_among_longer_ones(encoder):
    assert torch.allclose(encoder.encode(TEXTS)[:1], encoder.encode(TEXTS[:1]), atol=1e-5)


def test_what_is_too_long_is_cut_and_counted(encoder):
    long = "red " * 40
    lengths = encoder.lengths(["red", long])
    assert lengths[0] <= encoder.limit < lengths[1]
    assert torch.allclose(encoder.encode([long]), encoder.encode([long + "blue"]))


def test_nothing_gives_no_vectors(encoder):
    assert encoder.encode([]).shape == encoder.encode_images([]).shape == (0, encoder.size)


def test_vectors_are_those_of_the_models_own_scores(tiny_clip, tiny_blip):
    for folder, model_class in (
        (tiny_clip, transformers.CLIPModel),
        (tiny_blip, transformers.BlipForImageTextRetrieval),
    ):
        encoder, model = load_text_encoder(str(folder)), model_class.from_pretrained(folder).eval()
        inputs = transformers.AutoTokenizer.from_pretrained(folder)(TEXTS, padding=True, return_tensors="pt")
        inputs = {name: inputs[name] for name in ("input_ids", "attention_mask")}
        processor = transformers.AutoImageProcessor.from_pretrained(folder, backend="pil")
        inputs["pixel_values"] = processor(images(2), return_tensors="pt")["pixel_values"]
        with torch.no_grad():
            if model_class is transformers.CLIPModel:
                expected = model(**inputs).logits_per_text / model.logit_scale.exp()
            else:
                inputs["pixel_values"] = inputs["pixel_values"][[0, 1, 1]]
                expected = model(**inputs, use_itm_head=False).itm_score.T[:, :2]
        assert torch.allclose(
            cosines(encoder.encode(TEXTS), encoder.encode_images(images(2))), expected, atol=1e-5
        )


def test_other_images_weights_have_another_fingerprint(tiny_blip, tmp_path):
    encoder = load_text_encoder(str(tiny_blip))
    changed = {
        name: tensor + (0.5 if name == "text_proj.bias" else 0)
        for name, tensor in encoder._model.state_dict().items()
    }
    same_images = load_text_encoder(str(tiny_blip), changed)
    assert same_images.fingerprint() == encoder.fingerprint() and not torch.allclose(
        same_images.encode(TEXTS), encoder.encode(TEXTS)
    )
    changed["vision_proj.bias"] = changed["vision_proj.bias"] + 0.5
    assert load_text_encoder(str(tiny_blip), changed).fingerprint() != encoder.fingerprint()


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


def test_weights_of_blips_own_code_and_of_another_image_size_are_put_in(tiny_blip, tiny_blip_of_size):
    trained = tiny_blip_of_size(48).state_dict()
    theirs = {of_blips_own_code(name): tensor for name, tensor in trained.items()} | {
        "text_encoder.embeddings.position_ids": torch.arange(24)
    }
    assert not any(name.startswith("vision_model") for name in theirs)
    assert blip_names(theirs).keys() >= trained.keys()
    encoder = load_text_encoder(str(tiny_blip), theirs)
    assert encoder.image_size == 48 and encoder.encode_images(images(1)).isfinite().all()
    for name, tensor in encoder._model.state_dict().items():
        assert torch.equal(tensor, trained[name]), name


def test_weights_that_lack_text_or_do_not_fit_are_refused(tiny_blip, tiny_blip_of_size):
    own = dict(tiny_blip_of_size(32).state_dict())
    with pytest.raises(
        ValueError, match=r"1 tensors of the text encoder are missing, such as text_proj.bias"
    ):
        load_text_encoder(
            str(tiny_blip), {name: tensor for name, tensor in own.items() if name != "text_proj.bias"}
        )
    with pytest.raises(ValueError, match=r"text_proj.bias: expected shape \(8,\), found \(9,\)"):
        load_text_encoder(str(tiny_blip), own | {"text_proj.bias": torch.zeros(9)})


class Spelling:
    """Encodes a text as how often the letters a to z come."""

    size, limit = 26, 1000

    def encode(self, texts):
        return torch.tensor(
            [[text.count(letter) for letter in "abcdefghijklmnopqrstuvwxyz"] for text in texts],
            dtype=torch.float32,
        )

    def lengths(self, texts):
        return [len(text) for text in texts]


def turn(*replies, questions=None):
    return Turn(Message(texts=questions), Message(texts=replies))


@pytest.mark.parametrize(("last_only", "texts"), [(False, ["x, q? y", "z, y"]), (True, ["q? y", "y"])])
def test_a_retriever_of_texts_encodes_all_rounds_or_the_last_alone(last_only, texts):
    retriever = TextRetriever(Spelling(), each(last_round if last_only else ", ".join))
    first, state = retriever.step(retriever.start(2), turn("x", "z"))
    second, _ = retriever.step(state, turn("y", "y", questions=["q?", ""]))
    assert torch.equal(first, Spelling().encode(["x", "z"])) and torch.equal(second, Spelling().encode(texts))


def test_recorded_queries_come_in_the_order_of_the_turns():
    query_BTD = torch.randn(2, 3, 4)
    retriever = RecordedQueries(query_BTD)
    state, queries = retriever.start(2), []
    for _ in range(3):
        query_BD, state = retriever.step(state, turn("x", "y"))
        queries.append(query_BD)
    assert torch.equal(torch.stack(queries, 1), query_BTD)
