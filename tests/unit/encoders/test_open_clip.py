"""A tiny random model of open_clip, saved as the hub's are."""

import numpy as np
import pytest
import torch
from PIL import Image

from fashioniq import encoders

open_clip = pytest.importorskip("open_clip", reason="no open_clip: pip install open_clip_torch")

TEXTS = ["a red dress", "a long blue one"]


@torch.no_grad()
def test_vectors_are_those_of_the_models_own_functions(tiny_open_clip):
    folder = tiny_open_clip
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
