"""Scores of a captioner beside those of people and of two baselines."""

from collections import Counter
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np

from fashioniq.config import EvalCaptions
from fashioniq.data.catalog import Catalog, Pair
from fashioniq.data.evaluations import CaptionMetrics, MostFrequent
from fashioniq.data.words import tokenize
from fashioniq.evaluation.output import check_results
from fashioniq.evaluation.speech import (
    PEOPLE,
    captions_by,
    print_speech,
    replies,
    speech_rows,
    speech_tables,
)
from fashioniq.features.selection import pairs_with_features
from fashioniq.features.store import FeatureStore
from fashioniq.files import UserError, together, write_json, write_jsonl
from fashioniq.language.statements import StatementCheck
from fashioniq.metrics.captions import METRICS, CaptionScores, System, score_systems
from fashioniq.models.device import pick_device
from fashioniq.provenance import provenance
from fashioniq.report.tables import print_table
from fashioniq.report.templates import write_page
from fashioniq.runs.trained import load_simulator
from fashioniq.runs.training_data import catalog_of, data_of

BEAMS = 5  # as in the papers
CAPTIONER, FREQUENT, RANDOM = "captioner", "most frequent", "random pair"


def evaluate_captions(settings: EvalCaptions) -> CaptionMetrics:
    """Score a captioner's captions, and those of a file, on the pairs of a split, beside people's and two baselines.

    All results are written to one folder. Raises UserError if a file is missing or does not match the run.
    """
    catalog, store = (
        data_of(settings.run, settings.data, settings.category, settings.features)
        if settings.run
        else (catalog_of(None, settings.data, settings.category), None)
    )
    beside = settings.run or Path("runs") / f"people-{catalog.category}"
    out = settings.out or beside / f"captions-{settings.split}"
    check_results(out)
    train = catalog.pairs("train")
    pairs = pairs_with_features(catalog, store, settings.split) if store else catalog.pairs(settings.split)
    captions_of = dict[str, list[str]]()
    if settings.captions:
        pairs, captions_of[settings.captions.name] = _of_file(
            settings.captions, catalog, settings.split, pairs
        )
    said, facts = None, dict[str, Any]()
    if settings.run and store:
        said, facts = _captioned(settings.run, settings, catalog, store, pairs)
        captions_of = {CAPTIONER: said, **captions_of}
    captions_of |= {name: captions_by(name, settings, catalog, pairs) for name in settings.user}
    frequent, times = Counter(
        " ".join(tokenize(text)) for pair in train for text in pair.captions
    ).most_common(1)[0]
    captions_of |= {FREQUENT: [frequent] * len(pairs), RANDOM: _random_captions(pairs, train, settings.seed)}
    heard = {who: captions for who, captions in captions_of.items() if who != FREQUENT}
    speech = speech_rows(settings, catalog, store, pairs, heard)
    print("scoring; METEOR and SPICE may take several minutes", flush=True)
    rows, first = _score(pairs, captions_of)
    metrics = CaptionMetrics(
        protocol=CaptionMetrics.PROTOCOL,
        data=str(catalog.root),
        category=catalog.category,
        split=settings.split,
        pairs=len(pairs),
        coverage_of_pairs=len(pairs) / len(catalog.pairs(settings.split)),
        captions=catalog.captions_origin,
        fingerprint=catalog.fingerprint(),
        **facts,
        tokeniser=first.tokeniser,
        scale="0 to 1, CIDEr 0 to 10",
        most_frequent=MostFrequent(frequent, times),
        seed=settings.seed,
        rows=rows,
        speech=speech,
        provenance=provenance({catalog.category: catalog.fingerprint()}),
    )
    with together(out, "metrics.json", "captions.jsonl", "report.html"):
        if said:
            write_jsonl(out / "captions.jsonl", _lines(pairs, said, first))
        write_json(out / "metrics.json", metrics.plain())
        title = f"{metrics.category}, {metrics.split}: how simulated users speak"
        write_page(
            out / "report.html", "speech.html", title=title, tables=speech_tables(speech), metrics=metrics
        )
    _print_scores(metrics)
    print(f"results in {out}")
    return metrics


def _of_file(path: Path, catalog: Catalog, split: str, pairs: list[Pair]) -> tuple[list[Pair], list[str]]:
    """Those of the pairs that a file has captions of, and its first caption of each."""
    said = {(pair.target, pair.candidate): pair.captions[0] for pair in catalog.pairs_in(path, split)}
    found = [pair for pair in pairs if (pair.target, pair.candidate) in said]
    if not found:
        raise UserError(
            f"{path} has no caption of a pair of {split}; write captions for the pairs of {split} in "
            f"{catalog.root / 'captions'}"
        )
    return found, [said[pair.target, pair.candidate] for pair in found]


def _captioned(
    run: Path, settings: EvalCaptions, catalog: Catalog, store: FeatureStore, pairs: list[Pair]
) -> tuple[list[str], dict[str, Any]]:
    """The captioner's caption of each pair, decoded as in dialogs, and metadata of both."""
    samples = settings.samples or 1
    beams = settings.beam or (BEAMS if settings.samples is None else 1)
    simulator, facts = load_simulator(
        run, catalog.category, store, StatementCheck.of(catalog), beams=beams, samples=samples
    )
    vocabulary = simulator.words
    if facts.data.fingerprint != catalog.fingerprint():
        print(
            f"note: the splits or captions of {catalog.category} differ from those that {run} was trained on"
        )
    device = pick_device(settings.device)
    items = store.items(
        list(dict.fromkeys(name for pair in pairs for name in (pair.target, pair.candidate) if name))
    ).to(device)
    position_of = items.positions
    user = simulator.user(items, vocabulary, settings.seed)
    said: list[str] = []
    for reply in replies(user, settings, pairs, position_of, name=CAPTIONER, device=device):
        assert reply.words_BL is not None, "a captioner replies with words"
        said += vocabulary.decode(reply.words_BL)
    depends_on = {
        "features": store.encoder,
        "pictures": catalog.pictures_behind(store.facts.of_words),
        "run": str(run),
        "attributes": facts.attrs,
        "decoding": simulator.decoding,
    }
    return said, depends_on


def _random_captions(pairs: list[Pair], train: list[Pair], seed: int) -> list[str]:
    """For each pair a caption of a different pair of the training split."""
    draw = np.random.default_rng(seed)
    position_of = {pair: position for position, pair in enumerate(train)}
    captions = []
    for pair in pairs:
        own = position_of.get(pair)
        other = (
            draw.integers(len(train))
            if own is None
            else (own + draw.integers(1, max(2, len(train)))) % len(train)
        )
        captions.append(str(draw.choice(train[other].captions)))
    return captions


def _score(
    pairs: list[Pair], captions_of: dict[str, list[str]]
) -> tuple[list[dict[str, Any]], CaptionScores]:
    """Rows of both tables, and the scores of the first row.

    One table scores captions against all captions of a pair, the other against one of them, for pairs
    with several. A human caption can only be scored against the other caption of its pair; for
    comparison, all captions in the second table have the same references, each equally often.
    """
    systems: dict[tuple[str, str], System] = {
        ("all", name): (said, [pair.captions for pair in pairs]) for name, said in captions_of.items()
    }
    couples = [
        (number, first, second)
        for number, pair in enumerate(pairs)
        for first, second in permutations(pair.captions, 2)
    ]
    if couples:
        one = [[second] for *_, second in couples]
        systems["one", PEOPLE] = [first for _, first, _ in couples], one
        systems |= {
            ("one", name): ([said[number] for number, *_ in couples], one)
            for name, said in captions_of.items()
        }
    scores = score_systems(list(systems.values()))
    rows = [
        {"against": against, "who": name, "captions": len(said), **one.corpus}
        for ((against, name), (said, _)), one in zip(systems.items(), scores, strict=True)
    ]
    return rows, scores[0]


def _lines(pairs: list[Pair], said: list[str], scores: CaptionScores) -> list[dict[str, Any]]:
    """Lines of captions.jsonl: the caption of each pair, and its scores against all captions of the pair."""
    return [
        {
            "target": pair.target,
            "candidate": pair.candidate,
            "said": said[number],
            "references": list(pair.captions),
            **{name: round(values[number], 4) for name, values in scores.each.items()},
        }
        for number, pair in enumerate(pairs)
    ]


def _print_scores(metrics: CaptionMetrics) -> None:
    print(
        f"{metrics.category}, {metrics.split} split: {metrics.pairs} pairs, "
        f"{100 * metrics.coverage_of_pairs:.1f} % of all; scores in percent"
    )
    for against, title in (
        ("all", "against all captions of the pair"),
        ("one", "against one caption of the pair"),
    ):
        rows = [row for row in metrics.rows if row["against"] == against]
        if not rows:
            print("no pair has two captions; human agreement is not computed")
            continue
        cells = [
            [
                row["who"],
                *("–" if isinstance(row[name], str) else f"{100 * row[name]:.1f}" for name in METRICS),
            ]
            for row in rows
        ]
        print_table(["", *METRICS], cells, title=f"{title}, {rows[0]['captions']} scored")
    for name, reason in {
        name: row[name] for row in metrics.rows for name in METRICS if isinstance(row[name], str)
    }.items():
        print(f"{name} {reason}")
    print_speech(metrics.speech)
    made = "" if metrics.captions == "human" else f" (here not human but {metrics.captions})"
    print(
        f"people: each caption against the other one of its pair{made}; one reference only, compare within "
        "this table"
    )
    frequent = metrics.most_frequent
    print(
        f"most frequent: {frequent.caption!r}, {frequent.times} times in train; "
        "random pair: a caption of another pair of train"
    )
    origin = (
        f"features: {metrics.features}; pictures: {metrics.pictures}; {metrics.decoding}; "
        if metrics.run
        else ""
    )
    print(f"{origin}captions: {metrics.captions}; tokeniser: {metrics.tokeniser}")
