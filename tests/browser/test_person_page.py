"""`fashioniq make-dialogues` with people who ask and answer in a browser, interrupted and continued."""

import os
import re
import signal

import pytest

from fashioniq.data.dialogues import read_dialogues
from fashioniq.report.person_page import person_page
from tests.waiting import ended

OPTIONS = "--category dresses --rounds 2 --questioner page --answerer page"
FIELD = "document.querySelector('#text')"
WAITING = "document.querySelector('#waiting')"


@pytest.fixture
def command(forked_command, tmp_path, wait_until, photo_catalog):
    """Start the command; return its process, and the addresses of the questioner and of the user."""
    folder = photo_catalog()

    def command():
        output = tmp_path / f"output{len(list(tmp_path.glob('output*')))}"
        with open(os.devnull) as nothing, open(output, "w") as file:
            process = forked_command(
                ["make-dialogues", "--data", folder, "--out", tmp_path / "made.json", *OPTIONS.split()],
                (nothing.fileno(), file.fileno(), file.fileno()),
            )
        wait_until(lambda: "questioner: open" in output.read_text(), process.is_alive)
        asking = re.search(r"http://\S+", output.read_text())[0]
        return process, asking, asking.replace("questioner", "user"), output.read_text

    return command


def say(browser, address, text):
    browser.open(address)
    browser.wait_for(FIELD)
    browser.type(text)
    browser.press("Enter")
    browser.wait_for(f"{WAITING} || document.readyState == 'complete' && !{FIELD}?.value")


def test_two_people_make_dialogs_and_go_on_after_an_interruption(browser, command, tmp_path):
    person_page()  # of this process; the command has its own
    process, asking, answering, _ = command()
    for number in range(2):
        say(browser, asking, f'is it "{number}" & red?')
        browser.open(answering)
        browser.wait_for(FIELD)
        assert browser.evaluate("[...document.images].map(one => one.naturalWidth)") == [64]
        assert browser.evaluate(f"document.activeElement == {FIELD}")
        assert f'is it "{number}" & red?' in browser.evaluate(
            "document.querySelector('label[for=text]').textContent"
        )
        browser.type(f"no, {number}")
        browser.press("Enter")
        browser.wait_for(WAITING)
    say(browser, asking, "of the second dialog?")
    browser.open(answering)
    browser.wait_for(FIELD)  # the command waits: interrupted at work, some library may swallow it
    os.kill(process.pid, signal.SIGINT)
    assert ended(process) == 130

    process, asking, answering, output = command()
    browser.open(answering)
    browser.wait_for(WAITING)
    for number in range(2, 8):
        say(browser, asking, f"is it {number}?")
        say(browser, answering, "" if number == 7 else f"no, {number}")
    assert ended(process) == 0, output()
    browser.wait_for(f"{WAITING}.textContent.includes('The command has ended')")
    made = [
        [(one.question, one.answer) for one in dialog.rounds[1:]]
        for dialog in read_dialogues(tmp_path / "made.json")
    ]
    assert made[0] == [('is it "0" & red?', "no, 0"), ('is it "1" & red?', "no, 1")]
    assert made[1:] == [
        [(f"is it {number}?", f"no, {number}") for number in pair] for pair in ((2, 3), (4, 5))
    ] + [[("is it 6?", "no, 6"), ("is it 7?", "unknown")]]
    # while the command ends, a request is refused or cut
    assert [one for one in browser.complaints if '"source": "network"' not in one] == []
