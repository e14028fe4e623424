"""What the tests of whole commands have in common."""

import ir_measures
import pytest
from ir_measures import RR, Success
from markupsafe import Markup

from fashioniq.cli import main
from fashioniq.report.plots import Plot
from fashioniq.training.callbacks import KeepBest
from tests.databases import administer, server  # noqa: F401


class Killed(Exception):
    """Stands for a power cut: nothing of the package catches it."""


@pytest.fixture(scope="session")
def interrupt(project):
    """Begin a training and stop it by an exception after the second batch of an epoch."""

    def interrupt(command, epoch, **options):
        def stop(self, trainer, *_):
            if trainer.current_epoch == epoch and trainer.global_step % trainer.num_training_batches == 2:
                raise Killed

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(KeepBest, "on_before_zero_grad", stop)
            with pytest.raises(Killed):
                main(project.arguments(command, **options))

    return interrupt


@pytest.fixture(autouse=True)
def undrawn(monkeypatch):
    """Leave plots of pages and curves.png empty, as drawing takes half of the time of a tiny run.

    What fixtures of a session or module make is drawn, and `tests/unit/report` tests the drawings. A test that
    needs one undoes `monkeypatch`.
    """
    monkeypatch.setattr(
        "fashioniq.report.plots._svg", lambda name, description, *_: Plot("0 0 1 1", description, Markup())
    )
    monkeypatch.setattr("fashioniq.report.training_plots._save", lambda figure, path: path.write_bytes(b""))


@pytest.fixture(scope="session")
def by_trec():
    """Measures that ir_measures computes from run.trec and qrels.trec, by the number at the end of each query."""

    def by_trec(folder, names, of=""):
        kinds = {name: RR if name == "MRR" else Success @ int(name.removeprefix("R@")) for name in names}
        run = list(ir_measures.read_trec_run(str(folder / f"run{of}.trec")))
        groups = {}
        for qrel in ir_measures.read_trec_qrels(str(folder / f"qrels{of}.trec")):
            groups.setdefault(qrel.query_id.rpartition("-")[2], []).append(qrel)
        found = {
            number: ir_measures.calc_aggregate(kinds.values(), qrels, run) for number, qrels in groups.items()
        }
        return {
            number: {name: values[kind] * (1 if name == "MRR" else 100) for name, kind in kinds.items()}
            for number, values in found.items()
        }

    return by_trec
