"""Options of the commands that learn from conversations, and that forget them."""

from dataclasses import dataclass
from pathlib import Path

from fashioniq.config.fields import DEVICE, option, required
from fashioniq.files import UserError

DATABASE = "database of the service, such as postgresql+psycopg://user@host/name"


@dataclass(kw_only=True)
class Learn:
    """Train a retriever further on the conversations of the service, and activate it if it is better on later ones."""

    database: str = option("sqlite:///runs/service.db", DATABASE)
    run: Path = required(
        "run of train-retriever that serves now, from which training starts", reads="retriever"
    )
    out: Path = required("new folder of the training data, the new run (OUT/run), and the report")
    held_out: float = option(
        0.25, "share of the conversations, the latest ones, that test the new model", least=0.01, below=1
    )
    min_targets: int = option(500, "minimum number of held-out targets that the gate needs", least=2)
    epochs: int = option(8, "number of epochs; the cosine schedule ends with the last one", least=1)
    seed: int = option(0, "random seed", least=0, below=2**32)
    activate: bool = option(False, "register the new model and activate it if it passes the gate")
    device: str = option("auto", DEVICE)


@dataclass(kw_only=True)
class Forget:
    """Erase conversations in the database and in the training data made from it, and name the models that used them.

    Without --session and --client, only the training data are rewritten, without what was erased earlier.
    """

    database: str = option("sqlite:///runs/service.db", DATABASE)
    session: str | None = option(None, "id of a conversation")
    client: str | None = option(None, "id of a client, whose conversations are all erased")

    def validate(self) -> None:
        if self.session and self.client:
            raise UserError("--session and --client exclude each other; give one of them")
