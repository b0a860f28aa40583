"""Server with its routes, which answers only its own pages."""

from __future__ import annotations

import asyncio
import fcntl
import hmac
import os
import secrets
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import IO, Any

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from figures.job_map import sketch
from scenarios.files import documents
from scenarios.files.run_folder import png
from streamtwin.answers import Presentation
from streamtwin.serve import keeping, opening, page, start
from streamtwin.serve.inquiry import given
from streamtwin.serve.keeping import KeptAnswer
from streamtwin.serve.opening import Brought
from streamtwin.serve.sessions import MOST_LISTENERS, Jobs, Sessions, act, stream
from streamtwin.serve.work import shown
from streamtwin.tables import job_maps
from twin.errors import BadInput
from twin.files import parse_json

# the guard -----------------------------------------------------------------------------------------------------------
# Guards the server: it answers only its own pages, in browsers that were given its token, on this machine.
#
# Other pages in the same browser can send requests here, and names of other sites can be made to lead here. So the
# Host must be this one, a request that changes anything must come from this page, and each request must have the
# token.


MOST_BYTES, MOST_BROUGHT = 1_000_000, 64_000_000
"""Most bytes of a request's body, and of one with what a person brings."""
BRING = "/open"
"""Path to which people bring a job."""
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": "default-src 'self'; style-src-attr 'unsafe-inline'; frame-ancestors 'none'; "
    "base-uri 'none'; form-action 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Headers of each answer. Style attributes are allowed, as drawings have their least width in one."""


class Guard:
    """Application around another one, which refuses requests that must not get in, with a line on the reason."""

    def __init__(self, app: ASGIApp, port: int, token: str) -> None:
        self._app, self._token, self.cookie = app, token, f"twin-{port}"
        self._hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost")}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers or refuses a request, as an ASGI application."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refused = self._refused(scope)
        app = self._app if refused is None else PlainTextResponse(f"{refused[1]}\n", refused[0])
        given = self._same(QueryParams(scope["query_string"]).get("token", ""))

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                added = dict(HEADERS)
                if given and refused is None:
                    added["Set-Cookie"] = f"{self.cookie}={self._token}; Path=/; HttpOnly; SameSite=Strict"
                message["headers"] = [
                    *message["headers"],
                    *((k.lower().encode(), v.encode()) for k, v in added.items()),
                ]
            await send(message)

        await app(scope, _bounded(receive, _most(scope)), guarded)

    def _refused(self, scope: Scope) -> tuple[int, str] | None:
        """Status and words of a refusal; None if the request may get in."""
        headers, most = Headers(scope=scope), _most(scope)
        if headers.get("host", "") not in self._hosts:
            return 421, "this is not a name of this server; use the address that twin serve printed"
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > most:
            return 413, f"a request has at most {most:,} bytes"
        origin = headers.get("origin")
        if (origin is not None or scope["method"] not in ("GET", "HEAD")) and origin not in self._origins():
            return (
                403,
                "this comes from another page; open the whole address that twin serve printed, and use that page",
            )
        if not (
            self._same(QueryParams(scope["query_string"]).get("token", "")) or self._same(self._of_cookie(headers))
        ):
            name, _, port = headers.get("host", "").partition(":")
            other = "localhost" if name == "127.0.0.1" else "127.0.0.1"
            return 403, (
                f"this browser has no token, or a wrong one, for {name}; open the whole address that twin serve "
                f"printed, or go on at {other}:{port} if you began there, as a browser keeps the two names apart"
            )
        return None

    def _origins(self) -> set[str]:
        return {f"http://{host}" for host in self._hosts}

    def _of_cookie(self, headers: Headers) -> str:
        try:
            found = SimpleCookie(headers.get("cookie", "")).get(self.cookie)
        except CookieError:
            return ""
        return "" if found is None else found.value

    def _same(self, token: str) -> bool:
        return hmac.compare_digest(token.encode(), self._token.encode())


def _most(scope: Scope) -> int:
    """Most bytes of the body of a request."""
    return MOST_BROUGHT if scope["path"] == BRING else MOST_BYTES


def _bounded(receive: Receive, most: int) -> Receive:
    """`receive` that cuts off a body which is too long, whatever its headers said."""
    seen = 0

    async def bounded() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        return message if seen <= most else {"type": "http.disconnect"}

    return bounded


# routes --------------------------------------------------------------------------------------------------------------
# Server with its routes.
#
# It is bound to this machine alone, has a token that outlives a restart, and is ended by Ctrl-C.


LONGEST_NUMBER = 9
"""Most digits of a number in an address."""
STATIC: list[str | tuple[str, str]] = [("streamtwin.serve", "static"), ("streamtwin", "templates")]
"""Folders of files that are served unchanged: package, and name of the folder there."""


def application(sessions: Sessions, port: int, token: str, started: Callable[[], None] = lambda: None) -> Guard:
    """Application of the whole server, guarded. started: called when it begins to serve."""

    @asynccontextmanager
    async def life(_app: Starlette) -> AsyncIterator[None]:
        started()
        try:
            yield
        finally:
            await sessions.close()

    async def refused(_request: Request, error: Exception) -> Response:
        return PlainTextResponse(f"{error}\n", 422)

    async def left(_request: Request, _error: Exception) -> Response:
        return PlainTextResponse("the request was cut, or is too long\n", 413)

    async def starting() -> Mapping[str, str]:
        about = {name: await run_in_threadpool(sessions.jobs.about, name) for name in [*sessions.jobs.called]}
        recent, kept = sessions.recent(), [*sessions.kept.values()]
        return start.regions(sessions.listed(), recent, about, kept, sessions.imports)

    async def home(_request: Request) -> Response:
        return HTMLResponse(start.page(await starting(), str(sessions.store.folder)))

    async def started_view(_request: Request) -> Response:
        return JSONResponse(await starting())

    async def import_stopped(request: Request) -> Response:
        sessions.stop_import(request.path_params["number"])
        return JSONResponse({})

    async def brought(request: Request) -> Response:
        try:
            found = Brought.model_validate(await run_in_threadpool(parse_json, await request.body()))
            found.model_dump_json().encode()  # refuses half of a surrogate pair, which no file can hold
        except ValueError:
            return JSONResponse({"wrong": "what is brought is a file, an address, or answers by file name"}, 400)
        try:
            name = await sessions.take(found, request.is_disconnected)
        except BadInput as error:
            return JSONResponse({"wrong": str(error)}, 422)
        return JSONResponse({"address": page.job_address(name)})

    async def kept(request: Request) -> Response:
        numbers = [request.path_params[each] for each in ("first", "second") if each in request.path_params]
        answers = [_kept(each) for each in numbers]
        return HTMLResponse(await run_in_threadpool(keeping.page, answers, [*sessions.kept.values()]))

    def _kept(number: str) -> KeptAnswer:
        if number not in sessions.kept:
            raise HTTPException(404, "this answer is kept no longer")
        return sessions.kept[number]

    async def forgotten(request: Request) -> Response:
        sessions.kept.forget(request.path_params["first"])
        sessions.tell()
        return JSONResponse({})

    async def kept_figure(request: Request) -> Response:
        return await _figure(_kept(request.path_params["first"]).presentation())

    async def job(request: Request) -> Response:
        name = request.path_params["name"]
        _, found = sessions.view(name)
        assumed = opening.assumed(Path(sessions.jobs.called[name]))
        about = await run_in_threadpool(sessions.jobs.about, name)
        return HTMLResponse(page.page(name, found, list(sessions.jobs.called), about, assumed))

    async def dropped(request: Request) -> Response:
        sessions.drop(request.path_params["name"])
        return JSONResponse({})

    async def sketched(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in sessions.jobs.called:
            raise HTTPException(404, f"there is no scenario {name!r} here")
        session, called = sessions.sessions.get(name), sessions.jobs.called[name]
        asked, made = (session.asked, session.run()) if session else (None, None)

        def drawn() -> str:
            job = given(called) if asked is None else asked.now
            return sketch(job_maps.sketched(job, made and made.result))

        return Response(await run_in_threadpool(drawn), media_type="image/svg+xml")

    async def view(request: Request) -> Response:
        state, found = sessions.view(request.path_params["name"])
        return JSONResponse({**state, "regions": found})

    async def acts(request: Request) -> Response:
        name = request.path_params["name"]
        sessions.session(name)
        try:
            asked = parse_json(await request.body())
            if not isinstance(asked, dict) or not all(isinstance(each, str) for each in asked.values()):
                raise ValueError
            "".join(asked.values()).encode()  # half a character, which no answer could quote, is a ValueError
        except ValueError:
            return JSONResponse({"wrong": "a request is an object of texts, with an act"}, 400)
        try:
            said = act(sessions, name, asked)
        except BadInput as error:
            return JSONResponse({"wrong": str(error)}, 422)
        return JSONResponse({"said": said, "version": sessions.store.get(name).version})

    async def moment(request: Request) -> Response:
        session, _ = sessions.session(request.path_params["name"])
        replay = session.replay()
        if replay is None or session.asked is None or request.query_params.get("of") != session.asked.key:
            raise HTTPException(409, "this run is no longer the one that is shown")
        text = request.path_params["number"]
        if not text.isdecimal() or len(text) > LONGEST_NUMBER or (number := int(text)) >= len(replay.ends_s):
            raise HTTPException(404, f"the run has {len(replay.ends_s)} moments")
        picture, told, owned = await run_in_threadpool(replay.picture, number)
        return JSONResponse({"picture": picture, "told": told, "owned": owned})

    async def document(request: Request) -> Response:
        session, _ = sessions.session(request.path_params["name"])
        made = session.run()
        if made is None or made.result is None:
            raise HTTPException(409, made.refused if made is not None else "the run is not done yet")
        return JSONResponse(documents.document(made.result.to_dict()))

    async def compared(request: Request) -> Response:
        session, _ = sessions.session(request.path_params["name"])
        answer = session.compared("before", "now")
        if answer is None:
            raise HTTPException(409, "there are fewer than two pairs of runs yet")
        return JSONResponse(documents.document(answer))

    async def figure(request: Request) -> Response:
        _, inquiry = sessions.session(request.path_params["name"])
        if inquiry.answer is None or not inquiry.answer["document"]:
            raise HTTPException(404, "there is no figure")
        return await _figure(shown(inquiry.answer["question"], inquiry.answer["document"]))

    async def events(_request: Request) -> Response:
        if len(sessions.listeners) >= MOST_LISTENERS:
            raise HTTPException(503, "too many pages listen; close some")
        return StreamingResponse(stream(sessions), media_type="text/event-stream")

    routes = [
        Route("/", home),
        Route("/view", started_view),
        Route(BRING, brought, methods=["POST"]),
        Route("/import/{number}/stop", import_stopped, methods=["POST"]),
        Route("/events", events),
        Mount("/static", StaticFiles(packages=STATIC)),
        Route("/job/{name}", job),
        Route("/job/{name}/view", view),
        Route("/job/{name}/act", acts, methods=["POST"]),
        Route("/job/{name}/moment/{number}", moment),
        Route("/job/{name}/run.json", document),
        Route("/job/{name}/compared.json", compared),
        Route("/job/{name}/drop", dropped, methods=["POST"]),
        Route("/job/{name}/sketch.svg", sketched),
        Route("/job/{name}/figure.png", figure),
        Route("/kept/{first}", kept),
        Route("/kept/{first}/figure.png", kept_figure),
        Route("/kept/{first}/forget", forgotten, methods=["POST"]),
        Route("/kept/{first}/{second}", kept),
    ]
    return Guard(
        Starlette(routes=routes, lifespan=life, exception_handlers={BadInput: refused, ClientDisconnect: left}),
        port,
        token,
    )


async def _figure(told: Presentation | None) -> Response:
    """PNG of the figure of an answer. Raises HTTPException (404) if it has none."""
    drawn = told.figure if told is not None else None
    if drawn is None:
        raise HTTPException(404, "there is no figure")
    return Response(await run_in_threadpool(lambda: png(drawn())), media_type="image/png")


HOST, PORT = "127.0.0.1", 8377
"""Host, and default port; another port if this one is taken."""
HEADERS_S = 10.0
"""Longest time for the headers of a request."""


def serve(jobs: Jobs, state: Path, port: int | None, count: int, ready: Callable[[str], None]) -> None:
    """Serves until it is interrupted, which raises KeyboardInterrupt. ready: called with the address.

    Raises BadInput if the port is taken, or another server uses the folder of the state.
    """
    token = _token(state)
    owned = _owned(state)
    bound = _bound(port)
    number = bound.getsockname()[1]
    address = (
        f"http://{HOST}:{number}/{f'job/{next(iter(jobs.called))}' if len(jobs.called) == 1 else ''}?token={token}"
    )

    async def run() -> None:
        sessions = Sessions(jobs, state, count)
        app = application(sessions, number, token, lambda: ready(address))
        settings = uvicorn.Config(
            app, log_level="error", access_log=False, ws="none", server_header=False, timeout_graceful_shutdown=5,
            limit_concurrency=1000, lifespan="on", http=Impatient,
        )  # fmt: skip
        await _Server(settings, sessions).serve(sockets=[bound])

    with owned:
        asyncio.run(run())
    raise KeyboardInterrupt  # uvicorn raises it again only if the signal is not ignored, as it is in the background


class Impatient(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """Protocol of a connection, which is closed if the headers of a request have not come within HEADERS_S. Otherwise
    connections that never ask anything, for which no token is needed, would keep others out."""

    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Begins to wait for the first request."""
        super().connection_made(transport)
        self._await_headers()

    def data_received(self, data: bytes) -> None:
        """Takes a piece of a request. If it does not end the headers, or begins the next request, time runs."""
        super().data_received(data)
        self._await_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        """Waits no longer."""
        if self._late is not None:
            self._late.cancel()
        super().connection_lost(exc)

    def _await_headers(self) -> None:
        between = self.cycle is None or self.cycle.response_complete
        if not between and self._late is not None:
            self._late.cancel()
            self._late = None
        elif between and self._late is None:
            self._late = self.loop.call_later(HEADERS_S, self.transport.close)


class _Server(uvicorn.Server):
    """Server that ends the streams to pages before it waits for answers that are still being sent."""

    def __init__(self, settings: uvicorn.Config, sessions: Sessions) -> None:
        super().__init__(settings)
        self._sessions = sessions

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Ends the streams, then shuts down as uvicorn does."""
        self._sessions.hush()
        await super().shutdown(sockets)


def _bound(port: int | None) -> socket.socket:
    """Socket on this machine alone, at `port`, or by default at the usual port or any that is free."""
    for wanted in (PORT, 0) if port is None else (port,):
        made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            made.bind((HOST, wanted))
            made.listen(1024)  # a browser may connect as soon as the address is printed
            return made
        except OSError as error:
            made.close()
            if port is not None:
                raise BadInput(f"--port {port}: {error.strerror}; leave it out, or give another one") from None
    raise BadInput("no port is free on this machine")


def _owned(state: Path) -> IO[str]:
    """File whose lock says that a server uses the state; it ends with the process, however that ends."""
    lock = (state / "in-use").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise BadInput(f"another server uses {state}; go to its page, or name another folder with --state") from None
    return lock


def _token(state: Path) -> str:
    """Token of the server, which is kept over restarts, so that open pages go on; only its owner can read the file."""
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
