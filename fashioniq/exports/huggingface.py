"""Layout of the Hugging Face hub: weights, description and a model card made from the files of a run.

The folder is a run that all commands accept, with its wording. Nothing is uploaded.
"""

from pathlib import Path

import msgspec
from huggingface_hub import EvalResult, ModelCard, ModelCardData

from fashioniq.data.evaluations import Metrics, TurnMetrics, read_metrics
from fashioniq.exports.folder import check_folder, discard
from fashioniq.files import atomic_write, write_json, write_text
from fashioniq.runs import LABELS, ON_HUB, WORDING, RetrieverRun, read_run, weights_file, write_run
from fashioniq.runs.checks import verify_run
from fashioniq.runs.weights import load_wording

CARD = Path(__file__).parent / "card.md"  # template
LIBRARY = "fashioniq"
MEASURES = ("P", "R@1", "R@10", "MRR")


def export_huggingface(run: Path, out: Path) -> int:
    """Write the folder; return the number of evaluations in its model card.

    Raises UserError if the weights, the wording or an evaluation are damaged.
    """
    about = read_run(run, RetrieverRun)
    verify_run(run, about)
    found = evaluations(run, about)
    text = str(_card(run.resolve().name, about, found))
    load_wording(run, about.sizes["features"])
    check_folder(out, "config.json", lambda known: known.get("library_name") == LIBRARY)
    discard(out, "model.json", WORDING, LABELS)
    # first, so that what a killed export leaves is known as one
    write_json(out / "config.json", {"library_name": LIBRARY, "model_type": about.model, **about.sizes})
    kept = {name: run / name for name in (LABELS, WORDING) if (run / name).exists()}
    for name, path in ({ON_HUB: weights_file(run)} | kept).items():
        with atomic_write(out / name) as temporary:
            temporary.write_bytes(path.read_bytes())
    write_text(out / "README.md", text + "\n")
    write_run(out, about)
    return len(found)


def evaluations(run: Path, about: RetrieverRun) -> list[TurnMetrics]:
    """Dialog evaluations of these weights in the folder of a run, and not of others or of baselines."""
    paths = sorted(run.glob("dialogs-*/**/metrics.json"))
    read = (read_metrics(path, "the evaluation", Metrics, "run eval-dialogs again") for path in paths)
    return [
        one
        for one in read
        if isinstance(one, TurnMetrics) and one.provenance and one.provenance.retriever == about.provenance
    ]


def _card(name: str, about: RetrieverRun, found: list[TurnMetrics]) -> ModelCard:
    data = ModelCardData(
        library_name=LIBRARY,
        tags=["composed-image-retrieval", "dialog", "fashion", about.category],
        model_name=name,
        eval_results=[
            EvalResult(
                task_type="image-retrieval",
                task_name=f"dialogs with the user {metrics.facts.user}",
                dataset_type=about.category,
                dataset_name=f"{about.category}, captions: {metrics.facts.captions}",
                dataset_config=str(metrics.facts.user),  # results of different users are different results
                dataset_split=str(metrics.facts.split),
                metric_type=measure,
                metric_name=f"{measure} after turn {metrics.turns[-1]['turn']}",
                metric_value=round(metrics.turns[-1][measure], 4),
            )
            for metrics in found
            for measure in MEASURES
        ]
        or None,
    )
    return ModelCard.from_template(
        data,
        str(CARD),
        name=name,
        about=msgspec.to_builtins(about),
        results=[
            msgspec.to_builtins(one)
            | msgspec.to_builtins(one.facts)
            | {"of_training": _of_training(one, about)}
            for one in found
        ],
        measures=MEASURES,
    )


def _of_training(metrics: TurnMetrics, about: RetrieverRun) -> bool:
    """Whether the user of an evaluation, or others of its kind whose words are recorded, took part in the training."""
    user = str(metrics.facts.user)
    recorded = (("recorded", "recorded captions"), ("sessions", "recorded sessions"))
    return user in (*about.users, about.user) or any(
        name in about.users and kind in user for name, kind in recorded
    )
