"""A system of another package is evaluated in every protocol, and searched by every command that takes a run."""

import json

import pytest

import fashioniq
from fashioniq import plugins
from fashioniq.files import UserError
from fashioniq.report import templates
from fashioniq.service.served_model import Served
from tests.plugins.conftest import TITLES

PROTOCOLS = list(plugins.BUILT_IN["protocols"])
pytestmark = pytest.mark.usefixtures("installed")


@pytest.fixture
def evaluate(project, titles, tmp_path):
    """Function that evaluates the system and returns the folder of its results."""

    def evaluate(**options):
        project.run(
            "eval-dialogs", system="toy-system", titles=titles, out=tmp_path / "out", batch_size=2, **options
        )
        return tmp_path / "out"

    return evaluate


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_it_is_evaluated_in_every_protocol(evaluate, capsys, titles, protocol):
    out = evaluate(protocol=protocol)
    metrics = json.loads((out / "metrics.json").read_text())
    rows = metrics["rounds" if protocol == "ChatIR" else "turns"]
    assert metrics["protocol"] == protocol and metrics["dialogs"] == metrics["gallery"] == len(TITLES)
    # the first halves of a and b are equal
    assert [row["R@1"] for row in rows] == [80, 100] and rows[0]["RR2"] == pytest.approx((4 + 0.25) / 5)
    assert metrics["sessions" if protocol == "recorded sessions" else "titles"] == str(titles)
    dialogs = [json.loads(line) for line in (out / "dialogs.jsonl").read_text().splitlines()]
    assert [dialog["target"] for dialog in dialogs] == list(TITLES)
    assert dialogs[0]["turns"][1]["offer"] == {"text": "dress long"}  # the echo
    assert len((out / "run.trec").read_text().splitlines()) == len(TITLES) * 2 * len(TITLES)
    page = (out / "report.html").read_text()
    assert "dress long" in page and "RR²" in page and str(titles) in page
    printed = capsys.readouterr().out
    assert "80.00" in printed and f"results in {out}" in printed


@pytest.mark.parametrize("protocol", ["Fashion IQ dialogs", "ChatIR"])
def test_nothing_has_to_be_stated(evaluate, protocol):
    out = evaluate(protocol=protocol, facts="none")
    assert (out / "report.html").exists() and (out / "metrics.json").exists()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_several_tasks_have_a_folder_each(evaluate, protocol):
    out = evaluate(protocol=protocol, names=["2-turns", "3-turns"])
    for number in (2, 3):
        metrics = json.loads((out / f"{number}-turns/metrics.json").read_text())
        assert len(metrics["rounds" if protocol == "ChatIR" else "turns"]) == number
    assert len(list(out.rglob("report.html"))) == (1 if protocol == "ChatIR" else 2)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"protocol": "ChatUR"}, "there is no protocol ChatUR; available: Fashion IQ dialogs, recorded sessions, ChatIR"),
        ({"protocol": "recorded sessions", "facts": "none"}, "states no facts, but the protocol recorded sessions needs"),
        ({"protocol": "ChatIR", "facts": "turns"}, "echo states TurnFacts, but dialogs of the protocol ChatIR need RoundFacts"),
        ({"names": ["a", "a"]}, "expected different names of the tasks"),
    ],
)  # fmt: skip
def test_what_does_not_fit_a_protocol_is_refused_before_any_dialog(
    refused, monkeypatch, titles, tmp_path, options, why
):
    from toy_parts.system import Halves

    monkeypatch.setattr(Halves, "reply", None)
    told = refused("eval-dialogs", system="toy-system", titles=titles, out=tmp_path / "out", **options)
    assert why in told and not (tmp_path / "out").exists()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_page_that_cannot_be_made_leaves_the_earlier_result(evaluate, monkeypatch, protocol):
    out = evaluate(protocol=protocol)
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    monkeypatch.setattr(templates, "MAX_CHARACTERS", None)  # every page cuts long texts
    with pytest.raises(TypeError):
        evaluate(protocol=protocol)
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("nowhere", ""),
        ("no.where:Else", ""),
        ("json.tool", " (it has no Options and no build)"),
        ("./my_system.py", " ("),
    ],
)
def test_a_name_that_is_no_system_is_refused_in_one_line(refused, name, reason):
    told = refused("eval-dialogs", system=name)
    assert (
        told.startswith(f"error: there is no system {name}{reason}")
        and "dar, fashion-iq-dar, toy-system, or" in told
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of the system."""
    folder = tmp_path_factory.mktemp("run")
    about = {"kind": "toy-system", "category": "dresses", "titles": TITLES, "checksum": "0" * 64}
    (folder / "model.json").write_text(json.dumps(about))
    return folder


def test_its_run_is_loaded(run):
    dialog = fashioniq.load(run).dialog().say("navy wool").say("hood")
    assert dialog.products(1)[0].id == "d" and dialog.undo().said == ["navy wool"]


def test_its_run_is_searched(run, project, capsys):
    project.run("search", run=run, text="navy skirt", count=2, json=True)
    products = json.loads(capsys.readouterr().out)["products"]
    assert [product["id"] for product in products] == ["c", "d"]


def test_one_can_chat_with_it(run, project, capsys, monkeypatch):
    lines = iter(["green silk", "this is it 1"])
    monkeypatch.setattr("builtins.input", lambda prompt="": next(lines))
    project.run("chat", run=run)
    assert "You chose e" in capsys.readouterr().out


def test_it_is_served(run):
    served = Served.of(run)
    assert served.category == "dresses" and served.asks and "d" in served
    live = served.system.dialog().say("navy wool")
    assert live.nearest(1)[0].id == "d"


def test_serving_a_run_without_a_checksum_is_refused_in_one_line(run, refused, tmp_path):
    about = json.loads((run / "model.json").read_text())
    del about["checksum"]
    (tmp_path / "model.json").write_text(json.dumps(about))
    database = f"sqlite:///{tmp_path}/service.db"
    told = refused("serve", run=[tmp_path], database=database, port=0)
    assert told.startswith(f'error: expected "checksum" in {tmp_path}/model.json, found none')


def test_its_index_is_built(run, project, capsys):
    pytest.importorskip("faiss")
    project.run("search", run=run, text="navy skirt", count=1, index="Flat", json=True)
    assert json.loads(capsys.readouterr().out)["products"][0]["id"] == "c"


def test_an_export_says_that_it_is_no_retriever(run, refused, tmp_path):
    assert "expected a retriever, found a toy-system" in refused(
        "export", run=run, to="onnx", out=tmp_path / "out"
    )


def test_a_run_imports_no_module_that_was_not_asked_for(tmp_path, monkeypatch):
    (tmp_path / "code").mkdir()
    (tmp_path / "code/unheard_of.py").write_text("raise SystemExit('executed')")
    monkeypatch.syspath_prepend(tmp_path / "code")
    (tmp_path / "model.json").write_text(json.dumps({"kind": "unheard_of:Part"}))
    with pytest.raises(UserError, match=r"set FASHIONIQ_PARTS=unheard_of$"):
        fashioniq.load(tmp_path)
    monkeypatch.setenv("FASHIONIQ_PARTS", "my_file,unheard_of")
    with pytest.raises(SystemExit, match="executed"):
        fashioniq.load(tmp_path)


def test_a_kind_of_run_that_no_system_loads_is_refused(run, tmp_path, monkeypatch):
    monkeypatch.setenv("FASHIONIQ_PARTS", "toy_parts.user")
    (tmp_path / "model.json").write_text(json.dumps({"kind": "toy_parts.user:Terse"}))
    with pytest.raises(UserError, match=r"there is no system toy_parts.user:Terse .it has no build"):
        fashioniq.load(tmp_path)


def test_a_run_can_name_a_module_alone_as_its_system(tmp_path, monkeypatch):
    (tmp_path / "toy_module.py").write_text("from toy_parts.system import Options, build, load\n")
    monkeypatch.syspath_prepend(tmp_path)
    titles = {"A": "red dress", "B": "blue shirt", "C": "red shirt"}
    (tmp_path / "model.json").write_text(json.dumps({"kind": "toy_module", "titles": titles}))
    with pytest.raises(UserError, match=r"set FASHIONIQ_PARTS=toy_module$"):
        fashioniq.load(tmp_path)
    monkeypatch.setenv("FASHIONIQ_PARTS", "toy_module")
    assert fashioniq.load(tmp_path).dialog().say("red shirt").products(1)[0].id == "C"
