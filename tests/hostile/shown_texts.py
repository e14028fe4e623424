"""Cases of pages, indexes, updates and live dialogs."""

import json
from pathlib import Path
from random import Random
from typing import Any

from cases import CHATIR, case_of, damaged, earlier, hostile, some_file
from damage import PAYLOADS, TEXTS
from judge import Case
from world import TINY_PICTURES, Options, Room


@hostile("HTML and scripts", 500, 6)
def html(room: Room, rng: Random) -> Case:
    command = rng.choice(
        (
            "eval-dialogs",
            "eval-dialogs",
            "compare",
            "chat",
            CHATIR,
            "make-dialogues",
            "extract-attributes",
            "train-attributes",
        )
    )
    if command == "train-attributes" and rng.random() < 0.6:
        command = "chat"
    said = rng.choice(PAYLOADS)
    if command == "compare":
        first, second = (
            room.copy("dialogs", rng.choice(("dialogs", "a<b onclick=pwned()>"))),
            room.copy("dialogs2"),
        )
        return case_of(room, command, _scripted(rng, rng.choice((first, second))), **{"": [first, second]})
    if command == CHATIR:
        path = room.copy("dialogs.json", rng.choice(("dialogs.json", "<b onclick=pwned()>.json")))
        what = _scripted(rng, path)
        return case_of(room, command, what, dialogues=path)
    data = room.catalog(pictures=True)
    what = ", ".join(
        _scripted(rng, folder)
        for folder in rng.sample([data / "titles", data / "attributes", data / "catalog.json"], 2)
    )
    if command == "chat":
        case = case_of(room, command, what, data=data)
        case.said = f"{said}\nis {said} red\nmore like 2 {said}\nthis is it 1\n"
        return case
    if command == "train-attributes":
        return case_of(room, command, what, data=data, min_count=1, whole=False)
    return case_of(room, command, what, data=data)


def _scripted(rng: Random, path: Path) -> str:
    """Put scripts into about a third of the texts of a JSON file, or of all JSON files of a folder."""

    def of(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {name: of(one, name) for name, one in value.items()}
        if isinstance(value, list):
            return [of(one, key) for one in value]
        kept = key in ("target", "shown", "item", "top", "protocol", "img", "kind", "split", "category")
        return (
            f"{value} {rng.choice(PAYLOADS)}"
            if isinstance(value, str) and not kept and rng.random() < 0.3
            else value
        )

    paths = [path] if path.is_file() else [*path.glob("*.json"), *path.glob("*.jsonl")]
    for one in paths:
        if one.suffix == ".json":
            one.write_text(json.dumps(of(json.loads(one.read_text())), ensure_ascii=False))
        else:
            lines = [
                json.dumps(of(json.loads(line)), ensure_ascii=False) for line in one.read_text().splitlines()
            ]
            one.write_text("\n".join(lines) + "\n")
    return f"scripts in {path.name}"


FAISS_PARTS = ("Flat", "IVF2", "IVF0", "IVF99999", "HNSW8", "HNSW0", "PQ2", "PQ0", "PQ4x4", "OPQ2", "PCA4", "PCAR8", "SQ8", "LSH", "L2norm", "RR", "IDMap", "IDMap2",
               "Refine(Flat)", "RFlat", "NSG4", "ITQ", "Pad16", "", "-1", "IVF2_HNSW4", "IMI2x2", "Residual2x2", "ZnLattice3x1_1", "FlatDedup",
               "PQ8x8fs", "IVF1", "Flat,Flat", "x", "\n")  # fmt: skip


@hostile("FAISS index", 320, 4)
def faiss_index(room: Room, rng: Random) -> Case:
    parts = rng.sample(FAISS_PARTS, rng.choice((1, 2, 2, 3)))
    index = rng.choice(
        (",".join(parts), ",".join(parts), "".join(parts), rng.choice(TEXTS).replace("\0", ""))
    )
    earlier(room, rng)
    case = case_of(room, "eval-dialogs", f"--index {index!r}")
    case.arguments += [f"--index={index}"]
    return case


@hostile("--update", 450, 6)
def update(room: Room, rng: Random) -> Case:
    kind = rng.choice(("store", "metadata", "pictures"))
    store, data = room.copy(kind, "store"), room.catalog(pictures=kind == "pictures" or rng.random() < 0.3)
    done = [kind]
    if rng.random() < 0.7:
        done.append(damaged(rng, some_file(rng, store)))
    if rng.random() < 0.5:
        path = data / "image_splits/split.dress.test.json"
        path.write_text(
            json.dumps([*json.loads(path.read_text()), "new", *rng.sample(TEXTS[:20], 1)], ensure_ascii=True)
        )
        done.append("more products")
    if rng.random() < 0.3:
        (store / "parts").mkdir()
        (store / "parts" / rng.choice(("plan.json", "0.npz", "0.npy", "x"))).write_bytes(
            rng.choice((b"", b"{}", b"[]", b"\0" * 50))
        )
        done.append("parts")
    chosen: Options = {"encoder": "metadata"}
    if kind == "pictures":
        chosen = {**TINY_PICTURES}
    elif rng.random() < 0.2:
        chosen = {
            "encoder": rng.choice(("metadata", "own", "test_efficientnet")),
            "weights": "none",
        }
    case = case_of(
        room,
        "extract-features",
        ", ".join(done),
        data=data,
        features=store,
        update=True,
        whole=False,
        **chosen,
    )
    return case


@hostile("typed into chat", 500, 6)
def typed_into_chat(room: Room, rng: Random) -> Case:
    lines = ["more like 99999999999999999999999", "more like 0", "more like -1", "more like 1 " + "red " * 3000, "this is it 0", "this is it 99999", "undo",
             "undo", "help", "more like ２", "more like ²", "this is it １", "this is it " + "9" * 5000, "quit now", "red", "is blue", "more like 1 but longer", "x" * 100_000,
             "no", "yes", *TEXTS]  # fmt: skip
    said = "".join(rng.choice(lines) + "\n" for _ in range(rng.randrange(1, 25)))
    run = room.world.runs[rng.choice(("retriever", "linear", "encoder"))]
    case = case_of(room, "chat", f"{said[:80]!r}", run=run)
    case.said = said + rng.choice(("", "quit\n", "this is it\n", "this is it 2\n"))
    case.whole = False
    return case
