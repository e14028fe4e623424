"""Names in --users of a training: what they stand for, and whether they go with the other options."""

from collections.abc import Collection, Sequence
from pathlib import Path

from fashioniq import plugins
from fashioniq.config import TrainRetriever
from fashioniq.data.catalog import Catalog
from fashioniq.data.items import Items
from fashioniq.data.sessions import Session, holds_sessions, sessions_among
from fashioniq.features.selection import run_folder
from fashioniq.files import UserError
from fashioniq.options import refuse

SESSIONS = "sessions"  # stands for a folder of sessions in what a run records


def names_of(settings: TrainRetriever, catalog: Catalog) -> list[str]:
    """Names of the users, with the folder of the captioner; one that is named twice occurs once."""
    run = run_folder(settings.captioner, "captioner", settings.category, settings.attrs)
    labelled = any(any(catalog.labels.get(name, ())) for name in catalog.ids("train"))
    names = settings.users or [
        "captioner",
        *(["differences"] if labelled else []),
        *(["recorded"] if any(pair.target for pair in catalog.pairs("train")) else []),
    ]
    if "differences" in names and not labelled:
        raise UserError(
            f"--users differences needs attribute labels, found none of the train products in {catalog.root}; "
            "make them with `fashioniq extract-attributes`, or leave differences out"
        )
    check_users(names)
    if "captioner" in names and not settings.captioner and not run.exists():
        command = f"fashioniq train-captioner --data {settings.data} --category {settings.category}"
        command += f" --features {settings.features}" if settings.features else ""
        raise UserError(
            f"found no captioner in {run}, the default of --captioner; train it with "
            f"`{command}{' --attrs' if settings.attrs else ''}`, give another with --captioner, or train "
            "without a captioner with --users differences recorded"
        )
    return list(dict.fromkeys(str(run) if name == "captioner" else name for name in names))


def check_users(names: Sequence[str]) -> None:
    """Raise UserError for a name that is none of a user, of a run or of a folder of sessions."""
    for name in names:
        if name in ("captioner", "recorded") or plugins.is_part("users", name):
            continue
        if not (Path(name, "model.json").exists() or holds_sessions(Path(name))):
            raise UserError(
                "expected captioner, differences, recorded, a run of train-captioner, a user of your own, or a folder "
                f"of Multiturn FashionIQ with sessions of train in --users, found {name}"
            )


def folders_of_sessions(names: Sequence[str]) -> list[str]:
    """Those of the names that are folders of recorded sessions."""
    return [name for name in names if not plugins.is_part("users", name) and holds_sessions(Path(name))]


def sessions_of(folders: Sequence[str], category: str, items: Items) -> dict[str, list[Session]]:
    """Recorded sessions about these products in each of these folders."""
    return {name: sessions_among(Path(name), category, items.positions) for name in folders}


def check_user_options(settings: TrainRetriever, names: list[str], sessions: Collection[str]) -> None:
    """Raise UserError for sessions alone, and for an option that a policy needs or that only simulated users have."""
    policy = settings.stage == "policy"
    refuse(
        (
            set(names) <= {*sessions},
            f"the epoch is chosen on products of val, which the sessions of {names[0]} are not about; "
            "add another user to --users, such as recorded",
        ),
        (
            policy and not settings.init_from,
            "--stage policy improves a trained retriever; give its run with --init-from",
        ),
        (
            policy and ("recorded" in names or sessions or settings.turns < 2),
            "--stage policy looks ahead in simulated dialogs of two turns or more; give --users captioner or "
            "differences, and more --turns",
        ),
        (
            not set(names) - {"recorded", *sessions} and settings.word_noise,
            f"--word-noise {settings.word_noise} needs a simulated user; "
            "it cannot be combined with recorded --users alone",
        ),
    )
