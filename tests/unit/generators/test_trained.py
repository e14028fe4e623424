"""Generator of a run of train-generator, with random weights."""

import json

import numpy as np
import pytest
import torch

from fashioniq.files import UserError
from fashioniq.generators.pictures import PictureRequest
from fashioniq.generators.trained import RunGenerator
from fashioniq.models.denoiser import Denoiser
from fashioniq.runs.checks import described
from fashioniq.runs.weights import save_model

SIZES = {"image_size": 16, "patch": 4, "width": 16, "heads": 2, "layers": 1}


@pytest.fixture
def run(tmp_path):
    torch.manual_seed(0)
    sizes = {"vocabulary": 3, **SIZES}
    model = Denoiser(**sizes)
    for weights in model.parameters():
        torch.nn.init.normal_(weights, std=0.3)
    facts = {
        "kind": "generator",
        "category": "dresses",
        "sizes": sizes,
        "words": ["red", "navy blue", "belt"],
        "types": ["texture", "texture", "part"],
    }
    save_model(tmp_path, model, described(facts))
    return tmp_path


def pixels(one):
    return np.asarray(one.picture).astype(int)


def test_a_picture_does_not_depend_on_its_batch_and_a_seed_gives_it_again(run, monkeypatch):
    requests = [
        PictureRequest(text, seed)
        for seed, text in enumerate(["is red", "navy with a belt", "anything", "is red"])
    ]
    together, again = RunGenerator(run).generate(requests), RunGenerator(run).generate(requests)
    assert all(np.array_equal(pixels(one), pixels(two)) for one, two in zip(together, again, strict=True))
    monkeypatch.setattr("fashioniq.generators.trained.BATCH", 3)
    for others in (
        RunGenerator(run).generate(requests),
        [RunGenerator(run).generate([one])[0] for one in requests],
    ):
        assert all(
            abs(pixels(one) - pixels(two)).max() <= 1 for one, two in zip(together, others, strict=True)
        )
    assert abs(pixels(together[0]) - pixels(together[3])).max() > 1  # another seed
    assert together[0].picture.size == (16, 16) and together[0].picture.mode == "RGB"


def test_what_was_used_of_a_prompt_is_told(run):
    one, other = RunGenerator(run).generate(
        [PictureRequest("a navy dress, not red, with a belt", 5), PictureRequest("shiny", 6)]
    )
    assert (one.status, one.seed, one.sent) == ("ok", 5, "navy blue, belt") and other.sent == ""
    assert one.seconds > 0 and RunGenerator(run).generate([]) == []


def test_identity_holds_the_weights_and_all_settings(run):
    identity = RunGenerator(run).identity
    about = json.loads((run / "model.json").read_text())
    expected = {"backend": "trained", "checksum": about["checksum"], "steps": 20, "guidance": 1.5, "size": 16}
    assert expected.items() <= identity.items()


def test_a_picture_of_nothing_is_black_and_not_returned(run, monkeypatch):
    monkeypatch.setattr(
        "fashioniq.generators.trained.sample",
        lambda *_, **__: torch.full((1, 3, 16, 16), 7, dtype=torch.uint8),
    )
    (one,) = RunGenerator(run).generate([PictureRequest("is red", 0)])
    assert (one.picture, one.status) == (None, "black") and one.reason


@pytest.mark.parametrize("sizes", [{"width": 0}, {"patch": 0}, {"layers": None}, {"vocabulary": 7}])
def test_damaged_sizes_are_told(run, sizes):
    about = json.loads((run / "model.json").read_text())
    (run / "model.json").write_text(json.dumps({**about, "sizes": {**about["sizes"], **sizes}}))
    with pytest.raises(UserError, match="damaged"):
        RunGenerator(run)


def test_another_kind_of_run_is_refused(run):
    about = json.loads((run / "model.json").read_text())
    (run / "model.json").write_text(json.dumps({**about, "kind": "captioner"}))
    with pytest.raises(UserError, match=r"expected a generator, found a captioner .* train-generator"):
        RunGenerator(run)


def test_changed_weights_are_refused(run):
    path = run / "denoiser/diffusion_pytorch_model.safetensors"
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(UserError, match=r"its checksum is not that of model.json; train the generator again"):
        RunGenerator(run)


def test_a_run_of_an_earlier_version_is_loaded_from_its_other_file(run):
    """It has the weights twice, with its checksum that of weights.safetensors."""
    (expected,) = RunGenerator(run).generate([PictureRequest("is red", 0)])
    path = run / "denoiser/diffusion_pytorch_model.safetensors"
    (run / "weights.safetensors").write_bytes(path.read_bytes())
    path.write_bytes(b"the same weights in other bytes")
    (made,) = RunGenerator(run).generate([PictureRequest("is red", 0)])
    assert np.array_equal(pixels(made), pixels(expected))
