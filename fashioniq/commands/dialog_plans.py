"""Which dialogs an evaluation holds: their targets, what they begin with, and who speaks in them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fashioniq.categories import canonical
from fashioniq.commands.common import load_captioner, pairs_with_features
from fashioniq.config import EvalDialogs
from fashioniq.data.catalog import Catalog
from fashioniq.data.features import FeatureStore, Items
from fashioniq.data.words import Vocabulary
from fashioniq.files import UserError, read_json
from fashioniq.runs import RetrieverRun
from fashioniq.users import CaptionerUser, ErringUser, User, chances, negation, with_errors


@dataclass(frozen=True)
class Plan:
    """Which dialogs are held: targets and first items as positions, and a user, or else the words that were recorded (N×T×L)."""

    target_N: Tensor
    first_N: Tensor
    turns: int
    user: User | None
    words_NTL: Tensor | None
    first_facts: dict[str, Any]


def simulated(
    settings: EvalDialogs, facts: RetrieverRun, items: Items, store: FeatureStore, hears: Vocabulary, device: torch.device
) -> tuple[Plan, dict[str, Any]]:
    """Every item is a target once and a captioner, the retriever's own unless another is named, speaks; also the facts of that user."""
    if settings.captions != "each":
        raise UserError(f"--captions {settings.captions} is for recorded captions: give --user human, or leave it out")
    if not (named := settings.user or facts.user):
        raise UserError("this retriever was trained without a captioner: name one that plays the user with --user")
    run = Path(named)
    captioner, speaks, user_facts = load_captioner(run, settings.category, store)
    user: User = CaptionerUser(captioner.to(device), items, speaks, hears, settings.beam)
    if settings.errors:
        user = ErringUser(user, settings.errors, hears, chances(settings.seed, settings.turns, len(items), captioner.max_words, device))
    target_N = torch.arange(len(items), device=device)
    first_N, first_facts = _first_candidates(settings, items)
    told = {
        "user": str(run),
        "captions": user_facts.data.captions,
        "decoding": f"beam {settings.beam}" if settings.beam > 1 else "greedy",
        "errors": settings.errors,
    }
    return Plan(target_N, first_N.to(device), settings.turns, user, None, first_facts), told


def _first_candidates(settings: EvalDialogs, items: Items) -> tuple[Tensor, dict[str, Any]]:
    """A fixed list, the same for every method: for each target another product, by the seed or from an earlier evaluation."""
    places = {name: place for place, name in enumerate(items.ids)}
    if settings.first_candidates:
        first = read_json(settings.first_candidates, "the first candidates", dict).get("first")
        if not isinstance(first, dict):
            raise UserError(f"{settings.first_candidates} lists no first candidates: give the file of an evaluation with a simulated user")
        if missing := [name for name in items.ids if str(first.get(name)) not in places or first[name] == name]:
            raise UserError(f"{settings.first_candidates} has no first candidate of this gallery for {len(missing)} targets, as {missing[0]}")
    else:
        step_N = torch.randint(1, len(items), (len(items),), generator=torch.Generator().manual_seed(settings.seed))
        first = {name: items.ids[(place + int(step)) % len(items)] for place, (name, step) in enumerate(zip(items.ids, step_N, strict=True))}
    origin = {"from": str(settings.first_candidates)} if settings.first_candidates else {"seed": settings.seed}
    first_facts = {"split": settings.split, "category": canonical(settings.category), **origin, "first": first}
    return torch.tensor([places[first[name]] for name in items.ids]), first_facts


def recorded(
    settings: EvalDialogs, catalog: Catalog, store: FeatureStore, items: Items, hears: Vocabulary, max_words: int
) -> tuple[Plan, dict[str, Any]]:
    """The pairs of the split: the candidate is shown first, and the recorded captions are the one turn."""
    if settings.first_candidates:
        raise UserError("--first-candidates is for a simulated user, people spoke of the candidates of their pairs: leave it out")
    places = {name: place for place, name in enumerate(items.ids)}
    pairs = pairs_with_features(catalog, store, settings.split)
    rows = [
        (places[pair.target], places[pair.candidate], text)
        for pair in pairs
        for text in (pair.captions if settings.captions == "each" else (" and ".join(pair.captions),))
        if pair.target
    ]
    device = items.features_ND.device
    target_N, first_N = (torch.tensor([row[side] for row in rows], device=device) for side in (0, 1))
    longest = max_words if settings.captions == "each" else 2 * max_words
    words_NL = hears.encode([text for *_, text in rows], longest)
    if settings.errors:
        words_NL = with_errors(words_NL, settings.errors, chances(settings.seed, 1, *words_NL.shape)[0], negation(hears))
    told = {
        "user": f"recorded captions, {settings.captions}",
        "captions": catalog.captions_origin,
        "decoding": "none",
        "errors": settings.errors,
        "pairs": len(pairs),
        "coverage_of_pairs": len(pairs) / len(catalog.pairs(settings.split)),
    }
    return Plan(target_N, first_N, 1, None, words_NL.unsqueeze(1).to(device), {"split": settings.split, "first": "the candidate of each pair"}), told
