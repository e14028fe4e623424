"""Cases of tables, archives and pictures."""

import os
import tarfile
import zipfile
from pathlib import Path
from random import Random

from cases import case_of, damaged, hostile
from damage import TEXTS, damage_bytes
from damage_places import picture_bytes, spoil_place
from judge import Case
from world import Options, Room


@hostile("tables", 600, 8)
def tables(room: Room, rng: Random) -> Case:
    suffix = rng.choice(("csv", "csv", "jsonl", "parquet"))
    path = room.copy(f"table.{suffix}")
    what = damaged(rng, path) if suffix != "parquet" else _parquet(rng, path)
    changed: Options = {"table": path}
    if rng.random() < 0.3:
        changed[rng.choice(("picture", "group", "where", "url"))] = rng.choice(
            ("photo", "colour=red", "kind", *TEXTS[6:])
        )
    if "url" in changed:
        changed["images"] = None
    return case_of(room, "import-catalog", what, whole=False, **changed)


def _parquet(rng: Random, path: Path) -> str:
    import pyarrow
    from pyarrow import parquet

    if rng.random() < 0.5:
        return f"parquet {damage_bytes(rng, path)}"
    rows = 12
    column = rng.choice(("id", "title", "colour"))
    odd = rng.choice(
        ([None] * rows, [[1, 2]] * rows, [{"a": 1}] * rows, [b"\xff\xfe"] * rows, [1.5] * rows, [float("nan")] * rows, ["x" * 10_000] * rows,
         ["same"] * rows, list(TEXTS[13:13 + rows]), [True] * rows, list(range(2**62, 2**62 + rows)))
    )  # fmt: skip
    columns = {"id": [f"p{number}" for number in range(rows)], "title": ["red dress"] * rows, "colour": ["red", "blue"] * 6,
               "kind": ["dress"] * rows}  # fmt: skip
    parquet.write_table(pyarrow.table({**columns, column: odd}), path)
    return f"parquet {column} of {str(odd[0])[:40]}"


NAMES = ("../../PWNED.jpg", "/tmp/PWNED.jpg", "a/../../PWNED.jpg", "..\\..\\PWNED.jpg", "C:\\PWNED.jpg", "", "/", ".", "..", "a//b.jpg", "x" * 300 + ".jpg",
         "con.jpg", "\0.jpg", "a\nb.jpg", "\x1b[31m.jpg", "\u202egpj.x", "é.jpg", "p1.jpg/", "p1.jpg", "P1.JPG", "p1.jpg ", "p1.jpg.", "./p1.jpg", "~/p1.jpg",
         "a/b/c/d/e/f/p1.jpg", "__MACOSX/._p1.jpg", ".hidden.jpg", "<script>pwned()</script>.jpg", "p1.svg", "p1.jpg.exe")  # fmt: skip


@hostile("archives", 600, 8)
def archives(room: Room, rng: Random) -> Case:
    path = room.copy("photos.zip")
    way = rng.randrange(6)
    if way <= 1:
        what = damage_bytes(rng, path)
    elif way == 2:
        path, what = _tar(room, rng)
    else:
        what = _zip(rng, path)
    table: Options = dict.fromkeys(("table", "id", "title", "attributes")) if rng.random() < 0.5 else {}
    return case_of(room, "import-catalog", f"archive {what}", whole=False, images=path, **table)


def _zip(rng: Random, path: Path) -> str:
    import warnings

    warnings.simplefilter("ignore")
    name, kind = (
        rng.choice(NAMES),
        rng.choice(
            ("member", "link", "device", "bomb", "twice", "encrypted", "lying size", "nested", "comment")
        ),
    )
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        about = zipfile.ZipInfo("x.jpg")
        about.filename = name
        photo = archive.read("p1.jpg")
        if kind == "link":
            about.external_attr = 0o120777 << 16
            archive.writestr(about, "/etc/passwd")
        elif kind == "device":
            about.external_attr = 0o020666 << 16
            archive.writestr(about, b"")
        elif kind == "bomb":
            about.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(about, bytes(30_000_000))
        elif kind == "twice":
            for _ in range(3):
                archive.writestr(about, photo)
        elif kind == "encrypted":
            about.flag_bits |= 1
            archive.writestr(about, photo)
        elif kind == "comment":
            archive.comment = os.urandom(0) + bytes(rng.randrange(60_000))
            archive.writestr(about, photo)
        elif kind == "nested":
            archive.writestr(about, path.read_bytes()[:100])
        else:
            archive.writestr(about, photo)
    if kind == "lying size":
        data = path.read_bytes()
        place = data.rindex(b"PK\x01\x02")
        path.write_bytes(data[: place + 20] + rng.randbytes(8) + data[place + 28 :])
    return f"{kind} {name[:40]!r}"


def _tar(room: Room, rng: Random) -> tuple[Path, str]:
    path = room.path(rng.choice(("photos.tar", "photos.tar.gz", "photos.zip", "photos.tgz")))
    with tarfile.open(
        path,
        "w:gz" if "gz" in path.name else "w",
        format=rng.choice((tarfile.PAX_FORMAT, tarfile.GNU_FORMAT)),
    ) as archive:
        for number in range(3):
            archive.add(room.world.root / f"photos/p{number}.jpg", f"p{number}.jpg")
        about = tarfile.TarInfo(rng.choice(NAMES).replace("\0", "") or "x")
        about.type = rng.choice(
            (
                tarfile.SYMTYPE,
                tarfile.LNKTYPE,
                tarfile.CHRTYPE,
                tarfile.FIFOTYPE,
                tarfile.DIRTYPE,
                tarfile.REGTYPE,
            )
        )
        about.linkname = rng.choice(("/etc/passwd", "../../x", "p0.jpg", ""))
        archive.addfile(about)
    return path, f"{path.name} {about.name[:40]!r}"


@hostile("pictures", 700, 8)
def pictures(room: Room, rng: Random) -> Case:
    folder = room.copy("photos", "photos")
    done = []
    for number in rng.sample(range(12), rng.choice((1, 3, 12))):
        what, data = picture_bytes(rng)
        path = folder / f"p{number}{rng.choice(('.jpg', '.jpg', '.png', '.webp', '.jpeg'))}"
        path.write_bytes(data)
        done.append(what)
    if rng.random() < 0.15:
        done.append(spoil_place(rng, folder / "p0.jpg", folder)) if folder.is_dir() else None
        folder.mkdir(exist_ok=True) if not folder.exists() else None
    what, draw = ", ".join(done[:3]), rng.random()
    if draw < 0.45:
        table: Options = dict.fromkeys(("table", "id", "title", "attributes")) if rng.random() < 0.5 else {}
        return case_of(room, "import-catalog", what, whole=False, images=folder, **table)
    data = room.catalog()
    images = data / "images"
    images.mkdir(exist_ok=True)
    for name, path in zip(room.world.ids, sorted(folder.iterdir()), strict=False):
        if path.is_file() and not path.is_symlink():
            path.rename(images / f"{name}{path.suffix}")
    if draw < 0.75:
        return case_of(room, "check-data", what, data=data, images=None)
    chosen = {"encoder": "test_efficientnet", "weights": "none", "image_size": 32}
    return case_of(room, "extract-features", what, data=data, whole=False, **chosen)
