"""Requests of another process to one that runs a set: done once, in order, and answered; or withdrawn, never done."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from slackwater.core.errors import UsageError
from slackwater.runtime.spark import requests
from slackwater.runtime.spark.requests import PATIENCE, REQUESTS, Request, RequestInbox, ask

Opened = Callable[..., RequestInbox]


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Opened]:
    closed = threading.Event()
    yield lambda do, runs=lambda: True: RequestInbox(tmp_path, do, closed, runs)
    closed.set()


def test_what_is_asked_is_done_once_and_in_order_and_refusals_are_told(desk: Opened, tmp_path: Path) -> None:
    done: list[Request] = []

    def do(request: Request) -> None:
        if request.query == "nobody":
            raise UsageError("there is no query nobody; there are a")
        if request.query == "broken":
            raise KeyError("broken")
        done.append(request)

    desk(do)
    asked = [
        Request(requests.ADD, "b", text="SELECT 1;\nné", sinks={"results": "/out"}),
        Request(requests.TARGET, "b", target="DELAY 1 S", at_most="2 s"),
        Request(requests.DROP, "b"),
    ]
    for one in asked:
        ask(tmp_path, one)
    assert done == asked
    with pytest.raises(UsageError, match="there is no query nobody; there are a"):
        ask(tmp_path, Request(requests.DROP, "nobody"))
    with pytest.raises(UsageError, match="KeyError"):
        ask(tmp_path, Request(requests.DROP, "broken"))
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: ask(tmp_path, Request(requests.PAUSE, str(n))), range(24)))
    assert sorted(int(one.query) for one in done[3:]) == list(range(24))
    assert list((tmp_path / REQUESTS).iterdir()) == []


def test_where_nothing_runs_a_request_is_withdrawn_and_never_done(desk: Opened, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nothing was changed: no set runs on"):
        ask(tmp_path, Request(requests.DROP, "a"), patience=0.1)
    # Somebody asked, was killed, and nobody waits any more.
    old = tmp_path / REQUESTS / f"{time.time_ns() - int(2 * PATIENCE * 1e9):020d}-0.ask"
    old.write_text('{"change": "drop", "query": "a"}')
    done: list[Request] = []
    desk(done.append).take_all()
    assert done == []
    assert list((tmp_path / REQUESTS).iterdir()) == []


def test_a_set_that_has_ended_leaves_requests_to_the_next_one(desk: Opened, tmp_path: Path) -> None:
    done: dict[str, list[Request]] = {"ended": [], "running": []}
    desk(done["ended"].append, lambda: False)
    desk(done["running"].append)
    for n in range(3):
        ask(tmp_path, Request(requests.PAUSE, str(n)))
    assert (len(done["ended"]), len(done["running"])) == (0, 3)


def test_who_is_slow_to_answer_is_not_said_to_be_absent(desk: Opened, tmp_path: Path) -> None:
    going_on = threading.Event()
    desk(lambda request: going_on.wait(10) and None)
    with pytest.raises(UsageError, match="has taken the request and has not answered"):
        ask(tmp_path, Request(requests.DROP, "a"), patience=1)
    going_on.set()
