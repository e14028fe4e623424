"""Tiny random models, saved to disk and loaded as real ones are."""

import pytest
import torch
from PIL import Image

from fashioniq.files import UserError
from fashioniq.llm.local import LocalLanguageModel, VisionLanguageModel, VisualQuestionAnswerer
from fashioniq.users.vision import jpeg_of

transformers = pytest.importorskip("transformers", reason="the extra chat is not installed")
WORDS = [
    "<pad>",
    "</s>",
    "<unk>",
    "<image>",
    "Question",
    "Answer",
    ":",
    "?",
    "what",
    "color",
    "is",
    "it",
    "red",
    "blue",
    "a",
    "dress",
    "yes",
    "no",
]


def tokenizer(**options):
    from tokenizers import Tokenizer, models, pre_tokenizers

    made = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation()]
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, unk_token="<unk>", eos_token="</s>", model_max_length=64, **options
    )


@pytest.fixture(scope="module")
def causal(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gpt2")
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=len(WORDS), n_positions=64, n_embd=16, n_layer=1, n_head=2, bos_token_id=1, eos_token_id=1
    )
    transformers.GPT2LMHeadModel(config).save_pretrained(folder)
    tokenizer().save_pretrained(folder)  # no padding token, as GPT-2's has none
    return folder


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


@pytest.fixture(scope="module")
def blip2(tmp_path_factory):
    folder = tmp_path_factory.mktemp("blip2")
    torch.manual_seed(0)
    small = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.Blip2Config(
        vision_config={**small, "image_size": 28, "patch_size": 14},
        qformer_config={**small, "encoder_hidden_size": 16, "cross_attention_frequency": 1, "vocab_size": len(WORDS)},
        text_config={
            "model_type": "opt", "vocab_size": len(WORDS), "hidden_size": 16, "word_embed_proj_dim": 16, "ffn_dim": 16, "num_hidden_layers": 1,
            "num_attention_heads": 2, "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 1,
        },
        num_query_tokens=4,
        image_token_index=WORDS.index("<image>"),
    )  # fmt: skip
    transformers.Blip2ForConditionalGeneration(config).save_pretrained(folder)
    images = transformers.BlipImageProcessor(size={"height": 28, "width": 28})
    transformers.Blip2Processor(images, tokenizer(pad_token="<pad>"), num_query_tokens=4).save_pretrained(
        folder
    )
    return folder


@pytest.fixture(scope="module")
def blip(tmp_path_factory):
    folder = tmp_path_factory.mktemp("blip")
    torch.manual_seed(0)
    small = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    text = {
        **small,
        "vocab_size": len(WORDS),
        "encoder_hidden_size": 16,
        "max_position_embeddings": 64,
        "is_decoder": True,
    }
    ids = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 1, "sep_token_id": 1}
    config = transformers.BlipConfig(
        text_config={**text, **ids}, vision_config={**small, "image_size": 28, "patch_size": 14}
    )
    transformers.BlipForQuestionAnswering(config).save_pretrained(folder)
    images = transformers.BlipImageProcessor(size={"height": 28, "width": 28})
    transformers.BlipProcessor(images, tokenizer(pad_token="<pad>")).save_pretrained(folder)
    return folder


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


def test_without_transformers_it_is_said_how_to_install_them(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "transformers", None)
    with pytest.raises(UserError, match=r"pip install 'fashioniq\[chat\]'"):
        LocalLanguageModel("gpt2")


CHAT = (
    "{% for m in messages %}{% for part in m.content %}{% if part.type == 'image' %}<image> {% else %}{{ part.text }} "
    "{% endif %}{% endfor %}{% endfor %}Answer :"
)


@pytest.fixture(scope="module")
def llava(tmp_path_factory):
    folder = tmp_path_factory.mktemp("llava")
    torch.manual_seed(0)
    small = {
        "hidden_size": 16,
        "intermediate_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "initializer_range": 1.0,
    }
    config = transformers.LlavaConfig(
        vision_config={"model_type": "clip_vision_model", **small, "image_size": 28, "patch_size": 14},
        text_config={"model_type": "llama", **small, "num_key_value_heads": 2, "vocab_size": len(WORDS), "max_position_embeddings": 64,
                     "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 1},
        initializer_range=1.0, image_token_index=WORDS.index("<image>"), vision_feature_layer=-1,
    )  # fmt: skip
    transformers.LlavaForConditionalGeneration(config).save_pretrained(folder)
    side = {"height": 28, "width": 28}
    transformers.LlavaProcessor(
        transformers.CLIPImageProcessor(size=side, crop_size=side),
        tokenizer(pad_token="<pad>", additional_special_tokens=["<image>"]),
        patch_size=14,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=CHAT,
    ).save_pretrained(folder)
    return folder


def test_a_chat_model_sees_one_or_two_pictures(llava):
    model = VisionLanguageModel(str(llava))
    red, blue = (jpeg_of(Image.new("RGB", (40, 60), color)) for color in ("red", "blue"))
    texts = model.complete(["what color is it ?"] * 3, 8, [[red], [red, blue], [red]])
    assert texts[0] == texts[2] != texts[1]
    assert texts[0] != model.complete(["what color is it ?"], 8, [[blue]])[0]
    assert len(model.complete(["a red dress"], 3)[0].split()) <= 3


def test_a_model_without_a_chat_template_is_refused(blip2, llava, tmp_path):
    import shutil

    shutil.copytree(llava, tmp_path / "plain")
    (tmp_path / "plain" / "chat_template.jinja").unlink()
    with pytest.raises(UserError, match="no chat template"):
        VisionLanguageModel(str(tmp_path / "plain"))
