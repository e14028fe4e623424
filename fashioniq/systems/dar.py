"""DAR: recorded questions and answers, searched with their text and pictures generated from it (Long et al. 2025)."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from fashioniq.categories import file_name
from fashioniq.config import EvalDAR
from fashioniq.data.dialogues import Dialogue, in_search_space, read_dialogues, split_round
from fashioniq.files import UserError
from fashioniq.models.text import TextRetriever
from fashioniq.systems.chatir import recorded_batches
from fashioniq.systems.generation import World
from fashioniq.systems.illustrated import CODE, PAPER, Costs, Illustrated, Weights
from fashioniq.systems.task import Task
from fashioniq.users.correcting import Describer

WEIGHTS = {
    "paper": PAPER,
    "code": CODE,
    "text": Weights((1.0,)),
    "pictures": Weights((0.0,)),
    "agreement": Weights(PAPER.text, by_agreement=True),
}


def build(options: EvalDAR) -> list[Task]:
    """One task: the recorded dialogs of the products that have features.

    Raises UserError if a file is missing or does not match.
    """
    world, costs = World.of(options), Costs()
    path = options.dialogues or (
        options.data / "dialogues" / f"{file_name(options.category)}.{options.split}.json"
    )
    positions = world.gallery.items.positions
    found = in_search_space(read_dialogues(path), world.catalog.ids(options.split), path)
    dialogues = [_shortened(one, options.rounds, path) for one in found if one.image in positions]
    encoder = world.space.encoder
    assert encoder is not None, "a run of train-dialog-encoder has one"
    retriever = Illustrated(
        TextRetriever(encoder, world.space.joined, dialogues[0].alone),
        _rewriting(options.rewrite, world.describer),
        world.generator,
        world.encode,
        weights=WEIGHTS[options.weights],
        fusion=options.fusion,
        count=options.pictures,
        seed=options.seed,
        costs=costs,
    )
    facts = world.facts(
        weights=options.weights,
        fusion=options.fusion,
        pictures=options.pictures,
        rewrite=options.rewrite,
        query=f"text and {options.pictures} generated pictures per round",
    )
    return [
        Task(
            name="dar",
            protocol="ChatIR",
            count=len(dialogues),
            turns=1 + options.rounds,
            batch=recorded_batches(dialogues, lambda rows: retriever, world.gallery, world.cards, "dar"),
            facts=facts,
            data={world.catalog.category: world.catalog.fingerprint()},
            cards=world.cards,
            costs=costs.plain,
        )
    ]


def described(rounds: Sequence[str], describer: Describer) -> str:
    """Description of the attributes that a dialog has named so far.

    Questions answered with yes name the attribute in the question; answers with no name none.
    """
    words: list[str] = []
    for text in rounds:
        question, answer = split_round(text)
        first = answer.lower().partition(" ")[0].strip(",.")
        if first not in ("no", "not", "none", "neither"):
            words += describer.read(answer) or (describer.read(question) if first == "yes" else ())
    return describer.write(tuple(words))


def _rewriting(name: str, describer: Describer) -> Callable[[Sequence[str]], str]:
    if name == "attributes":
        return lambda rounds: described(rounds, describer)
    return ", ".join if name == "join" else lambda rounds: rounds[-1]


def _shortened(dialogue: Dialogue, rounds: int, path: object) -> Dialogue:
    if len(dialogue.rounds) <= rounds:
        raise UserError(
            f"expected {rounds} rounds after the caption, found {len(dialogue.rounds) - 1} in {path}; give fewer "
            "--rounds"
        )
    return replace(dialogue, rounds=dialogue.rounds[: 1 + rounds])
