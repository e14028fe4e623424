"""Options of the commands that put a trained run to use: serve, learn, forget, API keys, and export."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fashioniq.config.shared import DATA, Finds, OnDevice, Seeded, WithoutTraining, option, refuse, required
from fashioniq.files import UserError

SCOPES = ("search", "events", "catalog", "admin")  # of API keys
DATABASE = "sqlite:///runs/service.db"


@dataclass(kw_only=True)
class InDatabase:
    """Database of the service."""

    database: str = option(
        DATABASE,
        "database of the service, such as sqlite:///service.db or postgresql+psycopg://user@host/name",
    )


@dataclass(kw_only=True)
class Serve(WithoutTraining, InDatabase, Finds):
    """Serve trained systems over HTTP, with a page for shoppers; Ctrl-C ends the service."""

    run: list[str] = option(
        [],
        "run of train-retriever, train-composer, train-dialog-encoder or train-chatsearcher; repeat it for several "
        "categories (default: the models that are active in the database)",
    )
    data: Path | None = option(None, DATA + " that --encoder searches")
    category: list[str] = option([], "categories that --encoder searches (default: all of --data)")
    host: str = option("127.0.0.1", "address to listen on; other machines need an API key")
    port: int = option(8000, "port to listen on; 0 picks a free one", least=0, below=65536)
    proxy: bool = option(
        False, "a proxy such as nginx is in front: requests from this machine need a key, too"
    )
    predictor: list[str] = option(
        [],
        "run of train-attributes whose features the models have, so that shoppers can upload pictures; it embeds "
        "generated pictures, too",
    )
    generator: str | None = option(
        None,
        "generator: runs of train-dialog-encoder search with the pictures that it makes of the shopper's words "
        "(GenIR); the values are those of eval-dialogs --system genir",
    )
    models: Path | None = option(None, "folder of runs that may be registered over HTTP")
    explore: float = option(
        0.0,
        "share of the conversations with consent for training in which two products, drawn from the first 50, stand at "
        "random places, so that `learn` can judge other models",
        least=0.0,
        below=1,
        research=True,
    )
    spool: Path | None = option(
        None,
        "folder for events that wait while the database is not available (default: the folder of the SQLite file; "
        "with PostgreSQL, events are refused meanwhile)",
    )
    log: bool = option(False, "print a line per request, without texts")

    def validate(self) -> None:
        super().validate()
        refuse(
            (
                (self.data or self.category) and not self.encoder,
                "--data and --category go with --encoder, as a run is searched in the catalog of its training; leave "
                "them out, or give --encoder",
            )
        )


@dataclass(kw_only=True)
class Demo:
    """Open a shop of 240 drawn dresses, searched by a small trained run of the package; Ctrl-C ends it."""

    folder: Path = option(Path("fashioniq-demo"), "folder for the drawn catalog, the run and the database")


@dataclass(kw_only=True)
class ApiKey(InDatabase):
    """Create a key for programs that use the service from other machines, or revoke one."""

    scopes: list[str] = option(
        [], f"what the key may be used for: {', '.join(SCOPES)}; admin includes all (default: search)"
    )
    revoke: str | None = option(None, "id of a key to revoke")

    def validate(self) -> None:
        """Refuse unknown scopes."""
        if unknown := [scope for scope in self.scopes if scope not in SCOPES]:
            raise UserError(f"--scopes: expected some of {', '.join(SCOPES)}, found {unknown[0]}")


@dataclass(kw_only=True)
class Learn(OnDevice, Seeded, InDatabase):
    """Train a retriever further on the conversations of the service, and activate it if it is better on later ones."""

    run: Path = required(
        "run of train-retriever that serves now, from which training starts, or an untrained search "
        "(DATA/zero-shot/CATEGORY-NAME), of whose vectors a linear retriever is trained",
        reads="retriever or zero-shot search",
    )
    out: Path = required("new folder of the training data, the new run (OUT/run), and the report")
    held_out: float = option(
        0.25,
        "share of the conversations, the latest ones, that test the new model",
        least=0.01,
        below=1,
        research=True,
    )
    min_targets: int = option(
        500, "minimum number of held-out targets that the gate needs", least=2, research=True
    )
    epochs: int = option(8, "number of epochs; the cosine schedule ends with the last one", least=1)
    activate: bool = option(False, "register the new model and activate it if it passes the gate")


@dataclass(kw_only=True)
class CompareLive(InDatabase):
    """Compare two models in the conversations of the service; print how the comparison stands, and end it once it is
    decided.
    """

    run: Path | None = option(
        None,
        "run to compare with the active model of its category from now on, the challenger (default: print how the "
        "latest comparisons stand)",
    )
    method: Literal["team-draft", "probabilistic", "split"] = option(
        "team-draft",
        "what a conversation sees: lists of both models, interleaved by team draft or by drawing from both "
        "rankings, or one of the models",
    )
    most: int = option(
        10_000,
        "number of conversations, one of each client, after which the comparison ends without a decision",
        least=100,
    )
    end: str | None = option(None, "category whose comparison to end now")
    out: Path | None = option(None, "HTML page of the comparisons (default: none)")

    def validate(self) -> None:
        refuse((self.run and self.end, "--run begins a comparison and --end ends one; give one of them"))


@dataclass(kw_only=True)
class Forget(InDatabase):
    """Erase conversations in the database and in the training data made from it, and name the models that used them.

    Without --session and --client, only the training data are rewritten, without what was erased, or whose
    consent for training was withdrawn. The exit code is 1 if some of them could not be reached; what is left is removed
    by the next forget, learn or serve.
    """

    session: str | None = option(None, "id of a conversation")
    client: str | None = option(None, "id of a client, whose conversations are all erased")
    deleted: list[str] = option(
        [], "ids of training data whose folders were deleted for good, as the error names them"
    )

    def validate(self) -> None:
        refuse(
            *(
                (
                    getattr(self, name) == "",
                    f"expected the id of a {of}, found an empty --{name}; correct it, or leave it out",
                )
                for name, of in (("session", "conversation"), ("client", "client"))
            ),
            (
                self.session and self.client,
                "--session and --client exclude each other; give one of them",
            ),
        )


@dataclass(kw_only=True)
class Export:
    """Export a trained retriever: as ONNX files, or in the layout of the Hugging Face hub with a model card."""

    run: Path = required("run of train-retriever or train-composer", reads="retriever")
    to: Literal["onnx", "huggingface"] = option("onnx", "format: onnx or huggingface")
    out: Path | None = option(
        None, "output folder, empty or with an earlier export (default: RUN/onnx or RUN/huggingface)"
    )

    def folder(self) -> Path:
        """Output folder, by default in the run. Raises UserError if it is the run itself."""
        out = self.out or self.run / self.to
        if out.resolve() == self.run.resolve():
            raise UserError("--out is the run itself, whose files would be replaced; give another folder")
        return out
