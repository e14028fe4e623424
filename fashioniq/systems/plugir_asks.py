"""PlugIR in simulated dialogs: questions about the candidates, answers from labels, a rewritten query (Lee et al.
2024).
"""

from collections.abc import Sequence

import torch

from fashioniq.askers.attribute_questions import questions_from_labels
from fashioniq.askers.language_model import LONGEST
from fashioniq.askers.plugir import AboutCandidates, ByLanguageModel, FromLabels, Propose
from fashioniq.config import EvalPlugIR
from fashioniq.data.catalog import text_of
from fashioniq.data.dialogues import each
from fashioniq.data.sanitize import clean
from fashioniq.files import UserError
from fashioniq.generators.described_products import World
from fashioniq.llm.prompts import read_prompts
from fashioniq.llm.rewriting import model_of, rewriter
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
    if not options.language_model and len(describer.topics) < options.rounds:
        raise UserError(
            f"the attributes in {world.catalog.root} give {len(describer.topics)} questions; give --rounds "
            f"{len(describer.topics)} or fewer"
        )
    of_items = [labels.get(name, [[]]) for name in gallery.items.ids]
    words_of = {topic.question: topic.words for topic in describer.topics}
    text, own = each(world.space.text), read_prompts(options.prompt)
    if rewrites := "rewrite" not in options.without:
        text = rewriter(options.rewrite, lambda: describer, device=options.device, own=own).text
    parts = {part: part not in options.without for part in ("context", "filter")}
    if options.language_model:
        propose: Propose = ByLanguageModel(
            model_of(options.language_model, options.device),
            [clean(text_of(world.catalog, name), LONGEST) for name in gallery.items.ids],
            encoder.texts,
            context=parts["context"],
            filtered=parts["filter"],
            prompts=own,
        )
    else:
        propose = FromLabels(
            questions_from_labels(describer.topics, of_items),
            lambda question, said: bool(set(describer.read(said)).intersection(words_of[question])),
            context=parts["context"],
            filtered=parts["filter"],
        )
    asker = AboutCandidates(propose, encoder.texts, text, nearest=options.candidates)
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
