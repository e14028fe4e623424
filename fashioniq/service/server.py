"""The HTTP server, which ends also while clients send or read slowly."""

import asyncio
import socket

import uvicorn

LAST = 10.0  # seconds for requests after the signal to end; slow clients would prolong them without end
WORK = 300  # seconds for what is then in work, whose clients no longer get an answer


class Server(uvicorn.Server):
    """Server of uvicorn that cuts the connections that are left LAST seconds after a signal."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the server: it accepts no more connections, and completes the requests of those that there are."""
        cut = asyncio.get_running_loop().call_later(LAST, self._cut)
        try:
            await super().shutdown(sockets)
        finally:
            cut.cancel()

    def _cut(self) -> None:
        for connection in list(self.server_state.connections):
            connection.transport.abort()
