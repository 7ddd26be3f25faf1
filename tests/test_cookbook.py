"""Every job of the cookbook runs as it stands, is short, is on the page, and prints what is true of its streams."""

from __future__ import annotations

import ast
import re
import runpy
import shutil
import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
COOKBOOK = ROOT / "examples" / "cookbook"
JOBS = sorted(path.stem for path in COOKBOOK.glob("*.py") if path.stem != "streams")
ON_SPARK = {"table_on_spark"}
LOCAL = [name for name in JOBS if name not in ON_SPARK]
AS_A_PROCESS = "sessions"


@pytest.fixture(autouse=True)
def beside_the_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules are found as `python examples/cookbook/NAME.py` finds them."""
    monkeypatch.syspath_prepend(str(COOKBOOK))
    monkeypatch.delitem(sys.modules, "streams", raising=False)


def run(name: str) -> dict[str, Any]:
    program = runpy.run_path(str(COOKBOOK / f"{name}.py"))
    sys.modules.pop("streams", None)
    return program


def made(name: str, *given: Any, **named: Any) -> Any:
    """What streams.py makes: tables as lists of rows."""
    tables = runpy.run_path(str(COOKBOOK / "streams.py"))[name](*given, **named)
    return {key: table.to_pylist() for key, table in tables.items()} if isinstance(tables, dict) else tables.to_pylist()


def number(printed: str, pattern: str) -> float:
    """The number that a sentence tells."""
    found = re.search(pattern, printed)
    assert found is not None, printed
    return float(found[1])


def clicked_pairs() -> list[tuple[Any, ...]]:
    streams = made("impressions_and_clicks")
    return [
        (i["user"], i["ad"], i["ts"], c["ts"])
        for i in streams["impressions"]
        for c in streams["clicks"]
        if (c["user"], c["ad"]) == (i["user"], i["ad"]) and 0 <= c["ts"] - i["ts"] <= 30_000
    ]


def unpaid_ids() -> set[int]:
    streams = made("orders_payments_parcels", 2000)
    ordered = {row["id"]: row["ts"] for row in streams["orders"]}
    paid = {row["order_id"] for row in streams["payments"] if row["ts"] - ordered[row["order_id"]] <= 3_600_000}
    return set(ordered) - paid


def column(program: dict[str, Any], name: str) -> list[Any]:
    return program["answer"].results[name].to_pylist()


def clicks_after_impressions(program: dict[str, Any], printed: str) -> None:
    pairs = clicked_pairs()
    recall = number(printed, r"measured recall ([\d.]+)")
    assert recall >= 0.95
    assert recall == pytest.approx(len(column(program, "user")) / len(pairs), abs=0.001)


def clicks_on_arrival(program: dict[str, Any], printed: str) -> None:
    clicks_after_impressions(program, printed)
    assert number(printed, r"waited at most ([\d.]+) s") < 1
    assert column(program, "_ts") != sorted(column(program, "_ts"))


def clicks_corrected(program: dict[str, Any], printed: str) -> None:
    assert number(printed, r"(\d+) corrections") > 0
    assert sum(row["clicks"] for row in program["table"].values()) == len(clicked_pairs())


def orders_with_payment(program: dict[str, Any], printed: str) -> None:
    false = {row["id"] for row in program["unpaid"]} - unpaid_ids()
    assert number(printed, r"precision ([\d.]+)") == pytest.approx(1 - len(false) / len(program["rows"]), abs=1e-4)
    assert number(printed, r"recall ([\d.]+)") > 0.99


def unpaid_orders(program: dict[str, Any], printed: str) -> None:
    given, true = set(column(program, "id")), unpaid_ids()
    assert given >= true
    assert number(printed, r"([\d.]+)% of them really") == pytest.approx(100 * len(true) / len(given), abs=0.05)


def sessions(program: dict[str, Any], printed: str) -> None:
    times: dict[str, list[int]] = {}
    for row in sorted(made("visits"), key=lambda row: row["ts"]):
        times.setdefault(row["user"], []).append(row["ts"])
    gaps = sum(b - a > 60_000 for of in times.values() for a, b in pairwise(of))
    assert number(printed, r"(\d+) sessions") == len(times) + gaps


def counts_per_country(program: dict[str, Any], printed: str) -> None:
    assert number(printed, r"([\d.]+)% of the minutes") >= 95
    assert 0.98 * 18_000 <= sum(column(program, "pages")) <= 18_000


def top_users(program: dict[str, Any], printed: str) -> None:
    counts = Counter((row["ts"] // 300_000, row["country"], row["user"]) for row in made("visits"))
    parts: dict[tuple[int, str], list[tuple[int, str]]] = {}
    for (window, country, user), pages in counts.items():
        parts.setdefault((window, country), []).append((-pages, user))
    true = {
        (window, country, place, user, -pages)
        for (window, country), users in parts.items()
        for place, (pages, user) in enumerate(sorted(users)[:3], 1)
    }
    rows = zip(*(column(program, name) for name in ("at", "country", "place", "user", "pages")), strict=True)
    assert number(printed, r"(\d+) visits came too late") == 0
    assert {(int(at.timestamp()) // 300 - 1, *rest) for at, *rest in rows} == true
    assert number(printed, r"(\d+) rows") == len(true) == 12 * 3 * 3


def early_counts(program: dict[str, Any], printed: str) -> None:
    assert number(printed, r"(\d+) rows of closed windows") == 36
    last = program["germany"][-6:]
    assert [row["_version"] for row in last] == [0, 1, 2, 3, 4, 5]
    assert last[1]["_expected_error"] > last[4]["_expected_error"] > 0


def price_of_a_trade(program: dict[str, Any], printed: str) -> None:
    streams = made("prices_and_trades")
    prices = {(row["symbol"], row["ts"]): row["price"] for row in streams["prices"]}
    rows = program["answer"].results.to_pylist()
    assert 0.97 * len(streams["trades"]) < len(rows) < len(streams["trades"])
    for row in rows:
        then = row["_ts"].timestamp() * 1000 - row["age_us"] / 1000
        assert prices[row["symbol"], round(then)] == row["price"]


def orders_by_city(program: dict[str, Any], printed: str) -> None:
    true = sum(row["amount"] for row in made("orders_payments_parcels")["orders"])
    assert number(printed, r"(\d+) in all") == pytest.approx(true, rel=0.01)
    assert set(column(program, "city")) == {"Oslo", "Rome"}


def without_duplicates(program: dict[str, Any], printed: str) -> None:
    messages = number(printed, r"(\d+) messages")
    rows, ids = number(printed, r"(\d+) rows"), number(printed, r"with (\d+) ids")
    assert messages > 19_000
    assert 17_500 < rows == ids <= 18_000


def pages_without_duplicates(program: dict[str, Any], printed: str) -> None:
    assert number(printed, r"(\d+) came too late") == 0
    assert number(printed, r"about (\d+) pages") == 18_000 < number(printed, r"(\d+) messages")


def distinct_counts(program: dict[str, Any], printed: str) -> None:
    assert 17_640 <= number(printed, r"(\d+) pages") <= 18_000 < number(printed, r"(\d+) messages")


def order_to_parcel(program: dict[str, Any], printed: str) -> None:
    parcels = {row["order_id"] for row in made("orders_payments_parcels", every=600_000)["parcels"]}
    assert set(column(program, "id")) <= parcels
    assert number(printed, r"measured recall ([\d.]+)") == pytest.approx(
        len(set(column(program, "id"))) / len(parcels), abs=0.001
    )


def last_price(program: dict[str, Any], printed: str) -> None:
    prices = [row["price"] for row in sorted(made("prices_and_trades")["prices"], key=lambda row: row["ts"])]
    rows = program["answer"].results.to_pylist()
    assert prices[0] in [row["opened"] for row in rows[:3]]
    assert prices[-1] in [row["closed"] for row in rows[-3:]]
    assert all(row["low"] <= min(row["opened"], row["closed"]) <= row["high"] for row in rows)


def which_watermark(program: dict[str, Any], printed: str) -> None:
    assert 'i.withWatermark("ts", ' in printed
    assert (
        number(printed, r"99% of the pairs take ([\d.]+) s") > number(printed, r"95% of the pairs take ([\d.]+) s") > 0
    )


def table_on_spark(program: dict[str, Any], printed: str) -> None:
    assert "45 rows by key, 4500 pages in them" in printed
    assert any(row["_version"] > 0 for row in program["table"].values())


FACTS = {
    each.__name__: each
    for each in (
        clicks_after_impressions, clicks_on_arrival, clicks_corrected, orders_with_payment, unpaid_orders, sessions,
        counts_per_country, top_users, early_counts, price_of_a_trade, orders_by_city, without_duplicates,
        pages_without_duplicates, distinct_counts, order_to_parcel, last_price, which_watermark, table_on_spark,
    )
}  # fmt: skip


@pytest.mark.parametrize("name", LOCAL)
def test_a_job_prints_what_is_true_of_its_streams(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    program = run(name)
    FACTS[name](program, capsys.readouterr().out)


@pytest.mark.skipif(shutil.which("java") is None, reason="no Java: install one of 17 or newer")
@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize("name", sorted(ON_SPARK))
def test_a_job_on_spark_prints_what_is_true_of_its_streams(
    name: str, spark: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """In this process, on the session that tests share."""
    program = run(name)
    FACTS[name](program, capsys.readouterr().out)


def test_a_job_is_a_process_that_warns_of_nothing() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(COOKBOOK / f"{AS_A_PROCESS}.py")],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=ROOT.parent,
    )
    assert (done.returncode, done.stderr) == (0, "")
    FACTS[AS_A_PROCESS]({}, done.stdout)


@pytest.mark.parametrize("name", JOBS)
def test_a_job_has_fewer_than_25_lines_and_says_what_it_answers(name: str) -> None:
    text = (COOKBOOK / f"{name}.py").read_text()
    said = ast.parse(text).body[0]
    question = ast.get_docstring(ast.parse(text))
    assert question is not None
    assert "?" in question
    assert 1 <= len(re.findall(r"[.?](?=\s|$)", question)) <= 3
    assert said.end_lineno is not None
    assert len(text.splitlines()) - said.end_lineno < 25


def test_every_job_is_on_the_page_and_has_its_fact() -> None:
    page = (ROOT / "docs" / "cookbook.md").read_text()
    on_page = re.findall(r"\]\(\.\./examples/cookbook/(\w+)\.py\)", page)
    assert sorted(name for name in on_page if name != "streams") == JOBS == sorted(FACTS)


def test_the_page_shows_clauses_that_are_in_the_files() -> None:
    page = (ROOT / "docs" / "cookbook.md").read_text()
    for name, clauses in re.findall(r"/(\w+)\.py\) \| (.*) \|$", page, re.MULTILINE):
        text = " ".join((COOKBOOK / f"{name}.py").read_text().split())
        for clause in re.findall(r"`([^`]+)`", clauses):
            for part in clause.split("..."):
                assert part.strip(" ,()") in text, (name, part)
