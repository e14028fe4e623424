"""`fashioniq make-descriptions`."""

import torch

from fashioniq.config import MakeDescriptions
from fashioniq.data.catalog import Catalog
from fashioniq.data.dialogues import Dialogue, write_dialogues
from fashioniq.loop.messages import Message
from fashioniq.systems.generation import describer_of
from fashioniq.users.correcting import Correcting


def run(settings: MakeDescriptions) -> None:
    """Write the descriptions of each product as a dialog, in PlugIR's format."""
    catalog = Catalog(settings.data, settings.category)
    describer, ids = describer_of(catalog), catalog.ids(settings.split)
    user = Correcting(
        describer, [catalog.labels.get(name, []) for name in ids], None, settings.details, settings.seed
    )
    every = torch.arange(len(ids))
    texts = [user.reply(every, Message(), number).texts or () for number in range(1 + settings.rounds)]
    write_dialogues(
        settings.out, [Dialogue(name, said) for name, said in zip(ids, zip(*texts, strict=True), strict=True)]
    )
    print(
        f"{len(ids):,} products of {settings.split}, {1 + settings.rounds} descriptions each, in {settings.out}"
    )
