"""Rewriting of dialogs: as one text, the query of PlugIR and R1 of DAR, and as prompts of pictures, R2 of DAR."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from fashioniq.data.descriptions import Describer
from fashioniq.data.dialogues import Round, each, last_round
from fashioniq.data.sanitize import clean
from fashioniq.files import UserError
from fashioniq.llm.completer import Completer
from fashioniq.llm.endpoint import ENDPOINT, Endpoint
from fashioniq.llm.local import LocalLanguageModel
from fashioniq.llm.prompts import PROMPTS, fill
from fashioniq.models.device import pick_device

Prompts = tuple[str, ...]
# the dialogs of a batch → their prompts; the k-th picture is made from the k-th one, and again from the first
Write = Callable[[Sequence[Sequence[Round]]], Sequence[Prompts]]
TOKENS = 80  # per description
LONGEST = 600  # maximum characters of a description
LOCAL = "local:"
_NUMBER = re.compile(r"^\W*(?:\d+\s*[.):])?\s*")


class Rewriting(NamedTuple):
    """How the dialogs of a batch are rewritten: each by `text` as one text, by `prompts` as prompts of pictures."""

    text: Callable[[Sequence[Sequence[Round]]], list[str]]
    prompts: Write


class ByModel:
    """Rewrites each dialog as one text with a language model, and this text as `count` prompts of pictures.

    A dialog without a usable answer is joined by commas, and counted in a note; a text without one is the prompt
    itself. Lines that announce what follows, such as "Here is the description:", are left out.
    """

    def __init__(self, model: Completer, count: int = 1, own: Mapping[str, str] = PROMPTS) -> None:
        self.model, self.count, self.own = model, count, own
        self._texts: dict[tuple[str, ...], str] = {}  # one rewriting of a dialog serves text and prompts

    def text(self, dialogs: Sequence[Sequence[Round]]) -> list[str]:
        """One text of each dialog (R1)."""
        keys = [tuple(rounds) for rounds in dialogs]
        if new := list(dict.fromkeys(key for key in keys if key not in self._texts)):
            asked = [fill(self.own["rewrite"], dialog=_structured(rounds)) for rounds in new]
            written = [_lines(answer) for answer in self.model.complete(asked, TOKENS)]
            if missing := written.count([]):
                print(
                    f"note: {missing} of {len(new)} dialogs are not rewritten, as the language model's answer has no "
                    "text; their rounds are joined by commas"
                )
            for rounds, lines in zip(new, written, strict=True):
                self._texts[rounds] = (lines or [", ".join(rounds)])[0]
        return [self._texts[key] for key in keys]

    def prompts(self, dialogs: Sequence[Sequence[Round]]) -> list[Prompts]:
        """The prompts of the pictures of each dialog (R2)."""
        texts = self.text(dialogs)
        wanted = "a prompt" if self.count == 1 else f"{self.count} different prompts"
        asked = [fill(self.own["pictures"], text=text, count=wanted) for text in texts]
        return [
            tuple(_lines(answer)[: self.count]) or (text,)
            for answer, text in zip(self.model.complete(asked, TOKENS * self.count), texts, strict=True)
        ]


def _structured(rounds: Sequence[str]) -> str:
    """A dialog with its first description apart from what was said later."""
    return "\n".join([f"First description: {rounds[0]}", *(f"- {said}" for said in rounds[1:])])


def _lines(answer: str) -> list[str]:
    lines = (clean(_NUMBER.sub("", line), LONGEST) for line in answer.splitlines())
    return [line for line in lines if line and not line.endswith(":")]


def rewriter(
    name: str,
    describer: Callable[[], Describer],
    *,
    device: str,
    count: int = 1,
    own: Mapping[str, str] = PROMPTS,
) -> Rewriting:
    """Rewriting of dialogs: the `last` round, all rounds by `join`, `attributes`, or a model.

    Raises UserError for another name, and if a model cannot be loaded.
    """
    if by_model(name):
        written = ByModel(model_of(name, device), count, own)
        return Rewriting(written.text, written.prompts)
    if name not in ("last", "join", "attributes"):
        raise UserError(
            f"expected last, join, attributes, endpoint:NAME or local:NAME, found {name}; correct --rewrite"
        )
    write = {"last": lambda: last_round, "join": lambda: ", ".join, "attributes": lambda: describer().rewrite}
    chosen = write[name]()
    return Rewriting(each(chosen), prompts(chosen))


def model_of(name: str, device: str) -> Completer:
    """Language model by endpoint:NAME, local:NAME, or a folder or Hugging Face name. Raises UserError."""
    if name.startswith(ENDPOINT):
        return Endpoint(name.removeprefix(ENDPOINT))
    return LocalLanguageModel(name.removeprefix(LOCAL), pick_device(device))


def by_model(name: str) -> bool:
    """Whether --rewrite names a language model."""
    return name.startswith((ENDPOINT, LOCAL))


def prompts(write: Callable[[Sequence[Round]], str]) -> Write:
    """Function from the dialogs of a batch to their prompts, from one for a single dialog."""
    return lambda dialogs: [(write(rounds),) for rounds in dialogs]
