"""Defects that a trial with damaged and hostile input has found: each is refused in one line, or works."""

import errno
import io
import json
import os
import shutil
from pathlib import Path
from unicodedata import normalize
from zipfile import ZipFile

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from fashioniq.cli import main


@pytest.fixture
def world(vector_runs):
    """Options of the commands on the tiny runs."""
    return {"data": vector_runs.catalog, "category": "dresses", "features": vector_runs.store}


@pytest.fixture
def resumed(vector_runs, world, project, tmp_path, refused):
    """A copy of the captioner's run, and a refused --resume of it, which has to leave all files as they are."""
    run = shutil.copytree(vector_runs.captioner, tmp_path / "run")

    def resume():
        before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
        options = {**world, **project.captioner, "epochs": 9, "run": run, "resume": True}
        line = refused("train-captioner", **options)
        after = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
        changed = {path.name for path in before if before[path] != after.get(path)}
        assert set(before) == set(after) and not changed - {"model.json", "config.yaml"}
        assert after[run / "config.yaml"] == before[run / "config.yaml"]
        return line

    return run, resume


@pytest.mark.parametrize("content", [b"", b"garbage", b"PK\x03\x04"])
def test_d1_a_damaged_checkpoint_is_refused(resumed, content):
    run, resume = resumed
    (run / "last.ckpt").write_bytes(content)
    assert "last.ckpt is damaged" in resume()


def test_d1_empty_weights_are_refused(world, project, refused, tmp_path):
    (tmp_path / "empty.pth").touch()
    options = {**world, **project.pictures, "weights": tmp_path / "empty.pth", "features": tmp_path / "new"}
    assert "cannot read tensors from" in refused("extract-features", **options)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("category: dresses\n# Größe\n".encode("latin-1"), "not UTF-8"),
        ("category: dresses\n".encode("utf-16"), "not UTF-8"),
        (b"[" * 100_000, "nested too deeply"),
        (b"category: " + b"[" * 20_000, "nested too deeply"),
        (b"a: &a [x,x]\n" + b"".join(b"b%d: [%s]\n" % (n, b"*a," * 9) for n in range(9)), "too many aliases"),
        (b"seed: " + b"9" * 5000, "digits"),
        (b"seed: 1\nseed: 2\n", "seed occurs twice"),
        (b"# " + b"x" * 2_000_000, "larger than"),
        (b"other: {x: {y: 1}}", "unknown key other"),
    ],
    ids=["latin-1", "utf-16", "deep", "deep value", "aliases", "digits", "twice", "large", "nested"],
)
@pytest.mark.parametrize("command", ["eval-dialogs", "train-captioner"])
def test_d2_d6_a_hostile_configuration_is_refused(refused, tmp_path, command, content, reason):
    path = tmp_path / "options.yaml"
    path.write_bytes(content)
    assert reason in refused(command, config=path)


@pytest.mark.parametrize("number", ["inf", "nan", "1e39"])
def test_d3_word_vectors_must_be_finite(vector_runs, world, project, refused, tmp_path, number):
    (tmp_path / "glove.txt").write_text(f"is 0.1 0.2\nred 0.1 {number}\n")
    options = {**world, **project.retriever, "captioner": vector_runs.captioner, "run": tmp_path / "run"}
    line = refused("train-retriever", **options, word_vectors=tmp_path / "glove.txt")
    assert "'red' that is not finite" in line and not (tmp_path / "run").exists()


def test_d8_weights_must_be_finite(vector_runs, world, refused, tmp_path):
    """A captioner of NaN would say the same word always."""
    run = shutil.copytree(vector_runs.captioner, tmp_path / "run")
    tensors = load_file(run / "weights.safetensors")
    name = next(iter(tensors))
    save_file({**tensors, name: torch.full_like(tensors[name], torch.nan)}, run / "weights.safetensors")
    line = refused("eval-dialogs", **world, run=vector_runs.retriever, user=run, out=tmp_path / "out")
    assert f"{name} is not finite" in line


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda about: about["words"].pop(10), "words"),
        (lambda about: about["words"].__setitem__(10, about["words"][11]), "twice"),
        (lambda about: about.__setitem__("words", [[1]]), "malformed"),
        (lambda about: about.__setitem__("sizes", {"width": "wide"}), "sizes"),
        (lambda about: about["sizes"].__setitem__("heads", 0), "sizes"),
        (lambda about: about.__setitem__("model", ["rnn"]), "malformed"),
        (lambda about: about.__setitem__("model", "cnn"), "unknown kind"),
    ],
    ids=["a word less", "a word twice", "no words", "no size", "no heads", "no model", "another model"],
)
def test_d8_d9_a_changed_description_is_refused(vector_runs, world, refused, tmp_path, change, reason):
    run = shutil.copytree(vector_runs.retriever, tmp_path / "run")
    about = json.loads((run / "model.json").read_text())
    change(about)
    (run / "model.json").write_text(json.dumps(about))
    line = refused("eval-dialogs", **world, run=run, user=vector_runs.captioner, out=tmp_path / "out")
    assert reason in line and str(run) in line


def shifted(store):
    path = store / "features.npy"
    content = path.read_bytes()
    path.write_bytes(content[:500] + bytes(100) + content[500:])


def narrower(store):
    np.save(store / "features.npy", np.load(store / "features.npy")[:, :-1])


def infinite(store):
    rows = np.load(store / "features.npy")
    rows[:, 2] = np.inf
    np.save(store / "features.npy", rows)


def beyond(store):
    rows = np.load(store / "attributes.npy")
    rows[:, 2] = 10_000
    np.save(store / "attributes.npy", rows)


def unhashable(store):
    ids = json.loads((store / "ids.json").read_text())
    (store / "ids.json").write_text(json.dumps([["a"], *ids[1:]]))


def twice(store):
    ids = json.loads((store / "ids.json").read_text())
    (store / "ids.json").write_text(json.dumps([ids[1], *ids[1:]]))


def without_columns(store):
    np.save(store / "attributes.npy", np.load(store / "attributes.npy")[:, :0])


def odd_header(store):
    content = (store / "attributes.npy").read_bytes()
    (store / "attributes.npy").write_bytes(content.replace(b"}", b" "))


def one_number(store):
    np.save(store / "attributes.npy", np.array(3))


@pytest.mark.parametrize(
    "damage",
    [shifted, narrower, infinite, beyond, unhashable, twice, without_columns, one_number, odd_header],
)
def test_d8_d9_a_damaged_store_is_refused(vector_runs, world, refused, tmp_path, damage):
    store = shutil.copytree(vector_runs.store, tmp_path / "store")
    damage(store)
    options = {**world, "features": store, "user": vector_runs.captioner, "out": tmp_path / "out"}
    assert str(store) in refused("eval-dialogs", **options, run=vector_runs.retriever)


def test_d8_vectors_of_zeros_are_refused(vector_runs, refused, tmp_path):
    ids = json.loads((vector_runs.store / "ids.json").read_text())
    np.save(tmp_path / "zeros.npy", np.zeros((len(ids), 4), dtype=np.float32))
    (tmp_path / "ids.json").write_text(json.dumps(ids))
    options = {"vectors": tmp_path / "zeros.npy", "ids": tmp_path / "ids.json", "features": tmp_path / "new"}
    line = refused("extract-features", data=vector_runs.catalog, category="dresses", **options)
    assert "zero" in line and not (tmp_path / "new" / "store.json").exists()


def test_d9_the_checkpoint_of_another_training_is_refused(vector_runs, resumed):
    run, resume = resumed
    shutil.copy(vector_runs.retriever / "last.ckpt", run / "last.ckpt")
    assert "not of this training" in resume()


@pytest.mark.parametrize("content", [{}, {"state_dict": 3}, {"epoch": "one"}, [1, 2]])
def test_d9_a_checkpoint_of_something_else_is_refused(resumed, content):
    run, resume = resumed
    torch.save(content, run / "last.ckpt")
    assert "cannot resume" in resume()


@pytest.mark.parametrize("content", [b"", b"epoch,train_loss\n", bytes(200)])
def test_metrics_without_an_epoch_are_refused(resumed, content):
    run, resume = resumed
    (run / "metrics.csv").write_bytes(content)
    assert "metrics.csv" in resume()


@pytest.mark.parametrize("end", ["garbage\n", "x,1,2\n", '1,0.3"5\n'])
def test_d9_damaged_metrics_are_found_before_an_epoch_is_trained(resumed, end):
    run, resume = resumed
    with open(run / "metrics.csv", "a") as file:
        file.write(end)
    assert "metrics.csv is damaged" in resume()


@pytest.mark.parametrize("name", ["x" * 300, "con", "LPT1"])
def test_d9_d14_names_that_cannot_be_files_are_refused(world, refused, name):
    assert "not a valid category" in refused("check-data", data=world["data"], category=name)


@pytest.mark.parametrize(
    ("command", "option"),
    [
        ("extract-features", "vectors"),
        ("import-catalog", "table"),
        ("eval-dialogs", "config"),
        ("eval-single-turn", "predictions"),
        ("extract-attributes", "vocabulary"),
    ],
)
def test_d11_a_pipe_is_not_waited_for(vector_runs, refused, tmp_path, command, option):
    os.mkfifo(tmp_path / "pipe.csv")
    given = {"data": vector_runs.catalog, "category": "dresses", option: tmp_path / "pipe.csv"}
    given |= {"ids": tmp_path / "ids.json"} if command == "extract-features" else {}
    given |= {"run": tmp_path} if command == "eval-dialogs" else {}
    given |= {"images": tmp_path} if command == "import-catalog" else {}
    assert "is a pipe, a device or a socket" in refused(command, **given)


def test_d12_turns_have_a_bound(vector_runs, world, refused):
    line = refused("eval-dialogs", **world, run=vector_runs.retriever, turns=2147483647)
    assert "--turns is 2147483647: it must be less than 1000" in line


def test_d13_what_files_contain_does_not_reach_the_terminal(refused, tmp_path):
    table = tmp_path / "table.csv"
    table.write_text("\x1b[31mid\x1b]0;pwn\x07,title\n1,red dress\n")
    (tmp_path / "pictures").mkdir()
    given = {"images": tmp_path / "pictures", "id": "id", "category": "dresses", "data": tmp_path / "shop"}
    line = refused("import-catalog", table=table, **given)
    assert "\x1b" not in line and "pwn" in line
    table.write_text("x" * 100_000 + ",title\n1,red dress\n")
    refused("import-catalog", table=table, **given)
    refused("check-data", data=f"{tmp_path}/two\nlines")


def test_d4_what_the_report_needs_is_read_before_the_first_dialog(
    vector_runs, world, project, refused, tmp_path, monkeypatch
):
    """And a refused evaluation leaves the earlier result as it was."""
    catalog = shutil.copytree(vector_runs.catalog, tmp_path / "catalog")
    out = tmp_path / "out"
    given = {**world, "data": catalog, "run": vector_runs.retriever, "user": "differences", "out": out}
    project.run("eval-dialogs", **given)
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    monkeypatch.setattr("fashioniq.evaluation.run.rollout", lambda *_: pytest.fail("a dialog has begun"))
    titles = catalog / "titles/dress.val.json"
    titles.parent.mkdir(exist_ok=True)
    titles.write_text("{broken")
    assert "dress.val.json" in refused("eval-dialogs", **given)
    titles.unlink()
    (catalog / "image_splits/split.dress.train.json").write_text("[1, 2]")
    assert "split.dress.train.json" in refused("eval-dialogs", **given)
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


def test_d4_a_folder_that_cannot_be_written_is_found_before_the_first_dialog(
    vector_runs, world, refused, tmp_path, monkeypatch
):
    (tmp_path / "file").touch()
    monkeypatch.setattr("fashioniq.evaluation.run.rollout", lambda *_: pytest.fail("a dialog has begun"))
    given = {**world, "run": vector_runs.retriever, "user": "differences", "out": tmp_path / "file" / "out"}
    assert "cannot write" in refused("eval-dialogs", **given)


@pytest.mark.parametrize("name", ["\0.jpg", "/", "", "a/\0"])
def test_d5_a_zip_member_without_a_name_is_refused_or_left_out(project, capsys, tmp_path, name):
    with ZipFile(tmp_path / "photos.zip", "w") as archive:
        archive.writestr("x.jpg", b"no picture")
    packed = (tmp_path / "photos.zip").read_bytes()
    odd = name.encode().ljust(5, b"\0")[:5]
    (tmp_path / "photos.zip").write_bytes(packed.replace(b"x.jpg", odd))
    given = {"images": tmp_path / "photos.zip", "category": "dresses", "data": tmp_path / "shop"}
    assert main(project.arguments("import-catalog", **given)) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1 and not (tmp_path / "shop").exists()


@pytest.mark.parametrize(
    "index",
    ["IDMap,Flat", "IVF0,Flat", "Flat,", "PQ0", "OPQ3,Flat", "IVF99999,PQ7", "IVF1,PQ2", "RR,HNSW0", "\n"],
)
def test_d9_an_odd_index_is_refused(vector_runs, world, refused, tmp_path, index):
    given = {**world, "run": vector_runs.retriever, "user": "differences", "out": tmp_path / "out"}
    assert "--index" in refused("eval-dialogs", **given, index=index)


def test_d9_vectors_of_no_numbers_are_refused(vector_runs, refused, tmp_path):
    arrays = {"queries": np.array(["a"]), "ids": np.array(["b"])}
    empty = {"query_vectors": np.zeros((1, 0), np.float32), "vectors": np.zeros((1, 0), np.float32)}
    np.savez(tmp_path / "p.npz", **arrays, **empty)
    given = {"data": vector_runs.catalog, "category": "dresses", "split": "val"}
    assert "p.npz" in refused("eval-single-turn", **given, predictions=tmp_path / "p.npz")


@pytest.mark.parametrize("file", ["image_splits/split.dress.val.json", "captions/cap.dress.train.json"])
def test_d9_a_folder_in_the_place_of_a_file_is_refused(vector_runs, world, refused, tmp_path, file):
    catalog = shutil.copytree(
        vector_runs.catalog, tmp_path / "catalog", ignore=shutil.ignore_patterns("images")
    )
    (catalog / file).unlink()
    (catalog / file).mkdir()
    given = {**world, "data": catalog, "run": vector_runs.retriever, "user": "differences"}
    assert file in refused("eval-dialogs", **given, out=tmp_path / "out")


def test_d9_a_report_in_a_loop_of_links_is_refused(vector_runs, refused, tmp_path):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    assert "loop" in refused("check-data", data=vector_runs.catalog, report=tmp_path / "loop" / "report.html")


def flip(path, position):
    """Change one bit of a file."""
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(bytes(content))


@pytest.mark.parametrize("what", ["retriever", "captioner", "store"])
def test_d8_one_changed_bit_is_found_by_verify(what, vector_runs, world, refused, tmp_path):
    copy = shutil.copytree(getattr(vector_runs, what), tmp_path / what)
    path = copy / ("features.npy" if what == "store" else "weights.safetensors")
    flip(path, path.stat().st_size - 4)  # a low bit of the last number, which no other check notices
    given = {**world, "run": vector_runs.retriever, "user": vector_runs.captioner}
    given |= {{"retriever": "run", "captioner": "user", "store": "features"}[what]: copy}
    line = refused("eval-dialogs", **given, out=tmp_path / "out", verify=True)
    assert path.name in line and "damaged" in line and not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", ["eval-captions", "eval-single-turn", "eval-dialogs"])
def test_d4_a_folder_that_cannot_be_written_is_refused_before_the_work(
    command, vector_runs, world, refused, tmp_path, monkeypatch
):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setattr("fashioniq.runs.trained.load_weights", None)  # no model is loaded
    given = {
        "eval-captions": {"run": vector_runs.captioner},
        "eval-single-turn": {"run": vector_runs.retriever},
        "eval-dialogs": {"run": vector_runs.retriever, "user": vector_runs.captioner},
    }[command]
    line = refused(command, **world, **given, out=tmp_path / "file" / "out")
    assert line == f"error: cannot write {tmp_path}/file/out: {tmp_path}/file is not a folder"


def test_d14_a_full_disk_leaves_nothing_of_a_sample(refused, tmp_path, monkeypatch):
    pictures = iter(range(5))

    def save(image, path, **options):
        if next(pictures, None) is None:
            raise OSError(errno.ENOSPC, "No space left on device")
        path.write_bytes(b"a picture")

    monkeypatch.setattr("PIL.Image.Image.save", save)
    line = refused("draw-sample", data=tmp_path / "sample", products=30)
    assert line.startswith(f"error: no space left to write {tmp_path}/sample: free some space")
    assert not list((tmp_path / "sample").iterdir())


@pytest.mark.parametrize("number", ["9223372036854775808", "9" * 400])
def test_whole_numbers_have_a_bound(vector_runs, world, refused, tmp_path, number):
    line = refused(
        "eval-dialogs", **world, run=vector_runs.retriever, out=tmp_path / "out", batch_size=number
    )
    assert "it must be less than 9,007,199,254,740,992" in line


def test_an_odd_choice_is_refused_without_python_types(vector_runs, world, refused):
    assert "--split: expected one of train, val, test" in refused(
        "search", **world, run="x", text="x", split="\t"
    )


def test_what_the_catalog_contains_does_not_reach_the_terminal_of_a_chat(
    vector_runs, project, tmp_path, monkeypatch, capsys
):
    catalog = shutil.copytree(vector_runs.catalog, tmp_path / "catalog")
    for path in (catalog / "titles").glob("dress.*.json"):
        titles = {name: {"title": f"\x1b]0;pwned\x07{name}"} for name in json.loads(path.read_text())}
        path.write_text(json.dumps(titles))
    monkeypatch.setattr("builtins.input", lambda _: "this is it 1")
    given = {
        "data": catalog,
        "category": "dresses",
        "features": vector_runs.store,
        "log": tmp_path / "log.jsonl",
    }
    project.run("chat", run=vector_runs.retriever, **given)
    printed = capsys.readouterr().out
    assert "You chose" in printed and "\x1b" not in printed and "\x07" not in printed


@pytest.mark.parametrize("path", ["x" * 5000, "a\0b", "\ud800"], ids=["long", "null", "surrogate"])
@pytest.mark.parametrize("option", ["data", "out", "features"])
def test_what_cannot_be_a_path_is_refused(vector_runs, world, refused, option, path):
    options = {**world, "run": vector_runs.retriever, option: path}
    line = refused("eval-dialogs", **options)
    assert "path" in line or "surrogates not allowed" in line


@pytest.mark.parametrize("value", ["!!timestamp 3", "2024-99-99", "!!set 3", "!!binary x"])
def test_odd_tags_of_yaml_are_refused(refused, tmp_path, value):
    (tmp_path / "options.yaml").write_text(f"seed: {value}\n")
    assert "options.yaml" in refused("train-retriever", config=tmp_path / "options.yaml")


def test_deeply_nested_dialogs_are_refused(vector_runs, capsys, tmp_path):
    out = shutil.copytree(vector_runs.dialogs, tmp_path / "out")
    (out / "dialogs.jsonl").write_text("[" * 100_000)
    assert main(["compare", str(vector_runs.dialogs), str(out)]) == 2
    assert "dialogs.jsonl is missing or damaged" in capsys.readouterr().err


def test_half_a_surrogate_pair_is_no_index(vector_runs, world, refused, tmp_path):
    given = {**world, "run": vector_runs.retriever, "user": "differences", "out": tmp_path / "out"}
    assert "--index" in refused("eval-dialogs", **given, index="\ud800")


def test_the_state_of_an_optimizer_must_fit(resumed):
    run, resume = resumed
    state = torch.load(run / "last.ckpt", weights_only=True)
    averages = next(iter(state["optimizer_states"][0]["state"].values()))
    averages["exp_avg_sq"] = averages["exp_avg_sq"].flatten()[:1]
    torch.save(state, run / "last.ckpt")
    assert "not of this training" in resume()


def test_control_characters_of_data_do_not_reach_the_terminal(vector_runs, world, project, tmp_path, capsys):
    catalog = shutil.copytree(vector_runs.catalog, tmp_path / "catalog")
    about = {"pictures": "\x1b]0;pwned\x07", "captions": "\u202e\ud800"}
    (catalog / "catalog.json").write_text(json.dumps(about))
    given = {**world, "data": catalog, "run": vector_runs.retriever, "user": "differences", "turns": 1}
    project.run("eval-dialogs", **given, out=tmp_path / "out")
    project.run(
        "eval-single-turn", **{**world, "data": catalog}, run=vector_runs.retriever, out=tmp_path / "o"
    )
    printed = capsys.readouterr().out
    assert "pwned" in printed and not any(one in printed for one in "\x1b\x07\u202e\ud800")


@pytest.mark.parametrize(
    "command", ["caption-pairs", "extract-attributes", "eval-dialogs", "train-retriever"]
)
def test_what_a_killed_command_left_is_removed(vector_runs, world, project, tmp_path, command):
    catalog = shutil.copytree(
        vector_runs.catalog, tmp_path / "catalog", ignore=shutil.ignore_patterns("images")
    )
    given = {"data": catalog, "category": "dresses"}
    of_command = {
        "caption-pairs": (catalog / "pairs", {"titles": True, "export": tmp_path / "pairs.csv"}),
        "extract-attributes": (catalog / "attributes", {"replace": True}),
        "eval-dialogs": (
            tmp_path / "out",
            {**world, "run": vector_runs.retriever, "user": "differences", "out": tmp_path / "out"},
        ),
        "train-retriever": (tmp_path / "out", {**world, "epochs": 0, "run": tmp_path / "out"}),
    }
    folder, options = of_command[command]
    folder.mkdir(exist_ok=True)
    (folder / ".half-abcd1234.json").write_text("{")
    project.run(command, **{**given, **options})
    assert not list(folder.glob(".*"))


def test_a_list_of_texts_is_no_dict(refused, tmp_path):
    (tmp_path / "options.yaml").write_text("category: {a: 1}\n")
    assert "expected a list of texts" in refused("eval-single-turn", config=tmp_path / "options.yaml")


def test_labels_are_read_before_a_run_is_begun(vector_runs, world, project, refused, tmp_path):
    catalog = shutil.copytree(vector_runs.catalog, tmp_path / "catalog")
    labels = catalog / "attributes/asin2attr.dress.test.json"
    labels.write_text(json.dumps({name: "é" for name in json.loads(labels.read_text())}))
    refused("train-captioner", **{**world, **project.captioner, "data": catalog}, run=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("part", "file"),
    [
        ("catalog", "captions/cap.dress.train.json"),
        ("store", "features.npy"),
        ("retriever", "weights.safetensors"),
        ("retriever", "wording.json"),
        ("retriever", "labels.safetensors"),
    ],
)
def test_a_pipe_inside_of_a_folder_is_not_waited_for(vector_runs, world, refused, tmp_path, part, file):
    folder = shutil.copytree(getattr(vector_runs, part), tmp_path / part)
    (folder / file).unlink()
    os.mkfifo(folder / file)
    option = {"catalog": "data", "store": "features", "retriever": "run"}[part]
    given = {**world, "run": vector_runs.retriever, "user": "differences", "out": tmp_path / "out"}
    assert "is a pipe" in refused("eval-dialogs", **{**given, option: folder})


@pytest.mark.parametrize("file", ["last.ckpt", "metrics.csv"])
def test_a_pipe_in_a_resumed_run_is_not_waited_for(vector_runs, world, project, refused, tmp_path, file):
    run = shutil.copytree(vector_runs.captioner, tmp_path / "run")
    (run / file).unlink()
    os.mkfifo(run / file)
    assert "is a pipe" in refused("train-captioner", **world, **project.captioner, run=run, resume=True)


@pytest.mark.parametrize(
    ("command", "content", "said"),
    [
        ("import-catalog", "attributes: null", "attributes: expected a list of texts, found null"),
        ("check-data", "data: null", "data: expected a path, found null"),
        ("train-captioner", "model: {width: null}", "model.width: expected a whole number, found null"),
        ("train-composer", "model: small", "model: expected options as `key: value`, found small"),
    ],
)
def test_an_option_without_a_value_in_a_file_is_refused(command, content, said, refused, tmp_path):
    (tmp_path / "options.yaml").write_text(f"category: dresses\n{content}\n")
    assert said in refused(command, config=tmp_path / "options.yaml")


@pytest.mark.parametrize(
    ("command", "options", "said"),
    [
        ("train-retriever", {"run": "\x1b[31mred"}, "--run contains control characters"),
        ("eval-dialogs", {"system": "\x1b[31mred"}, "there is no system [31mred;"),
        (
            "make-dialogues",
            {"timeout": "9" * 400, "out": "d.json"},
            "--timeout is inf: it must be a finite number",
        ),
    ],
)
def test_odd_values_of_options_are_refused(command, options, said, refused):
    assert said in refused(command, category="dresses", **options)


def test_metrics_with_turns_that_have_no_number_are_refused(vector_runs, tmp_path, capsys):
    copy = shutil.copytree(vector_runs.dialogs, tmp_path / "dialogs")
    content = json.loads((copy / "metrics.json").read_text())
    del content["turns"][0]["turn"]
    (copy / "metrics.json").write_text(json.dumps(content))
    assert main(["compare", str(copy), str(vector_runs.dialogs)]) == 2
    assert "its turns are not numbered from 1" in capsys.readouterr().err


@pytest.mark.parametrize("value", ["!!set {a, b}", "3", "[1]", "~", "text"])
def test_a_section_must_have_options(refused, tmp_path, value):
    (tmp_path / "options.yaml").write_text(f"category: dresses\nmodel: {value}\n")
    assert "expected options" in refused("train-dialog-encoder", config=tmp_path / "options.yaml")


def test_a_description_without_its_figures_is_refused(vector_runs, world, project, refused, tmp_path):
    run = shutil.copytree(vector_runs.captioner, tmp_path / "run")
    about = json.loads((run / "model.json").read_text())
    del about["metrics"]["val_score"]
    (run / "model.json").write_text(json.dumps(about))
    assert "lacks val_score" in refused("train-captioner", **world, **project.captioner, run=run, resume=True)


def test_half_a_surrogate_pair_in_a_description_is_refused(vector_runs, world, refused, tmp_path):
    run = shutil.copytree(vector_runs.retriever, tmp_path / "run")
    about = json.loads((run / "model.json").read_text())
    (run / "model.json").write_text(json.dumps({**about, "data": "\ud800"}))
    assert "malformed" in refused("eval-dialogs", **world, run=run, user="differences", out=tmp_path / "out")


@pytest.mark.parametrize("kind", ["folder", "loop"])
def test_a_log_that_is_no_file_is_refused_before_the_chat(kind, vector_runs, world, refused, tmp_path):
    log = tmp_path / "log.jsonl"
    log.mkdir() if kind == "folder" else log.symlink_to(log)
    assert "it is not a file; give another --log" in refused(
        "chat", **world, run=vector_runs.retriever, log=log
    )
    assert not (tmp_path / "chat.html").exists()


def test_a_name_that_no_folder_can_have_is_refused(vector_runs, world, refused, tmp_path):
    line = refused("eval-dialogs", **world, run="x" * 5000, user=vector_runs.captioner, out=tmp_path / "out")
    assert "x" * 20 in line


def test_d15_the_page_says_how_a_killed_training_continues(vector_runs, world, project, refused):
    page = (Path(__file__).parents[2] / "docs" / "data.md").read_text()
    (row,) = [line for line in page.splitlines() if line.startswith("| a command was killed")]
    given = {**world, **project.captioner, "run": vector_runs.captioner}
    assert "--resume" in row and "--resume" in refused("train-captioner", **given)


def test_a_chat_whose_vectors_overflow_leaves_no_page(vector_runs, world, refused, tmp_path, monkeypatch):
    run = shutil.copytree(vector_runs.retriever, tmp_path / "run")
    weights = load_file(run / "weights.safetensors")
    begun = {name: value * 1e38 if name.startswith("query") else value for name, value in weights.items()}
    save_file(begun, run / "weights.safetensors")
    monkeypatch.setattr("sys.stdin", io.StringIO("red\n"))
    assert "diverged" in refused("chat", **world, run=run, log=tmp_path / "out" / "log.jsonl")
    assert not list((tmp_path / "out").iterdir())


def test_a_linear_retriever_that_cannot_be_fitted_leaves_no_folder(vector_runs, world, refused, tmp_path):
    catalog = shutil.copytree(vector_runs.catalog, tmp_path / "catalog")
    (catalog / "captions" / "cap.dress.test.json").unlink()
    os.mkfifo(catalog / "captions" / "cap.dress.test.json")
    assert "a pipe" in refused(
        "train-retriever", **world | {"data": catalog}, epochs=0, run=tmp_path / "linear"
    )
    assert not (tmp_path / "linear").exists()


def test_damaged_labels_leave_nothing_of_a_linear_retriever(vector_runs, world, refused, tmp_path):
    catalog = shutil.copytree(vector_runs.catalog, tmp_path / "catalog")
    labels = catalog / "attributes" / "asin2attr.dress.test.json"
    labels.write_text(2 * labels.read_text())
    given = {**world, "data": catalog, "epochs": 0, "run": tmp_path / "linear"}
    assert "asin2attr.dress.test.json" in refused("train-retriever", **given)
    assert not (tmp_path / "linear").exists()


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_own_vectors_may_name_products_in_another_form(vector_runs, project, tmp_path, form):
    catalog = shutil.copytree(vector_runs.catalog, tmp_path / "catalog")
    path = catalog / "image_splits" / "split.dress.test.json"
    ids = json.loads(path.read_text())
    path.write_text(json.dumps([normalize(form, "café"), *ids[1:]]))
    names = json.loads((vector_runs.store.parent / "ids.json").read_text())
    (tmp_path / "ids.json").write_text(
        json.dumps(
            [normalize("NFC" if form == "NFD" else "NFD", "café") if one == ids[0] else one for one in names]
        )
    )
    given = {"data": catalog, "category": "dresses", "vectors": vector_runs.store.parent / "vectors.npy"}
    project.run("extract-features", **given, ids=tmp_path / "ids.json", features=tmp_path / "store")
    assert normalize(form, "café") in json.loads((tmp_path / "store" / "ids.json").read_text())


@pytest.mark.parametrize(
    ("command", "file", "content"),
    [
        ("eval-dialogs", "metrics.json", "{}"),
        ("eval-dialogs", "report.html", "mine"),
        ("eval-captions", "metrics.json", '{"mine": 1}'),
        ("eval-single-turn", "table.csv", "mine"),
        ("eval-requests", "report.html", "mine"),
        ("compare", "comparison.json", "[]"),
    ],
)
def test_results_do_not_replace_files_of_something_else(
    vector_runs, world, refused, capsys, tmp_path, command, file, content
):
    out = tmp_path / "out"
    out.mkdir()
    (out / file).write_text(content)
    (out / "thesis.tex").write_text("mine")
    given = {
        "eval-dialogs": {"run": vector_runs.retriever, "user": "differences"},
        "eval-captions": {"run": vector_runs.captioner},
        "eval-single-turn": {"run": vector_runs.retriever},
        "eval-requests": {"run": vector_runs.retriever},
    }
    if command == "compare":
        assert main(["compare", *[str(vector_runs.dialogs)] * 2, "--out", str(out)]) == 2
        line = capsys.readouterr().err
    else:
        line = refused(command, **world, **given[command], out=out)
    found = file if file.endswith(".json") else "thesis.tex"
    assert f"expected an empty folder or earlier results in {out}, found {found} of something else" in line
    assert line.rstrip().endswith("give another --out")
    assert {path.name: path.read_text() for path in out.iterdir()} == {file: content, "thesis.tex": "mine"}


def test_earlier_results_are_replaced_also_beside_other_files_and_after_a_kill(
    vector_runs, world, project, tmp_path
):
    given = {
        **world,
        "run": vector_runs.retriever,
        "user": "differences",
        "turns": 1,
        "out": tmp_path / "out",
    }
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "eval.log").write_text("a shell makes the log of a command before it")
    project.run("eval-dialogs", **given)
    (tmp_path / "out" / "notes.txt").write_text("mine")
    project.run("eval-dialogs", **given)
    (tmp_path / "out" / "notes.txt").unlink()
    (tmp_path / "out" / "metrics.json").unlink()  # the last file that is written
    project.run("eval-dialogs", **given)
    assert (tmp_path / "out" / "metrics.json").exists()


@pytest.mark.parametrize("file", ["config.yaml", "metrics.csv"])
@pytest.mark.parametrize("command", ["train-captioner", "train-retriever"])
def test_a_run_does_not_replace_files_of_something_else(
    vector_runs, world, project, refused, tmp_path, command, file
):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / file).write_text("mine: true\n")
    options = project.captioner if command == "train-captioner" else {"epochs": 0}
    line = refused(command, **{**world, **options}, run=tmp_path / "run")
    assert f"found {file} of something else; give another --run" in line
    assert [path.read_text() for path in (tmp_path / "run").iterdir()] == ["mine: true\n"]


@pytest.mark.parametrize("content", ["photo.png", "captions/train.json"])
@pytest.mark.parametrize("command", ["eval-dialogs", "train-retriever", "extract-features", "compare"])
def test_folders_that_hold_other_things_stay_as_they_are(
    vector_runs, world, refused, capsys, tmp_path, command, content
):
    folder = tmp_path / "folder"
    file = folder / content
    file.parent.mkdir(parents=True)
    file.write_text("mine")
    if command == "compare":
        assert main(["compare", *[str(vector_runs.dialogs)] * 2, "--out", str(folder)]) == 2
        line = capsys.readouterr().err
    elif command == "eval-dialogs":
        line = refused(command, **world, run=vector_runs.retriever, user="differences", out=folder)
    elif command == "train-retriever":
        line = refused(command, **world, epochs=0, run=folder)
    else:
        named = {key: value for key, value in world.items() if key in ("data", "category")}
        line = refused(command, **named, encoder="metadata", features=folder)
    assert "expected an empty folder or " in line
    assert f"found {content.partition('/')[0]} of something else; give another --" in line
    assert [path for path in folder.rglob("*") if path.is_file()] == [file] and file.read_text() == "mine"


@pytest.mark.parametrize("command", ["train-composer", "train-retriever"])
def test_a_pipe_in_place_of_titles_leaves_nothing_of_a_run(
    vector_runs, world, project, refused, tmp_path, command
):
    catalog = shutil.copytree(vector_runs.catalog, tmp_path / "catalog")
    (catalog / "titles" / "dress.val.json").unlink()
    os.mkfifo(catalog / "titles" / "dress.val.json")
    options = project.retriever
    if command == "train-composer":
        options = {"model.width": 16, "model.composition": "B", "epochs": 1}
    given = {**world, **options, "data": catalog, "run": tmp_path / "run"}
    if command == "train-retriever":
        given["captioner"] = vector_runs.captioner
    assert "dress.val.json is a pipe" in refused(command, **given)
    assert not (tmp_path / "run").exists()


def test_a_predictor_of_an_unknown_network_is_refused(attribute_runs, world, refused, tmp_path):
    run = shutil.copytree(attribute_runs[0], tmp_path / "run")
    about = json.loads((run / "model.json").read_text())
    (run / "model.json").write_text(json.dumps({**about, "encoder": "<script>pwned()</script>"}))
    given = {**world, "predictor": run, "features": tmp_path / "new"}
    assert "expected a network of timm in" in refused("extract-features", **given)


@pytest.mark.parametrize("kind", ["float16", "bool"])
def test_attributes_of_a_store_must_be_whole_numbers(vector_runs, world, refused, tmp_path, kind):
    store = shutil.copytree(vector_runs.store, tmp_path / "store")
    np.save(store / "attributes.npy", np.load(store / "attributes.npy").astype(kind))
    given = {**world, "features": store, "run": vector_runs.retriever, "user": "differences"}
    assert f"its attributes are {kind}, not whole numbers" in refused(
        "eval-dialogs", **given, out=tmp_path / "out"
    )
