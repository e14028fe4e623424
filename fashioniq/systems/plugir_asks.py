"""PlugIR in simulated dialogs: questions about the candidates, answers from labels, a rewritten query (Lee et al.
2024).
"""

from collections.abc import Sequence

import torch

from fashioniq.askers.attribute_questions import known
from fashioniq.askers.plugir import AboutCandidates
from fashioniq.config import EvalPlugIR
from fashioniq.data.dialogues import each
from fashioniq.files import UserError
from fashioniq.generators.described_products import World
from fashioniq.llm.rewriting import rewriter
from fashioniq.loop.messages import Message
from fashioniq.loop.rollout import System
from fashioniq.loop.task import Batch, Task
from fashioniq.models.text import TextRetriever
from fashioniq.users.correcting import Correcting
from fashioniq.users.labels import LabelUser
from fashioniq.users.recorded import WithCaption


def build(options: EvalPlugIR) -> list[Task]:
    """One task: each product of the split is the target of a dialog.

    Raises UserError if a file is missing or does not match, or if there are too few questions.
    """
    world = World.of(options)
    gallery, labels, describer = world.gallery, world.catalog.labels, world.describer
    encoder = world.space.encoder
    assert encoder is not None, "a run of train-dialog-encoder has one"
    if len(describer.topics) < options.rounds:
        raise UserError(
            f"the attributes in {world.catalog.root} give {len(describer.topics)} questions; give --rounds "
            f"{len(describer.topics)} or fewer"
        )
    of_items = [labels.get(name, [[]]) for name in gallery.items.ids]
    words_of = {topic.question: topic.words for topic in describer.topics}
    text = each(world.space.joined.join)
    if rewrites := "rewrite" not in options.without:
        rewrite = rewriter(options.rewrite, lambda: describer, device=options.device)

        def text(dialogs: Sequence[Sequence[str]]) -> list[str]:
            return [some[0] for some in rewrite(dialogs)]

    asker = AboutCandidates(
        known(describer.topics, of_items),
        encoder.texts,
        text,
        lambda question, said: bool(set(describer.read(said)).intersection(words_of[question])),
        context="context" not in options.without,
        filtered="filter" not in options.without,
    )
    every = torch.arange(len(gallery))
    captions = (
        Correcting(describer, of_items, None, options.details, options.seed).reply(every, Message(), 0).texts
    )
    user = WithCaption(LabelUser(labels, describer.topics, gallery.items.ids), captions or ())
    system = System(TextRetriever(encoder, text), asker, gallery, cards=world.cards)

    def batch(rows: Sequence[int]) -> Batch:
        return Batch(system, user, world.targets[list(rows)].to(gallery.vectors_ND.device), Message())

    return [
        Task(
            name="plugir",
            protocol="ChatIR",
            count=len(world.targets),
            turns=1 + options.rounds,
            batch=batch,
            facts=world.facts(
                without=options.without,
                query=f"the dialog rewritten ({options.rewrite})" if rewrites else "all rounds",
            ),
            data={world.catalog.category: world.catalog.fingerprint()},
            cards=world.cards,
        )
    ]
