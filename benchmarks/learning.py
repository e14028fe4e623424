"""Does `fashioniq learn` pay off? Simulated shoppers with a dialect of their own talk to the demo's model.

    make demo
    python benchmarks/learning.py --seed 0 --out learning-0

2,000 shoppers talk to the API, in English that the model was not trained with (benchmarks/dialect.py). The
targets of the first 1,500 are products of train and val, those of the last 500 products of test. Who is shown
the target says so; half of the others find it elsewhere in the shop and buy it. The model learns from the log, and
the last 500 shoppers look for the same products again. Writes metrics.json files of the dialect, and of users of
`eval-dialogs`, before and after. `--control` instead trains the model for as many epochs without conversations.
A seed takes 4 to 5 CPU minutes; `--shoppers 200 --min-targets 10` is a quick trial.
"""

import argparse
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from itertools import cycle
from pathlib import Path
from uuid import uuid4

import torch
from dialect import in_dialect
from fastapi.testclient import TestClient

from fashioniq.cli import main as fashioniq
from fashioniq.data.catalog import Catalog
from fashioniq.data.evaluations import TurnMetrics, metrics_of
from fashioniq.files import write_json
from fashioniq.loop.rollout import System
from fashioniq.metrics.measures import average, success, turn_table
from fashioniq.provenance import provenance, running
from fashioniq.runs import RetrieverRun, read_run
from fashioniq.sample import garments_of
from fashioniq.service.access import Access
from fashioniq.service.api import create_app
from fashioniq.service.inference import Inference
from fashioniq.service.learning.gate import replay
from fashioniq.service.learning.rules import LiveSession, LiveStep
from fashioniq.service.models import Models
from fashioniq.service.served_model import Served
from fashioniq.service.service import Service
from fashioniq.service.store import Store
from fashioniq.users.grammar import GarmentSpeaker

TURNS = 5
SEEN = 10  # products per answer
LISTED = 0.5  # share of the shoppers without success who buy the product all the same
EPOCHS = 8
USERS = ("captioner", "differences", "grammar", "human")  # of eval-dialogs


@dataclass
class Shopper:
    """A shopper, the product that it looks for, and what was said about which product."""

    number: int
    target: str
    split: str
    said: list[LiveStep] = field(default_factory=list)
    hits: list[bool] = field(default_factory=list)  # whether the answer has the target
    understood: bool = True  # in all turns


@contextmanager
def api(store: Store, run: Path, split: str) -> Iterator[tuple[TestClient, System]]:
    """The service of a run with the products of a split, without a network."""
    inference = Inference()
    models = Models(store, inference, partial(Served.of, split=split, device="cpu"), None)
    models.open([run])
    app = create_app(Service(store, models, inference), Access(store, True))
    try:
        with TestClient(app, client=("127.0.0.1", 1)) as client:
            yield client, models.active("dresses").system
    finally:
        inference.close()


class Street:
    """Shoppers who describe garments in the dialect."""

    def __init__(self, catalog: Catalog, seed: int) -> None:
        garments = garments_of(catalog)
        self.positions = {name: position for position, name in enumerate(garments)}
        self.speaker, self.seed = GarmentSpeaker(list(garments.values())), seed

    def talk(self, client: TestClient, shopper: Shopper, consent: str) -> None:
        """Talk for TURNS turns, about the first product that was not talked about, and tell which product it is."""
        chance = random.Random(f"{self.seed} {shopper.number}")
        opened = client.post(
            "/v1/sessions",
            json={
                "category": "dresses",
                "consent": consent,
                "client_id": f"shopper-{shopper.number}",
                "k": SEEN,
            },
        ).json()
        session, answer, found = opened["session_id"], opened["last"], None
        headers = {"Authorization": f"Bearer {opened['session_token']}"}
        done = {shopper.target}
        for _ in range(TURNS):
            shown = [one["product_id"] for one in answer["results"]]
            found = found or (answer["query_id"] if shopper.target in shown else None)
            about = next(name for name in shown if name not in done)
            done.add(about)
            text = in_dialect(
                self.speaker.describe(self.positions[shopper.target], self.positions[about], chance)
            )
            reply = client.post(
                f"/v1/sessions/{session}/turns",
                headers=headers,
                json={"says": text, "about": about, "k": SEEN},
            )
            shopper.said.append(LiveStep(about, text))
            if reply.status_code == 201:
                answer = reply.json()
            else:  # the model knows none of the words
                shopper.understood = False
            shopper.hits.append(shopper.target in [one["product_id"] for one in answer["results"]])
        found = found or (answer["query_id"] if shopper.hits[-1] else None)
        if found or chance.random() < LISTED:
            event = {
                "event_id": str(uuid4()),
                "action_name": "this_is_it" if found else "purchase",
                "query_id": found or answer["query_id"],
                "session_id": session,
                "timestamp": "2026-01-01T00:00:00Z",
                "event_attributes": {"object": {"object_id": shopper.target}},
            }
            sent = client.post("/v1/events", json={"events": [event]}).json()
            assert not sent["errors"], sent


def shoppers_of(catalog: Catalog, seed: int, count: int) -> list[Shopper]:
    """Shoppers in order: three quarters with targets of train and val, four to one, then those of test."""
    chance = random.Random(seed)
    lists = {
        split: chance.sample(ids, len(ids))
        for split in ("train", "val", "test")
        if (ids := catalog.ids(split))
    }
    targets = {split: cycle(names) for split, names in lists.items()}
    early = ["val" if number % 5 == 4 else "train" for number in range(count * 3 // 4)]
    splits = [*early, *["test"] * (count - len(early))]
    return [Shopper(number, next(targets[split]), split) for number, split in enumerate(splits)]


def measured(system: System, shoppers: list[Shopper], run: Path, catalog: Catalog) -> TurnMetrics:
    """Measures after each turn of what the shoppers said, whose hits must be those of the API."""
    sessions = [
        LiveSession(
            session=str(one.number),
            split=one.split,
            target=one.target,
            weight=1.0,
            signal="",
            model="",
            begun=datetime.now(UTC),
            steps=one.said,
        )
        for one in shoppers
    ]
    rank_NT = torch.tensor(replay(system, sessions))
    found = [(ranks < SEEN).tolist() == one.hits for ranks, one in zip(rank_NT, shoppers, strict=True)]
    assert all(same or not one.understood for same, one in zip(found, shoppers, strict=True)), (
        "the replay differs from the answers of the API"
    )
    table = turn_table(rank_NT, len(system.gallery))
    made = metrics_of(
        {
            "protocol": "Fashion IQ dialogs",
            "gallery": len(system.gallery),
            "dialogs": len(shoppers),
            "category": "dresses",
            "split": "test",
            "user": "dialect, through the API",
            "captions": "dialect of the drawn sample's grammar",
            "retriever": str(run),
            "fingerprint": catalog.fingerprint(),
            "turns": table,
            "average": average(table),
            "success": success(rank_NT),
        },
        TurnMetrics,
    )
    retriever = read_run(run, RetrieverRun).provenance or None
    made.provenance = provenance({"dresses": catalog.fingerprint()}, retriever=retriever)
    return made


@dataclass(frozen=True)
class Experiment:
    """One seed of the experiment; results go to `out`."""

    demo: Path
    out: Path
    seed: int
    shoppers: int
    min_targets: int

    @property
    def catalog(self) -> Catalog:
        return Catalog(self.demo / "catalog", "dresses")

    @property
    def run(self) -> Path:
        return self.demo / "runs/retriever"

    def converse(self, store: Store) -> None:
        """All shoppers but the last quarter talk to the running model."""
        shoppers, street = (
            shoppers_of(self.catalog, self.seed, self.shoppers),
            Street(self.catalog, self.seed),
        )
        with api(store, self.run, "train") as (train, _), api(store, self.run, "val") as (val, _):
            for one in shoppers:
                if one.split != "test":
                    street.talk(train if one.split == "train" else val, one, "training")

    def judge(self, name: str, run: Path, store: Store, consent: str = "none") -> None:
        """The last quarter talks to a model, and the users of USERS do."""
        shoppers = shoppers_of(self.catalog, self.seed, self.shoppers)
        last, street = [one for one in shoppers if one.split == "test"], Street(self.catalog, self.seed)
        with api(store, run, "test") as (client, system):
            for one in last:
                street.talk(client, one, consent)
            write_json(self.out / f"dialect.{name}.json", measured(system, last, run, self.catalog).plain())
        shared = f"--data {self.catalog.root} --category dresses --seed {self.seed} --device cpu --run {run}"
        for user in USERS:
            named = str(self.demo / "runs/captioner") if user == "captioner" else user
            split = "val" if user == "human" else "test"  # test pairs have no targets
            more = f"--user {named} --split {split} --out {self.out / f'{user}.{name}'}"
            fashioniq(["eval-dialogs", *shared.split(), *more.split()])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--demo", type=Path, default=Path("demo"))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--shoppers", type=int, default=2000)
    parser.add_argument("--min-targets", type=int, default=150)
    parser.add_argument("--control", action="store_true")
    given = vars(parser.parse_args())
    control, experiment = given.pop("control"), Experiment(**given)
    torch.set_num_threads(1)
    run, out, seed = experiment.run, experiment.out, experiment.seed
    out.mkdir(parents=True, exist_ok=control)
    database = f"sqlite:///{out / ('control.db' if control else 'service.db')}"
    store = Store.open(database)
    with running(["python", "benchmarks/learning.py", "--seed", str(seed), *["--control"] * control]):
        if control:
            again = f"--config {run / 'config.yaml'} --init-from {run} --epochs {EPOCHS} --seed {seed} --device cpu"
            fashioniq(["train-retriever", *again.split(), "--run", str(out / "control")])
            experiment.judge("control", out / "control", store)
        else:
            experiment.converse(store)
            experiment.judge("before", run, store, "training")
            print(f"conversations: {time.process_time() / 60:.1f} CPU minutes", flush=True)
            learned = (
                f"--database {database} --run {run} --out {out / 'learned'} --seed {seed} --epochs {EPOCHS}"
            )
            more = f"--min-targets {experiment.min_targets} --device cpu --activate"
            code = fashioniq(["learn", *learned.split(), *more.split()])
            print(f"learn: exit code {code}, {time.process_time() / 60:.1f} CPU minutes", flush=True)
            experiment.judge("after", out / "learned/run", store)
    print(f"{time.process_time() / 60:.1f} CPU minutes")


if __name__ == "__main__":
    main()
