"""DAR: recorded questions and answers, searched with their text and pictures generated from it (Long et al. 2025)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
from fashioniq.generators.pictures import Generator
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
    return chatir.build(options, _TextAndPictures(options, rewriting, generator))


@dataclass(frozen=True)
class _TextAndPictures:
    """Makes DAR's retriever of the text retriever of a dialog file: its text rewritten, with generated pictures."""

    options: EvalDAR
    rewriting: Callable[[str], Rewriting]
    generator: Generator | None

    def __call__(
        self, retriever_of: chatir.RetrieverOf, space: SearchSpace, gallery: Gallery, alone: bool
    ) -> tuple[chatir.RetrieverOf, dict[str, Any], Callable[[], list[dict[str, float]]]]:
        options, generator, costs = self.options, self.generator, Costs()
        name = ("last" if alone else "join") if options.rewrite == "auto" else options.rewrite
        write = self.rewriting(name)
        facts: dict[str, Any] = {"rewrite": name, "seed": options.seed}
        rewritten = None
        if by_model(name) and space.encoder:
            rewritten = TextRetriever(space.encoder, write.text)
            facts |= {"query": f"the dialog rewritten ({name})", "cut": []}
        if generator is None:
            return (lambda rows: rewritten) if rewritten else retriever_of, facts, costs.rows
        encode = picture_encoder(
            space.encoder,
            lambda: features_of_pictures(
                options.predictor, FeatureStore(space.facts["store"]), options.device
            ),
        )

        def illustrated(rows: Sequence[int]) -> Retriever:
            # a folder has the pictures of a dialog under its number in the file, not in the batch
            of_row = (
                (lambda row, *place: seed_of(rows[row], *place)) if isinstance(generator, Folder) else None
            )
            return Illustrated(
                rewritten or retriever_of(rows),
                write.prompts,
                generator,
                encode,
                seed=options.seed,
                seed_of=of_row,
                costs=costs,
                **illustrating(options),
            )

        return illustrated, facts_of_pictures(options, generator) | facts, costs.rows


def _describer(options: EvalDAR) -> Describer:
    if options.category is None:
        raise UserError("--rewrite attributes writes in the words of a catalog; give --category (and --data)")
    return describer_of(Catalog(options.data, options.category))
