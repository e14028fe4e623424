"""Stored vectors of a gallery, its index, the queries that measure it, and search without training."""

import json
import random
import shutil
from pathlib import Path
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch.nn.functional import normalize

from fashioniq import encoders
from fashioniq.askers.best_item import BestItem
from fashioniq.cli.inputs import check_inputs
from fashioniq.config import Search
from fashioniq.data.cards import ItemCards
from fashioniq.data.catalog import Catalog
from fashioniq.data.items import Items, Rows
from fashioniq.encoders.identity import Identity
from fashioniq.encoders.protocol import Encoder
from fashioniq.features.store import Contents, FeatureStore
from fashioniq.features.writer import StorePart, fill_store
from fashioniq.files import UserError, checksum
from fashioniq.loop.exact import NotFiniteError
from fashioniq.loop.gallery import Gallery
from fashioniq.loop.messages import Message, Turn
from fashioniq.loop.rollout import System
from fashioniq.runs import ZeroShotRun, galleries, read_run
from fashioniq.runs.galleries import gallery_of, sample_queries, with_search
from fashioniq.runs.training_data import Selection, data_of, recorded_settings
from fashioniq.runs.zero_shot import SHOWN, Means, ZeroShotRetriever
from fashioniq.systems import chatir, fashion_iq, load, zero_shot

CPU = torch.device("cpu")


@pytest.fixture
def run(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "weights.safetensors").write_bytes(b"weights")
    return tmp_path / "run"


@pytest.fixture
def embed():
    """Doubles vectors, and counts the calls."""

    def embed(x_BD):
        embed.calls += 1
        return 2 * x_BD

    embed.calls = 0
    return embed


def some_items(count=3):
    return Items.without_attributes([f"P{n}" for n in range(count)], torch.arange(2.0 * count).view(count, 2))


def test_vectors_are_computed_or_stored_as_halves_with_what_they_depend_on(run, embed):
    items = some_items()
    assert gallery_of(run, items, embed, "f", None).vectors_ND.tolist() == [[0, 2], [4, 6], [8, 10]]
    stored = run / "gallery"
    found = gallery_of(run, items, embed, "f", stored)
    assert torch.as_tensor(found.vectors_ND).tolist() == [[0, 2], [4, 6], [8, 10]]
    assert np.load(stored / "vectors.npy").dtype == np.float16
    about = json.loads((stored / "vectors.json").read_text())
    assert about["weights"] == checksum(run / "weights.safetensors") and about["features"] == "f"
    assert about["checksum"] == checksum(stored / "vectors.npy") and found.items is items


def test_stored_vectors_are_used_again_until_something_changes(run, embed):
    stored = run / "gallery"
    gallery_of(run, some_items(), embed, "f", stored)
    before = embed.calls
    gallery_of(run, some_items(), embed, "f", stored)
    assert embed.calls == before
    for changed in ("features", "weights", "products"):
        if changed == "weights":
            (run / "weights.safetensors").write_bytes(b"others")
        items = some_items(4 if changed == "products" else 3)
        found = gallery_of(run, items, embed, "f" if changed == "weights" else changed, stored)
        assert embed.calls > before and len(found) == len(items)
        before = embed.calls


@pytest.mark.parametrize("damage", ["gone", "other"])
def test_vectors_that_are_not_those_that_were_written_are_refused(run, embed, damage):
    stored = run / "gallery"
    gallery_of(run, some_items(), embed, "f", stored)
    if damage == "gone":
        (stored / "vectors.npy").unlink()
    else:
        np.save(stored / "vectors.npy", np.zeros((3, 2), np.float16))
    with pytest.raises(UserError, match=f"is not the file that was written; remove {stored}"):
        gallery_of(run, some_items(), embed, "f", stored)


def test_vectors_that_are_no_array_are_refused(run, embed):
    stored = run / "gallery"
    gallery_of(run, some_items(), embed, "f", stored)
    (stored / "vectors.npy").write_bytes(b"none")
    about = json.loads((stored / "vectors.json").read_text())
    (stored / "vectors.json").write_text(json.dumps(about | {"checksum": checksum(stored / "vectors.npy")}))
    with pytest.raises(UserError, match="is damaged"):
        gallery_of(run, some_items(), embed, "f", stored)


# the search of a loaded system


class Words:
    """Retriever whose query is the number of words of the reply and the first feature of what was offered."""

    def start(self, batch):
        return None

    def step(self, state, turn):
        shown_B = torch.zeros(len(turn.reply.texts)) if turn.item is None else turn.item.features_BD[:, 0]
        self.texts, self.offered = list(turn.reply.texts), turn.offer.item_B
        return torch.stack([torch.tensor([float(len(text)) for text in turn.reply.texts]), shown_B], 1), state


def a_system(asker, count=40, cards=None):
    items = some_items(count)
    return System(Words(), asker, Gallery(items, items.features_ND), cards=cards or ItemCards())


def test_queries_for_a_measurement_are_about_random_products_in_words_of_others():
    titles = {f"P{n}": f"title {n} of some six words" for n in range(40)}
    cards = ItemCards({}, titles, {"P33": ["red", "long"]})
    system = a_system(BestItem(), cards=cards)
    query_QD = sample_queries(system)
    item_2Q = torch.randint(40, (2, 128), generator=torch.Generator().manual_seed(0))
    assert torch.equal(system.retriever.offered, item_2Q[0])
    wanted = ["red long title 33" if n == 33 else f"title {n} of some" for n in item_2Q[1].tolist()]
    assert system.retriever.texts == wanted and 33 in item_2Q[1]
    assert query_QD[:, 1].tolist() == [2.0 * n for n in item_2Q[0].tolist()]
    asks = a_system(SimpleNamespace(offer=lambda talk, gallery: Message()))
    sample_queries(asks)
    assert asks.retriever.offered is None and asks.retriever.texts[0] == f"P{int(item_2Q[1, 0])}"


def test_the_search_is_an_index_in_the_folder_or_a_collection(tmp_path, monkeypatch):
    made = []
    monkeypatch.setattr(
        galleries, "approximate", lambda *given, folder: made.append((*given, folder)) or ("G", {"index": 1})
    )
    monkeypatch.setattr(galleries, "in_milvus", lambda *given: made.append(given) or ("M", {"milvus": 1}))
    system = a_system(BestItem())
    query_QD = sample_queries(system)
    found = with_search(system, tmp_path, "name", "HNSW32", None)
    assert (found.gallery, found.index) == ("G", {"index": 1}) and found.asker is system.asker
    assert made[0][0] is system.gallery and made[0][1] == "HNSW32" and made[0][3] == tmp_path
    assert torch.equal(made[0][2], query_QD)
    found = with_search(system, tmp_path, "name", None, "milvus://host")
    assert (found.gallery, found.index) == ("M", {"milvus": 1})
    assert made[1][1:3] == ("milvus://host", "name") and torch.equal(made[1][3], query_QD)


def test_a_run_that_has_diverged_is_told(tmp_path, monkeypatch):
    def diverged(*given, folder):
        raise NotFiniteError("a query")

    monkeypatch.setattr(galleries, "approximate", diverged)
    with pytest.raises(UserError, match=r"are not finite .* a lower --learning-rate"):
        with_search(a_system(BestItem()), tmp_path, "name", "Flat", None)


def test_an_index_of_a_run_is_stored_and_searched(shop, tmp_path):
    run = shutil.copytree(shop.run("retriever"), tmp_path / "run")
    system = load(run, split="train", index="Flat", device="cpu")
    assert system.index["index"] == "Flat" and system.index["queries"] == 128
    assert (run / "gallery" / "train" / "vectors.npy").is_file()
    assert len(system.gallery) == 18 and system.gallery.index is not None


def test_a_run_or_an_encoder_is_loaded():
    for given in ({}, {"run": "run", "encoder": "clip"}):
        with pytest.raises(UserError, match="expected a run or an encoder"):
            load(**given)


# without training


class Letters(Encoder):
    """Encodes texts, and pictures if it `sees`, as two numbers: the letters a and b, or red and blue."""

    size = 2

    def __init__(self, sees=True):
        self.identity = Identity(encoder="letters", weights="w", image_size=None, dimensions=2)
        self.sees = sees

    def texts(self, texts):
        return torch.tensor([[float(text.count("a")), float(text.count("b"))] for text in texts]).view(-1, 2)

    def images(self, pictures):
        if not self.sees:
            return super().images(pictures)
        return torch.tensor([[1.0 + n, 1.0] for n, _ in enumerate(pictures)]).view(-1, 2)


def retriever_of(encoder=None, products=(0.0, 0.0), texts=(0.0, 0.0)):
    means = Means(2)
    means.products_D.copy_(torch.tensor(products))
    means.texts_D.copy_(torch.tensor(texts))
    return ZeroShotRetriever(encoder or Letters(), means, CPU)


def turn(text, item=None):
    return Turn(Message(), Message(texts=None if text is None else [text]), item)


def about(*features, mean=None):
    return SimpleNamespace(features_BD=torch.tensor([features]), embedded_BD=mean)


def test_products_and_texts_are_taken_from_their_means():
    retriever = retriever_of(products=(0.6, 0.0), texts=(0.0, 1.0))
    assert torch.allclose(retriever.embed_images(torch.tensor([[3.0, 4.0]])), torch.tensor([[0.0, 1.0]]))
    # "ab" is (1, 1), less (0, 1)
    assert torch.allclose(retriever.words(["ab", "", "c"]), torch.tensor([[1.0, 0], [0, 0], [0, 0]]))


def test_a_query_adds_half_of_the_product_talked_about_and_half_of_the_turn_before():
    retriever = retriever_of()
    unit = normalize
    query_BD, state = retriever.step(retriever.start(1), turn("a", about(0.0, 2.0)))
    first = unit(torch.tensor([[1.0, 0.5]]))
    assert torch.allclose(query_BD, first) and torch.allclose(state, first)
    query_BD, state = retriever.step(state, turn("b", about(1.0, 0.0, mean=torch.zeros(1, 2))))
    second = torch.tensor([[0.0, 1.0]]) + 0.5 * first
    assert torch.allclose(query_BD, unit(second)) and torch.allclose(state, second)
    query_BD, _ = retriever.step(state, turn(None))
    assert torch.allclose(query_BD, unit(second))  # nothing said


def test_a_text_that_asks_for_nothing_has_no_direction():
    retriever = retriever_of(texts=(0.5, 0.0))
    retriever.wanted = lambda text: text.replace("not b", "").strip()
    assert torch.allclose(retriever.words(["not b", "aa not b"]), torch.tensor([[0.0, 0.0], [1.0, 0.0]]))


@pytest.fixture
def letters(monkeypatch):
    monkeypatch.setattr(
        encoders, "load", lambda name, device=None, catalog=None: Letters("blind" not in name)
    )


@pytest.fixture
def own(shop, tmp_path):
    """A copy of the shop, to be written to."""
    return shutil.copytree(shop.data, tmp_path / "data", ignore=shutil.ignore_patterns("features"))


@pytest.fixture
def seen(own, tmp_path):
    """A feature store of the pictures of the shop."""
    pictures = Letters()

    def extract(lists, advance):
        for ids in lists:
            yield StorePart(list(ids), pictures.images(ids).numpy(), np.zeros((len(ids), 1), np.int64), {})

    facts = Contents(**msgspec.to_builtins(pictures.identity), attribute_words=[])
    ids = Catalog(own, "dresses").all_ids()
    return fill_store(tmp_path / "seen", ids, facts, extract, lambda count, of: None)[0]


@pytest.mark.parametrize("name", ["some/blind", "blind"])
def test_a_run_without_training_is_written_once_for_an_encoder_and_a_category(own, letters, name):
    run = zero_shot.prepare_zero_shot(name, own, None, device="cpu")
    assert run == own / "zero-shot" / f"dress-{name.rpartition('/')[2]}"
    about = json.loads((run / "model.json").read_text())
    assert (about["kind"], about["category"], about["encoder"]) == ("zero-shot search", "dresses", name)
    assert about["data"]["folder"] == str(own.resolve())
    before = (run / "model.json").stat().st_mtime_ns
    assert zero_shot.prepare_zero_shot(name, own, "dresses") == run
    assert (run / "model.json").stat().st_mtime_ns == before
    system = zero_shot.load(run, Selection(None, "val", "cpu", None, None, None))
    assert len(system.gallery) == 6 and isinstance(system.asker, BestItem) and system.vocabulary is None
    assert system.wording.weights == zero_shot.WEIGHTS
    assert system.retriever.wanted("a red dress, not floral") == "red dress"
    assert len(system.dialog().say("a dress").products(2)) == 2


def test_features_that_were_removed_are_extracted_again(own, letters):
    run = zero_shot.prepare_zero_shot("blind", own, "dresses", device="cpu")
    features = Path(recorded_settings(run)["features"])
    shutil.rmtree(features)
    assert zero_shot.prepare_zero_shot("blind", own, "dresses", device="cpu") == run
    assert len(FeatureStore(features).ids) == len(Catalog(own, "dresses").all_ids())


def test_a_search_without_training_has_its_own_features_also_of_another_folder(own, letters):
    run = zero_shot.prepare_zero_shot("blind", own, "dresses", device="cpu")
    check_inputs(Search(run=run, text="a dress", data=own, verify=True))
    assert data_of(run, own, None, None)[1].root == Path(recorded_settings(run)["features"])


def test_the_means_are_those_of_products_and_of_labels(own, letters, shop, seen):
    run = zero_shot.prepare_zero_shot("letters", own, "dresses", seen.root, device="cpu")
    means = load_file(run / "weights.safetensors")
    words = {word: None for lists in shop.catalog.labels.values() for some in lists for word in some}
    assert torch.allclose(means["texts_D"], Letters().texts(list(words)).mean(0))
    features_ND = seen.items(seen.ids).features_ND[:].float()
    assert torch.allclose(means["products_D"], normalize(features_ND, dim=1).mean(0), atol=1e-5)
    assert recorded_settings(run)["features"] == str(seen.root.resolve())
    blind = load_file(
        zero_shot.prepare_zero_shot("blind", own, "dresses", device="cpu") / "weights.safetensors"
    )
    assert torch.equal(blind["texts_D"], blind["products_D"]) and blind["products_D"].abs().sum() > 0


def letters_of(a, b):
    return "a" * a + "b" * b


def shop_with_captions(folder, count, of_target):
    """A catalog of titles such as "aab", whose captions name the target, or one that is like what is shown."""
    draw = random.Random(0)
    kinds = [(a, b) for a in range(1, 9) for b in range(1, 9)]
    titles = {f"p{number}": {"title": letters_of(*kind)} for number, kind in enumerate(kinds)}
    pairs = []
    for _ in range(count):
        shown, target, other = draw.sample(range(len(kinds)), 3)
        if not of_target:  # the neighbor by angle
            angle = [np.arctan2(*kind) for kind in kinds]
            target = min(set(range(len(kinds))) - {shown}, key=lambda one: abs(angle[one] - angle[shown]))
        a, b = kinds[target if of_target else other]
        pairs.append(
            {"candidate": f"p{shown}", "target": f"p{target}", "captions": [letters_of(10 * a, 10 * b)]}
        )
    contents = {"titles/dress.train.json": titles, "captions/cap.dress.train.json": pairs}
    for split, ids in (("train", [*titles]), ("val", ["v"]), ("test", ["t"])):
        contents[f"image_splits/split.dress.{split}.json"] = ids
        contents[f"attributes/asin2attr.dress.{split}.json"] = {}
    for name, content in contents.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(json.dumps(content), encoding="utf-8")
    return folder


@pytest.mark.parametrize(("of_target", "shown"), [(True, 0.0), (False, 2.0)])
def test_captions_of_people_decide_how_much_the_product_shown_counts(letters, tmp_path, of_target, shown):
    data = shop_with_captions(tmp_path / "data", 100, of_target)
    run = zero_shot.prepare_zero_shot("blind", data, "dresses", device="cpu")
    figures = json.loads((run / "wording.json").read_text())["figures"]
    assert figures["captions"] == 100 and figures["near"] >= figures["without"]
    system = zero_shot.load(run, Selection(None, "train", "cpu", None, None, None))
    assert system.retriever.shown == read_run(run, ZeroShotRun).shown == shown
    product = about(3.0, 4.0)
    query_BD, _ = system.retriever.step(system.retriever.start(1), turn("b", product))
    expected = system.retriever.words(["b"]) + shown * system.retriever.embed_images(product.features_BD)
    assert torch.allclose(query_BD, normalize(expected))


def test_captions_of_products_without_features_or_target_do_not_count(letters, tmp_path, monkeypatch):
    data = shop_with_captions(tmp_path / "data", 99, True)
    split, path = data / "image_splits/split.dress.train.json", data / "captions/cap.dress.train.json"
    split.write_text(json.dumps([*json.loads(split.read_text()), "gone"]))  # has no title
    pairs = json.loads(path.read_text())
    odd = [{"candidate": "gone", "target": "p0"}, {"candidate": "p0", "target": "gone"}, {"candidate": "p0"}]
    path.write_text(json.dumps([*pairs, *(pair | {"captions": ["ab"]} for pair in odd)]))
    monkeypatch.setattr(zero_shot, "FEWEST", 99)
    run = zero_shot.prepare_zero_shot("blind", data, "dresses", device="cpu")
    assert json.loads((run / "wording.json").read_text())["figures"]["captions"] == 99


def test_a_category_without_captions_has_the_default_weights(letters, tmp_path):
    data = shop_with_captions(tmp_path / "data", 100, True)
    (data / "captions/cap.dress.train.json").unlink()
    run = zero_shot.prepare_zero_shot("blind", data, "dresses", device="cpu")
    assert read_run(run, ZeroShotRun).shown == SHOWN
    assert json.loads((run / "wording.json").read_text())["figures"] == {}


def test_few_captions_of_people_decide_nothing(letters, tmp_path):
    run = zero_shot.prepare_zero_shot(
        "blind", shop_with_captions(tmp_path / "data", 99, True), "dresses", device="cpu"
    )
    assert read_run(run, ZeroShotRun).shown == SHOWN
    written = json.loads((run / "wording.json").read_text())
    assert written["weights"]["lexical"] == zero_shot.WEIGHTS.lexical and written["figures"] == {}


@pytest.mark.parametrize("system", [fashion_iq, chatir, zero_shot], ids=lambda system: system.__name__)
def test_features_are_read_at_once_unless_vectors_are_stored(own, letters, seen, shop, tmp_path, system):
    if system is zero_shot:
        run = zero_shot.prepare_zero_shot("letters", own, "dresses", seen.root, device="cpu")
    else:
        run = shop.run("encoder" if system is chatir else "retriever")
    for stored in (None, tmp_path / "stored"):
        items = system.load(run, Selection(None, "val", "cpu", None, None, stored)).gallery.items
        assert isinstance(items.features_ND, Rows if stored else torch.Tensor) and len(items.ids) == 6


def test_search_without_training_needs_a_catalog_and_one_category(own, letters, tmp_path):
    with pytest.raises(UserError, match="give the folder of a catalog with --data"):
        zero_shot.prepare_zero_shot("letters", None, None)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"expected one category in .*, found none; give --category"):
        zero_shot.prepare_zero_shot("letters", tmp_path / "empty", None)


def test_features_of_another_encoder_are_refused(own, shop, letters):
    with pytest.raises(UserError, match="vectors of a different encoder"):
        zero_shot.prepare_zero_shot("letters", own, "dresses", shop.store)
