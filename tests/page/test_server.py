"""The page is served to this machine alone, or to who knows the token; it only shows, unless it is told otherwise."""

from __future__ import annotations

import json
import socket
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest

from slackwater.core.errors import UsageError
from slackwater.page.hub import Hub
from slackwater.page.server import Page
from tests.page.moments import moment

TOKEN = "a-token-that-is-long-enough"


@pytest.fixture
def hub() -> Hub:
    hub = Hub()
    hub.add("q", {"nodes": []})
    for batch in range(1, 4):
        hub.publish(moment(batch=batch))
    return hub


Client = Callable[..., httpx.Client]


@pytest.fixture
def client(hub: Hub) -> Iterator[Client]:
    """Asks a page of the hub, under another name where one is given."""
    with ExitStack() as begun:

        def asking(host: str | None = None, **more: Any) -> httpx.Client:
            page = begun.enter_context(Page(hub, port=0, **more))
            headers = {} if host is None else {"Host": host}
            return begun.enter_context(httpx.Client(base_url=page.address.partition("?")[0], headers=headers))

        yield asking


def test_the_page_and_its_files_are_served_and_nothing_else(client: Client) -> None:
    asked = client()
    assert "<title>slackwater</title>" in asked.get("/").text
    for file in ("app.js", "style.css", "vendor/uPlot.esm.js", "vendor/LICENSE-uPlot.txt"):
        assert asked.get(f"/static/{file}").status_code == 200
    for file in ("../server.py", "..%2fserver.py", "vendor/../../hub.py", "nothing.js"):
        assert asked.get(f"/static/{file}").status_code == 404
    assert "'self'" in asked.get("/").headers["content-security-policy"]


def test_moments_can_be_had_as_one_document(client: Client) -> None:
    told = client().get("/moments").json()
    assert [one["batch"] for one in told["moments"]] == [1, 2, 3]
    assert told["hello"]["queries"] == [{"name": "q", "plan": {"nodes": []}, "settable": False}]
    assert len(told["hello"]["delay_edges_ms"]) == 64


@pytest.mark.parametrize("host", ["example.org", "10.0.0.7", "127.0.0.1.example.org", ""])
def test_another_name_for_this_machine_is_refused(client: Client, host: str) -> None:
    assert client(host).get("/moments").status_code == 421


def test_without_the_token_nothing_is_told(client: Client) -> None:
    asked = client("10.0.0.7", token=TOKEN)
    for path in ("/", "/moments", "/events", "/static/app.js"):
        assert asked.get(path).status_code == 401
    assert asked.get("/moments?token=another token altogether").status_code == 401
    assert asked.get("/moments", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200
    asked.cookies.clear()
    first = asked.get("/", params={"token": TOKEN})
    assert first.status_code == 200
    assert "httponly" in first.headers["set-cookie"].lower()


def test_an_address_that_others_reach_needs_a_token(hub: Hub) -> None:
    with pytest.raises(UsageError, match="needs a token"):
        Page(hub, host="0.0.0.0", port=0)
    with pytest.raises(UsageError, match="too short"):
        Page(hub, host="0.0.0.0", port=0, token="short")
    with Page(hub, host="0.0.0.0", port=0, token=TOKEN) as page:
        assert "?token=" in page.address
        port = page.address.split(":")[2].split("/")[0]
        assert httpx.get(f"http://127.0.0.1:{port}/").status_code == 401
        assert httpx.get(f"http://127.0.0.1:{port}/?token={TOKEN}").status_code == 200


def test_a_port_that_is_taken_is_said_with_the_remedy(hub: Hub) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=rf"port {port}: .*choose another port, or 0"):
            Page(hub, port=port)
    with pytest.raises(UsageError, match="choose another port"):
        Page(hub, port=99999)


def test_two_pages_without_a_port_do_not_collide(hub: Hub) -> None:
    with Page(hub) as one, Page(Hub()) as other:
        assert one.address != other.address


def test_a_target_is_moved_only_where_that_is_allowed(hub: Hub, client: Client) -> None:
    asked: list[str] = []

    def told(target: str) -> None:
        if "2" in target:
            raise UsageError("that is no share")
        asked.append(target)

    hub.add("q", None, told)
    wish = {"query": "q", "target": "RECALL 0.99 OVER 20 s"}
    assert client().post("/target", json=wish).status_code == 403
    assert not asked
    open_ = client(control=True)
    assert open_.post("/target", json={"query": "q", "target": "NO WAIT"}).json() == {"query": "q", "target": "NO WAIT"}
    assert asked == ["NO WAIT"]
    assert open_.post("/target", json=wish).json() == {"error": "that is no share"}
    for body in (b"", b"{}", b"[]", b"no json", json.dumps({"query": "x", "target": "y"}).encode(), b"x" * 10_000):
        answer = open_.post("/target", content=body)
        assert answer.status_code == 400
        assert answer.json()["error"]
    assert open_.get("/target").status_code == 405
    assert open_.post("/target", json=wish, headers={"Origin": "http://example.org"}).status_code == 403


def events(address: str, most: int) -> Iterator[tuple[str, object]]:
    with httpx.stream("GET", f"{address}events", timeout=10) as answer:
        name, count = "", 0
        for line in answer.iter_lines():
            if line.startswith("event: "):
                name = line.removeprefix("event: ")
            elif line.startswith("data: "):
                yield name, json.loads(line.removeprefix("data: "))
                count += 1
                if count == most:
                    return


def test_events_tell_what_was_and_then_what_comes(hub: Hub) -> None:
    with Page(hub, port=0) as page:
        told = events(page.address, 4)
        assert next(told)[0] == "hello"
        name, first = next(told)
        assert [one["batch"] for one in first] == [1, 2, 3]  # type: ignore[attr-defined]
        hub.publish(moment(batch=4))
        name, more = next(told)
        assert name == "moments"
        assert [one["batch"] for one in more] == [4]  # type: ignore[attr-defined]
        hub.add("another")
        assert next(told)[0] == "hello"


def test_a_page_stops_at_once_also_while_somebody_listens(hub: Hub) -> None:
    page = Page(hub, port=0)
    listening = urllib.request.urlopen(f"{page.address}events", timeout=10)
    assert listening.readline()
    begun = time.monotonic()
    page.stop()
    assert time.monotonic() - begun < 3
    listening.close()
