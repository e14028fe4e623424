"""What the API and the page do: sessions, turns and searches, independent of HTTP.

A session is its list of turns in the database. The state of its dialog is a cache: where it is missing, such as in
another process, it is replayed from the turns.
"""

import hashlib
import hmac
import random
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from msgspec.structs import replace
from PIL.Image import Image

from fashioniq.data.cards import Product
from fashioniq.data.items import ItemInputs
from fashioniq.data.words import composed, tokenize
from fashioniq.loop.dialog import Dialog, DialogStep
from fashioniq.loop.exact import NotFiniteError
from fashioniq.service.exploring import DEEPEST, explored, propensities
from fashioniq.service.inference import Inference
from fashioniq.service.models import Models
from fashioniq.service.pictures import encoded
from fashioniq.service.problems import Problem, wrong
from fashioniq.service.replies import (
    WIDTH,
    disobedient,
    distant,
    facets,
    generated_picture,
    notices,
    parts,
    result,
    undrawn,
)
from fashioniq.service.reply_schemas import HeardReply, RankingReply, SessionReply, UploadReply
from fashioniq.service.schemas import MAX_TURNS, FiltersBody, SearchBody, SessionBody, TurnBody
from fashioniq.service.served_model import Served
from fashioniq.service.stated_limits import over
from fashioniq.service.store import (
    EventRow,
    Gone,
    KeyReused,
    SessionRow,
    Spool,
    Store,
    TurnConflict,
    TurnRow,
    Unavailable,
    scrub,
)
from fashioniq.service.stored_turns import kind_of, shown, steps_of, stored_step, subject, wishes_of
from fashioniq.service.understanding import Understood, holding, said, understood, without
from fashioniq.service.uploads import restored, stored
from fashioniq.service.word_effects import MOST, effects

KEPT = timedelta(hours=24)  # of the vector of an uploaded picture
REMEMBERED = 2000  # dialogs whose state is kept
WITH_PICTURE = 200  # of them, as soon as they have generated pictures, which are larger
DRAWING = 4  # requests in work that may generate a picture; more are refused
POLICY = "1"  # version of the terms of consent


class Service:
    """Sessions and searches on one database, with the models that are served. All methods raise Problem.

    `explore` is the share of the sessions with consent for training that explore (service/exploring.py), `spool` the
    folder of events that wait for the database (service/store/spool.py).
    """

    def __init__(
        self,
        store: Store,
        models: Models,
        inference: Inference,
        explore: float = 0.0,
        spool: Path | None = None,
    ) -> None:
        self.store, self.models, self.inference, self.explore = store, models, inference, explore
        self.events = Spool(store, spool)
        self._dialogs: OrderedDict[str, Dialog] = OrderedDict()  # state after the turn of a query_id
        self._lock = threading.Lock()
        self._drawing = threading.Semaphore(DRAWING)

    def search(self, category: str, request: SearchBody) -> RankingReply:
        """Products for a whole dialog, of which nothing is stored."""
        watch, served = _Watch(), self.models.active(category)
        heard, filters, notes, steps = HeardReply(), FiltersBody(), tuple[str, ...](), list[DialogStep]()
        for number, turn in enumerate(map(served.spelled, request.said)):
            at = f"/turns/{number}"
            named = {"about": turn.about, "like": turn.like, "less_like": turn.less_like}
            _check(served, {f"{at}/{field}": name for field, name in named.items()})
            step, heard, filters, notes = understood(served, turn, turn.about, turn.question, filters, at=at)
            steps.append(step)
        texts = [turn.says or "" for turn in request.said]
        filters = over(filters, request.filters)
        wanted = _Wanted(filters, request.k, heard, texts, notes, facets=request.facets)
        if not steps:
            return self._diverse(served, wanted, watch)[1]
        steps = _counting(served, steps)
        live, ranking = self._ranking(
            served, lambda: Dialog.start(served.system).replay(steps), wanted, watch
        )
        if request.explain and not served.draws:
            self._explain(ranking, lambda: Dialog.start(served.system).replay(steps[:-1]), steps[-1], live)
        return ranking

    def similar(self, category: str, name: str, k: int) -> RankingReply:
        """Products like one product, without itself."""
        watch, served = _Watch(), self.models.active(category)
        name = served.own(name)
        _check(served, {"/product_id": name})
        ranking = self._ranking(
            served, lambda: _near(served, name), _Wanted(FiltersBody(), k + 1, HeardReply()), watch
        )[1]
        others = [one for one in ranking.results if one.product_id != name][:k]
        ranking.results = [one.model_copy(update={"rank": rank}) for rank, one in enumerate(others, 1)]
        return ranking

    def first(self, category: str) -> RankingReply:
        """The products that a session without a start begins with; nothing is stored."""
        wanted = _Wanted(FiltersBody(), SessionBody(category=category).k, HeardReply(), facets=True)
        return self._diverse(self.models.active(category), wanted, _Watch())[1]

    def start(
        self, request: SessionBody, origin: str, key: str | None = None, secret: str = ""
    ) -> SessionReply:
        """Begin a session. `key` is an idempotency key of the client with the API key `secret`."""
        watch, served = _Watch(), self.models.active(request.category)
        start = served.spelled(request.start)
        _check(served, {"/start/product_id": start.product_id})
        # the token cannot be read from the database; from a key and a secret, it is the same for a repeated request
        token = _token(secret, key) if key else secrets.token_urlsafe(24)
        now = self.store.now()
        with _store_errors():
            client = self.store.client_hmac(request.client_id) if request.client_id else None
        session = SessionRow(
            id=f"ses_{secrets.token_hex(16)}",
            category=served.category,
            model=served.version,
            client=client,
            consent=request.consent,
            policy_version=POLICY,
            origin=origin,  # type: ignore[arg-type]
            token_sha256=_sha256(token),
            created_at=now,
            last_at=now,
            arm="explore" if request.consent == "training" and random.random() < self.explore else None,
        )
        about, filters = start.product_id or start.picture_id, request.filters
        found = Understood(DialogStep(), HeardReply(), filters)
        if start.text:
            found = said(served, start.text, None, "", filters, at="/start/text")
            filters = over(found.filters, filters)
        wanted = _Wanted(
            filters, request.k, found.heard, [start.text or ""], found.notes, facets=request.facets
        )
        if about is None and not start.text:
            live, ranking = self._diverse(served, wanted, watch)
        else:
            near = about and self._item(served, about)
            live, ranking = self._ranking(
                served,
                lambda: _near(served, near) if near else Dialog.start(served.system).after(found.step),
                wanted,
                watch,
            )
        first = self._row(session.id, 0, live, ranking, wanted)
        first = replace(
            first,
            kind="start",
            about=about,
            says=start.text and scrub(start.text),
            heard=first.heard | stored_step(found),
        )
        stored_key = f"{_sha256(secret)[:16]}:{key}" if key else None
        with _store_errors():
            session, stored = self.store.add_session(
                session, first, stored_key, _sha256(request.model_dump_json())
            )
        if stored.query_id == first.query_id:
            self._remember(stored.query_id, live)
        answer = self.read(session, facets=request.facets)
        return answer.model_copy(update={"session_token": token})

    def open(self, session_id: str, token: str | None) -> SessionRow:
        """The session with this id and token."""
        with _store_errors():
            session = self.store.session(session_id)
        if session is None or not hmac.compare_digest(session.token_sha256 or "", _sha256(token or "")):
            raise Problem("unknown-session")
        if session.ended_at is not None:
            raise Problem("session-expired")
        return session

    def read(self, session: SessionRow, facets: bool = False) -> SessionReply:
        """All turns of a session, and the products of the last one as they were shown."""
        with _store_errors():
            turns = self.store.turns(session.id)
        if not turns:
            raise Problem("unknown-session")
        served = self.models.version(session.model)
        return SessionReply(
            session_id=session.id,
            category=session.category,
            model=session.model,
            consent=session.consent,
            filters=FiltersBody.model_validate(turns[-1].filters),
            about=None if served.asks else subject(turns),
            turns=[shown(turn) for turn in turns],
            last=self._stored(served, turns, facets),
        )

    def add_turn(self, session: SessionRow, request: TurnBody, key: str | None = None) -> RankingReply:
        """Add a turn: words, a product that the person likes, or new filters alone.

        The same request with the same key gets the answer of the first one.
        """
        watch, served, sha256 = (
            _Watch(),
            self.models.version(session.model),
            _sha256(request.model_dump_json()),
        )
        request = served.spelled(request)
        with _store_errors():
            turns = self.store.turns(session.id)
            repeated = self.store.repeated(session.id, key, sha256) if key else None
        if repeated:
            return self._stored(served, [one for one in turns if one.n < repeated.n] + [repeated])
        if not turns:
            raise Problem("unknown-session")
        last = turns[-1]
        if request.after_turn is not None and request.after_turn != last.n:
            raise Problem("turn-conflict", more={"turn": last.n})
        if last.n >= MAX_TURNS:
            raise Problem("too-many-turns")
        mentioned = {one["id"] for turn in turns for one in turn.shown} | {turn.about for turn in turns}
        for field in ("about", "like", "less_like"):
            name = getattr(request, field)
            uploaded = field == "about" and _is_picture(name)
            if name and name not in mentioned and not uploaded:
                raise wrong(f"/{field}", "not_shown", "not-shown")
        question = last.heard.get("asks", "")
        chosen = subject(turns) if request.about is None else request.about or None
        about = last.heard.get("offers") if served.asks else chosen
        found = self._understood(served, turns, request, about, question)
        step = self._resolved(served, found.step)
        before = self._before(served, turns)
        if served.draws and step.says:  # words that replace all others
            before = lambda: Dialog.start(served.system)  # noqa: E731
        texts = [*(turn.says or "" for turn in turns), request.says or ""]
        explores = session.arm == "explore"
        wanted = _Wanted(
            found.filters,
            request.k,
            found.heard,
            texts,
            found.notes,
            facets=request.facets,
            explores=explores,
        )
        live, ranking = self._ranking(served, lambda: before().after(step), wanted, watch)
        row = self._row(session.id, last.n + 1, live, ranking, wanted)
        row = replace(
            row,
            kind="drop" if request.drop else kind_of(step),
            about=request.like or request.less_like or (about if request.says else None),
            question=question if request.says else None,
            says=request.says and scrub(request.says),
            heard=row.heard | stored_step(found),
        )
        with _store_errors():
            stored = self.store.add_turn(row, last.n, key, sha256)
        if stored.query_id != row.query_id:  # two equal requests at the same time
            return self._stored(served, [*turns, stored])
        self._remember(stored.query_id, live)
        if request.explain and not served.draws:  # it would generate a picture for each word
            self._explain(ranking, before, step, live)
        return ranking

    def _understood(
        self, served: Served, turns: Sequence[TurnRow], request: TurnBody, about: str | None, question: str
    ) -> Understood:
        """A turn after stored ones; filters of the request replace those of before, also what is said of them."""
        present = FiltersBody.model_validate(turns[-1].filters)
        filters = present if request.filters is None else request.filters
        if request.drop is not None:
            filters, step = without(filters, wishes_of(served, turns), request.drop)
            return Understood(step, HeardReply(), filters)
        found = understood(served, request, about, question, filters)
        return found if request.filters is None else found._replace(filters=over(found.filters, filters))

    def picture(self, session: SessionRow, n: int) -> bytes:
        """The picture that turn `n` showed, as WebP: generated from the last words up to it."""
        with _store_errors():
            turns = [turn for turn in self.store.turns(session.id) if turn.n <= n]
        if not turns or turns[-1].n != n or not turns[-1].heard.get("picture"):
            raise Problem("unknown-picture")
        served = self.models.version(session.model)
        if (live := self._known(served, turns[-1].query_id)) is None:
            with self._place(served):
                live = self.inference.call(self._before(served, turns))
            self._remember(turns[-1].query_id, live)
        if not (picture := _generated(live)):
            raise Problem("unknown-picture")
        return encoded(picture, WIDTH)

    def undo(self, session: SessionRow, n: int) -> SessionReply:
        """Take turn `n` and all later ones back."""
        if n < 1:
            raise wrong("/n", "the start cannot be undone")
        with _store_errors():
            self.store.undo(session.id, n)
        return self.read(session)

    def choose(self, session: SessionRow, name: str, event_id: str) -> None:
        """Store that a product shown is what the person looked for. Repeated calls with an `event_id` count once."""
        with _store_errors():
            for turn in reversed(self.store.turns(session.id)):
                ids = [composed(one["id"]) for one in turn.shown]
                if composed(name) in ids:
                    place = ids.index(composed(name))
                    event = EventRow(
                        event_id=event_id,
                        query_id=turn.query_id,
                        session_id=session.id,
                        action="this_is_it",
                        product_id=turn.shown[place]["id"],
                        position=place + 1,
                        server_at=self.store.now(),
                    )
                    self.store.add_events([event])
                    return
        raise wrong("/product", "not_shown", "not-shown")

    def _diverse(self, served: Served, wanted: "_Wanted", watch: "_Watch") -> tuple[Dialog, RankingReply]:
        """The first products for someone who has not said anything: some that differ from each other."""
        mask_N, eligible = served.shelf.allowed(wanted.filters)

        def begin() -> tuple[Dialog, list[Product]]:
            live = Dialog.start(served.system)
            if served.asks:
                _ = live.offer
            return live, [served.product(name, live) for name in served.first(mask_N, wanted.k)]

        live, products = self.inference.call(begin)
        return live, self._answer(served, live, products, wanted=wanted, eligible=eligible, watch=watch)

    def _ranking(
        self, served: Served, live_of: Callable[[], Dialog], wanted: "_Wanted", watch: "_Watch"
    ) -> tuple[Dialog, RankingReply]:
        """The dialog that `live_of` returns, and the products nearest to its query."""
        mask_N, eligible = served.shelf.allowed(wanted.filters)

        def live_with_offer() -> Dialog:
            live = live_of()
            if served.asks:
                _ = live.offer  # in the thread of the models; later it is only read
            return live

        try:
            count = max(wanted.k, DEEPEST) if wanted.explores else wanted.k
            with self._place(served):
                live, products = self.inference.search(
                    live_with_offer, count, None if eligible == len(mask_N) else mask_N
                )
        except NotFiniteError:
            raise Problem("unusable-run") from None
        products = explored(products, wanted.k) if wanted.explores else products
        return live, self._answer(served, live, products, wanted=wanted, eligible=eligible, watch=watch)

    def _answer(
        self,
        served: Served,
        live: Dialog,
        products: Sequence[Product],
        *,
        wanted: "_Wanted",
        eligible: int,
        watch: "_Watch",
    ) -> RankingReply:
        turns, wishes = len(live.state.turns), live.wishes
        read = wishes if served.system.wording else None
        return RankingReply(
            query_id=f"q_{secrets.token_hex(16)}",
            turn=turns,
            model=served.version,
            question=live.question if served.asks else "",
            took_ms=watch.milliseconds,
            eligible=eligible,
            exact=served.system.gallery.index is None,
            heard=wanted.heard,
            filters=wanted.filters,
            holding=holding(wishes, wanted.filters),
            results=[result(served, one, rank, wanted.texts, read) for rank, one in enumerate(products, 1)],
            facets=facets(served, wishes, wanted.filters) if wanted.facets else None,
            notices=[
                *notices(served, turns, wanted.heard, wanted.notes, None if products else wanted.filters),
                *undrawn(_width(live)),
                *distant(served, turns, products),
                *disobedient(served, wishes, products),
            ],
        )

    def _explain(
        self, ranking: RankingReply, before: Callable[[], Dialog], step: DialogStep, live: Dialog
    ) -> None:
        """Add the parts of the scores after a step, and the effects of its words, to the results."""
        words = list(dict.fromkeys(ranking.heard.known))[:MOST]
        ids = [one.product_id for one in ranking.results]
        found, scores = self.inference.call(
            lambda: (effects(before(), step, words, ids), [parts(live, name) for name in ids])
        )
        for one, places, of_score in zip(ranking.results, found, scores, strict=True):
            one.effects, one.parts = places, of_score

    def _row(
        self, session_id: str, n: int, live: Dialog, ranking: RankingReply, wanted: "_Wanted"
    ) -> TurnRow:
        """Row of a turn; `heard` also has what the system offers next, of a picture its width."""
        assert ranking.query_id is not None
        ranking.turn = n
        width = _width(live)
        ranking.picture = generated_picture(session_id, n, width, wanted.texts)
        vocabulary = live.system.vocabulary
        words = [
            word for word in tokenize(" ".join(ranking.heard.known)) if vocabulary and word in vocabulary
        ]
        asks, shown = bool(ranking.question), len(ranking.results)
        explores = wanted.explores and shown
        chances = propensities(shown, wanted.k, ranking.eligible) if explores else [1.0] * shown
        return TurnRow(
            query_id=ranking.query_id,
            session_id=session_id,
            n=n,
            kind="says",
            word_ids=vocabulary.ids(" ".join(words)) if vocabulary else [],
            filters=wanted.filters.model_dump(exclude_none=True),
            shown=[
                {"id": one.product_id, "score": one.score, "propensity": propensity}
                for one, propensity in zip(ranking.results, chances, strict=True)
            ],
            heard=ranking.heard.model_dump()
            | ({"asks": ranking.question, "offers": live.offered} if asks else {})
            | ({} if width is None else {"picture": width}),
            eligible=ranking.eligible,
            took_ms=ranking.took_ms,
            created_at=self.store.now(),
        )

    def _stored(self, served: Served, turns: Sequence[TurnRow], with_facets: bool = False) -> RankingReply:
        """The answer to the last of the turns as it was given, with the facts of the products of today."""
        last, texts = turns[-1], [turn.says or "" for turn in turns]
        cards, filters = served.system.cards, FiltersBody.model_validate(last.filters)
        wishes = wishes_of(served, turns)
        read = wishes if served.system.wording else None
        results = [
            result(served, cards.product(one["id"], 0.0), rank, texts, read).model_copy(
                update={"score": one["score"]}
            )
            for rank, one in enumerate(last.shown, 1)
        ]
        heard = HeardReply(
            **{name: last.heard[name] for name in HeardReply.model_fields if name in last.heard}
        )
        heard_turns = sum(len(turn.heard.get("clauses", ())) for turn in turns)
        unmet, notes = None if results else filters, last.heard.get("notes", ())
        return RankingReply(
            query_id=last.query_id,
            turn=last.n,
            model=served.version,
            question=last.heard.get("asks", ""),
            picture=generated_picture(last.session_id, last.n, last.heard.get("picture"), texts),
            took_ms=last.took_ms,
            eligible=last.eligible,
            exact=served.system.gallery.index is None,
            heard=heard,
            filters=filters,
            holding=holding(wishes, filters),
            results=results,
            facets=facets(served, wishes, filters) if with_facets else None,
            notices=[*notices(served, heard_turns, heard, notes, unmet), *undrawn(last.heard.get("picture"))],
        )

    def _before(self, served: Served, turns: Sequence[TurnRow]) -> Callable[[], Dialog]:
        """Function for the thread of the models that returns the dialog after these turns."""
        steps = steps_of(turns)
        steps = [self._resolved(served, step) for step in steps]
        steps = _counting(served, steps)
        start = turns[0].about and self._item(served, turns[0].about)

        def live() -> Dialog:
            if (found := self._known(served, turns[-1].query_id)) is not None:
                return found
            return (_near(served, start) if start else Dialog.start(served.system)).replay(steps)

        return live

    def upload(self, category: str, content: bytes) -> UploadReply:
        """Read a picture, of which only the vector is kept, for 24 hours."""
        served = self.models.active(category)
        if (uploads := served.uploads) is None:
            raise Problem("no-picture-encoder")
        square = uploads.read(content)
        inputs: ItemInputs = self.inference.call(lambda: uploads.encode(square))
        feature, attributes = stored(inputs)
        expires_at = self.store.now() + KEPT
        words = [uploads.words[number - 1] for number in attributes if number]
        with _store_errors():
            id = self.store.add_picture(None, feature, {"ids": attributes}, expires_at)
        return UploadReply(picture_id=id, attributes=words, expires_at=expires_at)

    def _item(self, served: Served, name: str) -> str | ItemInputs:
        """Inputs of an uploaded picture, or the id of a product as it is."""
        if not _is_picture(name):
            if name not in served:  # when the conversation mentioned it, the model had other products
                raise Problem("model-retired")
            return name
        if served.uploads is None:
            raise Problem("no-picture-encoder")
        with _store_errors():
            picture = self.store.picture(name)
        if picture is None:
            raise Problem("unknown-picture")
        device = served.system.gallery.vectors_ND.device
        return restored(picture.feature, picture.attrs["ids"], device)

    def _resolved(self, served: Served, step: DialogStep) -> DialogStep:
        about = step.about
        return step._replace(about=self._item(served, about)) if isinstance(about, str) else step

    def _known(self, served: Served, query_id: str) -> Dialog | None:
        """The state after a turn, if it is kept and the model was not loaded again since, with other products."""
        with self._lock:
            found = self._dialogs.get(query_id)
            if found is None or found.system is not served.system:
                return None
            self._dialogs.move_to_end(query_id)
            return found

    def _remember(self, query_id: str, live: Dialog) -> None:
        with self._lock:
            self._dialogs[query_id] = live
            while len(self._dialogs) > (WITH_PICTURE if _width(live) else REMEMBERED):
                self._dialogs.popitem(last=False)

    @contextmanager
    def _place(self, served: Served) -> Iterator[None]:
        """One of the few places of requests that may generate a picture. Raises Problem if all are taken."""
        if not served.draws:
            yield
        elif self._drawing.acquire(blocking=False):
            try:
                yield
            finally:
                self._drawing.release()
        else:
            raise Problem("busy", retry_after=2)

    def forget(self) -> None:
        """Drop all states, which are replayed when they are needed."""
        with self._lock:
            self._dialogs.clear()


@dataclass(frozen=True)
class _Wanted:
    """What a search is for: filters, number of products, what was heard of the last text, and all texts."""

    filters: FiltersBody
    k: int
    heard: HeardReply
    texts: Sequence[str] = ()
    notes: Sequence[str] = ()
    facets: bool = False
    explores: bool = False


class _Watch:
    """Time since its creation."""

    def __init__(self) -> None:
        self._began = time.perf_counter()

    @property
    def milliseconds(self) -> int:
        return round(1000 * (time.perf_counter() - self._began))


def _generated(live: Dialog) -> Image | None:
    """The picture generated from the last words."""
    offered = live.system.offer(live.state).pictures if live.system.shows_pictures else None
    return offered[0] if offered else None


def _width(live: Dialog) -> int | None:
    """Width of the generated picture in pixels as it is shown, 0 if it failed; None if none was wanted."""
    if not live.system.shows_pictures or not live.state.turns:
        return None
    return min(WIDTH, picture.width) if (picture := _generated(live)) else 0


def _counting(served: Served, steps: list[DialogStep]) -> list[DialogStep]:
    """Steps that the query depends on: of a model that generates pictures, the last words. Others cost a picture."""
    return [step for step in steps if step.says][-1:] if served.draws else steps


def _near(served: Served, item: str | ItemInputs) -> Dialog:
    """A dialog without turns whose products are those like a product or picture."""
    return Dialog.start(served.system).at(item)


def _is_picture(name: str | None) -> bool:
    return name is not None and name.startswith("pic_")


def _check(served: Served, names: dict[str, str | None]) -> None:
    """Raise Problem for a product that is not in the gallery; `names` are ids by the place where they were given."""
    for pointer, name in names.items():
        if name is not None and name not in served:
            raise wrong(pointer, "unknown_product", "unknown-product")


def _token(secret: str, key: str) -> str:
    return hmac.digest(secret.encode(), key.encode(), "sha256").hex()


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@contextmanager
def _store_errors() -> Iterator[None]:
    """Turn errors of the store into problems."""
    try:
        yield
    except TurnConflict as error:
        raise Problem("turn-conflict", more={"turn": error.present}) from None
    except KeyReused:
        raise Problem("key-reused") from None
    except Gone:
        raise Problem("session-expired") from None
    except Unavailable:
        raise Problem("database", retry_after=5) from None
