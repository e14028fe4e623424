"""Files of generated dialogs in ChatIR's format, written batch by batch."""

import hashlib
import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, cast

import torch
from rich.progress import track

from fashioniq import plugins
from fashioniq.askers.by_name import (
    asker_of,
    endpoint,
    nothing_searched,
    searched_by_text,
    topics,
)
from fashioniq.askers.language_model import FALLBACK
from fashioniq.config import MakeDialogues
from fashioniq.config.dialogue import PEOPLE
from fashioniq.data.catalog import Catalog
from fashioniq.data.catalog_files import picture_paths, split_file
from fashioniq.data.dialogues import Dialogue, Round, read_dialogues, write_dialogues, written_round
from fashioniq.data.parts import named_part
from fashioniq.data.sanitize import UNKNOWN
from fashioniq.files import UserError, checksum, read_json, remove_leftovers, write_json
from fashioniq.generators.described_products import describer_of
from fashioniq.llm.endpoint import ENDPOINT
from fashioniq.llm.local import VisualQuestionAnswerer
from fashioniq.llm.prompts import PROMPTS, read_prompts
from fashioniq.locks import locked
from fashioniq.loop.exact import NotFiniteError
from fashioniq.loop.messages import Message, User
from fashioniq.loop.rollout import System, rollout
from fashioniq.models.device import pick_device
from fashioniq.report.person_page import person_page
from fashioniq.users.correcting import Correcting
from fashioniq.users.labels import LabelUser
from fashioniq.users.person import Person, Terminal
from fashioniq.users.recorded import RecordedAnswers, WithCaption
from fashioniq.users.vision import PicturesByName, RemoteModel, Visual

PLAN = "plan.json"
_WITHOUT_PART = {"out", "cache", "timeout", "device"}  # options that do not change the dialogs


def make_dialogues(settings: MakeDialogues) -> Path:
    """Generate the dialogs batch by batch in the folder OUT.parts, then write them to one file, which is returned."""
    if not settings.out.name or settings.out.is_dir():
        raise UserError(
            f"expected a file in --out, found {settings.out}; give a file name such as dialogs.json"
        )
    if settings.answerer == "descriptions":
        _describe(settings)
        return settings.out
    if _with_people(settings):
        settings = replace(settings, batch_size=1)  # each finished dialog is saved
    catalog = Catalog(settings.data, settings.category) if settings.category else None
    begun = _begun(settings, catalog)
    recorded = _recorded(settings, catalog) if "recorded" in (settings.questioner, settings.answerer) else []
    system_of = _system_of(settings, catalog, recorded)
    user = WithCaption(_user(settings, catalog, begun, recorded), [dialogue.rounds[0] for dialogue in begun])
    parts = settings.out.with_name(settings.out.name + ".parts")
    with locked(parts):
        remove_leftovers(parts)
        remove_leftovers(settings.out.parent, of=settings.out.name)
        _check_plan(
            parts / PLAN, settings, [_contents(begun), _contents(recorded), _dependencies(settings, catalog)]
        )
        try:
            made = _make(settings, system_of, user, begun, parts)
        except UserError:
            if {path.name for path in parts.iterdir()} == {PLAN}:  # no batch to continue with
                shutil.rmtree(parts)
            raise
        write_dialogues(settings.out, made)
        shutil.rmtree(parts)
    _print_summary(settings, made)
    return settings.out


def _with_people(settings: MakeDialogues) -> bool:
    return settings.answerer in PEOPLE or settings.questioner == "page"


def _describe(settings: MakeDialogues) -> None:
    """Write descriptions of each product of a split as a dialog, in PlugIR's format."""
    if settings.category is None:
        raise UserError("--answerer descriptions describes products by their labels; give --category")
    catalog = Catalog(settings.data, settings.category)
    describer, ids = describer_of(catalog), catalog.ids(settings.split)
    labels = [catalog.labels.get(name, []) for name in ids]
    user, every = Correcting(describer, labels, None, settings.details, settings.seed), torch.arange(len(ids))
    texts = [user.reply(every, Message(), number).texts or () for number in range(1 + settings.rounds)]
    said = zip(*texts, strict=True)
    write_dialogues(
        settings.out, [Dialogue(name, tuple(map(Round, one))) for name, one in zip(ids, said, strict=True)]
    )
    count = 1 + settings.rounds
    print(f"{len(ids):,} products of {settings.split}, {count} descriptions each, in {settings.out}")


def _begun(settings: MakeDialogues, catalog: Catalog | None) -> list[Dialogue]:
    """Images and captions at the start of the dialogs."""
    if (path := _source(settings, catalog)) is not None:
        return [Dialogue(dialogue.image, dialogue.rounds[:1]) for dialogue in read_dialogues(path)]
    if catalog is None:
        raise UserError(
            "expected captions or titles; give a file of dialogs with --captions-from, or a --category "
            "with titles"
        )
    begun = [
        Dialogue(name, (Round(catalog.titles[name]),))
        for name in catalog.ids(settings.split)
        if name in catalog.titles
    ]
    if not begun:
        raise UserError(
            f"expected titles of {settings.split} products of {catalog.category}, found none in "
            f"{settings.data}; "
            "give captions with --captions-from"
        )
    return begun


def _source(settings: MakeDialogues, catalog: Catalog | None) -> Path | None:
    """File of the captions and of recorded dialogs, None if there is none."""
    if settings.captions_from is not None or catalog is None:
        return settings.captions_from
    own = split_file(settings.data, "dialogues", catalog.category, settings.split)
    return own if own.exists() else None


def _recorded(settings: MakeDialogues, catalog: Catalog | None) -> list[Dialogue]:
    """Recorded dialog of each image."""
    if (path := _source(settings, catalog)) is None:
        raise UserError("recorded questions or answers need a file of dialogs; give --captions-from")
    return read_dialogues(path)


def _system_of(
    settings: MakeDialogues, catalog: Catalog | None, recorded: Sequence[Dialogue]
) -> Callable[[Sequence[int]], System]:
    """Function that returns the system for a batch of dialogs, by their numbers.

    It searches only for candidate-aware questions.
    """
    searches = settings.questioner == "candidate-aware" and catalog is not None
    retriever, gallery = searched_by_text(settings, catalog) if searches and catalog else nothing_searched()
    asker = asker_of(settings, catalog, gallery, recorded, settings.answerer == "recorded")
    return lambda numbers: System(retriever, asker(numbers), gallery)


def _user(
    settings: MakeDialogues, catalog: Catalog | None, begun: Sequence[Dialogue], recorded: Sequence[Dialogue]
) -> User:
    """User that --answerer selects. Raises UserError if an option or data are missing."""
    names = [dialogue.image for dialogue in begun]
    if plugins.is_from_outside("users", settings.answerer):
        options = getattr(settings, "answerer_options", None)
        return cast(
            User,
            named_part(
                "users", settings.answerer, options=options, catalog=catalog, ids=names, seed=settings.seed
            ),
        )
    if settings.answerer == "recorded":
        return RecordedAnswers(recorded)
    if settings.answerer == "labels":
        found = topics(catalog)
        assert catalog is not None, "topics raises UserError without a catalog"
        if not any(name in catalog.labels for name in names):
            raise UserError(
                f"none of the {len(names)} images has labels in {settings.data}, such as {names[0]}; "
                "give images of the catalog's products"
            )
        return LabelUser(catalog.labels, found, names)
    paths = picture_paths(settings.images, names) if settings.images else catalog.images if catalog else {}
    if settings.answerer in PEOPLE:
        ask = person_page().ask if settings.answerer == "page" else Terminal()
        return Person(lambda target: paths.get(names[target], names[target]), ask)
    if (name := settings.vqa_model) is None:
        raise UserError("--answerer vqa needs a model; give --vqa-model")
    if missing := [image for image in names if image not in paths]:
        raise UserError(
            f"{len(missing)} of the {len(names)} images have no picture, such as {missing[0]}; "
            "give the folder of the pictures with --images"
        )
    own = read_prompts(settings.prompt)
    if name.startswith(ENDPOINT):
        return Visual(RemoteModel(endpoint(settings, name), own), PicturesByName(paths), names)
    # local models have the prompt that they learned
    answer = None if own["answer"] == PROMPTS["answer"] else own["answer"]
    model = VisualQuestionAnswerer(name, pick_device(settings.device), answer)
    return Visual(model, PicturesByName(paths), names)


def _contents(dialogues: Sequence[Dialogue]) -> list[Any]:
    return [[one.image, *one.rounds] for one in dialogues]


def _dependencies(settings: MakeDialogues, catalog: Catalog | None) -> list[Any]:
    """Checksums of the encoder's and predictor's weights and features, the labels, and the prompts of --prompt."""
    folders = [Path(folder) for folder in (settings.encoder, settings.predictor, settings.features) if folder]
    files = [
        folder / name
        for folder in folders
        for name in ("model.json", "weights.safetensors", "store.json")
        if (folder / name).is_file()
    ]
    own = [dict(read_prompts(settings.prompt))] if settings.prompt else []
    return [[checksum(path) for path in files], catalog.labels if catalog else None, *own]


def _check_plan(path: Path, settings: MakeDialogues, read: list[Any]) -> None:
    """Write the plan, or compare it with the one in the folder. Raises UserError if they differ."""
    digest = hashlib.sha256(json.dumps(read, sort_keys=True).encode()).hexdigest()
    plan: dict[str, Any] = {
        name: str(value) for name, value in asdict(settings).items() if name not in _WITHOUT_PART
    } | {"read": digest}
    if not path.exists():
        for leftover in path.parent.glob("*.json"):  # of a run that was killed while removing the folder
            leftover.unlink()
        write_json(path, plan)
    begun = read_json(path, "the plan of the dialogues", dict)
    if differing := [name for name in plan if begun.get(name) != plan[name]]:
        what = (
            "dialogs, labels, prompts, weights or features"
            if differing[0] == "read"
            else "--" + differing[0].replace("_", "-")
        )
        raise UserError(
            f"the dialogs in {path.parent} were begun with different {what}; "
            "give the same, or remove the folder to start again"
        )


def _make(
    settings: MakeDialogues,
    system_of: Callable[[Sequence[int]], System],
    user: User,
    begun: Sequence[Dialogue],
    parts: Path,
) -> list[Dialogue]:
    """All dialogs; those of finished batches are read, the others generated."""
    made: list[Dialogue] = []
    starts = range(0, len(begun), settings.batch_size)
    for start in track(starts, f"{len(begun)} dialogs", disable=_with_people(settings)):
        path, numbers = parts / f"{start:09}.json", range(start, min(start + settings.batch_size, len(begun)))
        if not path.exists():
            try:
                dialogs = rollout(
                    system_of(numbers),
                    user,
                    torch.tensor(numbers),
                    Message(),
                    1 + settings.rounds,
                    rank=False,
                )
                images = [begun[number].image for number in numbers]
                write_dialogues(
                    path,
                    [
                        Dialogue(image, (rounds[0], *map(written_round, rounds[1:])))
                        for image, rounds in zip(images, dialogs.state.rounds, strict=True)
                    ],
                )
            except EOFError as error:  # the person ended the input
                raise KeyboardInterrupt from error
            except NotFiniteError as error:
                raise UserError(
                    f"the vectors of {settings.encoder} are not finite numbers ({error}); train it again"
                ) from error
        made += read_dialogues(path, alone=False)
    return made


def _print_summary(settings: MakeDialogues, made: Sequence[Dialogue]) -> None:
    rounds = [said for dialogue in made for said in dialogue.rounds[1:]]
    print(
        f"{len(made)} dialogs of {settings.rounds} rounds in {settings.out}: questions "
        f"{settings.questioner}, answers {settings.answerer}"
    )
    if unknown := sum(said.answer == UNKNOWN for said in rounds):
        print(f"{unknown} of {len(rounds)} questions have no answer; it is recorded as {UNKNOWN!r}")
    if unasked := sum(said.question == FALLBACK for said in rounds):
        print(f"{unasked} rounds have no question of their own; it is recorded as {FALLBACK!r}")
