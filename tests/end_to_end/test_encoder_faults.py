"""What is wrong with an encoder is said in one line, and nothing is left half-written: every family, every fault."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from fashioniq.encoders.timm import create_encoder
from fashioniq.locks import exclusive

pytest.importorskip("transformers", reason="no transformers: pip install '.[chat]'")
HALF = {
    "clip": "text_projection",
    "siglip": "vision_model.head",
    "blip": "vision_proj",
    "blip2": "text_projection",
    "sentence": "encoder",
    "open_clip": "text_projection",
    "beit3": "language_head",
    "timm": "blocks.1",
}
NETWORK = {"encoder": "test_efficientnet", "image_size": 32, "workers": 0}


def wrong_kind(folder):
    (folder / "config.json").write_text(json.dumps({"model_type": "gpt2"}))


def no_tokenizer_or_pictures(folder):
    for path in [
        *folder.glob("*token*"),
        *folder.glob("vocab*"),
        *folder.glob("merges*"),
        *folder.glob("preproc*"),
    ]:
        path.unlink()


def file_of(folder):
    """The file of the weights."""
    (path,) = folder.glob("*.safetensors")
    return path


def no_weights(folder):
    file_of(folder).unlink()


def truncated(folder):
    path = file_of(folder)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def changed(change):
    def fault(folder):
        weights = load_file(file_of(folder))
        save_file(change(weights, folder.name), file_of(folder), {"format": "pt"})

    return fault


def named(weights, family):
    return [name for name in weights if HALF[family] in name and weights[name].is_floating_point()]


@changed
def missing_half(weights, family):
    return {name: tensor for name, tensor in weights.items() if name not in named(weights, family)}


@changed
def not_a_number(weights, family):
    return weights | {named(weights, family)[0]: weights[named(weights, family)[0]] * float("nan")}


@changed
def other_size(weights, family):
    name = next(name for name in named(weights, family) if weights[name].ndim > 1)
    return weights | {name: torch.cat([weights[name], weights[name]])}


@pytest.fixture
def extract(refused, sample, tmp_path):
    """Try to fill a store; nothing of it may be left."""

    def extract(**options):
        store = tmp_path / "out" / "store"
        line = refused(
            "extract-features", **{"data": sample, "category": "dresses", "features": store} | options
        )
        assert not store.parent.exists()
        return line

    return extract


@pytest.mark.parametrize("family", ["clip", "siglip", "blip", "blip2", "sentence"])
@pytest.mark.parametrize(
    "fault",
    [wrong_kind, no_tokenizer_or_pictures, no_weights, truncated, missing_half, not_a_number, other_size],
)
def test_a_damaged_model_fills_no_store(family, fault, request, extract, tmp_path):
    folder = shutil.copytree(request.getfixturevalue(f"tiny_{family}"), tmp_path / family)
    fault(folder)
    assert family in extract(encoder=folder)


def no_sizes(folder):
    (folder / "open_clip_config.json").write_text("{}")


@pytest.mark.parametrize("fault", [no_sizes, no_weights, truncated, missing_half, not_a_number, other_size])
def test_a_damaged_model_of_open_clip_fills_no_store(fault, extract, tiny_open_clip, tmp_path):
    folder = shutil.copytree(tiny_open_clip, tmp_path / "open_clip")
    fault(folder)
    assert "open_clip" in extract(encoder=folder)


def no_words(folder):
    (folder / "beit3.spm").unlink()


@pytest.mark.parametrize("fault", [no_words, no_weights, truncated, missing_half, not_a_number, other_size])
def test_a_damaged_beit3_fills_no_store(fault, extract, tiny_beit3, tmp_path):
    folder = shutil.copytree(tiny_beit3, tmp_path / "beit3")
    fault(folder)
    assert "beit3" in extract(encoder=folder)


@pytest.mark.parametrize("fault", [no_weights, truncated, missing_half, not_a_number, other_size])
def test_damaged_weights_of_a_network_fill_no_store(fault, extract, tmp_path):
    folder = tmp_path / "timm"
    folder.mkdir()
    weights = {
        name: tensor.clone() for name, tensor in create_encoder("test_efficientnet").state_dict().items()
    }
    save_file(weights, folder / "model.safetensors")
    fault(folder)
    assert "model.safetensors" in extract(**NETWORK, weights=folder / "model.safetensors")


@pytest.mark.parametrize("name", ["nobody/nothing", "no_such_network", "json"])
def test_a_name_that_is_nothing_fills_no_store(name, extract, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert name in extract(encoder=name)


def test_without_a_network_no_weights_are_downloaded(extract, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert "could not be downloaded" in extract(**NETWORK)


def test_without_a_server_there_are_no_embeddings(extract, monkeypatch):
    monkeypatch.setattr("fashioniq.http.PAUSE", 0.0)
    assert "no embeddings from http://127.0.0.1:9/v1" in extract(encoder="http://127.0.0.1:9/v1#m")
    assert "expected ADDRESS#MODEL" in extract(encoder="http://127.0.0.1:9/v1")


@pytest.mark.parametrize("encoder", ["clip", "open_clip", "sentence", "metadata", "test_efficientnet"])
def test_one_process_fills_a_store(encoder, request, refused, sample, tmp_path):
    name = request.getfixturevalue(f"tiny_{encoder}") if encoder in HALF else encoder
    options = NETWORK | {"weights": "none"} if encoder == "test_efficientnet" else {"encoder": name}
    with exclusive(tmp_path / "store"):
        line = refused(
            "extract-features", data=sample, category="dresses", features=tmp_path / "store", **options
        )
    assert "another process is writing to" in line and not list((tmp_path / "store").glob("*"))


@pytest.mark.parametrize("command", ["search", "chat", "serve", "eval-requests"])
@pytest.mark.parametrize("fault", [wrong_kind, truncated, not_a_number])
def test_a_search_without_training_is_not_begun(command, fault, refused, sample, tiny_clip, tmp_path):
    folder = shutil.copytree(tiny_clip, tmp_path / "clip")
    fault(folder)
    data = shutil.copytree(sample, tmp_path / "data", ignore=shutil.ignore_patterns("features"))
    more = {"search": {"text": "red"}, "serve": {"port": 0}, "eval-requests": {"out": tmp_path / "out"}}
    assert "clip" in refused(command, encoder=folder, data=data, category="dresses", **more.get(command, {}))
    assert (
        not (data / "zero-shot").exists()
        and not (data / "features").exists()
        and not (tmp_path / "out").exists()
    )
