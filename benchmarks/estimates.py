"""What estimates save and whether their intervals keep their word: ERROR e ESTIMATED beside plain ERROR e.

Every stream is asked three times: with the bound and without estimates, with the bound of estimates, and by WITH
COMPLETE for the truth, whose windows are those of all tuples that came before the end. Φ is the share of windows within
the bound; an interval is right if the truth lies in it. The first `FIRST` of the windows teach and are not judged.

    python -m benchmarks.estimates [--minutes 12] [--error 0.01] [NAME ...]
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import slackwater as sw
from slackwater.core.time import MILLISECOND
from slackwater.disorder.cutting import Epochs
from slackwater.workloads.disorder import ZOO, zoo

FIRST = 1 / 3
HOURS = 2
WRONG_CLOCKS = ("zoo/ahead", "zoo/jumps", "zoo/behind")
FOLDER = Path(os.environ.get("SLACKWATER_DATA", Path(__file__).parents[2] / "shared" / "data"))
COUNT = "SELECT COUNT(*) AS n, SUM({value}) AS s FROM {stream} [RANGE {range} SLIDE {slide}]"


@dataclass(frozen=True)
class Asked:
    """A query without its target, and the streams it is asked of."""

    name: str
    query: str
    streams: Mapping[str, pa.Table]
    options: str = ""


def asked(minutes: float) -> Iterator[Asked]:
    """Sums over every kind of disorder, and joins of some; the recorded streams that are there."""
    for name in ZOO:
        streams = zoo(name, minutes=minutes).streams
        query = COUNT.format(value="v", stream="a", range="5 SECONDS", slide="250 MILLISECONDS")
        yield Asked(f"zoo/{name}", query, {"a": streams["a"]})
    for name in ("exponential", "heavy_tail", "bursts", "cycle"):
        streams = zoo(name, minutes=minutes).streams
        query = (
            "SELECT COUNT(*) AS n FROM (SELECT a.v AS v FROM a [RANGE 2 SECONDS], b [RANGE 2 SECONDS] WHERE"
            " a.key = b.key) j [RANGE 5 SECONDS SLIDE 1 SECOND]"
        )
        yield Asked(f"join/{name}", query, streams)
    for name, make in RECORDED.items():
        if (FOLDER / f"{name}.parquet").is_file():
            yield make(name)


def _recorded(value: str, range_: str, slide: str, unit: int = 1) -> Callable[[str], Asked]:
    def make(name: str) -> Asked:
        table = pq.read_table(FOLDER / f"{name}.parquet")
        ts = pc.cast(table["ts"], pa.int64())
        if unit != 1:
            ts = pa.chunked_array([np.asarray(ts) // unit])
        own = {"ts": ts, "arrival": pa.array(np.arange(len(table)))}
        own["v"] = pc.cast(table[value], pa.float64()) if value else pa.array(np.ones(len(table)))
        return Asked(name, COUNT.format(value="v", stream="a", range=range_, slide=slide), {"a": pa.table(own)})

    return make


RECORDED = {
    "binance_hft": _recorded("qty", "5 SECONDS", "500 MILLISECONDS"),
    "ooo_umts": _recorded("", "10 SECONDS", "1 SECOND"),
    "metar_20190701_12z": _recorded("", "20 MINUTES", "5 MINUTES"),
    "winlog_covenant": _recorded("", "30 SECONDS", "5 SECONDS", 1000),
    "winlog_empire": _recorded("", "30 SECONDS", "5 SECONDS", 1000),
    "winlog_purplesharp": _recorded("", "30 SECONDS", "5 SECONDS", 1000),
    "helium_lorawan": _recorded("", "1 DAY", "6 HOURS"),
    "usgs_quakes": _recorded("", "1 DAY", "6 HOURS"),
}


@dataclass(frozen=True)
class Measured:
    """What a run waited, and how good it was."""

    slack: float
    waited: float
    within: float
    covered: float | None
    width: float | None
    error: float


def run(one: Asked, target: str, truth: Mapping[int, tuple[float, ...]], bound: float, epochs: Epochs) -> Measured:
    answer = sw.replay(f"{one.query} WITH {target}{one.options}", dict(one.streams), epochs=epochs)
    rows = answer.results.to_pydict()
    ends = [stamp.value if hasattr(stamp, "value") else int(stamp.timestamp() * 1e6) for stamp in rows["window_end"]]
    judged = sorted(truth)[int(len(truth) * FIRST) :]
    at = {end: i for i, end in enumerate(ends)}
    names = [name for name in ("n", "s") if name in rows]
    estimated = f"{names[0]}_estimate" in rows
    errors, covered, widths = [], [], []
    for end in judged:
        i = at.get(end)
        worst = 0.0
        for c, name in enumerate(names):
            true = truth[end][c]
            got = None if i is None else rows[f"{name}_estimate" if estimated else name][i]
            off = np.inf if got is None else abs(got - true) / (abs(true) or 1.0)
            worst = max(worst, off)
            if estimated and i is not None and rows[f"{name}_low"][i] is not None:
                low, high = rows[f"{name}_low"][i], rows[f"{name}_high"][i]
                covered.append(low - 1e-9 * abs(true) <= true <= high + 1e-9 * abs(true))
                widths.append((high - low) / (abs(true) or 1.0))
        errors.append(worst)
    found: npt.NDArray[np.float64] = np.array(errors)
    return Measured(
        answer.report["slack_ms"]["avg"], answer.report["latency_ms"]["avg"], float(np.mean(found <= bound + 1e-12)),
        float(np.mean(covered)) if covered else None, float(np.mean(widths)) if widths else None,
        float(np.median(found)),
    )  # fmt: skip


def without_rejected(one: Asked) -> Asked:
    """The streams without the rows that are rejected, and those that are hours behind: nobody can count them."""
    answer = sw.replay(f"{one.query} WITH NO WAIT{one.options}", dict(one.streams))
    kept = {}
    for name, table in one.streams.items():
        arrival, ts = np.asarray(table["arrival"]), np.asarray(table["ts"])
        gone = np.isin(arrival, np.asarray(answer.rejected[name]["arrival"]))
        kept[name] = table.filter(pa.array(~gone & (ts > np.median(ts) - HOURS * 3_600_000)))
    return replace(one, streams=kept)


def truth_of(one: Asked) -> dict[int, tuple[float, ...]]:
    """The answers of all tuples, which are put in order first."""
    streams = {}
    order = np.concatenate([np.asarray(table["ts"]) for table in one.streams.values()]).argsort(kind="stable").argsort()
    begin = 0
    for name, table in one.streams.items():
        own = table.set_column(
            table.column_names.index("arrival"), "arrival", pa.array(order[begin : begin + len(table)])
        )
        streams[name] = own.sort_by("arrival")
        begin += len(table)
    rows = sw.replay(f"{one.query} WITH NO WAIT{one.options}", streams).results.to_pydict()
    names = [name for name in ("n", "s") if name in rows]
    return {
        int(end.timestamp() * 1e6): tuple(rows[name][i] for name in names) for i, end in enumerate(rows["window_end"])
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--minutes", type=float, default=12)
    parser.add_argument("--error", type=float, default=0.01)
    parser.add_argument("--confidence", type=float, default=0.95)
    parser.add_argument("--epoch", type=int, default=250, help="in milliseconds")
    given = parser.parse_args()
    heads = f"{'slack ms':>9} {'waits ms':>9} {'within':>7} {'median':>8} {'covered':>8} {'width':>7}"
    print(f"{'stream':28} {'target':10} {heads}")
    for one in asked(given.minutes):
        if given.names and not any(name in one.name for name in given.names):
            continue
        truth = truth_of(without_rejected(one) if one.name in WRONG_CLOCKS else one)
        for label, words in (("plain", ""), ("estimated", " ESTIMATED")):
            target = f"ERROR {given.error:g}{words} CONFIDENCE {given.confidence:g}"
            m = run(one, target, truth, given.error, Epochs(span=given.epoch * MILLISECOND))
            covered = "" if m.covered is None else f"{m.covered:8.3f} {m.width:7.4f}"
            print(
                f"{one.name:28} {label:10} {m.slack:9.0f} {m.waited:9.0f} {m.within:7.3f} {m.error:8.5f} {covered}",
                flush=True,
            )


if __name__ == "__main__":
    main()
