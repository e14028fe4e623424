"""The Q-Former of a BLIP-2 as the perceiver of a ChatSearcher: from both kinds of files, trained, and in a run."""

import json
import shutil
import sys

import pytest
import torch
from safetensors.torch import load_file, save_file

from fashioniq.data.words import Vocabulary
from fashioniq.files import UserError
from fashioniq.models.chatsearcher import FrozenPictures, Perceiver
from fashioniq.models.configs import ChatSearcherConfig
from fashioniq.runs.checks import described
from fashioniq.runs.trained import load_chatsearcher, new_chatsearcher
from fashioniq.runs.weights import save_model
from fashioniq.training.blip2 import read_qformer

transformers = pytest.importorskip("transformers", reason="the extra chat is not installed")

FEATURES, WIDTH, TOKENS = 20, 24, 3
OF_BERT = {"num_attention_heads": 12, "num_hidden_layers": 12, "cross_attention_frequency": 2}
OTHERS = {"num_attention_heads": 4, "num_hidden_layers": 4, "cross_attention_frequency": 3}
TOKENS_RTF = torch.randn(2, 5, FEATURES, generator=torch.Generator().manual_seed(2))


def blip2_of(**sizes):
    """A BLIP-2 of transformers whose weights are all random, also those that are 0 or 1 at first."""
    small = {"intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    model = transformers.Blip2Model(
        transformers.Blip2Config(
            vision_config={**small, "hidden_size": FEATURES, "image_size": 28, "patch_size": 14},
            qformer_config={"hidden_size": WIDTH, "intermediate_size": 40, "vocab_size": 9, **sizes},
            text_config={**small, "model_type": "opt", "hidden_size": 8, "word_embed_proj_dim": 8, "ffn_dim": 8,
                         "vocab_size": 9, "max_position_embeddings": 9},
            num_query_tokens=TOKENS,
        )
    ).eval()  # fmt: skip
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn(weight.shape, generator=generator), alpha=0.2)
    return model


def made_by(model):
    """What a BLIP-2 makes of the token features of its pictures."""
    queries = model.query_tokens.expand(len(TOKENS_RTF), -1, -1)
    seen = model.vision_model.post_layernorm(TOKENS_RTF)
    return model.qformer(query_embeds=queries, encoder_hidden_states=seen).last_hidden_state


def as_in_lavis(model):
    """The state of LAVIS's model with the same weights, and with a text half."""
    own, theirs = model.state_dict(), {"query_tokens": model.query_tokens.data}
    for kind in ("weight", "bias"):
        theirs[f"ln_vision.{kind}"] = own[f"vision_model.post_layernorm.{kind}"]
        theirs[f"Qformer.bert.embeddings.LayerNorm.{kind}"] = own[f"qformer.layernorm.{kind}"]
    for name, tensor in own.items():
        if name.startswith("qformer.encoder."):
            parts = name.split(".")  # qformer.encoder.layer.N.attention.attention.query.weight
            if parts[5] == "attention":
                parts[5] = "self"
            theirs[".".join(["Qformer", "bert", *parts[1:]])] = tensor
    for layer in range(model.config.qformer_config.num_hidden_layers):
        theirs[f"Qformer.bert.encoder.layer.{layer}.intermediate.dense.weight"] = torch.randn(40, WIDTH)
        theirs[f"Qformer.bert.encoder.layer.{layer}.output.dense.weight"] = torch.randn(WIDTH, 40)
    theirs["Qformer.bert.embeddings.word_embeddings.weight"] = torch.randn(9, WIDTH)
    theirs["Qformer.cls.predictions.bias"] = torch.randn(9)
    return theirs | {"temp": torch.tensor(0.07), "visual_encoder.conv1.weight": torch.randn(2, 3, 1, 1)}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("blip2") / "blip2"
    blip2_of(**OTHERS).save_pretrained(folder)
    return folder


# files


@pytest.mark.parametrize("sizes", [OF_BERT, OTHERS], ids=["of BERT", "others"])
def test_the_q_former_of_a_model_of_transformers_is_that_of_transformers(sizes, tmp_path):
    model = blip2_of(**sizes)
    model.save_pretrained(tmp_path, max_shard_size="20KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    found, qformer = read_qformer(tmp_path, FEATURES, TOKENS)
    assert list(found.values()) == [WIDTH, 40, *sizes.values()]
    made = qformer.eval()(TOKENS_RTF)
    assert made.shape == (2, TOKENS, WIDTH) and (made[0] - made[1]).abs().max() > 0.01
    assert torch.allclose(made, made_by(model), atol=1e-6)


@pytest.mark.parametrize("half", [False, True])
def test_a_checkpoint_of_lavis_has_the_same_q_former(half, tmp_path):
    model = blip2_of(**OF_BERT)
    theirs = as_in_lavis(model.half().float() if half else model)
    theirs = {name: tensor.half() if half else tensor for name, tensor in theirs.items()}
    torch.save({"model": theirs, "epoch": 9}, tmp_path / "blip2.pth")
    _, qformer = read_qformer(tmp_path / "blip2.pth", FEATURES, TOKENS)
    assert torch.allclose(qformer.eval()(TOKENS_RTF), made_by(model), atol=1e-6)


def refused(path, features=FEATURES, tokens=TOKENS):
    with pytest.raises(UserError) as caught:
        read_qformer(path, features, tokens)
    assert "\n" not in str(caught.value) and str(path) in str(caught.value)
    return str(caught.value)


def test_a_q_former_for_other_features_or_with_other_tokens_is_refused(saved):
    assert "is for token features of width 20, those of --features have 1024; give" in refused(saved, 1024)
    assert refused(saved, tokens=32).endswith(
        "makes 3 tokens of a picture, not 32; give --model.image-tokens 3"
    )


@pytest.mark.parametrize(
    "part",
    [
        "query_tokens",
        "vision_model.post_layernorm.bias",
        "qformer.layernorm.weight",
        "qformer.encoder.layer.3.crossattention.attention.key.weight",
        "qformer.encoder.layer.2.intermediate_query.dense.bias",
    ],
)
def test_a_q_former_without_all_its_parts_is_refused(part, saved, tmp_path):
    copy = shutil.copytree(saved, tmp_path / "copy")
    tensors = load_file(copy / "model.safetensors")
    missing = tensors.pop(part)
    save_file(tensors, copy / "model.safetensors")
    name = part.removeprefix("vision_model.")
    assert f"found no whole Q-Former ('{name}'); give a folder of transformers" in refused(copy)
    save_file(tensors | {part: missing[..., :1].clone()}, copy / "model.safetensors")
    assert "found no whole Q-Former (" in refused(copy)


def test_what_is_no_blip2_is_refused(saved, tmp_path):
    (tmp_path / "text.pth").write_text("no tensors")
    assert "cannot read tensors from" in refused(tmp_path / "text.pth")
    save_file({"visual.conv1.weight": torch.ones(2)}, tmp_path / "clip.safetensors")
    assert "found no whole Q-Former ('query_tokens')" in refused(tmp_path / "clip.safetensors")
    shutil.copytree(saved, tmp_path / "copy")
    for damaged, told in (('{"model_type": "clip"}', "'qformer_config'"), ('{"qformer_config": 3}', "'int'"),
                          ('{"qformer_config": {"num_attention_heads": 0}}', "zero"), ("{", "not valid JSON")):  # fmt: skip
        (tmp_path / "copy" / "config.json").write_text(damaged)
        assert told in refused(tmp_path / "copy")


def test_without_transformers_the_error_names_the_extra(saved, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(UserError, match=r"needs the package transformers .*pip install 'fashioniq\[chat\]'"):
        read_qformer(saved, FEATURES, TOKENS)


# in a ChatSearcher

CONFIG = ChatSearcherConfig(
    image_tokens=TOKENS, space=8, width=16, heads=2, hidden=16, layers=1, max_tokens=64
)
WORDS = Vocabulary(["user", "assistant", "red"]).words


def chatsearcher(saved):
    sizes = CONFIG.sizes(features=6) | {"token_features": FEATURES}
    sizes["qformer"], qformer = read_qformer(saved, FEATURES, TOKENS)
    model, tokens = new_chatsearcher(sizes, WORDS, "", half=False, tune="frozen")
    model.perceiver = qformer
    facts = {
        "kind": "chatsearcher", "stage": "captions", "language_model": "", "tuned": "frozen", "sizes": sizes,
        "words": WORDS, "features": {}, "negatives": "batch", "data": {},
    }  # fmt: skip
    return model, tokens, described(facts)


def inputs_of(model, tokens):
    batch = tokens.collate([tokens.caption("red", row, image_first=True) for row in range(2)])
    return model.embed(batch.ids_BL, FrozenPictures(torch.ones(2, 6), TOKENS_RTF))


def test_it_is_trained_beside_a_frozen_language_model_and_a_run_needs_no_blip2_any_more(saved, tmp_path):
    copy = shutil.copytree(saved, tmp_path / "copy")
    model, tokens, about = chatsearcher(copy)
    shutil.rmtree(copy)
    before = {name: weight.clone() for name, weight in model.perceiver.named_parameters()}
    optimizer = torch.optim.SGD([one for one in model.parameters() if one.requires_grad], lr=1.0)
    inputs_of(model.train(), tokens).pow(2).sum().backward()
    optimizer.step()
    same = [name for name, weight in model.perceiver.named_parameters() if weight.equal(before[name])]
    assert not [name for name in same if not name.endswith("key.bias")]  # softmax does not see it
    save_model(tmp_path / "run", model, about)
    again, _, read = load_chatsearcher(tmp_path / "run")
    assert read.sizes == about.sizes and not isinstance(again.perceiver, Perceiver)
    assert torch.equal(inputs_of(again, tokens), inputs_of(model.eval(), tokens))


@pytest.mark.parametrize(
    "damaged",
    ["x", [24], {"width": 24}, {"every": 0}, {"heads": 2.5}, {"heads": "4"}, {"layers": -1}, {"depth": 3}, {"hidden": 8}],
    ids=str,
)  # fmt: skip
def test_damaged_sizes_of_a_q_former_are_a_damaged_run(damaged, saved, tmp_path):
    model, _, about = chatsearcher(saved)
    save_model(tmp_path, model, about)
    content = json.loads((tmp_path / "model.json").read_text())
    whole = content["sizes"]["qformer"]
    partial = not isinstance(damaged, dict) or damaged == {"width": 24}
    content["sizes"]["qformer"] = damaged if partial else whole | damaged
    (tmp_path / "model.json").write_text(json.dumps(content))
    with pytest.raises(UserError, match="is damaged") as caught:
        load_chatsearcher(tmp_path)
    assert "\n" not in str(caught.value)
