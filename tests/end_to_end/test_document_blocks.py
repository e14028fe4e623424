"""Every command of the documents is run here, word for word and on a tiny catalog, or there is a reason why not.

README.md, the tutorials and the requests of docs/service.md have tests of their own.
"""

import re
import shlex
import shutil
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

import fashioniq
from fashioniq.cli import main

ROOT = Path(fashioniq.__file__).parents[1]
PAGES = [
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs/reference").glob("*.md")),
]
PAGES = [page for page in PAGES if page.name not in ("api.md", "commands.md", "results.md")]
STARTS = re.compile(
    r"(?:[A-Z_]+=\S+ )*(?:fashioniq(?= )|python|make|pip|curl|git|docker|ray|torchrun|srun|sudo|grep|ir_measures|head|cat|for|\.venv)\b"
)
OTHER_MACHINES = (
    "needs several machines, or Ray: tests/end_to_end/test_nodes.py, tests/end_to_end/test_extract_ray.py"
)
TRAINS = "minutes to hours at its sizes; with small ones: tests/end_to_end/test_commands.py"
THEIRS = "needs a file or a folder of the reader's"
# The first that matches counts. Where a reason names a file, a test in it runs the command in another way.
NOT_HERE = {
    r"^(pip|sudo|git|curl -O|docker)\b": "changes the machine, or downloads data",
    r"^(make|python (tools|benchmarks|tests))\b|\.venv/bin": "for developers: minutes to hours of this repository's own tests and builds",
    r"^curl ": "tests/end_to_end/test_serve.py",
    r"^(cat|head|grep|ir_measures|python -c) ": "looks at a file of the reader's, or converts it",
    r"^for ": "three seeds of a training; compare: tests/end_to_end/test_compare.py",
    r"^ray |RAY_ADDRESS|--engine ray|^NODE_RANK|^torchrun|^srun": OTHER_MACHINES,
    r"fashioniq download-images": "tests/end_to_end/test_download.py",
    r"fashioniq (demo|serve)\b": "runs until it is ended: tests/end_to_end/test_demo.py, tests/end_to_end/test_serve.py",
    r"fashioniq chat\b": "asks for input: tests/end_to_end/test_chat.py",
    r"fashioniq caption-pairs": "opens a page, or needs its file: tests/end_to_end/test_caption_pairs.py",
    r"fashioniq (learn|forget|api-key)\b": "needs a database of conversations: tests/end_to_end/test_learn.py",
    r"fashioniq compare-live": "needs a database of conversations: tests/end_to_end/test_compare_live.py",
    r"fashioniq describe-pictures": "downloads a model, or needs an account: tests/end_to_end/test_describe_pictures.py",
    r"runs/(new|old)|runs/learned|runs/people|linear-dresses|runs/a-seed|composer-B|retriever-rnn|runs/(table6|\$r)|retriever-clothes|\bRUN\b|--run A B C": "needs the run of a training above",
    r"fashioniq train-attributes": f"{TRAINS}, tests/end_to_end/test_train_attributes.py",
    r"fashioniq train-generator": "hours at its sizes; with small ones: tests/end_to_end/test_train_generator.py",
    r"fashioniq train-": TRAINS,
    r"chatsearch|--out demo/conversations|--data (demo/conversations|people)": "minutes for 3,600 products; with few: tests/end_to_end/test_chatsearch.py, tests/end_to_end/test_make_conversations.py",
    r"--sessions ": "needs data that are not ours to give: tests/end_to_end/test_people.py",
    r"--products 6000": "a minute; with fewer products, everywhere in tests/",
    r"fashioniq import-catalog": f"{THEIRS}: tests/end_to_end/test_import.py",
    r"extract-attributes": f"{THEIRS}: tests/end_to_end/test_attributes_and_pairs.py",
    r"(--vectors|--predictions|--misspellings|--data data/photos|today\.csv)": THEIRS,
    r"--encoder (Salesforce|openai|gt_all|efficientnet_b0)|--encoder \S*clip|dress-gt_all": "downloads a model: tests/end_to_end/test_encoders.py",
    r"(VisDial|visdial|Search_Space|coco|ChatIR|PlugIR)": "needs VisDial's dialogs and pictures: tests/end_to_end/test_chatir.py",
    r"--index ": "needs a thousand products: tests/end_to_end/test_index.py",
    r"fashioniq eval-captions": "half a minute: tests/end_to_end/test_eval_captions.py",
    r"fashioniq eval-requests": "half a minute: tests/end_to_end/test_eval_requests.py",
    r"fashioniq export --run \S+$": "a quarter of a minute: tests/end_to_end/test_export.py",
    r"--predictor runs/attributes --update": "needs a store of that predictor: tests/end_to_end/test_extract.py",
}


def commands(page):
    """The commands of a page's blocks, without what they print."""
    for token in MarkdownIt().parse(page.read_text(encoding="utf-8")):
        if token.type in ("code_block", "fence") and token.info not in ("text", "json", "yaml"):
            lines = re.sub(r"\\\n\s*", "", token.content).splitlines()
            prompted = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
            yield from (line.strip() for line in prompted or lines if STARTS.match(line.strip()))


COMMANDS = {page: list(dict.fromkeys(commands(page))) for page in PAGES}


def why_not(command):
    return next((reason for pattern, reason in NOT_HERE.items() if re.search(pattern, command)), None)


@pytest.fixture(scope="module")
def places(runs, attribute_runs, project, tmp_path_factory):
    """A folder with what the pages suppose that a reader has, in the places that they name."""
    folder = tmp_path_factory.mktemp("places")
    for place in ("demo/catalog", "data/fashioniq", "data/shop", "data/sample", "shop"):
        shutil.copytree(runs.catalog, folder / place)
    sizes = {
        name: value
        for name, value in project.retriever.items()
        if name.startswith("model.") and name != "model.kind"
    }
    encoder = folder / "encoder"
    given = {
        "data": runs.catalog,
        "category": "dresses",
        "features": runs.store,
        "epochs": 1,
        "batch_size": 16,
    }
    project.run("train-dialog-encoder", **sizes, **given, run=encoder)
    made = {
        "attributes": attribute_runs[0], "attributes-dresses": attribute_runs[1], "captioner-dresses-attrs": runs.captioner,
        "retriever": runs.retriever, "retriever-dresses": runs.retriever, "retriever-dresses-attrs": runs.retriever,
        "descriptions": encoder, "dialog-encoder": encoder,
    }  # fmt: skip
    for name, run in made.items():
        for place in ("demo/runs", "runs"):
            shutil.copytree(run, folder / place / name)
    (folder / "configs").symlink_to(ROOT / "configs")
    return folder


@pytest.mark.parametrize("page", [page for page in PAGES if COMMANDS[page]], ids=lambda page: page.stem)
def test_every_command_of_a_page_runs_or_has_a_reason_why_not(page, places, tmp_path, monkeypatch, capsys):
    here = [command for command in COMMANDS[page] if why_not(command) is None]
    if here:
        shutil.copytree(places, tmp_path / "places", symlinks=True)
        monkeypatch.chdir(tmp_path / "places")
    for command in here:
        program, *words = shlex.split(command, comments=True)
        assert program == "fashioniq", command
        assert main(words) == 0, (command, capsys.readouterr().err)


def test_every_reason_is_needed_and_names_files_that_exist():
    first = {
        command: next((one for one in NOT_HERE if re.search(one, command)), None)
        for page in PAGES
        for command in COMMANDS[page]
    }
    assert set(NOT_HERE) <= set(first.values())
    for path in re.findall(r"tests/[\w/]+\.py", " ".join(NOT_HERE.values())):
        assert (ROOT / path).is_file(), path
