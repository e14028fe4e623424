"""`fashioniq eval-dialogs --system chatir`: recorded question dialogs against a search space, by vectors and by tiny CLIP and
BLIP.
"""

import csv
import json

import numpy as np
import pytest
import torch
from PIL import Image

from fashioniq import encoders
from fashioniq.cli import main
from fashioniq.data.dialogues import read_dialogues, read_search_space
from fashioniq.encoders.transformers import CLIP

ROUNDS, KEPT = 11, 40  # of the released dialogues every fortieth is kept, against the whole search space


def read(path):
    return json.loads(path.read_text())


def write_dialogues(path, names, rounds=3, ask="is it {}? yes"):
    words = ["red", "blue", "long", "the", "a"]
    dialogs = [
        ["a dress", *(ask.format(words[(number + turn) % 5]) for turn in range(rounds - 1))]
        for number in range(len(names))
    ]
    path.write_text(
        json.dumps([{"img": name, "dialog": dialog} for name, dialog in zip(names, dialogs, strict=True)])
    )
    return path


def vectors(targets, gallery, rounds, size=16, seed=0):
    """Fixed pseudo-random vectors: queries come nearer to their targets round by round."""
    draw = np.random.default_rng(seed)
    gallery_ND = draw.normal(size=(gallery, size)).astype(np.float32)
    noise_QRD = draw.normal(size=(len(targets), rounds, size))
    return (noise_QRD + gallery_ND[targets][:, None] * np.linspace(0.2, 1, rounds)[:, None]).astype(
        np.float32
    ), gallery_ND


def naive(query_QRD, gallery_ND, targets):
    """Every measure in plain numpy: cosine similarity, ranks by counting what is more similar."""
    unit_ND = gallery_ND.astype(np.float64) / np.linalg.norm(
        gallery_ND.astype(np.float64), axis=1, keepdims=True
    )
    ranks = np.empty(query_QRD.shape[:2], int)
    for row, (query_RD, target) in enumerate(zip(query_QRD.astype(np.float64), targets, strict=True)):
        similarity_RN = query_RD / np.linalg.norm(query_RD, axis=1, keepdims=True) @ unit_ND.T
        ranks[row] = (similarity_RN > similarity_RN[:, [target]]).sum(1)
    found = []
    best = np.minimum.accumulate(ranks, 1)
    for number in range(ranks.shape[1]):
        steps = [(np.log(best[:, t] + 1) + np.log(best[:, t + 1] + 1)) / 2 for t in range(number)]
        found.append({
            "round": number, "Hits@10": 100 * (best[:, number] < 10).mean(),
            **{f"R@{n}": 100 * (ranks[:, number] < n).mean() for n in (1, 5, 10, 50)},
            "P": 100 * (1 - ranks[:, number] / len(gallery_ND)).mean(), "ATR": (ranks[:, number] + 1).mean(),
            "BRI": np.mean(sum(steps) / number) if number else None,
        })  # fmt: skip
    return ranks, found


def assert_same(rounds, expected, rel=1e-6):
    assert rounds[0].pop("BRI") is expected[0].pop("BRI") is None
    for row, wanted in zip(rounds, expected, strict=True):
        assert row == pytest.approx(wanted, rel=rel), row["round"]


@pytest.fixture
def few(tmp_path):
    """Forty made-up pictures, a search space of them, dialogues of the first twelve, and vectors."""
    names = [f"photos/{number:04d}.png" for number in range(40)]
    (tmp_path / "photos").mkdir()
    for number, name in enumerate(names):
        Image.new("RGB", (40, 30), (number * 6, 255 - number * 6, (number * 50) % 256)).save(tmp_path / name)
    (tmp_path / "space.json").write_text(json.dumps(names))
    write_dialogues(tmp_path / "first.json", names[:12])
    write_dialogues(tmp_path / "second.json", names[:12], ask="what colour? {}")
    query_QRD, gallery_ND = vectors(range(12), 40, 3)
    np.save(tmp_path / "Q.npy", query_QRD)
    np.save(tmp_path / "G.npy", gallery_ND)
    return tmp_path


@pytest.fixture
def evaluate(few, project):
    """Evaluate; return the results' folder."""

    def evaluate(dialogues=("first",), name="out", **options):
        files = [few / f"{one}.json" for one in dialogues]
        project.run(
            "eval-dialogs",
            system="chatir",
            dialogues=files,
            search_space=few / "space.json",
            out=few / name,
            **options,
        )
        return few / name

    return evaluate


@pytest.fixture
def extract(few, project):
    """Function that fills the store of an encoder with the search space, and returns its folder."""

    def extract(encoder, name="store", **options):
        own = {"data": few, "pictures": few / "space.json", "workers": 0, **options}
        project.run("extract-features", encoder=encoder, features=few / name, **own)
        return few / name

    return extract


@pytest.fixture
def refused(few, project, capsys):
    """The one line that an evaluation which has to fail tells."""

    def refused(**options):
        options = {
            "dialogues": few / "first.json",
            "search_space": few / "space.json",
            "out": few / "out",
            **options,
        }
        assert main(project.arguments("eval-dialogs", system="chatir", **options)) == 2
        error = capsys.readouterr().err
        assert (
            error.startswith("error: ") and error.count("\n") == 1 and not (few / "out/metrics.json").exists()
        )
        return error

    return refused


def test_measures_of_released_dialogues_are_those_of_a_naive_computation(shared, project, tmp_path):
    folder = shared / "chatir"
    if not folder.is_dir():
        pytest.skip(f"no ChatIR dialogues at {folder}")
    space = folder / "ChatIR_Protocol/Search_Space_val_50k.json"
    kept = read(folder / "dialogues/ChatGPT_BLIP2.json")[::KEPT]
    (tmp_path / "kept.json").write_text(json.dumps(kept))
    places = {name: place for place, name in enumerate(read_search_space(space))}
    targets = [places[entry["img"]] for entry in kept]
    query_QRD, gallery_ND = vectors(targets, len(places), ROUNDS, size=24)
    np.save(tmp_path / "Q.npy", query_QRD)
    np.save(tmp_path / "G.npy", gallery_ND)
    project.run("eval-dialogs", system="chatir", dialogues=tmp_path / "kept.json", search_space=space, out=tmp_path / "out", query_vectors=tmp_path / "Q.npy",
                gallery_vectors=tmp_path / "G.npy")  # fmt: skip
    ranks, expected = naive(query_QRD, gallery_ND, targets)
    found = [
        [turn["rank"] for turn in json.loads(line)["turns"]]
        for line in (tmp_path / "out/dialogs.jsonl").read_text().splitlines()
    ]
    assert (
        np.abs(np.array(found) - ranks).max() <= 1 and (np.array(found) != ranks).mean() < 0.05
    )  # float32 rounds: neighbours may change places
    metrics = read(tmp_path / "out/metrics.json")
    assert (
        metrics["gallery"] == 50_000 and metrics["dialogs"] == len(kept) and len(metrics["rounds"]) == ROUNDS
    )
    assert_same(metrics["rounds"], expected, rel=1e-3)


def test_measures_of_vectors_are_those_of_a_naive_computation(few, evaluate):
    out = evaluate(query_vectors=few / "Q.npy", gallery_vectors=few / "G.npy")
    ranks, expected = naive(np.load(few / "Q.npy"), np.load(few / "G.npy"), range(12))
    metrics, lines = read(out / "metrics.json"), (out / "dialogs.jsonl").read_text().splitlines()
    assert_same(metrics["rounds"], expected)
    assert [[turn["rank"] for turn in json.loads(line)["turns"]] for line in lines] == ranks.tolist()
    assert metrics["questions"] == {
        "exact_repeats": 0,
        "unique_tokens": 4,
        "without_mark": 0,
    }  # is it red; is it blue


def test_equally_similar_images_keep_the_order_of_the_search_space(few, evaluate):
    gallery_ND = np.load(few / "G.npy")
    gallery_ND[:20] = gallery_ND[0]
    gallery_ND[20:] = -gallery_ND[0]
    np.save(few / "G.npy", gallery_ND * np.float32(2) ** (np.arange(40)[:, None] % 5))  # lengths play no part
    np.save(few / "Q.npy", np.broadcast_to(gallery_ND[0], (12, 3, 16)))
    out = evaluate(query_vectors=few / "Q.npy", gallery_vectors=few / "G.npy")
    ranks = [
        [turn["rank"] for turn in json.loads(line)["turns"]]
        for line in (out / "dialogs.jsonl").read_text().splitlines()
    ]
    assert ranks == [[place] * 3 for place in range(12)]


def test_several_files_come_into_one_table_and_one_page(few, evaluate, capsys):
    out = evaluate(
        ("first", "second"), query_vectors=[few / "Q.npy"] * 2, gallery_vectors=few / "G.npy", images=few
    )
    assert sorted(path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()) == [
        "first/dialogs.jsonl", "first/metrics.json", "first/qrels.trec", "first/run.trec", "first/topics.tsv", "report.html",
        "second/dialogs.jsonl", "second/metrics.json", "second/qrels.trec", "second/run.trec", "second/topics.tsv",
        "table.csv"]  # fmt: skip
    with open(out / "table.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["dialogues"], row["round"]) for row in rows] == [
        (name, str(turn)) for name in ("first", "second") for turn in range(3)
    ]
    assert float(rows[2]["Hits@10"]) == read(out / "first/metrics.json")["rounds"][2]["Hits@10"]
    told, page = capsys.readouterr().out, (out / "report.html").read_text()
    assert "first: 12 dialogs, search space 40 images" in told and "second: 12 dialogs" in told
    assert "A first" in page and "B second" in page and page.count("<svg") == 1 and "data:image/jpeg" in page
    assert "http" not in page.split("<body>")[1]
    assert (
        read(out / "second/metrics.json")["questions"]["exact_repeats"] == 1.0
    )  # both questions are "what colour?"


def test_tools_for_trec_files_compute_the_measures_of_every_round(few, evaluate, by_trec):
    out, measures = evaluate(query_vectors=few / "Q.npy", gallery_vectors=few / "G.npy"), ("R@1", "R@10")
    rounds = read(out / "metrics.json")["rounds"]
    assert by_trec(out, measures) == {
        str(one["round"]): pytest.approx({name: one[name] for name in measures}) for one in rounds
    }


def test_the_run_file_ranks_as_the_dialogs_say(few, evaluate):
    out = evaluate(query_vectors=few / "Q.npy", gallery_vectors=few / "G.npy")
    rankings = {}
    for line in (out / "run.trec").read_text().splitlines():
        query, _, name, place, score, _ = line.split()
        rankings.setdefault(query, []).append((int(place), name, float(score)))
    assert len(rankings) == 36
    for line in (out / "dialogs.jsonl").read_text().splitlines():
        dialog = json.loads(line)
        for turn, said in enumerate(dialog["turns"]):
            ranking = rankings[f"{dialog['target']}-{turn}"]
            assert ranking[said["rank"]][1] == dialog["target"] and ranking[0][1] == said["shown"]
            assert [score for *_, score in ranking] == sorted(
                (score for *_, score in ranking), reverse=True
            ) and ranking[0][2] <= 1
        assert [name for _, name, _ in ranking[:10]] == dialog["top"]


@pytest.mark.parametrize("kind", ["clip", "blip", "beit3"])
def test_pictures_and_texts_go_all_the_way(kind, few, evaluate, extract, request, capsys):
    folder = request.getfixturevalue(f"tiny_{kind}")
    out = evaluate(encoder=folder, images=few, features=extract(folder))
    metrics = read(out / "metrics.json")
    assert (metrics["model"], metrics["gallery"], metrics["coverage"], metrics["limit"]) == (
        kind,
        40,
        1.0,
        24,
    )
    texts = [
        [", ".join(one.rounds[: turn + 1]) for one in read_dialogues(few / "first.json")] for turn in range(3)
    ]
    encoder = encoders.load(str(folder))
    assert metrics["cut"] == [sum(length > 24 for length in encoder.lengths(some)) for some in texts]
    pictures_ND = encoder.images([Image.open(few / name).convert("RGB") for name in read(few / "space.json")])
    ranks, _ = naive(
        np.stack([encoder.texts(some).numpy() for some in texts], 1), pictures_ND.numpy(), range(12)
    )
    found = [
        [turn["rank"] for turn in json.loads(line)["turns"]]
        for line in (out / "dialogs.jsonl").read_text().splitlines()
    ]
    assert np.abs(np.array(found) - ranks).max() <= 1  # near-ties of few colours


@pytest.mark.parametrize("kind", ["clip", "blip", "beit3"])
def test_a_text_half_that_was_trained_on_is_saved_and_evaluated(
    kind, few, evaluate, extract, project, request
):
    folder = request.getfixturevalue(f"tiny_{kind}")
    before = read(evaluate(encoder=folder, features=extract(folder)) / "metrics.json")
    options = {
        "encoder": folder,
        "features": before["store"],
        "batch_size": 6,
        "epochs": 2,
        "learning_rate": 0.01,
        "device": "cpu",
    }
    project.run(
        "train-dialog-encoder",
        dialogues=few / "first.json",
        val_dialogues=few / "first.json",
        run=few / "run",
        **options,
    )
    after = read(evaluate(name="trained", encoder=few / "run", features=before["store"]) / "metrics.json")
    assert (after["model"], after["limit"], after["cut"]) == (
        "dialog encoder",
        before["limit"],
        before["cut"],
    )
    assert after["rounds"] != before["rounds"]


def test_a_store_of_another_encoder_is_refused(
    few, extract, refused, tiny_clip, tiny_blip, tiny_blip_of_size
):
    store = extract(tiny_clip)
    assert f"{store} has vectors of a different encoder than those of {tiny_blip}" in refused(
        encoder=tiny_blip, features=store
    )
    torch.save(tiny_blip_of_size(48).state_dict(), few / "other.pth")
    blip = extract(tiny_blip, "blip")
    told = refused(encoder=tiny_blip, features=blip, weights=few / "other.pth")
    assert f"{blip} has vectors of different weights than" in told
    assert "expected the feature store of the images" in refused(encoder=tiny_clip)


def test_pictures_that_are_missing_are_told_and_a_target_must_have_one(
    few, evaluate, extract, refused, tiny_clip
):
    (few / "photos/0030.png").unlink()
    (few / "photos/0031.png").write_bytes(b"no picture")
    metrics = read(evaluate(name="some", encoder=tiny_clip, features=extract(tiny_clip)) / "metrics.json")
    assert metrics["gallery"] == 38 and metrics["coverage"] == 38 / 40
    store = read(few / "store" / "store.json")
    assert sorted(store["failures"]) == ["photos/0030.png", "photos/0031.png"]
    assert "95.00 % of the search space" in (few / "some/report.html").read_text()
    (few / "photos/0003.png").unlink()
    assert "have no readable picture, such as photos/0003.png" in refused(
        encoder=tiny_clip, features=extract(tiny_clip, "other")
    )


def test_pictures_that_come_later_are_added(few, evaluate, extract, tiny_clip):
    hidden = (few / "photos/0030.png").read_bytes()
    (few / "photos/0030.png").unlink()
    store = extract(tiny_clip)
    assert read(evaluate(encoder=tiny_clip, features=store) / "metrics.json")["gallery"] == 39
    (few / "photos/0030.png").write_bytes(hidden)
    extract(tiny_clip, update=True)
    assert read(evaluate(encoder=tiny_clip, features=store) / "metrics.json")["gallery"] == 40


def test_a_folder_of_pictures_is_a_store_of_all_of_them(few, project, tiny_siglip):
    project.run("extract-features", encoder=tiny_siglip, data=few, workers=0)
    assert read(few / "features/ids.json") == read(few / "space.json")


@pytest.mark.parametrize(
    ("name", "change", "told"),
    [
        ("Q.npy", lambda q: q[:11], "expected 12 × 3 × 16 numbers"),
        ("Q.npy", lambda q: q[:, :2], "expected 12 × 3 × 16 numbers"),
        ("Q.npy", lambda q: q[..., :8], "expected 12 × 3 × 16 numbers"),
        ("G.npy", lambda g: g[:39], "expected 40 × D numbers (images × D, in the order of the search space)"),
        (
            "G.npy",
            lambda g: np.where(np.arange(40)[:, None] == 7, np.nan, g),
            "1 vectors are NaN, infinite or zero, the first in row 7",
        ),
        (
            "Q.npy",
            lambda q: q * (np.arange(3) != 1)[:, None],
            "12 vectors are NaN, infinite or zero, the first in row 1",
        ),
        ("G.npy", lambda g: g.astype(str), "found <U"),
    ],
)
def test_vectors_that_do_not_fit_are_told(name, change, told, few, refused):
    np.save(few / name, change(np.load(few / name)))
    assert told in refused(query_vectors=few / "Q.npy", gallery_vectors=few / "G.npy")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, "give either --encoder, or both"),
        (
            {"encoder": "clip", "query_vectors": "Q.npy", "gallery_vectors": "G.npy"},
            "give either --encoder, or both",
        ),
        ({"query_vectors": "Q.npy"}, "give either --encoder, or both"),
        (
            {"query_vectors": "Q.npy", "gallery_vectors": "G.npy", "separator": " "},
            "--separator needs --encoder",
        ),
        (
            {"query_vectors": ["Q.npy", "Q.npy"], "gallery_vectors": "G.npy"},
            "for each of --dialogues: expected 1, found 2",
        ),
        ({"dialogues": []}, "no dialogs given"),
        ({"encoder": "nowhere/to/be/found", "images": "."}, "cannot load the encoder nowhere/to/be/found"),
    ],
    ids=str,
)
def test_it_must_be_said_who_encodes(options, told, refused):
    assert told in refused(**options)


def test_files_that_do_not_fit_the_search_space_are_told(few, refused):
    vectors = {"query_vectors": few / "Q.npy", "gallery_vectors": few / "G.npy"}
    names = read(few / "space.json")
    write_dialogues(few / "first.json", [*names[:11], "photos/9999.png"])
    assert "lacks the images of 1 of the 12 dialogs" in refused(**vectors)
    (few / "space.json").write_text(json.dumps([*names, names[3]]))
    assert "more than once, for example photos/0003.png" in refused(**vectors)


def test_an_encoder_that_makes_no_numbers_is_told(few, extract, refused, tiny_clip, monkeypatch):
    store = extract(tiny_clip)
    monkeypatch.setattr(CLIP, "texts", lambda self, texts: torch.full((len(texts), 8), torch.nan))
    assert "the queries are not finite numbers" in refused(encoder=tiny_clip, features=store)


def test_weights_that_are_none_are_told(few, refused, tiny_blip):
    (few / "weights.pth").write_bytes(b"no weights")
    assert "cannot read tensors from" in refused(encoder=tiny_blip, weights=few / "weights.pth")
