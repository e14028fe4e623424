"""User that is a language model: it reads what is known of two products, and says how the wanted one differs."""

import random
from collections.abc import Sequence

from torch import Tensor

from fashioniq.data.catalog import Catalog
from fashioniq.data.languages import language
from fashioniq.data.parts import PartInputs
from fashioniq.data.sanitize import clean
from fashioniq.files import UserError
from fashioniq.llm.completer import Completer
from fashioniq.llm.prompts import PROMPTS, fill
from fashioniq.llm.rewriting import model_of
from fashioniq.loop.messages import Message

EXAMPLES = 3  # pairs of train whose captions show how people speak
MOST_TOKENS = 16  # of a reply; people's captions have about ten words at most
LONGEST = 300  # characters of what is known of a product


class LanguageModelUser:
    """User that reads `known` of target and product shown, texts in the order of the gallery, and never sees pictures.

    `examples` are pairs of other products, the one shown first, and what people said. A reply depends on the two
    products alone if that of the model does; an empty one becomes `at_a_loss`. `about` are facts of metrics.json.
    """

    def __init__(
        self,
        model: Completer,
        known: Sequence[str],
        examples: Sequence[tuple[str, str, str]] = (),
        at_a_loss: str = "is different",
    ) -> None:
        self.model, self.known, self.at_a_loss = model, known, at_a_loss
        self.examples = "\n\n".join(f"{_pair(shown, wanted)} {said}" for shown, wanted, said in examples)
        self.about = {"captions": "written by a language model from texts and labels", "decoding": "greedy"}

    def reply(self, target_B: Tensor, offer: Message, turn: int) -> Message:
        """Say how the targets differ from the items offered."""
        assert offer.item_B is not None, "a difference needs an offer with items"
        prompts = [
            fill(
                PROMPTS["difference"],
                examples=self.examples,
                pair=_pair(self.known[item], self.known[target]),
            )
            for target, item in zip(target_B.tolist(), offer.item_B.tolist(), strict=True)
        ]
        speaker = PROMPTS["pair"].rpartition("\n")[2]  # which some models repeat
        said = (text.strip().removeprefix(speaker) for text in self.model.complete(prompts, MOST_TOKENS))
        sentences = (clean(text).partition(";")[0] for text in said)  # what comes after it repeats labels
        return Message(texts=[sentence.strip(' "') or self.at_a_loss for sentence in sentences])


def _pair(shown: str, wanted: str) -> str:
    return fill(PROMPTS["pair"], shown=shown, wanted=wanted)


def known_of(catalog: Catalog, name: str) -> str:
    """Description and labels of a product, as somebody would know it who sees it; without both, its title."""
    labels = dict.fromkeys(label for some in catalog.labels.get(name, ()) for label in some)
    seen = [catalog.descriptions.get(name, ""), ", ".join(labels)]
    return clean("; ".join(filter(None, seen)) or catalog.titles.get(name, ""), LONGEST)


def examples_of(catalog: Catalog, seed: int) -> list[tuple[str, str, str]]:
    """What is known of both products, and a caption, of EXAMPLES pairs of train, or as many as have captions."""
    pairs = [pair for pair in catalog.pairs_if_any("train") if pair.target and pair.captions]
    chance = random.Random(seed)
    return [
        (known_of(catalog, pair.candidate), known_of(catalog, str(pair.target)), chance.choice(pair.captions))
        for pair in chance.sample(pairs, min(EXAMPLES, len(pairs)))
    ]


def at_endpoint(inputs: PartInputs) -> LanguageModelUser:
    """The user endpoint:MODEL. Raises UserError without a model or a catalog, and if the model does not answer."""
    return _of(inputs, "endpoint")


def local(inputs: PartInputs) -> LanguageModelUser:
    """The user local:MODEL. Raises UserError without a catalog, and if the model cannot be loaded."""
    return _of(inputs, "local")


def _of(inputs: PartInputs, part: str) -> LanguageModelUser:
    name, catalog = f"{part}:{inputs.argument}", inputs.catalog
    if not inputs.argument:
        raise UserError(f"expected {part}:MODEL, found no model; add its name")
    if catalog is None:
        raise UserError(f"--user {name} needs a catalog; give --category (and --data)")
    known = [known_of(catalog, one) for one in inputs.ids]
    if not any(known):
        raise UserError(
            f"--user {name} needs titles, descriptions or labels, found none of these products in {catalog.root}; give "
            "another user"
        )
    examples, speech = examples_of(catalog, inputs.seed), language(catalog.language)
    return LanguageModelUser(model_of(name, inputs.device), known, examples, speech.different[0])
