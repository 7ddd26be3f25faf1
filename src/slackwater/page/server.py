"""The server of the page: static files, one stream of events, and, where it is allowed, a target that is moved.

Invariant: it runs in a thread of its own and never touches a query: it reads the hub a few times a second, and hands
the wish for another target on. It serves the files of this package and nothing else.
"""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Self

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from slackwater.core.errors import SlackwaterError, UsageError
from slackwater.observe.metrics import metrics_text
from slackwater.page.guard import Guard, check_address
from slackwater.page.hub import Hub

STATIC = Path(__file__).parent / "static"
HOST, PORT = "127.0.0.1", 8470
"""Where a page is served if nobody says otherwise; if that port is taken, on any that is free."""
EVERY = 0.2
"""Seconds from one look for new moments to the next, for each of a FEW pages; where more are open, each looks less
often, so that all of them together cost no more."""
FEW = 2
STILL_HERE = 15.0
"""After so many silent seconds a page is told that the server is there."""
LONGEST_BODY = 4096


def page_app(hub: Hub, token: str | None = None, control: bool = False) -> Guard:
    """The page as an application, for a server or a test."""

    async def index(request: Request) -> Response:
        return FileResponse(STATIC / "index.html")

    async def moments(request: Request) -> Response:
        """What is remembered, as one document."""
        _, texts = hub.everything()
        hello = json.dumps(hub.hello(control))
        return Response(f'{{"hello":{hello},"moments":[{",".join(texts)}]}}', media_type="application/json")

    listeners: set[object] = set()

    async def events(request: Request) -> Response:
        return StreamingResponse(_events(hub, control, listeners), media_type="text/event-stream")

    async def target(request: Request) -> Response:
        if not control:
            return JSONResponse({"error": "this page only shows; start it with --control to move a target"}, 403)
        try:
            query, text = await _asked(request)
            await asyncio.to_thread(hub.set_target, query, text)
        except SlackwaterError as error:
            return JSONResponse({"error": str(error).splitlines()[0]}, 400)
        return JSONResponse({"query": query, "target": text})

    async def metrics(request: Request) -> Response:
        """For Prometheus."""
        text, media_type = metrics_text(hub.board, request.headers.get("accept", ""))
        return Response(text, headers={"Content-Type": media_type})

    routes = [
        Route("/", index),
        Route("/metrics", metrics),
        Route("/moments", moments),
        Route("/events", events),
        Route("/target", target, methods=["POST"]),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]
    return Guard(Starlette(routes=routes), token)


async def _asked(request: Request) -> tuple[str, str]:
    """The query and the target that a page asks for."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > LONGEST_BODY:
            raise UsageError("that is too long for a target")
    try:
        asked = json.loads(body)
        return str(asked["query"]), str(asked["target"])
    except (ValueError, KeyError, TypeError):
        raise UsageError('say {"query": ..., "target": ...}') from None


async def _events(hub: Hub, control: bool, listeners: set[object]) -> AsyncIterator[str]:
    """Everything that is remembered, then what is new, for as long as somebody listens."""
    me = object()
    listeners.add(me)
    try:
        async for event in _told(hub, control, listeners):
            yield event
    finally:
        listeners.discard(me)


async def _told(hub: Hub, control: bool, listeners: set[object]) -> AsyncIterator[str]:
    version, number, silent = -1, 0, 0.0
    while True:
        found = hub.since(number) if version == hub.version else None
        if found is None:
            version = hub.version
            yield f"event: hello\ndata: {json.dumps(hub.hello(control))}\n\n"
            found = hub.everything()
        number, texts = found
        pause = EVERY * max(1.0, len(listeners) / FEW)
        silent += pause
        if texts:
            yield f"event: moments\ndata: [{','.join(texts)}]\n\n"
            silent = 0.0
        elif silent >= STILL_HERE:
            yield ": still here\n\n"
            silent = 0.0
        await asyncio.sleep(pause)


class Page:
    """A page that is being served. A `with` block stops it at its end."""

    def __init__(
        self,
        hub: Hub,
        *,
        host: str = HOST,
        port: int | None = None,
        token: str | None = None,
        control: bool = False,
    ) -> None:
        """Without a port it is the usual one, or any that is free where that is taken; 0 is any that is free."""
        check_address(host, token)
        self.hub = hub
        listening = _listening(host, port)
        bound = listening.getsockname()[1]
        shown = f"[{host}]" if ":" in host else host
        self.address = f"http://{shown}:{bound}/" + ("" if token is None else f"?token={token}")
        config = uvicorn.Config(
            page_app(hub, token, control), log_level="error", access_log=False, lifespan="off",
            timeout_graceful_shutdown=1, timeout_keep_alive=5,
        )  # fmt: skip
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [listening]}, name="slackwater page", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Serve it no longer."""
        self._server.should_exit = True
        # Pages that are open listen for ever; they are not waited for.
        self._server.force_exit = True
        self._thread.join(5)
        self.hub.close()

    def wait(self) -> None:
        """Serve it until it is stopped, or the process is interrupted."""
        while self._thread.is_alive():
            self._thread.join(0.5)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<page at {self.address}>"

    def _repr_html_(self) -> str:
        return f'<p>page at <a href="{self.address}" target="_blank" rel="noopener">{self.address}</a></p>'


def _listening(host: str, port: int | None) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for attempt in (PORT, 0) if port is None else (port,):
        listening = socket.socket(family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, attempt))
            listening.listen(64)
            return listening
        except (OSError, OverflowError) as error:
            listening.close()
            if port is not None:
                reason = getattr(error, "strerror", None) or str(error)
                raise UsageError(
                    f"page on {host}, port {port}: {reason}; choose another port, or 0 for any that is free"
                ) from None
    raise UsageError(f"page on {host}: no port is free")
