"""Guards the server: it answers only its own pages, in browsers that were given its token, on this machine.

Other pages in the same browser can send requests here, and names of other sites can be made to lead here. So the Host
must be this one, a request that changes anything must come from this page, and each request must have the token.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie

from starlette.datastructures import Headers, QueryParams
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_BYTES = 1_000_000
"""Most bytes of a request's body."""
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

        await app(scope, _bounded(receive), guarded)

    def _refused(self, scope: Scope) -> tuple[int, str] | None:
        """Status and words of a refusal; None if the request may get in."""
        headers = Headers(scope=scope)
        if headers.get("host", "") not in self._hosts:
            return 421, "this is not a name of this server; use the address that twin serve printed"
        if (
            int(headers.get("content-length", "0") if headers.get("content-length", "0").isdigit() else MOST_BYTES + 1)
            > MOST_BYTES
        ):
            return 413, f"a request has at most {MOST_BYTES:,} bytes"
        origin = headers.get("origin")
        if (origin is not None or scope["method"] not in ("GET", "HEAD")) and origin not in self._origins():
            return 403, "this comes from another page"
        if not (
            self._same(QueryParams(scope["query_string"]).get("token", "")) or self._same(self._of_cookie(headers))
        ):
            return 403, "the token is missing or wrong; use the whole address that twin serve printed"
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


def _bounded(receive: Receive) -> Receive:
    """`receive` that cuts off a body which is too long, whatever its headers said."""
    seen = 0

    async def bounded() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        return message if seen <= MOST_BYTES else {"type": "http.disconnect"}

    return bounded
