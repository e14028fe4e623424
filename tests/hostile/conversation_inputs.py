"""Cases of conversations, captions of people, and the caches of generators and endpoints."""

import csv
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from answering import answering, completion, text_for, valid
from cases import case_of, damaged, earlier, hostile, some_file, valid as valid_options
from damage import BYTES, TEXTS, mutate, odd_value
from damage_places import spoil_place
from given_options import config_of, options_of
from judge import Case
from world import ASKED, DRAWN, WRITTEN, Options, Room, arguments_of

from fashioniq.prepare.checking_conversations import check_conversations


@hostile("ChatSearch", 600, 8)
def chatsearch(room: Room, rng: Random) -> Case:
    command = rng.choice(("train-chatsearcher", "eval-chatsearch", "eval-chatsearch"))
    talks, draw = room.copy("talks"), rng.random()
    earlier(room, rng, "talks") if rng.random() < 0.1 else None
    if command == "eval-chatsearch" and draw < 0.25:
        path, what = _scores(room, rng)
        case = case_of(room, command, what, scores=[path])
    elif command == "eval-chatsearch" and draw < 0.4:
        run = room.copy("chatsearcher", "run")
        case = case_of(room, command, damaged(rng, some_file(rng, run)), run=run)
    else:
        split = "train" if command == "train-chatsearcher" else "test"
        paths = [talks / "items.jsonl", *talks.glob(f"*.{split}.json*")]
        path = rng.choice(sorted(paths))
        what = damaged(rng, path) if draw < 0.9 else spoil_place(rng, path, room.folder)
        chosen: Options = {"stage": "conversations"} if split == "train" and rng.random() < 0.5 else {}
        case = case_of(room, command, f"{path.name} {what}", data=talks, **chosen)
    return case


@hostile("options of train-chatsearcher", 400, 4)
def options_of_train_chatsearcher(room: Room, rng: Random) -> Case:
    options, _ = valid_options(room)["train-chatsearcher"]
    make = config_of if rng.random() < 0.4 else options_of
    arguments, what = make(room, rng, "train-chatsearcher", options)
    return Case(["train-chatsearcher", *arguments], what, [room.folder], False)


def _scores(room: Room, rng: Random) -> tuple[Path, str]:
    """Scores of a system, damaged or under an odd name."""
    samples = (room.world.root / "talks/t.test.jsonl").read_text().splitlines()
    queries, items = [json.loads(line)["id"] for line in samples], room.world.split("test")
    name = rng.choice(
        ("scores", "scores", "random", "x" * 240, "a\nb", "=1", "<b onclick=pwned()>", "a&b_%\\")
    )
    path = room.path(f"{name}.npz")
    scores_QN = np.random.default_rng(0).random((len(queries), len(items))).astype(np.float32)
    np.savez(path, scores=scores_QN, query_ids=np.array(queries), index_ids=np.array(items))
    return path, f"{name[:9]!r} {damaged(rng, path) if rng.random() < 0.7 else ''}"


@hostile("make-conversations", 300, 4)
def make_conversations(room: Room, rng: Random) -> Case:
    """Catalogs, and what an earlier or an interrupted run left: results, a review, and batches."""
    draw, changed = rng.random(), Options()
    if draw < 0.3:
        changed["data"] = room.catalog()
        what = damaged(rng, some_file(rng, changed["data"]))
    elif draw < 0.6:
        out = room.copy("written", "out")
        name = rng.choice(("conversations.json", "review.jsonl"))
        what = damaged(rng, out / name) if rng.random() < 0.9 else spoil_place(rng, out / name, room.folder)
        changed |= {**WRITTEN, "cache": room.world.root / "answers"}
    else:
        parts = room.path("out.parts")
        parts.mkdir()
        plan = json.loads((room.world.root / "written/conversations.json").read_text())["plan"]
        (parts / "plan.json").write_text(json.dumps(plan))
        made = [one for one in _samples(room) if "m-merged-train" in one["id"]]
        batch = {"made": [{"number": 0, "samples": made}], "dropped": {"x": 1}, "tokens": {}}
        (parts / "train-merged-000000000.json").write_text(json.dumps(batch))
        what = damaged(rng, rng.choice(sorted(parts.iterdir())))
        changed |= {**WRITTEN, "cache": room.world.root / "answers"}
    case = case_of(room, "make-conversations", what, lambda: _found(room.path("out")), whole=False, **changed)
    case.out += [room.path("out.parts")]
    return case


def _samples(room: Room) -> list[dict[str, Any]]:
    lines = [one.read_text().splitlines() for one in (room.world.root / "written").glob("[tim].*.jsonl")]
    return [json.loads(line) for one in lines for line in one]


def _found(folder: Path) -> str | None:
    """A mistake in a folder of conversations but for pictures, which lie elsewhere."""
    return next((one for one in check_conversations(folder) if "there is no picture" not in one), None)


@hostile("captions of people", 450, 6)
def captions_of_people(room: Room, rng: Random) -> Case:
    """CSV files and the files of a catalog that captions of people are saved beside."""
    data, table, draw = room.catalog(), room.path("in.csv"), rng.random()
    names = room.world.split("train")
    rows = [["train", names[number], names[number + 1], f"is {number} and red", "ann"] for number in range(4)]
    with open(table, "w", newline="") as file:
        csv.writer(file).writerows([["split", "candidate", "target", "caption", "person"], *rows])
    if draw < 0.5:
        what = damaged(rng, table)
    else:
        work = {"actions": [{"person": "ann", "pair": rows[0][:3], "skipped": True}], "leases": []}
        saved = [{"candidate": names[0], "target": names[1], "captions": ["red"], "people": ["ann"]}]
        files = {"captions/people.dress.json": work, "captions/cap.dress.train.json": saved}
        files |= {"pairs/pairs.dress.train.json": [{"candidate": names[0], "target": names[1]}]}
        for name, content in files.items():
            (data / name).parent.mkdir(exist_ok=True)
            (data / name).write_text(json.dumps(content))
        path = data / rng.choice((*files, "catalog.json", "titles/dress.train.json"))
        what = damaged(rng, path) if draw < 0.9 else f"{path.name} {spoil_place(rng, path, room.folder)}"
    done: Options = (
        {"import": table} if draw < 0.5 or rng.random() < 0.6 else {"export": room.path("out.csv")}
    )
    options = {"data": data, "category": "dresses", "features": room.world.store, **done}
    writes = [data / "captions", data / "catalog.json", room.path("out.csv")]
    return Case(arguments_of("caption-pairs", **options), what, writes)


# Caches and answers


def _asked(room: Room, rng: Random, cache: Path) -> tuple[str, Options]:
    if rng.random() < 0.7:
        return "make-dialogues", {**ASKED, "cache": cache}
    return "make-conversations", {**WRITTEN, "cache": cache}


@hostile("cached answers", 150, 3)
def cached_answers(room: Room, rng: Random) -> Case:
    cache = room.copy("answers")
    path = some_file(rng, cache)
    what = damaged(rng, path) if rng.random() < 0.8 else spoil_place(rng, path, room.folder)
    command, options = _asked(room, rng, cache)
    case = case_of(room, command, f"{what} of {command}", whole=False, **options)
    case.out += [cache, room.path("out.parts")]
    case.during = answering()
    return case


@hostile("answers of endpoints", 150, 3)
def answers_of_endpoints(room: Room, rng: Random) -> Case:
    """A server that works until it does not: odd texts, values, bytes, statuses and headers."""
    way, at, number = rng.randrange(6), rng.randrange(6), iter(range(10**9))
    about, odd = {"Content-Type": "application/json"}, str(rng.choice(TEXTS))

    def reply(asked: dict[str, Any]) -> tuple[int, dict[str, str], bytes]:
        status, headers, body = valid(asked)
        if next(number) < at:
            return status, headers, body
        if way == 0:
            return status, headers, json.dumps(completion(odd_value(rng))).encode()
        if way == 1:
            return status, headers, json.dumps(mutate(rng, json.loads(body))[1]).encode()
        if way == 2:
            return status, headers, BYTES[rng.choice(list(BYTES))](rng, body)
        if way == 3:
            said = text_for(str(asked["messages"][0]["content"]))
            place = rng.randrange(len(said))
            return status, headers, json.dumps(completion(said[:place] + odd + said[place:])).encode()
        if way == 4:
            status = rng.choice((204, 301, 302, 400, 401, 404, 429, 500, 503, 999))
            moved = {"Location": "file:///etc/passwd", "Retry-After": "999999999"}
            return status, about | moved, json.dumps({"error": {"message": odd}}).encode()
        kind = rng.choice(
            ("Content-Encoding: gzip", "Content-Length: 5", "Transfer-Encoding: chunked", "Content-Type: x")
        )
        name, value = kind.split(": ")
        return status, {**headers, name: value}, body

    command, options = _asked(room, rng, room.path("cache"))
    case = case_of(room, command, f"way {way}, {odd[:20]!r}, {command}", whole=False, **options)
    case.out += [room.path("cache"), room.path("out.parts")]
    case.during = answering(reply)
    return case


@hostile("cached pictures", 200, 3)
def cached_pictures(room: Room, rng: Random) -> Case:
    """Entries of a cache, which are used, made again or refused; the dialogs are those of the right pictures."""
    out, root = room.copy("feedback", "out"), room.world.root
    entries = sorted((out / "pictures").rglob("*.json"))
    path, draw = rng.choice(entries).with_suffix(rng.choice((".json", ".png"))), rng.random()
    if draw < 0.2:
        other = rng.choice([one for one in entries if one.stem != path.stem])
        for suffix in (".json", ".png"):
            shutil.copyfile(other.with_suffix(suffix), path.with_suffix(suffix))
        what = "entry of another request"
    else:
        what = damaged(rng, path) if draw < 0.85 else spoil_place(rng, path, room.folder)
    options: Options = {"data": room.world.catalog, "category": "dresses", "features": root / "seen", **DRAWN}
    options |= {"encoder": room.world.runs["speaker"], "predictor": room.world.runs["dresses"], "out": out}
    check = _same_dialogs(out, root) if path.suffix == ".png" or draw < 0.2 else lambda: None
    return Case(
        arguments_of("eval-dialogs", system="genir", record=True, **options), what, [out], False, check
    )


def _same_dialogs(out: Path, root: Path) -> Callable[[], str | None]:
    def dialogs(folder: Path) -> list[Any]:
        lines = (folder / "feedback.jsonl").read_text().splitlines()
        return [{**json.loads(line), "picture": None} for line in lines]

    return lambda: None if dialogs(out) == dialogs(root / "feedback") else "other dialogs after damage"
