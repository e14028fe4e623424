"""GenIR: the user sees a picture generated from the description and corrects the description (Yang et al. 2025).

Its baselines search with the text: verbal feedback corrects the description by itself, prediction feedback by
the best product.
"""

from collections.abc import Sequence
from typing import Any

import torch

from fashioniq.askers.best_item import BestItem
from fashioniq.askers.generated_picture import GeneratedPicture
from fashioniq.askers.recorded import Recorded
from fashioniq.config import EvalGenIR
from fashioniq.loop.messages import Asker, Message, Retriever
from fashioniq.loop.rollout import System
from fashioniq.models.text import TextRetriever
from fashioniq.systems.generation import World, generator_of, picture_encoder
from fashioniq.systems.illustrated import Costs, Illustrated, Weights
from fashioniq.systems.task import Batch, Task
from fashioniq.users.correcting import Correcting


def build(options: EvalGenIR) -> list[Task]:
    """One task: each product of the split is the target of a dialog.

    Raises UserError if a file is missing or does not match.
    """
    world, costs = World.of(options), Costs()
    gallery, labels = world.gallery, world.catalog.labels
    encoder = world.space.encoder
    assert encoder is not None, "a run of train-dialog-encoder has one"
    retriever: Retriever = TextRetriever(encoder, last_only=True)
    asker: Asker = Recorded([Message()] * (1 + options.rounds))
    made_by: dict[str, Any] = {}
    if options.feedback == "visual":
        generator = generator_of(options, world.catalog.category, options.device)
        made_by = {"generator": dict(generator.identity)}
        retriever = Illustrated(
            retriever,
            lambda rounds: rounds[-1],
            generator,
            picture_encoder(encoder, lambda: world.features_of),
            weights=Weights((options.text_weight,)),
            fusion="mean",
            count=options.pictures,
            seed=options.seed,
            costs=costs,
        )
        asker = GeneratedPicture()
    elif options.feedback == "prediction":
        asker = BestItem()
    sight = None if options.feedback == "verbal" else world.seen
    of_items = [labels.get(name, []) for name in gallery.items.ids]

    def batch(rows: Sequence[int]) -> Batch:
        user = Correcting(world.describer, of_items, sight, options.details, options.seed)
        system = System(retriever, asker, gallery, cards=world.cards)
        return Batch(system, user, torch.tensor(rows, device=gallery.vectors_ND.device), Message())

    return [
        Task(
            name=f"genir-{options.feedback}",
            protocol="ChatIR",
            count=len(gallery),
            turns=1 + options.rounds,
            batch=batch,
            facts=world.facts(
                feedback=options.feedback, details=options.details, query="the last round alone", **made_by
            ),
            data={world.catalog.category: world.catalog.fingerprint()},
            cards=world.cards,
            costs=costs.plain,
        )
    ]
