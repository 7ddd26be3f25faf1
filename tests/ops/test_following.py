"""Queries in this process: their metrics are served, their events logged, and nothing of that can end them."""

from __future__ import annotations

import io
import json
import socket
import threading
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest

import slackwater as sw
from slackwater.core.errors import UsageError
from slackwater.observe.value import QueryProgress
from slackwater.runtime.follow import follow

COLUMNS = pa.schema([("ts", pa.int64()), ("v", pa.int64())])
TOKEN = "a-token-that-is-long-enough"
TEXT = "SELECT a.v AS av, b.v AS bv FROM a [5 s], b [5 s] WITH RECALL 0.95 OVER 10 SECONDS"


def live() -> sw.LiveQuery:
    return sw.live(TEXT, {"a": COLUMNS, "b": COLUMNS})


def push(query: sw.LiveQuery, begin: int = 0, rows: int = 50) -> None:
    for stream in ("a", "b"):
        ts = [begin + 100 * i - (700 if i % 7 == 3 else 0) for i in range(rows)]
        query.push(stream, pa.table({"ts": ts, "v": list(range(rows))}))


def scraped(server: sw.MetricsServer) -> str:
    with urllib.request.urlopen(server.address, timeout=10) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain")
        return answer.read().decode()


def value(text: str, series: str) -> float:
    [line] = [line for line in text.splitlines() if line.startswith(f"{series} ")]
    return float(line.rpartition(" ")[2])


def test_metrics_of_a_live_query_are_those_of_its_report() -> None:
    query = live()
    with sw.metrics(query, port=0, name="pairs") as server:
        assert value(scraped(server), 'slackwater_query_running{query="pairs"}') == 1
        push(query)
        assert 'slackwater_slack_seconds{query="pairs"}' in scraped(server)
        report = query.close().report
        text = scraped(server)
        assert value(text, 'slackwater_query_running{query="pairs"}') == 0
        assert value(text, 'slackwater_results_total{query="pairs"}') == report["results"] > 0
        assert value(text, 'slackwater_tuples_total{outcome="in_time",query="pairs"}') == report["in_time"]
        assert value(text, 'slackwater_stream_rows_total{query="pairs",stream="a"}') == 50
        assert value(text, 'slackwater_delay_seconds_count{query="pairs",stream="b"}') == 50
    with pytest.raises(OSError, match="refused"):
        scraped(server)


def test_ten_scrapers_at_once_all_get_everything() -> None:
    query = live()
    with sw.metrics({"one": query}, port=0) as server:
        push(query)
        with ThreadPoolExecutor(10) as pool:
            texts = list(pool.map(lambda _: scraped(server), range(50)))
        assert len(set(texts)) == 1
        assert 'query="one"' in texts[0]


def test_a_port_that_is_taken_is_named_with_what_to_do() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=rf"port {port}: .*in use; choose another port, or 0"):
            sw.metrics(live(), port=port)
    with pytest.raises(UsageError, match="port 70000"):
        sw.metrics(port=70000)


def test_what_is_no_query_is_refused_and_the_port_is_free_again() -> None:
    with sw.metrics(port=0) as server:
        port = server.port
    with pytest.raises(UsageError, match="str is no running query"):
        sw.metrics("pairs", port=port)
    sw.metrics(port=port).stop()
    with pytest.raises(UsageError, match="no query was given"):
        sw.log_events({})


def test_metrics_are_served_to_this_machine_alone() -> None:
    with sw.metrics(port=0) as server:
        assert server.address == f"http://127.0.0.1:{server.port}/metrics"
        assert server.bound == ("127.0.0.1", server.port)
        assert httpx.get(server.address, headers={"Host": "example.org"}).status_code == 421
        assert httpx.get(server.address, headers={"Host": "["}).status_code == 400
        assert httpx.get(f"http://127.0.0.1:{server.port}/other").status_code == 404


def test_metrics_at_an_address_that_others_reach_need_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLACKWATER_PAGE_TOKEN", raising=False)
    with pytest.raises(UsageError, match=r"metrics on 0\.0\.0\.0: .* needs a token; set SLACKWATER_PAGE_TOKEN"):
        sw.metrics(host="0.0.0.0", port=0)
    monkeypatch.setenv("SLACKWATER_PAGE_TOKEN", TOKEN)
    with sw.metrics(host="0.0.0.0", port=0) as server:
        assert server.address == f"http://0.0.0.0:{server.port}/metrics?token={TOKEN}"
        there = f"http://127.0.0.1:{server.port}/metrics"
        assert httpx.get(there).status_code == 401
        assert httpx.get(there, headers={"Authorization": f"Bearer {TOKEN}", "Host": "any.name"}).status_code == 200
    with sw.metrics(port=0, token="another-token-long-enough") as server:
        assert httpx.get(server.address, headers={"Host": "any.name"}).status_code == 200


def test_a_query_that_fails_is_told_of_with_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    query = live()
    log = tmp_path / "events.log"
    sw.log_events(query, log, name="pairs")
    with sw.metrics(query, port=0, name="pairs") as server:
        push(query)

        def broken(*_: Any, **__: Any) -> Any:
            raise MemoryError("no memory is left")

        monkeypatch.setattr(query._driver, "epoch", broken)
        with pytest.raises(MemoryError):
            push(query, 5_000)
        assert value(scraped(server), 'slackwater_query_failed{query="pairs"}') == 1
    events = [json.loads(line) for line in log.read_text().splitlines()]
    assert [event["event"] for event in events] == ["started", "failed"]
    assert events[-1]["failure"] == "no memory is left"


def test_an_ended_query_is_logged_once_with_what_it_amounts_to(tmp_path: Path) -> None:
    query = live()
    sw.log_events({"pairs": query}, tmp_path / "events.log")
    for begin in range(0, 100_000, 5_000):
        push(query, begin)
    report = query.close().report
    query.close()
    events = [json.loads(line) for line in (tmp_path / "events.log").read_text().splitlines()]
    assert [event["event"] for event in events if event["level"] == "info"] == ["started", "ended"]
    assert events[-1]["results"] == report["results"]
    assert len(events) < 6


class Broken:
    def __init__(self) -> None:
        self.heard = 0

    def expect(self, query: str, **_: Any) -> None: ...

    def publish(self, progress: QueryProgress) -> None:
        self.heard += 1
        raise RuntimeError("the disk is full")

    def ended(self, query: str, failure: str | None = None) -> None: ...


def test_a_reader_that_fails_is_told_of_once_and_the_query_goes_on() -> None:
    query, reader = live(), Broken()
    follow(query, reader)
    with pytest.warns(UserWarning, match="not followed any more.*the disk is full"):
        push(query)
    push(query, 5_000)
    assert query.close().report["tuples"] == 200
    assert reader.heard == 1


def test_pushes_from_threads_while_somebody_scrapes() -> None:
    query = live()
    with sw.metrics(query, port=0) as server:
        threads = [threading.Thread(target=push, args=(query, begin)) for begin in range(0, 40_000, 5_000)]
        for thread in threads:
            thread.start()
        texts = [scraped(server) for _ in range(20)]
        for thread in threads:
            thread.join()
        assert all("slackwater_query_running" in text for text in texts)
        query.close()
        assert value(scraped(server), 'slackwater_stream_rows_total{query="query",stream="a"}') == 400


def test_a_replay_of_moments_makes_a_view_of_every_push() -> None:
    query = live()
    view = sw.live_view(query)
    for begin in range(0, 50_000, 5_000):
        push(query, begin)
    query.close()
    assert view.is_over
    assert "query, ended" in str(view)
    assert view._repr_html_().count("<svg") == 2


def test_a_query_that_has_ended_shows_what_it_gave_and_nothing_of_a_micro_batch() -> None:
    query = live()
    view = sw.live_view(query, every=0)
    push(query)
    of_a_micro_batch = ("in this micro-batch)", "bytes in windows", "rows/s")
    assert all(shown in str(view) for shown in of_a_micro_batch)
    results = query.close().report["results"]
    assert f"  results    {results:,}\n" in str(view)
    assert not any(shown in str(view) for shown in of_a_micro_batch)


def cell(shell: Any, source: str) -> list[str]:
    """Run a cell of a notebook; the kinds of what it shows: drawings, and what is drawn anew in place."""
    from IPython.utils.capture import capture_output

    with capture_output() as captured:
        assert shell.run_cell(source, store_history=True).success
    drawn = [one for one in captured.outputs if "<svg" in str(one.data.get("text/html"))]
    return ["anew" if one.update else "drawn" for one in drawn]


def test_a_view_stands_in_its_cell_once_and_again_where_it_is_asked_for() -> None:
    interactive = pytest.importorskip("IPython.core.interactiveshell", reason="notebooks need IPython")
    shell = interactive.InteractiveShell.instance()
    shell.kernel = object()
    try:
        query = live()
        push(query)
        query.close()
        shell.user_ns.update(sw=sw, query=query)
        assert cell(shell, "view = sw.live_view(query, seconds=1); view") == ["drawn", "anew"]
        assert cell(shell, "sw.live_view(query, seconds=1)") == ["drawn", "anew"]
        assert cell(shell, "view") == ["drawn"]
        assert repr(shell.user_ns["view"]) == "<live view of query>"
    finally:
        interactive.InteractiveShell.clear_instance()


def test_a_view_at_a_terminal_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    query = live()
    push(query)
    query.close()
    print(repr(sw.live_view(query)))
    assert capsys.readouterr().out.count("query, ended") == 1


def test_a_view_at_a_terminal_follows_for_so_many_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    query = live()
    push(query)
    sw.live_view(query, seconds=0.1)
    assert "query: nothing has run yet" in capsys.readouterr().out


@pytest.mark.parametrize("what", ["answer", "live"])
def test_handles_and_answers_show_themselves_in_a_notebook(what: str) -> None:
    query = live()
    push(query)
    shown = (query.close() if what == "answer" else query)._repr_html_()
    assert shown.startswith("<table>")
    assert "RECALL 0.95 OVER 10 s" in shown
    assert "in time" in shown


def test_a_query_that_has_ended_is_shown_to_who_comes_later() -> None:
    query = live()
    push(query)
    report = query.close().report
    with sw.metrics(query, port=0) as one, sw.metrics(query, port=0, name="again") as other:
        assert value(scraped(one), 'slackwater_results_total{query="query"}') == report["results"]
        assert value(scraped(other), 'slackwater_results_total{query="again"}') == report["results"]
        assert value(scraped(other), 'slackwater_query_running{query="again"}') == 0


def test_who_wants_every_push_gets_it_whoever_came_first() -> None:
    query = live()
    sw.log_events(query, io.StringIO())
    view = sw.live_view(query, every=0)
    for begin in range(0, 50_000, 5_000):
        push(query, begin)
    assert len(view.progress["query"]) == 20
