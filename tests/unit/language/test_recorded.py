"""What is read of many sentences of shoppers, right or wrong: what a change of the language changes besides.

    python -m tests.unit.language.test_recorded

writes recorded.txt again. Read its diff: every line is a sentence that is now read in another way.
"""

from pathlib import Path

from fashioniq.language.reader import Reader

from .conftest import ENGLISH, GERMAN, in_short, lexicon_of

RECORDED = Path(__file__).with_name("recorded.txt")


def readings():
    """Lines "language sentence => what is read", in the order of the file."""
    readers = {"en": Reader(lexicon_of(ENGLISH, "en")), "de": Reader(lexicon_of(GERMAN, "de"))}
    for line in RECORDED.read_text(encoding="utf-8").splitlines():
        code, sentence = line.partition(" =>")[0].split(" ", 1)
        yield f"{code} {sentence} => {in_full(readers[code].read(sentence))}".rstrip()


def in_full(request):
    """The short notation, limits of what is offered, and the product that is meant."""
    limits = {
        name: value
        for name, value in request.limits._asdict().items()
        if value != request.limits._field_defaults[name]
    }
    parts = [in_short(request)] if in_short(request) else []
    parts += [f"{name} {value}" for name, value in limits.items()]
    parts += [f"place {request.place}"] if request.place is not None else []
    return ", ".join([*parts, *(["others"] if request.others else [])])


def test_sentences_are_read_as_they_were_recorded():
    assert "\n".join(readings()) == RECORDED.read_text(encoding="utf-8").rstrip("\n")


if __name__ == "__main__":
    RECORDED.write_text("\n".join(list(readings())) + "\n", encoding="utf-8")
