"""Tokenization for caption scores: Penn Treebank words in lower case, without punctuation, as in the COCO
tools.

These tools run Stanford's tokenizer, which needs Java. Without Java, the rules below find the same words.
"""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from pycocoevalcap.tokenizer.ptbtokenizer import PUNCTUATIONS, STANFORD_CORENLP_3_4_1_JAR

from fashioniq.metrics.java import BRIEF, PACKAGE, NotComputed, run_java

JAVA, PYTHON = "PTB (Java)", "PTB-like (Python)"
_SECONDS = 300  # time limit; a million captions take less than a second


def tokenise(texts: Sequence[str]) -> tuple[list[str], str]:
    """Tokenize texts into words separated by blanks; also return the name of the tokenizer.

    Stanford's tokenizer is used if it runs, otherwise the rules of this file.
    """
    try:
        return tokenise_java(texts), JAVA
    except NotComputed:
        return tokenise_python(texts), PYTHON


def tokenise_java(texts: Sequence[str]) -> list[str]:
    """Tokenize texts with Stanford's tokenizer. Raises NotComputed if it does not run."""
    program = [
        *BRIEF,
        "-cp",
        str(PACKAGE / "tokenizer" / STANFORD_CORENLP_3_4_1_JAR),
        "edu.stanford.nlp.process.PTBTokenizer",
    ]
    lines = run_java(
        [*program, "-preserveLines", "-lowerCase"], "".join(_line(text) + "\n" for text in texts), _SECONDS
    ).splitlines()
    if len(lines) != len(texts):
        raise NotComputed(f"Stanford's tokenizer returned {len(lines)} lines for {len(texts)} captions")
    return [_join(line.split(" ")) for line in lines]


def tokenise_python(texts: Iterable[str]) -> list[str]:
    """Tokenize texts with the rules of this file."""
    return [_join(_scan(_line(text))) for text in texts]


def _line(text: str) -> str:
    return " ".join(text.split())


def _join(words: Iterable[str]) -> str:
    return " ".join(word for word in words if word and word not in PUNCTUATIONS)


_ABBREVIATIONS = (  # words that keep their period
    "adj adm adv al ala apr ariz assn assoc asst atty aug ave bldg blvd bros calif capt cf cie cmdr co col colo conn corp cos cpl ct dec "
    "dept det dr drs esq est etc feb fla fri ft ga gen gov hon inc ind intl jan jr jul jun kan kans ky lt ltd maj mar md messrs mfg mich "
    "minn mlle mme mo mon mont mr mrs ms mt mtg natl neb nev nov oct okla penn pfc ph plc pres prof rd rep reps rev rt sen sens sep sept "
    "sgt sq sr st ste supt tel tenn thu thurs treas tue tues univ va vs vt wed wis wyo"
)
_PART, _LETTER, _END = r"[^\W_]+", r"[^\W\d_]", r"(?![^\W_])"  # alphanumerics, one letter, end of a word
_HYPHENED, _SLASHED = rf"(?:[dlo]')?{_PART}", rf"{_PART}(?:-{_LETTER}+){{0,2}}"
# The longest match is the next word, or its groups are the next words; ties go to the first rule.
_RULES = [
    rf"({_LETTER}+)(n't){_END}|n't{_END}",
    rf"(can)(not){_END}|(gon|wan)(na){_END}|(got)(ta){_END}|(gim|lem)(me){_END}|('t)(is|was){_END}|(y')(all){_END}",
    rf"'(?:s|m|d|re|ve|ll|em|til|till|cause|n){_END}|'\d\ds?{_END}",  # dog's, '80s
    rf"'n'|(?:dunkin|ol|d|j)'{_END}|ma'am{_END}|ne'er{_END}|c'mon{_END}|s'mores{_END}",
    rf"{_LETTER}(?:{_PART})?(?:[.!?]{_LETTER}(?:{_PART})?)*",  # also without a blank after a sentence
    rf"{_HYPHENED}(?:[-_]{_HYPHENED})*",  # v-neck, o'clock
    rf"{_SLASHED}(?:\\?/{_SLASHED}){{1,2}}",  # black/white
    r"(?-i:[A-Z]+(?:&[A-Z]+)+)",  # AT&T
    r"\d+[-\xa0]\d+/\d+|[-+]?(?:\d*(?:[.:,]\d+)+|\d+)",  # 1 3/4, 1,000.5
    rf"(?:{_LETTER}\.)+|(?:{_ABBREVIATIONS.replace(' ', '|')})\.|(?-i:Ark|Del|Ill|La|Mass|Miss|Ore|Pa|Tex|Wash)\.",
    r"(?:https?://|www\.)[^\"<>|(){}]*[^\"<>|(){}.,;:!?'-]|[\w.]+@[\w.]*\w|[@#][^\W\d]\w*",  # addresses
    rf"[<>]?[:;=][-o*']?[]()DPO:{{@|[\\]{_END}|</?{_LETTER}[^<>]*>",  # smileys, tags
    r"&(?:amp|lt|gt|quot);|[!?]+|\*+|_+|''|(--)-*|(\.\.\.)\.*",
    r"[^\U00010000-\U0010FFFF]",  # any other character except pictographs
]
_COMPILED = [re.compile(rule, re.IGNORECASE) for rule in _RULES]
_PLAIN = str.maketrans(
    {
        **dict.fromkeys("’‘`", "'"),
        **dict.fromkeys('“”"', " '' "),
        **dict.fromkeys("–—", " -- "),
        **{
            "…": " ... ",
            "£": "#",
            "€": "$",
            "¢": "cents",
            "¼": " 1/4 ",
            "½": " 1/2 ",
            "¾": " 3/4 ",
            "\ufeff": "",
            "\xad": "",
        },
    }
)
_WRITTEN = {
    "(": "-lrb-",
    ")": "-rrb-",
    "[": "-lsb-",
    "]": "-rsb-",
    "{": "-lcb-",
    "}": "-rcb-",
    "&amp;": "&",
    "&lt;": "<",
    "&gt;": ">",
}


def _scan(text: str) -> Iterable[str]:
    """Split a line into words and punctuation.

    Only a number with a fraction, such as 1 3/4, contains a blank.
    """
    text = re.sub(r"(?<![\w/.,-])(\d{1,4}) (?=\d{1,4}/\d)", "\\1\xa0", text).translate(_PLAIN)
    for piece in text.split(" "):
        yield from _scan_piece(piece)


@lru_cache(maxsize=100_000)
def _scan_piece(piece: str) -> tuple[str, ...]:
    words: list[str] = []
    position = 0
    while position < len(piece):
        found = max(
            filter(None, (rule.match(piece, position) for rule in _COMPILED)),
            key=lambda match: match.end(),
            default=None,
        )
        position = found.end() if found else position + 1
        words += [group for group in found.groups() if group] or [found.group()] if found else []
    written = (re.sub(r"[][(){}]", lambda bracket: _WRITTEN[bracket.group()], word.lower()) for word in words)
    return tuple(_WRITTEN.get(word, word) for word in written)
