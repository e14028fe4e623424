"""Fashion IQ's system with generated pictures (DAR): its query is fused with pictures of the product that is shown,
changed as the user asks.
"""

from collections.abc import Collection, Sequence
from typing import Any

from fashioniq.config import EvalFashionIQDAR
from fashioniq.data.attributes import stated_attributes
from fashioniq.data.descriptions import Describer, Words
from fashioniq.data.dialogues import Round
from fashioniq.data.languages import language
from fashioniq.generators.described_products import (
    describer_of,
    facts_of_pictures,
    features_of_pictures,
    generator_of,
    illustrating,
)
from fashioniq.generators.illustrated import Illustrated
from fashioniq.llm.rewriting import prompts
from fashioniq.loop.gallery import Gallery
from fashioniq.loop.messages import Turn
from fashioniq.loop.task import Task
from fashioniq.runs.evaluation_inputs import EvaluationInputs
from fashioniq.systems import fashion_iq
from fashioniq.users.correcting import refine

BUT = ", but "  # between the description of the product shown and the feedback


def build(options: EvalFashionIQDAR) -> list[Task]:
    """Dialogs of a retriever of Fashion IQ, as in its own system, with one user.

    Raises UserError if a file is missing or does not match.
    """

    def illustrated(parts: EvaluationInputs, gallery: Gallery) -> tuple[Illustrated, dict[str, Any]]:
        describer, labels = describer_of(parts.catalog), parts.catalog.labels
        generator = generator_of(options, parts.catalog.root, parts.catalog.category, options.device)
        features = features_of_pictures(options.predictor, parts.store, options.device)
        shown = [
            describer.write(tuple(word for words in labels.get(name, ()) for word in words))
            for name in gallery.items.ids
        ]

        def said(turn: Turn) -> list[Round]:
            """Description of each product shown, and what the user said about it."""
            assert turn.offer.item_B is not None, "Fashion IQ's system offers products"
            feedback = parts.vocabulary.decode(turn.words_BL)
            items = turn.offer.item_B.tolist()
            return [Round(f"{shown[item]}{BUT}{text}") for item, text in zip(items, feedback, strict=True)]

        retriever = Illustrated(
            parts.retriever,
            prompts(lambda rounds: wanted(rounds, describer, parts.catalog.language)),
            generator,
            lambda pictures: parts.retriever.embed_images(features(pictures)),
            seed=options.seed,
            said=said,
            **illustrating(options),
        )
        return retriever, facts_of_pictures(options, generator)

    return fashion_iq.build(options, illustrated)


def wanted(rounds: Sequence[str], describer: Describer, code: str = "en") -> str:
    """Description of the product that is wanted: the one shown last, changed by what was said in all rounds.

    What is asserted replaces the words of its topic, and what is denied is left out; later rounds come later.
    Comparisons, such as "longer", change the product shown last by one step of their scale.
    """
    shown, _, feedback = rounds[-1].partition(BUT)
    words = _compared(describer.read(shown), feedback, describer.vocabulary.lists_of, code)
    for text in rounds:
        asserted, denied = stated_attributes(text.partition(BUT)[2], describer.vocabulary)
        words = tuple(word for word in words if word not in denied)
        topics = [topic for topic in describer.topics if set(topic.words) & set(asserted)]
        words = refine(words, tuple(asserted), topics)
    return describer.write(words)


def _compared(words: Words, feedback: str, known: Collection[str], code: str) -> Words:
    for scale in language(code).scales.values():
        levels = [some for level in scale.levels if (some := sorted(level.intersection(known)))]
        at = [number for number, level in enumerate(levels) if set(level) & set(words)]
        for step, phrase in ((-1, scale.less), (1, scale.more)):
            if at and f" {phrase} " in f" {feedback} ":
                other = levels[min(max(at[0] + step, 0), len(levels) - 1)][:1]
                words = (*(word for word in words if word not in levels[at[0]]), *other)
    return words
