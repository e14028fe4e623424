"""What the tests of several folders share: the folder of real data, and one set of tiny runs on a tiny drawn
sample.
"""

import gc
import io
import json
import multiprocessing
import multiprocessing.forkserver
import os
import pickle
import shutil
import signal
import sys
import threading
import time
from dataclasses import dataclass
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = (
    "1"  # read when torch is loaded: a forked process hangs where its parent had OpenMP threads
)

import numpy as np
import pytest
from filelock import FileLock
from PIL import Image

from fashioniq import compat
from fashioniq.cli import COMMANDS, main
from fashioniq.data import conversation_records, conversations
from tests import leftovers
from tests.databases import stop_server
from tests.local_models import blip, blip2, caption_model, causal, llava, t5  # noqa: F401
from tests.waiting import LIMIT, attempts, ended, joined, received

# as the commands do, before the conftest of a subfolder imports torch or Lightning
compat.keep_caches_together()

signal.signal(
    signal.SIGINT, signal.default_int_handler
)  # a shell's background jobs ignore Ctrl-C, and so would what the tests start

BEGAN = time.monotonic()
# until all tests are collected: what they import are millions of objects, which would be looked through again
# and again
gc.disable()
PROJECT = Path(__file__).resolve().parents[1]
SHARED = Path(os.environ.get("FASHIONIQ_SHARED", PROJECT.parent / "shared" / "data"))

TINY_MODEL = {
    "model.width": 32,
    "model.heads": 2,
    "model.hidden": 64,
    "model.layers": 1,
    "epochs": 2,
    "batch_size": 16,
}
TINY_CAPTIONER = {**TINY_MODEL, "noam_factor": 1.0, "warmup": 20, "beam": 1}
TINY_RETRIEVER = {
    **TINY_MODEL,
    "model.kind": "transformer",
    "users": "captioner",
    "samples": 2,
    "turns": 3,
    "learning_rate": 0.003,
    "loss": "triplet",
    "negatives": "batch",
    "schedule": "constant",
    "no_exclude_shown": True,
}
TINY_CHATSEARCHER = {
    "model.image_tokens": 2,
    "model.space": 16,
    "model.width": 32,
    "model.heads": 2,
    "model.hidden": 64,
    "model.layers": 1,
    "model.max_tokens": 64,
    "epochs": 2,
    "batch_size": 16,
    "min_count": 1,
}
TINY_PICTURES = {"encoder": "test_efficientnet", "weights": "none", "image_size": 32, "workers": 0}


def arguments_of(command, **options):
    """A command line: `image_size=32` is --image-size 32, True a bare flag, a list its values, `model.width`
    --model.width.
    """
    words = [command]
    for name, value in options.items():
        values = [] if value is True else value if isinstance(value, list) else [value]
        words += ["--" + name.replace("_", "-"), *map(str, values)]
    return words


BEFORE, LEFT = pytest.StashKey(), pytest.StashKey()  # what was there at the start, what is left at the end
KINDS = ("unit", "end_to_end", "plugins", "golden", "hostile", "browser", "gpu")


@pytest.hookimpl(trylast=True)  # after pytest has its folder
def pytest_configure(config):
    for kind in KINDS:
        config.addinivalue_line("markers", f"{kind}: the tests of tests/{kind}")
    root = config._tmp_path_factory.getbasetemp()
    if not hasattr(config, "workerinput"):
        config.stash[BEFORE] = leftovers.places()
    leftovers.begin(root / "tmp")


@pytest.hookimpl(trylast=True)  # after the workers of pytest-xdist have ended
def pytest_sessionfinish(session):
    """A process, shared memory or file that is left is a failure."""
    config = session.config
    if hasattr(config, "workerinput"):
        return
    stop_server(config._tmp_path_factory.getbasetemp())
    config.stash[LEFT] = leftovers.left(config.stash[BEFORE])
    if config.stash[LEFT] and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_itemcollected(item):
    """Mark a test by the folder it is in."""
    folder = item.path.relative_to(PROJECT / "tests").parts[0]
    item.add_marker(folder if folder in KINDS else "unit")


def pytest_collection_finish():
    gc.freeze()
    gc.set_threshold(50_000, 20)  # rarer than usual: collections took 6 % of the time of tests that train
    gc.enable()


def pytest_collection_modifyitems(items):
    """Unit tests first: they are the fastest."""
    items.sort(key=lambda item: item.get_closest_marker("unit") is None)


def pytest_terminal_summary(terminalreporter):
    """Print how long the tests took. The processor time includes that of all processes which have ended."""
    if left := terminalreporter.config.stash.get(LEFT, []):
        terminalreporter.section("left behind by the tests", red=True)
        terminalreporter.write_line("\n".join(left))
    spent = os.times()
    processor = spent.user + spent.system + spent.children_user + spent.children_system
    terminalreporter.write_line(f"{processor:.0f} s of processor time in {time.monotonic() - BEGAN:.0f} s")


@dataclass(frozen=True)
class Project:
    """Where the project lies, the sizes of tiny runs, and how its commands are given."""

    root: Path = PROJECT
    captioner = TINY_CAPTIONER
    retriever = TINY_RETRIEVER
    chatsearcher = TINY_CHATSEARCHER
    pictures = TINY_PICTURES

    arguments = staticmethod(arguments_of)

    @staticmethod
    def run(command, **options):
        """Run a command that has to succeed."""
        assert main(arguments_of(command, **options)) == 0

    @staticmethod
    def content(path):
        """What a file holds; metrics.json and model.json without their provenance, which differs between
        equal runs.
        """
        if path.name not in ("metrics.json", "model.json"):
            return path.read_bytes()
        content = json.loads(path.read_text())
        assert list(content)[-1] == "provenance"
        return json.dumps({name: value for name, value in content.items() if name != "provenance"})


@dataclass(frozen=True)
class Runs:
    """A catalog, the feature store of its dresses, and what was trained on it."""

    catalog: Path
    store: Path
    captioner: Path
    retriever: Path
    dialogs: Path


@pytest.fixture(scope="session")
def project():
    return Project()


@pytest.fixture
def by_vectors(tmp_path):
    """Function that copies a run without its wording: the copy ranks by vectors alone."""
    return lambda run: shutil.copytree(
        run, tmp_path / f"{run.name}-by-vectors", ignore=shutil.ignore_patterns("wording.json")
    )


@pytest.fixture(scope="session")
def script_commands():
    """The command of each script of the top level, by the script's path."""
    scripts = [path for folder in (".", "data_prep", "eval") for path in (PROJECT / folder).glob("*.py")]
    return {
        str(path.relative_to(PROJECT)): command
        for path in scripts
        for command in COMMANDS
        if f'"{command}"' in path.read_text()
    }


@pytest.fixture(scope="session")
def shared():
    """The folder of real data."""
    if not SHARED.is_dir():
        pytest.skip(f"no real data at {SHARED}; FASHIONIQ_SHARED names another folder")
    return SHARED


@pytest.fixture(scope="session")
def once(tmp_path_factory):
    """Make something in a folder of its own, once for all workers of pytest-xdist: the first one that needs
    it makes it.
    """
    root = tmp_path_factory.getbasetemp()
    root = (root.parent if "PYTEST_XDIST_WORKER" in os.environ else root) / "shared"
    root.mkdir(exist_ok=True)

    def once(name, make, *arguments):
        made = root / f"{name}.pickle"
        with FileLock(root / f"{name}.lock", LIMIT):
            if not made.exists():
                shutil.rmtree(root / name, ignore_errors=True)  # what a worker that failed has left
                (root / name).mkdir()
                made.write_bytes(pickle.dumps(make(root / name, *arguments)))
        return pickle.loads(made.read_bytes())

    return once


@pytest.fixture
def forked():
    """Start a function in a process forked from this one, which has imported everything already.

    It is killed at the end of the test.
    """
    processes = []

    def run(function, *arguments):
        # the server that starts the parent's processes is not a child of this process
        multiprocessing.forkserver._forkserver.__init__()
        function(*arguments)

    def start(function, *arguments):
        process = multiprocessing.get_context("fork").Process(target=run, args=(function, *arguments))
        process.start()
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        ended(process)


@pytest.fixture
def forked_command(forked):
    """Start a command of `fashioniq` as a shell does, but in a process forked from this one.

    It has a session and process group of its own, three file descriptors as its standard streams, and
    `environment` besides the variables of this process.
    """

    def run(arguments, streams, environment):
        os.setsid()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        sys.stdin, sys.stdout, sys.stderr = (
            os.fdopen(number, mode, closefd=False) for number, mode in enumerate("rww")
        )
        os.environ.update(environment)
        sys.exit(main([str(argument) for argument in arguments]))

    def start(arguments, streams, **environment):
        return forked(run, arguments, streams, environment)

    return start


@pytest.fixture(scope="session")
def apart():
    """Call a function in a process forked from this one, whose peak memory is counted from then on; return
    the result.
    """

    def apart(function, *arguments):
        context = multiprocessing.get_context("fork")
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=lambda: sender.send(function(*arguments)))
        process.start()
        sender.close()
        try:
            return received(receiver)  # EOFError where the process dies
        finally:
            ended(process)
            receiver.close()

    return apart


@pytest.fixture(scope="session")
def wait_until():
    """Wait for a condition as long as a process runs."""

    def wait_until(condition, is_running):
        for _ in attempts("the condition was true"):
            if condition():
                return
            assert is_running(), "the process ended too early"
            time.sleep(0.01)

    return wait_until


def make_sample(folder, project):
    project.run("draw-sample", data=folder / "catalog", products=60)
    return folder / "catalog"


def make_attribute_runs(folder, project, sample):
    all_of_them, dresses = folder / "all", folder / "dresses"
    project.run("train-attributes", data=sample, run=all_of_them, min_count=3, epochs=1, **project.pictures)
    project.run(
        "train-attributes",
        data=sample,
        run=dresses,
        init_from=all_of_them,
        category="dresses",
        min_count=3,
        epochs=1,
        workers=0,
    )
    return all_of_them, dresses


def make_runs(folder, project, sample, attribute_runs):
    catalog = shutil.copytree(sample, folder / "catalog")
    made = Runs(
        catalog,
        catalog / "features" / "dress",
        folder / "captioner",
        folder / "retriever",
        folder / "dialogs",
    )
    common = {"data": catalog, "category": "dresses"}
    project.run("extract-features", **common, predictor=attribute_runs[1], workers=1)
    project.run("train-captioner", **common, attrs=True, run=made.captioner, **project.captioner)
    project.run(
        "train-retriever",
        **common,
        attrs=True,
        captioner=made.captioner,
        run=made.retriever,
        **project.retriever,
    )
    project.run(
        "eval-dialogs", **common, run=made.retriever, out=made.dialogs, user=made.captioner, turns=3, beam=2
    )
    return made


def make_vector_runs(folder, project, sample):
    made = Runs(sample, folder / "store", folder / "captioner", folder / "retriever", folder / "dialogs")
    ids = [
        name
        for split in ("train", "val", "test")
        for name in json.loads((sample / f"image_splits/split.dress.{split}.json").read_text())
    ]
    (folder / "ids.json").write_text(json.dumps(ids))
    np.save(folder / "vectors.npy", np.random.default_rng(0).normal(size=(len(ids), 16)).astype(np.float32))
    common = {"data": sample, "category": "dresses", "features": made.store}
    project.run("extract-features", **common, vectors=folder / "vectors.npy", ids=folder / "ids.json")
    project.run("train-captioner", **common, run=made.captioner, **project.captioner)
    project.run(
        "train-retriever", **common, captioner=made.captioner, run=made.retriever, **project.retriever
    )
    project.run("eval-dialogs", **common, run=made.retriever, out=made.dialogs, user=made.captioner, beam=1)
    return made


@pytest.fixture
def refused(capsys, project):
    """Run a command that has to fail at the user's mistake; return its one line."""

    def refused(command, **options):
        capsys.readouterr()
        code = main(project.arguments(command, **options))
        printed = capsys.readouterr().err
        lines = [line for line in printed.splitlines() if line.strip()]
        assert code == 2 and "Traceback" not in printed
        assert len(lines) == 1 and lines[0].startswith("error: "), lines
        assert lines[0].isprintable() and len(lines[0]) < 2100
        return lines[0]

    return refused


@pytest.fixture(scope="session")
def sample(once, project):
    """A drawn sample of 60 products a category. Not to be written to."""
    return once("sample", make_sample, project)


@pytest.fixture(scope="session")
def attribute_runs(once, project, sample):
    """Both stages of the attribute predictor: of all categories, then of dresses. Not to be written to."""
    return once("attributes", make_attribute_runs, project, sample)


@pytest.fixture(scope="session")
def runs(once, project, sample, attribute_runs):
    """The whole way on the pictures of dresses, with attributes. Not to be written to."""
    return once("runs", make_runs, project, sample, attribute_runs)


@pytest.fixture(scope="session")
def vector_runs(once, project, sample):
    """The same on vectors of the user's own, without attributes: every product lies far from every other.

    Not to be written to.
    """
    return once("vectors", make_vector_runs, project, sample)


@lru_cache
def noisy_picture(seed):
    """A PNG of 64×64 pixels."""
    pixels = np.random.default_rng(seed).integers(0, 256, (16, 16, 3), dtype=np.uint8)
    Image.fromarray(pixels).resize((64, 64)).save(file := io.BytesIO(), "PNG")
    return file.getvalue()


def make_talks(folder, sample):
    """Conversations about the dresses of the sample: 24 of each sub-task of train, and 8 of test."""
    ids = {
        split: json.loads((sample / f"image_splits/split.dress.{split}.json").read_text())
        for split in ("train", "test")
    }
    conversations.write_items(
        folder,
        [
            conversation_records.ConversationItem(
                name,
                str(sample / f"images/dress/{name}.jpg"),
                f"dress number {n}",
                "catalog",
                split,
                "dresses",
            )
            for split, names in ids.items()
            for n, name in enumerate(names)
        ],
    )
    source = conversation_records.SampleOrigin("templates")
    for split, count in (("train", 24), ("test", 8)):
        names = ids[split]
        for subtask, kind in (("t", "text"), ("i", "mdc_i"), ("m", "merged")):
            samples = []
            for n in range(count):
                shown, target = conversation_records.TurnPicture(names[n]), names[(n + 1) % len(names)]
                asked, last = (
                    conversation_records.Text(f"dress number {n}"),
                    conversation_records.Text(f"the next of {n} please"),
                )
                history = (
                    conversation_records.ConversationTurn("user", (asked,)),
                    conversation_records.ConversationTurn(
                        "assistant", (conversation_records.Text("sure"), *([shown] if subtask == "m" else []))
                    ),
                )
                turn = conversation_records.ConversationTurn(
                    "user", (shown, last) if subtask == "i" else (last,)
                )
                turns = (turn,) if subtask == "i" else (*history, turn)
                name = f"{subtask}-{split}-{n}"
                samples.append(
                    conversation_records.ConversationSample(name, subtask, kind, turns, target, source, split)
                )
            conversations.write_samples(folder, subtask, split, samples)
            conversations.write_gallery(folder, subtask, split, names)
    return folder


@pytest.fixture(scope="session")
def talks(once, sample):
    """A folder of conversations about the dresses of the drawn sample. Not to be written to."""
    return once("talks", make_talks, sample)


@pytest.fixture
def photo_catalog(tmp_path):
    """Make a catalog of 20 noisy pictures with titles, without captions: 12 train, 4 val and 4 test products."""

    def photo_catalog(folder=tmp_path / "catalog", **about):
        images = folder / "images" / "dress"
        images.mkdir(parents=True)
        first = 0
        for split, count in (("train", 12), ("val", 4), ("test", 4)):
            ids = [f"{split}{number}" for number in range(count)]
            for number, name in enumerate(ids):
                (images / f"{name}.png").write_bytes(noisy_picture(first + number))
            first += count
            for room, file, content in (
                ("image_splits", f"split.dress.{split}.json", ids),
                ("titles", f"dress.{split}.json", {name: {"title": f"Dress {name}"} for name in ids}),
            ):
                (folder / room).mkdir(exist_ok=True)
                (folder / room / file).write_text(json.dumps(content))
        if about:
            (folder / "catalog.json").write_text(json.dumps(about))
        return folder

    return photo_catalog


WORDS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "a",
    "red",
    "blue",
    "dress",
    "is",
    "it",
    "long",
    "yes",
    "no",
    ",",
    "?",
    "the",
    "what",
]


def _blip(image_size=32):
    """A tiny BLIP for image–text retrieval with random weights that do not depend on other tests."""
    import torch
    from transformers import BlipConfig, BlipForImageTextRetrieval

    common = {
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_attention_heads": 2,
        "num_hidden_layers": 1,
        "initializer_range": 0.3,
    }
    text = {**common, "vocab_size": len(WORDS), "max_position_embeddings": 24, "encoder_hidden_size": 16, "pad_token_id": 0, "bos_token_id": 2,
            "eos_token_id": 3, "sep_token_id": 3}  # fmt: skip
    vision = {**common, "image_size": image_size, "patch_size": 16}
    torch.manual_seed(image_size)
    return BlipForImageTextRetrieval(
        BlipConfig(text_config=text, vision_config=vision, image_text_hidden_size=8)
    )


@pytest.fixture(scope="session")
def tiny_blip_of_size():
    return _blip


@pytest.fixture(scope="session")
def tiny_blip(tmp_path_factory):
    """The folder of a tiny BLIP, as the hub's are: model, tokenizer, image processor."""
    transformers = pytest.importorskip("transformers", reason="no transformers: pip install '.[chat]'")
    folder = tmp_path_factory.mktemp("blip")
    _blip().save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    transformers.BertTokenizer(str(folder / "vocab.txt"), model_max_length=512).save_pretrained(folder)
    transformers.BlipImageProcessor(size={"height": 32, "width": 32}).save_pretrained(folder)
    return folder


def _bert_tokenizer(folder):
    """The tokenizer of a folder that has the words of the tests."""
    import transformers

    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    transformers.BertTokenizer(str(folder / "vocab.txt"), model_max_length=512).save_pretrained(folder)


def beit3_weights(places=24, width=128, layers=2, side=32):
    """Random weights of a BEiT-3 for retrieval by their authors' names, with positions for texts of `places` tokens."""
    import torch

    layer = {"final_layer_norm.{}.": (width,), "self_attn_layer_norm.{}.": (width,), "self_attn.inner_attn_ln.{}.": (width,)}  # fmt: skip
    layer |= {f"self_attn.{part}_proj.{{}}.": (width, width) for part in ("q", "k", "v", "out")}
    layer |= {"ffn.{}.fc1.": (48, width), "ffn.{}.fc2.": (width, 48), "ffn.{}.ffn_layernorm.": (48,)}
    shapes = {f"beit3.encoder.layers.{number}.{name}": shape for number in range(layers) for name, shape in layer.items()}  # fmt: skip
    shapes["beit3.encoder.layer_norm.{}."] = (width,)
    shapes = {name.format(letter): shape for name, shape in shapes.items() for letter in "AB"}
    shapes = {f"{name}weight": shape for name, shape in shapes.items()} | {
        f"{name}bias": shape[:1] for name, shape in shapes.items()
    }
    shapes |= {
        "beit3.text_embed.weight": (len(WORDS) + 10, width),
        "beit3.vision_embed.mask_token": (1, 1, width),
        "beit3.vision_embed.cls_token": (1, 1, width),
        "beit3.vision_embed.proj.weight": (width, 3, 16, 16),
        "beit3.vision_embed.proj.bias": (width,),
        "beit3.encoder.embed_positions.A.weight": (2 + 1 + (side // 16) ** 2, width),
        "beit3.encoder.embed_positions.B.weight": (2 + places, width),
        "language_head.weight": (width, width),
        "vision_head.weight": (width, width),
        "logit_scale": (),
    }
    torch.manual_seed(0)
    return {name: torch.randn(shape) * 0.3 + ("norm.weight" in name) for name, shape in shapes.items()}


@pytest.fixture(scope="session")
def tiny_beit3(tmp_path_factory):
    """The folder of a tiny BEiT-3: a checkpoint, and a sentencepiece model of the words of the tests."""
    pytest.importorskip("transformers", reason="no transformers: pip install '.[chat]'")
    pytest.importorskip("google.protobuf", reason="no protobuf: pip install '.[chat]'")
    from safetensors.torch import save_file
    from transformers.convert_slow_tokenizer import import_protobuf

    folder = tmp_path_factory.mktemp("beit3")
    save_file(beit3_weights(), folder / "beit3_tiny.safetensors")
    model = import_protobuf().ModelProto()
    for piece, kind in (("<unk>", 2), ("<s>", 3), ("</s>", 3), *((f"▁{word}", 1) for word in WORDS[5:])):
        model.pieces.add(piece=piece, score=-1.0, type=kind)
    (folder / "beit3.spm").write_bytes(model.SerializeToString())
    return folder


@pytest.fixture(scope="session")
def tiny_siglip(tmp_path_factory):
    """The folder of a tiny SigLIP."""
    transformers = pytest.importorskip("transformers", reason="no transformers: pip install '.[chat]'")
    import torch

    folder = tmp_path_factory.mktemp("siglip")
    common = {"hidden_size": 16, "intermediate_size": 32, "num_attention_heads": 2, "num_hidden_layers": 2}
    text = {**common, "vocab_size": len(WORDS), "max_position_embeddings": 24, "projection_size": 16}
    torch.manual_seed(0)
    config = transformers.SiglipConfig(
        text_config=text, vision_config={**common, "image_size": 32, "patch_size": 16}
    )
    transformers.SiglipModel(config).save_pretrained(folder)
    transformers.SiglipImageProcessor(size={"height": 32, "width": 32}).save_pretrained(folder)
    _bert_tokenizer(folder)
    return folder


@pytest.fixture(scope="session")
def tiny_blip2(tmp_path_factory):
    """The folder of a tiny BLIP-2 for image–text retrieval."""
    transformers = pytest.importorskip("transformers", reason="no transformers: pip install '.[chat]'")
    import torch

    folder = tmp_path_factory.mktemp("blip2")
    common = {"hidden_size": 16, "intermediate_size": 32, "num_attention_heads": 2, "num_hidden_layers": 2}
    words = {"vocab_size": len(WORDS), "max_position_embeddings": 24, "pad_token_id": 0}
    config = transformers.Blip2Config(
        vision_config={**common, "image_size": 32, "patch_size": 16},
        qformer_config={**common, **words, "encoder_hidden_size": 16, "use_qformer_text_input": True, "initializer_range": 0.3},
        text_config={"model_type": "opt", "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 50, "word_embed_proj_dim": 16, "ffn_dim": 16},
        num_query_tokens=3,
        image_text_hidden_size=8,
    )  # fmt: skip
    torch.manual_seed(0)
    model = transformers.Blip2ForImageTextRetrieval(config)
    torch.nn.init.normal_(model.query_tokens)
    model.save_pretrained(folder)
    transformers.BlipImageProcessor(size={"height": 32, "width": 32}).save_pretrained(folder)
    _bert_tokenizer(folder)
    return folder


@pytest.fixture(scope="session")
def tiny_sentence(tmp_path_factory):
    """The folder of a tiny sentence encoder in the layout of sentence-transformers."""
    transformers = pytest.importorskip("transformers", reason="no transformers: pip install '.[chat]'")
    import torch

    folder = tmp_path_factory.mktemp("sentence")
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(WORDS), hidden_size=16, intermediate_size=32, num_attention_heads=2, num_hidden_layers=2,
        max_position_embeddings=24, initializer_range=0.3,
    )  # fmt: skip
    transformers.BertModel(config).save_pretrained(folder)
    _bert_tokenizer(folder)
    kinds = (("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize"))
    modules = [{"path": path, "type": f"sentence_transformers.models.{kind}"} for path, kind in kinds]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir()
    pooling = {
        "word_embedding_dimension": 16,
        "pooling_mode_cls_token": False,
        "pooling_mode_mean_tokens": True,
    }
    (folder / "1_Pooling/config.json").write_text(json.dumps(pooling))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 16}))
    return folder


@pytest.fixture(scope="session")
def tiny_open_clip(tmp_path_factory):
    """The folder of a tiny model of open_clip, saved as the hub's are."""
    open_clip = pytest.importorskip("open_clip", reason="no open_clip: pip install open_clip_torch")
    import torch
    from safetensors.torch import save_file

    folder = tmp_path_factory.mktemp("open_clip")
    sizes = {
        "embed_dim": 8,
        "vision_cfg": {"image_size": 32, "layers": 1, "width": 64, "patch_size": 16},
        "text_cfg": {"context_length": 16, "vocab_size": 49408, "width": 16, "heads": 2, "layers": 1},
    }
    mean = {"mean": [0.5] * 3, "std": [0.5] * 3}
    config = {"model_cfg": sizes, "preprocess_cfg": mean}
    (folder / "open_clip_config.json").write_text(json.dumps(config))
    torch.manual_seed(0)
    save_file(open_clip.CLIP(**sizes).state_dict(), folder / "open_clip_model.safetensors")
    return folder


@pytest.fixture(scope="session")
def tiny_clip(tmp_path_factory):
    """The folder of a tiny CLIP whose tokenizer knows letters and one merged pair."""
    transformers = pytest.importorskip("transformers", reason="no transformers: pip install '.[chat]'")
    import torch

    folder = tmp_path_factory.mktemp("clip")
    letters = "abcdefghijklmnopqrstuvwxyz,?"
    tokens = [*letters, *(letter + "</w>" for letter in letters), "re", "<|startoftext|>", "<|endoftext|>"]
    (folder / "vocab.json").write_text(json.dumps({token: number for number, token in enumerate(tokens)}))
    (folder / "merges.txt").write_text("#version: 0.2\nr e\n")
    transformers.CLIPTokenizer(
        str(folder / "vocab.json"), str(folder / "merges.txt"), model_max_length=24
    ).save_pretrained(folder)
    transformers.CLIPImageProcessor(
        size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}
    ).save_pretrained(folder)
    common = {"hidden_size": 16, "intermediate_size": 32, "num_attention_heads": 2, "num_hidden_layers": 1}
    ends = {"bos_token_id": len(tokens) - 2, "eos_token_id": len(tokens) - 1, "pad_token_id": len(tokens) - 1}
    text = {**common, "vocab_size": len(tokens), "max_position_embeddings": 24, **ends}
    torch.manual_seed(0)
    vision = {**common, "image_size": 32, "patch_size": 16}
    config = transformers.CLIPConfig(
        text_config=text, vision_config=vision, projection_dim=8, initializer_factor=10.0
    )
    transformers.CLIPModel(config).save_pretrained(folder)
    return folder


@pytest.fixture
def http_server(monkeypatch):
    """Start a server of this process: `http_server(answer)` calls `answer(handler)` for each request.

    The server has its `address`, a `lock` for what `answer` counts, and an event `closing` for answers that
    wait.
    """
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    started = []

    def http_server(answer):
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                try:
                    answer(self)
                except OSError:  # the client went away
                    self.close_connection = True

            do_POST = do_GET

            def log_message(self, *_):
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads, server.handle_error = True, lambda *_: None
        server.lock, server.closing = threading.Lock(), threading.Event()
        server.address = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        started.append((server, thread))
        return server

    yield http_server
    for server, thread in started:
        server.closing.set()
        server.shutdown()
        joined(thread)
        server.server_close()
