"""What an instant costs on either engine: `python -m benchmarks.instant [--figure | --queries | --kept] [--json FILE]`.

`--figure`: a correlated aggregate over windows of 0.1 to 5 million tuples (004, Fig. 6.1). `--queries`: Q1 to Q6 of 004
§6.4 over windows of minutes that slide by a second, at several rates, all operators on the row engine, all on the
column engine, and aggregates of windows on the row engine with the rest on the column engine. `--kept`: what the
database reads faster, a table of its own with inserts and deletes, or the chunks of a window where they lie.

Invariant: windows are full before the clock starts; an instant is timed with the tuples that came since the last one.
CPU time is that of all threads; on a machine that others use it is what can be compared.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from slackwater.core.schema import ARROW_OF, Kind
from slackwater.core.state import encode_json, encode_words, state_update
from slackwater.core.time import MINUTE, SECOND
from slackwater.disorder.ordered_batch import OrderedBatch
from slackwater.expressions.functions import typed_call
from slackwater.expressions.tree import Column, Literal
from slackwater.operators.instant.column_engine import connected
from slackwater.operators.instant.pruning import pruned
from slackwater.operators.instant.spec import InstantRelation
from slackwater.relations.algebra import (
    Aggregate,
    AggregateCall,
    Join,
    Placement,
    Project,
    Relation,
    RelationColumn,
    Scan,
    operators,
    scans,
)
from slackwater.relations.fragments import COLUMN, ROW, all_placed

PLUGS, HOUSES = 2_125, 40
WINDOWS = (100_000, 500_000, 1_000_000, 2_000_000, 5_000_000)
RATES = (1_000, 5_000, 10_000)
INSTANTS = 6
NAMES, KINDS = ("house", "plug", "load"), (Kind.INT, Kind.INT, Kind.FLOAT)
PLACES = {"house": 2, "plug": 3, "load": 4}
HOUSE, PLUG, LOAD = (Column(0, name, kind) for name, kind in zip(NAMES, KINDS, strict=True))


@dataclass(frozen=True)
class Cost:
    """Milliseconds an instant: the best of all, in CPU time and by the clock."""

    query: str
    placement: str
    tuples: int
    cpu_ms: float
    wall_ms: float
    rows: int


def column(name: str, kind: Kind) -> RelationColumn:
    return RelationColumn(name, kind, ARROW_OF[kind])


def window(size: int) -> Scan:
    return Scan(0, size, tuple(map(column, NAMES, KINDS)))


def grouped(below: Relation, keys: tuple[Column, ...], prefix: str, *calls: tuple[str, Column | None]) -> Aggregate:
    made = tuple(
        AggregateCall(f, arg, None, column(f"{prefix}{f.lower()}", Kind.INT if arg is None else Kind.FLOAT))
        for f, arg in calls
    )
    return Aggregate(below, keys, tuple(column(prefix + key.name, key.kind) for key in keys), made)


def joined(left: Relation, right: Relation, on: tuple[str, str], condition: object = None) -> Join:
    keys = ((Column(0, on[0], Kind.INT), Column(0, on[1], Kind.INT)),)
    return Join(left, right, keys, condition, "inner", (*left.columns, *right.columns))  # type: ignore[arg-type]


def correlated(size: int, function: str, share: float) -> Relation:
    """How many loads of each plug are above a share of an aggregate of its loads: Q1, Q2, and Fig. 6.1."""
    top = grouped(window(size), (PLUG,), "m_", (function, LOAD))
    bound = typed_call("*", (Literal(share, Kind.FLOAT), Column(1, f"m_{function.lower()}", Kind.FLOAT)))
    pairs = joined(window(size), top, ("plug", "m_plug"), typed_call(">", (LOAD, bound)))
    return grouped(pairs, (PLUG,), "", ("COUNT", None))


def compared(functions: tuple[str, ...], *sizes: int) -> Relation:
    """Aggregates of each plug over windows of several lengths side by side: Q3, Q4 and Q6."""
    whole: Relation = grouped(window(sizes[0]), (PLUG,), "w0_", *((f, LOAD) for f in functions))
    for at, size in enumerate(sizes[1:], 1):
        other = grouped(window(size), (PLUG,), f"w{at}_", *((f, LOAD) for f in functions))
        whole = joined(whole, other, ("w0_plug", f"w{at}_plug"))
    return Project(whole, tuple(Column(0, c.name, c.kind) for c in whole.columns), whole.columns)


def queries() -> dict[str, Relation]:
    totals = grouped(window(5 * MINUTE), (HOUSE, PLUG), "", ("SUM", LOAD))
    return {
        "Q1": correlated(5 * MINUTE, "MAX", 0.9),
        "Q2": correlated(5 * MINUTE, "AVG", 1.0),
        "Q3": compared(("MAX", "AVG"), 5 * MINUTE, MINUTE),
        "Q4": compared(("AVG",), 5 * MINUTE, MINUTE),
        "Q5": grouped(totals, (HOUSE,), "h_", ("MAX", Column(0, "sum", Kind.FLOAT))),
        "Q6": compared(("AVG",), MINUTE, 3 * MINUTE, 5 * MINUTE),
    }


def mixed(relation: Relation) -> Placement:
    """Aggregates that stand on a window on the row engine, which keeps them; the rest on the column engine."""
    return tuple(
        ROW if isinstance(node, Aggregate) and isinstance(node.input, Scan) else COLUMN for node in operators(relation)
    )


class Stream:
    """Readings of plugs at a steady rate."""

    def __init__(self, rate: float) -> None:
        self._random, self._rate = np.random.default_rng(6), rate

    def words(self, begin: int, end: int) -> np.ndarray:
        count = int(self._rate * (end - begin) / SECOND)
        words = np.zeros((5, count), np.int64)
        words[0] = np.sort(self._random.integers(begin, end, count))
        words[3] = self._random.integers(0, PLUGS, count)
        words[2] = words[3] % HOUSES
        words[4] = np.round(self._random.random(count) * 100, 3).view(np.int64)
        return words


def measured(name: str, relation: Relation, placement: Placement, label: str, rate: float) -> Cost:
    tree = pruned(relation)
    read = [c.name for c in scans(tree)[0].columns]
    spec = InstantRelation(tree, SECOND, (tuple((name, PLACES[name]) for name in read),), 5, placement)
    stream, operator = Stream(rate), spec.build()
    full = stream.words(0, spec.range)
    chunk = encode_words({f"w{at}": full[row] for at, row in enumerate([0, *(PLACES[name] for name in read)])})
    passed = state_update("instant", "passed", encode_json({"passed": spec.range}))
    operator.restore([passed, state_update("window", "0-0", chunk)])
    cpu, wall, rows = [], [], 0
    for number in range(INSTANTS):
        at = spec.range + number * SECOND
        words = stream.words(at, at + SECOND)
        nothing = np.zeros(words.shape[1], np.int64)
        run = OrderedBatch(
            nothing, words, np.full(words.shape[1], at), nothing, nothing, nothing, at + SECOND, at + SECOND, at
        )
        began, clock = time.process_time(), time.perf_counter()
        rows = sum(output.results for output in operator.process(run, True))
        cpu.append(1e3 * (time.process_time() - began))
        wall.append(1e3 * (time.perf_counter() - clock))
    return Cost(name, label, int(rate * spec.range / SECOND), min(cpu), min(wall), rows)


def figure() -> Iterator[Cost]:
    for tuples in WINDOWS:
        relation = correlated(5 * MINUTE, "MAX", 0.5)
        for engine in (ROW, COLUMN):
            yield measured("Fig. 6.1", relation, all_placed(relation, engine), engine, tuples / 300)


def all_queries() -> Iterator[Cost]:
    for name, relation in queries().items():
        for rate in RATES:
            for label, placement in (
                (ROW, all_placed(relation, ROW)),
                (COLUMN, all_placed(relation, COLUMN)),
                ("mixed", mixed(relation)),
            ):
                yield measured(name, relation, placement, label, rate)


def kept() -> Iterator[Cost]:
    """The statement of Fig. 6.1 over a table of the database, and over record batches as the engine has them."""
    statement = (
        "SELECT a.plug, count(*) FROM w AS a JOIN (SELECT plug, max(load) AS top FROM w GROUP BY plug) AS b"
        " ON a.plug = b.plug AND a.load > CAST('0.5' AS DOUBLE) * b.top GROUP BY a.plug"
    )
    for tuples in WINDOWS:
        stream = Stream(tuples / 300)
        full, database = stream.words(0, 300 * SECOND), connected()
        columns = {"ts": full[0], "plug": full[3], "load": full[4].view(np.float64)}
        batches = [
            pa.record_batch({name: row[at : at + 32_768] for name, row in columns.items()})
            for at in range(0, full.shape[1], 32_768)
        ]
        database.register("w", pa.Table.from_batches(batches))
        yield timed("kept", "arrow chunks", tuples, lambda d=database: d.sql(statement).to_arrow_table().num_rows)
        database.unregister("w")
        database.register("given", pa.table(columns))
        database.execute("CREATE TABLE w AS SELECT * FROM given")
        moment = [300 * SECOND]

        def slide(d=database, s=stream, m=moment) -> int:
            some = s.words(m[0], m[0] + SECOND)
            d.register("given", pa.table({"ts": some[0], "plug": some[3], "load": some[4].view(np.float64)}))
            d.execute("INSERT INTO w SELECT * FROM given")
            m[0] += SECOND
            d.execute("DELETE FROM w WHERE ts < ?", [m[0] - 300 * SECOND])
            return d.sql(statement).to_arrow_table().num_rows

        yield timed("kept", "own table, with insert and delete", tuples, slide)


def timed(name: str, label: str, tuples: int, work: Callable[[], int]) -> Cost:
    cpu, wall, rows = [], [], 0
    for _ in range(INSTANTS):
        began, clock = time.process_time(), time.perf_counter()
        rows = work()
        cpu.append(1e3 * (time.process_time() - began))
        wall.append(1e3 * (time.perf_counter() - clock))
    return Cost(name, label, tuples, min(cpu), min(wall), rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("figure", "queries", "kept"):
        parser.add_argument(f"--{name}", action="store_true")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    parts = {"figure": figure, "queries": all_queries, "kept": kept}
    asked = [part for name, part in parts.items() if getattr(given, name)] or list(parts.values())
    costs, console = [], Console()
    for part in asked:
        for cost in part():
            costs.append(cost)
            console.print(f"{cost.query}, {cost.placement}, {cost.tuples:,} tuples: {cost.cpu_ms:.1f} ms of CPU time")
    table = Table("query", "placement", "tuples in the window", "CPU ms an instant", "ms by the clock", "rows")
    for cost in costs:
        line = (cost.query, cost.placement, f"{cost.tuples:,}", f"{cost.cpu_ms:.1f}", f"{cost.wall_ms:.1f}")
        table.add_row(*line, f"{cost.rows:,}")
    console.print(table)
    if given.json is not None:
        given.json.write_text(json.dumps([asdict(cost) for cost in costs], indent=2))


if __name__ == "__main__":
    main()
