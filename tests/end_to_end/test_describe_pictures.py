"""describe-pictures with a tiny random BLIP on disk, and with a server of this process."""

import json
import shutil

import pytest
from PIL import Image

from fashioniq.cli import main
from fashioniq.cli.commands import describe_pictures
from fashioniq.data.catalog import Catalog, text_of
from fashioniq.files import UserError
from fashioniq.llm import endpoint as endpoints

transformers = pytest.importorskip("transformers", reason="the extra chat is not installed")
pytest.importorskip("openai", reason="the extra chat is not installed")


@pytest.fixture
def shop(tmp_path):
    """Five products: two with the same picture, one whose picture cannot be read, one without."""
    data = tmp_path / "shop"
    for split, ids in {"train": ["a", "b", "c"], "val": ["d"], "test": ["e"]}.items():
        path = data / f"image_splits/split.dress.{split}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(ids))
    (data / "images").mkdir()
    for name, color in {"a": "red", "b": "navy", "d": "red"}.items():
        Image.new("RGB", (40, 60), color).save(data / f"images/{name}.png")
    (data / "images/c.png").write_text("no picture")
    return data


@pytest.fixture
def describe(project, shop, capsys):
    def run(**options):
        given = {"data": shop, "category": "dresses", "workers": 0, "batch_size": 1} | options
        code = main(project.arguments("describe-pictures", **given))
        said = capsys.readouterr()
        return code, " ".join((said.out + said.err).split())

    return run


def descriptions(shop):
    return {
        split: json.loads((shop / f"descriptions/image_captions_dress_{split}.json").read_text())
        for split in ("train", "val", "test")
    }


@pytest.fixture
def server(http_server, monkeypatch, tmp_path):
    """A server whose answers are `server.replies`, by number; it keeps the requests."""

    def reply(handler):
        body = json.loads(handler.rfile.read(int(handler.headers["Content-Length"])))
        started.asked.append(body)
        status, message = started.replies(len(started.asked))
        choice = {"message": {"role": "assistant", **message}}
        usage = {"prompt_tokens": 100, "completion_tokens": 7}
        content = {"choices": [choice], "usage": usage} if status == 200 else {"error": message}
        sent = json.dumps(content).encode()
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(sent)))
        handler.end_headers()
        handler.wfile.write(sent)

    started = http_server(reply)
    started.asked = []
    monkeypatch.setenv(endpoints.BASE, f"{started.address}/v1")
    monkeypatch.chdir(tmp_path)
    return started


def test_a_captioning_model_describes_each_picture_once(describe, shop, caption_model):
    code, said = describe(model=str(caption_model))
    found = descriptions(shop)
    assert code == 0 and found["train"].keys() == {"a", "b"} and found["test"] == {}
    assert found["val"]["d"] == found["train"]["a"] != found["train"]["b"]
    assert "described 3" in said and "unreadable 1" in said and "without a picture 1" in said
    assert "unreadable: c: " in said and "2 pictures were new" in said
    model = transformers.BlipForConditionalGeneration.from_pretrained(caption_model).eval()
    processor = transformers.AutoProcessor.from_pretrained(caption_model)
    pixels = processor(images=Image.open(shop / "images/b.png"), return_tensors="pt")
    ids = model.generate(**pixels, max_new_tokens=60, do_sample=False)
    assert found["train"]["b"] == processor.decode(ids[0], skip_special_tokens=True).strip()[:400].strip()
    assert "words of a captioning model" in said
    page = (shop / "descriptions/described.dress.html").read_text()
    assert found["train"]["a"][:240] in page and page.count("data:image/jpeg") == 3
    catalog = Catalog(shop, "dresses")
    assert found["train"]["a"] in text_of(catalog, "a")
    assert catalog.pictures_behind(of_words=True) == "words of a captioning model"
    assert describe(model=str(caption_model))[1].count("0 pictures were new") == 1
    Image.new("RGB", (40, 60), "green").save(shop / "images/c.png")
    assert "1 pictures were new" in describe(model=str(caption_model))[1]
    assert descriptions(shop)["train"].keys() == {"a", "b", "c"}


def test_a_model_with_another_part_of_its_weights_is_another_model(tmp_path):
    found = set()
    for last in (b"second", b"other"):
        for number, content in enumerate((b"first", last)):
            (tmp_path / f"model-0000{number}.safetensors").write_bytes(content)
        found.add(describe_pictures._identity(str(tmp_path)))
    assert len(found) == 2


def test_an_interrupted_run_continues_where_it_stopped(describe, shop, caption_model, monkeypatch):
    describe(model=str(caption_model))
    whole = descriptions(shop)
    shutil.rmtree(shop / "descriptions")
    real, calls = describe_pictures._described, []

    def stopped(*arguments):
        calls.append(arguments)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(describe_pictures, "_described", stopped)
    assert describe(model=str(caption_model))[0] == 130
    assert not list((shop / "descriptions").glob("image_captions*"))
    with open(shop / "descriptions/described.dress.jsonl", "a") as file:
        file.write('{"picture": "cut of')  # as a crash leaves
    code, said = describe(model=str(caption_model))
    assert code == 0 and "1 pictures were new" in said and descriptions(shop) == whole
    assert len(calls) == 3


def test_a_server_describes_pictures_and_refusals_and_empty_answers_are_counted(describe, shop, server):
    Image.new("RGB", (40, 60), "green").save(shop / "images/c.png")
    Image.new("RGB", (40, 60), "white").save(shop / "images/e.png")
    server.replies = lambda number: {
        1: (200, {"content": "A red dress\nwith <b>sleeves</b>"}),
        2: (200, {"content": None, "refusal": "no"}),
        3: (200, {"content": " "}),
        4: (400, {"code": "content_filter", "message": "blocked"}),
    }[number]
    code, said = describe(model="endpoint:seeing", workers=0)
    assert code == 0 and descriptions(shop) == {
        "train": {"a": "A red dress"},
        "val": {"d": "A red dress"},
        "test": {},
    }
    for count in (
        "described 2",
        "empty answers 1",
        "refused 2",
        "without a picture 0",
        "prompts 300",
        "answers 21",
    ):
        assert count in said
    assert len(server.asked) == 4
    content = server.asked[0]["messages"][0]["content"]
    assert "one sentence" in content[0]["text"] and content[1]["image_url"]["url"].startswith(
        "data:image/jpeg"
    )
    assert describe(model="endpoint:seeing")[0] == 0 and len(server.asked) == 4
    shutil.rmtree(shop / "descriptions")  # the answers of the server are cached, too
    assert "refused 2" in describe(model="endpoint:seeing")[1] and len(server.asked) == 4


def test_values_of_attributes_are_read_from_the_lines_of_an_answer(describe, shop, server):
    lines = "Here you are:\n- Color: red.\n**Sleeve length**: Unknown\nPattern: plain"
    server.replies = lambda number: (200, {"content": lines if number == 1 else "I'm sorry, I can't help"})
    code, said = describe(model="endpoint:seeing", attributes=["color", "sleeve length", "pattern"])
    assert code == 0 and descriptions(shop)["train"] == {"a": "red, plain"} and "refused 1" in said
    assert "color, sleeve length, pattern" in server.asked[0]["messages"][0]["content"][0]["text"]


def test_a_model_for_questions_and_a_chat_model_name_values(describe, shop, blip, llava):
    for model in (blip, llava):
        code, said = describe(model=str(model), attributes=["color"])
        assert code == 0 and "2 pictures were new" in said
    kept = (shop / "descriptions/described.dress.jsonl").read_text().splitlines()
    assert len({json.loads(line)["model"] for line in kept}) == 2


def test_a_few_pictures_are_for_a_look_at_the_samples_only(describe, shop, caption_model):
    code, said = describe(model=str(caption_model), count=1)
    assert code == 0 and "1 pictures were new" in said and "without --count" in said
    assert not list((shop / "descriptions").glob("image_captions*"))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"model": "endpoint:seeing"}, "OPENAI_BASE_URL is not set"),
        ({"attributes": ["color:"]}, "expected names such as color"),
        ({"model": "nothing/here"}, "cannot load nothing/here"),
        ({"category": "shirts"}, "no category 'shirts'"),
    ],
)
def test_a_mistake_is_told_in_one_line_and_leaves_nothing(
    describe, shop, caption_model, monkeypatch, options, told
):
    monkeypatch.delenv(endpoints.BASE, raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    code, said = describe(**{"model": str(caption_model)} | options)
    assert code == 2 and told in said and not (shop / "descriptions").exists()


def test_a_model_for_another_task_is_refused(describe, shop, caption_model, causal, tmp_path):
    code, said = describe(model=str(caption_model), attributes=["color"])
    assert code == 2 and "tensors are missing" in said
    code, said = describe(model=str(causal))
    assert code == 2 and "cannot load" in said
    (tmp_path / "empty").mkdir()
    assert "no" in describe(model=str(tmp_path / "empty"))[1] and not (shop / "descriptions").exists()


def test_descriptions_from_elsewhere_are_kept(describe, shop, caption_model):
    path = shop / "descriptions/image_captions_dress_train.json"
    path.parent.mkdir()
    path.write_text('{"a": "by a person"}')
    code, said = describe(model=str(caption_model))
    assert code == 2 and "was not written by describe-pictures" in said
    assert path.read_text() == '{"a": "by a person"}'


def test_catalogs_without_pictures_are_refused(describe, shop, caption_model):
    shutil.rmtree(shop / "images")
    code, said = describe(model=str(caption_model))
    assert code == 2 and "expected pictures of dresses" in said


def test_refusals_are_recognized_by_their_first_words():
    from fashioniq.llm.describing import read_description

    for text in ("I’m sorry, but I can't", "Sorry, no.", "I cannot describe people", "As an AI model"):
        assert read_description(text).outcome == "refused"
    assert read_description("I can see a dress").outcome == "described"
    with pytest.raises(UserError, match="expected names"):
        from fashioniq.llm.describing import check_attributes

        check_attributes([""])
