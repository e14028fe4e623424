"""Limits on waits that have none of their own."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

from fashioniq.files import UserError

T = TypeVar("T")


def within(seconds: float, call: Callable[[], T], late: str) -> T:
    """Result of a call that runs in a thread of its own.

    Raises UserError with the text `late` if it takes longer; the thread is then left to itself.
    """
    done: Future[T] = Future()

    def run() -> None:
        try:
            done.set_result(call())
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=run, name="limited wait", daemon=True).start()
    if not wait([done], seconds).done:
        raise UserError(late)
    return done.result(0)
