"""`fashioniq caption-pairs` as two people use it, and training data as the result."""

import json
import os
import re
import signal

import pytest

from tests.waiting import ended

PROGRESS = "document.querySelector('#progress')?.textContent"
FIELD = "document.querySelector('#caption')"


@pytest.fixture
def command(forked_command, tmp_path, wait_until):
    """Start the command; return its process, the address of the page, and a function that returns its output."""

    def command(folder, *options):
        output = tmp_path / f"output{len(list(tmp_path.glob('output*')))}"
        with open(os.devnull) as nothing, open(output, "w") as file:
            process = forked_command(
                ["caption-pairs", "--data", folder, "--category", "dresses", "--port", 0, *options],
                (nothing.fileno(), file.fileno(), file.fileno()),
            )
        wait_until(lambda: "open http" in output.read_text(), process.is_alive)
        return process, re.search(r"http://\S+", output.read_text())[0], output.read_text

    return command


def captions(folder):
    return [
        (row["people"], row["captions"])
        for split in ("train", "val", "test")
        for path in [folder / "captions" / f"cap.dress.{split}.json"]
        if path.exists()
        for row in json.loads(path.read_text())
    ]


def done(number, total=10):
    return f"{PROGRESS}.startsWith('{number} of {total} pairs done')"


def test_a_person_captions_pairs_with_the_keyboard(browser, command, photo_catalog):
    folder = photo_catalog(captions="made from attribute differences")
    process, address, output = command(folder, "--count", 10)
    browser.open(address)
    browser.wait_for("document.querySelector('#person')")
    browser.type("Ann")
    browser.press("Enter")
    browser.wait_for(done(0))
    assert browser.evaluate("[...document.images].map(one => one.naturalWidth)") == [64, 64]
    assert browser.evaluate(f"document.activeElement == {FIELD}")
    browser.type("is <b>red</b> & longer")
    browser.press("Enter")
    browser.wait_for(done(1))
    assert captions(folder) == [(["Ann"], ["is <b>red</b> & longer"])]

    dismissed = (
        "new KeyboardEvent('keydown', {key: 'Escape', isComposing: true, bubbles: true, cancelable: true})"
    )
    assert browser.evaluate(f"{FIELD}.dispatchEvent({dismissed})"), "it is a key of the input method"
    browser.press("Escape")
    browser.wait_for(f"{done(2)} && {PROGRESS}.includes('1 of them skipped')")
    browser.press("z", control=True)
    browser.wait_for(done(1))
    browser.press("z", control=True)
    browser.wait_for(done(0))
    assert browser.evaluate(f"{FIELD}.value") == "is <b>red</b> & longer" and captions(folder) == []
    browser.type(", really")
    browser.press("Enter")
    browser.wait_for(done(1))
    assert captions(folder) == [(["Ann"], ["is <b>red</b> & longer, really"])]

    browser.press("Enter")  # the browser itself refuses an empty field
    assert browser.evaluate(done(1)) and browser.evaluate(f"!{FIELD}.validity.valid")
    # by a script: the browser's message at the field can take the click of a mouse
    browser.evaluate("document.querySelector('button[value=skip]').click()")
    browser.wait_for(done(2))
    for number in range(3, 11):
        browser.type(f"is number {number}")
        browser.click("button[value=save]")
        browser.wait_for(done(number))
    browser.wait_for("document.querySelector('#finished').textContent.includes('All pairs are done')")
    assert len(captions(folder)) == 9
    assert browser.complaints == []

    os.kill(process.pid, signal.SIGINT)
    assert ended(process) == 0
    told = output()
    assert "Traceback" not in told and "; Ann 9" in told
    assert "next: `fashioniq extract-features" in told and "train-captioner" in told


def test_a_held_key_or_a_second_click_acts_on_no_pair_that_was_not_seen(browser, command, photo_catalog):
    _, address, _ = command(photo_catalog(), "--count", 6)
    browser.open(f"{address}?person=Ann")
    browser.wait_for(done(0, 6))
    browser.press("Escape")
    browser.wait_for(done(1, 6))
    browser.press("Escape", held=True)
    browser.press("z", control=True, held=True)
    browser.click("button[value=skip]", count=2)
    browser.click("button[value=undo]", count=2)
    browser.evaluate(f"{FIELD}.focus()")
    browser.type("is red")
    browser.press("Enter")
    browser.wait_for(f"{PROGRESS}?.includes('1 caption by Ann')")
    assert browser.evaluate(f"{PROGRESS}.startsWith('2 of 6 pairs done, 1 of them skipped')")


def test_a_form_can_be_sent_again_where_its_page_was_stopped(browser, command, photo_catalog):
    process, address, _ = command(photo_catalog(), "--count", 6)
    browser.open(f"{address}?person=Ann")
    browser.wait_for(done(0, 6))
    held = "new KeyboardEvent('keydown', {key: 'Escape', repeat: true, bubbles: true, cancelable: true})"
    assert not browser.evaluate(f"{FIELD}.dispatchEvent({held})"), "a browser stops a page by Escape"
    os.kill(process.pid, signal.SIGSTOP)
    browser.press("Escape")
    browser.call("Page.stopLoading")
    os.kill(process.pid, signal.SIGCONT)
    browser.wait_for("!sent")
    browser.press("Escape")
    browser.wait_for(done(1, 6))


def test_two_people_and_a_restart_finish_the_pairs(browser, command, photo_catalog):
    folder = photo_catalog()
    process, address, _ = command(folder, "--count", 6)
    pairs = set()
    for person in ("Ann", "Ben"):
        browser.open(f"{address}?person={person}")
        browser.wait_for(f"{PROGRESS}?.includes('by {person}')")
        pairs.add(browser.evaluate("document.querySelector('[name=candidate]').value + ' ' + document.querySelector('[name=target]').value"))  # fmt: skip
        browser.type(f"is what {person} saw")
    assert len(pairs) == 2
    browser.press("Enter")
    browser.wait_for(done(1, 6))
    os.kill(process.pid, signal.SIGKILL)
    ended(process)

    process, address, _ = command(folder, "--count", 6)
    browser.open(f"{address}?person=Cem")
    browser.wait_for(done(1, 6))
    shown = browser.evaluate("document.querySelector('[name=candidate]').value + ' ' + document.querySelector('[name=target]').value")  # fmt: skip
    assert shown not in pairs, "Ann's pair is still reserved, and Ben's has a caption"
    browser.type("is what Cem saw")
    browser.press("Enter")
    browser.wait_for(done(2, 6))
    assert sorted(people for people, _ in captions(folder)) == [["Ben"], ["Cem"]]
