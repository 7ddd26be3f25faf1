"""Who may look at a page or at metrics, and who may move a target.

Invariant: without a token only this machine is answered, and only under a name of its own, so that no other page in the
same browser can ask. With a token only requests that have it are answered. Every answer forbids the browser to load
anything from elsewhere.
"""

from __future__ import annotations

import ipaddress
import os
import secrets
from http.cookies import CookieError, SimpleCookie
from urllib.parse import SplitResult, parse_qs, quote, unquote, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from slackwater.core.errors import UsageError

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
