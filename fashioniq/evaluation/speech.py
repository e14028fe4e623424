"""How simulated users speak beside people: whether captions are true, informative and varied, and how like people's."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from rich.progress import track

from fashioniq.config import EvalCaptions
from fashioniq.data.catalog import Catalog, Pair
from fashioniq.data.wording import Weights
from fashioniq.data.words import Vocabulary
from fashioniq.features.selection import split_items
from fashioniq.features.store import FeatureStore
from fashioniq.files import UserError
from fashioniq.language.statements import StatementCheck
from fashioniq.loop.messages import Message, User
from fashioniq.loop.wording import Wording
from fashioniq.metrics.likeness import likeness
from fashioniq.metrics.measures import percentile, recall_at
from fashioniq.metrics.speech import diversity, truthfulness
from fashioniq.report.tables import print_table, rounded
from fashioniq.runs.trained import JUDGE, load_listener
from fashioniq.users.by_name import named_user, users_of_catalog

PEOPLE = "people"
FEWEST = 20  # pairs with two captions by which captions are compared with people's
FACTS = ("words", "wishes", "denials", "comparisons", "true wishes", "wishes that the product shown meets")


class SpeechTable(NamedTuple):
    """A table of how users speak."""

    title: str
    header: list[str]
    cells: list[list[str]]
    legend: str


def speech_rows(
    settings: EvalCaptions,
    catalog: Catalog,
    store: FeatureStore | None,
    pairs: Sequence[Pair],
    said: Mapping[str, Sequence[str]],
) -> list[dict[str, Any]]:
    """A row for those who `said` captions of the pairs, for the users that the catalog has data for, and for people.

    Captions are as informative as a judge finds the target by them, among all products of the split: a linear
    retriever fitted to the half of people's captions that the captioner's listener did not hear. They are compared
    with one of the captions of each pair that has two, drawn at random; people's are the other ones (see `likeness`).
    """
    # users that speak from what the catalog knows of the products
    speaking = users_of_catalog(catalog, settings.split) if all(pair.target for pair in pairs) else []
    captions_of = dict(said) | {
        name: captions_by(name, settings, catalog, pairs)
        for name in speaking
        if name != "human" and name not in said
    }
    captions_of[PEOPLE] = [pair.captions[0] for pair in pairs]
    truth = StatementCheck.of(catalog)
    about = [(str(pair.target), pair.candidate) for pair in pairs]
    rows: list[dict[str, Any]] = [
        {
            "who": who,
            **truthfulness(((text, *both) for text, both in zip(captions, about, strict=True)), truth),
            **diversity(captions),
        }
        for who, captions in captions_of.items()
    ]
    if settings.run and store:
        judge = load_listener(settings.run / JUDGE, catalog.category, store)
        items = split_items(catalog, store, settings.split)
        for row, captions in zip(rows, captions_of.values(), strict=True):
            examples = [
                (pair.candidate, text, str(pair.target)) for pair, text in zip(pairs, captions, strict=True)
            ]
            rank_N = judge.ranks(examples, items)
            row |= {"P": percentile(rank_N, len(items)), "R@10": recall_at(rank_N, 10), "gallery": len(items)}
    twice = [number for number, pair in enumerate(pairs) if len(pair.captions) > 1]
    if len(twice) < FEWEST:
        return rows
    captions_of = {who: [captions[number] for number in twice] for who, captions in captions_of.items()}
    compared = _compared(catalog, [pairs[number] for number in twice], captions_of, settings.seed)
    return [row | one for row, one in zip(rows, compared, strict=True)]


def _compared(
    catalog: Catalog, pairs: Sequence[Pair], captions_of: Mapping[str, Sequence[str]], seed: int
) -> Iterator[dict[str, Any]]:
    """FACTS and likeness of the captions of each, in this order; all pairs have two captions by people."""
    first_N = np.random.default_rng(seed).integers(2, size=len(pairs))
    people, others = (
        [pair.captions[place] for pair, place in zip(pairs, place_N, strict=True)]
        for place_N in (first_N, 1 - first_N)
    )
    reader = Wording.of(catalog, [pair.candidate for pair in pairs], Vocabulary([]), Weights())
    own_NF = stated_facts(people, pairs, reader, catalog.labels)
    alike_N = np.array([_alike(pair, catalog.labels) for pair in pairs])
    for captions in {**captions_of, PEOPLE: others}.values():
        facts_NF = stated_facts(captions, pairs, reader, catalog.labels)
        facts = dict(zip(FACTS, facts_NF.mean(0).tolist(), strict=True))
        facts |= likeness(captions, people, facts_NF, own_NF, names=FACTS, seed=seed)
        yield facts | {"reaction": reaction(facts_NF, alike_N)}


def reaction(facts_NF: NDArray[np.float64], alike_N: NDArray[np.float64]) -> dict[str, float]:
    """How a user reacts to a better system: FACTS of the third of the pairs most alike, less those of the least alike.

    `alike_N` tells how alike the two products of each pair are.
    """
    order_N = np.argsort(alike_N, kind="stable")
    third = max(1, len(order_N) // 3)
    difference_F = facts_NF[order_N[-third:]].mean(0) - facts_NF[order_N[:third]].mean(0)
    return dict(zip(FACTS, difference_F.tolist(), strict=True))


def _alike(pair: Pair, labels: Mapping[str, Sequence[Sequence[str]]]) -> float:
    """Jaccard similarity of the labels of the products of a pair, 0 without labels."""
    own, shown = _labels_of(pair, labels)
    return len(own & shown) / max(1, len(own | shown))


def _labels_of(pair: Pair, labels: Mapping[str, Sequence[Sequence[str]]]) -> tuple[set[str], set[str]]:
    """Labels of the target and of the product shown."""
    own, shown = (
        {label for some in labels.get(name, ()) for label in some}
        for name in (str(pair.target), pair.candidate)
    )
    return own, shown


def captions_by(name: str, settings: EvalCaptions, catalog: Catalog, pairs: Sequence[Pair]) -> list[str]:
    """Captions of the pairs by a user by name. Raises UserError if it cannot be made, or without targets."""
    if any(pair.target is None for pair in pairs):
        raise UserError(
            f"the pairs of {settings.split} have no targets, of which users speak; give another --split"
        )
    ids = list(dict.fromkeys(name for pair in pairs for name in (str(pair.target), pair.candidate)))
    position_of = {name: position for position, name in enumerate(ids)}
    user, _ = named_user(
        name,
        vocabulary=Vocabulary([]),
        max_words=1,
        catalog=catalog,
        ids=ids,
        seed=settings.seed,
        options=getattr(settings, "user_options", None),
        device=settings.device,
    )
    return [
        text for reply in replies(user, settings, pairs, position_of, name=name) for text in reply.texts or ()
    ]


def replies(
    user: User,
    settings: EvalCaptions,
    pairs: Sequence[Pair],
    position_of: Mapping[str, int],
    *,
    name: str,
    device: torch.device | str = "cpu",
) -> Iterator[Message]:
    """What a user says about the pairs, in batches; `position_of` has the positions of their products."""
    target_N = torch.tensor([position_of[str(pair.target)] for pair in pairs], device=device)
    shown_N = torch.tensor([position_of[pair.candidate] for pair in pairs], device=device)
    size = settings.batch_size
    for start in track(range(0, len(pairs), size), description=f"captions of {settings.split} by {name}"):
        batch = slice(start, start + size)
        yield user.reply(target_N[batch], Message(item_B=shown_N[batch]), 0)


def stated_facts(
    captions: Sequence[str],
    pairs: Sequence[Pair],
    reader: Wording,
    labels: Mapping[str, Sequence[Sequence[str]]],
) -> NDArray[np.float64]:
    """FACTS of the caption of each pair, as far as a search would read them, by the labels of its two products."""
    facts_NF = np.zeros((len(captions), len(FACTS)))
    for row_F, caption, pair in zip(facts_NF, captions, pairs, strict=True):
        own, shown = _labels_of(pair, labels)
        wishes = reader.read(caption).wishes
        plain = [wish.labels for wish in wishes if wish.labels and not wish.denied and not wish.step]
        row_F[:] = (
            len(caption.split()),
            len(plain),
            sum(wish.denied for wish in wishes),
            sum(wish.step != 0 for wish in wishes),
            sum(not own.isdisjoint(some) for some in plain),
            sum(not shown.isdisjoint(some) for some in plain),
        )
    return facts_NF


def speech_tables(rows: Sequence[Mapping[str, Any]]) -> list[SpeechTable]:
    """The tables of `speech_rows` as texts."""

    def percent(value: float | None) -> str:
        return "–" if value is None else f"{100 * value:.1f}"

    alone = SpeechTable(
        "one caption of each pair",
        ["", "true", "stated", "judge P", "judge R@10", "distinct", "distinct-1", "distinct-2"],
        [
            [
                row["who"],
                percent(row["true"]),
                f"{row['stated']:.2f}",
                rounded("P", row.get("P")),
                rounded("R@10", row.get("R@10")),
                *(percent(row[name]) for name in ("distinct", "distinct-1", "distinct-2")),
            ]
            for row in rows
        ],
        "true: share of the statements that hold by the labels; stated: statements per caption that they decide; "
        "judge: rank of the target for a linear retriever fitted to recorded captions; distinct: share of different "
        "captions, words and bigrams",
    )
    if any("AUC" not in row for row in rows):
        return [alone]
    measured = ("length distance", "divergence", "AUC of words", "AUC")
    return [
        alone,
        SpeechTable(
            "how like people's captions",
            ["", *FACTS[:4], *measured],
            [
                [
                    row["who"],
                    *(f"{row[name]:.2f}" for name in FACTS[:4]),
                    *(_with_interval(row, name) for name in measured),
                ]
                for row in rows
            ],
            "wishes, denials, comparisons: in each caption, as a search reads it; length distance: Wasserstein's, in "
            "words; divergence: Jensen and Shannon's of the words, 0 to 1; AUC: how well a logistic regression tells "
            "the captions from another person's, by words, and by what they say of the two products, too: 0.5 is "
            "chance, 1 is never wrong; in brackets 95 % bootstrap intervals",
        ),
        SpeechTable(
            "what gives them away",
            ["", "told by", "people told by"],
            [[row["who"], ", ".join(row["tell it"]), ", ".join(row["tell people"])] for row in rows],
            "what the logistic regression tells the captions by, and people's; the most telling first",
        ),
        SpeechTable(
            "where the product shown is more like the wanted one",
            ["", *FACTS],
            [[row["who"], *(f"{row['reaction'][name]:+.2f}" for name in FACTS)] for row in rows],
            "captions of the third of the pairs whose products have most labels in common, less those of the third "
            "with fewest: how a user reacts to a better system",
        ),
    ]


def print_speech(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print the tables of `speech_rows`."""
    for table in speech_tables(rows):
        print_table(table.header, table.cells, title=table.title)
        print(table.legend)
    if any("AUC" not in row for row in rows):
        print(f"fewer than {FEWEST} pairs have two captions; captions are not compared with people's")


def _with_interval(row: Mapping[str, Any], name: str) -> str:
    low, high = row[f"{name} interval"]
    return f"{row[name]:.2f} ({low:.2f}–{high:.2f})"
