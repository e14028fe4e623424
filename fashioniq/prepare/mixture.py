"""Instruction data of others as conversations that the assistant ends (ChatSearch, section 4.3).

    LLaVA            FILE.json: [{"image": name, "conversations": [{"from": "human" or "gpt", "value": text}, …]}, …]
    InstructPix2Pix  seeds.json, and beside it */prompt.json {"edit": text}, beside pairs SEED_0.jpg and SEED_1.jpg

Pictures become items of train, named by their path; they are copied nowhere.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from fashioniq.data.conversation_records import ConversationItem, ConversationTurn, Text, TurnPicture
from fashioniq.data.conversations import (
    TALKS,
    Conversations,
    Talk,
    fault_of_talk,
    pictures_of,
    read_talks,
    write_items,
)
from fashioniq.files import UserError, explaining, read_json, write_jsonl

SEEDS = "seeds.json"  # of InstructPix2Pix
MARK = "<image>"  # of the picture in LLaVA's texts
ROLES = {"human": "user", "gpt": "assistant"}
REQUESTS = ("I like this, but {}.", "Can you show me this one, but {}?", "Something like that, please: {}.")


def add_mixture(path: Path, pictures: Path, out: Path) -> tuple[int, int, int]:
    """Add the conversations of `path` to the folder `out`; return their number, and those of new items and of
    conversations left out, in which a picture, a turn or its answer is missing.

    LLaVA's pictures are relative to the folder `pictures`. Raises UserError for files of another form, and if none
    of the conversations is complete.
    """
    pairs = path.name == SEEDS
    made = list(_of_pairs(path.parent) if pairs else _of_llava(path, pictures))
    talks = [
        talk
        for talk, files in made
        if all(file.is_file() for file in files.values()) and not fault_of_talk(talk)
    ]
    if not talks:
        raise UserError(
            f"expected conversations with pictures in {path}, found {len(made)} without; give LLaVA's .json with the "
            f"folder of its pictures in --data, or the {SEEDS} in InstructPix2Pix's folder"
        )
    data, kept = Conversations(out), set(talks)
    known = dict(data.items) if (out / "items.jsonl").exists() else {}
    before = [talk for talk in read_talks(data) if talk not in kept] if known else []
    files = {name: file for talk, found in made if talk in kept for name, file in found.items()}
    new = {
        name: ConversationItem(
            name,
            os.path.relpath(file, out),
            caption="",
            source=path.parent.name if pairs else path.name,
            split="train",
        )
        for name, file in files.items()
        if name not in known
    }
    out.mkdir(parents=True, exist_ok=True)
    write_items(out, [*known.values(), *new.values()])
    write_jsonl(out / TALKS, [*before, *talks])
    return len(talks), len(new), len(made) - len(talks)


Made = Iterator[tuple[Talk, dict[str, Path]]]  # conversations with the files of their pictures by name


def _of_llava(path: Path, pictures: Path) -> Made:
    entries = read_json(path, "LLaVA's conversations", list)
    for number, entry in enumerate(entries):
        with explaining(
            f"{path}, entry {number}: expected an image and conversations of human and gpt",
            "; correct it",
            (KeyError, TypeError, AttributeError, msgspec.ValidationError),
        ):
            image, said = entry["image"], entry["conversations"]
            name = f"{path.stem}/{image}"
            turns = tuple(
                ConversationTurn(ROLES[one["from"]], _content(one["value"], name))  # type: ignore[arg-type]
                for one in said
            )
            talk = msgspec.convert({"turns": msgspec.to_builtins(turns)}, Talk)
        yield talk, {one: pictures / image for one in pictures_of(talk.content)}


def _content(text: str, name: str) -> tuple[Text | TurnPicture, ...]:
    """Words, with the picture in place of its mark."""
    parts: list[Text | TurnPicture] = []
    for number, piece in enumerate(text.split(MARK)):
        parts += [TurnPicture(name)] if number else []
        parts += [Text(piece.strip())] if piece.strip() else []
    return tuple(parts)


def _of_pairs(folder: Path) -> Made:
    for prompt in sorted(folder.rglob("prompt.json")):
        about: dict[str, Any] = read_json(prompt, "a prompt of InstructPix2Pix", dict)
        edit = about.get("edit")
        if not isinstance(edit, str) or not edit.strip():
            raise UserError(f'{prompt}: expected {{"edit": text}}; correct or remove it')
        for before in sorted(prompt.parent.glob("*_0.jpg")):
            after = before.with_name(before.name.removesuffix("_0.jpg") + "_1.jpg")
            first, second = (
                f"{folder.name}/{file.relative_to(folder).as_posix()}" for file in (before, after)
            )
            request = REQUESTS[sum(map(ord, first)) % len(REQUESTS)].format(edit.strip().rstrip("."))
            turns = (
                ConversationTurn("user", (TurnPicture(first), Text(request))),
                ConversationTurn("assistant", (TurnPicture(second),)),
            )
            yield Talk(turns), {first: before, second: after}
