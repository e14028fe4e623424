"""Attribute words in DeepFashion's five types: finding them in text, telling two products apart by them, and their arrays.

The labels of a product are six lists as in asin2attr: the garment word, then texture, fabric, shape, part and style. The words below
serve a catalog that brings none; labels made with other words, as the released ones, are spoken of by the type that they stand in.
"""

import random
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

import numpy as np

from fashioniq.data.catalog import ATTRIBUTE_LISTS

K = TypeVar("K", bound=Hashable)  # an id, or a category and an id

GARMENT, TEXTURE, FABRIC, SHAPE, PART, STYLE = range(ATTRIBUTE_LISTS)


class _Group(NamedTuple):
    """Words said alike: `lead` + `item` makes "has" + "a v-neck". Words of one family stand against each other."""

    kind: int
    family: str
    lead: str
    item: str
    endings: tuple[str, ...]
    entries: str = ""  # word=form,form; word …


_AS_IT_IS, _NOUN, _SLEEVE, _NECK = ("",), ("", "s", "es"), ("", "s", "d"), ("", "s", "ed", "line")
_PRINT = ("", "s", "print", "prints", "printed")  # the spaces of forms do not count
_GROUPS = (
    _Group(GARMENT, "garment", "is", "a {}", _NOUN, """
        dress=gown,frock,sundress,shirt dress,t-shirt dress; shirt=dress shirt; t-shirt=tee,tee shirt; polo shirt=polo t-shirt,polo tee;
        blouse; top; tank top=tank; tube top; camisole=cami; tunic; kurta=kurti; sweater=pullover,jumper; sweatshirt; hoodie; cardigan;
        jacket; blazer; coat; vest=waistcoat; skirt; suit; jumpsuit=romper,playsuit; bag=handbag; hat=cap; scarf"""),
    _Group(GARMENT, "garment", "is a pair of", "{}", _AS_IT_IS, """
        jeans; trousers=pants; shorts; leggings=legging; shoes=shoe; sneakers=sneaker; sandals=sandal; boots=boot; heels"""),
    _Group(TEXTURE, "colour", "is", "{}", _AS_IT_IS, """
        black; white; off white; ivory; cream; beige; nude; tan; khaki; camel; brown; dark brown; light brown; coffee brown; chocolate;
        rust; copper; grey=gray; light grey=light gray; dark grey=dark gray; charcoal=charcoal grey,charcoal gray; silver; gold=golden; red;
        dark red; maroon; burgundy=wine; pink; light pink=baby pink,pale pink; hot pink; fuchsia; magenta; coral; peach; orange; yellow;
        mustard=mustard yellow; lemon yellow; green; light green; dark green=bottle green,forest green; olive=olive green; lime green=lime;
        mint=mint green; sea green; emerald=emerald green; teal=teal blue; turquoise=turquoise blue; aqua=aqua blue; blue; light blue=powder
        blue,pale blue,baby blue; dark blue; sky blue; royal blue; cobalt; navy blue=navy; indigo blue; violet; purple; lavender; lilac;
        mauve; plum; multicolored=multi,multicolor,multicolour,multicoloured"""),
    _Group(TEXTURE, "pattern", "is", "{}", _AS_IT_IS, """
        striped=stripe,stripes,stripy; pinstriped=pinstripe,pinstripes; checked=check,checks,checkered,chequered; plaid=tartan; gingham;
        floral=flower,flowers,floral print; printed=print,prints,all over print; solid=plain; embroidered=embroidery; abstract=abstract
        print; geometric=geometric print; paisley=paisley print; tie-dye=tie dyed,tie and dye; camouflage=camo; color block=colour
        block,color blocked,colour blocked; ombre; houndstooth; argyle; melange=heather,heathered,marl; faded=washed,acid wash,acid washed;
        metallic; shiny=shimmer,shimmery,glitter; ribbed=rib; quilted; textured; reversible"""),
    _Group(TEXTURE, "pattern", "has", "{}s", _NOUN, "polka dot=dot,dotted; horizontal stripe; vertical stripe"),
    _Group(TEXTURE, "print", "has", "a {}", _NOUN, """
        graphic=graphic print; logo; slogan; animal print; leopard print=leopard; zebra print=zebra"""),
    _Group(TEXTURE, "print", "has", "a {} print", _PRINT, "tropical; tribal=aztec; cartoon; skull; heart; star; butterfly; photo"),
    _Group(FABRIC, "fabric", "is made of", "{}", _AS_IT_IS, """
        cotton; linen; denim; silk=silky; satin; chiffon; georgette; crepe; leather=faux leather; suede; velvet; wool=woolen,woollen,merino;
        cashmere; fleece; polyester; nylon; rayon; viscose; spandex=lycra,elastane; corduroy; tweed; flannel; poplin; pique; chambray;
        twill; organza; tulle; canvas; modal"""),
    _Group(FABRIC, "fabric", "is", "{}", _AS_IT_IS, "knit=knitted,knitwear; woven; crochet=crocheted; sheer=see through,transparent"),
    _Group(FABRIC, "trim", "has", "{}", _AS_IT_IS, "lace=lacy; mesh; fur=faux fur"),
    _Group(SHAPE, "length", "is", "{}", _AS_IT_IS, "cropped=crop; mini; short; knee length; midi; long; maxi=floor length,ankle length"),
    _Group(SHAPE, "fit", "has", "a {}", _AS_IT_IS, """
        slim fit=slim,slim fitted; regular fit; relaxed fit; straight fit; empire waist; high waist=high waisted; drop waist"""),
    _Group(SHAPE, "fit", "is", "{}", _AS_IT_IS, "loose=loose fit,baggy; oversized=oversize; fitted=tight,skinny; bodycon"),
    _Group(SHAPE, "silhouette", "is", "{}", _AS_IT_IS, """
        a-line; flared=flare; flowy=flowing; pleated=pleat,pleats; wrap; peplum; layered=tiered; asymmetric=asymmetrical,high low,hi low;
        draped; ruched; skater; sheath; pencil"""),
    _Group(PART, "sleeves", "has", "{}s", _SLEEVE, """
        long sleeve=full sleeve; short sleeve=half sleeve; cap sleeve; elbow sleeve; three quarter sleeve=3/4 sleeve,quarter sleeve; puff
        sleeve=puffed sleeve; bell sleeve; flutter sleeve; rolled sleeve=roll up sleeve; raglan sleeve=raglan; batwing
        sleeve=batwing,dolman,dolman sleeve"""),
    _Group(PART, "sleeves", "is", "{}", _AS_IT_IS, "sleeveless=no sleeve,no sleeves"),
    _Group(PART, "neck", "has", "a {}", _NECK, """
        v-neck; u-neck; round neck; crew neck; scoop neck=scoop; boat neck=bateau; square neck; cowl neck=cowl; high neck=funnel neck; mock
        neck; turtleneck=polo neck; halter neck=halter; sweetheart neck=sweetheart; keyhole neck=keyhole; henley neck=henley; mandarin
        collar=nehru collar,band collar; spread collar; button-down collar; peter pan collar; shawl collar; collar=collared"""),
    _Group(PART, "neck", "is", "{}", _AS_IT_IS, "strapless; off shoulder=off the shoulder; one shoulder; cold shoulder"),
    _Group(PART, "detail", "has", "{}", _AS_IT_IS, """
        buttons=button,button front,button up,buttoned; pockets=pocket; ruffles=ruffle,ruffled,frill,frills; fringe=fringed,tassel,tassels;
        beads=beaded; sequins=sequin,sequined; spaghetti straps=spaghetti strap,spaghetti; straps=strap; studs=studded;
        patches=patch,applique; piping; pintucks=pintuck; epaulettes; cutouts=cut out,cut outs; lacing=lace up; rhinestones=rhinestone"""),
    _Group(PART, "detail", "has", "a {}", _AS_IT_IS, """
        zipper=zip,zipped; hood=hooded; belt=belted; bow; slit=side slit; racerback; open back=backless"""),
    _Group(STYLE, "style", "is more", "{}", _AS_IT_IS, """
        casual; formal; smart casual; sporty=sport,sports,athletic; ethnic; elegant; classic; vintage; retro; bohemian=boho; chic; sexy;
        preppy; trendy=fashionable; modern; basic; western; punk; gothic=goth; feminine=girly; nautical; military; cute; romantic;
        minimalist=minimal; modest; dressy; funky; festive"""),
    _Group(STYLE, "occasion", "is for", "{}", _AS_IT_IS, """
        evening=evening wear; summer; winter; running; training=workout,gym; yoga; football=soccer; golf; tennis; maternity"""),
    _Group(STYLE, "occasion", "is for", "a {}", _AS_IT_IS, "party=party wear,cocktail; wedding=bridal"),
    _Group(STYLE, "occasion", "is for", "the {}", _AS_IT_IS, "beach; office=office wear,work wear"),
)  # fmt: skip
_OTHER = (
    _Group(GARMENT, "garment", "is", "a {}", _NOUN),
    _Group(TEXTURE, "other texture", "is", "{}", _AS_IT_IS),
    _Group(FABRIC, "fabric", "is made of", "{}", _AS_IT_IS),
    _Group(SHAPE, "other shape", "is", "{}", _AS_IT_IS),
    _Group(PART, "detail", "has", "{}", _AS_IT_IS),
    _Group(STYLE, "other style", "has", "a {} look", _AS_IT_IS),
)
# Words of a family from less to more; said only where all words of both products stand on the scale.
_SCALES = {
    "colour": ("is", "darker", "lighter", (
        {"black", "charcoal", "dark grey", "navy blue", "dark blue", "dark green", "dark brown", "dark red", "maroon", "burgundy"},
        {"white", "off white", "ivory", "cream", "beige", "nude", "light grey", "light pink", "light blue", "light green", "sky blue"})),
    "length": ("is", "shorter", "longer", ({"cropped"}, {"short", "mini"}, {"knee length"}, {"midi"}, {"long", "maxi"})),
    "fit": ("is", "tighter", "looser", (
        {"fitted", "bodycon", "slim fit"}, {"regular fit", "straight fit"}, {"relaxed fit", "loose", "oversized"})),
    "sleeves": ("has", "shorter sleeves", "longer sleeves", (
        {"cap sleeve"}, {"short sleeve"}, {"elbow sleeve"}, {"three quarter sleeve"}, {"long sleeve"})),
}  # fmt: skip
_NOT_CONTRASTED = {"detail", "trim", "occasion"}  # pockets are not instead of buttons
_RUN = re.compile(r"(?:\d+/\d+|[^\W_]+)(?:[\s\-]+(?:\d+/\d+|[^\W_]+))*")  # words apart by spaces and hyphens only
_TOKEN = re.compile(r"\d+/\d+|[^\W_]+")


def _read_groups() -> tuple[dict[str, _Group], dict[str, str]]:
    groups, forms = {}, {}
    for group in _GROUPS:
        for entry in group.entries.split(";"):
            word, _, others = " ".join(entry.split()).partition("=")
            groups[word] = group
            for form in (word, *filter(None, others.split(","))):
                forms.update({"".join(_TOKEN.findall(form)) + ending: word for ending in group.endings})
    return groups, forms


_GROUP_OF, _WORD_OF = _read_groups()  # forms are kept without spaces and hyphens: "v neck", "v-neck" and "vneck" are one
_LONGEST = 4  # words of a form


def find_attributes(text: str) -> list[list[str]]:
    """The six lists of attribute words that a text holds, each once, in the order of the text; the longest form wins."""
    found: list[list[str]] = [[] for _ in range(ATTRIBUTE_LISTS)]
    for run in _RUN.findall(text.lower()):
        for word in _words_of(_TOKEN.findall(run)):
            add_word(found, _GROUP_OF[word].kind, word)
    return found


def place_value(value: str) -> tuple[int, str]:
    """The list and the word of an attribute given as a value: a form that is known, else by its last word, else style."""
    value = " ".join(value.lower().split())
    word = _WORD_OF.get("".join(_TOKEN.findall(value)))
    if word is not None:
        return _GROUP_OF[word].kind, word
    last = _WORD_OF.get(value.split(" ")[-1])
    return (_GROUP_OF[last].kind if last is not None else STYLE), value


def add_word(lists: list[list[str]], kind: int, word: str) -> None:
    """Add a word to one of the six lists, once."""
    if word not in lists[kind]:
        lists[kind].append(word)


def _words_of(tokens: Sequence[str]) -> Iterator[str]:
    place = 0
    while place < len(tokens):
        for size in range(_LONGEST, 0, -1):
            word = _WORD_OF.get("".join(tokens[place : place + size]))
            if word is not None:
                yield word
                break
        place += size


def label_vocabulary(labels: Mapping[K, list[list[str]]], ids: Iterable[K], at_least: int = 3) -> list[str]:
    """The attribute words that `at_least` of the products carry, most frequent first, then by name; garment words are none."""
    counts = Counter(word for name in ids for word in set(_attribute_words(labels, name)))
    return sorted((word for word, count in counts.items() if count >= at_least), key=lambda word: (-counts[word], word))


def top_labels(labels: Mapping[K, list[list[str]]], ids: Sequence[K], vocabulary: Sequence[str], count: int = 8) -> np.ndarray:
    """The first `count` attribute words of each product as positions in the vocabulary plus 1; 0 is none. int64, N×count."""
    number_of = {word: number for number, word in enumerate(vocabulary, start=1)}
    top = np.zeros((len(ids), count), dtype=np.int64)
    for row, name in enumerate(ids):
        numbers = [number_of[word] for word in _attribute_words(labels, name) if word in number_of][:count]
        top[row, : len(numbers)] = numbers
    return top


def label_matrix(labels: Mapping[K, list[list[str]]], ids: Sequence[K], vocabulary: Sequence[str]) -> np.ndarray:
    """Whether each product carries each word of the vocabulary: bool, N×A."""
    place_of = {word: place for place, word in enumerate(vocabulary)}
    matrix = np.zeros((len(ids), len(vocabulary)), dtype=bool)
    for row, name in enumerate(ids):
        matrix[row, [place_of[word] for word in _attribute_words(labels, name) if word in place_of]] = True
    return matrix


def _attribute_words(labels: Mapping[K, list[list[str]]], name: K) -> list[str]:
    return list(dict.fromkeys(word for words in labels.get(name, [])[TEXTURE:] for word in words))


@dataclass(frozen=True)
class _Fact:
    """One thing that sets the target apart: it "is" or "has" something, or is denied it."""

    verb: str
    what: str
    instead: str = ""
    denied: bool = False


_SAME, _DIFFERENT = ("looks the same", "very similar to this one"), ("looks different", "not quite like this one")
_USUAL_WORDS, _MOST_WORDS, _SPEAKABLE = 8, 12, 3  # the user's feedback is 8 words; longer values are never spoken


def describe_difference(candidate: list[list[str]], target: list[list[str]], seed: int) -> tuple[str, str]:
    """Two captions of how the target differs from the candidate by their labels: one in sentences, one in phrases, in either order.

    Mostly at most 8 words, never more than 12; the same seed gives the same captions.
    """
    chance = random.Random(seed)
    facts = _facts(candidate, target, chance)
    if not facts:
        return _SAME if _spoken_of(candidate, False) == _spoken_of(target, False) else _DIFFERENT
    first, second = facts[: chance.choice((1, 2, 2))], facts[1:3] or facts
    ways = [_sentence, _phrase]
    chance.shuffle(ways)
    return _caption(first, ways[0], chance), _caption(second, ways[1], chance)


def can_tell_apart(candidate: list[list[str]], target: list[list[str]]) -> bool:
    """Whether the labels of two products leave something to say of how they differ."""
    return bool(_facts(candidate, target, random.Random(0)))


def _facts(candidate: list[list[str]], target: list[list[str]], chance: random.Random) -> list[_Fact]:
    has, wanted = _spoken_of(candidate, True), _spoken_of(target, True)
    gains, losses = [], []
    for family in dict.fromkeys([*wanted, *has]):
        ours, theirs = wanted.get(family, {}), has.get(family, {})
        gained, lost = _only_in(ours, theirs, [*ours]), _only_in(theirs, ours, [*ours, *theirs])
        if gained:
            on_scale = _on_scale(family, theirs, ours)
            gains.append(on_scale if on_scale and chance.random() < 1 / 3 else _gain(family, gained, lost))
        elif lost and (ours or family != "garment"):  # a title without a garment word says nothing of the garment
            losses.append(_loss(*next(iter(lost.items()))))
    chance.shuffle(gains)
    chance.shuffle(losses)
    return gains + losses


def _spoken_of(labels: list[list[str]], speakable: bool) -> dict[str, dict[str, _Group]]:
    """The words that can be spoken, or those that are too long for it, by family."""
    families: dict[str, dict[str, _Group]] = {}
    for kind, words in enumerate(labels):
        for word in words:
            if (len(word.split()) <= _SPEAKABLE) == speakable:
                group = _group_of(word, kind)
                families.setdefault(group.family, {})[word] = group
    return families


def _group_of(word: str, kind: int) -> _Group:
    """How to say a label: as we know it, else as its last word (bottle green is a green), else by the list that it stands in."""
    last = _GROUP_OF.get(_WORD_OF.get(word.split(" ")[-1], ""))
    return _GROUP_OF.get(word) or (last if last and last.kind == kind else _OTHER[kind])


def _only_in(words: dict[str, _Group], others: dict[str, _Group], implying: list[str]) -> dict[str, _Group]:
    """The words that the others lack, without those that a longer one implies: navy blue is blue."""
    implied = {word for word in words if any(longer.endswith(" " + word) for longer in implying)}
    return {word: group for word, group in words.items() if word not in others and word not in implied}


def _on_scale(family: str, before: dict[str, _Group], after: dict[str, _Group]) -> _Fact | None:
    if family not in _SCALES or not before:
        return None
    verb, less, more, levels = _SCALES[family]
    ranks = [{rank for rank, level in enumerate(levels) if words.keys() <= level} for words in (before, after)]
    if not all(ranks) or ranks[0] == ranks[1]:
        return None
    return _Fact(verb, more if max(ranks[1]) > max(ranks[0]) else less)


def _gain(family: str, gained: dict[str, _Group], lost: dict[str, _Group]) -> _Fact:
    group = next(iter(gained.values()))
    words = [word for word, other in gained.items() if other.lead == group.lead and other.item == group.item]
    what = " and ".join(_item(group, word) for word in words[: 2 if family == "colour" else 1])
    against = [_item(other, word) for word, other in lost.items() if other.lead == group.lead]
    instead = against[0] if against and family not in _NOT_CONTRASTED else ""
    verb, _, rest = group.lead.partition(" ")
    if rest == "more" and instead:
        rest = ""  # casual instead of formal
    return _Fact(verb, f"{rest} {what}".strip(), instead)


def _loss(word: str, group: _Group) -> _Fact:
    verb, _, rest = group.lead.partition(" ")
    if rest == "more":
        return _Fact(verb, f"less {word}")
    return _Fact(verb, f"{rest} {_item(group, word)}".strip(), denied=True)


def _item(group: _Group, word: str) -> str:
    return re.sub(r"^a (?=[aeio])", "an ", group.item.format(word))


def _caption(facts: list[_Fact], say: Callable[[list[_Fact]], str], chance: random.Random) -> str:
    limit = _MOST_WORDS if chance.random() < 0.1 else _USUAL_WORDS
    plain = [replace(fact, instead="") for fact in facts]
    for said in (facts, plain, facts[:1], plain[:1]):
        text = say(sorted(said, key=lambda fact: (fact.verb == "has", fact.denied, fact.instead != "")))
        if len(text.split()) <= limit:
            break
    return text


def _sentence(facts: list[_Fact]) -> str:
    """As in: is striped and more casual, is navy blue instead of red and has no pockets."""
    text, before = "", None
    for fact in facts:
        denial = {"is": "is not ", "has": "has no "}[fact.verb] if fact.denied else ""
        shared = before and before.verb == fact.verb and not before.denied and not fact.denied
        what = re.sub(r"^an? ", "", fact.what) if denial == "has no " else fact.what
        text += (" and " if before else "") + (denial or ("" if shared else fact.verb + " ")) + what
        text += f" instead of {fact.instead}" if fact.instead else ""
        before = fact
    return text


def _phrase(facts: list[_Fact]) -> str:
    """As in: striped and more casual, navy blue rather than red without pockets."""
    text, before = "", None
    for fact in facts:
        opening = {"is": ("", "not "), "has": ("with ", "without ")}[fact.verb][fact.denied]
        shared = before and before.verb == fact.verb == "has" and not fact.denied
        joint = "" if before is None else " " if fact.verb == "has" and before.verb == "is" else " and "
        text += joint + ("" if shared else opening) + fact.what
        text += f" rather than {fact.instead}" if fact.instead else ""
        before = fact
    return text
