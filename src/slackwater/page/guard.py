"""Who may look at a page, and who may move a target.

Invariant: without a token only this machine is answered, and only under a name of its own, so that no other page in the
same browser can ask. With a token nobody is answered who does not know it. Every answer forbids the browser to load
anything from elsewhere.
"""

from __future__ import annotations

import ipaddress
import secrets
from http.cookies import SimpleCookie
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from slackwater.core.errors import UsageError

COOKIE = "slackwater_token"
SHORTEST_TOKEN = 16
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


def is_loopback(host: str) -> bool:
    """Whether an address is this machine and nobody else's.

    >>> [is_loopback(host) for host in ("127.0.0.1", "localhost", "::1", "0.0.0.0", "10.0.0.7", "example.org")]
    [True, True, True, False, False, False]
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def check_address(host: str, token: str | None) -> None:
    """Refuse an address that others can reach, where there is no token, and a token that can be guessed."""
    if token is not None and len(token) < SHORTEST_TOKEN:
        raise UsageError(f"the token of the page is too short; take at least {SHORTEST_TOKEN} characters")
    if token is None and not is_loopback(host):
        raise UsageError(
            f"page on {host}: others can reach this address, so the page needs a token; set SLACKWATER_PAGE_TOKEN, or"
            " leave the address out to serve this machine alone"
        )


class Guard:
    """Answers whoever may not come in; passes all others on."""

    def __init__(self, app: ASGIApp, token: str | None) -> None:
        self._app, self._token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        refusal = self._refusal(scope, headers)
        known = parse_qs(scope["query_string"].decode("latin-1")).get("token", [None])[0]

        async def answered(message: Message) -> None:
            if message["type"] == "http.response.start":
                out = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    out[name] = value
                if refusal is None and self._token is not None and known is not None:
                    out.append("Set-Cookie", f"{COOKIE}={known}; Path=/; HttpOnly; SameSite=Strict")
            await send(message)

        if refusal is not None:
            await PlainTextResponse(refusal[1], refusal[0])(scope, receive, answered)
            return
        await self._app(scope, receive, answered)

    def _refusal(self, scope: Scope, headers: Headers) -> tuple[int, str] | None:
        host = urlsplit(f"//{headers.get('host', '')}")
        if self._token is None and not is_loopback(host.hostname or ""):
            return 421, "this page is served to its own machine alone; ask for it as 127.0.0.1 or localhost\n"
        if self._token is not None and not self._knows_token(scope, headers):
            return 401, "this page needs its token: add ?token=... to the address\n"
        origin = headers.get("origin")
        if scope["method"] not in ("GET", "HEAD") and origin is not None and urlsplit(origin).netloc != host.netloc:
            return 403, "another page may not change anything here\n"
        return None

    def _knows_token(self, scope: Scope, headers: Headers) -> bool:
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [])
        cookies: SimpleCookie = SimpleCookie(headers.get("cookie", ""))
        if COOKIE in cookies:
            given.append(cookies[COOKIE].value)
        kind, _, value = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            given.append(value)
        assert self._token is not None
        return any(secrets.compare_digest(one.encode(), self._token.encode()) for one in given)
