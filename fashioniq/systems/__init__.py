"""Dialog systems, one kind per file.

The module of a system has a function `build(options) -> list[Task]`, which returns the dialogs of its evaluation, and
a dataclass `Options`; those of the package's own systems are in `fashioniq.config`. A system with runs also has
`load(run, chosen)`, which returns the System of a run; its name is the `kind` in model.json.
"""

from collections.abc import Callable
from pathlib import Path
from typing import cast

from fashioniq import plugins
from fashioniq.categories import file_name
from fashioniq.files import UserError, read_json
from fashioniq.loop.rollout import System
from fashioniq.runs import a_or_an, kind_of
from fashioniq.runs.galleries import with_search
from fashioniq.runs.training_data import Selection, version_of
from fashioniq.systems import zero_shot

Factory = Callable[[Path, Selection], System]


def load(
    run: Path | str | None = None,
    features: Path | str | None = None,
    split: str = "test",
    device: str = "auto",
    *,
    encoder: str | None = None,
    data: Path | str | None = None,
    category: str | None = None,
    index: str | None = None,
    gallery: str | None = None,
    generator: str | None = None,
    predictor: Path | str | None = None,
    words: bool = True,
) -> System:
    """Load the system of a run of train-retriever, train-composer, train-dialog-encoder or train-chatsearcher.

    The gallery holds the products of `split` that have features, or all of the catalog for "all". The data
    folder, the category and the feature store default to those used in training. With an `index`, a string of
    FAISS's `index_factory` such as "HNSW32", the search is approximate: the vectors and the index are stored in
    the run, in `gallery/`, and are used again. A `gallery` such as "milvus://127.0.0.1:19530" is searched in
    Milvus. With a `generator` (the values of --generator), a dialog encoder searches with the picture generated
    from each reply (GenIR); `predictor` is the run of train-attributes that computed the features. Without `words`,
    titles and labels of the products are not used in the search.

    With an `encoder` in place of a run, such as a CLIP or a sentence encoder, nothing is trained: the catalog in `data`
    is searched by its vectors, which are computed if they are not there. Raises UserError if a file is missing or does
    not match the run.

    Examples:
        >>> import fashioniq
        >>> system = fashioniq.load("demo/runs/retriever")
        >>> dialog = system.dialog().say("is red with long sleeves").say("not floral")
        >>> [product.id for product in dialog.products(3)]
        ['D...', 'D...', 'D...']
        >>> dialog.undo().said
        ['is red with long sleeves']
    """
    if (run is None) == (encoder is None):
        given = "neither" if run is None else "both"
        raise UserError(f"expected a run or an encoder to search with, found {given}; give one of them")
    if encoder is not None:
        folder, own = (None if path is None else Path(path) for path in (data, features))
        run, data, features = zero_shot.prepare_zero_shot(encoder, folder, category, own, device), None, None
    run = Path(run or "")
    kind = kind_of(run)
    factory = _factory(run, kind)
    if generator is not None and kind != "dialog encoder":
        raise UserError(
            f"a generator needs a run of train-dialog-encoder, found a {kind} in {run}; give another run"
        )
    name = f"{split}-{file_name(category)}" if category else split
    stored = run / "gallery" / name if index or gallery else None
    chosen = Selection(
        features=None if features is None else Path(features),
        split=split,
        device=device,
        data=None if data is None else Path(data),
        category=category,
        stored=stored,
        words=words,
    )
    if generator is None:
        system = factory(run, chosen)
    else:
        from fashioniq.systems import genir  # imports what generates pictures

        system = genir.load(run, chosen, generator, None if predictor is None else Path(predictor))
    if not stored:
        return system
    name = version_of(run, category or str(read_json(run / "model.json", "the model", dict).get("category")))
    return with_search(system, stored, name, index, gallery)


def _factory(run: Path, kind: str) -> Factory:
    """Function that loads the runs of a kind. Raises UserError if there is none."""
    own = kind in plugins.BUILT_IN["runs"]
    if not own and not plugins.is_from_outside("systems", kind):
        known = " or ".join(map(a_or_an, plugins.BUILT_IN["runs"]))
        raise UserError(
            f"expected {known}, found {a_or_an(kind)} in {run}; give a run of "
            "train-retriever, train-composer, train-dialog-encoder or train-chatsearcher"
        )
    found = getattr(plugins.recorded("runs" if own else "systems", kind, run), "load", None)
    if found is None:
        raise UserError(f"the system {kind} of {run} cannot be loaded; give it a function load(run, chosen)")
    return cast(Factory, found)
