"""Pipelines of diffusers, on tiny ones with random weights."""

import json
import shutil
import sys
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from fashioniq.cli import parse
from fashioniq.files import UserError
from fashioniq.generators import diffusers_pipeline
from fashioniq.generators.by_name import generator_by_name
from fashioniq.generators.diffusers_pipeline import DiffusersPipeline, Settings
from fashioniq.generators.pictures import PictureRequest

pytest.importorskip("diffusers", reason="the extra generate is not installed")
SD, XL, SD3, FLUX = (
    "StableDiffusionPipeline",
    "StableDiffusionXLPipeline",
    "StableDiffusion3Pipeline",
    "FluxPipeline",
)
QUICK = {"steps": 2, "size": 32}
LONG = "a red dress and something much longer than this"


@pytest.fixture(scope="module")
def load(pipeline_folder):
    """Load the tiny pipeline of a class with few steps, and other settings; each once. Not to be changed."""

    @lru_cache
    def load(kind, **settings):
        return DiffusersPipeline(str(pipeline_folder(kind)), settings=Settings(**{**QUICK, **settings}))

    return load


@pytest.fixture
def own(load):
    """Stable Diffusion, loaded for this test alone."""
    return load.__wrapped__(SD)


@pytest.fixture
def copied(pipeline_folder, tmp_path):
    """Copy the folder of the tiny pipeline of a class."""
    return lambda kind: shutil.copytree(pipeline_folder(kind), tmp_path / kind)


def pixels(generated):
    return [np.asarray(one.picture).tolist() for one in generated]


@pytest.mark.parametrize("kind", [SD, XL, SD3, FLUX])
def test_a_picture_depends_on_its_prompt_and_seed_and_not_on_the_batch(load, kind):
    generator = load(kind)
    requests = [PictureRequest("red dress", 1), PictureRequest("blue", 1), PictureRequest("red dress", 2)]
    together = generator.generate(requests)
    assert [(one.status, one.seed, one.sent, one.reason) for one in together] == [
        ("ok", seed, prompt, "") for prompt, seed in requests
    ]
    first, second, third = pixels(together)
    assert first != second and first != third
    alone = [one for request in reversed(requests) for one in generator.generate([request])]
    assert pixels(alone) == [third, second, first]
    assert all(one.picture.size == (32, 32) and one.seconds > 0 for one in together)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (SD, {"steps": 50, "guidance": 7.5, "size": 16, "tokens": None}),
        (XL, {"steps": 4, "guidance": 0.0, "size": 16, "tokens": None}),  # Turbo
        (SD3, {"steps": 28, "guidance": 3.5, "size": 16, "tokens": 256}),
        (FLUX, {"steps": 4, "guidance": 0.0, "size": 256, "tokens": 256}),  # schnell
    ],
)
def test_settings_that_are_not_given_are_the_usual_ones_of_the_model(pipeline_folder, kind, expected):
    identity = DiffusersPipeline(str(pipeline_folder(kind))).identity
    assert {key: identity[key] for key in expected} == expected
    assert identity["pipeline"] == kind and identity["dtype"] == "float32" and identity["model"] == kind


def test_undistilled_models_take_more_steps_and_guidance(copied):
    folder = copied(XL)
    (config := folder / "scheduler" / "scheduler_config.json").write_text(
        config.read_text().replace('"trailing"', '"leading"')
    )
    settings = DiffusersPipeline(str(folder)).settings
    assert (settings.steps, settings.guidance) == (50, 5.0)


@pytest.mark.parametrize(
    ("kind", "settings", "sent"),
    [
        (SD, {}, "a red dress a"),  # 10 letters between the marks of begin and end
        (XL, {}, "a red dress a"),
        (SD3, {}, LONG),
        (FLUX, {"tokens": 20}, "a red dress and so"),  # 19 letters and spaces, and the mark of the end
    ],
)
def test_the_prompt_sent_ends_where_the_last_tokenizer_cuts_it(load, kind, settings, sent):
    (one,) = load(kind, **settings).generate([PictureRequest(LONG, 0)])
    assert one.status == "ok" and LONG.startswith(one.sent)
    assert one.sent == sent


def test_text_after_the_cut_changes_nothing(load):
    generator = load(SD)
    (one,) = generator.generate([PictureRequest("red dress at home", 0)])
    assert one.sent == "red dress at"
    assert pixels([one]) == pixels(generator.generate([PictureRequest(one.sent, 0)]))


def test_half_a_character_in_a_prompt_becomes_a_question_mark(load):
    (one,) = load(SD).generate([PictureRequest("red \ud83d", 0)])
    assert one.status == "ok" and one.sent == "red ?"


def test_a_picture_flagged_by_the_safety_checker_is_blocked(own):
    own._pipeline.safety_checker.concept_embeds_weights.data.fill_(-2.0)  # everything is close to it
    (one,) = own.generate([PictureRequest("red", 0)])
    assert (one.picture, one.status) == (None, "blocked") and "safety checker" in one.reason


@pytest.mark.parametrize("bias", [float("nan"), -100.0])
def test_values_that_are_not_finite_and_dark_pictures_are_black(own, bias):
    own._pipeline.vae.decoder.conv_out.bias.data.fill_(bias)
    (one,) = own.generate([PictureRequest("red", 0)])
    assert (one.picture, one.status) == (None, "black") and one.reason


def test_another_size_is_reported_with_the_picture(load):
    (one,) = load(FLUX, size=30).generate([PictureRequest("red", 0)])
    assert one.status == "wrong size" and one.picture.size == (28, 28)
    assert one.reason == "expected 30×30 pixels, found 28×28"


def test_an_impossible_setting_ends_at_the_first_picture(load):
    with pytest.raises(UserError, match=r"cannot generate pictures .*divisible by 8.*change its settings"):
        load(SD, size=33).generate([PictureRequest("red", 0)])


def test_a_failure_after_the_first_picture_is_reported_for_its_picture(load, monkeypatch):
    generator = load(SD)
    unet, failures = generator._pipeline.unet.forward, iter([False, False, False, True])

    def forward(*arguments, **options):
        if next(failures, False):
            raise RuntimeError("out of memory")
        return unet(*arguments, **options)

    monkeypatch.setattr(generator._pipeline.unet, "forward", forward)
    found = generator.generate([PictureRequest("red", seed) for seed in range(3)])
    assert [one.status for one in found] == ["ok", "error", "ok"]
    assert found[1].reason == "out of memory" and found[1].picture is None


def test_a_decoder_that_overflows_in_float16_is_computed_in_float32(load):
    generator, seen = load(XL, dtype="float16"), []
    generator._pipeline.vae.decoder.register_forward_pre_hook(lambda _, values: seen.append(values[0].dtype))
    (one,) = generator.generate([PictureRequest("red dress", 0)])
    assert one.status == "ok" and [str(dtype) for dtype in seen] == ["torch.float32"]
    assert generator.identity["dtype"] == "float16"


def test_the_identity_names_all_that_pictures_depend_on(load):
    same = load(SD).identity
    assert json.loads(json.dumps(same)) == same
    assert same["backend"] == "diffusers" and same["scheduler"] == "PNDMScheduler"
    for other in ({"steps": 3, "size": 16}, {"guidance": 5.0}, {"dtype": "bfloat16"}):
        identity = load(SD, **other).identity
        assert {key for key in same if identity[key] != same[key]} == set(other)


def test_other_files_are_another_revision(pipeline_folder, copied):
    folder = copied(SD)
    before = diffusers_pipeline._fingerprint(pipeline_folder(SD))
    (folder / "README.md").write_text("about")
    assert diffusers_pipeline._fingerprint(folder) == before
    for file in (
        "model_index.json",
        "scheduler/scheduler_config.json",
        "unet/config.json",
        "tokenizer/tokenizer.json",
    ):
        text = (folder / file).read_text()
        (folder / file).write_text(text + "\n")
        assert diffusers_pipeline._fingerprint(folder) != before, file
        (folder / file).write_text(text)
    weights = folder / "vae" / "diffusion_pytorch_model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    assert diffusers_pipeline._fingerprint(folder) != before


def test_the_revision_of_a_model_of_the_hub_is_its_commit(pipeline_folder, tmp_path, monkeypatch):
    from diffusers import DiffusionPipeline

    snapshot = shutil.copytree(pipeline_folder(XL), tmp_path / "snapshots" / "0a1b2c")
    monkeypatch.setattr(DiffusionPipeline, "download", lambda name, use_safetensors: str(snapshot))
    monkeypatch.setattr(diffusers_pipeline, "use_cache_if_offline", lambda: None)
    identity = DiffusersPipeline("some/model", settings=Settings(**QUICK)).identity
    assert (identity["model"], identity["revision"]) == ("some/model", "0a1b2c")


def test_a_name_of_the_hub_without_network_is_told_in_one_line(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(UserError, match=r"cannot load the pipeline some/model \(.*give a folder") as caught:
        DiffusersPipeline("some/model")
    assert "\n" not in str(caught.value)


def test_without_the_library_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "diffusers", None)
    with pytest.raises(UserError, match=r"pip install 'fashioniq\[generate\]'"):
        DiffusersPipeline("some/model")


def empty(folder):
    shutil.rmtree(folder)
    folder.mkdir()


def no_json(folder):
    (folder / "model_index.json").write_text("{")


def unknown_class(folder):
    (folder / "model_index.json").write_text('{"_class_name": "NoSuchPipeline"}')


def cut_weights(folder):
    path = folder / "unet" / "diffusion_pytorch_model.safetensors"
    path.write_bytes(path.read_bytes()[:1000])


def pickled_weights(folder):
    path = folder / "unet" / "diffusion_pytorch_model.safetensors"
    path.rename(path.with_suffix(".bin"))


def own_code(folder):
    index = json.loads((folder / "model_index.json").read_text())
    (folder / "model_index.json").write_text(json.dumps({**index, "_class_name": ["pipeline", "Own"]}))
    marker = str(folder / "ran")
    (folder / "pipeline.py").write_text(
        f"open({marker!r}, 'w')\nfrom diffusers import StableDiffusionPipeline\nclass Own(StableDiffusionPipeline): pass\n"
    )


@pytest.mark.parametrize("damage", [empty, no_json, unknown_class, cut_weights, pickled_weights, own_code])
def test_a_folder_that_cannot_be_loaded_is_told_in_one_line(copied, damage):
    folder = Path(copied(SD))
    damage(folder)
    with pytest.raises(UserError, match="cannot load the pipeline") as caught:
        DiffusersPipeline(str(folder))
    assert "\n" not in str(caught.value) and not (folder / "ran").exists()


def test_a_pipeline_without_prompts_is_refused(tmp_path):
    import diffusers

    unet = diffusers.UNet2DModel(
        sample_size=8, block_out_channels=(8,), norm_num_groups=4, layers_per_block=1,
        down_block_types=("DownBlock2D",), up_block_types=("UpBlock2D",),
    )  # fmt: skip
    diffusers.DDPMPipeline(unet, diffusers.DDPMScheduler()).save_pretrained(tmp_path)
    with pytest.raises(UserError, match="does not generate pictures from texts"):
        DiffusersPipeline(str(tmp_path))


def test_options_of_a_pipeline_follow_its_name(pipeline_folder):
    folder = pipeline_folder("StableDiffusionPipeline")
    arguments = [
        "--system",
        "genir",
        "--category",
        "dresses",
        "--encoder",
        "e",
        "--generator",
        f"diffusers:{folder}",
    ]
    given = ["--generator-options.steps", "5", "--generator-options.guidance", "2.5"]
    settings = parse("eval-dialogs", [*arguments, *given, "--generator-options.dtype", "float32"])
    made = generator_by_name(settings.generator, options=settings.generator_options)
    assert (made.settings.steps, made.settings.guidance, made.settings.dtype) == (5, 2.5, "float32")
    assert made.identity["steps"] == 5
    assert generator_by_name(parse("eval-dialogs", arguments).generator).settings.steps == 50
    with pytest.raises(UserError, match="found no pipeline"):
        generator_by_name("diffusers")
