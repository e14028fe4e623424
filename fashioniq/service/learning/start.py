"""What training on conversations starts from: a trained retriever with more words, or a linear one that is fitted to an
untrained search, which a new model also has to be better than.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import torch
from msgspec.structs import replace

from fashioniq.categories import file_name
from fashioniq.config import TrainRetriever
from fashioniq.data.catalog import Catalog
from fashioniq.data.words import SPECIAL, Vocabulary, tokenize
from fashioniq.features.store import FeatureStore
from fashioniq.files import UserError
from fashioniq.loop.rollout import System
from fashioniq.models.configs import RetrieverConfig
from fashioniq.models.linear import LinearRetriever
from fashioniq.models.residual import ResidualRetriever
from fashioniq.runs import RetrieverRun, ZeroShotRun, read_run
from fashioniq.runs.trained import create, load_retriever
from fashioniq.runs.training_data import recorded_settings
from fashioniq.runs.weights import load_wording, save_model, save_wording
from fashioniq.service.learning.rules import LiveSession
from fashioniq.systems import load, zero_shot
from fashioniq.training.linear import bigrams_of
from fashioniq.training.retriever_run import train_retriever

CLIENTS = 2  # that must have said a word
RATE = 0.01  # at the maximum of its schedule; a log has few conversations


def new_words(
    sessions: Sequence[LiveSession], clients: Mapping[str, str], vocabulary: Vocabulary
) -> list[str]:
    """Words outside the vocabulary that CLIENTS or more clients said, the most frequent first, then by name."""
    said_by: dict[str, set[str]] = defaultdict(set)
    for session in sessions:
        for word in {word for step in session.steps for word in tokenize(step.text)}:
            said_by[word].add(clients[session.session])
    found = [word for word, by in said_by.items() if word not in vocabulary and len(by) >= CLIENTS]
    return sorted(found, key=lambda word: (-len(said_by[word]), word))


@torch.no_grad()
def grow(
    run: Path, out: Path, store: FeatureStore, sessions: Sequence[LiveSession], words: Sequence[str]
) -> None:
    """Write to `out` the retriever of a run with further words; a linear one gets bigrams of the sessions, too.

    It ranks as before where none of them is said. The new embeddings have the initial values of a new model, which
    are zero in a linear one.
    """
    model, before, about = load_retriever(run, read_run(run, RetrieverRun).category, store)
    after = Vocabulary([*before.words[len(SPECIAL) :], *words])
    sizes = about.sizes | {"vocabulary": len(after)}
    old = model.state_dict()
    if isinstance(model, LinearRetriever | ResidualRetriever):
        part = "linear." if isinstance(model, ResidualRetriever) else ""
        codes, bag = f"{part}bigram_G", f"{part}bag_GD"
        examples = [(step.item, step.text, one.target) for one in sessions for step in one.steps]
        firsts_G, seconds_G = old[codes] // len(before), old[codes] % len(before)
        known_G = firsts_G * len(after) + seconds_G
        codes_G = torch.tensor(sorted({*known_G.tolist(), *bigrams_of(examples, after)}), dtype=torch.long)
        sizes["bigrams"] = len(codes_G)
        bag_GD = old[bag].new_zeros(len(after) + len(codes_G), old[bag].shape[1])
        bag_GD[: len(before)] = old[bag][: len(before)]
        bag_GD[len(after) + torch.searchsorted(codes_G, known_G)] = old[bag][len(before) :]
        old |= {codes: codes_G, bag: bag_GD}
    grown = create("retrievers", about.model, sizes)
    weights = grown.state_dict()
    for name, tensor in old.items():
        if weights[name].shape == tensor.shape:
            weights[name].copy_(tensor)
        else:  # a word embedding
            weights[name][: len(tensor)] = tensor
    save_model(out, grown, replace(about, sizes=sizes, words=after.words))
    if (found := load_wording(run, sizes["features"])) is not None:
        wording, of_labels = found
        save_wording(out, of_labels, wording)


def linear_start(run: Path, out: Path, seed: int, device: str) -> Path:
    """Fit a linear retriever on the vectors of an untrained search to the captions of its catalog; return its run.

    Raises UserError if there are no captions to start from.
    """
    about = read_run(run, ZeroShotRun)
    catalog = Catalog(Path(about.data.folder), about.category)
    settings = TrainRetriever(
        data=catalog.root,
        category=catalog.category,
        features=Path(str(recorded_settings(run).get("features"))),
        model=RetrieverConfig(kind="linear"),
        users=["differences", "recorded"] if catalog.labels else ["recorded"],
        epochs=0,
        learning_rate=RATE,
        seed=seed,
        run=out,
        device=device,  # type: ignore[arg-type]
    )
    print(train_retriever(settings))
    return out


def untrained_searches(
    catalog: Catalog, split: str, device: str, place: Path
) -> Iterator[tuple[str, System]]:
    """Untrained searches of a catalog and their names: those that were served, or else the words of the catalog.

    The run of the latter and its features are written to `place`.
    """
    names = f"{file_name(catalog.category)}-*/model.json"
    served = [path.parent for path in sorted((catalog.root / "zero-shot").glob(names))]
    try:
        for run in served or [
            zero_shot.prepare_zero_shot(
                "metadata", catalog.root, catalog.category, device=device, out=place / "metadata"
            )
        ]:
            yield Path(read_run(run, ZeroShotRun).encoder).name, load(run, split=split, device=device)
    except UserError as error:
        print(f"no comparison with an untrained search: {error}")
