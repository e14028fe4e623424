"""Tiny random models, saved to disk and loaded as real ones are."""

import pytest
import torch
from PIL import Image

from fashioniq.data.images import jpeg_of
from fashioniq.files import UserError
from fashioniq.llm import local
from fashioniq.llm.completer import Sampling
from fashioniq.llm.local import LocalLanguageModel, VisionLanguageModel, VisualQuestionAnswerer

transformers = pytest.importorskip("transformers", reason="the extra chat is not installed")


def test_a_language_model_goes_on_with_each_prompt_whatever_stands_beside_it(causal):
    model = LocalLanguageModel(str(causal))
    prompts = ["question : what color is it ?", "a red dress", "yes"]
    together = model.complete(prompts, 6)
    assert together == [model.complete([prompt], 6)[0] for prompt in prompts] == model.complete(prompts, 6)
    read, plain = (
        transformers.AutoTokenizer.from_pretrained(causal),
        transformers.GPT2LMHeadModel.from_pretrained(causal).eval(),
    )
    for prompt, text in zip(prompts, together, strict=True):
        ids = read(prompt)["input_ids"]
        for _ in range(6):
            ids.append(int(plain(torch.tensor([ids])).logits[0, -1].argmax()))
        assert read.decode(ids[-6:], skip_special_tokens=True) == text


def test_tokens_of_prompts_and_answers_are_counted_without_padding(causal):
    model, prompts = LocalLanguageModel(str(causal)), ["a red dress", "yes"]
    model.complete(prompts, 6)
    assert model.tokens["prompt"] == 3 + 1
    assert 2 <= model.tokens["answer"] <= 12


def test_a_prompt_that_is_too_long_is_told(causal):
    with pytest.raises(UserError, match="limited to 64 tokens, but a prompt and its answer need 70"):
        LocalLanguageModel(str(causal)).complete(["red " * 60, "yes"], 10)


def test_an_encoder_decoder_answers_without_repeating_the_prompt(t5):
    """FLAN-T5 and FLAN-Alpaca, which ChatIR asks questions with, are such models."""
    model = LocalLanguageModel(str(t5))
    prompts = ["question : what color is it ?", "a red dress", "yes"]
    together = model.complete(prompts, 6)
    read = transformers.AutoTokenizer.from_pretrained(t5)
    plain = transformers.T5ForConditionalGeneration.from_pretrained(t5).eval()
    for prompt, text in zip(prompts, together, strict=True):
        ids = [0]
        while len(ids) < 7 and ids[-1] != 1:
            given = {"input_ids": read(prompt, return_tensors="pt")["input_ids"]}
            ids.append(int(plain(**given, decoder_input_ids=torch.tensor([ids])).logits[0, -1].argmax()))
        assert read.decode(ids, skip_special_tokens=True) == text
    assert len(set(together)) > 1 and model.tokens["prompt"] == 7 + 3 + 1
    with pytest.raises(UserError, match="limited to 64 tokens"):
        model.complete(["red " * 65], 6)


@pytest.mark.parametrize("kind", ["blip2", "blip"])
def test_a_visual_model_answers_each_question_on_its_picture_whatever_stands_beside_it(kind, request):
    model = VisualQuestionAnswerer(str(request.getfixturevalue(kind)))
    pictures = [Image.new("RGB", (40, 60), color) for color in ("red", "navy", "red")]
    questions = ["what color is it?", "belt?", "yes?"]
    answers = model.answer(pictures, questions, tokens=5)
    assert answers == [
        model.answer([picture], [question], tokens=5)[0]
        for picture, question in zip(pictures, questions, strict=True)
    ]
    assert len(answers) == 3
    if kind == "blip2":  # a model that goes on with the prompt gives it back first
        assert all(answers) and not any(answer.startswith("Question") for answer in answers)


def test_what_cannot_be_loaded_is_told_in_one_line(causal, tmp_path):
    with pytest.raises(UserError, match=r"cannot load .*nothing"):
        LocalLanguageModel(str(tmp_path / "nothing"))
    with pytest.raises(UserError, match=r"cannot load .*gpt2"):
        VisualQuestionAnswerer(str(causal))
    (causal / "model.safetensors").rename(tmp_path / "kept")
    torch.save({}, causal / "pytorch_model.bin")
    with pytest.raises(UserError, match="cannot load") as caught:  # pickles are not read
        LocalLanguageModel(str(causal))
    (tmp_path / "kept").rename(causal / "model.safetensors")
    assert "\n" not in str(caught.value)


def test_without_a_network_the_hub_is_asked_once_instead_of_for_each_file(monkeypatch):
    calls = []
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr(local, "use_cache_if_offline", lambda: calls.append("hub"))
    read = transformers.AutoConfig.from_pretrained
    monkeypatch.setattr(
        transformers.AutoConfig, "from_pretrained", lambda name: (calls.append("file"), read(name))
    )
    with pytest.raises(UserError, match="cannot load nobody/nothing"):
        LocalLanguageModel("nobody/nothing")
    assert calls[:2] == ["hub", "file"]


def test_without_transformers_it_is_said_how_to_install_them(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "transformers", None)
    with pytest.raises(UserError, match=r"pip install 'fashioniq\[chat\]'"):
        LocalLanguageModel("gpt2")


def test_a_chat_model_sees_one_or_two_pictures(llava):
    model = VisionLanguageModel(str(llava))
    red, blue = (jpeg_of(Image.new("RGB", (40, 60), color)) for color in ("red", "blue"))
    texts = model.complete(["what color is it ?"] * 3, 8, [[red], [red, blue], [red]])
    assert texts[0] == texts[2] != texts[1]
    assert texts[0] != model.complete(["what color is it ?"], 8, [[blue]])[0]
    assert len(model.complete(["a red dress"], 3)[0].split()) <= 3


def test_a_sampled_answer_depends_on_the_seed_alone(llava):
    def said(seed, temperature=0.7):
        model = VisionLanguageModel(str(llava), sampling=Sampling(temperature, 0.9, 1.1), seed=seed)
        return model.complete(
            ["what color is it ?"] * 2, 12, [[jpeg_of(Image.new("RGB", (40, 60), "red"))]] * 2
        )

    texts = [said(seed, 5.0) for seed in range(4)]
    assert texts[0] == said(0, 5.0) and texts[0][0] == texts[0][1] and len({text for text, _ in texts}) > 1


def test_a_model_without_a_chat_template_is_refused(blip2, llava, tmp_path):
    import shutil

    shutil.copytree(llava, tmp_path / "plain")
    (tmp_path / "plain" / "chat_template.jinja").unlink()
    with pytest.raises(UserError, match="no chat template"):
        VisionLanguageModel(str(tmp_path / "plain"))
