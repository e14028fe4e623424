"""Cases of vectors, words, predictions, dialogs, results, vocabularies and addresses."""

from random import Random

from cases import CHATIR, RANKINGS, VECTORS, case_of, damaged, earlier, hostile
from damage import TEXTS, damage_text
from judge import Case
from world import CLOSED, TRANSFORMER, Options, Room


@hostile("own vectors", 600, 6)
def own_vectors(room: Room, rng: Random) -> Case:
    files = {"vectors": room.copy("vectors.npy"), "ids": room.copy("ids.json")}
    name = rng.choice(list(files))
    what = damaged(rng, files[name])
    return case_of(room, VECTORS, what, **files)


@hostile("word vectors", 220, 4)
def word_vectors(room: Room, rng: Random) -> Case:
    path = room.copy("glove.txt")
    draw = rng.random()
    if draw < 0.5:
        what = damage_text(rng, path)
    else:
        lines = path.read_text().splitlines()
        place = rng.randrange(len(lines))
        number = rng.choice(
            (
                "nan",
                "inf",
                "-inf",
                "1e39",
                "1e400",
                "0x1p3",
                "1_0",
                "１",
                "",
                "x",
                "1e-400",
                "--1",
                "1 2",
                "0",
            )
        )
        words = lines[place].split(" ")
        words[rng.randrange(1, len(words))] = number
        lines[place] = " ".join(words)
        if draw < 0.6:
            lines.insert(0, rng.choice(("9 4", "10 4", "9 5", "-1 4", "x 4", "9 4 1", "9999999999 4", "9 0")))
        path.write_text("\n".join(lines) + rng.choice(("\n", "", "\n\n", "\0")))
        what = f"number {number!r}"
    options = TRANSFORMER | {"turns": 1, "samples": 1}  # the default has no place for word vectors
    return case_of(room, "train-retriever", f"word vectors {what}", whole=False, word_vectors=path, **options)


@hostile("predictions", 800, 8)
def predictions(room: Room, rng: Random) -> Case:
    path = room.copy(rng.choice(("predictions.trec", "predictions.json", "vectors.npz", "scores.npz")))
    what = damaged(rng, path)
    earlier(room, rng, "queries")
    return case_of(room, RANKINGS, what, predictions=path)


@hostile("question dialogs", 800, 8)
def question_dialogs(room: Room, rng: Random) -> Case:
    names = {
        "dialogues": "dialogs.json",
        "search_space": "space.json",
        "query_vectors": "query.npy",
        "gallery_vectors": "gallery.npy",
    }
    files = {option: room.copy(part) for option, part in names.items()}
    if rng.random() < 0.15:
        data = room.catalog()
        path = data / f"dialogues/dress.{rng.choice(('train', 'val', 'test'))}.json"
        what = damaged(rng, path)
        command = rng.choice(("make-dialogues", "train-dialog-encoder"))
        return case_of(room, command, what, data=data, whole=command == "make-dialogues")
    what = damaged(rng, files[rng.choice(list(files))])
    if rng.random() < 0.3:
        changed = {
            "query_vectors": None,
            "gallery_vectors": None,
            "encoder": room.world.runs["encoder"],
            "features": room.world.store,
        }
        return case_of(room, CHATIR, what, **{**files, **changed})
    return case_of(room, CHATIR, what, **files)


@hostile("compare", 700, 8)
def compare(room: Room, rng: Random) -> Case:
    first, second = room.copy("dialogs"), room.copy("dialogs2")
    path = rng.choice((first, second)) / rng.choice(("metrics.json", "dialogs.jsonl"))
    what = damaged(rng, path)
    folders = [first, second] if rng.random() < 0.8 else [f"{first},{second}", str(second)]
    measure = rng.choice(
        ("R@10", "P", "MRR", "Hits@5", "R@1", "R@0", "R@-1", "R@999999999999", "R@x", "", "p", *TEXTS[:8])
    )
    chosen: Options = {"measure": measure} if rng.random() < 0.3 else {}
    return case_of(room, "compare", what, **{"": folders}, **chosen)


@hostile("captions of another speaker", 300, 4)
def other_speakers(room: Room, rng: Random) -> Case:
    path = room.copy("catalog/captions/cap.dress.val.json", "said.json")
    what = damaged(rng, path)
    return case_of(room, "eval-captions", what, captions=path)


@hostile("vocabularies", 300, 4)
def vocabularies(room: Room, rng: Random) -> Case:
    path = room.copy(rng.choice(("vocabulary.csv", "list_attr_cloth.txt")))
    what = damaged(rng, path)
    chosen: Options = (
        {"column": [f"{rng.choice(TEXTS[:30])}={rng.choice(TEXTS[:30])}"]} if rng.random() < 0.2 else {}
    )
    return case_of(room, "extract-attributes", what, vocabulary=path, **chosen)


@hostile("address lists", 200, 4)
def address_lists(room: Room, rng: Random) -> Case:
    data, path = room.catalog(), room.copy("addresses.txt")
    odd = rng.choice(("file:///etc/passwd", "ftp://127.0.0.1/x", "javascript:pwned()", "http://", "//127.0.0.1:9/x", "http://[::1", "http://127.0.0.1:99999/x",
                      "http://127.0.0.1:x/", "gopher://127.0.0.1:9/", "data:image/png;base64,AAAA", "http://127.0.0.1:9/\r\nHost: x", "http://\ud800", "HTTP://127.0.0.1:9",
                      f"{CLOSED}/{'x' * 5000}", f"{CLOSED}/%00%ff", "http://user:pass@127.0.0.1:9/x", "http://0:9/", "unix:///x", "", " ", "\0", "../../PWNED"))  # fmt: skip
    if rng.random() < 0.5:
        name = rng.choice((room.world.ids[0], *TEXTS))
        path.write_bytes(f"{name}\t{odd}\n".encode("utf-8", "surrogatepass") + path.read_bytes())
        what = f"{name[:20]!r} at {odd[:40]!r}"
    else:
        what = damaged(rng, path)
        lines = path.read_bytes().splitlines()  # a damaged address must not leave this machine
        path.write_bytes(
            b"\n".join(line for line in lines if b"://" not in line or b"://127.0.0.1:9/" in line)
        )
    case = case_of(room, "download-images", what, data=data, urls=path, whole=False)
    case.out = [data]
    return case
