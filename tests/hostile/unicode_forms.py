"""Cases of Unicode: ids and words whose accents are written with their letters or after them, and unseen characters.

What is written in another canonical form (NFC, NFD, or a mixture) is the same, and must give the same result. What is
the same in compatibility forms only (NFKC, NFKD), or has characters that nobody sees, may be something else.
"""

import json
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any
from unicodedata import normalize
from urllib.parse import quote
from zipfile import ZipFile

from cases import hostile
from judge import Trial
from PIL import Image
from processes import Process, Wrong, command, verdict
from service_trials import Service, serving
from world import Options, Room, word_of

LETTERS = "éüñçőṩǘåǻ각がΩﬁ①½ßſａक़ệ\u0344\u212b\u2126\ufb2c"
UNSEEN = ("\u200b", "\u200c", "\u200d", "\u200e", "\u200f", "\u202e", "\u2060", "\ufeff", "\u00ad", "\u034f")
WORDS = ("red", "blue", "long", "lace", "dress", "black", "with", "sleeves")
ACCENTED = str.maketrans({"e": "é", "u": "ü", "o": "ǫ̈", "a": "å"})


def same(rng: Random, text: str) -> str:
    """The same text in a canonical form, or each letter in one of its own."""
    form = rng.choice(("NFC", "NFD", ""))
    if form:
        return normalize(form, text)
    text = normalize("NFC", text)
    return "".join(normalize(rng.choice(("NFC", "NFD")), letter) for letter in text)


def alike(rng: Random, text: str) -> str:
    """A text that looks alike, and is another one unless it has no such letters."""
    if rng.random() < 0.5:
        return normalize(rng.choice(("NFKC", "NFKD")), text)
    place = rng.randrange(len(text) + 1)
    return text[:place] + rng.choice(UNSEEN) + text[place:]


def plain(text: str) -> str:
    return normalize("NFC", text)


def accents(rng: Random) -> str:
    """One to three odd letters."""
    return "".join(rng.choices(LETTERS, k=rng.randrange(1, 4)))


def differs(what: str, one: Any, other: Any) -> None:
    """Raise Wrong if two results are not the same."""
    if one != other:
        raise Wrong("silent wrong", f"{what} in another form: expected {one!a:.1500}, found {other!a:.1500}")


def done(room: Room, name: str, options: Options, right: tuple[int, ...] = (0,), said: str = "") -> str:
    """Standard output of a command that ends with a right exit code."""
    process: Process = command(name, options, room.path(f"command{len(list(room.folder.iterdir()))}"), said)
    try:
        process.ended(right)
        return process.out.read_text()
    finally:
        process.kill()


# Imports


@hostile("Unicode in imports", 150, 1)
def imports(room: Room, rng: Random) -> Trial:
    """A table and its pictures, of which ids, words, columns, files and options are each in a form of their own."""
    ids = [f"{accents(rng)}{number}{rng.choice(('', '_1', ' x'))}" for number in range(30)]
    odd = rng.sample(range(30), rng.randrange(6))
    ids = [f"a{rng.choice(UNSEEN)}{one}" if number in odd else one for number, one in enumerate(ids)]
    titles = [" ".join(rng.choices(WORDS, k=4)).translate(ACCENTED) for _ in ids]
    rows = [
        {"idé": one, "titré": title, "cöl": title.split()[0]} for one, title in zip(ids, titles, strict=True)
    ]
    packed, suffix, seed = rng.random() < 0.5, rng.choice((".csv", ".jsonl")), rng.randrange(99)

    def imported(name: str, write: Callable[[str], str]) -> tuple[Path, dict[str, Any]]:
        folder = room.path(name)
        pictures = folder / "photos" / write("röcke")
        pictures.mkdir(parents=True)
        for number, one in enumerate(ids):
            color = (number * 10, 255 - number * 10, number * 97 % 256)
            Image.new("RGB", (32, 32), color).save(pictures / f"{write(one)}.png")
        images = pictures.parent
        if packed:
            images = folder / "photos.zip"
            with ZipFile(images, "w") as archive:
                for path in pictures.iterdir():
                    archive.write(path, f"{pictures.name}/{path.name}")
        columns = {column: write(column) for column in rows[0]}
        written = [{columns[key]: write(value) for key, value in row.items()} for row in rows]
        table = folder / f"table{suffix}"
        if suffix == ".csv":
            lines = [",".join(columns.values()), *(",".join(row.values()) for row in written)]
        else:
            lines = [json.dumps(row, ensure_ascii=rng.random() < 0.5) for row in written]
        table.write_text("\n".join(lines) + "\n", encoding="utf-8")
        options = {
            "table": table,
            "images": images,
            "category": "shirts",
            "data": folder / "data",
            "workers": 0,
        }
        options |= {"id": write("idé"), "title": write("titré"), "attributes": [write("cöl")], "seed": seed}
        if rng.random() < 0.5:
            options["folders"] = [write("röcke")]
        done(room, "import-catalog", options, (0, 2))  # too few products for a split
        root, found = folder / "data", {}
        for path in sorted(root.glob("image_splits/*.json")):
            found[path.name] = sorted(map(plain, json.loads(path.read_text())))
        for path in sorted(root.glob("titles/*.json")):
            found[path.parent.name + path.name] = {
                plain(one): plain(about["title"]) for one, about in json.loads(path.read_text()).items()
            }
        return root, found

    def play() -> str:
        _, first = imported("one", plain)
        root, second = imported("two", lambda text: same(rng, text))
        differs("an import", first, second)
        if not first:
            return "refused"
        given = {"data": root, "category": "shirts", "workers": 0}
        done(room, "check-data", given, (0, 1))
        done(room, "extract-features", {**given, "encoder": "metadata", "features": room.path("new")})
        return "accepted"

    return Trial(["import-catalog"], f"{suffix}, {len(odd)} unseen, {packed=}", verdict(play))


# Searches


def renamed(
    room: Room, write: Callable[[str], str], name: str, prefix: str
) -> tuple[Options, dict[str, str]]:
    """A catalog, its features and a run on them, with accents in ids and words; and the id of each product."""
    catalog, store, run = (room.copy(part, f"{name}/{part}") for part in ("catalog", "store", "retriever"))
    own = {one: write(prefix + one) for one in room.world.ids}
    for path in (*catalog.rglob("*.json"), store / "ids.json"):
        content = _written(json.loads(path.read_text()), own, write, "asin2attr" in path.name)
        path.write_text(json.dumps(content), encoding="utf-8")
    about = json.loads((store / "store.json").read_text())
    about.pop("checksums", None)
    (store / "store.json").write_text(json.dumps(about))
    for path in (run / "config.yaml", run / "model.json"):
        text = path.read_text()
        for place in (catalog, store):
            text = re.sub(rf"{re.escape(str(room.world.root / place.name))}(?=[\n\"])", str(place), text)
        path.write_text(text)
    return {"data": catalog, "features": store, "category": "dresses", "run": run}, own


def _written(value: Any, own: dict[str, str], write: Callable[[str], str], labels: bool) -> Any:
    """A JSON value with other ids, and with accents in its words."""
    if isinstance(value, dict):
        return {own.get(key, key): _written(one, own, write, labels) for key, one in value.items()}
    if isinstance(value, list):
        return [_written(one, own, write, labels) for one in value]
    if not isinstance(value, str) or value in own:
        return own.get(value, value)
    return write(value.translate(ACCENTED)) if labels or " " in value else value


@hostile("Unicode in searches and chats", 150, 2)
def searches(room: Room, rng: Random) -> Trial:
    """The same catalog and words in two ways: the results are the same."""
    text = " ".join(["is", "red", *rng.choices([one.translate(ACCENTED) for one in WORDS], k=2)])
    odd, prefix, talks = alike(rng, text), accents(rng), rng.random() < 0.5

    def found(name: str, write: Callable[[str], str]) -> list[tuple[str, ...]]:
        given, _ = renamed(room, write, name, prefix)
        if talks:
            said = f"{write(text)}\n{odd}\nmore like 1 {write(text)}\nthis is it 2\n"
            out = done(room, "chat", {**given, "log": room.path(name) / "log.jsonl"}, said=said)
        else:
            out = done(room, "search", {**given, "text": write(text)})
            done(room, "search", {**given, "text": odd})
        rows = re.findall(r"^ +(\d+) +(\S+) .*?(-?\d+\.\d+)? *$", plain(out), re.MULTILINE)
        if len(rows) < 3:
            raise Wrong("silent wrong", f"no products in {out!a:.2000}")
        return rows

    def play() -> str:
        differs("a search", found("one", plain), found("two", lambda text: same(rng, text)))
        return "accepted"

    return Trial(["chat" if talks else "search"], f"{text!a} {odd!a} {prefix!a}", verdict(play))


# The service


@hostile("Unicode in a service", 100, 1)
def services(room: Room, rng: Random) -> Trial:
    """Products and words in the forms of the catalog, in others, and alike; then nothing of what is erased is left."""
    prefix, category = accents(rng), "/v1/categories/dresses"
    given, own = renamed(room, lambda text: same(rng, text), "log", prefix)

    def expect(service: Service, right: int | tuple[int, ...], *request: Any, **more: Any) -> Any:
        status, answer = service.ask(*request, **more)
        if status not in (right if isinstance(right, tuple) else (right,)):
            raise Wrong("silent wrong", f"{request!a:.300}: expected {right}, found {status} {answer!a:.500}")
        return answer

    def play(service: Service, rng: Random) -> str:
        price = {"price": {"minor": rng.randrange(9999), "currency": "EUR"}}
        for one in rng.sample(sorted(own.values()), 3):
            address = f"{category}/products/{quote(same(rng, one))}"
            about = expect(service, 200, "GET", address)
            differs("a product", one, about["product_id"])
            expect(service, 200, "GET", f"{address}/similar")
            turns = {"turns": [{"says": "is red", "about": same(rng, one)}, {"like": same(rng, one)}]}
            expect(service, 200, "POST", f"{category}/search", turns)
            put = expect(
                service, 200, "PUT", f"{category}/products", {"products": [{"id": same(rng, one), **price}]}
            )
            differs("searchable", True, put["items"][0].get("searchable"))
            expect(service, 204, "PATCH", f"{category}/products/{quote(same(rng, one))}", {"in_stock": False})
            differs(
                "a price", price["price"]["minor"], expect(service, 200, "GET", address)["price"]["minor"]
            )
            other = alike(rng, one)
            if plain(other) not in map(plain, own.values()):
                expect(service, (404, 422), "GET", f"{category}/products/{quote(other)}")
                expect(service, (404, 422), "DELETE", f"{category}/products/{quote(other)}")
        for _ in range(3):
            text = " ".join(["is", "red", *rng.choices([one.translate(ACCENTED) for one in WORDS], k=3)])
            one, other = (
                expect(service, 200, "POST", f"{category}/search", {"turns": [{"says": said}]})["results"]
                for said in (plain(text), same(rng, text))
            )
            differs("a search", one, other)
            expect(service, (200, 422), "POST", f"{category}/search", {"turns": [{"says": alike(rng, text)}]})
        _talk(service, rng, same(rng, rng.choice(sorted(own.values()))), expect)
        service.shopping(rng, 3)
        service.end()
        service.check()
        return "accepted"

    return serving(room, rng, f"{prefix!a}", play, run=given["run"])


def _talk(service: Service, rng: Random, product: str, expect: Callable[..., Any]) -> None:
    """A session with a word that is said in many ways, which is erased by its client in another form."""
    client, word = f"josé{accents(rng)}", "zq" + "".join(rng.choices("bcdfghjklm", k=8)) + accents(rng) + "x"
    begin = {"category": "dresses", "consent": "training", "client_id": same(rng, client)}
    made = expect(service, 201, "POST", "/v1/sessions", {**begin, "start": {"product_id": product}})
    path, token = f"/v1/sessions/{made['session_id']}", made["session_token"]
    for said in (same(rng, word), alike(rng, word), same(rng, word)):
        turn = expect(service, (201, 422), "POST", f"{path}/turns", {"says": f"is red and {said}"}, token)
        if shown := turn.get("results"):
            like = same(rng, shown[0]["product_id"])
            expect(service, 201, "POST", f"{path}/turns", {"like": like}, token)
            event = {"event_id": same(rng, f"{word}é"), "action_name": "click", "query_id": turn["query_id"]}
            event |= {"session_id": made["session_id"], "timestamp": "2026-11-22T10:00:00Z"}
            event |= {"event_attributes": {"object": {"object_id": like}}}
            told = expect(service, 202, "POST", "/v1/events", {"events": [event]})
            differs("an event", False, told["errors"])
    expect(service, 204, "DELETE", f"/v1/clients/{quote(same(rng, client))}")
    expect(service, 404, "GET", path, None, token)
    service.erased |= {made["session_id"], word[:10]}  # the part that every form has


# What is learned


@hostile("Unicode in what is learned", 80, 1)
def learned(room: Room, rng: Random) -> Trial:
    """Shoppers say the same words in other forms; of those that are erased, none is left in any form."""
    database, out = room.copy("log.db"), room.path("out")
    own = {number: word_of(number) + accents(rng) for number in range(24)}
    with closing(sqlite3.connect(database)) as connection:
        connection.execute(
            "PRAGMA secure_delete = ON"
        )  # as the service: what moves to another page leaves nothing
        rows = connection.execute(
            "SELECT query_id, session_id, says FROM turn WHERE says IS NOT NULL"
        ).fetchall()
        for query, session, says in rows:
            number = int(session[1:])
            says = says.replace(word_of(number), own[number]).translate(ACCENTED)
            says = same(rng, says) if rng.random() < 0.7 else alike(rng, says)
            connection.execute("UPDATE turn SET says = ? WHERE query_id = ?", (says, query))
        connection.commit()
    learn: Options = {"database": f"sqlite:///{database}", "out": out, "epochs": 1, "min_targets": 2}
    learn["run"] = room.world.runs["retriever"]
    erased = rng.sample(range(24), 3)

    def play() -> str:
        done(room, "learn", learn, (0, 1))
        words = json.loads((out / "run" / "model.json").read_text())["words"]
        differs("words", len(words), len(set(map(plain, words))))
        for number in erased:
            done(room, "forget", {"database": learn["database"], "session": f"s{number}"})
        begins = {word_of(number).translate(ACCENTED) for number in erased}
        for path in room.folder.rglob("*"):
            text = plain(path.read_bytes().decode("utf-8", "ignore")) if path.is_file() else ""
            text = "".join(letter for letter in text if letter not in UNSEEN)
            if left := [one for one in begins if one in text or json.dumps(one)[1:-1] in text]:
                raise Wrong("silent wrong", f"{path.relative_to(room.folder)} has {left}")
        return "accepted"

    return Trial(["learn", "forget"], f"erased {erased}", verdict(play))
