"""DAR: recorded questions and answers, searched with their text and pictures generated from it (Long et al. 2025)."""

from collections.abc import Callable, Sequence
from typing import Any

from fashioniq.config import EvalDAR
from fashioniq.data.catalog import Catalog
from fashioniq.data.dialogues import last_round
from fashioniq.features.store import FeatureStore
from fashioniq.files import UserError
from fashioniq.generators.folder import Folder, seed_of
from fashioniq.loop.messages import Retriever
from fashioniq.systems import chatir
from fashioniq.systems.generation import describer_of, features_of_pictures, generator_of, picture_encoder
from fashioniq.systems.illustrated import CODE, PAPER, Costs, Illustrated, Weights
from fashioniq.systems.search_space import SearchSpace
from fashioniq.systems.task import Task

WEIGHTS = {
    "paper": PAPER,
    "code": CODE,
    "text": Weights((1.0,)),
    "pictures": Weights((0.0,)),
    "agreement": Weights(PAPER.text, by_agreement=True),
}


def build(options: EvalDAR) -> list[Task]:
    """Tasks of the recorded dialogs, one for each file, as in ChatIR's evaluation.

    Raises UserError if a file is missing or does not match.
    """
    if len(options.dialogues) > 1 and (options.generator or "").startswith("folder:"):
        raise UserError("the pictures in a folder belong to one dialog file; give one file with --dialogues")
    rewrite = _rewriting(options)
    generator = generator_of(options, options.category, options.device)

    def illustrated(
        retriever_of: chatir.RetrieverOf, space: SearchSpace
    ) -> tuple[chatir.RetrieverOf, dict[str, Any], Callable[[], list[dict[str, float]]]]:
        costs = Costs()
        encode = picture_encoder(
            space.encoder,
            lambda: features_of_pictures(options, FeatureStore(space.facts["store"]), options.device),
        )

        def retriever(rows: Sequence[int]) -> Retriever:
            return Illustrated(
                retriever_of(rows),
                rewrite,
                generator,
                encode,
                weights=WEIGHTS[options.fusion_weights],
                fusion=options.fusion,
                count=options.pictures,
                seed=options.seed,
                seed_of=(lambda row, *place: seed_of(rows[row], *place))
                if isinstance(generator, Folder)
                else None,
                costs=costs,
            )

        facts = {
            "generator": dict(generator.identity),
            "weights_of_text": options.fusion_weights,
            "fusion": options.fusion,
            "pictures_per_round": options.pictures,
            "rewrite": options.rewrite,
            "seed": options.seed,
        }
        return retriever, facts, costs.rows

    return chatir.build(options, illustrated)


def _rewriting(options: EvalDAR) -> Callable[[Sequence[str]], str]:
    if options.rewrite == "join":
        return ", ".join
    if options.rewrite == "last":
        return last_round
    if options.category is None:
        raise UserError("--rewrite attributes writes in the words of a catalog; give --category (and --data)")
    return describer_of(Catalog(options.data, options.category)).rewrite
