"""How soon the first row of an open window comes, and whether its expected error keeps its word: EMIT EARLY AT ERROR e.

Windows of 5 minutes that slide by 10 seconds, of positions of soccer players and loads of smart plugs, by player and by
plug. Slack covers every delay, so the final row is the true one. Times are counted from the begin of a window, by the
largest clock; a window without an early row has waited for its final one. The first third of the windows teach and are
not judged.

    python -m benchmarks.early [--error 0.05] [--minutes 30] [NAME ...]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from papers.workloads.delays import Delays
from papers.workloads.plugs import LOAD, smart_plugs
from slackwater.core.batch import Batch
from slackwater.core.schema import Kind
from slackwater.core.time import MILLISECOND, SECOND
from slackwater.disorder.controllers import FixedSlack
from slackwater.operators.aggregate.algebra import AggregateSpec
from slackwater.operators.aggregate.changing import Changing
from slackwater.operators.aggregate.operator import WindowAggregate
from slackwater.operators.pipeline import Epochs, KernelTerms, Pipeline
from slackwater.workloads.soccer import positions

RANGE, SLIDE, EPOCH = 300 * SECOND, 10 * SECOND, SECOND
KEY, VALUE, ROWS = 2, 3, 4
AGGREGATES = {
    "AVG": AggregateSpec("AVG", VALUE, Kind.FLOAT),
    "SUM": AggregateSpec("SUM", VALUE, Kind.FLOAT),
    "COUNT": AggregateSpec("COUNT"),
    "MEDIAN": AggregateSpec("MEDIAN", VALUE, Kind.FLOAT),
    "MAX": AggregateSpec("MAX", VALUE, Kind.FLOAT),
}
FIRST = 1 / 3
Column = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Stream:
    """A stream by its tuples in order of arrival, and the slack that covers every delay."""

    name: str
    batch: Batch
    slack: int


def stream_of(name: str, table: pa.Table, key: str, value: str) -> Stream:
    """A column of a table, by a key."""
    table = table.sort_by("arrival")
    ts = np.asarray(pc.cast(table["ts"], pa.int64())) * MILLISECOND
    values = np.asarray(table[value]).astype(np.float64).view(np.int64)
    words = np.stack([ts, np.arange(len(ts)), np.asarray(table[key]).astype(np.int64), values])
    delays = np.maximum.accumulate(ts) - ts
    return Stream(name, Batch(np.zeros(len(ts), np.int64), words, np.ones(len(ts), np.bool_)), int(delays.max()))


def streams(minutes: float) -> Iterator[Stream]:
    """Where players are along the field; and what plugs draw."""
    yield stream_of("soccer", positions(minutes=minutes).streams["s1"], "sid", "x")
    plugs = smart_plugs(minutes=minutes, plugs=100, disorder=Delays(0.3, 30_000)).streams["plugs"]
    loads = plugs.filter(pc.equal(plugs["property"], LOAD))
    number = pc.add(
        pc.multiply(pc.cast(loads["house"], pa.int64()), 10**6),
        pc.multiply(pc.cast(loads["household"], pa.int64()), 10**3),
    )
    yield stream_of(
        "plugs", loads.append_column("number", pc.add(number, pc.cast(loads["plug"], pa.int64()))), "number", "value"
    )


@dataclass(frozen=True)
class Measured:
    """How many rows came early, how soon, and how wrong they were."""

    early: float
    time: float
    after_end: float
    covered: float
    error: float
    expected: float


def measured(stream: Stream, aggregate: AggregateSpec, error: float) -> Measured:
    """Run a query, and look at its first rows."""
    spec = Changing(WindowAggregate(RANGE, SLIDE, (KEY,), (aggregate,), ROWS), error=error)
    pipeline = Pipeline(spec, spec.build(), FixedSlack(stream.slack), KernelTerms(Epochs(span=EPOCH)), 10**15)
    pipeline.absorb(stream.batch)
    early: dict[tuple[int, int], tuple[int, float, float]] = {}
    times, after, covered, errors, expected, came = [], [], [], [], [], []
    until = int(stream.batch.ts.max()) - RANGE
    since = int(stream.batch.ts.min()) + FIRST * (until - int(stream.batch.ts.min()))
    is_float = aggregate.function != "COUNT"
    for emission in pipeline.advance():
        values = emission.columns[3].view(np.float64) if is_float else emission.columns[3].astype(np.float64)
        lines = zip(
            emission.columns[0].tolist(), emission.columns[2].tolist(), emission.clock.tolist(), values, strict=True
        )
        for line, (start, key, clock, value) in enumerate(lines):
            if emission.amends:
                assert emission.expected_error is not None
                early[start, key] = clock, float(value), float(emission.expected_error[line])
            elif since <= start <= until:
                first, was, may_be = early.pop((start, key), (clock, float(value), np.nan))
                came.append(not np.isnan(may_be))
                times.append((first - start) / (clock - start))
                after.append((first - start - RANGE) / SECOND)
                if came[-1]:
                    errors.append(abs(was - value) / (abs(value) or 1.0))
                    expected.append(may_be)
                    covered.append(errors[-1] <= may_be + 1e-12)
    return Measured(
        *map(
            float,
            (
                np.mean(came),
                np.median(times),
                np.median(after),
                np.mean(covered or [np.nan]),
                np.median(errors or [np.nan]),
                np.median(expected or [np.nan]),
            ),
        )
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--error", type=float, default=0.05)
    parser.add_argument("--minutes", type=float, default=30)
    given = parser.parse_args()
    print(f"{'':16} {'early':>6} {'time':>6} {'end +s':>7} {'covered':>8} {'error':>7} {'expected':>8}")
    for stream in streams(given.minutes):
        if given.names and stream.name not in given.names:
            continue
        for name, aggregate in AGGREGATES.items():
            m = measured(stream, aggregate, given.error)
            print(
                f"{stream.name:8} {name:7} {m.early:6.3f} {m.time:6.3f} {m.after_end:7.1f} {m.covered:8.3f}"
                f" {m.error:7.4f} {m.expected:8.4f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
