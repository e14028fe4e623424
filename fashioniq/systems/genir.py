"""GenIR: the user sees a picture generated from the description and corrects the description (Yang et al. 2025).

Its baselines search with the text: verbal feedback corrects the description by itself, prediction feedback by
the best product.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from PIL.Image import Image

from fashioniq import plugins
from fashioniq.askers.best_item import BestItem
from fashioniq.askers.generated_picture import GeneratedPicture
from fashioniq.askers.recorded import RecordedOffers
from fashioniq.config import EvalGenIR
from fashioniq.config.dialogue import PEOPLE
from fashioniq.data.dialogues import each, last_round
from fashioniq.data.parts import named_part
from fashioniq.generators.by_name import generator_by_name
from fashioniq.generators.described_products import (
    WEIGHTS,
    World,
    facts_of_pictures,
    features_of_pictures,
    generator_of,
    illustrating,
    picture_encoder,
)
from fashioniq.generators.illustrated import Costs, Illustrated
from fashioniq.llm.endpoint import Endpoint
from fashioniq.llm.local import VisionLanguageModel
from fashioniq.llm.prompts import read_prompts
from fashioniq.llm.rewriting import prompts
from fashioniq.loop.messages import Asker, Message, Retriever, User
from fashioniq.loop.rollout import System
from fashioniq.loop.task import Batch, Task
from fashioniq.models.device import pick_device
from fashioniq.models.text import TextRetriever
from fashioniq.report.person_page import person_page
from fashioniq.runs.training_data import Selection
from fashioniq.systems import chatir
from fashioniq.users.correcting import Correcting
from fashioniq.users.describing_pictures import SAMPLINGS, DescribingPictures, Seeing, Sight
from fashioniq.users.person import DescribingPerson, Terminal
from fashioniq.users.vision import PicturesByName


def build(options: EvalGenIR) -> list[Task]:
    """One task: each product of the split is the target of a dialog.

    Raises UserError if a file is missing or does not match.
    """
    world, costs = World.of(options), Costs()
    gallery = world.gallery
    encoder = world.space.encoder
    assert encoder is not None, "a run of train-dialog-encoder has one"
    retriever: Retriever = TextRetriever(encoder, each(last_round))
    asker: Asker = RecordedOffers([Message()] * (1 + options.rounds))
    made_by: dict[str, Any] = {}
    if options.feedback == "visual":
        generator = generator_of(
            options, options.data, world.catalog.category, options.device, keep=options.record
        )
        made_by = facts_of_pictures(options, generator)
        retriever = Illustrated(
            retriever,
            prompts(last_round),
            generator,
            picture_encoder(encoder, lambda: world.features_of),
            seed=options.seed,
            costs=costs,
            **illustrating(options),
        )
        asker = GeneratedPicture()
    elif options.feedback == "prediction":
        asker = BestItem()
    user_of, target_N = _users(options, world, costs), world.targets

    def batch(rows: Sequence[int]) -> Batch:
        user = user_of()
        system = System(retriever, asker, gallery, cards=world.cards)
        return Batch(system, user, target_N[list(rows)].to(gallery.vectors_ND.device), Message())

    task = Task(
        name=f"genir-{options.feedback}",
        protocol="ChatIR",
        count=len(target_N),
        turns=1 + options.rounds,
        batch=batch,
        facts=world.facts(
            user=options.user,
            feedback=options.feedback,
            details=options.details,
            query="the last round alone",
            **made_by,
        ),
        data={world.catalog.category: world.catalog.fingerprint()},
        cards=world.cards,
        costs=costs.rows,
    )
    return [task]


def load(run: Path, chosen: Selection, generator: str, predictor: Path | None) -> System:
    """Load the system of a run of train-dialog-encoder that searches with a picture generated from the last reply.

    Each reply is a whole description, and the picture is the next offer. It is the same in every replay, since its
    seed depends on the words alone; an endpoint may ignore seeds. Nothing is written to a cache, as prompts are words
    of people. Raises UserError if a file is missing or does not match the run.
    """
    device = chosen.device
    data = chatir.run_data(run, features=chosen.features, data=chosen.data, category=chosen.category)
    system, (catalog, store) = chatir.system_of(run, chosen, data), data
    assert isinstance(system.retriever, TextRetriever), "chatir makes one"
    encoder = system.retriever.encoder
    folder, name = (catalog.root, catalog.category) if catalog else (Path(), None)
    retriever = Illustrated(
        TextRetriever(encoder, each(last_round)),
        prompts(last_round),
        generator_by_name(generator, pick_device(device), folder, name),
        picture_encoder(encoder, lambda: features_of_pictures(predictor, store, device)),
        weights=WEIGHTS["pictures"],
    )
    # words that the encoder does not know may be in the picture, which shows what was understood
    return replace(system, retriever=retriever, asker=GeneratedPicture(), vocabulary=None)


def _users(options: EvalGenIR, world: World, costs: Costs) -> Callable[[], User]:
    """Function that creates the user of a batch, who remembers what was said."""
    ids, images = world.gallery.items.ids, world.catalog.images
    if options.user == "labels":
        sight = None if options.feedback == "verbal" else world.seen
        if sight:
            _ = world.features_of  # a missing predictor is refused before a picture is generated
        labels = [world.catalog.labels.get(name, []) for name in ids]
        return lambda: Correcting(world.describer, labels, sight, options.details, options.seed)
    if plugins.is_from_outside("users", options.user):
        own = named_part(
            "users",
            options.user,
            options=getattr(options, "user_options", None),
            catalog=world.catalog,
            ids=ids,
            items=world.gallery.items,
            seed=options.seed,
            device=options.device,
        )
        return lambda: cast(User, own)
    if options.user in PEOPLE:

        def picture_of(item: int) -> Path | str:
            return images.get(ids[item], ids[item])

        shown: dict[str, Callable[[Message], Sequence[Image | Path | str | None]] | None] = {
            "visual": lambda offer: offer.pictures or (),
            "prediction": lambda offer: list(map(picture_of, _items(offer))),
            "verbal": None,
        }
        ask = person_page().ask if options.user == "page" else Terminal(options.cache)
        return lambda: DescribingPerson(picture_of, shown[options.feedback], ask, costs.judge)
    model, pictures, own_prompts = _seeing(options), PicturesByName(images), read_prompts(options.prompt)
    sees: dict[str, Sight | None] = {
        "visual": lambda offer: offer.pictures or (),
        "prediction": lambda offer: [pictures[ids[item]] for item in _items(offer)],
        "verbal": None,
    }
    return lambda: DescribingPictures(
        model,
        pictures,
        ids,
        sees[options.feedback],
        shown_as="found with" if options.feedback == "prediction" else "drawn from",
        lengths=SAMPLINGS[options.sampling][0],
        prompts=own_prompts,
    )


def _items(offer: Message) -> list[int]:
    assert offer.item_B is not None, "the best product is offered"
    return [int(item) for item in offer.item_B]


def _seeing(options: EvalGenIR) -> Seeing:
    """Vision-language model of --user."""
    kind, _, name = options.user.partition(":")
    sampling = SAMPLINGS[options.sampling][1]
    if kind == "endpoint":
        return Endpoint(name, sampling=sampling, seed=options.seed)
    return VisionLanguageModel(name, pick_device(options.device), sampling, options.seed)
