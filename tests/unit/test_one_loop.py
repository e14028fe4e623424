"""Only `fashioniq.loop` goes through the turns of a dialog; the rest supplies offers, replies and targets."""

import ast
from pathlib import Path

import pytest

import fashioniq

ROOT = Path(fashioniq.__file__).parent
WITHOUT_DIALOGS = {"config", "data", "metrics", "report"}  # may not import the loop, as test_rooms.py holds
WITH_OTHER_STEPS = {"models", "training"}  # decoders and optimizers have steps, too
LOOPS = ast.For, ast.AsyncFor, ast.While, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp
FUNCTIONS = ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda
OF_FILES = {"metrics", "dialog"}  # contents of metrics.json and dialogs.jsonl, whose turns are over
COUNTS = {"len", "bool", "range"}  # calls that need the number of turns alone


def files():
    return [
        path
        for path in sorted(ROOT.rglob("*.py"))
        if path.relative_to(ROOT).parts[0] not in {"loop", *WITHOUT_DIALOGS}
    ]


def are_turns(node):
    """Whether an expression is the turns of something, also through calls such as `enumerate(state.turns)`."""
    if isinstance(node, ast.Attribute):
        of_file = isinstance(node.value, ast.Name) and node.value.id in OF_FILES
        return node.attr == "turns" and not of_file
    if isinstance(node, (ast.Subscript, ast.Starred)):
        return are_turns(node.value)
    if isinstance(node, ast.Call) and not (isinstance(node.func, ast.Name) and node.func.id in COUNTS):
        return any(map(are_turns, node.args))
    return False


def repeated(loop):
    """The nodes that run in every round of a loop: not the bodies of functions that are defined in it."""
    waiting = list(ast.iter_child_nodes(loop))
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, FUNCTIONS):
            waiting += ast.iter_child_nodes(node)


def offences(source, methods):
    """The lines that go through turns, and those in loops that call one of `methods`, which add a turn."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)) and are_turns(node.iter):
            found.add(node.iter.lineno)
        if isinstance(node, (ast.Subscript, ast.Starred)) and are_turns(node.value):
            found.add(node.lineno)
        if isinstance(node, LOOPS):
            calls = [
                one
                for one in repeated(node)
                if isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute)
            ]
            found |= {call.lineno for call in calls if call.func.attr in methods}
    return sorted(found)


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_no_module_outside_the_loop_goes_through_the_turns_of_a_dialog(path):
    methods = (
        {"observe", "offer"}
        if path.relative_to(ROOT).parts[0] in WITH_OTHER_STEPS
        else {"observe", "offer", "step"}
    )
    assert not offences(path.read_text(encoding="utf-8"), methods)


@pytest.mark.parametrize(
    "source",
    [
        "for turn in talk.turns:\n    print(turn)",
        "for number, turn in enumerate(dialogs.talk.turns):\n    print(turn)",
        "texts = [turn.reply.texts for turn in talk.turns[1:]]",
        "texts = list(map(str, zip(*talk.turns)))",
        "last = talk.turns[-1]",
        "while True:\n    talk = system.observe(talk, offer, reply)",
        "for text in texts:\n    if text:\n        query, state = retriever.step(state, turn)",
        "offers = [system.offer(talk) for talk in talks]",
    ],
)
def test_going_through_turns_is_found(source):
    assert offences(source, {"observe", "step", "offer"})


@pytest.mark.parametrize(
    "source",
    [
        "if not talk.turns or len(talk.turns) > 3:\n    pass",
        "for number in range(settings.turns):\n    print(number)",
        "rows = [row(turn) for turn in metrics.turns]",
        "for batch in batches:\n    rollout(system, user, batch, first, settings.turns)",
        "for line in lines:\n    live = live.say(line)",
        "for name in names:\n    def observe(talk):\n        return system.observe(talk, offer, reply)",
        "talk = system.observe(talk, system.offer(talk), reply)",
    ],
)
def test_what_holds_no_dialog_is_let_pass(source):
    assert not offences(source, {"observe", "step", "offer"})
