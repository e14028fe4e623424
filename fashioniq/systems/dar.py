"""DAR: recorded questions and answers, searched with their text and pictures generated from it (Long et al. 2025)."""

from collections.abc import Callable, Sequence
from typing import Any

from fashioniq.config import EvalDAR
from fashioniq.data.catalog import Catalog
from fashioniq.data.descriptions import Describer
from fashioniq.features.store import FeatureStore
from fashioniq.files import UserError
from fashioniq.generators.described_products import (
    describer_of,
    facts_of_pictures,
    features_of_pictures,
    generator_of,
    illustrating,
    picture_encoder,
)
from fashioniq.generators.folder import Folder, seed_of
from fashioniq.generators.illustrated import Costs, Illustrated
from fashioniq.llm.rewriting import rewriter
from fashioniq.loop.gallery import Gallery
from fashioniq.loop.messages import Retriever
from fashioniq.loop.task import Task
from fashioniq.runs.search_space import SearchSpace
from fashioniq.systems import chatir


def build(options: EvalDAR) -> list[Task]:
    """Tasks of the recorded dialogs, one for each file, as in ChatIR's evaluation.

    Raises UserError if a file is missing or does not match.
    """
    if len(options.dialogues) > 1 and (options.generator or "").startswith("folder:"):
        raise UserError("the pictures in a folder belong to one dialog file; give one file with --dialogues")
    write = rewriter(
        options.rewrite,
        lambda: _describer(options),
        device=options.device,
        count=options.pictures,
    )
    generator = generator_of(options, options.data, options.category, options.device)

    def illustrated(
        retriever_of: chatir.RetrieverOf, space: SearchSpace, gallery: Gallery
    ) -> tuple[chatir.RetrieverOf, dict[str, Any], Callable[[], list[dict[str, float]]]]:
        costs = Costs()
        encode = picture_encoder(
            space.encoder,
            lambda: features_of_pictures(
                options.predictor, FeatureStore(space.facts["store"]), options.device
            ),
        )

        def retriever(rows: Sequence[int]) -> Retriever:
            return Illustrated(
                retriever_of(rows),
                write,
                generator,
                encode,
                seed=options.seed,
                seed_of=(lambda row, *place: seed_of(rows[row], *place))
                if isinstance(generator, Folder)
                else None,
                costs=costs,
                **illustrating(options),
            )

        facts = {
            **facts_of_pictures(options, generator),
            "rewrite": options.rewrite,
            "seed": options.seed,
        }
        return retriever, facts, costs.rows

    return chatir.build(options, illustrated)


def _describer(options: EvalDAR) -> Describer:
    if options.category is None:
        raise UserError("--rewrite attributes writes in the words of a catalog; give --category (and --data)")
    return describer_of(Catalog(options.data, options.category))
