"""Which of two models answers in a conversation, while they are compared in the service, and the answer."""

import logging
import math
import random
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

from torch import Tensor

from fashioniq.data.cards import Product
from fashioniq.files import UserError
from fashioniq.loop.dialog import Dialog
from fashioniq.loop.exact import NotFiniteError
from fashioniq.metrics.interleaving import Interleaved, probabilistic, team_draft
from fashioniq.options import refuse
from fashioniq.service.exploring import DEEPEST
from fashioniq.service.models import Models
from fashioniq.service.problems import Problem
from fashioniq.service.reply_schemas import RankingReply
from fashioniq.service.searches import Searches, Wanted, reply_of
from fashioniq.service.served_model import Served
from fashioniq.service.store import ExperimentRow, SessionRow, Store, Unavailable

LiveOf = Callable[[Served], Callable[[], Dialog]]
log = logging.getLogger("fashioniq.service")


class Contenders(NamedTuple):
    """The models of a conversation: the one that answers, then one that answers if it fails.

    With an interleaving `method` each answer has products of both. `arm` is what the `session` of an experiment sees.
    """

    models: Sequence[Served]
    method: str = "split"
    experiment: str | None = None
    arm: str | None = None
    missing: bool = False  # whether one of them could not be loaded
    session: str = ""

    @property
    def interleaved(self) -> bool:
        """Whether both models answer."""
        return self.arm == "both" and not self.missing

    @property
    def reader(self) -> Served:
        """The model by which words are understood: of two that answer, that which knows more words."""
        vocabularies = [served.system.vocabulary for served in self.models]
        known = [math.inf if one is None else len(one) for one in vocabularies]
        return self.models[known.index(max(known))] if self.interleaved else self.models[0]

    def interleave(self, rankings: Sequence[Sequence[str]], k: int, turns: int) -> Interleaved:
        """One list of k products of the rankings of both models, after some turns; a longer one begins alike."""
        interleave = team_draft if self.method == "team-draft" else probabilistic
        return interleave(rankings[0], rankings[1], k, random.Random(f"{self.session} {turns}"))


class Experiments:
    """The comparisons that run. All processes of a database find the same ones, within a second."""

    def __init__(self, store: Store, models: Models) -> None:
        self.store, self.models = store, models
        self._running: dict[str, tuple[ExperimentRow, Served]] = {}
        self._experiment = lru_cache(store.experiment)
        self._checked: dict[str, tuple[Served, Served]] = {}
        self._reloaded: dict[str, tuple[Served, Served]] = {}  # of experiments whose products differed
        self._refused: dict[str, str] = {}  # why experiments get no conversations
        self._gone: set[str] = set()  # versions whose loading failed unexpectedly

    def refresh(self) -> None:
        """Take over which experiments need conversations, and load their challengers."""
        running = {}
        found = [one for one in self.store.running_experiments() if not self.store.is_full(one)]
        self.models.compared = {version for one in found for version in (one.running, one.challenger)}
        for one in found:
            try:
                models = self._pair(one)
                if self._checked.get(one.id) != models:  # ids of a million products are compared once
                    check_comparable(*models)
                    self._checked[one.id] = models
                running[one.category] = one, models[1]
            except Unavailable:
                raise
            except (Problem, UserError) as error:
                if (reason := str(error)) != self._refused.get(one.id):
                    log.warning("no conversations for the experiment %s: %s", one.id, reason)
                self._refused[one.id] = reason
        self._running = running

    def assigned(self, served: Served, session: str, consent: str, origin: str) -> Contenders:
        """The models of a new conversation with the active model; a coin chooses one for method "split".

        Conversations whose shopper did not agree to measurements, and those of tests and bots, take no part.
        """
        found = self._running.get(served.category)
        takes_part = consent != "none" and origin not in ("test", "bot")
        if not found or not takes_part or found[0].running != served.version:
            return Contenders([served])
        one, challenger = found
        if one.method != "split":
            return Contenders([served, challenger], one.method, one.id, "both", session=session)
        models = [("running", served), ("challenger", challenger)]
        random.shuffle(models)
        return Contenders([model for _, model in models], one.method, one.id, models[0][0])

    def contenders(self, session: SessionRow) -> Contenders:
        """The models of a stored conversation that can be loaded. Raises Problem if none can."""
        one = self._experiment(session.experiment) if session.experiment else None
        if one is None or session.consent == "none":  # or no longer
            return Contenders([self.models.version(session.model)])
        models, failures = [], []
        for version in sorted((one.running, one.challenger), key=lambda name: name != session.model):
            try:
                models.append(self._model(version))
            except Problem as problem:
                failures.append(problem)
        if not models:
            raise failures[0]
        return Contenders(models, one.method, one.id, session.arm, missing=bool(failures), session=session.id)

    def _pair(self, one: ExperimentRow) -> tuple[Served, Served]:
        """Both models. Where their products differ, the challenger is loaded again, once: with new products, only the
        run that serves is registered again.
        """
        pair = self._model(one.running), self._model(one.challenger)
        if pair[0].products_sha256 != pair[1].products_sha256 and self._reloaded.get(one.id) != pair:
            self._reloaded[one.id] = pair
            try:
                pair = pair[0], self.models.loaded(pair[1].folder, again=True)
            except (Problem, Unavailable):  # such as too many requests; it is tried again
                del self._reloaded[one.id]
                raise
            self._reloaded[one.id] = pair
        return pair

    def _model(self, version: str) -> Served:
        """A model. Raises Problem if it cannot be loaded; what failed unexpectedly is not tried again."""
        if version in self._gone:
            raise Problem("model-retired")
        try:
            return self.models.version(version)
        except (Problem, Unavailable):  # such as a folder that was moved, and may be put back
            raise
        except Exception as error:
            log.warning("%s cannot be loaded: %s", version, type(error).__name__)
            self._gone.add(version)
            raise Problem("model-retired") from None


def check_comparable(running: Served, challenger: Served) -> None:
    """Raise UserError unless both models show products, and the same ones."""
    uploads = running.uploads, challenger.uploads
    refuse(
        *(
            (
                served.asks,
                f"expected models that show products, found {served.version}, which asks questions",
            )
            for served in (running, challenger)
        ),
        (
            None not in uploads and uploads[0] is not uploads[1],
            f"expected models with the same encoder of pictures, found others of {running.version} and "
            f"{challenger.version}; extract features with one predictor for both",
        ),
        (
            challenger.category != running.category or challenger.products_sha256 != running.products_sha256,
            f"expected models of the same products, found {challenger.category} of "
            f"{len(challenger.system.gallery):,} products in {challenger.version} and {running.category} of "
            f"{len(running.system.gallery):,} in {running.version}; extract features of one catalog for both",
        ),
    )


def answer(
    searches: Searches, contenders: Contenders, live_of: LiveOf | None, wanted: Wanted
) -> tuple[Served, Dialog, RankingReply]:
    """The model that answers, its dialog, and its products, or those of both models in one list; of a model that fails,
    the other one answers.

    `live_of` returns the function for `Searches.nearest` of a model; without it, the first model answers with products
    that differ from each other. In the log, the products of an interleaved list have their credit, and those of a model
    that answers for another one have "failed". Raises Problem if both fail, or too many requests wait.
    """
    served = contenders.models[0]
    if live_of is None:
        return served, *searches.diverse(served, wanted)
    if len(contenders.models) == 1 and not contenders.missing:
        return served, *searches.nearest(served, live_of(served), wanted)
    in_turn = [contenders.models] if contenders.interleaved else [[one] for one in contenders.models]
    failures = list[Exception]()
    for asked in in_turn:
        answers = list[tuple[Served, Dialog, list[Product]]]()
        for served, found in zip(asked, _each(searches, asked, contenders, live_of, wanted), strict=True):
            if isinstance(found, Exception):
                log.warning("%s failed (%s); the other model answers", served.version, type(found).__name__)
                failures.append(found)
            else:
                answers.append((served, *found))
        if answers:
            break
    else:
        raise Problem("unusable-run") if isinstance(failures[0], NotFiniteError) else failures[0]
    (served, live, products), *more = answers
    own, chances = products[: wanted.k], list[dict[str, float]]()
    if failures or contenders.missing:
        chances = [{"propensity": 1.0, "failed": 1.0}] * len(own)
    mixed = own
    for _, _, others in more:
        of_id = {one.id: one for one in (*others, *products) if one.id in served}
        rankings = [[one.id for one in some if one.id in of_id] for some in (products, others)]
        shown = contenders.interleave(rankings, wanted.k, len(live.state.turns))
        mixed = [of_id[name] for name in shown.items]
        places = zip(shown.propensities, shown.credits, strict=True)
        chances = [{"propensity": propensity, "credit": credit} for propensity, credit in places]
    eligible = served.shelf.allowed(wanted.filters)[1]
    # notices are about the order of the model that answers
    ranking = reply_of(served, live, own, wanted=wanted, eligible=eligible, shown=mixed)
    ranking.result_chances = chances
    for _, other, _ in more:
        searches.states.remember(ranking.query_id or "", other)
    return served, live, ranking


def _each(
    searches: Searches, asked: Sequence[Served], contenders: Contenders, live_of: LiveOf, wanted: Wanted
) -> list[tuple[Dialog, list[Product]] | Exception]:
    """Dialog and products of each model, or why it failed; each is asked once."""

    def job(served: Served) -> tuple[Callable[[], Dialog], int, Tensor | None] | Problem:
        mask_N, eligible = served.shelf.allowed(wanted.filters)
        allowed_N = None if eligible == len(mask_N) else mask_N
        try:
            return live_of(served), count, allowed_N
        except Problem as problem:  # such as a picture that this model cannot read
            return problem

    count = max(wanted.k, DEEPEST) if contenders.method == "probabilistic" else wanted.k
    jobs = [job(served) for served in asked]
    found = iter(searches.inference.search_each([one for one in jobs if not isinstance(one, Problem)]))
    outcomes = [one if isinstance(one, Problem) else next(found) for one in jobs]
    for one in outcomes:
        if isinstance(one, Problem) and one.code == "busy":  # it is not the model's fault
            raise one
    return outcomes
