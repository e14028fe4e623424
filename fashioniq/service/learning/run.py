"""`fashioniq learn`: from the log of the service to a new model."""

from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from msgspec.structs import asdict

from fashioniq.config import EvalDialogs, Learn, TrainRetriever
from fashioniq.config.parser import read_settings
from fashioniq.data.catalog import ALL, SPLITS, Catalog
from fashioniq.data.ids import Spellings
from fashioniq.data.images import UnreadableImage
from fashioniq.evaluation.protocols import protocol_of
from fashioniq.evaluation.run import run_dialogs
from fashioniq.features.store import FeatureStore, open_store
from fashioniq.files import UserError, check_writable, temporary_folder
from fashioniq.locks import exclusive
from fashioniq.metrics.measures import recall_at
from fashioniq.options import refuse
from fashioniq.prepare.similar import copies, look_of
from fashioniq.runs import RetrieverRun, is_zero_shot, read_run
from fashioniq.runs.trained import load_retriever
from fashioniq.service.learning import export
from fashioniq.service.learning.export import Gate, Rule, Verdict
from fashioniq.service.learning.forget import carry_out, run_of, trained_with_erased
from fashioniq.service.learning.gate import against_untrained, judge, replay
from fashioniq.service.learning.off_policy_gate import judge_off_policy, logged_position_bias
from fashioniq.service.learning.rules import LearningSessions, LiveSession, Shop, choose
from fashioniq.service.learning.start import grow, linear_start, new_words, untrained_searches
from fashioniq.service.models import activation, models_of
from fashioniq.service.store import Store
from fashioniq.service.store.engine import place_of
from fashioniq.systems import fashion_iq, load
from fashioniq.training.dialog_sources import RecordedSessions
from fashioniq.training.retriever_run import train_retriever

BATCH = 128  # simulated dialogs of the gate
NEEDED = 2  # sessions to train on


def learn(settings: Learn) -> Gate:
    """Export the conversations, train on them, and judge the new model; return the verdict of the gate.

    Before and after it, what was erased is removed from earlier training data. Raises UserError if OUT exists, if
    there is no database, or if there is nothing to learn from.
    """
    with ExitStack() as alone:
        alone.enter_context(exclusive(settings.out))
        if settings.out.exists():
            raise UserError(f"{settings.out} exists already; give a new folder with --out, or remove it")
        check_writable(settings.out)
        base, place = settings.run, alone.enter_context(temporary_folder())
        if is_zero_shot(base):
            base = linear_start(base, place / "run", settings.seed, settings.device)
        trained = _training_of(settings, base)
        catalog = Catalog(trained.data, trained.category)
        features = open_store(trained.data, trained.category, trained.features, trained.attrs)
        retriever, vocabulary, _ = load_retriever(base, catalog.category, features)
        store = Store.open(settings.database, create=False)
        database = place_of(store.engine)
        try:
            other = _serving_instead(store, settings, catalog.category)
            carry_out(store)
            if any(settings.run.resolve() == run_of(one) for one, _ in trained_with_erased(store)):
                print(
                    f"{settings.run} was trained with conversations that were erased or withdrawn; start from an "
                    "earlier run"
                )
            shop = shop_of(catalog, features, store)  # reads pictures, so before the log
            log = store.log(catalog.category)
            bias = logged_position_bias(log)
            chosen = choose(log, shop, settings.held_out, retriever.max_words, bias)
            consents = store.count_by_consent(catalog.category)
            print(_summary(chosen, len(log), consents))
            stored = sum(consents.values())
            _check_enough(chosen, len(log), stored, database)
            rule = Rule(
                category=catalog.category,
                run=str(settings.run.resolve()),
                training_data=export.id_in(settings.run.resolve().parent),
                cut=chosen.cut.isoformat() if chosen.cut else None,
                left_out=chosen.counts,
            )
            present = export.begin(store, settings.out, chosen.sessions, rule)
            chosen = replace(chosen, sessions=[one for one in chosen.sessions if one.session in present])
            _check_enough(chosen, len(log), stored, database)
            training = chosen.of("train")
            export.write_layout(settings.out, catalog)
            export.write_sessions(settings.out, catalog.category, chosen.sessions)
            frozen = trained.word_vectors is not None  # new words would keep random vectors
            words = [] if frozen else new_words(training, chosen.clients, vocabulary)
            print(f"{len(words)} new words, such as {', '.join(words[:8]) or 'none'}")
            grow(base, settings.out / "start", features, training, words)
            print(train_retriever(trained, _source(training, chosen.of("val"))))
            verdict = _judged(settings, trained, catalog, chosen, place)
            verdict.notes += other
            gate = Gate(**asdict(verdict), rule=rule, new_words=words, sizes=_sizes(chosen))
            export.write_report(settings.out, gate)
            _print_verdict(verdict, settings.out)
            if settings.activate and verdict.passed:
                _activate(store, settings, catalog.category)
            return gate
        finally:
            alone.close()  # `forget` may write the training data from here on
            try:
                carry_out(store)  # what was erased meanwhile
            finally:
                store.close()


def _serving_instead(store: Store, settings: Learn, category: str) -> list[str]:
    """A note if another run serves, with which the new model is not compared. Raises UserError if the new model is to
    be activated in its place.
    """
    active = store.active_model(category)
    if active is None or Path(active.folder) == settings.run.resolve():
        return []
    if settings.activate:
        raise UserError(
            f"expected the run that serves {category}, {active.folder}, found {settings.run}, and a new model that is "
            "better than that may be worse; give the former as --run, or leave out --activate"
        )
    return [f"{active.folder} serves {category}; the new model was compared with {settings.run} alone"]


def _check_enough(chosen: LearningSessions, logged: int, stored: int, database: str) -> None:
    """Raise UserError with one reason if there are too few conversations to train on."""
    if (found := len(chosen.of("train"))) >= NEEDED:
        return
    left_out = {rule: count for rule, count in chosen.counts.items() if rule.startswith("sessions")}
    refuse(
        (
            logged < NEEDED and logged == stored,
            f"expected {NEEDED} conversations in {database}, found {logged}; learn again when shoppers have "
            "had more",
        ),
        (
            logged < NEEDED,
            f"expected {NEEDED} conversations with consent for training in {database}, found {logged} of "
            f"{stored}; ask shoppers for their consent",
        ),
        (
            not left_out,
            f"expected {NEEDED} conversations about products of the train split in {database}, found {found} "
            f"of {logged}; serve these products, too (--split all)",
        ),
    )
    most = max(left_out, key=left_out.__getitem__)
    raise UserError(
        f"expected {NEEDED} conversations to train on in {database}, found {found} of {logged}; most were "
        f'left out as {most} ({left_out[most]:,}): see "What is learned from" in docs/learning.md'
    )


def _training_of(settings: Learn, base: Path) -> TrainRetriever:
    """The settings of the training of the run `base`, for a training that starts from OUT/start."""
    return replace(
        read_settings(base / "config.yaml", TrainRetriever),
        run=settings.out / "run",
        init_from=settings.out / "start",
        epochs=settings.epochs,
        seed=settings.seed,
        device=settings.device,
        stage="supervised",
        halfway=False,
    )


def shop_of(catalog: Catalog, features: FeatureStore, store: Store) -> Shop:
    """What the rules need of a catalog: products with features, and groups of copies by picture or group id."""
    split_of = {name: split for split in SPLITS for name in catalog.ids(split) if name in features}
    names, looks = [], []
    for name, path in catalog.images.items():
        if name in split_of:
            with suppress(UnreadableImage):
                looks.append(look_of(path))
                names.append(name)
    groups: dict[str, list[str]] = {}
    spellings = Spellings(split_of)
    for product in store.products(catalog.category):
        if product.group_id is not None:
            groups.setdefault(product.group_id, []).append(spellings.own(product.id))
    same = [[names[position] for position in group] for group in copies(looks)]
    return Shop(split_of, catalog.titles, [*same, *groups.values()])


def _source(training: Sequence[LiveSession], val: Sequence[LiveSession]) -> Any:
    """Function that makes the source of the training dialogs."""
    rows: dict[str, Any] = {
        split: [(one.target, [(said.item, said.text) for said in one.steps], one.weight) for one in sessions]
        for split, sessions in (("train", training), ("val", val))
    }
    return partial(RecordedSessions, rows)


def _judged(
    settings: Learn, trained: TrainRetriever, catalog: Catalog, chosen: LearningSessions, place: Path
) -> Verdict:
    """Verdict of the gate on the test sessions, on later ones that explored, and on simulated dialogs; `place` is for
    temporary files.
    """
    runs = settings.run, settings.out / "run"
    held_out = chosen.of("test")
    explored = [one["id"] for _, turns, _ in chosen.explored for turn in turns for one in turn.shown]
    mentioned = {*explored, *(said.item for one in held_out for said in one.steps)}
    split = "test" if mentioned <= set(catalog.ids("test")) else ALL  # what the service searched
    systems = [load(run, features=trained.features, split=split, device=settings.device) for run in runs]
    off_policy = judge_off_policy(chosen.explored, systems[0], systems[1], chosen.bias)
    running, new = (replay(system, held_out) for system in systems)
    untrained = is_zero_shot(settings.run)  # reads texts, which no simulated user writes
    users = read_run(settings.out / "run", RetrieverRun).users
    simulated = [] if untrained else [_simulated(settings, trained, run, users) for run in runs]
    verdict = judge(
        held_out,
        running,
        new,
        (simulated[0], simulated[1]) if simulated else None,
        training=chosen.of("train"),
        shown=chosen.shown,
        min_targets=settings.min_targets,
    )
    verdict.rows += off_policy.rows
    verdict.reasons += off_policy.reasons
    verdict.notes += off_policy.notes
    if untrained:
        return verdict
    for name, search in untrained_searches(catalog, split, settings.device, place):
        sessions = [
            (one, ranks)
            for one, ranks in zip(held_out, new, strict=True)
            if {one.target, *(said.item for said in one.steps if said.item)}
            <= search.gallery.items.positions.keys()
        ]
        if sessions:
            replayed = replay(search, [one for one, _ in sessions])
            row = against_untrained(name, replayed, [ranks for _, ranks in sessions])
            verdict.rows.append(row)
            if not row.passed:
                verdict.reasons.append(
                    f"R@10 is {row.new:.2f}, not better than {row.running:.2f} of the untrained search by {name}"
                )
    return verdict


def _simulated(settings: Learn, trained: TrainRetriever, run: Path, users: Sequence[str]) -> float:
    """R@10 after the last turn of simulated dialogs, averaged over those of the users that are simulated."""
    found = []
    for user in users:
        if user in ("recorded", "sessions", "live"):
            continue
        options = EvalDialogs(
            run=run,
            data=trained.data,
            category=trained.category,
            features=trained.features,
            user=[user],
            device=settings.device,
            samples=trained.samples,
        )
        task = fashion_iq.build(options)[0]
        found.append(recall_at(run_dialogs(task, protocol_of([task]), BATCH).rank_NT[:, -1], 10))
    return sum(found) / max(1, len(found))


def _activate(store: Store, settings: Learn, category: str) -> None:
    """Activate the new model. Raises UserError if another run has been activated during the training."""
    _serving_instead(store, settings, category)
    before = store.active_model(category)
    with models_of(store, settings.device) as models:
        served = models.register(settings.out / "run")
    store.activate_model(served.version)
    print(f"{served.version} is active")
    if before is not None:
        print(f"to go back (behind a proxy, with a KEY of the scope admin): {activation(before.id)}")


def _sizes(chosen: LearningSessions) -> dict[str, int]:
    return {split: len(chosen.of(split)) for split in SPLITS}


def _summary(chosen: LearningSessions, count: int, consents: dict[str, int]) -> str:
    without = sum(number for consent, number in consents.items() if consent != "training")
    sizes = ", ".join(f"{split} {number:,}" for split, number in _sizes(chosen).items())
    lines = [f"conversations to learn from: {count:,} ({without:,} more without consent): {sizes}"]
    lines += [f"  left out: {number:,} {rule}" for rule, number in sorted(chosen.counts.items())]
    return "\n".join(lines)


def _print_verdict(verdict: Verdict, out: Path) -> None:
    for row in verdict.rows:
        p = "" if row.p is None else f", p {row.p:.4f}"
        interval = "" if row.low is None else f" (95 % interval {row.low:+.3f} to {row.high:+.3f}{p})"
        print(f"{row.name}: running {row.running:.3f}, new {row.new:.3f}{interval}")
    print(*verdict.notes, sep="\n")
    print("passes the gate" if verdict.passed else f"does not pass the gate: {'; '.join(verdict.reasons)}")
    print(f"report in {out / 'report.html'}")
