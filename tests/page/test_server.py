"""The page is served to this machine alone, or to who knows the token; it only shows, unless it is told otherwise."""

from __future__ import annotations

import json
import socket
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.client import HTTPResponse
from typing import Any

import httpx
import pytest

from slackwater.core.errors import UsageError
from slackwater.page.hub import Hub
from slackwater.page.server import Page
from tests.page.made import made

TOKEN = "a-token-that-is-long-enough"


@pytest.fixture
def hub() -> Hub:
    hub = Hub()
    hub.expect("q", plan={"nodes": []})
    for batch in range(1, 4):
        hub.publish(made(batch=batch))
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


def test_snapshots_can_be_had_as_one_document(client: Client) -> None:
    told = client().get("/snapshots").json()
    assert [one["batch"] for one in told["snapshots"]] == [1, 2, 3]
    assert told["hello"]["queries"] == [{"name": "q", "plan": {"nodes": []}, "settable": False}]
    assert len(told["hello"]["delay_edges_ms"]) == 64


@pytest.mark.parametrize("host", ["example.org", "10.0.0.7", "127.0.0.1.example.org", ""])
def test_another_name_for_this_machine_is_refused(client: Client, host: str) -> None:
    assert client(host).get("/snapshots").status_code == 421


def test_a_host_that_is_none_is_refused(client: Client) -> None:
    for host in ("[", "[::1", "a]b"):
        assert client(host).get("/snapshots").status_code == 400
    assert client("[", token=TOKEN).get("/snapshots", params={"token": TOKEN}).status_code == 400


@pytest.mark.parametrize("origin", ["http://[", "http://a]b", "null", "", "http://"])
def test_an_origin_that_is_none_may_change_nothing(client: Client, origin: str) -> None:
    asked = client(control=True)
    assert asked.post("/target", json={}, headers={"Origin": origin}).status_code == 403
    assert asked.get("/snapshots", headers={"Origin": origin}).status_code == 200


@pytest.mark.parametrize("path", ["/static/%00", "/%00", "/static/" + "a" * 5000, "/static/%ff%fe"])
def test_no_path_is_more_than_not_found(client: Client, path: str, caplog: pytest.LogCaptureFixture) -> None:
    assert client().get(path).status_code == 404
    assert not caplog.records


def test_no_cookie_or_query_is_more_than_refused(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    asked = client(token=TOKEN)
    for cookie in ("a(b=1", "slackwater_token", "\x01=2", "slackwater_token=%00"):
        assert asked.get("/", headers={"Cookie": cookie}).status_code == 401
    known = {"Cookie": f"slackwater_token={TOKEN}"}
    answer = asked.get("/snapshots?token=%0d%0aX-Mine:%201", headers=known)
    assert answer.status_code == 200
    assert "x-mine" not in answer.headers
    assert not caplog.records


def test_a_token_of_any_characters_is_kept_by_the_browser(client: Client) -> None:
    token = "geheim; path=/\u00fc&\u4e2d, long enough"
    asked = client(token=token)
    assert asked.get("/", params={"token": token}).status_code == 200
    assert asked.get("/snapshots").status_code == 200


def test_without_the_token_nothing_is_told(client: Client) -> None:
    asked = client("10.0.0.7", token=TOKEN)
    for path in ("/", "/snapshots", "/events", "/static/app.js"):
        assert asked.get(path).status_code == 401
    assert asked.get("/snapshots?token=another token altogether").status_code == 401
    assert asked.get("/snapshots", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200
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

    hub.expect("q", set_target=told)
    wish = {"query": "q", "target": "RECALL 0.99 OVER 20 s"}
    assert client().post("/target", json=wish).status_code == 403
    assert not asked
    open_ = client(control=True)
    assert open_.post("/target", json={"query": "q", "target": "NO WAIT"}).json() == {"query": "q", "target": "NO WAIT"}
    assert asked == ["NO WAIT"]
    assert open_.post("/target", json=wish).json() == {"error": "that is no share"}
    unknown = json.dumps({"query": "x", "target": "y"}).encode()
    for body in (b"", b"{}", b"[]", b"no json", b"\xff", b"[" * 4000, b'{"query":' * 400, unknown):
        answer = open_.post("/target", content=body)
        assert answer.status_code == 400, body
        assert answer.json()["error"]
    assert open_.post("/target", content=b"x" * 10_000).status_code == 413
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
        hub.publish(made(batch=4))
        name, more = next(told)
        assert name == "snapshots"
        assert [one["batch"] for one in more] == [4]  # type: ignore[attr-defined]
        hub.expect("another")
        assert next(told)[0] == "hello"


def test_a_page_stops_at_once_also_while_somebody_listens(hub: Hub, capfd: pytest.CaptureFixture[str]) -> None:
    page = Page(hub, port=0)
    listening = urllib.request.urlopen(f"{page.address}events", timeout=10)
    assert listening.readline()
    begun = time.monotonic()
    page.stop()
    assert time.monotonic() - begun < 3
    listening.close()
    assert capfd.readouterr().err == ""


def spoken(page: Page, said: bytes, begun: bytes = b"") -> bytes:
    """What the page answers to these bytes until it closes the connection; before, to a request that is whole."""
    with socket.create_connection(page.bound, timeout=10) as asking:
        if begun:
            asking.sendall(begun)
            assert asking.recv(100_000).startswith(b"HTTP/1.1 200 ")
        asking.sendall(said)
        answer = b""
        try:
            while more := asking.recv(4096):
                answer += more
        except ConnectionResetError:
            # What was sent is not read where there are too many connections.
            return answer or b"reset"
        return answer


@pytest.mark.parametrize(
    "half",
    [
        b"",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n",
        b"POST /target HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 50\r\n\r\n{",
    ],
)
@pytest.mark.parametrize("begun", [b"", b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"])
def test_a_request_that_is_half_sent_is_not_waited_for(
    hub: Hub, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], half: bytes, begun: bytes
) -> None:
    monkeypatch.setattr("slackwater.page.serving.PATIENCE", 0.3)
    with Page(hub, port=0, control=True) as page:
        if half or not begun:
            assert spoken(page, half, begun).endswith(b"the request did not come in time\n")
    assert capfd.readouterr().err == ""


def status_of(connection: socket.socket) -> int:
    """The status of an answer that is read whole, so that the next one begins where it ends."""
    answer = HTTPResponse(connection)
    answer.begin()
    answer.read()
    return answer.status


def test_who_sends_slowly_but_in_time_is_answered_and_who_listens_may_stay(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slackwater.page.serving.PATIENCE", 0.6)
    with Page(hub, port=0) as page:
        told = events(page.address, 3)
        assert next(told)[0] == "hello"
        assert next(told)[0] == "snapshots"
        with socket.create_connection(page.bound, timeout=10) as asking:
            for piece in (b"GET /snapshots HTTP/1.1\r\n", b"Host: 127.0.0.1\r\n", b"\r\n"):
                asking.sendall(piece)
                time.sleep(0.1)
            assert status_of(asking) == 200
            time.sleep(1)
            asking.sendall(b"GET /snapshots HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert status_of(asking) == 200, "a connection that is idle between two requests"
        hub.publish(made(batch=4))
        assert next(told)[0] == "snapshots"


def test_there_are_never_more_than_so_many_connections(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slackwater.page.serving.MOST_CONNECTIONS", 3)
    whole = b"GET /snapshots HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
    with Page(hub, port=0) as page, ExitStack() as others:
        open_ = [others.enter_context(socket.create_connection(page.bound)) for _ in range(3)]
        assert spoken(page, b"").startswith(b"HTTP/1.1 503 ")
        assert spoken(page, whole).startswith((b"HTTP/1.1 503 ", b"reset"))
        open_[0].close()
        deadline = time.monotonic() + 10
        while not spoken(page, whole).startswith(b"HTTP/1.1 200 "):
            assert time.monotonic() < deadline
