"""Rewriting of dialogs as descriptions: prompts of pictures (DAR) and text queries (PlugIR)."""

import re
from collections.abc import Callable, Sequence

from fashioniq.data.descriptions import Describer
from fashioniq.data.dialogues import last_round
from fashioniq.data.sanitize import clean
from fashioniq.files import UserError
from fashioniq.llm.completer import Completer
from fashioniq.llm.endpoint import Endpoint
from fashioniq.llm.local import LocalLanguageModel
from fashioniq.models.device import pick_device

Prompts = tuple[str, ...]
# the dialogs of a batch → their prompts; the k-th picture is made from the k-th one, and again from the first
Write = Callable[[Sequence[Sequence[str]]], Sequence[Prompts]]
TOKENS = 80  # per description
LONGEST = 600  # maximum characters of a description
ENDPOINT, LOCAL = "endpoint:", "local:"
PROMPT = """\
Somebody describes a picture and answers questions about it:
{dialog}

Write {count} of the whole picture in one sentence each, one per line. Use all that is said, and nothing else.
1."""
_NUMBER = re.compile(r"^\W*(?:\d+\s*[.):])?\s*")


class ByModel:
    """Rewrites each dialog as `count` descriptions with a language model.

    A dialog without a usable answer is joined by commas.
    """

    def __init__(self, model: Completer, count: int = 1) -> None:
        self.model, self.count = model, count

    def __call__(self, dialogs: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
        wanted = "a description" if self.count == 1 else f"{self.count} different descriptions"
        prompts = [PROMPT.format(dialog="\n".join(rounds), count=wanted) for rounds in dialogs]
        answers = self.model.complete(prompts, TOKENS * self.count)
        return [
            self._read(text) or (", ".join(rounds),) for text, rounds in zip(answers, dialogs, strict=True)
        ]

    def _read(self, text: str) -> tuple[str, ...]:
        lines = (clean(_NUMBER.sub("", line), LONGEST) for line in text.splitlines())
        return tuple(line for line in lines if line)[: self.count]


def rewriter(
    name: str,
    describer: Callable[[], Describer],
    *,
    device: str,
    count: int = 1,
) -> Write:
    """Function that rewrites dialogs: the `last` round, all rounds by `join`, `attributes`, or a model.

    Raises UserError for another name, and if a model cannot be loaded.
    """
    if name.startswith(ENDPOINT):
        return ByModel(Endpoint(name.removeprefix(ENDPOINT)), count)
    if name.startswith(LOCAL):
        return ByModel(LocalLanguageModel(name.removeprefix(LOCAL), pick_device(device)), count)
    if name not in ("last", "join", "attributes"):
        raise UserError(
            f"expected last, join, attributes, endpoint:NAME or local:NAME, found {name}; correct --rewrite"
        )
    write = {"last": lambda: last_round, "join": lambda: ", ".join, "attributes": lambda: describer().rewrite}
    return prompts(write[name]())


def prompts(write: Callable[[Sequence[str]], str]) -> Write:
    """Function from the dialogs of a batch to their prompts, from one for a single dialog."""
    return lambda dialogs: [(write(rounds),) for rounds in dialogs]
