"""Table of all combinations of users and retrievers (Fashion IQ, table 6)."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from fashioniq import __version__
from fashioniq.categories import canonical
from fashioniq.config import Cross, EvalDialogs, SimulatedDialogs
from fashioniq.data.catalog import Catalog
from fashioniq.data.evaluations import TurnMetrics, read_metrics
from fashioniq.evaluation.output import check_results
from fashioniq.evaluation.run import evaluate
from fashioniq.features.store import FeatureStore, open_store
from fashioniq.files import UserError, checksum, read_json, write_json, write_text
from fashioniq.locks import locked
from fashioniq.models.configs import DRAWN
from fashioniq.provenance import restart_clock
from fashioniq.report.cross_table import cross_csv, cross_latex, cross_row, cross_text
from fashioniq.runs import CaptionerRun, RetrieverRun, read_run
from fashioniq.runs.checks import check_fits
from fashioniq.systems import fashion_iq

_ATTRIBUTES = {
    (True, True): "with",
    (False, False): "without",
    (True, False): "user's",
    (False, True): "retriever's",
}  # keys: user, retriever
_FOLDERS = {"with": "-attrs", "without": "", "user's": "-attrs-of-user", "retriever's": "-attrs-of-retriever"}
R = TypeVar("R", CaptionerRun, RetrieverRun)
MARK = "combination.json"  # origin of a finished combination; written last
_SAME = (
    "protocol",
    "category",
    "split",
    "gallery",
    "coverage",
    "dialogs",
    "features",
    "pictures",
    "decoding",
    "errors",
    "exclude_shown",
    "seed",
)


@dataclass(frozen=True)
class ComparedModel:
    """One model: the runs of its seeds, their metadata, and its name in the table."""

    runs: list[Path]
    facts: Sequence[CaptionerRun | RetrieverRun]
    attrs: bool
    name: str


def run_cross(settings: Cross) -> dict[str, Any]:
    """Evaluate the combinations that are not finished, write table.txt, .csv, .tex and .json, and return the last.

    Users and retrievers are combined if both use attributes or neither does; one without such a partner
    is combined with all.
    """
    if not settings.retrievers:
        raise UserError("no retrievers given; give --retrievers RUN RUN …")
    store = open_store(settings.data, settings.category, settings.features)
    retrievers = _models(settings.retrievers, RetrieverRun, settings.category, store)
    users = _models(settings.users or _own_users(retrievers), CaptionerRun, settings.category, store)
    combinations = [
        (user, model)
        for attrs in (True, False)
        for user in users
        for model in retrievers
        if model.attrs == attrs and (user.attrs == attrs or _alone(user, retrievers) or _alone(model, users))
    ]
    out = settings.out or Path("runs") / f"cross-{canonical(settings.category)}-{settings.split}"
    check_results(out)
    origin = _origin(settings, store)
    by_seed = [_by_seed(user, retriever) for user, retriever in combinations]
    rows: list[dict[str, Any]] = []
    captions: set[str] = set()
    with locked(out):
        for (user, retriever), pairs in zip(combinations, by_seed, strict=True):
            attributes = _ATTRIBUTES[user.attrs, retriever.attrs]
            print(f"{user.name} user, {retriever.name} retriever, attributes: {attributes}")
            folder = out / f"{user.name}-user-{retriever.name}-retriever{_FOLDERS[attributes]}"
            folders = (
                [folder] if len(pairs) == 1 else [folder / f"seed-{number}" for number in range(len(pairs))]
            )
            evaluations = [
                _combination(settings, *pair, origin, place)
                for pair, place in zip(pairs, folders, strict=True)
            ]
            row = cross_row(attributes, user.name, retriever.name, evaluations)
            rows.append({**row, "runs": [str(place) for place in folders]})
            captions |= {one.facts.captions or "unknown" for one in evaluations}
        first = evaluations[0].plain()
        about = {key: first[key] for key in _SAME} | {"captions": " and ".join(sorted(captions))}
        text = _text(about, rows) + _legend(users, "user") + _legend(retrievers, "retriever")
        write_text(out / "table.txt", text)
        write_text(out / "table.csv", cross_csv(rows))
        write_text(out / "table.tex", cross_latex(rows))
        table = {**about, "rows": rows}
        write_json(out / "table.json", table)
    print(f"\n{text}results in {out}, a folder for each row")
    return table


def _models(named: Sequence[str], kind: type[R], category: str, store: FeatureStore) -> list[ComparedModel]:
    """The models of a list whose elements are the seeds of one each, checked against the features."""
    models: list[ComparedModel] = []
    count: Counter[tuple[str, bool]] = Counter()
    for element in named:
        runs = [Path(run) for run in element.split(",") if run]
        facts = [read_run(run, kind) for run in runs]
        for run, known in zip(runs, facts, strict=True):
            check_fits(run, known, category, store)
        kinds = {(known.model, known.attrs) for known in facts}
        if len(kinds) != 1:
            raise UserError(
                f"{element} must list seeds of one {kind.KIND}: same kind, and all with or all without "
                "attributes"
            )
        (sort,) = kinds
        count[sort] += 1
        models.append(
            ComparedModel(runs, facts, sort[1], sort[0] if count[sort] == 1 else f"{sort[0]}-{count[sort]}")
        )
    paths = Counter(run.resolve() for model in models for run in model.runs)
    if twice := [str(path) for path, times in paths.items() if times > 1]:
        raise UserError(f"{twice[0]} is listed twice among the {kind.KIND}s; give each run once")
    return models


def _own_users(retrievers: Sequence[ComparedModel]) -> list[str]:
    """Captioners that the retrievers were trained with, each once."""
    named = []
    for model in retrievers:
        users = [about.user for about in model.facts if isinstance(about, RetrieverRun) and about.user]
        if len(users) < len(model.facts):
            raise UserError(f"{model.runs[0]} was trained without a captioner; give --users")
        named.append(",".join(users if len(set(users)) > 1 else users[:1]))
    return list(dict.fromkeys(named))


def _by_seed(user: ComparedModel, retriever: ComparedModel) -> list[tuple[Path, Path]]:
    """Pairs of user and retriever: seed by seed, or a single run of one with all seeds of the other."""
    seeds = {len(model.runs) for model in (user, retriever)} - {1}
    if len(seeds) > 1:
        first, other = (f"{len(model.runs)} seeds of {model.runs[0]}" for model in (user, retriever))
        raise UserError(
            f"{first} cannot be combined with {other}; give the same number of seeds, or a single run of one"
        )
    most = max(seeds, default=1)
    users, retrievers = (
        model.runs * most if len(model.runs) == 1 else model.runs for model in (user, retriever)
    )
    return list(zip(users, retrievers, strict=True))


def _origin(settings: Cross, store: FeatureStore) -> dict[str, Any]:
    """Settings and data that all combinations of a table share."""
    first = settings.first_candidates
    return {
        "version": __version__,
        "split": settings.split,
        "turns": settings.turns,
        "beam": settings.beam,
        "samples": settings.samples or DRAWN,
        "errors": settings.word_noise,
        "exclude_shown": settings.exclude_shown,
        "index": settings.index,
        "least_recall": 0.95,
        "seed": settings.seed,
        "first_candidates": checksum(first) if first and first.is_file() else None,
        "catalog": Catalog(settings.data, settings.category).fingerprint(),
        "store": checksum(store.root / "store.json"),
    }


def _combination(
    settings: Cross, user: Path, retriever: Path, origin: dict[str, Any], folder: Path
) -> TurnMetrics:
    """Metrics of a user with a retriever; read from the folder if they were computed there with the same
    settings.
    """
    own_origin = {**origin, "user": _checksums(user), "retriever": _checksums(retriever)}
    if (folder / MARK).exists() and read_json(folder / MARK, "the combination's origin") == own_origin:
        print(f"{folder} is up to date")
        repair = f"remove {folder / MARK} to evaluate it again"
        return read_metrics(folder / "metrics.json", "the evaluation's metrics", TurnMetrics, repair)
    (folder / MARK).unlink(missing_ok=True)  # else an interruption could mix the results of two combinations
    restart_clock()
    (metrics,) = evaluate(fashion_iq.build(_one(settings, user, retriever)), folder, settings.batch_size)
    write_json(folder / MARK, own_origin)
    assert isinstance(metrics, TurnMetrics), "fashion_iq's tasks are of this protocol"
    return metrics


def _one(settings: Cross, user: Path, retriever: Path) -> EvalDialogs:
    """Options of one combination."""
    shared = {one.name: getattr(settings, one.name) for one in fields(SimulatedDialogs)}
    return EvalDialogs(run=retriever, user=[str(user)], exclude_shown=settings.exclude_shown, **shared)


def _checksums(run: Path) -> list[str]:
    return [
        checksum(path) for name in ("model.json", "weights.safetensors") if (path := run / name).is_file()
    ]


def _alone(model: ComparedModel, others: Sequence[ComparedModel]) -> bool:
    return all(other.attrs != model.attrs for other in others)


def _text(about: dict[str, Any], rows: Sequence[dict[str, Any]]) -> str:
    decoding = about["decoding"] + (f", word noise {100 * about['errors']:g} %" if about["errors"] else "")
    shown = "; no product is shown twice" if about["exclude_shown"] else ""
    return (
        f"{about['category']}, {about['split']} split: {about['dialogs']} dialogs in each row, gallery "
        f"{about['gallery']}, "
        f"{100 * about['coverage']:.1f} % of the split have features\n"
        f"features: {about['features']}; users: {decoding}; pictures: {about['pictures']}; captions: "
        f"{about['captions']}{shown}\n\n"
        f"{cross_text(rows)}\n"
    )


def _legend(models: Sequence[ComparedModel], role: str) -> str:
    return "".join(
        f"{model.name} {role} {'with' if model.attrs else 'without'} attributes: {', '.join(map(str, model.runs))}\n"
        for model in models
    )
