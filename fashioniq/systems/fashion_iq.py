"""Fashion IQ's system: it shows the best product so far, and the user describes how the target differs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fashioniq import plugins
from fashioniq.askers.best_item import BestItem
from fashioniq.config import EvalDialogs
from fashioniq.data.cards import ItemCards
from fashioniq.data.facts import TurnFacts
from fashioniq.features.cards import AttributeWords, cards_of
from fashioniq.features.selection import pairs_with_features
from fashioniq.files import UserError, explaining
from fashioniq.loop.exact import NotFiniteError
from fashioniq.loop.gallery import Gallery
from fashioniq.loop.index import approximate
from fashioniq.loop.messages import Message, Retriever, User
from fashioniq.loop.rollout import System, rollout
from fashioniq.loop.task import Batch, Task
from fashioniq.models.device import pick_device
from fashioniq.runs.evaluation_inputs import EvaluationInputs, facts_of_dialogs, read_evaluation_inputs
from fashioniq.runs.galleries import gallery_of
from fashioniq.runs.trained import load_retriever, load_simulator
from fashioniq.runs.training_data import Selection, data_of
from fashioniq.runs.wording import with_words_of
from fashioniq.systems.recorded_sessions import BatchOf, check_sessions, recorded_dialogs, session_tasks
from fashioniq.users.by_name import named_user
from fashioniq.users.noisy import NoisyUser, noise_draws


def load(run: Path, chosen: Selection) -> System:
    """Load the system of a run of train-retriever or train-composer; its vectors may be `stored` in a folder.

    No product is shown twice if the run was trained with --exclude-shown. Raises UserError if a file is
    missing or does not match the run.
    """
    catalog, store = data_of(run, chosen.data, chosen.category, chosen.features)
    retriever, vocabulary, about = load_retriever(run, catalog.category, store)
    retriever.to(pick_device(chosen.device)).requires_grad_(False)
    items = store.items(catalog.gallery_ids(chosen.split), read=chosen.stored is None).to(
        pick_device(chosen.device)
    )
    gallery = gallery_of(run, items, retriever.embed_images, store.fingerprint(), chosen.stored)
    asker = BestItem(about.exclude_shown)
    system = System(retriever, asker, gallery, vocabulary, cards_of(catalog, store, items.ids))
    return with_words_of(system, run, catalog, vocabulary, chosen.words)


@dataclass(frozen=True)
class DialogPlan:
    """Dialogs of an evaluation: their number and turns, and what describes their user."""

    count: int
    turns: int
    batch: BatchOf
    facts: dict[str, Any]


Wrap = Callable[[EvaluationInputs, Gallery], tuple[Retriever, dict[str, Any]]]


def build(options: EvalDialogs, wrap: Wrap | None = None) -> list[Task]:
    """Simulated or recorded dialogs of a retriever on a split, with one user: by default its first captioner.

    `wrap` makes another retriever of that of the run, with its facts.

    Raises UserError if a file is missing or does not match the run, or if options exclude each other.
    """
    assert options.run is not None, "the folder of the results depends on it"
    check_sessions(options)
    parts, of_sessions = read_evaluation_inputs(options, options.run), options.only_user == "sessions"
    gallery = Gallery(parts.items, parts.items.embedded(parts.retriever.embed_images))
    cards = ItemCards(parts.catalog.images, parts.catalog.titles, AttributeWords(parts.store))
    system = System(parts.retriever, BestItem(parts.exclude_shown), gallery, parts.vocabulary, cards)
    further: dict[str, Any] = {}
    if wrap and not of_sessions:
        retriever, further = wrap(parts, gallery)
        system = replace(system, retriever=retriever)
    elif options.score == "words":
        system = with_words_of(system, options.run, parts.catalog, parts.vocabulary)
    if of_sessions:
        return session_tasks(options, parts, system)
    advice = f"{options.run} has diverged; train it again with a lower --learning-rate"
    plan = _recorded(options, parts, system) if options.only_user == "human" else _simulated(options, parts)
    index = None
    if options.index:
        with explaining("the queries are not finite numbers", f"; {advice}", NotFiniteError):
            found, index = approximate(
                system.gallery, options.index, _sample_queries(system, plan, options.batch_size)
            )
        system = replace(system, gallery=found)
    return [
        Task(
            name=f"dialogs of {options.split}",
            protocol="Fashion IQ dialogs",
            count=plan.count,
            turns=plan.turns,
            batch=lambda rows: plan.batch(system, rows),
            facts=TurnFacts(**facts_of_dialogs(options, parts, plan.facts, index) | further),
            data={parts.catalog.category: parts.catalog.fingerprint()},
            truth=parts.truth,
            retriever=parts.about.provenance or None,
            cards=cards,
            repeated=options.only_user == "human",
            advice=advice,
        )
    ]


@torch.no_grad()
def _sample_queries(system: System, plan: DialogPlan, batch_size: int) -> Tensor:
    """Queries Q×D of one batch of dialogs, spread evenly over the plan; the search is exact."""
    rows = range(0, plan.count, -(-plan.count // batch_size))
    _, user, target_B, first = plan.batch(system, rows)
    return rollout(system, user, target_B, first, plan.turns).query_BTD.flatten(0, 1)


def _simulated(options: EvalDialogs, parts: EvaluationInputs) -> DialogPlan:
    """Plan with each item as the target once.

    The user is a captioner, by default that of the training, or describes labels or drawn garments.
    """
    if options.captions != "each":
        raise UserError(
            f"--captions {options.captions} needs recorded captions; add --user human or leave it out"
        )
    items, named = parts.items, options.only_user
    if named is not None and plugins.is_part("users", named):
        max_words = parts.retriever.max_words
        user, of_user = named_user(
            named,
            vocabulary=parts.vocabulary,
            max_words=max_words,
            catalog=parts.catalog,
            ids=items.ids,
            items=items,
            seed=options.seed,
            options=getattr(options, "user_options", None),
            device=str(parts.device),
        )
    else:
        user, of_user, max_words = _captioner(options, parts)
    if options.word_noise:
        chance_TNL = noise_draws(options.seed, options.turns, len(items), max_words, parts.device)
        user = NoisyUser(user, options.word_noise, parts.vocabulary, chance_TNL)
    first_N = _first_shown(len(items), options.seed).to(parts.device)

    def batch(system: System, rows: Sequence[int]) -> Batch:
        target_B = torch.tensor(list(rows), device=parts.device)
        return Batch(system, user, target_B, Message(item_B=first_N[target_B]))

    return DialogPlan(len(items), options.turns, batch, of_user | {"errors": options.word_noise})


def _captioner(options: EvalDialogs, parts: EvaluationInputs) -> tuple[User, dict[str, Any], int]:
    """A captioner as user, its facts, and the length of its replies in words."""
    if not (named := options.only_user or parts.about.user):
        raise UserError(
            f"{options.run} was trained without a captioner; give --user differences, human or a run of train-captioner"
        )
    run = Path(named)
    simulator, about = load_simulator(
        run,
        parts.catalog.category,
        parts.store,
        parts.truth,
        beams=options.beam,
        samples=options.samples,
    )
    facts = {"user": str(run), "captions": about.data.captions, "decoding": simulator.decoding}
    user = simulator.user(parts.items, parts.vocabulary, options.seed)
    return user, facts, simulator.captioner.max_words


def _first_shown(count: int, seed: int) -> Tensor:
    """For each of N targets the position of a different product, drawn with the seed alone."""
    step_N = torch.randint(1, count, (count,), generator=torch.Generator().manual_seed(seed))
    return (torch.arange(count) + step_N) % count


def _recorded(options: EvalDialogs, parts: EvaluationInputs, system: System) -> DialogPlan:
    """Plan of the captioned pairs of the split, one turn each: the candidate is shown, the captions are the
    feedback.
    """
    pairs = pairs_with_features(parts.catalog, parts.store, options.split)
    each = options.captions == "each"
    dialogs = [
        (pair.target, [(pair.candidate, text)])
        for pair in pairs
        for text in (pair.captions if each else (" and ".join(pair.captions),))
        if pair.target
    ]
    longest = parts.retriever.max_words * (1 if each else 2)
    facts = {
        "user": f"recorded captions, {options.captions}",
        "captions": parts.catalog.captions_origin,
        "decoding": "none",
        "errors": options.word_noise,
        "pairs": len(pairs),
        "coverage_of_pairs": len(pairs) / len(parts.catalog.pairs(options.split)),
    }
    return DialogPlan(len(dialogs), 1, recorded_dialogs(options, parts, system, dialogs, longest), facts)
