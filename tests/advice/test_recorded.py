"""Advice on recorded streams agrees with `verify` at five slacks each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from slackwater.cli.advise import advise_query, asked_for
from slackwater.cli.prepare import prepare
from slackwater.language.bound import JoinQuery
from tests.data.conftest import Verify
from tests.data.conftest import recorded as recorded
from tests.data.conftest import verify as verify

AGREES = 0.01
SPECIAL = (
    "SELECT s.station AS station FROM special AS s [RANGE 30 MINUTES], routine AS r [RANGE 30 MINUTES]"
    " WHERE s.station = r.station"
)
BY_REGION = "SELECT stream, COUNT(*) AS n, AVG(temp_c) AS t FROM s [RANGE 20 MINUTES] GROUP BY stream"
CASES = {
    "markets": (
        "binance_hft",
        "SELECT a.price AS spot FROM spot AS a [RANGE 100 MS], usdm AS b [RANGE 100 MS] WHERE a.asset = b.asset",
        ["spot=?channel=trade&stream=spot:btcusdt&stream=spot:ethusdt", "usdm=?channel=trade&stream=usdm:btcusdt"],
    ),
    "devices": (
        "ooo_umts",
        "SELECT a.seq AS seq FROM a [RANGE 2 SECONDS], b [RANGE 2 SECONDS] WHERE a.seq = b.seq",
        ["a=?stream=dev_2", "b=?stream=dev_7"],
    ),
    "content": ("ooo_umts", "SELECT SUM(content_length) AS total FROM s [RANGE 10 SECONDS SLIDE 1 SECOND]", ["s="]),
    "special 2019": ("metar_20190701_12z", SPECIAL, ["special=?kind=SPECI", "routine=?kind=METAR"]),
    "special 2020": ("metar_20200106_00z", SPECIAL, ["special=?kind=SPECI", "routine=?kind=METAR"]),
    "regions 2019": ("metar_20190701_12z", BY_REGION, ["s="]),
    "regions 2020": ("metar_20200106_00z", BY_REGION, ["s="]),
    "plugs": (
        "debs2014_smartplug_excerpt",
        "SELECT SUM(value) AS load FROM s [RANGE 10 SECONDS SLIDE 1 SECOND] WHERE property = 1",
        ["s="],
    ),
}


@pytest.mark.parametrize("epoch", ["1", "1 s"])
@pytest.mark.parametrize("name", CASES)
def test_advice_agrees_with_verify_at_five_slacks(
    name: str, epoch: str, recorded: Callable[[str], Path], verify: Verify
) -> None:
    file, query, selected = CASES[name]
    path = recorded(file)
    streams = [one.replace("=", f"={path}", 1) for one in selected]
    prepared = prepare(query, streams, "ts", "ms", {})
    last = advise_query(prepared, asked_for(epoch, [], None, None), None).curve.least(1.0) or 1_000_000
    slacks = [last * step // 16_000 * 1000 for step in (0, 1, 3, 7, 12)]
    advice = advise_query(prepared, asked_for(epoch, [f"{slack} us" for slack in slacks], None, None), None)
    for slack in slacks:
        counted = isinstance(prepared.bound.query, JoinQuery)
        verdict = verify(f"{query} WITH DELAY {slack} MICROSECONDS", streams, epoch, counted).verdict
        assert verdict.true_results == advice.curve.of
        if advice.bound is None:
            assert advice.point(slack).kept == pytest.approx(verdict.recall_overall, abs=AGREES)
        else:
            assert advice.point(slack).kept == pytest.approx(verdict.fulfilment(advice.bound), abs=AGREES)
            mean = verdict.to_json()["measurements"]["mean"] or 0.0
            assert advice.point(slack).mean_error == pytest.approx(mean, abs=AGREES)
