"""`fashioniq serve`."""

import logging
import socket
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

import torch
import uvicorn

from fashioniq.config import Serve
from fashioniq.config.shared import CATALOGS, refuse
from fashioniq.files import UserError, check_writable, explaining, writing
from fashioniq.loop.milvus import is_loopback
from fashioniq.runs import kind_of
from fashioniq.runs.training_data import category_of
from fashioniq.service.access import Access
from fashioniq.service.api import create_app
from fashioniq.service.inference import Inference
from fashioniq.service.learning.forget import carry_out
from fashioniq.service.models import Models
from fashioniq.service.problems import TITLES, Problem
from fashioniq.service.served_model import Served
from fashioniq.service.server import WORK, Server
from fashioniq.service.service import Service
from fashioniq.service.store import Store
from fashioniq.service.uploads import Uploads

CONNECTIONS = 5000  # open at a time; requests on more get 503
HEADERS = 16 * 1024  # bytes
KEEP_ALIVE = 5  # seconds that an idle connection is kept


def run(settings: Serve, opened: Callable[[str], object] | None = None) -> None:
    """Serve trained runs until Ctrl-C. `opened` gets the address of the page once requests are accepted."""
    logging.basicConfig(
        format="%(asctime)s %(message)s", level=logging.INFO if settings.log else logging.WARNING, force=True
    )
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # it has a line for each refused connection
    torch.set_num_threads(1)  # requests come one by one; the other cores serve the other workers
    if (settings.run or settings.encoder) and settings.database.startswith("sqlite:///"):
        path = Path(settings.database.removeprefix("sqlite:///"))
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
    if settings.spool:
        check_writable(settings.spool)
        settings.spool.mkdir(parents=True, exist_ok=True)
    _allow_open_files(2 * CONNECTIONS)
    listening = _listen(settings.host, settings.port)
    store = Store.open(settings.database, create=bool(settings.run or settings.encoder))
    carry_out(store)
    inference = Inference()
    uploads = [Uploads(Path(run), settings.device) for run in settings.predictor]
    load = partial(
        Served.of,
        split=settings.split,
        device=settings.device,
        uploads=uploads,
        index=settings.index,
        gallery=settings.gallery,
        generator=settings.generator,
    )
    models = Models(store, inference, load, settings.models)
    if loaded := [*settings.run, *([settings.encoder] if settings.encoder else [])]:
        print(f"Loading {', '.join(loaded)} …", flush=True)
    try:
        models.open(_one_a_category([*map(Path, settings.run), *_zero_shot(settings)]))
    except Problem as error:
        raise UserError(f"{TITLES[error.code][1]} ({error.code}); --log prints the reason") from error
    refuse(
        (
            not models.categories,
            "the database has no active model; give a trained run with --run, or --encoder and --data",
        ),
        (
            settings.generator and not any(models.active(name).draws for name in models.categories),
            "--generator needs a run of train-dialog-encoder; give one with --run",
        ),
    )
    models.settle()
    used = [models.active(name).uploads for name in models.categories]
    for one in uploads:
        if one not in used and not settings.generator:  # it embeds what is generated
            print(
                f"note: --predictor {one.folder} has not computed the features of a served model; it is not used"
            )
    local = is_loopback(settings.host) and not settings.proxy
    config = uvicorn.Config(
        create_app(Service(store, models, inference, settings.explore, settings.spool), Access(store, local)),
        log_config=None,
        access_log=False,
        server_header=False,
        limit_concurrency=CONNECTIONS,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=WORK,
        h11_max_incomplete_event_size=HEADERS,
    )
    address = _page_at(listening)
    print(f"Serving {', '.join(models.categories)} at {address} (Ctrl-C ends it)", flush=True)
    if opened:
        opened(address)
    with ExitStack() as ending:
        for one in uploads:
            ending.callback(one.close)
        ending.callback(store.close)
        with suppress(KeyboardInterrupt):
            Server(config, ending.close).run(sockets=[listening])


def _one_a_category(runs: list[Path]) -> list[Path]:
    """The runs. Raises UserError if two are of one category, of which only one would be served."""
    first: dict[str, Path] = {}
    for run in runs:
        _ = kind_of(run)  # raises UserError for what is no run
        category = category_of(run)
        if category in first:
            raise UserError(
                f"{first[category]} and {run} are both of the category {category}, which one run serves; "
                "leave one of them out"
            )
        first[category] = run
    return runs


def _zero_shot(settings: Serve) -> list[Path]:
    """Runs of --encoder, which search without training."""
    if settings.encoder is None:
        return []
    from fashioniq.data.catalog_files import categories_in
    from fashioniq.systems.zero_shot import prepare_zero_shot

    data = settings.data or CATALOGS
    names = settings.category or categories_in(data)
    if not names:
        raise UserError(f"there is no category in {data}; give a catalog with --data")
    return [prepare_zero_shot(settings.encoder, data, name, device=settings.device) for name in names]


def _allow_open_files(count: int) -> None:
    """Raise the limit of open files, which connections are, as far as the system permits."""
    try:
        import resource  # not on Windows
    except ImportError:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count if hard == resource.RLIM_INFINITY else min(count, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _listen(host: str, port: int) -> socket.socket:
    with explaining(
        f"cannot listen on {host}, port {port}",
        "; give another --port, or correct --host",
        (OSError, UnicodeError, TypeError),  # TypeError: a name that cannot be encoded
    ):
        made = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    # asyncio does this for its own sockets only; without it, every answer takes 40 ms more
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


def _page_at(listening: socket.socket) -> str:
    """Address of the page, with IPv6 in brackets."""
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/shop"
