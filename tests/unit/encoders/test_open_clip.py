"""A tiny random model of open_clip, saved as the hub's are."""

import json

import numpy as np
import pytest
import torch
from PIL import Image

from fashioniq import encoders
from fashioniq.files import UserError

open_clip = pytest.importorskip("open_clip", reason="no open_clip: pip install open_clip_torch")

TEXTS = ["a red dress", "a long blue one"]
SIZES = {
    "embed_dim": 8,
    "vision_cfg": {"image_size": 32, "layers": 1, "width": 64, "patch_size": 16},
    "text_cfg": {"context_length": 16, "vocab_size": 49408, "width": 16, "heads": 2, "layers": 1},
}
MEAN = {"mean": [0.5] * 3, "std": [0.5] * 3}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "open_clip_config.json").write_text(json.dumps({"model_cfg": SIZES, "preprocess_cfg": MEAN}))
    torch.manual_seed(0)
    torch.save(open_clip.CLIP(**SIZES).state_dict(), tmp_path / "open_clip_pytorch_model.bin")
    return tmp_path


@torch.no_grad()
def test_vectors_are_those_of_the_models_own_functions(folder):
    encoder = encoders.load(str(folder))
    model, transform = open_clip.create_model_from_pretrained(f"local-dir:{folder}")
    tokens = open_clip.get_tokenizer(f"local-dir:{folder}")(TEXTS)
    drawn = np.random.default_rng(0).integers(0, 255, (2, 50, 40, 3), dtype=np.uint8)
    pictures = [Image.fromarray(pixels) for pixels in drawn]
    pixels = torch.stack([transform(picture) for picture in pictures])
    assert torch.allclose(encoder.texts(TEXTS), model.eval().encode_text(tokens, normalize=True), atol=1e-5)
    assert torch.allclose(encoder.images(pictures), model.encode_image(pixels, normalize=True), atol=1e-5)
    assert (encoder.size, encoder.identity.image_size, encoder.identity.encoder) == (8, 32, folder.name)
    assert encoder.images([]).shape == encoder.texts([]).shape == (0, 8)


def test_truncated_weights_are_refused(folder):
    weights = folder / "open_clip_pytorch_model.bin"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(UserError, match="cannot load the encoder"):
        encoders.load(str(folder))
