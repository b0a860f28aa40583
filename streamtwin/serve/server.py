"""The server: bound to this machine alone, with a token that outlives a restart, ended by Ctrl-C."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
from collections.abc import Callable
from pathlib import Path

import uvicorn

from streamtwin.serve.app import application
from streamtwin.serve.hub import Hub
from streamtwin.serve.jobs import Jobs
from twin.errors import BadInput

HOST, PORT = "127.0.0.1", 8377
"""The port is another one if this is taken."""


def serve(jobs: Jobs, state: Path, port: int | None, count: int, ready: Callable[[str], None]) -> None:
    """Serves until it is interrupted, which raises KeyboardInterrupt. ready: called with the address.

    Raises BadInput if the port is taken.
    """
    bound = _bound(port)
    number = bound.getsockname()[1]
    token = _token(state)
    address = (
        f"http://{HOST}:{number}/{f'job/{next(iter(jobs.called))}' if len(jobs.called) == 1 else ''}?token={token}"
    )

    async def run() -> None:
        hub = Hub(jobs, state, count)
        app = application(hub, number, token, lambda: ready(address))
        settings = uvicorn.Config(
            app, log_level="error", access_log=False, ws="none", server_header=False, timeout_graceful_shutdown=5,
            limit_concurrency=1000, lifespan="on",
        )  # fmt: skip
        await _Server(settings, hub).serve(sockets=[bound])

    asyncio.run(run())
    raise KeyboardInterrupt  # a shell that starts it in the background has it ignore the signal that uvicorn hears


class _Server(uvicorn.Server):
    """Ends the streams before it waits for answers that are still being sent."""

    def __init__(self, settings: uvicorn.Config, hub: Hub) -> None:
        super().__init__(settings)
        self._hub = hub

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """See uvicorn."""
        self._hub.hush()
        await super().shutdown(sockets)


def _bound(port: int | None) -> socket.socket:
    """A socket on this machine alone, at the port that is asked for, else at the usual one or any that is free."""
    for wanted in (PORT, 0) if port is None else (port,):
        made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            made.bind((HOST, wanted))
            made.listen(1024)  # who has read the address may connect before the server takes over
            return made
        except OSError as error:
            made.close()
            if port is not None:
                raise BadInput(f"--port {port}: {error.strerror}; leave it out, or give another one") from None
    raise BadInput("no port is free on this machine")


def _token(state: Path) -> str:
    """The same after a restart, so that open pages go on; only its owner can read it."""
    file = state / "token"
    try:
        state.mkdir(parents=True, exist_ok=True)
        if not file.exists():
            with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as made:
                made.write(secrets.token_urlsafe(24))
        found = file.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise BadInput(f"{state} cannot be used: {error.strerror}; name another folder with --state") from None
    if len(found) < 16:
        raise BadInput(f"{file} holds no token; remove it")
    return found
