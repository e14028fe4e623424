"""`fashioniq compare-live`: begin a comparison of two models in service, and tell how it stands."""

import secrets
from pathlib import Path

from msgspec.structs import replace

from fashioniq.categories import canonical
from fashioniq.config import CompareLive
from fashioniq.files import UserError, check_writable
from fashioniq.metrics.sequential import ERROR, LEAST
from fashioniq.report.live_comparison import write_live_comparison_page
from fashioniq.service.experiments import check_comparable
from fashioniq.service.live_comparison import LiveComparison, live_comparison
from fashioniq.service.models import activation, models_of
from fashioniq.service.problems import Problem
from fashioniq.service.store import ExperimentRow, Store


def compare_live(settings: CompareLive) -> list[LiveComparison]:
    """Begin a comparison with `run`; print how the latest one of each category stands, and end it if it is decided.

    Raises UserError if there is none, or if the challenger cannot be compared with the active model.
    """
    if settings.out is not None:
        check_writable(settings.out.parent)  # a page there is replaced
        if settings.out.is_dir():
            raise UserError(f"--out is the folder {settings.out}; give a file, such as live.html")
    store = Store.open(settings.database, create=False)
    try:
        if settings.run is not None:
            _begin(store, settings, settings.run)
        ended, found = settings.end and canonical(settings.end), []
        for category in store.categories():
            for experiment in store.experiments(category)[-1:]:
                one = live_comparison(store, experiment)
                verdict = one.verdict or ("ended by hand" if ended == category else None)
                if verdict and experiment.ended_at is None:
                    stored = store.end_experiment(experiment.id, verdict)
                    one = replace(one, experiment=stored, needed=None, verdict=stored.verdict)
                print("\n".join(_lines(store, one)))
                found.append(one)
        if ended and ended not in [one.experiment.category for one in found]:
            raise UserError(f"expected a comparison of {ended}, found none; correct --end")
        if not found:
            raise UserError(
                "expected a comparison in the database, found none; begin one with --run CHALLENGER, a run of the "
                "products that are served"
            )
        if settings.out is not None:
            write_live_comparison_page(settings.out, found)
            print(f"page in {settings.out}")
        return found
    finally:
        store.close()


def _begin(store: Store, settings: CompareLive, run: Path) -> None:
    """Register the challenger, and let the service compare it with the active model of its category."""
    with models_of(store) as models:
        challenger = models.register(run)
        active = store.active_model(challenger.category)
        if active is None or active.id == challenger.version:
            raise UserError(
                f"expected another model of {challenger.category} in service, found "
                f"{'this one' if active else 'none'}; give another --run"
            )
        try:
            check_comparable(models.version(active.id), challenger)
        except Problem as problem:
            raise UserError(f"the active model {active.id} cannot be loaded ({problem.code})") from None
        store.begin_experiment(
            ExperimentRow(
                id=f"cmp_{secrets.token_hex(8)}",
                category=challenger.category,
                running=active.id,
                challenger=challenger.version,
                method=settings.method,
                error=ERROR,
                most=settings.most,
                started_at=store.now(),
            )
        )


def _lines(store: Store, one: LiveComparison) -> list[str]:
    experiment, last = one.experiment, one.standings[-1]
    of = "share of conversations that lead to a product" if experiment.method == "split" else "credit"
    lines = [
        f"{experiment.category}: challenger {experiment.challenger}, running {experiment.running}, "
        f"{experiment.method}, since {experiment.started_at:%Y-%m-%d %H:%M} UTC",
        f"{last.count:,} of at most {experiment.most:,} conversations; {one.excluded:,} more in which a model failed, "
        f"{one.later:,} later ones of the same clients",
    ]
    if last.half < float("inf"):
        lines.append(
            f"difference in {of}: {last.difference:+.3f}, {100 * (1 - experiment.error):g} % interval "
            f"{last.difference - last.half:+.3f} to {last.difference + last.half:+.3f}, valid at any time"
        )
    active = store.active_model(experiment.category)
    if one.verdict == "challenger":
        lines.append(f"the challenger is better; activate it: {activation(experiment.challenger)}")
    elif one.verdict == "running":
        lines.append("the running model is better")
    elif one.verdict is not None:
        lines.append(f"ended: {one.verdict}" if "ended" not in one.verdict else one.verdict)
    elif active is None or active.id != experiment.running:
        lines.append(
            "no more conversations: another model was activated; end the comparison with --end "
            f"{experiment.category}"
        )
    elif one.needed is not None:
        lines.append(
            f"open; decided after about {one.needed - last.count:,} more conversations if it stays so"
        )
    elif last.count < LEAST:
        lines.append(f"open; there is no interval below {LEAST} conversations")
    else:
        lines.append("open; the difference is too small to be decided by then")
    return lines
