"""Evaluations with descriptions and generated pictures: which parts their options choose, and what they report."""

import numpy as np
import pytest
import torch
from PIL import Image

from fashioniq.askers.best_item import BestItem
from fashioniq.askers.generated_picture import GeneratedPicture
from fashioniq.askers.recorded import RecordedOffers
from fashioniq.config import EvalDAR, EvalGenIR, EvalPlugIR
from fashioniq.data.dialogues import Round, read_dialogues
from fashioniq.data.topics import Topic
from fashioniq.files import UserError
from fashioniq.generators import described_products
from fashioniq.generators.cache import Cached
from fashioniq.generators.drawn import Drawn
from fashioniq.generators.folder import Folder, seed_of
from fashioniq.generators.illustrated import Illustrated
from fashioniq.generators.photographs import Photographs
from fashioniq.llm import rewriting as llm_rewriting
from fashioniq.loop.messages import Message
from fashioniq.loop.rollout import rollout
from fashioniq.models.text import TextRetriever
from fashioniq.runs.search_space import search_space
from fashioniq.systems import dar, genir, plugir_asks
from fashioniq.users.correcting import Correcting
from fashioniq.users.describing_pictures import DescribingPictures
from fashioniq.users.person import DescribingPerson
from tests.unit.shop import parted_by_bert, stated

CPU = torch.device("cpu")


@pytest.fixture
def options_of(shop, tmp_path):
    """Function that makes the options of a system on the shop."""

    def options_of(kind, **options):
        own = {"data": shop.data, "category": "dresses", "device": "cpu", "encoder": str(shop.run("encoder"))}
        if kind is not EvalPlugIR:
            own |= {"cache": tmp_path / "cache", "predictor": shop.run("predictor")}
        if kind is EvalDAR:
            own |= {
                "dialogues": [str(shop.dialogues())],
                "search_space": shop.data / "image_splits" / "split.dress.test.json",
                "features": shop.store,
            }
        return kind(**own | options)

    return options_of


def dialogs(task, rows=None):
    """The dialogs of a task with these numbers, by default all."""
    system, user, target_B, first = task.batch(range(task.count) if rows is None else rows)
    return rollout(system, user, target_B, first, task.turns)


def said_in(done):
    return [list(turn.reply.texts) for turn in done.state.turns]


# GenIR


@pytest.mark.parametrize("feedback", ["verbal", "prediction"])
def test_without_pictures_the_query_is_the_last_description(shop, options_of, feedback):
    [task] = genir.build(options_of(EvalGenIR, feedback=feedback, rounds=2))
    done = dialogs(task)
    encoder = search_space(str(shop.run("encoder")), ["D000000004"], CPU, store=shop.store).encoder
    for texts, query_BD in zip(said_in(done), done.query_BTD.unbind(1), strict=True):
        assert torch.allclose(query_BD, encoder.texts(texts), atol=1e-5)
    assert task.name == f"genir-{feedback}" and task.turns == 3 and done.ranks.shape == (6, 3)
    assert task.protocol == "ChatIR" and task.costs() == []
    assert task.data == {"dresses": shop.catalog.fingerprint()}


def test_the_facts_of_genir_are_those_of_its_options(shop, options_of):
    [task] = genir.build(options_of(EvalGenIR, feedback="verbal", details=3, seed=4, targets=2))
    assert stated(task) == {
        "data": str(shop.data),
        "split": "test",
        "category": "dresses",
        "coverage": 1.0,
        "encoder": str(shop.run("encoder")),
        "model": "dialog encoder",
        "limit": 128,
        "store": str(shop.store),
        "seed": 4,
        "user": "labels",
        "feedback": "verbal",
        "details": 3,
        "query": "the last round alone",
    }
    drawn = torch.randperm(6, generator=torch.Generator().manual_seed(4))[:2].sort().values
    assert task.count == 2 and task.batch([1, 0]).target_B.tolist() == drawn.flip(0).tolist()


@pytest.mark.parametrize("targets", [None, 6, 7])
def test_all_products_are_targets_unless_there_are_more_than_asked_for(options_of, targets):
    [task] = genir.build(options_of(EvalGenIR, feedback="verbal", targets=targets))
    assert task.batch(range(6)).target_B.tolist() == list(range(6))


@pytest.mark.parametrize(
    ("feedback", "asker"),
    [("visual", GeneratedPicture), ("verbal", RecordedOffers), ("prediction", BestItem)],
)
def test_the_feedback_decides_what_is_offered_and_what_the_user_sees(options_of, feedback, asker):
    options = options_of(EvalGenIR, feedback=feedback, generator="drawn:1", details=1)
    [task] = genir.build(options)
    system, user, _, first = task.batch([0])
    assert type(system.asker) is asker and first == Message()
    assert isinstance(user, Correcting) and (user._sight is None) == (feedback == "verbal")
    assert user._details == 1 and task.batch([0]).user is not user


def test_pictures_are_of_the_last_description_and_are_all_that_is_searched(shop, options_of):
    [task] = genir.build(options_of(EvalGenIR, generator="drawn:1", rounds=1, targets=3))
    done = dialogs(task)
    retriever = task.batch([0]).system.retriever
    assert isinstance(retriever, Illustrated) and isinstance(retriever.text, TextRetriever)
    assert retriever.weights == [0.0] and retriever.fusion == "mean" and retriever.count == 1
    assert [prompt for [prompt] in retriever.write([["a dress", "a red dress"]])] == ["a red dress"]
    state = done.state.state
    assert torch.allclose(done.query_BTD[:, 1], state.vectors_BKD[:, 0])
    costs = task.costs()
    assert len(costs) == 2 and costs[0]["pictures"] == 1.0 and costs[0]["failed"] == 0
    assert stated(task)["pictures_per_round"] == 1 and stated(task)["fusion"] == "mean"
    assert stated(task)["generator"]["backend"] == "drawn"
    assert stated(task)["weights_of_text"] == {"name": "pictures", "rounds": [0.0]}


def test_pictures_are_embedded_like_the_products(shop, options_of):
    [task] = genir.build(options_of(EvalGenIR, generator="drawn:1"))
    encode = task.batch([0]).system.retriever.encode
    space = search_space(str(shop.run("encoder")), ["D000000004"], CPU, store=shop.store)
    features_of = described_products.features_of_pictures(shop.run("predictor"), shop.features, "cpu")
    pictures = [Image.new("RGB", (40, 32), color) for color in ("red", "blue")]
    with torch.no_grad():
        wanted_BD = space.encoder.embed_images(features_of(pictures))
    found_BD = encode(pictures)
    assert torch.allclose(found_BD, wanted_BD / wanted_BD.norm(dim=1, keepdim=True), atol=1e-5)
    assert not found_BD.requires_grad and not torch.equal(found_BD[0], found_BD[1])


@pytest.mark.parametrize(
    ("user", "kind", "feedback"),
    [
        ("person", DescribingPerson, "verbal"),
        ("page", DescribingPerson, "visual"),
        ("endpoint:model", DescribingPictures, "verbal"),
        ("endpoint:model", DescribingPictures, "prediction"),
        ("endpoint:model", DescribingPictures, "visual"),
    ],
)
def test_other_users_see_what_the_feedback_shows(shop, options_of, monkeypatch, user, kind, feedback):
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9")
    [task] = genir.build(options_of(EvalGenIR, user=user, feedback=feedback, generator="drawn:1"))
    made = task.batch([0]).user
    assert type(made) is kind
    if kind is DescribingPictures:
        assert (made._sight is None) == (feedback == "verbal")
        assert made._shown_as == ("found with" if feedback == "prediction" else "drawn from")
        picture = Image.new("RGB", (4, 4))
        if feedback == "visual":
            assert made._sight(Message(pictures=[picture])) == [picture]
        if feedback == "prediction":
            [found] = made._sight(Message(item_B=torch.tensor([2])))
            assert found.size == (8, 8)


@pytest.mark.parametrize("feedback", ["visual", "prediction", "verbal"])
def test_a_person_is_shown_the_target_and_the_offer(shop, options_of, monkeypatch, capsys, feedback):
    [task] = genir.build(options_of(EvalGenIR, user="person", feedback=feedback, generator="drawn:1"))
    system, user, target_B, _ = task.batch([1])
    ids, images = system.gallery.items.ids, shop.catalog.images
    monkeypatch.setattr("builtins.input", lambda question: "a dress")
    user.reply(target_B, Message(), 0)
    assert f"wanted: {images[ids[1]]}\n" in capsys.readouterr().out
    picture = Image.new("RGB", (4, 4))
    picture.info["file"] = "some.png"
    user.reply(target_B, Message(item_B=torch.tensor([2]), pictures=[picture]), 1)
    shown = {"visual": "shown: some.png\n", "prediction": f"shown: {images[ids[2]]}\n", "verbal": ""}
    assert capsys.readouterr().out == f"\nwanted: {images[ids[1]]}\n{shown[feedback]}"


def test_a_user_with_a_local_model_loads_it_for_the_device(options_of, monkeypatch):
    made = []
    monkeypatch.setattr(genir, "VisionLanguageModel", lambda *arguments: made.append(arguments))
    genir.build(options_of(EvalGenIR, user="local:some/model", feedback="verbal"))[0].batch([0])
    assert made == [("some/model", CPU, (0.0, 1.0, 1.0), 0)]
    own = options_of(EvalGenIR, user="local:some/model", feedback="verbal", sampling="paper", seed=3)
    genir.build(own)[0].batch([0])
    assert made[1] == ("some/model", CPU, (0.7, 0.9, 1.1), 3)  # as the paper's appendix says


def test_a_loaded_system_searches_with_the_picture_of_the_last_reply(shop):
    from fashioniq.systems import load

    system = load(
        shop.run("encoder"), generator="drawn:1", predictor=shop.run("predictor"), split="val", device="cpu"
    )
    assert isinstance(system.asker, GeneratedPicture) and system.vocabulary is None
    retriever = system.retriever
    assert retriever.weights == [0.0] and retriever.write([["a", "b"]]) == [("b",)]
    assert system.gallery.items.ids == shop.catalog.ids("val")
    dialog = system.dialog().say("a red dress")
    assert isinstance(retriever.generator, Drawn) and len(dialog.products(3)) == 3


# what the predictor sees in an offer

COLORS = Topic("what color is it?", ("red", "blue", "pale"), False)
BELT = Topic("does it have a belt?", ("belt", "sash"), True)


class Seeing:
    """Stands for the encoder of pictures: chances are the features themselves."""

    words = ("blue", "belt", "red", "sash")

    def chances(self, features_BD):
        return np.asarray(features_BD)

    def __call__(self, pictures):
        return torch.tensor([picture.info["chances"] for picture in pictures])


def a_world(monkeypatch, topics):
    world = described_products.World(
        EvalGenIR(category="dresses", encoder="e", device="cpu"), None, None, None
    )
    world.__dict__.update(describer=type("Described", (), {"topics": topics})(), features_of=Seeing())
    return world


@pytest.mark.parametrize(
    ("chances", "seen"),
    [  # of blue, belt, red, sash
        ([0.3, 0.0, 0.4, 0.0], ()),  # no color is more probable: 0.42
        ([0.3, 0.0, 0.45, 0.0], ("red",)),  # 0.385
        ([0.5, 0.0, 0.2, 0.0], ("blue",)),
        ([0.0, 0.45, 0.0, 0.4], ()),  # a detail must be more probable than not
        ([0.0, 0.5, 0.9, 0.4], ("red", "belt")),
        ([0.0, 0.1, 0.1, 0.7], ("sash",)),
    ],
)
def test_the_predictor_sees_the_most_probable_answer(monkeypatch, chances, seen):
    world = a_world(monkeypatch, (COLORS, BELT, Topic("what length is it?", ("maxi",), False)))
    picture = Image.new("RGB", (2, 2))
    picture.info["chances"] = chances
    assert world.seen(Message(pictures=[None, picture, None])) == [None, seen, None]
    assert world.seen(Message(pictures=[None])) == [None]


def test_the_predictor_sees_the_stored_features_of_a_product(shop, options_of):
    world = described_products.World.of(options_of(EvalGenIR))
    [seen] = world.seen(Message(item_B=torch.tensor([2])))
    features_BD = shop.features.items([world.gallery.items.ids[2]]).features_ND[:]
    assert [seen] == world._words(features_BD) and seen


# generators


@pytest.mark.parametrize(
    ("name", "kind"),
    [("drawn:0.5", Drawn), ("drawn:0", Drawn), ("drawn:1", Drawn), ("photographs:val", Photographs)],
)
def test_generators_by_name(shop, options_of, name, kind):
    options = options_of(EvalGenIR, generator=name)
    made = described_products.generator_of(options, shop.data, "dresses", "cpu")
    assert type(made) is kind
    if kind is Drawn:
        assert made.quality == float(name.partition(":")[2]) and made.category == "dresses"
    else:
        assert set(made._images) == set(shop.catalog.ids("val"))
        assert made.identity["revision"] == f"{shop.catalog.fingerprint()} val"
    kept = described_products.generator_of(options, shop.data, "dresses", "cpu", keep=True)
    assert isinstance(kept, Cached)


def test_what_is_slow_to_make_is_cached(options_of, monkeypatch):
    slow = type("Slow", (), {"identity": {"backend": "slow"}})()
    monkeypatch.setattr(described_products, "generator_by_name", lambda name, *_: slow)
    assert isinstance(
        described_products.generator_of(options_of(EvalGenIR, generator="some"), None, None, "cpu"), Cached
    )


@pytest.mark.parametrize(
    ("name", "category", "found"),
    [
        (None, "dresses", "give --generator"),
        ("drawn:1.1", "dresses", "share from 0 to 1"),
        ("drawn:-0.1", "dresses", "share from 0 to 1"),
        ("drawn:much", "dresses", "share from 0 to 1"),
        ("drawn:1", "shoes", "needs a --category of the drawn sample: dresses"),
        ("photographs:val", None, "expected --category and photographs:"),
        ("photographs:all", "dresses", "with train, val, test"),
    ],
)
def test_generators_that_cannot_be(shop, options_of, name, category, found):
    with pytest.raises(UserError, match=found):
        described_products.generator_of(options_of(EvalGenIR, generator=name), shop.data, category, "cpu")


def test_pictures_need_an_encoder_and_the_run_that_embeds_them(shop):
    with pytest.raises(UserError, match="need --encoder"):
        described_products.picture_encoder(None, lambda: None)
    with pytest.raises(UserError, match="with --predictor"):
        described_products.features_of_pictures(None, shop.features, "cpu")


def test_a_pretrained_encoder_encodes_pictures_by_itself():
    class Encoder:
        def images(self, pictures):
            return [picture.mode for picture in pictures]

    encode = described_products.picture_encoder(Encoder(), lambda: pytest.fail("needs no features"))
    assert encode([Image.new("L", (2, 2))]) == ["RGB"]


# DAR


def test_dar_fuses_the_text_of_all_rounds_with_pictures_of_the_prompts(shop, options_of):
    options = options_of(EvalDAR, generator="drawn:1", rewrite="join", pictures=2, seed=3, query="rounds")
    [task] = dar.build(options)
    system, _, target_B, _ = task.batch([2, 0])
    retriever = system.retriever
    assert retriever.weights == [0.7, 0.7, 0.5] and retriever.fusion == "sum" and retriever.count == 2
    assert retriever.seed == 3 and retriever.seed_of is None
    assert retriever.write([["a", "b"]]) == [("a, b",)]
    read = read_dialogues(shop.dialogues())
    assert [system.gallery.items.ids[item] for item in target_B] == [read[2].image, read[0].image]
    assert stated(task)["rewrite"] == "join" and stated(task)["seed"] == 3
    assert stated(task)["pictures_per_round"] == 2
    assert stated(task)["weights_of_text"]["name"] == "paper"
    done = rollout(*task.batch([2, 0]), turns=1)
    assert [row["pictures"] for row in task.costs()] == [2.0] and done.ranks.shape == (2, 1)


@pytest.mark.parametrize(("query", "name"), [("rounds", "join"), ("last", "last")])
def test_the_prompts_of_dar_are_by_default_the_last_round_only_where_rounds_are_whole_queries(
    options_of, query, name
):
    [task] = dar.build(options_of(EvalDAR, generator="drawn:1", query=query))
    assert stated(task)["rewrite"] == name
    assert task.batch([0]).system.retriever.write([["a", "b"]]) == [("a, b",) if name == "join" else ("b",)]


def test_without_a_language_model_the_text_of_dar_is_that_of_all_rounds_whatever_the_prompts(
    shop, options_of
):
    [task] = dar.build(options_of(EvalDAR, generator="drawn:1", rewrite="last", query="rounds"))
    retriever = task.batch([0]).system.retriever
    assert retriever.write([["a", "b"]]) == [("b",)] and retriever.text.write([["a", "b"]]) == ["a, b"]
    assert stated(task)["query"] == "rounds joined by ', '"


class Rewriter:
    """In a language model's place: R1 gives the number of rounds, R2 two prompts of that text."""

    def __init__(self, *made_of):
        pass

    def complete(self, prompts, tokens):
        return [
            f"{1 + prompt.count(chr(10) + '- ')} rounds"
            if "First description" in prompt
            else "\n".join(
                f"{word} {prompt.split('like this: ')[1].splitlines()[0]}" for word in ("red", "blue")
            )
            for prompt in prompts
        ]


def test_a_language_model_rewrites_the_query_of_dar_and_then_the_prompts(shop, options_of, monkeypatch):
    """R1 is the text of the query, R2 makes K prompts of it (section 3.2, equations 1 and 2)."""
    monkeypatch.setattr(llm_rewriting, "LocalLanguageModel", Rewriter)
    made_of = {"rewrite": "local:some", "pictures": 2, "query": "rounds"}
    [task] = dar.build(options_of(EvalDAR, generator="drawn:1", **made_of))
    retriever = task.batch([0]).system.retriever
    assert retriever.write([["a", "b"], ["a"]]) == [
        ("red 2 rounds", "blue 2 rounds"),
        ("red 1 rounds", "blue 1 rounds"),
    ]
    encoder = search_space(str(shop.run("encoder")), ["D000000004"], CPU, store=shop.store).encoder
    [alone] = dar.build(options_of(EvalDAR, fusion_weights="text", **made_of))
    done = rollout(*alone.batch([0, 1]), turns=2)  # without a generator: the rewriting of PlugIR
    expected_TD = encoder.texts(["1 rounds", "2 rounds"])
    assert all(torch.allclose(query_TD, expected_TD, atol=1e-5) for query_TD in done.query_BTD)
    assert stated(alone)["query"] == "the dialog rewritten (local:some)" and alone.costs() == []
    with pytest.raises(UserError, match="give --generator"):
        dar.build(options_of(EvalDAR, **made_of))


def test_pictures_of_a_folder_are_found_by_the_number_of_the_dialog(shop, options_of, tmp_path):
    for dialog in range(6):
        for round in range(2):
            Image.new("RGB", (8, 8), (40 * dialog + 20, 90, 100 * round + 50)).save(
                tmp_path / f"{dialog}_{round}.png"
            )
    [task] = dar.build(options_of(EvalDAR, generator=f"folder:{tmp_path}", query="rounds"))
    retriever = task.batch([4, 1]).system.retriever
    assert isinstance(retriever.generator, Folder)
    assert retriever.seed_of(0, 1, 0) == seed_of(4, 1, 0) and retriever.seed_of(1, 0, 2) == seed_of(1, 0, 2)
    system, user, target_B, first = task.batch([4, 1])
    state = rollout(system, user, target_B, first, 2).state.state
    assert [picture.getpixel((0, 0)) for picture in state.pictures] == [(180, 90, 150), (60, 90, 150)]


def test_dar_refuses_pictures_of_one_file_for_several_and_words_of_no_catalog(shop, options_of):
    two = [str(shop.dialogues()), str(shop.dialogues("val"))]
    with pytest.raises(UserError, match="belong to one dialog file"):
        dar.build(options_of(EvalDAR, dialogues=two, generator="folder:x"))
    with pytest.raises(UserError, match="words of a catalog; give --category"):
        dar.build(options_of(EvalDAR, rewrite="attributes", category=None, generator="drawn:1"))


# PlugIR


@pytest.mark.parametrize("without", [[], ["rewrite"], ["context"], ["filter"]])
def test_plugir_leaves_out_the_parts_that_are_named(shop, options_of, without):
    [task] = plugir_asks.build(options_of(EvalPlugIR, without=without, rewrite="last", rounds=2))
    asker = task.batch([0]).system.asker
    parts = asker.propose.context, asker.propose.filtered
    assert parts == ("context" not in without, "filter" not in without) and asker.nearest == 100
    assert asker.text([["a", "b"]]) == (["a, b"] if without == ["rewrite"] else ["b"])
    query = "all rounds" if without == ["rewrite"] else "the dialog rewritten (last)"
    assert stated(task)["query"] == query and stated(task)["without"] == without
    assert (task.name, task.protocol, task.turns, task.count) == ("plugir", "ChatIR", 3, 6)
    assert task.data == {"dresses": shop.catalog.fingerprint()}


def test_plugir_without_rewriting_has_the_separators_of_the_run(shop, options_of, tmp_path):
    run = parted_by_bert(shop, tmp_path / "run")
    [task] = plugir_asks.build(options_of(EvalPlugIR, encoder=str(run), without=["rewrite"], rounds=2))
    system, dialog = task.batch([0]).system, [Round("a dress"), Round.of("is it red?", "no")]
    for text in (system.asker.text, system.retriever.write):
        assert text([dialog]) == ["a dress [SEP] is it red? [SEP] no"]


def test_plugir_asks_and_is_answered_by_the_labels_of_the_target(shop, options_of):
    [task] = plugir_asks.build(options_of(EvalPlugIR, rounds=1, targets=2, seed=1, details=1))
    done = dialogs(task)
    ids, labels = task.batch([0]).system.gallery.items.ids, shop.catalog.labels
    topics = {topic.question: topic for topic in described_products.describer_of(shop.catalog).topics}
    first, second = done.state.turns
    assert first.offer == Message()
    targets = [ids[item] for item in done.target_B]
    for question, answer, target in zip(second.offer.questions, second.reply.texts, targets, strict=True):
        assert answer == topics[question].answer(labels[target])
    described = Correcting(
        described_products.describer_of(shop.catalog), [labels[name] for name in ids], None, 1, 1
    ).reply(done.target_B, Message(), 0)
    assert list(first.reply.texts) == list(described.texts)


def test_plugir_knows_what_was_said(shop, options_of):
    [task] = plugir_asks.build(options_of(EvalPlugIR, rounds=1))
    answered = task.batch([0]).system.asker.propose.answered
    assert answered("what color is it?", "a red dress") and not answered("what length is it?", "a red dress")


def test_a_language_model_asks_in_plugir_and_labels_answer(shop, options_of, monkeypatch):
    class Asker:
        def __init__(self, *made_of):
            self.prompts = []

        def complete(self, prompts, tokens):
            self.prompts += prompts
            return ["uncertain" if "uncertain" in prompt else "What color is it?" for prompt in prompts]

    monkeypatch.setattr(llm_rewriting, "LocalLanguageModel", Asker)
    [task] = plugir_asks.build(
        options_of(EvalPlugIR, rounds=1, language_model="some", candidates=3, targets=2)
    )
    done = dialogs(task)
    second = done.state.turns[1]
    assert list(second.offer.questions) == ["What color is it?"] * 2 and all(second.reply.texts)
    system = task.batch([0]).system
    title = shop.catalog.titles[system.gallery.items.ids[0]]
    assert system.asker.nearest == 3 and title in system.asker.propose.captions[0]


def test_plugir_needs_a_question_for_each_round(options_of):
    assert plugir_asks.build(options_of(EvalPlugIR, rounds=16))
    with pytest.raises(UserError, match="give 16 questions; give --rounds 16 or fewer"):
        plugir_asks.build(options_of(EvalPlugIR, rounds=17))
