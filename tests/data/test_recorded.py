"""Recorded streams against the truth, for tuple release, epochs of 1000 tuples and epochs of a second."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from papers.workloads import WORKLOADS
from slackwater.cli.verify import Verified
from slackwater.workloads import write
from tests.data.conftest import EPOCHS, Verify
from tests.effort import ALL_ON_SPARK, more

Recorded = Callable[[str], Path]

MARKETS = {
    "spot": ("spot:btcusdt", "spot:ethusdt"),
    "usdm": ("usdm:btcusdt", "usdm:ethusdt"),
    "cm": ("cm:btcusd_perp", "cm:ethusd_perp"),
}
TWO_MARKETS = """
SELECT a.price AS spot, b.price AS future FROM spot AS a [RANGE 100 MS], usdm AS b [RANGE 100 MS]
WHERE a.asset = b.asset WITH
"""
THREE_MARKETS = """
SELECT a.price AS spot FROM spot AS a [RANGE 100 MS], usdm AS b [RANGE 100 MS], cm AS c [RANGE 100 MS]
WHERE a.asset = b.asset AND b.asset = c.asset WITH
"""
DEVICES = """
SELECT a.seq AS seq, a.content_length AS ours, b.content_length AS theirs
FROM a [RANGE 2 SECONDS], b [RANGE 2 SECONDS] WHERE a.seq = b.seq WITH
"""
PAIRS_OF_MARKETS = """
SELECT a.price AS spot FROM spot AS a, usdm AS b, cm AS c
WINDOW (a, b) = 20 MS AND WINDOW (b, c) = 50 MS AND WINDOW (a, c) = 40 MS
WHERE a.asset = b.asset AND b.asset = c.asset WITH DELAY 1 SECOND
"""
ALONG_MARKETS = """
SELECT a.price AS spot FROM spot AS a, usdm AS b, cm AS c PATH a -> b -> c WITHIN (20 MS, 50 MS)
WHERE a.asset = b.asset AND b.asset = c.asset WITH DELAY 1 SECOND
"""
CONTENT = "SELECT SUM(content_length) AS total FROM s [RANGE 10 SECONDS SLIDE 1 SECOND] WITH "


def trades(path: Path, market: str) -> str:
    return f"{market}={path}?channel=trade&" + "&".join(f"stream={name}" for name in MARKETS[market])


def assert_sound(verified: Verified) -> None:
    verdict = verified.verdict
    assert (verdict.missing_unexplained, verdict.spurious, verdict.out_of_order) == (0, 0, 0)
    report = verified.report.as_json()
    assert report["tuples"] == sum(report[part] for part in ("in_time", "late", "filtered", "rejected"))


def assert_complete(verified: Verified) -> None:
    assert_sound(verified)
    assert verified.verdict.missing == 0
    assert verified.verdict.results == verified.verdict.true_results
    assert verified.report.observation.late == 0


def test_trades_of_two_markets_within_100_ms_are_all_found(recorded: Recorded, verify: Verify, epoch: str) -> None:
    path = recorded("binance_hft")
    verified = verify(TWO_MARKETS + "DELAY 1 SECOND", [trades(path, "spot"), trades(path, "usdm")], epoch)
    assert_complete(verified)
    assert verified.verdict.true_results == 2_597_618


def test_trades_of_three_markets_within_100_ms_are_all_counted(recorded: Recorded, verify: Verify, epoch: str) -> None:
    path = recorded("binance_hft")
    verified = verify(THREE_MARKETS + "DELAY 1 SECOND", [trades(path, market) for market in MARKETS], epoch, True)
    assert_complete(verified)
    assert verified.verdict.true_results == 247_398_157


@pytest.mark.parametrize(
    ("join", "windows", "query", "true_results"),
    [
        ("merge", "lca", ALONG_MARKETS, 9_565_955),
        *more(
            "the fewer results of a path, here; all joins in runtime/test_window_graphs.py",
            ("merge", "lca", PAIRS_OF_MARKETS, 130_950_742),
            ("hash", "gca", PAIRS_OF_MARKETS, 130_950_742),
            ("hash", "gca", ALONG_MARKETS, 9_565_955),
        ),
    ],
)
def test_the_algorithms_of_the_report_find_all_trades_within_windows_that_differ(
    recorded: Recorded, verify: Verify, join: str, windows: str, query: str, true_results: int
) -> None:
    streams = [trades(recorded("binance_hft"), market) for market in MARKETS]
    verified = verify(f"{query} OPTIONS (join = '{join}', windows = '{windows}')", streams, "1000", True)
    assert_complete(verified)
    assert verified.verdict.true_results == true_results


@pytest.mark.parametrize("waiting", ["COMPLETE", "NO WAIT"])
def test_what_three_markets_lose_without_waiting_is_explained(
    recorded: Recorded, verify: Verify, epoch: str, waiting: str
) -> None:
    path = recorded("binance_hft")
    assert_sound(verify(THREE_MARKETS + waiting, [trades(path, market) for market in MARKETS], epoch, True))


def test_devices_are_joined_pairwise_on_their_sequence(recorded: Recorded, verify: Verify, epoch: str) -> None:
    path = recorded("ooo_umts")
    devices = ["dev_2", "dev_5", "dev_7", "dev_10", "dev_13", "dev_14", "dev_16", "dev_12", "dev_15"]
    true_results = 0
    # `make test` takes every third pair, and others for other epochs.
    pairs = list(pairwise(devices))
    for left, right in pairs if ALL_ON_SPARK else pairs[EPOCHS.index(epoch) :: len(EPOCHS)]:
        streams = [f"a={path}?stream={left}", f"b={path}?stream={right}"]
        patient = verify(DEVICES + "DELAY 6 SECONDS", streams, epoch)
        assert_complete(patient)
        assert_sound(verify(DEVICES + "DELAY 100 MS", streams, epoch))
        true_results += patient.verdict.true_results
    # Devices that were never on the air together have no results.
    assert true_results > (10_000 if ALL_ON_SPARK else 1000)


def test_content_length_is_summed_over_10_seconds(recorded: Recorded, verify: Verify, epoch: str) -> None:
    streams = [f"s={recorded('ooo_umts')}"]
    assert_complete(verify(CONTENT + "DELAY 6 SECONDS", streams, epoch))
    assert_sound(verify(CONTENT + "COMPLETE", streams, epoch))
    hasty = verify(CONTENT + "NO WAIT", streams, epoch)
    assert_sound(hasty)
    assert hasty.verdict.missing_late > 0


def test_three_synthetic_streams_are_counted_exactly(verify: Verify, epoch: str, tmp_path: Path) -> None:
    files = write(WORKLOADS["dsyn3"](seed=1, minutes=2), tmp_path / "dsyn3")
    streams = [f"{file.stem}={file}" for file in files if file.suffix == ".parquet"]
    query = (tmp_path / "dsyn3" / "query.sql").read_text()
    head = query[: query.index("WITH")] if "WITH" in query else query
    assert_complete(verify(head + "WITH DELAY 20 SECONDS", streams, epoch, True))
    hasty = verify(head + "WITH NO WAIT", streams, epoch, True)
    assert_sound(hasty)
    assert hasty.verdict.missing_late > 0
