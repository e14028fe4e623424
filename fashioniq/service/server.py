"""The HTTP server, which ends also while clients send or read slowly."""

import asyncio
import socket
from collections.abc import Callable
from types import FrameType

import uvicorn

LAST = 10.0  # seconds for requests after the signal to end; slow clients would prolong them without end
WORK = 300  # seconds for what is then in work, whose clients no longer get an answer


class Server(uvicorn.Server):
    """Server of uvicorn that cuts the connections that are left LAST seconds after a signal, or at the next signal.

    `close` is called at the end of what is served: after it, SIGTERM ends the process at once.
    """

    def __init__(self, config: uvicorn.Config, close: Callable[[], None]) -> None:
        super().__init__(config)
        self._close = close

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to end the server; a second Ctrl-C would leave requests and the application unfinished."""
        if self.should_exit:
            asyncio.get_running_loop().call_soon_threadsafe(self._cut)
        super().handle_exit(sig, frame)
        self.force_exit = False

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the server: it accepts no more connections, and completes the requests of those that there are."""
        cut = asyncio.get_running_loop().call_later(LAST, self._cut)
        try:
            await super().shutdown(sockets)
        finally:
            cut.cancel()
            self._close()

    def _cut(self) -> None:
        for connection in list(self.server_state.connections):
            connection.transport.abort()
