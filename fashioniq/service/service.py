"""What the API and the page do: sessions, turns and searches, independent of HTTP.

A session is its list of turns in the database. The state of its dialog is a cache: where it is missing, such as in
another process, it is replayed from the turns.
"""

import hmac
import random
import secrets
import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path

from fashioniq.data.items import ItemInputs
from fashioniq.data.words import composed
from fashioniq.loop.dialog import Dialog, DialogStep
from fashioniq.service.dialog_states import DialogStates, generated
from fashioniq.service.experiments import Contenders, Experiments, answer
from fashioniq.service.inference import Inference
from fashioniq.service.models import Models
from fashioniq.service.pictures import encoded
from fashioniq.service.problems import Problem, wrong
from fashioniq.service.replies import WIDTH
from fashioniq.service.reply_schemas import HeardReply, RankingReply, SessionReply, UploadReply
from fashioniq.service.schemas import MAX_TURNS, FiltersBody, SessionBody, TurnBody
from fashioniq.service.searches import Searches, Wanted, check_known, check_mentioned, row_of, stored_reply
from fashioniq.service.served_model import Served
from fashioniq.service.stated_limits import over
from fashioniq.service.store import EventRow, SessionRow, Spool, Store, scrub
from fashioniq.service.store.keys import hashed
from fashioniq.service.turns import (
    Understood,
    kind_of,
    named,
    said,
    shown,
    stored_step,
    subject,
    understood_after,
    unsaid,
)
from fashioniq.service.uploads import stored

KEPT = timedelta(hours=24)  # of the vector of an uploaded picture
POLICY = "1"  # version of the terms of consent


class Service:
    """Sessions and searches on one database, with the models that are served. Its methods raise Problem, and errors of
    the store.

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
        self.experiments = Experiments(store, models)
        self.events = Spool(store, spool)
        self.states = DialogStates(store)
        self.searches = Searches(models, inference, self.states)

    def start(
        self, request: SessionBody, origin: str, key: str | None = None, secret: str = ""
    ) -> SessionReply:
        """Begin a session. `key` is an idempotency key of the client with the API key `secret`."""
        began, served = time.perf_counter(), self.models.active(request.category)
        explores = request.consent == "training" and random.random() < self.explore
        session_id = f"ses_{secrets.token_hex(16)}"
        contenders = (
            Contenders([served], arm="explore")
            if explores
            else self.experiments.assigned(served, session_id, request.consent, origin)
        )
        served = contenders.models[0]
        start = served.spelled(request.start)
        check_known(served, {"/start/product_id": start.product_id})
        # the token cannot be read from the database; from a key and a secret, it is the same for a repeated request
        token = (
            hmac.digest(secret.encode(), key.encode(), "sha256").hex() if key else secrets.token_urlsafe(24)
        )
        now = self.store.now()
        session = SessionRow(
            id=session_id,
            category=served.category,
            model=served.version,
            client=self.store.client_hmac(request.client_id) if request.client_id else None,
            consent=request.consent,
            policy_version=POLICY,
            origin=origin,  # type: ignore[arg-type]
            token_sha256=hashed(token),
            created_at=now,
            last_at=now,
            arm=contenders.arm,
            experiment=contenders.experiment,
        )
        about, filters = start.product_id or start.picture_id, request.filters
        understood = Understood(DialogStep(), HeardReply(), filters)
        if start.text:
            understood = said(contenders.reader, start.text, None, "", filters, at="/start/text")
            filters = over(understood.filters, filters)
        texts, facets = [start.text or ""], request.facets
        wanted = Wanted(
            filters, request.k, understood.heard, texts, understood.notes, facets=facets, began=began
        )

        def live_of(served: Served) -> Callable[[], Dialog]:
            like, begin = about and self.states.item(served, about), partial(Dialog.start, served.system)
            return lambda: begin().at(like) if like else begin().after(understood.step)

        _, live, ranking = answer(self.searches, contenders, live_of if about or start.text else None, wanted)
        first = row_of(
            session.id,
            0,
            live,
            ranking,
            wanted,
            step=stored_step(understood),
            kind="start",
            about=about,
            says=start.text and scrub(start.text),
            created_at=self.store.now(),
        )
        stored_key = f"{hashed(secret)[:16]}:{key}" if key else None
        request_sha256 = hashed(request.model_dump_json())
        session, stored = self.store.add_session(session, first, stored_key, request_sha256)
        if stored.query_id == first.query_id:
            self.states.remember(stored.query_id, live)
        return self.read(session, facets=facets).model_copy(update={"session_token": token})

    def open(self, session_id: str, token: str | None) -> SessionRow:
        """The session with this id and token."""
        session = self.store.session(session_id)
        if session is None or not hmac.compare_digest(session.token_sha256 or "", hashed(token or "")):
            raise Problem("unknown-session")
        return session

    def read(self, session: SessionRow, facets: bool = False) -> SessionReply:
        """All turns of a session, and the products of the last one as they were shown."""
        turns = self.store.turns(session.id)
        if not turns:
            raise Problem("unknown-session")
        served = self.experiments.contenders(session).models[0]
        return SessionReply(
            session_id=session.id,
            category=session.category,
            model=session.model,
            consent=session.consent,
            filters=FiltersBody.model_validate(turns[-1].filters),
            about=None if served.asks else subject(turns),
            turns=[shown(turn) for turn in turns],
            last=stored_reply(served, turns, facets),
        )

    def add_turn(
        self, session: SessionRow, request: TurnBody, key: str | None = None, linked: bool = False
    ) -> RankingReply:
        """Add a turn: words, a product that the person likes, or new filters alone.

        The same request with the same key gets the answer of the first one. With `linked`, the words may be about any
        product of the catalog, to which a link of the shop led.
        """
        began, request_sha256 = time.perf_counter(), hashed(request.model_dump_json())
        contenders = self.experiments.contenders(session)
        served = contenders.models[0]
        request = served.spelled(request)
        turns = self.store.turns(session.id)
        repeated = self.store.repeated(session.id, key, request_sha256) if key else None
        if repeated:
            turns = [*(one for one in turns if one.n < repeated.n), repeated]
            return stored_reply(served, turns, request.facets)
        if not turns:
            raise Problem("unknown-session")
        last = turns[-1]
        if request.after_turn is not None and request.after_turn != last.n:
            raise Problem("turn-conflict", more={"turn": last.n})
        if last.n >= MAX_TURNS:
            raise Problem("too-many-turns")
        check_mentioned(request, turns, served if linked else None)
        question = last.heard.get("asks", "")
        about = last.heard.get("offers") if served.asks else named(served, turns, request)
        understood = understood_after(contenders.reader, turns, request, about, question)

        def dialog_before(served: Served) -> Callable[[], Dialog]:
            if served.draws and understood.step.says:  # words that replace all others
                return lambda: Dialog.start(served.system)
            return self.states.before(served, turns)

        def live_of(served: Served) -> Callable[[], Dialog]:
            begun, step = dialog_before(served), self.states.resolved(served, understood.step)
            return lambda: begun().after(step)

        wanted = Wanted(
            understood.filters,
            request.k,
            understood.heard,
            [*(turn.says or "" for turn in turns), request.says or ""],
            understood.notes,
            facets=request.facets,
            explores=session.arm == "explore",
            began=began,
        )
        nothing_said = understood.step == DialogStep() and unsaid(turns)
        answering, live, ranking = answer(
            self.searches, contenders, None if nothing_said else live_of, wanted
        )
        if request.explain and not served.draws:  # it would generate a picture for each word
            step = self.states.resolved(answering, understood.step)
            self.searches.explain(ranking, dialog_before(answering), step, live)
        row = row_of(
            session.id,
            last.n + 1,
            live,
            ranking,
            wanted,
            step=stored_step(understood),
            kind="drop" if request.drop else kind_of(understood.step),
            about=request.like or request.less_like or (about if request.says else None),
            question=question if request.says else None,
            says=request.says and scrub(request.says),
            created_at=self.store.now(),
        )
        stored = self.store.add_turn(row, last.n, key, request_sha256)
        if stored.query_id != row.query_id:  # two equal requests at the same time
            return stored_reply(served, [*turns, stored], request.facets)
        self.states.remember(stored.query_id, live)
        return ranking

    def picture(self, session: SessionRow, n: int) -> bytes:
        """The picture that turn `n` showed, as WebP: generated from the last words up to it."""
        turns = [turn for turn in self.store.turns(session.id) if turn.n <= n]
        if not turns or turns[-1].n != n or not turns[-1].heard.get("picture"):
            raise Problem("unknown-picture")
        served = self.models.version(session.model)
        if (live := self.states.known(served, turns[-1].query_id)) is None:
            with self.states.place(served):
                live = self.inference.call(self.states.before(served, turns))
            self.states.remember(turns[-1].query_id, live)
        if not (picture := generated(live)):
            raise Problem("unknown-picture")
        return encoded(picture, WIDTH)

    def undo(self, session: SessionRow, n: int) -> SessionReply:
        """Take turn `n` and all later ones back."""
        if n < 1:
            raise wrong("/n", "the start cannot be undone")
        self.store.undo(session.id, n)
        return self.read(session)

    def choose(self, session: SessionRow, name: str, event_id: str) -> None:
        """Store that a product shown is what the person looked for. Repeated calls with an `event_id` count once."""
        turns = reversed(self.store.turns(session.id))
        places = ((turn, place, one["id"]) for turn in turns for place, one in enumerate(turn.shown, 1))
        found = next((one for one in places if composed(one[2]) == composed(name)), None)
        if found is None:
            raise wrong("/product", "not_shown", "not-shown")
        turn, position, product_id = found
        event = EventRow(
            event_id=event_id,
            query_id=turn.query_id,
            session_id=session.id,
            action="this_is_it",
            product_id=product_id,
            position=position,
            server_at=self.store.now(),
        )
        self.store.add_events([event])

    def upload(self, category: str, content: bytes) -> UploadReply:
        """Read a picture, of which only the vector is kept, for 24 hours."""
        if (uploads := self.models.active(category).uploads) is None:
            raise Problem("no-picture-encoder")
        square = uploads.read(content)
        inputs: ItemInputs = self.inference.call(lambda: uploads.encode(square))
        feature, attributes = stored(inputs)
        expires_at = self.store.now() + KEPT
        words = [uploads.words[number - 1] for number in attributes if number]
        return UploadReply(
            picture_id=self.store.add_picture(feature, {"ids": attributes}, expires_at),
            attributes=words,
            expires_at=expires_at,
        )
