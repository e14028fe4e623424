"""Cases of the service: options of its commands, what `learn` reads, and folders of Milvus."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random
from unittest.mock import patch

from cases import hostile, some_file
from damage import NUMBERS, TEXTS, damage_bytes
from damage_places import spoil_place
from given_options import config_of, options_of
from judge import Case
from world import Options, Room, arguments_of

LONG = (
    "x" * 100_000,
    "red " * 25_000,
    "zz " * 3000,
    "a\u0301" * 500,
    "\ufeff",
    "\u2028",
    "\x85",
    "１２",
    "=1+1",
)
COLUMNS = {
    "turn": (
        "says",
        "says",
        "says",
        "about",
        "shown",
        "heard",
        "word_ids",
        "filters",
        "created_at",
        "n",
        "kind",
    ),
    "session": ("id", "client", "created_at", "origin", "model"),
    "event": ("product_id", "action", "server_at", "query_id"),
}


@contextmanager
def not_serving() -> Iterator[None]:
    """Let `serve` open all that it is given, and end at once."""
    with patch("uvicorn.Server.run"):
        yield


def options(room: Room, database: Path) -> dict[str, Options]:
    """Valid options of the commands of the service."""
    url, run = f"sqlite:///{database}", room.world.runs["retriever"]
    return {
        "serve": {"run": [run], "database": url, "port": 0, "split": "test", "models": room.world.root},
        "learn": {"run": run, "database": url, "out": room.path("out"), "epochs": 1, "min_targets": 2},
        "forget": {"database": url, "session": "s1"},
        "api-key": {"database": url, "scopes": ["search"]},
        "compare-live": {"database": url, "run": run, "most": 200, "out": room.path("live.html")},
    }


@hostile("options of the service", 450, 6)
def options_of_the_service(room: Room, rng: Random) -> Case:
    command = rng.choice(("serve", "serve", "learn", "forget", "api-key", "compare-live"))
    valid = options(room, room.copy("log.db"))[command]
    make = config_of if rng.random() < 0.5 else options_of
    arguments, what = make(room, rng, command, valid)
    return Case(
        [command, *arguments], f"{command}: {what}", [room.folder], False, during=not_serving(), apart=True
    )


def odd_word(rng: Random) -> str:
    """Words that nobody should say, most of them beside words that have a meaning."""
    return rng.choice(("", "is red ", "is blue ")) + rng.choice((*TEXTS, *LONG))


@hostile("what learn reads", 150, 2)
def what_learn_reads(room: Room, rng: Random) -> Case:
    database, draw = room.copy("log.db"), rng.random()
    if draw < 0.2:
        what = damage_bytes(rng, database) if rng.random() < 0.8 else spoil_place(rng, database, room.folder)
    else:
        table = rng.choice(("turn", "turn", "session", "event"))
        column = rng.choice(COLUMNS[table])
        value = odd_word(rng) if draw < 0.85 else rng.choice(("[1]", "{", "null", "[]", *map(str, NUMBERS)))
        words = value.encode("utf-8", "surrogatepass")
        kind = rng.choice(("text", "text", "text", "blob"))
        rows = rng.choice(("1", "rowid % 3 = 1", "rowid = 5"))
        with closing(sqlite3.connect(database)) as connection:
            connection.execute(
                f"UPDATE OR IGNORE {table} SET {column} = CAST(? AS {kind}) WHERE {rows}", (words,)
            )
            connection.commit()
        what = f"{table}.{column} {kind} {value[:40]!r} where {rows}"
    arguments = arguments_of("learn", **options(room, database)["learn"])
    return Case(arguments, what, [room.folder], False)


@hostile("folder of Milvus", 150, 2)
def folder_of_milvus(room: Room, rng: Random) -> Case:
    folder, draw = room.copy("milvus.db"), rng.random()
    if draw < 0.2:
        what = spoil_place(rng, folder, room.folder)
    elif draw < 0.4:
        path = rng.choice(sorted(folder.rglob("*")))
        what = f"{path.name} {spoil_place(rng, path, room.folder)}"
    else:
        path = some_file(rng, folder)
        if not os.path.getsize(path):
            path.write_bytes(b"x")
        what = f"{path.name} {damage_bytes(rng, path)}"
    given = {"run": room.world.runs["retriever"], "data": room.world.catalog, "category": "dresses"}
    given |= {"features": room.world.store, "text": "is red", "gallery": f"milvus://{folder}"}
    return Case(arguments_of("search", **given), what, [room.folder], False, apart=True)
