"""States of the dialogs of a service: kept after a turn, replayed from the stored turns where they are missing."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from PIL.Image import Image

from fashioniq.data.items import ItemInputs
from fashioniq.loop.dialog import Dialog, DialogStep
from fashioniq.service.problems import Problem
from fashioniq.service.replies import WIDTH
from fashioniq.service.served_model import Served
from fashioniq.service.store import Store, TurnRow
from fashioniq.service.turns import steps_of
from fashioniq.service.uploads import restored

REMEMBERED = 2000  # dialogs whose state is kept
WITH_PICTURE = 200  # of them, as soon as they have generated pictures, which are larger
DRAWING = 4  # requests in work that may generate a picture; more are refused


class DialogStates:
    """The last states of dialogs, by the query_id of the turn after which they are. Methods raise Problem."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._dialogs: OrderedDict[tuple[str, int], Dialog] = OrderedDict()  # by query_id and system
        self._lock = threading.Lock()
        self._drawing = threading.Semaphore(DRAWING)

    def before(self, served: Served, turns: Sequence[TurnRow]) -> Callable[[], Dialog]:
        """Function for the thread of the models that returns the dialog after these turns."""
        steps = counting(served, [self.resolved(served, step) for step in steps_of(turns)])
        start = turns[0].about and self.item(served, turns[0].about)

        def live() -> Dialog:
            if (found := self.known(served, turns[-1].query_id)) is not None:
                return found
            begun = Dialog.start(served.system)
            return (begun.at(start) if start else begun).replay(steps)

        return live

    def item(self, served: Served, name: str) -> str | ItemInputs:
        """Inputs of an uploaded picture, or the id of a product as it is."""
        if not is_picture(name):
            if name not in served:  # when the conversation mentioned it, the model had other products
                raise Problem("model-retired")
            return name
        if served.uploads is None:
            raise Problem("no-picture-encoder")
        picture = self.store.picture(name)
        if picture is None:
            raise Problem("unknown-picture")
        return restored(picture.feature, picture.attrs["ids"], served.system.gallery.vectors_ND.device)

    def resolved(self, served: Served, step: DialogStep) -> DialogStep:
        return step._replace(about=self.item(served, step.about)) if isinstance(step.about, str) else step

    def known(self, served: Served, query_id: str) -> Dialog | None:
        """The state after a turn, if it is kept and the model was not loaded again since, with other products."""
        key = query_id, id(served.system)
        with self._lock:
            if (found := self._dialogs.get(key)) is not None:
                self._dialogs.move_to_end(key)
            return found

    def remember(self, query_id: str, live: Dialog) -> None:
        with self._lock:
            self._dialogs[query_id, id(live.system)] = live
            while len(self._dialogs) > (WITH_PICTURE if width_of(live) else REMEMBERED):
                self._dialogs.popitem(last=False)

    @contextmanager
    def place(self, served: Served) -> Iterator[None]:
        """One of the few places of requests that may generate a picture. Raises Problem if all are taken."""
        if not served.draws:
            yield
        elif self._drawing.acquire(blocking=False):
            try:
                yield
            finally:
                self._drawing.release()
        else:
            raise Problem("busy", retry_after=2)


def generated(live: Dialog) -> Image | None:
    """The picture generated from the last words."""
    offered = live.system.offer(live.state).pictures if live.system.shows_pictures else None
    return offered[0] if offered else None


def width_of(live: Dialog) -> int | None:
    """Width of the generated picture in pixels as it is shown, 0 if it failed; None if none was wanted."""
    if not live.system.shows_pictures or not live.state.turns:
        return None
    return min(WIDTH, picture.width) if (picture := generated(live)) else 0


def counting(served: Served, steps: list[DialogStep]) -> list[DialogStep]:
    """Steps that the query depends on: of a model that generates pictures, the last words. Others cost a picture."""
    return [step for step in steps if step.says][-1:] if served.draws else steps


def is_picture(name: str | None) -> bool:
    return name is not None and name.startswith("pic_")
