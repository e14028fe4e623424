"""DAR: recorded questions and answers, searched with their text and pictures generated from it (Long et al. 2025)."""

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from fashioniq.config import EvalDAR
from fashioniq.data.catalog import Catalog
from fashioniq.data.descriptions import Describer
from fashioniq.data.dialogues import read_dialogues
from fashioniq.features.store import FeatureStore
from fashioniq.files import UserError
from fashioniq.generators.described_products import (
    describer_of,
    facts_of_pictures,
    features_of_pictures,
    generator_of,
    illustrating,
    picture_encoder,
    weights_of,
)
from fashioniq.generators.folder import Folder, seed_of
from fashioniq.generators.illustrated import Costs, Illustrated
from fashioniq.llm.prompts import read_prompts
from fashioniq.llm.rewriting import Rewriting, by_model, rewriter
from fashioniq.loop.gallery import Gallery
from fashioniq.loop.messages import Retriever
from fashioniq.loop.task import Task
from fashioniq.models.text import TextRetriever
from fashioniq.runs.search_space import SearchSpace
from fashioniq.systems import chatir


def build(options: EvalDAR) -> list[Task]:
    """Tasks of the recorded dialogs, one for each file, as in ChatIR's evaluation.

    Raises UserError if a file is missing or does not match.
    """
    if len(options.dialogues) > 1 and (options.generator or "").startswith("folder:"):
        raise UserError("the pictures in a folder belong to one dialog file; give one file with --dialogues")
    own = read_prompts(options.prompt)

    @cache
    def rewriting(name: str) -> Rewriting:
        made_of: dict[str, Any] = {"device": options.device, "count": options.pictures, "own": own}
        return rewriter(name, lambda: _describer(options), **made_of)

    if options.rewrite != "auto":
        rewriting(options.rewrite)  # refuses it before the search space is encoded
    # PlugIR's rewriting alone has no pictures
    without_pictures = options.generator is None and set(weights_of(options)) == {1.0}
    generator = (
        None if without_pictures else generator_of(options, options.data, options.category, options.device)
    )
    if isinstance(generator, Folder) and options.dialogues:
        [path] = map(Path, options.dialogues)
        generator = generator.of_images([dialogue.image for dialogue in read_dialogues(path)], path)

    def illustrated(
        retriever_of: chatir.RetrieverOf, space: SearchSpace, gallery: Gallery, alone: bool
    ) -> tuple[chatir.RetrieverOf, dict[str, Any], Callable[[], list[dict[str, float]]]]:
        costs = Costs()
        name = ("last" if alone else "join") if options.rewrite == "auto" else options.rewrite
        write, by_text = rewriting(name), by_model(name) and space.encoder is not None
        facts: dict[str, Any] = {"rewrite": name, "seed": options.seed}
        if by_text:
            facts |= {"query": f"the dialog rewritten ({name})", "cut": []}

        def text_of(rows: Sequence[int]) -> Retriever:
            return (
                TextRetriever(space.encoder, write.text) if by_text and space.encoder else retriever_of(rows)
            )

        if generator is None:
            return text_of, facts, costs.rows
        encode = picture_encoder(
            space.encoder,
            lambda: features_of_pictures(
                options.predictor, FeatureStore(space.facts["store"]), options.device
            ),
        )

        def retriever(rows: Sequence[int]) -> Retriever:
            return Illustrated(
                text_of(rows),
                write.prompts,
                generator,
                encode,
                seed=options.seed,
                seed_of=(lambda row, *place: seed_of(rows[row], *place))
                if isinstance(generator, Folder)
                else None,
                costs=costs,
                **illustrating(options),
            )

        return retriever, facts_of_pictures(options, generator) | facts, costs.rows

    return chatir.build(options, illustrated)


def _describer(options: EvalDAR) -> Describer:
    if options.category is None:
        raise UserError("--rewrite attributes writes in the words of a catalog; give --category (and --data)")
    return describer_of(Catalog(options.data, options.category))
