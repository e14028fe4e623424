import json
import shutil

import pytest

from fashioniq.metrics import tokenise as module
from fashioniq.metrics.java import NotComputed
from fashioniq.metrics.tokenise import tokenise, tokenise_java, tokenise_python

CASES = {
    "A red dress, with a V-neck.": "a red dress with a v-neck",
    "It's longer; isn't shorter!!": "it 's longer is n't shorter !!",
    "I cannot see the dog's toy, don't you?": "i can not see the dog 's toy do n't you",
    "'tis the dogs' o'clock": "'t is the dogs o'clock",
    'says "Rock & Roll" (AC/DC)': "says rock & roll -lrb- ac/dc -rrb-",
    "3/4 sleeves, 1 3/4 long, 1,000.50 wide": "3/4 sleeves 1\xa03/4 long 1,000.50 wide",
    "from the '80s -- or 1990's...": "from the '80s or 1990 's",
    "St. Louis, U.S.A. vs. L.A. end.": "st. louis u.s.a. vs. l.a. end",
    "black/white off-the-shoulder t-shirt": "black/white off-the-shoulder t-shirt",
    "“curly” it’s — naïve café": "curly it 's naïve café",
    "$5.00 at 3:30pm #tag 50%": "$ 5.00 at 3:30 pm #tag 50 %",
    "the plate.A spoon & R&B ½ 😀": "the plate.a spoon & r&b 1/2",
    " two\nlines\tand  blanks ": "two lines and blanks",
    ".": "",
    "": "",
}

OTHER_WORDS = {  # of NLTK
    "It's longer; isn't shorter!!": "it 's longer is n't shorter",
    "3/4 sleeves, 1 3/4 long, 1,000.50 wide": "3/4 sleeves 1 3/4 long 1,000.50 wide",
    "St. Louis, U.S.A. vs. L.A. end.": "st louis u.s.a vs l.a end",
    "$5.00 at 3:30pm #tag 50%": "$ 5.00 at 3:30pm # tag 50 %",
    "the plate.A spoon & R&B ½ 😀": "the plate.a spoon & r & b ½ 😀",
}

java = pytest.mark.skipif(shutil.which("java") is None, reason="no Java on the PATH")


@pytest.mark.parametrize("text", CASES)
def test_words_are_those_of_the_penn_treebank_without_punctuation(text):
    assert tokenise_python([text]) == [(CASES | OTHER_WORDS)[text]]


@java
def test_java_finds_the_same_words():
    assert tokenise_java(list(CASES)) == list(CASES.values())
    assert tokenise(list(CASES)) == (list(CASES.values()), "PTB (Java)")


@java
@pytest.mark.parametrize("name", ["reference captions", "human relative captions"])
def test_both_agree_on_998_of_1000_real_captions(name, shared):
    if name == "reference captions":
        rows = json.loads(
            (shared / "caption_metrics/ms_vision_evaluation/image_caption_gt.json").read_text()
        )["annotations"]
        texts = [row["caption"] for row in rows]
    else:
        files = sorted((shared / "fashioniq/captions").glob("cap.*.json"))
        texts = [text for path in files for row in json.loads(path.read_text()) for text in row["captions"]]
    same = [ours == theirs for ours, theirs in zip(tokenise_python(texts), tokenise_java(texts), strict=True)]
    assert len(same) > 25_000 and sum(same) / len(same) > 0.998


def test_without_java_python_does_it_and_says_so(monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert tokenise(["A dress."]) == (["a dress"], "PTB (NLTK)")


def test_a_program_that_loses_lines_is_not_believed(monkeypatch):
    monkeypatch.setattr(module, "run_java", lambda *_: "one line\n")
    with pytest.raises(NotComputed, match="1 lines for 2 captions"):
        tokenise_java(["one", "two"])
    assert tokenise(["one", "two"])[1] == "PTB (NLTK)"


def test_no_captions_are_no_words():
    assert tokenise_python([]) == []
