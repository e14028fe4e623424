"""The page on which people take part in dialogs, over HTTP, with a thread in place of the command."""

import io
import re
import threading
from concurrent.futures import Future
from http.client import HTTPConnection
from urllib.parse import urlencode

import pytest
import torch
from PIL import Image

from fashioniq.askers.person import PersonAsks
from fashioniq.data.person_questions import Answered, PersonForm
from fashioniq.loop.messages import DialogState, Message, Turn
from fashioniq.report.person_page import PersonPage
from fashioniq.users.person import DescribingPerson, Person
from tests.waiting import attempts, joined

MARKUP = "<script>alert(1)</script>"


@pytest.fixture
def page():
    page = PersonPage()
    yield page
    page.shutdown()
    page.server_close()


@pytest.fixture
def asking(page):
    """Begin to ask in a thread; return a function that waits for the result."""

    def asking(work):
        before = page.open_for("user")[0]
        found = []
        thread = threading.Thread(target=lambda: found.append(work()))
        thread.start()
        for _ in attempts("the question was open"):
            if page.open_for("user")[0] != before:
                break

        def result():
            joined(thread)
            return found[0]

        return result

    return asking


def request(page, method="GET", path="", fields=None, **headers):
    connection = HTTPConnection("127.0.0.1", page.server_port, timeout=60)
    body = None if fields is None else urlencode(fields)
    headers |= {"Content-Type": "application/x-www-form-urlencoded"} if body else {}
    connection.request(method, f"/{page.token}/{path}", body, headers)
    response = connection.getresponse()
    response.text = response.read()
    connection.close()
    return response


def shown(page, who="user"):
    return request(page, path=f"?who={who}").text.decode()


def send(page, text, who="user", number=None, **more):
    number = page.open_for(who)[0] if number is None else number
    return request(page, "POST", fields={"who": who, "number": number, "text": text, **more})


def test_a_person_sees_the_picture_and_the_question_and_answers_once(page, asking, tmp_path):
    path = tmp_path / "picture.png"
    Image.new("RGB", (900, 30), "red").save(path)
    person = Person(lambda target: path, page.ask)
    result = asking(lambda: person.reply(torch.tensor([0]), Message(questions=[f"is it {MARKUP}?"]), 1))
    text = shown(page)
    assert MARKUP not in text and "is it &lt;script" in text
    [address] = re.findall(r'<img src="([^"]+)"', text)
    picture = Image.open(io.BytesIO(request(page, path=address).text))
    assert picture.format == "JPEG" and picture.size[0] == 640
    assert "Please wait" in shown(page, "questioner")
    number = page.open_for("user")[0]
    response = send(page, " yes, red ")
    assert response.status == 200 and "Please wait" in response.text.decode()
    assert result().texts == ["yes, red"]
    assert "was not kept" in send(page, "no", number=number).text.decode()  # from another tab
    assert "Please wait" in shown(page) and request(page, path=address).status == 404


def test_a_questioner_reads_the_dialog_without_the_picture(page, asking):
    turns = (
        Turn(Message(), Message(texts=["a dress"])),
        Turn(Message(questions=["is it red?"]), Message(texts=["yes"])),
    )
    asker = PersonAsks(page.ask)
    assert asker.offer(DialogState(1, None), None) == Message()
    result = asking(lambda: asker.offer(DialogState(1, None, turns), None))
    text = shown(page, "questioner")
    assert "a dress" in text and "is it red? yes" in text and "<img" not in text
    assert "Please wait" in shown(page)
    assert (
        send(page, "", "questioner").status == 422
        and "Write something first." in send(page, " ", "questioner").text.decode()
    )
    send(page, "user's answer", "user")
    assert send(page, "is it long", "questioner").status == 200
    assert result().questions == ["is it long?"]


def test_a_person_describes_and_judges_generated_pictures(page, asking):
    judged = []
    user = DescribingPerson(
        lambda target: "P7", lambda offer: offer.pictures, page.ask, lambda *one: judged.append(one)
    )
    result = asking(lambda: user.reply(torch.tensor([0]), Message(), 0))
    assert "P7" in shown(page) and 'name="judged"' not in shown(page)
    send(page, "a red dress")
    assert result().texts == ["a red dress"]
    result = asking(
        lambda: user.reply(torch.tensor([0]), Message(pictures=[Image.new("RGB", (8, 8), "blue")]), 1)
    )
    assert 'value="a red dress"' in shown(page)
    refused = send(page, "a blue dress")
    assert refused.status == 422 and 'value="a blue dress"' in refused.text.decode()
    send(page, "", judged="no")
    assert result().texts == ["a red dress"] and judged == [(1, False)]


def test_a_picture_that_cannot_be_read_and_a_bad_number_are_refused(page, asking, tmp_path):
    (tmp_path / "broken.png").write_bytes(b"no picture")
    result = asking(lambda: page.ask(PersonForm("what?", [("wanted", tmp_path / "broken.png")])))
    [address] = re.findall(r'<img src="([^"]+)"', shown(page))
    assert request(page, path=address).status == 404 == request(page, path="9-9").status
    assert send(page, "x", number="1x").status == 400 and send(page, "x", number="9" * 12).status == 400
    send(page, "a dress")
    assert result() == Answered("a dress")


def test_other_pages_and_strangers_are_refused(page, asking):
    result = asking(lambda: page.ask(PersonForm("what?")))
    assert request(page, path="?who=user", Origin="http://evil").status == 403
    assert request(page, path="?who=user", Host="evil:80").status == 403
    token, page.token = page.token, "another"
    assert request(page).status == 200
    page.token, known = token, page.token
    connection = HTTPConnection("127.0.0.1", page.server_port, timeout=60)
    connection.request("GET", f"/{known}/")
    assert connection.getresponse().status == 404
    send(page, "a dress")
    assert result() == Answered("a dress")


def test_an_answer_that_comes_after_an_interruption_is_for_nobody(page, asking, monkeypatch, capsys):
    class Interrupted(Future):
        def result(self, timeout=None):
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("fashioniq.report.person_page.Future", Interrupted)
        with pytest.raises(KeyboardInterrupt):
            page.ask(PersonForm("first?"))
    late = send(page, "of the first", number=1)
    assert late.status == 200 and "was not kept" in late.text.decode()
    result = asking(lambda: page.ask(PersonForm("second?")))
    assert capsys.readouterr().out.count("user: open") == 2
    send(page, "of the second")
    assert result() == Answered("of the second")
