"""`fashioniq chat`."""

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from fashioniq.askers.by_name import asker_of, searched_by_text
from fashioniq.askers.limited import Limited
from fashioniq.config import Chat
from fashioniq.config.shared import CATALOGS, refuse
from fashioniq.data.catalog import Catalog
from fashioniq.features.cards import cards_of
from fashioniq.files import UserError, json_line, one_line
from fashioniq.locks import BRIEF, append_line, locked
from fashioniq.loop.dialog import Dialog
from fashioniq.loop.exact import NotFiniteError
from fashioniq.loop.rollout import System
from fashioniq.systems import chatir, load
from fashioniq.terminal.conversation import Conversation
from fashioniq.terminal.view import View


def run(settings: Chat) -> None:
    """Run one dialog with the person at the terminal and append it to the log."""
    system, folder = _system(settings)
    log = settings.log or folder / "chats" / "dialogs.jsonl"
    with suppress(ImportError):
        import readline  # noqa: F401  # lets input() edit a line and recall earlier ones
    with locked(log.parent, wait=BRIEF):
        pass  # fail before the dialog if the folder cannot be created
    if (log.exists() or log.is_symlink()) and not log.is_file():
        raise UserError(f"cannot write {log}: it is not a file; give another --log")
    view = View(settings.show, log.parent / "chat.html")
    try:
        live = Dialog.start(system)
        instruction = (
            "Describe how the product you want differs from the one marked →. " if live.offered else ""
        )
        print(f"{len(system.gallery):,} products. {instruction}“help” lists the commands.")
        conversation = Conversation(live, view)
        conversation.run()
    except NotFiniteError as error:
        view.discard()
        raise UserError(
            f"{folder} has diverged ({error}); train it again with a lower --learning-rate"
        ) from error
    chosen, live = conversation.chosen, conversation.live
    if chosen:
        print(one_line(f"You chose {chosen}  {system.cards.titles.get(chosen, '')}"))
    if chosen or live.said:
        append_line(log, json_line(live.chosen(chosen)))
        print(f"Chat ended; the dialog is in {log}")
    else:
        print("Chat ended.")


def _system(settings: Chat) -> tuple[System, Path]:
    """The system, and the folder of its chats."""
    encoder = settings.encoder
    run = settings.run or (Path(encoder) if encoder and (Path(encoder) / "model.json").is_file() else None)
    refuse(
        (
            run is None and settings.generator,
            "--generator needs a run of train-dialog-encoder; give it with --run",
        ),
        (settings.run and encoder, "--run and --encoder cannot be combined; leave one of them out"),
    )
    if run is None and settings.questioner != "none":
        return _asking(settings, settings.questioner), Path("runs")
    if run is None and encoder is None:
        raise UserError("give a trained run with --run, or an encoder with --encoder and --data")
    features, data, category = settings.features, settings.data, settings.category
    system = load(
        run,
        features,
        settings.split,
        settings.device,
        encoder=encoder if run is None else None,
        data=data,
        category=category,
        generator=settings.generator,
        predictor=settings.predictor,
    )
    folder = run or Path("runs")
    if system.shows_items and settings.questioner != "none":
        raise UserError(
            f"--questioner {settings.questioner} needs a system that asks questions, found {run or encoder}, which "
            "shows products; leave it out"
        )
    if settings.generator or system.shows_items:
        return system, folder
    if settings.questioner in ("none", "candidate-aware") and not settings.predictor:
        return system, folder
    catalog, store = chatir.run_data(folder, features=features, data=data, category=category)
    chosen = "candidate-aware" if settings.questioner == "none" else settings.questioner
    asker = asker_of(replace(settings, features=store.root, questioner=chosen), catalog, system.gallery)([0])
    return replace(system, asker=Limited(asker, settings.rounds)), folder


def _asking(settings: Chat, questioner: str) -> System:
    """A system with a pretrained encoder that asks questions."""
    if settings.encoder is None or settings.category is None:
        raise UserError(f"--questioner {questioner} needs --run, or --encoder and --category (and --data)")
    catalog = Catalog(settings.data or CATALOGS, settings.category)
    retriever, gallery = searched_by_text(settings, catalog)
    asker = Limited(asker_of(settings, catalog, gallery)([0]), settings.rounds)
    return System(retriever, asker, gallery, cards=cards_of(catalog, None, gallery.items.ids))
