"""Settings of the evaluations of searches: of single turns, of conversations, and of requests."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fashioniq.config.evaluation import Split
from fashioniq.config.shared import (
    OUT,
    Batched,
    InFolder,
    OfConversations,
    OnDevice,
    Scored,
    Seeded,
    Verified,
    WithFeatures,
    WithoutTraining,
    option,
    refuse,
)
from fashioniq.files import UserError

CHATSEARCH_METHODS = ("chatsearcher", "retriever", "image", "text", "both", "concatenation", "random")

_LONGEST_NAME = 100  # characters of a row, which names files


@dataclass(kw_only=True)
class EvalSingleTurn(Scored, OnDevice, Batched, InFolder):
    """Evaluate retrievers on single-turn retrieval: find the target from a candidate and a caption.

    With --predictions, evaluate rankings, vectors or scores of another system, with --sessions on recorded sessions;
    with --queries, write the queries that it has to answer.
    """

    category: list[str] = option(
        [], "categories: dresses, shirts, tops or your own; several give a table with their mean (required)"
    )
    run: list[str] = option([], "runs of train-retriever or train-composer, one per category")
    predictions: list[str] = option(
        [],
        "prediction files of another system, one per category: a TREC run, .json of {query: [id, …]}, or .npz with the "
        "arrays queries, query_vectors, ids and vectors, or queries, ids and scores",
    )
    queries: Path | None = option(
        None,
        "folder to write the queries and the gallery to, as queries.CATEGORY.json; nothing is evaluated",
    )
    sessions: Path | None = option(
        None,
        "folder of Multiturn FashionIQ, whose sessions and galleries replace --data for --predictions; queries are "
        "named SPLIT_CATEGORY_FIRST_TARGET_NUMBER, as in the released score files; several categories get no mean",
    )
    features: list[str] = option(
        [], "feature stores, one per category (default: DATA/features/CATEGORY, if needed)"
    )
    split: Split = option("val", "split whose pairs are the queries; released test pairs have no targets")
    out: Path | None = option(
        None,
        OUT
        + " (default: RUN/single-turn-…, or a folder named like the predictions; required for several categories)",
    )
    gallery: Literal["original", "val-split"] = option(
        "original",
        "gallery: all products of the split, or only those in its pairs (VAL protocol, higher scores)",
        research=True,
    )
    captions: Literal["each", "joined", "both-orders"] = option(
        "each",
        "queries per pair: each caption, both captions joined by the word and, or the mean of both orders of joining",
        research=True,
    )
    exclude_candidate: bool = option(False, "remove the candidate of a query from its results", research=True)

    def validate(self) -> None:
        names, default = ("features", "gallery", "captions", "exclude_candidate"), EvalSingleTurn()
        changed = next((name for name in names if getattr(self, name) != getattr(default, name)), "")
        refuse(
            (self.run and self.predictions, "--run and --predictions exclude each other; give one of them"),
            (
                self.sessions and not self.predictions,
                "--sessions is for --predictions; eval-dialogs --user sessions evaluates a run",
            ),
            (
                self.sessions and self.split == "test",
                "Multiturn FashionIQ has no sessions of test; give --split val or train",
            ),
            (
                self.predictions and self.score == "vectors",
                "--score is for --run; --predictions have ranks or scores, so leave it out",
            ),
            (
                self.sessions and changed,
                f"--{changed.replace('_', '-')} is for captioned pairs; leave it out with --sessions",
            ),
        )


@dataclass(kw_only=True)
class EvalChatsearch(Verified, OnDevice, Seeded, Batched, OfConversations):
    """Evaluate searches in conversations of words and pictures: R@1, 5 and 10 of ChatSearch's sub-tasks, their mean,
    and significance.
    """

    method: list[str] = option(
        [],
        "rows of the table: chatsearcher (needs --run); retriever (needs --retriever); image, the frozen vector of "
        "the last picture; text, the dual encoder of --encoder; both, the sum of words and picture in its space; "
        "concatenation, ridge regression from these two, fitted on train; random (default: all that have what they "
        "need)",
    )
    run: Path | None = option(None, "run of train-chatsearcher", reads="chatsearcher")
    encoder: str | None = option(
        None,
        "encoder of texts: a run of train-dialog-encoder on the same words, or any of extract-features, whose vectors "
        "are among --features",
    )
    retriever: Path | None = option(
        None,
        "dialog retriever: a run of train-retriever on the feature store of --features; it gets the "
        "rounds in which the user says something about a picture",
        reads="retriever",
    )
    scores: list[str] = option(
        [],
        "score files of other systems, each one more row with the name of the file: .npz with scores, query_ids (the "
        "conversations) and index_ids (the candidates), or pickles of Multiturn FashionIQ's authors",
    )
    out: Path | None = option(None, OUT + " (default: RUN/chatsearch; required without --run)")
    batch_size: int = 64

    def validate(self) -> None:
        if unknown := set(self.method) - set(CHATSEARCH_METHODS):
            raise UserError(
                f"--method {min(unknown)} is unknown; give some of {', '.join(CHATSEARCH_METHODS)}"
            )
        names = [*CHATSEARCH_METHODS, *(Path(name).stem for name in self.scores)]
        refuse(
            (
                "chatsearcher" in self.method and not self.run,
                "--method chatsearcher needs a run of train-chatsearcher; give --run",
            ),
            (
                set(self.method) & {"text", "both", "concatenation"} and not self.encoder,
                "texts need a dual encoder; give --encoder",
            ),
            (
                "retriever" in self.method and not self.retriever,
                "--method retriever needs a run of train-retriever; give --retriever",
            ),
            (
                self.retriever and len(self.features) != 1,
                "--retriever needs one feature store; give it with --features",
            ),
            (
                len(set(names)) < len(names) or max(map(len, names)) > _LONGEST_NAME,
                f"every row needs a name of its own, of at most {_LONGEST_NAME} characters; rename a file of --scores",
            ),
            (
                not (self.out or self.run),
                "without --run there is no default output folder; give --out",
            ),
        )

    @property
    def methods(self) -> list[str]:
        """The methods of --method, or all that have what they need, in the order of the table."""
        needed = {
            "chatsearcher": self.run,
            "retriever": self.retriever,
            **dict.fromkeys(("text", "both", "concatenation"), self.encoder),
        }
        possible = [name for name in CHATSEARCH_METHODS if needed.get(name, True)]
        return [name for name in CHATSEARCH_METHODS if name in (self.method or possible)]


@dataclass(kw_only=True)
class EvalRequests(WithoutTraining, OnDevice, Seeded, WithFeatures):
    """Judge a search by requests made from the catalog's labels: the share of the first results that obey, beside
    plain BM25.
    """

    run: Path | None = option(
        None, "run of the search, such as runs/retriever-dresses-attrs (default: BM25 only)", reads="run"
    )
    misspellings: Path | None = option(
        None,
        "JSON object of misspelled words and their corrections by people, for one more kind of requests",
        reads="file",
        research=True,
    )
    blind: bool = option(
        False, "judge the search also from pictures alone, without titles and labels", research=True
    )
    out: Path | None = option(None, OUT + " (default: RUN/requests; required without --run)")

    def validate(self) -> None:
        refuse(
            (self.run and self.encoder, "--run and --encoder cannot be combined; leave one of them out"),
            (
                self.blind and not (self.run or self.encoder),
                "--blind judges the search of a run; give --run",
            ),
        )
        self.folder()

    def folder(self) -> Path:
        """Output folder, by default in the run. Raises UserError without --run."""
        if self.out is None and self.run is None:
            raise UserError("without --run there is no default output folder; give --out")
        return self.out or Path(str(self.run)) / "requests"
