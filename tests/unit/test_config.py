"""Settings of the commands: flags, YAML files and bounds."""

import dataclasses
import gc
import json
import os
import subprocess
import sys
import typing
from pathlib import Path

import pytest

import fashioniq
from fashioniq import __version__, cli
from fashioniq.cli import COMMANDS, main, parse, parser_of
from fashioniq.config import TrainCaptioner, TrainRetriever, check
from fashioniq.files import UserError
from fashioniq.models.configs import CaptionerConfig, RetrieverConfig
from fashioniq.options import metadata_of
from tests.waiting import LIMIT, ended

ROOT = Path(fashioniq.__file__).parents[1]
CONFIGS = sorted((ROOT / "configs").rglob("*.yaml"))


def told(capsys):
    captured = capsys.readouterr()
    return captured.out + captured.err


def options_of(kind, prefix=""):
    """Every option of a command: its name, its field, its type, and what is known of it."""
    types = typing.get_type_hints(kind)
    for field in dataclasses.fields(kind):
        if dataclasses.is_dataclass(own := types[field.name]):
            yield from options_of(own, f"{prefix}{field.name}.")
        else:
            yield prefix + field.name, field, own, metadata_of(kind, field.name)


def is_required(field):
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def minimal(command):
    """The arguments that must be given."""
    needed = [name for name, field, *_ in options_of(COMMANDS[command]) if is_required(field)]
    return [word for name in needed for word in ("--" + name.replace("_", "-"), "dresses")]


def test_help_explains_every_option_of_every_command(capsys):
    for command, kind in COMMANDS.items():
        with pytest.raises(SystemExit) as caught:
            parse(command, ["--help"])
        assert caught.value.code == 0
        help_text = told(capsys)
        for name, _, _, known in options_of(kind):
            flag = known.get("positional") or "--" + name.replace("_", "-")
            assert known["help"] and flag in help_text, (command, name)


def test_flags_that_are_not_given_have_the_defaults_of_the_dataclass():
    for command, kind in COMMANDS.items():
        required = {name: own for name, field, own, _ in options_of(kind) if is_required(field)}
        assert parse(command, minimal(command)) == kind(
            **{name: own("dresses") for name, own in required.items()}
        )


def test_help_states_the_default_folders_and_that_switches_are_off(capsys):
    with pytest.raises(SystemExit):
        parse("train-retriever", ["--help"])
    text = "".join(told(capsys).split())  # a line may end within a path
    assert "runs/retriever-CATEGORY;with--attrsruns/retriever-CATEGORY-attrs)" in text
    assert "runs/captioner-CATEGORY;with--attrsruns/captioner-CATEGORY-attrs)" in text
    assert "independentlyofthecaptioner(default:off)" in text


def test_dashes_make_no_options_alike(capsys):
    assert main(["extract-features", "--out", "x"]) == 2 and "unknown option --out; `fashioniq" in told(
        capsys
    )


def test_a_required_option_that_is_missing_ends_with_2(capsys):
    for command in COMMANDS:
        if minimal(command):
            assert main([command]) == 2 and "missing --" in told(capsys)


MALFORMED = {
    "--epoch 3": "unknown option --epoch; did you mean --epochs?",
    "--lr 0.1": "unknown option --lr; did you mean --learning-rate?",
    "--colour red": "unknown option --colour;",
    "--model.widht 3": "unknown option --model.widht; did you mean --model.width?",
    "--no-atrs": "unknown option --no-atrs; did you mean --no-attrs?",
    "--model.width wide": "--model.width: expected a whole number, found wide;",
    "--epochs 1.5": "--epochs: expected a whole number, found 1.5;",
    "--margin wide": "--margin: expected a number, found wide;",
    "--loss cosine": "--loss: expected one of triplet, triplet-unsquared, ranking, cross-entropy, found cosine;",
    "--epochs": "--epochs: expected one argument;",
    "more": "unexpected argument more;",
    "--seed 1 --seed 2": "--seed takes one value, and was given twice;",
    "--attrs=perhaps": "--attrs: expected true or false, found perhaps;",
    "--config nowhere.yaml": "nowhere.yaml: there is no such file;",
    "--config .": "Is a directory;",
}


@pytest.mark.parametrize("arguments", MALFORMED)
def test_unknown_and_malformed_arguments_end_with_2_and_one_line(arguments, capsys):
    code = main(["train-retriever", "--category", "dresses", *arguments.split()])
    line = told(capsys)
    assert code == 2 and line.startswith("error: ") and line.count("\n") == 1
    assert line.endswith(f"{MALFORMED[arguments]} `fashioniq train-retriever --help` lists the options\n")


MALFORMED_FILES = {
    "epoks: 3": "unknown key epoks; did you mean epochs?",
    "batch-size: 3": "unknown key batch-size; did you mean batch_size?",
    "model: {widht: 3}": "unknown key model.widht; did you mean model.width?",
    "3: three": "expected names of options as keys, found 3;",
    "epochs: many": "epochs: expected a whole number, found many;",
    "attrs: perhaps": "attrs: expected true or false, found perhaps;",
    "category: [dresses]": "category: expected text, found ['dresses'];",
    "loss: cosine": "loss: expected one of triplet, triplet-unsquared, ranking, cross-entropy, found cosine;",
    "model: {attention: sideways}": "model.attention: expected one of turn-causal, both-ways, found sideways;",
    "- epochs": "expected options as `key: value`, found a list;",
    "turns: [1\nbeam: }": "line 2, column 5: invalid YAML: expected ',' or ']', but got ':';",
}


@pytest.mark.parametrize("text", MALFORMED_FILES)
def test_a_malformed_yaml_file_ends_with_2_and_one_line_with_the_file_and_the_key(text, tmp_path, capsys):
    path = tmp_path / "a.yaml"
    path.write_text(text)
    code = main(["train-retriever", "--config", str(path), "--category", "dresses"])
    expected = (
        f"error: {path}: {MALFORMED_FILES[text]} `fashioniq train-retriever --help` lists the options\n"
    )
    assert code == 2 and told(capsys) == expected


def test_flags_arrive_with_their_types():
    options = ["--data", "here", "--attrs", "--model.width", "64", "--noam-factor", "0.5", "--run", "there"]
    settings = parse("train-captioner", ["--category", "tops", *options])
    others = {"data": Path("here"), "attrs": True, "noam_factor": 0.5, "run": Path("there")}
    assert settings == TrainCaptioner(category="tops", model=CaptionerConfig(width=64), **others)
    assert parse(
        "import-catalog", [*minimal("import-catalog"), "--attributes", "colour", "fit"]
    ).attributes == ["colour", "fit"]


def test_a_yaml_file_sets_options_and_flags_after_it_take_precedence(tmp_path):
    (tmp_path / "a.yaml").write_text(
        "category: shirts\nattrs: true\nmodel: {width: 32, heads: 4}\nlearning_rate: 1e-4\n"
    )
    settings = parse(
        "train-retriever", ["--config", str(tmp_path / "a.yaml"), "--model.width", "64", "--no-attrs"]
    )
    model = RetrieverConfig(width=64, heads=4)
    assert settings == TrainRetriever(category="shirts", attrs=False, model=model, learning_rate=1e-4)


def test_a_path_may_begin_with_the_home_folder_where_no_shell_expands_it(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", "/home/ada")
    (tmp_path / "a.yaml").write_text("category: shirts\nrun: ~/runs/a\n")
    settings = parse(
        "train-retriever", ["--config", str(tmp_path / "a.yaml"), "--data=~/shop", "--captioner", "a/~"]
    )
    assert (settings.run, settings.data) == (Path("/home/ada/runs/a"), Path("/home/ada/shop"))
    assert settings.captioner == Path("a/~")


def test_a_list_may_be_given_by_one_flag_or_by_several_and_goes_before_that_of_a_file(tmp_path):
    (tmp_path / "a.yaml").write_text("category: shirts\ncolumn: [fabric=material]\n")
    file, both = ["--config", str(tmp_path / "a.yaml")], ["texture=colour", "style=usage"]
    assert parse("extract-attributes", file).column == ["fabric=material"]
    assert parse("extract-attributes", [*file, "--column", *both]).column == both
    assert parse("extract-attributes", [*file, "--column", both[0], "--column", both[1]]).column == both


@pytest.mark.parametrize("line", ["witdh: 32", "model: {witdh: 32}"])
def test_an_unknown_key_of_a_yaml_file_ends_with_2(line, tmp_path):
    (tmp_path / "a.yaml").write_text(f"category: shirts\n{line}\n")
    with pytest.raises(UserError, match="witdh"):
        parse("train-retriever", ["--config", str(tmp_path / "a.yaml")])


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: str(path.relative_to(ROOT / "configs")))
def test_the_command_in_the_first_line_of_a_config_can_be_given(path, script_commands, monkeypatch):
    monkeypatch.chdir(ROOT)
    first = path.read_text().splitlines()[0].split("   ")[0]
    mark, python, script, *arguments = first.split()
    assert (mark, python) == ("#", "python") and ["--config", str(path.relative_to(ROOT))] == arguments[:2]
    check(parse(script_commands[script], arguments))


@pytest.mark.parametrize("value", ["nan", "inf", "1e400"])
def test_a_number_that_is_not_finite_is_refused(value):
    with pytest.raises(UserError, match=r"--word-noise is (nan|inf): it must be a finite number"):
        check(parse("eval-dialogs", ["--category", "dresses", "--run", "r", "--word-noise", value]))


@pytest.mark.parametrize("command", ["train-captioner", "train-retriever", "train-dialog-encoder"])
def test_heads_must_divide_the_width_of_a_transformer(command):
    arguments = ["--category", "dresses", "--model.width", "300", "--model.heads", "8"]
    transformer = [] if command == "train-dialog-encoder" else ["--model.kind", "transformer"]
    with pytest.raises(UserError, match=r"--model.heads is 8, which does not divide --model.width 300"):
        check(parse(command, [*arguments, *transformer]))
    if command != "train-dialog-encoder":
        check(parse(command, [*arguments, "--model.kind", "rnn"]))


def test_a_margin_is_for_triplet_losses_and_a_temperature_for_cross_entropy():
    with pytest.raises(
        UserError, match=r"--margin is 0.1, but cross-entropy has no margin; give --temperature instead"
    ):
        check(TrainRetriever(category="dresses", loss="cross-entropy", margin=0.1))
    with pytest.raises(
        UserError, match=r"--temperature is 0.1, but triplet has no temperature; give --margin instead"
    ):
        check(TrainRetriever(category="dresses", loss="triplet", temperature=0.1))
    with pytest.raises(UserError, match=r"--temperature is 0: it must be at least 0\.0001"):
        check(TrainRetriever(category="dresses", temperature=0))


OPTIONS_THAT_EXCLUDE_EACH_OTHER = {
    "train-retriever --category dresses --epochs 0 --model.kind rnn": "--epochs 0 is ridge regression",
    "train-retriever --category dresses --epochs 0 --attrs": "--epochs 0 is ridge regression",
    "train-retriever --category dresses --halfway --epochs 0": "--halfway needs a training that starts from ridge",
    "train-retriever --category dresses --halfway --model.kind rnn": "--halfway needs a training that starts from",
    "train-retriever --category dresses --halfway --init-from runs/a": "--halfway needs a training that starts from",
    "extract-features --category dresses --vectors v.npy": "--vectors and --ids belong together",
    "extract-features --category dresses --vectors v.npy --ids i.json --update": "--vectors replaces an encoder",
    "train-retriever --category dresses --model.embedding standardized": "standardized needs --model.kind transformer",
    "eval-dialogs --system genir --category dresses --encoder e --record --feedback verbal": "--record writes",
}


@pytest.mark.parametrize("line", OPTIONS_THAT_EXCLUDE_EACH_OTHER)
def test_options_that_exclude_each_other_are_refused(line):
    command, *arguments = line.split()
    with pytest.raises(UserError, match=OPTIONS_THAT_EXCLUDE_EACH_OTHER[line]):
        check(parse(command, arguments))


def test_bounds_of_nested_options_are_checked_with_their_full_names():
    with pytest.raises(UserError, match=r"--model.layers is 0: it must be at least 1"):
        check(parse("train-retriever", ["--category", "dresses", "--model.layers", "0"]))


def test_the_types_of_the_functions_are_up_to_date():
    tool = ROOT / "tools" / "build_api.py"
    done = subprocess.run(
        [sys.executable, tool, "--check"], capture_output=True, text=True, timeout=LIMIT, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_command_is_an_error_and_help_and_version_are_none(capsys):
    assert main([]) == 2 and main(["--help"]) == 0
    overview = told(capsys)
    assert all(command in overview for command in COMMANDS)
    assert main(["--version"]) == 0 and told(capsys).strip() == __version__


def test_an_unknown_command_is_told_with_those_there_are(capsys):
    assert main(["everything"]) == 2
    assert "train-captioner" in told(capsys)


def test_a_misspelt_command_is_told_with_the_closest_one(capsys):
    assert main(["train-retreiver"]) == 2
    line = told(capsys)
    assert line.startswith("error: unknown command 'train-retreiver'; did you mean train-retriever? ")
    assert line.count("\n") == 1


def test_a_mistake_of_the_user_is_one_line_and_2(tmp_path, capsys):
    assert main(["train-captioner", "--category", "dresses", "--data", str(tmp_path / "nowhere")]) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("error: ") and "nowhere" in lines[0]


def test_parsers_are_made_for_all_commands():
    assert {parser_of(command).prog for command in COMMANDS} == {
        f"fashioniq {command}" for command in COMMANDS
    }


@pytest.mark.parametrize("command", [["check-data", "--workers", "0", "--data"], ["--help"], ["--version"]])
def test_a_reader_that_has_read_enough_is_no_error(command, tmp_path, forked_command):
    """As `fashioniq check-data | head -0` has it."""
    command = [*command, tmp_path] if command[0] == "check-data" else command
    (tmp_path / "image_splits").mkdir()
    (tmp_path / "image_splits/split.dress.train.json").write_text('["A", "B"]')
    reader, writer = os.pipe()
    os.close(reader)
    with open(tmp_path / "errors", "w") as errors:
        process = forked_command(command, [errors.fileno(), writer, errors.fileno()])
    os.close(writer)
    assert ended(process) == 141 and (tmp_path / "errors").read_text() == ""


WRONG_PATHS = {
    "train-captioner --data nowhere --category dresses": "there is no folder nowhere",
    "extract-features --data nowhere --category dresses": "there is no folder nowhere",
    "eval-dialogs --run nowhere --category dresses": "expected a retriever in nowhere",
    "search --run nowhere --text red": "expected a trained run in nowhere",
    "extract-features --data nowhere --category dresses --vectors v.npy --ids i.json": "there is no file v.npy",
}
# commands that compute nothing with it, and begin sooner without
WITHOUT_TORCH = ("import-catalog", "check-data", "extract-attributes", "caption-pairs", "forget", "api-key")


@pytest.fixture(scope="module")
def without_torch(tmp_path_factory):
    """Whether help and parsing import torch; by command with a wrong path its exit code, what it printed, and
    whether torch was imported until then; by command of WITHOUT_TORCH whether its module imports it.

    One process runs them all; a command that imports torch is found nevertheless, as the first that did.
    """
    code = (
        "import contextlib, io, json, pkgutil, sys; from fashioniq.cli import COMMANDS, main, parse, parser_of\n"
        "from fashioniq.cli.commands import place_of\n"
        "with contextlib.redirect_stdout(io.StringIO()): main(['--help'])\n"
        "[parser_of(command).format_help() for command in COMMANDS]\n"
        "parse('train-retriever', ['--category', 'dresses', '--model.width', '64'])\n"
        "found = {'help and parsing': 'torch' in sys.modules}\n"
        f"for command in {WITHOUT_TORCH}:\n"
        "    found[command] = bool(pkgutil.resolve_name(place_of(command))) and 'torch' in sys.modules\n"
        "for command in sys.argv[1:]:\n"
        "    with contextlib.redirect_stderr(io.StringIO()) as printed: code = main(command.split())\n"
        "    found[command] = code, printed.getvalue(), 'torch' in sys.modules\n"
        "print(json.dumps(found))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *WRONG_PATHS],
        cwd=tmp_path_factory.mktemp("wrong"),
        capture_output=True,
        text=True,
        check=True,
        timeout=LIMIT,
    )
    assert done.stderr == ""
    return json.loads(done.stdout)


def test_help_and_parsing_do_not_import_torch(without_torch):
    assert without_torch["help and parsing"] is False


@pytest.mark.parametrize("command", WITHOUT_TORCH)
def test_a_command_that_computes_nothing_with_torch_does_not_import_it(command, without_torch):
    assert without_torch[command] is False


@pytest.mark.parametrize("command", WRONG_PATHS)
def test_a_wrong_path_is_reported_before_torch_is_imported(command, without_torch):
    code, printed, has_torch = without_torch[command]
    assert code == 2 and printed.startswith(f"error: {WRONG_PATHS[command]}") and not has_torch


def test_imported_libraries_are_exempt_from_garbage_collection(monkeypatch):
    frozen = []
    monkeypatch.setattr(gc, "freeze", lambda: frozen.append(gc.isenabled()))
    for new in (False, True):
        with cli._loading():
            assert not gc.isenabled()
            if new:
                monkeypatch.setitem(sys.modules, "a_module_of_this_test", cli)
        assert gc.isenabled()
    assert frozen == [True]


def test_sizes_of_a_captioner_follow_the_number_of_pairs_unless_given():
    settings = TrainCaptioner(category="tops")
    few, many = settings.for_pairs(300, 600), settings.for_pairs(3000, 6000)
    assert (few.model.width, few.model.layers, few.batch_size, few.warmup) == (128, 2, 30, 100)
    assert few.noam_factor * few.model.width**-0.5 * few.warmup**-0.5 == pytest.approx(0.0025)
    assert (many.model.width, many.model.layers, many.warmup, many.noam_factor) == (512, 6, 4000, 2.0)
    assert many.batch_size == 64 and settings.for_pairs(20, 40).batch_size == 4
    given = TrainCaptioner(category="tops", model=CaptionerConfig(width=64), warmup=7, noam_factor=0.3)
    assert given.for_pairs(300, 600).model == CaptionerConfig(width=64, heads=4, hidden=512, layers=2)
    assert (given.for_pairs(300, 600).warmup, given.for_pairs(300, 600).noam_factor) == (7, 0.3)
    assert few.for_pairs(9000, 18000) == few


def test_sizes_that_were_chosen_must_go_with_those_given():
    with pytest.raises(UserError, match=r"--model.heads is 8, which does not divide --model.width 100"):
        TrainCaptioner(category="tops", model=CaptionerConfig(width=100)).for_pairs(9000, 18000)
