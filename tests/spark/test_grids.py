"""Joins without a key in a grid of shards: what one shard gives, of whatever is told, and what the local runtime gives.

Shards in process begin every micro-batch with what was written to their state, so each of them is a restart too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark", reason="the Spark runtime needs pyspark")

import slackwater as sw
from slackwater.cli.prepare import Prepared
from slackwater.cli.verify import verify_query
from slackwater.core.batch import ROW
from slackwater.core.time import SECOND
from slackwater.plan.grid import Grid, cheapest
from slackwater.plan.planner import plan
from slackwater.runtime.spark.exchange.format import read_block
from slackwater.runtime.spark.exchange.writer import Packing, lines_of
from slackwater.runtime.spark.query import packings_of
from slackwater.sources.binding import bind_to_tables
from slackwater.sources.codebook import Codebook
from slackwater.sources.replay import replay
from tests.effort import tried
from tests.spark.in_process import InProcess

NAMES = "abc"
TWO = "SELECT a.v AS av, b.v AS bv, b.name AS who FROM a [RANGE 60 MS], b [RANGE 90 MS]"
THREE = "SELECT a.v AS av, b.v AS bv, c.v AS cv FROM a [RANGE 30 MS], b [RANGE 20 MS], c [RANGE 40 MS]"
QUERIES = {
    "all pairs": TWO,
    "a band": f"{TWO} WHERE abs(a.x - b.x) < 0.2 AND a.v <> 3",
    "a distance": f"{TWO} WHERE dist(a.x, a.y, b.x, b.y) < 0.5",
    "texts": f"{TWO} WHERE a.name <> b.name OR b.name IS NULL",
    "three": f"{THREE} WHERE dist(a.x, a.y, b.x, b.y) < 0.6 AND abs(b.x - c.x) < 0.5",
    "three, two of them by a key": f"{THREE} WHERE a.name = b.name AND b.x < c.x",
    "held until they leave": TWO.replace("SELECT", "SELECT DSTREAM") + " WHERE abs(a.x - b.x) < 0.2",
    "held and given again": TWO.replace("SELECT", "SELECT RSTREAM EVERY 50 MS") + " WHERE abs(a.x - b.x) < 0.1",
}
TARGETS = ("DELAY 15 MS", "NO WAIT", "COMPLETE OPTIONS (max_ahead = 100 ms)", "DELAY 5 MS OPTIONS (max_ahead = 60 ms)")
COUNTS = ("tuples", "in_time", "late", "filtered", "rejected", "rejected_reasons", "results", "held")


def streams_of(seed: int, names: str, n: int) -> dict[str, pa.Table]:
    """Streams of a tuple every few milliseconds; some late, some far ahead, some without a time, some twice."""
    rng = np.random.default_rng(seed)
    streams = {}
    for place, name in enumerate(names):
        count = n // (1 + place)
        ts = 1_700_000_000_000 + np.arange(count) * 4 * (1 + place)
        ts += np.where(rng.random(count) < 0.3, rng.integers(-60, 0, count), 0)
        ts += np.where(rng.random(count) < 0.03, 5000, 0)
        same = np.maximum(np.arange(count) - (rng.random(count) < 0.1), 0)
        table = {
            "ts": pa.array(ts[same], mask=rng.random(count) < 0.03),
            "x": pa.array(rng.random(count)[same], mask=rng.random(count) < 0.05),
            "y": rng.random(count)[same],
            "v": np.arange(count)[same] % 50,
            "name": pa.array([f"n{k}" for k in rng.integers(0, 4, count)], mask=rng.random(count) < 0.2),
        }
        arrival = np.arange(count) * (1 + place) * len(names) + place
        streams[name] = pa.table({"arrival": arrival, **table})
    return streams


def in_shards(
    query: str, streams: Mapping[str, pa.Table], epochs: sw.Epochs, shards: int, folder: Path
) -> tuple[sw.Answer, list[tuple[Any, ...]]]:
    """The answer, and what was seen after every micro-batch."""
    physical = plan(bind_to_tables(query, streams, "ts").query)
    seen: list[tuple[Any, ...]] = []
    with InProcess(epochs, shards, folder).begin(physical, replay(physical, streams, "ms"), streams, "ms") as run:

        def look() -> None:
            now = run.observe()
            counts = (now.tuples, now.in_time, now.late, now.filtered, now.held, now.ahead, now.results)
            seen.append((now.clocks, now.watermark, now.slack, *counts))

        tables = list(run.tables(look))
    aliases = [one.stream.alias for one in physical.inputs]
    late = {alias: run.side_outputs.late_rows(i) for i, alias in enumerate(aliases)}
    rejected = {alias: run.side_outputs.rejected_rows(i) for i, alias in enumerate(aliases)}
    return sw.Answer(pa.concat_tables(tables), late, rejected, run.report().as_json()), seen


def rows(table: pa.Table) -> Counter[tuple[str, ...]]:
    """As texts, in which one NaN is like another."""
    return Counter(zip(*(map(repr, column.to_pylist()) for column in table.columns), strict=True))


def told(ran: sw.Answer) -> dict[str, Any]:
    """All that must be the same however many shards there are."""
    report = {name: ran.report[name] for name in COUNTS}
    report["slack"] = {which: ran.report["slack_ms"][which] for which in ("max", "last")}
    late = {name: rows(table.drop_columns("delay")) for name, table in ran.late.items()}
    return report | {
        "of all": rows(ran.results),
        "late rows": late,
        "away": {n: rows(t) for n, t in ran.rejected.items()},
    }


def of_both(facts: dict[str, Any]) -> dict[str, Any]:
    """What shards and the local runtime must agree in. Shards ask the filter first, so a row that is ahead and does not
    pass is filtered there and rejected here; and they learn the largest delay of the last epoch before they end."""
    same = ("tuples", "in_time", "late", "results", "held", "of all", "late rows")
    return {name: facts[name] for name in same} | {"of no use": facts["filtered"] + facts["rejected"]}


CASES = {
    "seed": st.integers(0, 2**16),
    "target": st.sampled_from(TARGETS),
    "tuples": st.integers(20, 200),
    "shards": st.permutations([2, 3, 4]).map(lambda order: order[:2]),
}


def check_shards(query: str, streams: dict[str, pa.Table], tuples: int, shards: list[int]) -> None:
    """Any number of shards gives what one gives, and what the local runtime gives."""
    epochs = sw.Epochs(tuples=tuples)
    local = told(sw.replay(query, streams, epochs=epochs))
    with TemporaryDirectory() as folder:
        alone, seen = in_shards(query, streams, epochs, 1, Path(folder, "1"))
        assert of_both(told(alone)) == of_both(local)
        for count in shards:
            ran, also_seen = in_shards(query, streams, epochs, count, Path(folder, str(count)))
            assert told(ran) == told(alone), count
            assert also_seen == seen, count


def check_missing(query: str, streams: dict[str, pa.Table], folder: Path) -> None:
    """Whatever four shards miss is explained by late tuples, as the judge sees it."""
    prepared = Prepared(bind_to_tables(query, streams, "ts"), streams, None, "ms")
    verified = verify_query(
        prepared, InProcess(sw.Epochs(tuples=60), 4, folder / "run"), False, None, None, SECOND, quiet=True
    )
    verdict, report = verified.verdict, verified.report.as_json()
    assert (verdict.missing_unexplained, verdict.spurious, verdict.out_of_order) == (0, 0, 0)
    assert verdict.missing_late > 0 < verdict.results
    assert report["late"] > 0 < report["rejected"]
    assert report["shards"] == 4


@pytest.mark.parametrize("name", QUERIES)
@tried(6)
@given(**CASES)
def test_any_number_of_shards_gives_what_one_gives(
    name: str, seed: int, target: str, tuples: int, shards: list[int]
) -> None:
    names = NAMES if name.startswith("three") else NAMES[:2]
    check_shards(f"{QUERIES[name]} WITH {target}", streams_of(seed, names, 120), tuples, shards)


def test_what_is_missing_is_explained_by_late_tuples(tmp_path: Path) -> None:
    query = f"{QUERIES['a distance']} WITH DELAY 15 MS OPTIONS (max_ahead = 100 ms)"
    check_missing(query, streams_of(7, "ab", 400), tmp_path)


@pytest.mark.parametrize("rates", [(1.0, 1.0), (9.0, 1.0), (1.0, 1.0, 1.0)])
@pytest.mark.parametrize("shards", [2, 3, 4, 8, 12])
def test_every_combination_is_in_one_cell_and_every_tuple_told_of_once(rates: tuple[float, ...], shards: int) -> None:
    grid = cheapest(rates, shards)
    cells = [tuple(grid.part(position, cell) for position in range(len(rates))) for cell in range(shards)]
    assert sorted(cells) == sorted(product(*(range(count) for count in grid.parts)))
    for position, count in enumerate(grid.parts):
        telling = [grid.part(position, cell) for cell in range(shards) if grid.tells_of(position, cell)]
        assert sorted(telling) == list(range(count))


def test_where_a_tuple_goes_hangs_on_its_words_alone() -> None:
    """A micro-batch that runs again may be cut differently into partitions, and one shard of it may have been done."""
    streams = streams_of(3, "ab", 300)
    physical = plan(bind_to_tables(QUERIES["texts"], streams, "ts").query)
    packing = packings_of(physical, (5, 1, 2, 0), "ms", tasks=2)[0]
    assert packing.cut == Grid((2, 2))
    table = streams["a"]
    straight = _tuples(packing, [table])
    again = _tuples(packing, [table.slice(200).take(pa.array(range(99, -1, -1))), table.slice(0, 200)])
    assert again == straight
    assert straight[0] == straight[1] != straight[2] == straight[3], "the first two cells have one part of it"
    assert min(sum(one.values()) for one in straight) > 100


def _tuples(packing: Packing, tables: list[pa.Table]) -> list[Counter[tuple[int, ...]]]:
    """The tuples that each shard gets."""
    found: dict[int, Counter[tuple[int, ...]]] = {label: Counter() for label in packing.shards}
    for table in tables:
        for line in lines_of(packing, table, False, Codebook()):
            if line.block is not None:
                words, _ = read_block(line.block, packing.text_rows, Codebook())
                found[line.shard].update(zip(*np.delete(words, ROW, axis=0).tolist(), strict=True))
    return list(found.values())
