"""Fashion IQ's system with generated pictures (DAR): its query is fused with pictures of the product that is shown,
changed as the user asks.
"""

from collections.abc import Collection, Sequence
from typing import Any

from fashioniq.config import EvalFashionIQDAR
from fashioniq.data.languages import language
from fashioniq.data.statements import stated_attributes
from fashioniq.features.queries import PictureFeatures
from fashioniq.files import UserError
from fashioniq.loop.gallery import Gallery
from fashioniq.loop.messages import Turn
from fashioniq.systems import fashion_iq
from fashioniq.systems.generation import describer_of, generator_of, weights_of
from fashioniq.systems.illustrated import Illustrated
from fashioniq.systems.parts import Parts
from fashioniq.systems.rewriting import prompts
from fashioniq.systems.task import Task
from fashioniq.users.correcting import Describer, Words, refine

BUT = ", but "  # between the description of the product shown and the feedback


def build(options: EvalFashionIQDAR) -> list[Task]:
    """Dialogs of a retriever of Fashion IQ, as in its own system, with one user.

    Raises UserError if a file is missing or does not match.
    """
    weights = weights_of(options)
    assert weights, "the options refuse others"

    def illustrated(parts: Parts, gallery: Gallery) -> tuple[Changed, dict[str, Any]]:
        if options.predictor is None:
            raise UserError("the generated pictures are embedded like the products; give --predictor")
        describer = describer_of(parts.catalog)
        generator = generator_of(options, parts.catalog.category, options.device)
        features = PictureFeatures(parts.store, options.predictor, options.device)
        retriever = Changed(
            parts.retriever,
            prompts(lambda rounds: wanted(rounds, describer, parts.catalog.language)),
            generator,
            lambda pictures: parts.retriever.embed_images(features(pictures)),
            gallery=gallery,
            weights=weights,
            fusion=options.fusion,
            count=options.pictures,
            seed=options.seed,
            more=options.more_pictures,
        )
        retriever.shown = [
            describer.write(_attributes(parts.catalog.labels.get(name, ()))) for name in gallery.items.ids
        ]
        retriever.decode = parts.vocabulary.decode
        facts = {
            "generator": dict(generator.identity),
            "weights_of_text": {"name": options.fusion_weights, "rounds": list(weights.text)},
            "fusion": options.fusion,
            "pictures_per_round": options.pictures,
        }
        return retriever, facts

    return fashion_iq.build(options, illustrated)


class Changed(Illustrated):
    """Illustrated whose rounds are the description of the product shown, and the feedback."""

    shown: Sequence[str]  # description of each product of the gallery
    decode: Any

    def said(self, turn: Turn) -> Sequence[str]:
        """Description of each product shown, and what the user said about it."""
        assert turn.offer.item_B is not None, "Fashion IQ's system offers products"
        return [
            f"{self.shown[item]}{BUT}{text}"
            for item, text in zip(turn.offer.item_B.tolist(), self.decode(turn.words_BL), strict=True)
        ]


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


def _attributes(lists: Sequence[Sequence[str]]) -> Words:
    return tuple(word for words in lists for word in words)
