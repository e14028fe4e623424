"""Local models with `transformers`: language models, and models that see pictures.

They are loaded from a folder or by their name on the hub. Needs the extra `chat`.
"""

import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from PIL import Image

from fashioniq.files import UserError, explaining, why
from fashioniq.hub import use_cache_if_offline
from fashioniq.llm.completer import Sampling, without_reasoning
from fashioniq.llm.prompts import fill


class LocalLanguageModel:
    """Language model with greedy decoding: a decoder alone, or an encoder and a decoder such as FLAN-T5.

    `tokens` counts those of all prompts and answers.
    """

    def __init__(self, name: str, device: torch.device | str = "cpu") -> None:
        self._answers_alone = _is_encoder_decoder(name)  # its output does not repeat the prompt
        kind = "AutoModelForSeq2SeqLM" if self._answers_alone else "AutoModelForCausalLM"
        self._model, self._tokenizer = _load(name, device, kind, "AutoTokenizer", padding_side="left")
        if self._tokenizer.pad_token is None:
            self._tokenizer.pad_token = self._tokenizer.eos_token
        self._limit = (
            getattr(self._model.config, "max_position_embeddings", None) or self._tokenizer.model_max_length
        )
        self._name = name
        self.tokens = {"prompt": 0, "answer": 0}

    @torch.inference_mode()
    def complete(self, prompts: Sequence[str], tokens: int) -> list[str]:
        """Continue each prompt by at most `tokens` tokens.

        Raises UserError if a prompt is too long for the model.
        """
        inputs = self._tokenizer(list(prompts), padding=True, return_tensors="pt").to(self._model.device)
        length = inputs["input_ids"].shape[1]
        if max(length, tokens) > self._limit if self._answers_alone else length + tokens > self._limit:
            raise UserError(
                f"{self._name} is limited to {self._limit} tokens, but a prompt and its answer need "
                f"{length + tokens}; choose a model with a longer context"
            )
        ids_BL = self._model.generate(
            **inputs, max_new_tokens=tokens, do_sample=False, pad_token_id=self._tokenizer.pad_token_id
        )
        answer_BL = ids_BL if self._answers_alone else ids_BL[:, length:]
        self.tokens["prompt"] += int(inputs["attention_mask"].sum())
        self.tokens["answer"] += int((answer_BL != self._tokenizer.pad_token_id).sum())
        return self._tokenizer.batch_decode(answer_BL, skip_special_tokens=True)


# the prompts of their training
_PROMPTS: dict[str, Callable[[str], str]] = {"blip-2": "Question: {} Answer:".format, "blip": str}


class VisualQuestionAnswerer:
    """BLIP-2 or BLIP with greedy decoding: picture and question → a few words.

    `prompt` replaces that of its training.
    """

    def __init__(self, name: str, device: torch.device | str = "cpu", prompt: str | None = None) -> None:
        self._model, self._processor = _load(name, device, "AutoModelForVisualQuestionAnswering")
        kind = self._model.config.model_type
        if kind not in _PROMPTS:
            raise UserError(
                f"expected a model of the type {' or '.join(_PROMPTS)}, found {kind} in {name}; give another"
            )
        self._processor.tokenizer.padding_side = "left" if kind == "blip-2" else "right"
        self._prompt = _PROMPTS[kind] if prompt is None else lambda question: fill(prompt, question=question)
        # the output of a decoder-only model begins with the prompt
        self._repeats_prompt = kind == "blip-2" and not self._model.config.text_config.is_encoder_decoder

    @torch.inference_mode()
    def answer(
        self, pictures: Sequence[Image.Image], questions: Sequence[str], tokens: int = 20
    ) -> list[str]:
        """Answer each question about its picture in at most `tokens` tokens."""
        texts = [self._prompt(question) for question in questions]
        inputs = self._processor(images=list(pictures), text=texts, padding=True, return_tensors="pt").to(
            self._model.device, self._model.dtype
        )
        ids_BL = self._model.generate(**inputs, max_new_tokens=tokens, do_sample=False)
        if self._repeats_prompt:
            ids_BL = ids_BL[:, inputs["input_ids"].shape[1] :]
        return [text.strip() for text in self._processor.batch_decode(ids_BL, skip_special_tokens=True)]


class ImageCaptioner:
    """BLIP, BLIP-2, GIT or another model that writes a sentence about a picture without a prompt, by greedy decoding.

    `tokens` counts those of all sentences.
    """

    def __init__(self, name: str, device: torch.device | str = "cpu") -> None:
        self._model, self._processor = _load(name, device, "AutoModelForImageTextToText")
        self.tokens = {"prompt": 0, "answer": 0}

    @torch.inference_mode()
    def describe(self, pictures: Sequence[Image.Image], tokens: int) -> list[str]:
        """A sentence of at most `tokens` tokens about each picture."""
        inputs = self._processor(images=list(pictures), return_tensors="pt")
        ids_BL = self._model.generate(
            pixel_values=inputs["pixel_values"].to(self._model.device, self._model.dtype),
            max_new_tokens=tokens,
            do_sample=False,
        )
        said = self._processor.batch_decode(ids_BL, skip_special_tokens=True)
        self.tokens["answer"] += sum(map(len, self._processor.tokenizer(said)["input_ids"]))
        return [text.strip() for text in said]


class VisionLanguageModel:
    """Chat model that sees pictures (such as LLaVA or Qwen-VL). An answer depends on the prompt and its pictures, and
    with a temperature on `seed`.
    """

    def __init__(
        self,
        name: str,
        device: torch.device | str = "cpu",
        sampling: Sampling = Sampling(),  # noqa: B008
        seed: int = 0,
    ) -> None:
        self._model, self._processor = _load(name, device, "AutoModelForImageTextToText")
        self.tokens = {"prompt": 0, "answer": 0}
        if not getattr(self._processor, "chat_template", None):
            raise UserError(f"{name} has no chat template; give a model that was trained for conversations")
        drawn: dict[str, Any] = sampling._asdict() if sampling.temperature else {}
        self._sampling, self._seed = {"do_sample": bool(drawn), **drawn}, seed

    @torch.inference_mode()
    def complete(
        self, prompts: Sequence[str], tokens: int, pictures: Sequence[Sequence[bytes]] | None = None
    ) -> list[str]:
        """Answer each prompt, with its pictures as files, in at most `tokens` tokens."""
        shown = pictures or [()] * len(prompts)
        return [self._answer(prompt, tokens, some) for prompt, some in zip(prompts, shown, strict=True)]

    def _answer(self, prompt: str, tokens: int, pictures: Sequence[bytes]) -> str:
        images = [{"type": "image", "image": Image.open(io.BytesIO(one)).convert("RGB")} for one in pictures]
        messages = [{"role": "user", "content": [*images, {"type": "text", "text": prompt}]}]
        inputs = self._processor.apply_chat_template(
            messages, add_generation_prompt=True, tokenize=True, return_dict=True, return_tensors="pt"
        ).to(self._model.device, self._model.dtype)
        with torch.random.fork_rng():
            torch.manual_seed(self._seed)
            ids_1L = self._model.generate(**inputs, max_new_tokens=tokens, **self._sampling)
        answer = ids_1L[0, inputs["input_ids"].shape[1] :]
        self.tokens["prompt"] += inputs["input_ids"].shape[1]
        self.tokens["answer"] += len(answer)
        return without_reasoning(self._processor.decode(answer, skip_special_tokens=True)).strip()


def has_chat_template(name: str) -> bool:
    """Whether a model takes prompts as a chat. Raises UserError if its processor cannot be loaded."""
    return bool(getattr(_read(name, "AutoProcessor"), "chat_template", None))


def _transformers(name: str) -> Any:
    with explaining(
        "local models need the package transformers", "; pip install 'fashioniq[chat]'", ImportError
    ):
        import transformers

        return getattr(transformers, name)


def _is_encoder_decoder(name: str) -> bool:
    try:
        return bool(_read(name, "AutoConfig").is_encoder_decoder)
    except UserError:  # about a folder or name that `_load` refuses
        return False


def _load(
    name: str, device: torch.device | str, kind: str, reader_kind: str = "AutoProcessor", **options: Any
) -> tuple[Any, Any]:
    """Load a model and its tokenizer or processor, by the names of their classes in `transformers`.

    Only safetensors are read, so nothing is unpickled.
    """
    model_class, reader = _transformers(kind), _read(name, reader_kind, **options)
    if Path(name).is_dir():  # progress bars are for downloads only
        _transformers("logging").disable_progress_bar()
    dtype = torch.bfloat16 if torch.device(device).type == "cuda" else torch.float32
    try:
        model, info = model_class.from_pretrained(
            name, use_safetensors=True, dtype=dtype, output_loading_info=True
        )
        if lacking := sorted(info["missing_keys"]):  # such as of a model for another task
            raise ValueError(f"{len(lacking)} tensors are missing, such as {lacking[0]}")
        return model.to(device).eval().requires_grad_(False), reader
    except Exception as error:  # the hub client, safetensors and transformers raise different ones
        raise _unloaded(name, error) from error


def _read(name: str, kind: str, **options: Any) -> Any:
    reader_class = _transformers(kind)
    if not Path(name).is_dir():
        use_cache_if_offline()
    try:
        return reader_class.from_pretrained(name, **options)
    except Exception as error:
        raise _unloaded(name, error) from error


def _unloaded(name: str, error: Exception) -> UserError:
    return UserError(
        f"cannot load {name} ({why(error, 200)}); give a folder, "
        "or a name on the hub if there is a network connection"
    )
