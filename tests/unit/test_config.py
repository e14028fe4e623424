import dataclasses
import subprocess
import sys
import typing
from pathlib import Path

import pytest

import fashioniq
from fashioniq import __version__
from fashioniq.cli import COMMANDS, main, parse, parser_of
from fashioniq.config import TrainCaptioner, TrainRetriever, check
from fashioniq.files import UserError

ROOT = Path(fashioniq.__file__).parents[1]
CONFIGS = sorted((ROOT / "configs").rglob("*.yaml"))


def told(capsys):
    captured = capsys.readouterr()
    return captured.out + captured.err


@pytest.mark.parametrize("command", COMMANDS)
def test_every_knob_is_explained_and_told_by_help(command, capsys):
    with pytest.raises(SystemExit) as caught:
        parse(command, ["--help"])
    assert caught.value.code == 0
    help_text = told(capsys)
    for field in dataclasses.fields(COMMANDS[command]):
        assert field.metadata["help"] and (field.metadata.get("positional") or "--" + field.name.replace("_", "-")) in help_text


def minimal(command):
    """The arguments that must be given."""
    fields = dataclasses.fields(COMMANDS[command])
    needed = [field for field in fields if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING]
    return [word for field in needed for word in ("--" + field.name.replace("_", "-"), "dresses")]


@pytest.mark.parametrize("command", COMMANDS)
def test_flags_that_are_not_given_are_as_the_dataclass_has_them(command):
    given = minimal(command)
    settings = parse(command, given)
    names = {flag[2:].replace("-", "_") for flag in given[::2]}
    types = typing.get_type_hints(COMMANDS[command])
    assert settings == COMMANDS[command](**{name: types[name]("dresses") for name in names})


@pytest.mark.parametrize("command", [command for command in COMMANDS if minimal(command)])
def test_what_must_be_given_and_is_not_ends_with_2(command, capsys):
    with pytest.raises(SystemExit) as caught:
        parse(command, [])
    assert caught.value.code == 2 and "required" in told(capsys)


@pytest.mark.parametrize("arguments", ["--colour red", "--width wide", "--loss cosine", "--config nowhere.yaml", "--epochs 1.5"])
def test_unknown_and_malformed_arguments_end_with_2(arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        parse("train-retriever", ["--category", "dresses", *arguments.split()])
    assert caught.value.code == 2 and "Traceback" not in told(capsys)


def test_flags_arrive_with_their_types():
    options = ["--data", "here", "--attrs", "--width", "64", "--noam-factor", "0.5", "--run", "there"]
    settings = parse("train-captioner", ["--category", "tops", *options])
    assert settings == TrainCaptioner(category="tops", data=Path("here"), attrs=True, width=64, noam_factor=0.5, run=Path("there"))
    assert parse("import-catalog", [*minimal("import-catalog"), "--attributes", "colour", "fit"]).attributes == ["colour", "fit"]


def test_a_config_file_sets_knobs_and_flags_behind_it_go_before_it(tmp_path):
    (tmp_path / "a.yaml").write_text("category: shirts\nattrs: true\nwidth: 32\nlearning_rate: 1e-4\n")
    settings = parse("train-retriever", ["--config", str(tmp_path / "a.yaml"), "--width", "64", "--no-attrs"])
    assert settings == TrainRetriever(category="shirts", attrs=False, width=64, learning_rate=1e-4)


def test_a_list_may_be_given_by_one_flag_or_by_several_and_goes_before_that_of_a_file(tmp_path):
    (tmp_path / "a.yaml").write_text("category: shirts\ncolumn: [fabric=material]\n")
    file, both = ["--config", str(tmp_path / "a.yaml")], ["texture=colour", "style=usage"]
    assert parse("extract-attributes", file).column == ["fabric=material"]
    assert parse("extract-attributes", [*file, "--column", *both]).column == both
    assert parse("extract-attributes", [*file, "--column", both[0], "--column", both[1]]).column == both


def test_an_unknown_key_of_a_config_file_ends_with_2(tmp_path, capsys):
    (tmp_path / "a.yaml").write_text("category: shirts\nwitdh: 32\n")
    with pytest.raises(SystemExit) as caught:
        parse("train-retriever", ["--config", str(tmp_path / "a.yaml")])
    assert caught.value.code == 2 and "witdh" in told(capsys)


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: str(path.relative_to(ROOT / "configs")))
def test_the_command_in_the_first_line_of_a_config_can_be_given(path, script_commands, monkeypatch):
    monkeypatch.chdir(ROOT)
    first = path.read_text().splitlines()[0].split("   ")[0]
    mark, python, script, *arguments = first.split()
    assert (mark, python) == ("#", "python") and ["--config", str(path.relative_to(ROOT))] == arguments[:2]
    parse(script_commands[script], arguments)


@pytest.mark.parametrize("value", [".nan", ".inf", "1e400"])
def test_a_number_that_is_not_finite_is_refused(value):
    with pytest.raises(UserError, match=r"--errors is (nan|inf): it must be a finite number"):
        check(parse("eval-dialogs", ["--category", "dresses", "--run", "r", "--errors", value]))


def test_heads_must_divide_the_width_where_there_are_heads():
    arguments = ["--category", "dresses", "--width", "300"]
    with pytest.raises(UserError, match="--heads is 8: it must divide --width, 300"):
        check(parse("train-retriever", arguments))
    check(parse("train-retriever", [*arguments, "--model", "rnn"]))


def test_no_command_is_an_error_and_help_and_version_are_none(capsys):
    assert main([]) == 2 and main(["--help"]) == 0
    overview = told(capsys)
    assert all(command in overview for command in COMMANDS)
    assert main(["--version"]) == 0 and told(capsys).strip() == __version__


def test_an_unknown_command_is_told_with_those_there_are(capsys):
    assert main(["train-everything"]) == 2
    assert "train-captioner" in told(capsys)


def test_a_mistake_of_the_user_is_one_line_and_2(tmp_path, capsys):
    assert main(["train-captioner", "--category", "dresses", "--data", str(tmp_path / "nowhere")]) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("error: ") and "nowhere" in lines[0]


def test_parsers_are_made_for_all_commands():
    assert {parser_of(command).prog for command in COMMANDS} == {f"fashioniq {command}" for command in COMMANDS}


def test_a_reader_that_has_read_enough_is_no_error(tmp_path):
    """As `fashioniq check-data | head -0` has it."""
    code = "import sys; from fashioniq.cli import main; sys.exit(main(['check-data', '--workers', '0', '--data', sys.argv[1]]))"
    (tmp_path / "image_splits").mkdir()
    (tmp_path / "image_splits/split.dress.train.json").write_text('["A", "B"]')
    process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    process.stdout.close()
    assert process.wait() == 141
    assert process.stderr.read() == ""
