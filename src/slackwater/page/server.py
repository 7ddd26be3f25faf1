"""The server of the page: static files, one stream of events, and, where it is allowed, a target that is moved.

Invariant: it runs in a thread of its own and never touches a query: it reads the hub a few times a second, and hands
the wish for another target on. It serves the files of this package and nothing else.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from slackwater.core.errors import SlackwaterError, UsageError
from slackwater.page.hub import Hub
from slackwater.page.serving import HOST, Served, metrics_route

STATIC = Path(__file__).parent / "static"
PORT = 8470
"""The port of a page by default; if it is taken, any that is free."""
EVERY = 0.2
"""Seconds from one look for new snapshots to the next, for each of a FEW pages; where more are open, each looks less
often, so that all of them together cost no more."""
FEW = 2
STILL_HERE = 15.0
"""After so many silent seconds a page is sent a sign that the server is there."""
LONGEST_BODY = 4096


def page_routes(hub: Hub, control: bool = False) -> list[BaseRoute]:
    """What the page answers."""

    async def index(request: Request) -> Response:
        return FileResponse(STATIC / "index.html")

    async def snapshots(request: Request) -> Response:
        """What is remembered, as one document."""
        _, texts = hub.everything()
        hello = json.dumps(hub.hello(control))
        return Response(f'{{"hello":{hello},"snapshots":[{",".join(texts)}]}}', media_type="application/json")

    listeners: set[object] = set()

    async def events(request: Request) -> Response:
        return StreamingResponse(_events(hub, control, listeners), media_type="text/event-stream")

    async def target(request: Request) -> Response:
        if not control:
            return JSONResponse({"error": "this page only shows; start it with --control to move a target"}, 403)
        try:
            body = await _body(request)
            if body is None:
                return JSONResponse({"error": f"a target has at most {LONGEST_BODY} characters"}, 413)
            query, text = _asked(body)
            await asyncio.to_thread(hub.set_target, query, text)
        except SlackwaterError as error:
            return JSONResponse({"error": str(error).splitlines()[0]}, 400)
        return JSONResponse({"query": query, "target": text})

    return [
        Route("/", index),
        metrics_route(hub.latest_progress),
        Route("/snapshots", snapshots),
        Route("/events", events),
        Route("/target", target, methods=["POST"]),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]


async def _body(request: Request) -> bytes | None:
    """What a page sends; None where it is too long."""
    body = b""
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > LONGEST_BODY:
                return None
    except ClientDisconnect:
        return b""
    return body


def _asked(body: bytes) -> tuple[str, str]:
    """The query and the target that a page asks for."""
    try:
        asked = json.loads(body)
        return str(asked["query"]), str(asked["target"])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise UsageError('say {"query": ..., "target": ...}') from None


async def _events(hub: Hub, control: bool, listeners: set[object]) -> AsyncIterator[str]:
    """Everything that is remembered, then what is new, for as long as the page listens."""
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
            yield f"event: snapshots\ndata: [{','.join(texts)}]\n\n"
            silent = 0.0
        elif silent >= STILL_HERE:
            yield ": still here\n\n"
            silent = 0.0
        await asyncio.sleep(pause)


class Page(Served):
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
        self.hub = hub
        super().__init__("page", page_routes(hub, control), host, (PORT, 0) if port is None else (port,), token)

    def stop(self) -> None:
        super().stop()
        self.hub.close()
