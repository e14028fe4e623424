"""No wait for another process, thread or machine is without a limit."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# methods that wait without end if they are called without arguments
WAITING = {"accept", "acquire", "communicate", "get", "join", "recv", "result", "select", "wait"}
PROGRAMS = {"run", "call", "check_call", "check_output"}  # functions of subprocess
DELIBERATE = {  # file and call: reason
    "fashioniq/files.py _waiting.get()": "a variable of the context, which is there at once",
    "fashioniq/report/person_page.py answer.result()": "a person takes as long as it takes; Ctrl-C ends it",
    "fashioniq/service/inference.py self._jobs.get()": "an idle thread; `close` sends an end marker",
    "fashioniq/service/store/database.py self._waiting.get()": "an idle thread; `close` sends an end marker",
    "benchmarks/scale.py answer.get()": "the process has ended",
    "benchmarks/service_server.py mine.recv()": "polled before",
    "tests/end_to_end/test_extract_ray.py process.stdout.readline()": "selected before",
    "tests/hostile/kills.py pipe.recv()": "polled before",
    "tests/hostile/process_pairs.py process.wait()": "`wait` of processes.py has a limit of its own",
    "tests/hostile/processes.py self._process.stdout.readline()": "selected before",
    "tests/hostile/processes.py self.wait()": "it has a limit of its own",
    "tests/hostile/run.py pipe.recv()": "an idle process, which ends with the one that started it",
    "tests/hostile/run.py worker.pipe.recv()": "polled before",
    "tests/unit/service/test_api.py begun.wait()": "the whole coroutine has a limit",
    "tests/unit/service/test_api.py stop.wait()": "the whole coroutine has a limit",
    "tests/waiting.py pipe.recv()": "polled before",
}


def unlimited(text):
    """Calls in a Python file that may wait without end."""
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        keywords = {keyword.arg for keyword in node.keywords}
        of, name = ast.unparse(node.func.value), node.func.attr
        is_program = of == "subprocess" and name in PROGRAMS and "timeout" not in keywords
        is_pipe = name == "readline" and of.endswith((".stdout", ".stderr"))
        if is_program or is_pipe or (name in WAITING and not node.args and not keywords):
            yield ast.unparse(node)


@pytest.mark.parametrize(
    "text",
    [
        "thread.join()",
        "done = future.result()",
        "subprocess.run(['git'], check=True)",
        "line = process.stdout.readline()",
        "with lock:\n    queue.get()",
    ],
)
def test_a_wait_without_a_limit_is_found(text):
    assert len(list(unlimited(text))) == 1


@pytest.mark.parametrize(
    "text", ["', '.join(names)", "options.get('k')", "thread.join(5)", "lock.acquire(blocking=False)", "subprocess.run(a, timeout=5)"]
)  # fmt: skip
def test_a_wait_with_a_limit_is_not(text):
    assert list(unlimited(text)) == []


def test_every_wait_has_a_limit():
    files = [path for room in ("fashioniq", "tests", "benchmarks") for path in (ROOT / room).rglob("*.py")]
    found = {
        f"{path.relative_to(ROOT).as_posix()} {call}"
        for path in [*files, *ROOT.glob("*.py")]
        if path.name != "test_limits.py"  # the examples above
        for call in unlimited(path.read_text(encoding="utf-8"))
    }
    assert len(files) > 500
    assert found - DELIBERATE.keys() == set(), "give it a limit, or name it in DELIBERATE with the reason"
    assert DELIBERATE.keys() - found == set(), "remove what is no longer there"
