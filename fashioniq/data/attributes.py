"""Attribute words in DeepFashion's five types: finding them in text, and their arrays.

The labels of a product are six lists, as in asin2attr: the garment word, then texture, fabric, shape, part
and style. The words below are used for catalogs without a vocabulary of their own. Labels made with other
words, such as the released ones, are phrased according to the type of their list.
"""

import re
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, TypeVar

import numpy as np

from fashioniq.data.catalog import ATTRIBUTE_LISTS

K = TypeVar("K", bound=Hashable)  # an id, or a category and an id

GARMENT, TEXTURE, FABRIC, SHAPE, PART, STYLE = range(ATTRIBUTE_LISTS)
TYPES = {
    "garment": GARMENT,
    "texture": TEXTURE,
    "fabric": FABRIC,
    "shape": SHAPE,
    "part": PART,
    "style": STYLE,
}


class Group(NamedTuple):
    """Words phrased in the same way: `lead` + `item` gives "has" + "a v-neck".

    Words of one family are alternatives to each other.
    """

    kind: int
    family: str
    lead: str
    item: str
    endings: tuple[str, ...] = ("",)
    entries: str = ""  # word=form,form; word …


_AS_IT_IS, _NOUN, _SLEEVE, _NECK = ("",), ("", "s", "es"), ("", "s", "d"), ("", "s", "ed", "line")
_PRINT = ("", "s", "print", "prints", "printed")  # spaces in forms are ignored
GROUPS = (
    Group(GARMENT, "garment", "is", "a {}", _NOUN, entries="""
        dress=gown,frock,sundress,shirt dress,t-shirt dress; shirt=dress shirt; t-shirt=tee,tee shirt;
        polo shirt=polo t-shirt,polo tee; blouse; top; tank top=tank; tube top; camisole=cami; tunic;
        kurta=kurti; sweater=pullover,jumper; sweatshirt; hoodie; cardigan; jacket; blazer; coat;
        vest=waistcoat; skirt; suit; jumpsuit=romper,playsuit; bag=handbag; hat=cap; scarf"""),
    Group(GARMENT, "garment", "is a pair of", "{}", _AS_IT_IS, entries="""
        jeans; trousers=pants; shorts; leggings=legging; shoes=shoe; sneakers=sneaker; sandals=sandal;
        boots=boot; heels"""),
    Group(TEXTURE, "colour", "is", "{}", _AS_IT_IS, entries="""
        black; white; off white; ivory; cream; beige; nude; tan; khaki; camel; brown; dark brown;
        light brown; coffee brown; chocolate; rust; copper; grey=gray; light grey=light gray;
        dark grey=dark gray; charcoal=charcoal grey,charcoal gray; silver; gold=golden; red; dark red;
        maroon; burgundy=wine; pink; light pink=baby pink,pale pink; hot pink; fuchsia; magenta; coral;
        peach; orange; yellow; mustard=mustard yellow; lemon yellow; green; light green;
        dark green=bottle green,forest green; olive=olive green; lime green=lime; mint=mint green;
        sea green; emerald=emerald green; teal=teal blue; turquoise=turquoise blue; aqua=aqua blue; blue;
        light blue=powder blue,pale blue,baby blue; dark blue; sky blue; royal blue; cobalt;
        navy blue=navy; indigo blue; violet; purple; lavender; lilac; mauve; plum;
        multicolored=multi,multicolor,multicolour,multicoloured"""),
    Group(TEXTURE, "pattern", "is", "{}", _AS_IT_IS, entries="""
        striped=stripe,stripes,stripy; pinstriped=pinstripe,pinstripes;
        checked=check,checks,checkered,chequered; plaid=tartan; gingham;
        floral=flower,flowers,floral print; printed=print,prints,all over print; solid=plain;
        embroidered=embroidery; abstract=abstract print; geometric=geometric print;
        paisley=paisley print; tie-dye=tie dyed,tie and dye; camouflage=camo;
        color block=colour block,color blocked,colour blocked; ombre; houndstooth; argyle;
        melange=heather,heathered,marl; faded=washed,acid wash,acid washed; metallic;
        shiny=shimmer,shimmery,glitter; ribbed=rib; quilted; textured; reversible"""),
    Group(TEXTURE, "pattern", "has", "{}s", _NOUN, entries="""
        polka dot=dot,dotted; horizontal stripe; vertical stripe"""),
    Group(TEXTURE, "print", "has", "a {}", _NOUN, entries="""
        graphic=graphic print; logo; slogan; animal print; leopard print=leopard; zebra print=zebra"""),
    Group(TEXTURE, "print", "has", "a {} print", _PRINT, entries="""
        tropical; tribal=aztec; cartoon; skull; heart; star; butterfly; photo"""),
    Group(FABRIC, "fabric", "is made of", "{}", _AS_IT_IS, entries="""
        cotton; linen; denim; silk=silky; satin; chiffon; georgette; crepe; leather=faux leather; suede;
        velvet; wool=woolen,woollen,merino; cashmere; fleece; polyester; nylon; rayon; viscose;
        spandex=lycra,elastane; corduroy; tweed; flannel; poplin; pique; chambray; twill; organza; tulle;
        canvas; modal"""),
    Group(FABRIC, "fabric", "is", "{}", _AS_IT_IS, entries="""
        knit=knitted,knitwear; woven; crochet=crocheted; sheer=see through,transparent"""),
    Group(FABRIC, "trim", "has", "{}", _AS_IT_IS, entries="lace=lacy; mesh; fur=faux fur"),
    Group(SHAPE, "length", "is", "{}", _AS_IT_IS, entries="""
        cropped=crop; mini; short; knee length; midi; long; maxi=floor length,ankle length"""),
    Group(SHAPE, "fit", "has", "a {}", _AS_IT_IS, entries="""
        slim fit=slim,slim fitted; regular fit; relaxed fit; straight fit; empire waist;
        high waist=high waisted; drop waist"""),
    Group(SHAPE, "fit", "is", "{}", _AS_IT_IS, entries="""
        loose=loose fit,baggy; oversized=oversize; fitted=tight,skinny; bodycon"""),
    Group(SHAPE, "silhouette", "is", "{}", _AS_IT_IS, entries="""
        a-line; flared=flare; flowy=flowing; pleated=pleat,pleats; wrap; peplum; layered=tiered;
        asymmetric=asymmetrical,high low,hi low; draped; ruched; skater; sheath; pencil"""),
    Group(PART, "sleeves", "has", "{}s", _SLEEVE, entries="""
        long sleeve=full sleeve; short sleeve=half sleeve; cap sleeve; elbow sleeve;
        three quarter sleeve=3/4 sleeve,quarter sleeve; puff sleeve=puffed sleeve; bell sleeve;
        flutter sleeve; rolled sleeve=roll up sleeve; raglan sleeve=raglan;
        batwing sleeve=batwing,dolman,dolman sleeve"""),
    Group(PART, "sleeves", "is", "{}", _AS_IT_IS, entries="sleeveless=no sleeve,no sleeves"),
    Group(PART, "neck", "has", "a {}", _NECK, entries="""
        v-neck; u-neck; round neck; crew neck; scoop neck=scoop; boat neck=bateau; square neck;
        cowl neck=cowl; high neck=funnel neck; mock neck; turtleneck=polo neck; halter neck=halter;
        sweetheart neck=sweetheart; keyhole neck=keyhole; henley neck=henley;
        mandarin collar=nehru collar,band collar; spread collar; button-down collar; peter pan collar;
        shawl collar; collar=collared"""),
    Group(PART, "neck", "is", "{}", _AS_IT_IS, entries="""
        strapless; off shoulder=off the shoulder; one shoulder; cold shoulder"""),
    Group(PART, "detail", "has", "{}", _AS_IT_IS, entries="""
        buttons=button,button front,button up,buttoned; pockets=pocket;
        ruffles=ruffle,ruffled,frill,frills; fringe=fringed,tassel,tassels; beads=beaded;
        sequins=sequin,sequined; spaghetti straps=spaghetti strap,spaghetti; straps=strap; studs=studded;
        patches=patch,applique; piping; pintucks=pintuck; epaulettes; cutouts=cut out,cut outs;
        lacing=lace up; rhinestones=rhinestone"""),
    Group(PART, "detail", "has", "a {}", _AS_IT_IS, entries="""
        zipper=zip,zipped; hood=hooded; belt=belted; bow; slit=side slit; racerback; open back=backless"""),
    Group(STYLE, "style", "is more", "{}", _AS_IT_IS, entries="""
        casual; formal; smart casual; sporty=sport,sports,athletic; ethnic; elegant; classic; vintage;
        retro; bohemian=boho; chic; sexy; preppy; trendy=fashionable; modern; basic; western; punk;
        gothic=goth; feminine=girly; nautical; military; cute; romantic; minimalist=minimal; modest;
        dressy; funky; festive"""),
    Group(STYLE, "occasion", "is for", "{}", _AS_IT_IS, entries="""
        evening=evening wear; summer; winter; running; training=workout,gym; yoga; football=soccer; golf;
        tennis; maternity"""),
    Group(STYLE, "occasion", "is for", "a {}", _AS_IT_IS, entries="""
        party=party wear,cocktail; wedding=bridal"""),
    Group(STYLE, "occasion", "is for", "the {}", _AS_IT_IS, entries="beach; office=office wear,work wear"),
)  # fmt: skip
_WORD = r"(?:\d+/\d+|[^\W_]+(?:['’][^\W_]+)*)"
_RUN = re.compile(rf"{_WORD}(?:[\s\-]+{_WORD})*")  # words separated by spaces and hyphens only
_TOKEN = re.compile(_WORD)


def _read_groups() -> tuple[dict[str, Group], dict[str, str]]:
    groups, forms = {}, {}
    for group in GROUPS:
        for entry in group.entries.split(";"):
            word, _, others = " ".join(entry.split()).partition("=")
            groups[word] = group
            for form in (word, *filter(None, others.split(","))):
                forms.update({squeezed(form) + ending: word for ending in group.endings})
    return groups, forms


def squeezed(form: str) -> str:
    """Remove spaces and hyphens, so that "v neck", "v-neck" and "vneck" are the same form."""
    return "".join(_TOKEN.findall(form))


GROUP_OF, WORD_OF = _read_groups()


@dataclass(frozen=True)
class Vocabulary:
    """Words to find in text.

    `lists_of` gives the lists that each word belongs to. `forms` maps a form to its word; a form is looked up
    as written, then squeezed. If one match lies inside another, the longest is used. With `nested`, all of
    them are used, and a hyphenated compound is never split.
    """

    source: str
    lists_of: Mapping[str, tuple[int, ...]]
    forms: Mapping[str, str]
    longest: int = 4  # words in a form, at most
    nested: bool = False


OWN_WORDS = Vocabulary("this package", {word: (group.kind,) for word, group in GROUP_OF.items()}, WORD_OF)


def find_attributes(text: str, vocabulary: Vocabulary = OWN_WORDS) -> list[list[str]]:
    """Six lists of the attribute words in a text, without duplicates, in the order of the text."""
    found: list[list[str]] = [[] for _ in range(ATTRIBUTE_LISTS)]
    for run in _RUN.findall(" ".join(text.lower().split())):
        for word in _words_of(run, vocabulary):
            for kind in vocabulary.lists_of[word]:
                add_word(found, kind, word)
    return found


def place_value(value: str) -> tuple[int, str]:
    """List and word for an attribute value.

    The value is matched as a known form, then by its last word; a value without a match is a style.
    """
    value = " ".join(value.lower().split())
    word = WORD_OF.get(squeezed(value))
    if word is not None:
        return GROUP_OF[word].kind, word
    last = WORD_OF.get(value.split(" ")[-1])
    return (GROUP_OF[last].kind if last is not None else STYLE), value


def word_of_type(value: str, kind: int, vocabulary: Vocabulary = OWN_WORDS) -> str:
    """Word for an attribute value of a type: the word of this type that it is a form of, or else the value."""
    word = vocabulary.forms.get(value) or vocabulary.forms.get(squeezed(value), value)
    return word if kind in vocabulary.lists_of.get(word, ()) else value


def add_word(lists: list[list[str]], kind: int, word: str) -> None:
    """Add a word to one of the six lists unless it is already there."""
    if word not in lists[kind]:
        lists[kind].append(word)


def _words_of(run: str, vocabulary: Vocabulary) -> Iterator[str]:
    tokens = list(_TOKEN.finditer(run))
    # whether the boundary before each token, and after the last one, lies inside a hyphenated compound
    inside = [False, *(run[left.end() : right.start()] == "-" for left, right in pairwise(tokens)), False]
    position = 0
    while position < len(tokens):
        step = 1
        for size in range(min(vocabulary.longest, len(tokens) - position), 0, -1):
            if vocabulary.nested and (inside[position] or inside[position + size]):
                continue
            part = tokens[position : position + size]
            word = vocabulary.forms.get(run[part[0].start() : part[-1].end()]) or vocabulary.forms.get(
                "".join(token[0] for token in part)
            )
            if word is not None:
                yield word
                if not vocabulary.nested:
                    step = size
                    break
        position += step


def label_vocabulary(labels: Mapping[K, list[list[str]]], ids: Iterable[K], at_least: int = 3) -> list[str]:
    """Attribute words that at least `at_least` of the products have, most frequent first, then by name.

    Garment words are not attributes.
    """
    counts = Counter(word for name in ids for word in set(_attribute_words(labels, name)))
    return sorted(
        (word for word, count in counts.items() if count >= at_least), key=lambda word: (-counts[word], word)
    )


def top_labels(
    labels: Mapping[K, list[list[str]]], ids: Sequence[K], vocabulary: Sequence[str], count: int = 8
) -> np.ndarray:
    """The first `count` attribute words of each product: int64, N×count.

    Each is a position in the vocabulary plus 1; 0 means no word.
    """
    number_of = {word: number for number, word in enumerate(vocabulary, start=1)}
    top = np.zeros((len(ids), count), dtype=np.int64)
    for row, name in enumerate(ids):
        numbers = [number_of[word] for word in _attribute_words(labels, name) if word in number_of][:count]
        top[row, : len(numbers)] = numbers
    return top


def label_matrix(
    labels: Mapping[K, list[list[str]]], ids: Sequence[K], vocabulary: Sequence[str]
) -> np.ndarray:
    """Whether each product has each word of the vocabulary: bool, N×A."""
    position_of = {word: position for position, word in enumerate(vocabulary)}
    matrix = np.zeros((len(ids), len(vocabulary)), dtype=bool)
    for row, name in enumerate(ids):
        matrix[row, [position_of[word] for word in _attribute_words(labels, name) if word in position_of]] = (
            True
        )
    return matrix


def _attribute_words(labels: Mapping[K, list[list[str]]], name: K) -> list[str]:
    return list(dict.fromkeys(word for words in labels.get(name, [])[TEXTURE:] for word in words))
