"""An address that is served in a thread of its own, behind a guard: the live page, and `sw.metrics`.

Invariant: whatever is sent, it is answered in a line or cut off, and nothing is printed. A request that does not come
whole within PATIENCE is not waited for, and there are never more than MOST_CONNECTIONS. Without a token only this
machine is answered, and only under a name of its own, so that no other page in the same browser can ask. With a token
only requests that have it are answered. Every answer forbids the browser to load anything from elsewhere.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
import secrets
import socket
import threading
from collections.abc import Sequence
from functools import partial
from http.cookies import CookieError, SimpleCookie
from typing import Any, Self
from urllib.parse import SplitResult, parse_qs, quote, unquote, urlsplit

import h11
import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from slackwater.core.errors import UsageError
from slackwater.observe.metrics import LatestProgress, Look, metrics_text

TOKEN = "SLACKWATER_PAGE_TOKEN"  # noqa: S105 - the name of a variable
COOKIE = "slackwater_token"
SHORTEST_TOKEN = 16
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


def is_loopback(host: str) -> bool:
    """Whether an address is that of this machine alone.

    >>> [is_loopback(host) for host in ("127.0.0.1", "localhost", "::1", "0.0.0.0", "10.0.0.7", "example.org")]
    [True, True, True, False, False, False]
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def token_of(given: str | None) -> str | None:
    """The token that is given, else that of the environment."""
    return given if given is not None else os.environ.get(TOKEN) or None


def check_address(what: str, host: str, token: str | None) -> None:
    """Refuse an address that others can reach, where there is no token, and a token that can be guessed."""
    if token is not None and len(token) < SHORTEST_TOKEN:
        raise UsageError(f"{what} on {host}: the token is too short; take at least {SHORTEST_TOKEN} characters")
    if token is None and not is_loopback(host):
        raise UsageError(
            f"{what} on {host}: others can reach this address, so it needs a token; set {TOKEN}, or leave the address"
            " out to serve this machine alone"
        )


class Guard:
    """Refuses requests that may not come in; passes all others on."""

    def __init__(self, app: ASGIApp, token: str | None) -> None:
        self._app, self._token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [])
        refusal = self._refusal(scope, headers, given)

        async def answered(message: Message) -> None:
            if message["type"] == "http.response.start":
                out = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    out[name] = value
                if self._token is not None and self._is_token(given):
                    out.append("Set-Cookie", f"{COOKIE}={quote(self._token, '')}; Path=/; HttpOnly; SameSite=Strict")
            await send(message)

        if refusal is not None:
            await PlainTextResponse(refusal[1], refusal[0])(scope, receive, answered)
            return
        await self._app(scope, receive, answered)

    def _refusal(self, scope: Scope, headers: Headers, given: list[str]) -> tuple[int, str] | None:
        host = _split(f"//{headers.get('host', '')}")
        if host is None:
            return 400, "the Host of this request is no address\n"
        if self._token is None and not is_loopback(host.hostname or ""):
            return 421, "this is served to its own machine alone; ask for it as 127.0.0.1 or localhost\n"
        if self._token is not None and not self._is_token([*given, *_sent(headers)]):
            return 401, "this needs its token: add ?token=... to the address\n"
        if scope["method"] not in ("GET", "HEAD") and "origin" in headers:
            origin = _split(headers["origin"])
            if origin is None or not origin.netloc or origin.netloc != host.netloc:
                return 403, "another page may not change anything here\n"
        return None

    def _is_token(self, given: list[str]) -> bool:
        assert self._token is not None
        return any(secrets.compare_digest(one.encode(), self._token.encode()) for one in given)


def _split(address: str) -> SplitResult | None:
    """The parts of an address; None where it is none."""
    try:
        return urlsplit(address)
    except ValueError:
        return None


def _sent(headers: Headers) -> list[str]:
    """Tokens that come with a request, in its cookie or its headers."""
    found = []
    try:
        cookies: SimpleCookie = SimpleCookie(headers.get("cookie", ""))
        found += [unquote(cookies[COOKIE].value)] if COOKIE in cookies else []
    except CookieError:
        pass
    kind, _, value = headers.get("authorization", "").partition(" ")
    return [*found, value] if kind.lower() == "bearer" else found


HOST = "127.0.0.1"
LARGEST_PORT = 65_535
PATIENCE = 10.0
"""Seconds for a request to come whole."""
MOST_CONNECTIONS = 128
"""A browser needs one for each page that is open, and a few more while it loads."""


class Served:
    """Routes that are being served. A `with` block stops it at its end."""

    def __init__(
        self,
        what: str,
        routes: Sequence[BaseRoute],
        host: str,
        ports: Sequence[int],
        token: str | None = None,
        path: str = "",
    ) -> None:
        """Of the ports the first that is free is taken; 0 is any that is free. `what` is served, in errors."""
        check_address(what, host, token)
        listening = _listening(what, host, ports)
        self.what = what
        self.bound: tuple[str, int] = listening.getsockname()[:2]
        self.port = self.bound[1]
        shown = f"[{host}]" if ":" in host else host
        known = "" if token is None else f"?token={quote(token, safe='')}"
        self.address = f"http://{shown}:{self.port}/{path}{known}"
        # A logger of its own: what uvicorn says must not depend on, or change, how the program around it logs.
        self._log = logging.Logger("slackwater.page", logging.ERROR)
        self._log.parent = logging.getLogger("slackwater")
        connection: Any = partial(_Connection, self._log)
        config = uvicorn.Config(
            Guard(Starlette(routes=routes), token), http=connection, ws="none", lifespan="off", log_config=None,
            access_log=False, proxy_headers=False, timeout_keep_alive=5,
        )  # fmt: skip
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [listening]}, name=f"slackwater {what}", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        # Pages that are open listen for ever; they are cut off, and that is no error.
        self._log.disabled = True
        self._server.should_exit = self._server.force_exit = True
        self._thread.join(5)

    def wait(self) -> None:
        """Serve it until it is stopped, or the process is interrupted."""
        while self._thread.is_alive():
            self._thread.join(0.5)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<{self.what} at {self.address}>"

    def _repr_html_(self) -> str:
        link = f'<a href="{self.address}" target="_blank" rel="noopener">{self.address}</a>'
        return f"<p>{self.what} at {link}</p>"


def metrics_route(latest: LatestProgress, look: Look | None = None) -> Route:
    """`/metrics` of queries, for Prometheus."""

    # Not a coroutine: it is computed in a thread beside the server's.
    def metrics(request: Request) -> Response:
        text, media_type = metrics_text(latest, request.headers.get("accept", ""), look)
        return Response(text, headers={"Content-Type": media_type})

    return Route("/metrics", metrics)


class _Connection(H11Protocol):
    """A connection that is closed when a request is begun and does not come whole, or when there are too many."""

    def __init__(self, log: logging.Logger, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.logger = log
        self._late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            self._close(b"503 Service Unavailable", b"there are too many connections; close one, or try again later\n")
        self._watch()

    def data_received(self, data: bytes) -> None:
        if not self.transport.is_closing():
            super().data_received(data)
            self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._watch()

    def _watch(self) -> None:
        """Begin to wait for the rest of a request, or wait no longer."""
        begun = self.conn.their_state in (h11.IDLE, h11.SEND_BODY) and self.timeout_keep_alive_task is None
        if self._late is not None and (not begun or self.transport.is_closing()):
            self._late.cancel()
            self._late = None
        elif self._late is None and begun and not self.transport.is_closing():
            self._late = self.loop.call_later(
                PATIENCE, self._close, b"408 Request Timeout", b"the request did not come in time\n"
            )

    def _close(self, status: bytes, said: bytes) -> None:
        head = b"content-type: text/plain; charset=utf-8\r\nconnection: close\r\ncontent-length: %d" % len(said)
        self.transport.write(b"HTTP/1.1 %b\r\n%b\r\n\r\n%b" % (status, head, said))
        self.transport.close()


def _listening(what: str, host: str, ports: Sequence[int]) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for port in ports:
        if not 0 <= port <= LARGEST_PORT:
            raise UsageError(
                f"{what} on {host}, port {port}: a port is from 0 to {LARGEST_PORT}; choose another port, or 0 for any"
                " that is free"
            )
        listening = socket.socket(family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, port))
            listening.listen(64)
            return listening
        except OSError as error:
            listening.close()
            why = error.strerror or str(error)
    raise UsageError(f"{what} on {host}, port {port}: {why}; choose another port, or 0 for any that is free")
