"""ONNX files of a trained retriever: the image embedding, and the query of whole dialogs, each also in int8."""

import logging
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import torch
from torch import Tensor, nn

from fashioniq import __version__
from fashioniq.data.items import Items
from fashioniq.exports.folder import check_folder, discard
from fashioniq.files import (
    UserError,
    atomic_write,
    checksum,
    explaining,
    temporary_folder,
    write_json,
)
from fashioniq.loop.gallery import Gallery
from fashioniq.models.retriever import BaseRetriever
from fashioniq.options import refuse
from fashioniq.plugins import is_from_outside
from fashioniq.runs import RetrieverRun
from fashioniq.runs.trained import load_retriever

BATCHES, TURNS = (1, 3, 8), (1, 2, 5, 7)  # an export can freeze a dynamic size silently: each is tried
TOLERANCE = 1e-4
PRODUCTS = 500  # of the random gallery in which ranks are compared
INPUTS = {"embed_images": ("image",), "query": ("words", "attributes", "image", "mask")}
OUTPUTS = {"embed_images": "vector", "query": "query"}
FILES = tuple(f"{name}{kind}.onnx" for name in INPUTS for kind in ("", ".int8"))
ABOUT = "export.json"


@dataclass(frozen=True)
class ExportDifference:
    """Largest difference from the model, and the number of targets with another rank, of `ranks`."""

    largest: float
    moved: int
    ranks: int


class _ImageEmbedding(nn.Module):
    """`embed_images` of a retriever as a module."""

    def __init__(self, retriever: BaseRetriever) -> None:
        super().__init__()
        self.retriever = retriever

    def forward(self, image_BD: Tensor) -> Tensor:
        return self.retriever.embed_images(image_BD)


def export_onnx(run: Path, out: Path) -> ExportDifference:
    """Write the ONNX files and export.json of a retriever to `out`; return the difference from the model.

    Raises UserError if packages are missing, the model cannot be exported, or its files compute something else.
    """
    try:
        import onnxruntime.quantization  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise UserError(f"ONNX files need {error.name}; pip install 'fashioniq[export]'") from error
    retriever, _, about = load_retriever(run)
    without_forward = type(retriever).forward is BaseRetriever.forward
    refuse(
        (
            without_forward and is_from_outside("retrievers", about.model),
            f"the retriever {about.model} of {run} has no forward, which ONNX files are made of; add "
            f"forward({', '.join(INPUTS['query'])}), which returns the query after the last turn",
        ),
        (
            without_forward,
            f"expected a transformer, rnn or linear retriever in {run}, found a {about.model}, which is not exported "
            "to ONNX; give another run",
        ),
    )
    check_folder(out, ABOUT, lambda known: {"weights", "words", "checked"} <= known.keys(), unfinished=FILES)
    with temporary_folder() as folder:
        for graph, model in (("embed_images", _ImageEmbedding(retriever)), ("query", retriever)):
            _write_graph(folder / f"{graph}.onnx", model, graph, about.sizes)
            _quantize(folder / f"{graph}.onnx", folder / f"{graph}.int8.onnx")
        found = difference(retriever, about, sessions(folder))
        if not found.largest <= TOLERANCE or found.moved:
            raise UserError(
                f"expected ONNX files that compute what {run} computes, found a difference of {found.largest:.1e} and "
                f"{found.moved} of {found.ranks} other ranks; use the versions of constraints.txt"
            )
        discard(out, ABOUT, *FILES)
        for file in FILES:
            with atomic_write(out / file) as temporary:
                temporary.write_bytes((folder / file).read_bytes())
    write_json(out / ABOUT, _description(about, found, out))
    return found


def sessions(folder: Path, kind: str = "", graphs: Iterable[str] = INPUTS) -> dict[str, Any]:
    """Sessions of onnxruntime with one thread, by graph; `kind` is "" or ".int8"."""
    from onnxruntime import InferenceSession, SessionOptions

    options = SessionOptions()
    options.intra_op_num_threads = 1
    return {
        name: InferenceSession(folder / f"{name}{kind}.onnx", options, providers=["CPUExecutionProvider"])
        for name in graphs
    }


def compute(opened: Mapping[str, Any], graph: str, *inputs: Tensor) -> Tensor:
    """Output of a graph."""
    given = zip(INPUTS[graph], (one.numpy() for one in inputs), strict=True)
    return torch.from_numpy(opened[graph].run(None, dict(given))[0])


@torch.no_grad()
def difference(retriever: BaseRetriever, about: RetrieverRun, opened: Mapping[str, Any]) -> ExportDifference:
    """Compare a model with its files on random dialogs of all BATCHES and TURNS, and a random gallery."""
    generator = torch.Generator().manual_seed(0)
    image_ND = torch.randn(PRODUCTS, about.sizes["features"], generator=generator)
    ours_ND, theirs_ND = retriever.embed_images(image_ND), compute(opened, "embed_images", image_ND)
    galleries = [
        Gallery(Items.without_attributes([str(one) for one in range(PRODUCTS)], vectors_ND), vectors_ND)
        for vectors_ND in (ours_ND, theirs_ND)
    ]
    largest, moved, count = (ours_ND - theirs_ND).abs().max().item(), 0, 0
    for dialogs in _random_dialogs(about.sizes, generator):
        ours_BD, theirs_BD = retriever(*dialogs), compute(opened, "query", *dialogs)
        largest = max(largest, (ours_BD - theirs_BD).abs().max().item())
        target_B = torch.randint(PRODUCTS, (len(ours_BD),), generator=generator)
        rank_B, other_B = (
            gallery.rank(query_BD, target_B)
            for gallery, query_BD in zip(galleries, (ours_BD, theirs_BD), strict=True)
        )
        moved, count = moved + int((rank_B != other_B).sum()), count + len(rank_B)
    return ExportDifference(largest, moved, count)


def _random_dialogs(sizes: Mapping[str, int], generator: torch.Generator) -> Iterator[tuple[Tensor, ...]]:
    """Dialogs of all sizes; those of every third batch have one word more than in training."""
    for number, (batch, turns) in enumerate((batch, turns) for batch in BATCHES for turns in TURNS):
        yield _dialogs(sizes, generator, batch, turns, words=sizes["max_words"] + number % 3 // 2)


def _dialogs(
    sizes: Mapping[str, int], generator: torch.Generator, batch: int, turns: int, words: int
) -> tuple[Tensor, ...]:
    def lengths(most: int, *shape: int) -> Tensor:
        """True for the first positions of each row, of which there is one at least."""
        length = torch.randint(1, most + 1, (*shape, 1), generator=generator)
        return torch.arange(most) < length

    words_BTL = torch.randint(1, sizes["vocabulary"], (batch, turns, words), generator=generator)
    attributes_BTA = torch.randint(sizes.get("attributes", 0) + 1, (batch, turns, 8), generator=generator)
    image_BTD = torch.randn(batch, turns, sizes["features"], generator=generator)
    mask_BT = lengths(turns, batch)
    mask_BT[0] = True
    return words_BTL * lengths(words, batch, turns), attributes_BTA, image_BTD, mask_BT


def _write_graph(path: Path, model: nn.Module, graph: str, sizes: Mapping[str, int]) -> None:
    """Export a graph whose sizes are dynamic, all but that of the image features."""
    example = _dialogs(sizes, torch.Generator().manual_seed(0), batch=3, turns=2, words=5)
    turn = {0: "batch", 1: "turns"}
    dynamic: tuple[dict[int, str], ...] = ({**turn, 2: "words"}, {**turn, 2: "attributes"}, turn, turn)
    if graph == "embed_images":
        example, dynamic = (example[2].flatten(0, 1),), ({0: "batch"},)
    with (
        explaining(
            f"torch {torch.__version__} cannot export {graph} to ONNX",
            "; use the versions of constraints.txt",
            torch.onnx.OnnxExporterError,
        ),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            model,
            example,
            dynamo=True,
            dynamic_shapes=dynamic,
            input_names=INPUTS[graph],
            output_names=[OUTPUTS[graph]],
            verbose=False,
        )
    assert program is not None, "it is None without dynamo only"
    content = program.model_proto
    # shapes of transposed weights in it are wrong, and the quantizer refuses them
    del content.graph.value_info[:]
    for node in content.graph.node:
        del node.metadata_props[:]  # traces with the paths of this machine
    path.write_bytes(content.SerializeToString())


def _quantize(path: Path, out: Path) -> None:
    """Write a graph with weights in int8; activations are quantized as they are computed."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    logging.disable(logging.WARNING)  # advice to optimize the graph first
    try:
        quantize_dynamic(path, out, weight_type=QuantType.QInt8)
    finally:
        logging.disable(logging.NOTSET)


def _description(about: RetrieverRun, found: ExportDifference, out: Path) -> dict[str, Any]:
    """Content of export.json: what is needed to use the files, and how they were checked."""
    return {
        "version": __version__,
        "category": about.category,
        "model": about.model,
        "weights": about.checksum or "",
        "features": msgspec.to_builtins(about.features),
        "words": about.words,
        "max_words": about.sizes["max_words"],
        "files": {name: checksum(out / name) for name in FILES},
        "checked": {
            "batches": BATCHES,
            "turns": TURNS,
            "largest_difference": found.largest,
            "equal_ranks": found.ranks - found.moved,
            "ranks": found.ranks,
        },
    }
