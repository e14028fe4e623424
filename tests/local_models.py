"""Tiny random models of `transformers`, saved to disk as real ones are."""

import pytest
import torch

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
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers

    made = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation()]
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, unk_token="<unk>", eos_token="</s>", model_max_length=64, **options
    )


@pytest.fixture(scope="session")
def causal(tmp_path_factory):
    transformers = pytest.importorskip("transformers", reason="the extra chat is not installed")
    folder = tmp_path_factory.mktemp("gpt2")
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=len(WORDS), n_positions=64, n_embd=16, n_layer=1, n_head=2, bos_token_id=1, eos_token_id=1
    )
    transformers.GPT2LMHeadModel(config).save_pretrained(folder)
    tokenizer().save_pretrained(folder)  # no padding token, as GPT-2's has none
    return folder


@pytest.fixture(scope="session")
def t5(tmp_path_factory):
    transformers = pytest.importorskip("transformers", reason="the extra chat is not installed")
    folder = tmp_path_factory.mktemp("t5")
    torch.manual_seed(1)
    config = transformers.T5Config(
        vocab_size=len(WORDS), d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2, decoder_start_token_id=0,
        pad_token_id=0, eos_token_id=1, initializer_factor=3.0,
    )  # fmt: skip
    transformers.T5ForConditionalGeneration(config).save_pretrained(folder)
    tokenizer(pad_token="<pad>").save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def blip2(tmp_path_factory):
    transformers = pytest.importorskip("transformers", reason="the extra chat is not installed")
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


@pytest.fixture(scope="session")
def blip(tmp_path_factory):
    return saved_blip(tmp_path_factory.mktemp("blip"), "BlipForQuestionAnswering")


@pytest.fixture(scope="session")
def caption_model(tmp_path_factory):
    return saved_blip(tmp_path_factory.mktemp("captions"), "BlipForConditionalGeneration")


def saved_blip(folder, model_class):
    import transformers

    torch.manual_seed(0)
    small = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    small["initializer_range"] = 1.0
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
    getattr(transformers, model_class)(config).save_pretrained(folder)
    images = transformers.BlipImageProcessor(size={"height": 28, "width": 28})
    transformers.BlipProcessor(images, tokenizer(pad_token="<pad>")).save_pretrained(folder)
    return folder


CHAT = (
    "{% for m in messages %}{% for part in m.content %}{% if part.type == 'image' %}<image> {% else %}{{ part.text }} "
    "{% endif %}{% endfor %}{% endfor %}Answer :"
)


@pytest.fixture(scope="session")
def llava(tmp_path_factory):
    transformers = pytest.importorskip("transformers", reason="the extra chat is not installed")
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
