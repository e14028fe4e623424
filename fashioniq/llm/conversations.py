"""Writer of conversations with a language model, local or at an endpoint. The prompts are ours."""

import json
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from fashioniq.data.conversation_records import PLACEHOLDER
from fashioniq.data.sanitize import MAX_MODEL_OUTPUT, clean
from fashioniq.data.writers import DescribedProduct, FeedbackPair, TwoRounds, WrittenDialog
from fashioniq.llm.completer import Completer

VERSION = "1"  # of the prompts; a part of the key of the cache, as it is in the prompts
ATTEMPTS = 3  # answers that are asked for until one has the form
LONGEST = 400  # characters of a caption in a prompt, and of a text that is taken over
T = TypeVar("T")

_DIALOG = f"""\
[prompts {VERSION}] Below is the description of a product that a shopper wants. Invent the talk of the shopper
("user") with an assistant. The user speaks first and last, 3 or 4 times. Each time the user adds one or two clues,
hints rather than the words of the description; one clue may need general knowledge. The assistant asks or confirms,
and never names the product. 40 to 100 words in all.
Reply with JSON only: [{{"role": "user", "text": "..."}}, {{"role": "assistant", "text": "..."}}, ...]

Description: """
_REQUEST = f"""\
[prompts {VERSION}] A shopper is shown product A and wants product B. Write what the shopper says, in 5 to 20 words.
Name only the one or two largest differences, not what stays the same. Do not mention A or B.
Reply with JSON only: {{"request": "..."}}

A: """
_TWO_ROUNDS = f"""\
[prompts {VERSION}] Below is the description of a product that a shopper wants. Write the shopper's first request, the
description of another product that is shown for it, and the shopper's second request, which leads from that product
to the one wanted. The two products share the main thing and differ in at least two ways. 6 to 25 words per request.
Reply with JSON only: {{"first": "...", "shown": "...", "second": "..."}}

Description: """
_AGAIN = "\n\nAttempt {}: the reply before was not JSON of this form. Reply with the JSON alone."


class LanguageModelWriter:
    """Writer that asks a language model, up to ATTEMPTS times until an answer has the form."""

    def __init__(self, name: str, model: Completer) -> None:
        self.name, self._model = name, model

    @property
    def tokens(self) -> dict[str, int]:
        """Tokens of all prompts and answers, including cached ones."""
        return self._model.tokens

    def dialogs(
        self, products: Sequence[DescribedProduct], seeds: Sequence[str]
    ) -> list[WrittenDialog | None]:
        """Dialogs; None if no answer is a list of turns of the user and the assistant in alternation."""
        return self._ask([_DIALOG + clean(one.caption, LONGEST) for one in products], 400, _dialog_of)

    def two_rounds(self, pairs: Sequence[FeedbackPair], seeds: Sequence[str]) -> list[TwoRounds | None]:
        """Two requests and the caption between them; None if no answer has them. `shown` is not used."""
        prompts = [_TWO_ROUNDS + clean(pair.wanted.caption, LONGEST) for pair in pairs]
        return self._ask(prompts, 250, _two_rounds_of)

    def requests(self, pairs: Sequence[FeedbackPair], seeds: Sequence[str]) -> list[str | None]:
        """Requests; None if no answer has one."""
        prompts = [
            f"{_REQUEST}{clean(pair.shown.caption, LONGEST)}\nB: {clean(pair.wanted.caption, LONGEST)}"
            for pair in pairs
        ]
        return self._ask(prompts, 80, lambda reply: _texts(reply, "request")[0])

    def _ask(self, prompts: list[str], tokens: int, read: Callable[[Any], T]) -> list[T | None]:
        found: list[T | None] = [None] * len(prompts)
        waiting = list(range(len(prompts)))
        for attempt in range(1, ATTEMPTS + 1):
            if not waiting:
                break
            again = _AGAIN.format(attempt) if attempt > 1 else ""
            replies = self._model.complete([prompts[place] + again for place in waiting], tokens)
            for place, reply in zip(waiting, replies, strict=True):
                found[place] = _read(reply, read)
            waiting = [place for place in waiting if found[place] is None]
        return found


def _read(reply: str, read: Callable[[Any], T]) -> T | None:
    """What a reply says in JSON, which may stand between other words; None if it has not the form."""
    reply = reply[:MAX_MODEL_OUTPUT]
    starts = [place for bracket in "[{" if (place := reply.find(bracket)) >= 0]
    end = max(map(reply.rfind, "]}"))
    try:
        return read(json.loads(reply[min(starts) : end + 1])) if starts else None
    except (ValueError, LookupError, TypeError, RecursionError):
        return None


def _texts(content: dict[str, Any], *names: str) -> list[str]:
    return [_text(content[name]) for name in names]


def _text(value: Any) -> str:
    text = clean(value, LONGEST) if isinstance(value, str) else ""
    if not text or PLACEHOLDER in text:
        raise ValueError("not a text")
    return text


def _two_rounds_of(content: Any) -> TwoRounds:
    first, shown, second = _texts(content, "first", "shown", "second")
    return TwoRounds(first, shown, second)


def _dialog_of(content: Any) -> WrittenDialog:
    roles = [turn["role"] for turn in content]
    if len(roles) < 3 or roles != ["assistant" if place % 2 else "user" for place in range(len(roles) | 1)]:
        raise ValueError("not an alternation that begins and ends with the user")
    return WrittenDialog(tuple(_text(turn["text"]) for turn in content))
