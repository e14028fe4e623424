"""Askers that generate questions with a language model."""

import re
from collections.abc import Mapping, Sequence

from fashioniq.data.dialogues import Round
from fashioniq.data.sanitize import MAX_MODEL_OUTPUT, clean
from fashioniq.llm.completer import Completer
from fashioniq.llm.prompts import PROMPTS, fill
from fashioniq.loop.gallery import Gallery
from fashioniq.loop.messages import DialogState, Message

LONGEST = 200  # maximum characters of a question, and of a caption in a prompt
FALLBACK = "what else can be seen?"  # used if the model output has no question

_LABEL = re.compile(r"^\W*(?:(?:question|q|assistant)\b)?\s*(?:\d+\s*[.):])?\W*", re.IGNORECASE)


class FewShot:
    """Language model prompted with two example dialogs, as in ChatIR but by default with another wording."""

    def __init__(self, model: Completer, prompts: Mapping[str, str] = PROMPTS) -> None:
        self.model, self.prompt = model, prompts["question"]

    def offer(self, state: DialogState, gallery: Gallery) -> Message:
        if not state.turns:
            return Message()
        prompts = [fill(self.prompt, dialog=_dialog(rounds)) for rounds in state.rounds]
        return Message(questions=[clean_question(text) for text in self.model.complete(prompts, 40)])


class AllAtOnce:
    """Language model that asks all questions at once from the caption (ChatIR, section 4, "unanswered")."""

    def __init__(self, model: Completer, count: int, prompts: Mapping[str, str] = PROMPTS) -> None:
        self.model, self.count, self.prompt = model, count, prompts["questions"]
        self._questions: dict[str, list[str]] = {}  # by caption, so that the model is called once per caption

    def offer(self, state: DialogState, gallery: Gallery) -> Message:
        if not state.turns:
            return Message()
        captions, number = [rounds[0] for rounds in state.rounds], len(state.turns) - 1
        if new := [caption for caption in captions if caption not in self._questions]:
            prompts = [
                fill(self.prompt, caption=clean(caption, LONGEST), count=self.count) for caption in new
            ]
            for caption, text in zip(new, self.model.complete(prompts, 25 * self.count), strict=True):
                self._questions[caption] = questions_in(text)
        return Message(
            questions=[
                (self._questions[caption][number : number + 1] or [FALLBACK])[0] for caption in captions
            ]
        )


def clean_question(text: str) -> str:
    """Return the first question in a model's output, without number or label, or else FALLBACK."""
    return (questions_in(text) or [FALLBACK])[0]


def questions_in(text: str) -> list[str]:
    """Extract the questions from a model's output, or its lines if it has no question mark."""
    lines = [line for line in text[:MAX_MODEL_OUTPUT].splitlines() if clean(line)]
    parts = [part for line in lines if "?" in line for part in line.split("?")[:-1]] or lines
    asked = (_LABEL.sub("", clean(part, 10 * LONGEST)).strip(" \"'*") for part in parts)
    return [clean(question, LONGEST - 1) + "?" for question in asked if question]


def _dialog(rounds: Sequence[Round]) -> str:
    lines = [clean(rounds[0].answer, LONGEST)]
    for said in rounds[1:]:
        lines += [f"Question: {said.question}", f"Answer: {said.answer}"]
    return "\n".join(lines)
