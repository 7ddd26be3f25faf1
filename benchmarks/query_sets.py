"""Many queries over the same streams: one run of all of them against as many runs of one.

    python -m benchmarks.query_sets [--minutes 2] [--scale] [--memory]

Invariant: CPU time of one process, of reading words from tables in memory to tables of results; everything was compiled
before. A query alone pays for its own reading, as it does where a user starts one job each. It is measured twice: with
the batches that a run of one has by itself, and with those of a set, because larger batches cost less whoever has them.
`--memory` counts the tuples that logs hold, beside what any arrangement of buffers must hold: each tuple once that has
come and is not yet due for some query that wants it.
"""

from __future__ import annotations

import argparse
import json
import time
import tracemalloc
from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from papers.workloads import dsyn3, uniform_stream
from slackwater.core.batch import ROW, Batch, Words
from slackwater.core.time import AFTER_ALL, SECOND
from slackwater.operators.pipeline import Epochs
from slackwater.plan.physical import PhysicalPlan
from slackwater.plan.planner import plan
from slackwater.runtime.local.queries import LARGE, LocalQueries
from slackwater.runtime.local.run import LocalRun
from slackwater.sources.binding import bind_to_tables
from slackwater.sources.replay import replay
from slackwater.workloads import positions

EPOCHS = Epochs(span=SECOND)
TARGETS = ("DELAY 1 SECOND", "COMPLETE", "NO WAIT", "DELAY 5 SECONDS")


def synthetic_queries(count: int, width: int, turned: bool = False) -> dict[str, str]:
    """Joins of two and of three streams, and aggregates, each over so many values of a1.

    All queries of a kind have one target; `turned`: each kind has all of them, so joins of two and of three streams
    both wait, and the clock domains of both want the same tuples.
    """
    made = {}
    for n in range(count):
        low, target = 5 + (7 * n) % 60, TARGETS[(n // 4 if turned else n) % len(TARGETS)]
        some = [f"{s}.a1 >= {low} AND {s}.a1 < {low + width}" for s in ("s1", "s2", "s3")]
        kind = n % 4
        if kind == 0:
            made[f"q{n}"] = (
                f"SELECT a1, COUNT(*) AS n FROM s1 [10 SECONDS SLIDE 1 SECOND] WHERE {some[0]} GROUP BY a1"
                f" WITH {target}"
            )
        elif kind == 1:
            made[f"q{n}"] = f"SELECT AVG(a1) AS m, MAX(a1) AS x FROM s2 [5 SECONDS] WHERE {some[1]} WITH {target}"
        elif kind == 2:
            made[f"q{n}"] = (
                f"SELECT s1.a1 FROM s1 [2 SECONDS], s2 [2 SECONDS] WHERE s1.a1 = s2.a1 AND {some[0]} AND {some[1]}"
                f" WITH {target}"
            )
        else:
            made[f"q{n}"] = (
                "SELECT s1.a1 FROM s1 [1 SECOND], s2 [1 SECOND], s3 [1 SECOND]"
                f" WHERE s1.a1 = s2.a1 AND s2.a1 = s3.a1 AND {some[0]} AND {some[1]} AND {some[2]} WITH {target}"
            )
    return made


def soccer_queries(count: int) -> dict[str, str]:
    """Who meets whom in a part of the field, and how fast players of a team run."""
    made = {}
    for n in range(count):
        low, target = 5 * (n % 18), TARGETS[n % len(TARGETS)]
        if n % 2 == 0:
            made[f"q{n}"] = (
                f"SELECT sid, AVG(x) AS x, AVG(y) AS y FROM s1 [2 SECONDS SLIDE 1 SECOND]"
                f" WHERE x >= {low} AND x < {low + 10} GROUP BY sid WITH {target}"
            )
        else:
            made[f"q{n}"] = (
                "SELECT s1.sid AS one, s2.sid AS other FROM s1 [1 SECOND], s2 [1 SECOND]"
                f" WHERE dist(s1.x, s1.y, s2.x, s2.y) < 2 AND s1.x >= {low} AND s1.x < {low + 5}"
                f" AND s2.x >= {low} AND s2.x < {low + 5} WITH {target}"
            )
    return made


def planned(queries: Mapping[str, str], tables: dict[str, pa.Table]) -> dict[str, PhysicalPlan]:
    return {name: plan(bind_to_tables(text, tables, "ts").query) for name, text in queries.items()}


def together(plans: Mapping[str, PhysicalPlan], tables: dict[str, pa.Table]) -> tuple[float, int]:
    """CPU seconds of one run of all, and how many rows came out."""
    begun = time.process_time()
    run = LocalQueries(plans, tables, "ms", EPOCHS)
    rows = sum(table.num_rows for _, table in run.tables())
    return time.process_time() - begun, rows


def apart(
    plans: Mapping[str, PhysicalPlan], tables: dict[str, pa.Table], batch: int | None = None
) -> tuple[float, int]:
    """CPU seconds of as many runs, and how many rows came out."""
    begun, rows = time.process_time(), 0
    for one in plans.values():
        run = LocalRun(one, replay(one, tables, "ms"), EPOCHS, batch=batch)
        rows += sum(table.num_rows for table in run.tables())
    return time.process_time() - begun, rows


def compare(name: str, queries: Mapping[str, str], tables: dict[str, pa.Table]) -> dict[str, object]:
    plans = planned(queries, tables)
    few = {key: table.slice(0, 2000) for key, table in tables.items()}
    together(plans, few), apart(plans, few)
    (shared, rows), (alone, rows_alone) = together(plans, tables), apart(plans, tables)
    in_equal_batches, _ = apart(plans, tables, LARGE)
    assert rows == rows_alone, "a set gives other results"
    tuples = sum(table.num_rows for table in tables.values())
    return {
        "streams": name, "queries": len(plans), "tuples": tuples, "results": rows,
        "together_cpu_s": round(shared, 2), "apart_cpu_s": round(alone, 2),
        "together_tuples_a_cpu_s": round(tuples / shared), "times": round(alone / shared, 2),
        "times_in_equal_batches": round(in_equal_batches / shared, 2),
    }  # fmt: skip


def scale(tuples: int) -> list[dict[str, object]]:
    """1 to 200 aggregates over one stream, each with a filter: throughput and memory."""
    tables = {"s": uniform_stream(tuples, 10_000, 100, 1, max_delay_ms=1_500, late_share=0.1, field_m=100.0)}
    found: list[dict[str, object]] = []
    for count in (1, 5, 20, 50, 100, 200):
        queries = {
            f"q{n}": "SELECT key, SUM(v) AS s, COUNT(*) AS n FROM s [1 SECOND]"
            f" WHERE key >= {n % 90} AND key < {n % 90 + 10} GROUP BY key WITH {TARGETS[n % len(TARGETS)]}"
            for n in range(count)
        }
        plans = planned(queries, tables)
        few = {key: table.slice(0, 2000) for key, table in tables.items()}
        together(plans, few), apart({"q0": plans["q0"]}, few)
        shared, _ = together(plans, tables)
        alone, _ = apart({"q0": plans["q0"]}, tables)
        tracemalloc.start()
        together(plans, {key: table.slice(0, tuples // 4) for key, table in tables.items()})
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        found.append(
            {
                "queries": count,
                "together_cpu_s": round(shared, 2),
                "one_alone_cpu_s": round(alone, 2),
                "tuples_a_cpu_s": round(tuples / shared),
                "times": round(count * alone / shared, 2),
                "peak_mb": round(peak / 1e6, 1),
            }
        )
    return found


class Memory:
    """Tuples in the logs of a set after every batch, and the least that anybody could hold."""

    def __init__(self, plans: Mapping[str, PhysicalPlan], tables: dict[str, pa.Table], batch: int) -> None:
        self.run = LocalQueries(plans, tables, "ms", EPOCHS, batch=batch)
        self.held: list[int] = []
        self.least: list[int] = []
        self._arrived: dict[str, list[tuple[Words, Words, Words, Words]]] = {}
        absorb = self.run.kernel.absorb

        def noted(domain: str, arriving: Batch, passed: Words) -> None:
            came = (arriving.stream, arriving.words[ROW], arriving.ts, passed)
            self._arrived.setdefault(domain, []).append(came)
            absorb(domain, arriving, passed)

        self.run.kernel.absorb = noted  # type: ignore[method-assign]

    def follow(self) -> dict[str, object]:
        for _ in self.run.tables(self._look):
            pass
        over = [held / least for held, least in zip(self.held, self.least, strict=True) if least]
        total, least = sum(self.held), sum(self.least)
        return {"looks": len(self.held), "held": total / len(self.held), "least": least / len(self.held),
                "times_the_least": round(total / least, 3), "at_most": round(max(over), 3)}  # fmt: skip

    def _look(self) -> None:
        domains = self.run.kernel.domains
        self.held.append(self.run.kernel.log_tuples)
        needed: set[tuple[str, int]] = set()
        for key, came in self._arrived.items():
            domain = domains[key]
            waiting = [one for one in domain.members.values() if one.cursor is not None and one.cursor.waits]
            oldest = min((one.query.watermark for one in waiting), default=AFTER_ALL)
            stream, row, ts, passed = (np.concatenate(parts, axis=-1) for parts in zip(*came, strict=True))
            wanted = np.zeros(len(ts), np.bool_)
            for one in waiting:
                for s, number in enumerate(one.place.filters):
                    flags = passed[number // 64] >> (number % 64) & 1 == 1 if number >= 0 else True
                    wanted |= (stream == s) & flags & (ts > one.query.watermark)
            # What has come since the last epoch ended is with the clock guard.
            judged = np.arange(len(ts)) < len(ts) - domain.clocks.unjudged
            places = zip(stream[wanted & judged].tolist(), row[wanted & judged].tolist(), strict=True)
            needed.update((domain.plan.sources[s], r) for s, r in places)
            left = (ts > oldest) | ~judged
            self._arrived[key] = [(stream[left], row[left], ts[left], passed[:, left])]
        self.least.append(len(needed))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--queries", type=int, default=50)
    parser.add_argument("--scale", action="store_true")
    parser.add_argument("--memory", action="store_true")
    asked = parser.parse_args()
    if asked.scale:
        for line in scale(200_000):
            print(json.dumps(line))
        return
    count = asked.queries
    synthetic = dict(dsyn3(0, asked.minutes).streams)
    if asked.memory:
        soccer = dict(positions(seed=0, minutes=asked.minutes).streams)
        sets = {"D_syn x3": (synthetic_queries(count, 3), synthetic), "soccer": (soccer_queries(count), soccer)}
        for width in (3, 10):
            both = synthetic_queries(count, width, turned=True)
            sets[f"D_syn x3, {width} values, joins of two and of three streams wait"] = both, synthetic
        for name, (queries, tables) in sets.items():
            print(json.dumps({"streams": name} | Memory(planned(queries, tables), tables, 1000).follow()))
        return
    for width in (3, 10):
        print(json.dumps(compare(f"D_syn x3, {width} values", synthetic_queries(count, width), synthetic)))
    soccer = dict(positions(seed=0, minutes=asked.minutes).streams)
    print(json.dumps(compare("soccer", soccer_queries(count), soccer)))


if __name__ == "__main__":
    main()
