"""The page of forms is what the planner says now, and every cell that is offered runs: in this process tuple by tuple
and in epochs, and in shards."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from slackwater.operators.pipeline import Epochs
from slackwater.runtime.local.run import LocalRun
from slackwater.runtime.recorded import RecordedRun
from slackwater.sources.lookups import with_lookups
from slackwater.sources.replay import replay
from tests.effort import more
from tests.forms import PAGE, STREAM, Cell, cells, page, streams_of
from tests.spark.in_process import InProcess

ALIKE = "of the same form with COMPLETE, and of the same target in order"
EPOCH = Epochs(tuples=60)


@cache
def tables() -> dict[str, pa.Table]:
    """Seven seconds of three streams, in the order of event time, so that no target loses anything."""
    made = {}
    for number, name in enumerate("abc"):
        random, at = np.random.default_rng(number), np.arange(60)
        columns = [
            1_700_000_000_000 + 120 * at + number,
            random.integers(0, 3, 60),
            random.integers(0, 6, 60),
            3 * at + number,
        ]
        made[name] = pa.table(dict(zip(STREAM.names, columns, strict=True)), schema=STREAM)
    return with_lookups(cells()[0].text, streams_of(made))[1]


def read_by(one: Cell) -> dict[str, pa.Table]:
    _, every = with_lookups(one.text, streams_of({name: tables()[name] for name in "abc"}))
    return {source.stream.source: every[source.stream.source] for source in one.physical.inputs}


def rows(run: RecordedRun) -> Counter[Any]:
    """What a run gives, without what is said of changes."""
    whole = [table for table in run.tables() if table.num_rows]
    left = [name for name in ("_version", "_change", "_expected_error") if whole and name in whole[0].column_names]
    return Counter(str(row) for table in whole for row in table.drop_columns(left).to_pylist())


def quick() -> list[Any]:
    """Of every form each target in order, and each emission with COMPLETE; the others are tried at length."""
    first = [one for one in cells() if one.target == "C" or one.emission == "`IN ORDER`"]
    return [*first, *more(ALIKE, *(one for one in cells() if one not in first))]


def named(one: Any) -> str:
    return f"{one.form} {one.target} {one.emission}" if isinstance(one, Cell) else str(one)


@pytest.mark.parametrize("one", quick(), ids=named)
def test_a_cell_that_is_offered_runs_locally_and_in_shards(one: Cell, tmp_path: Path) -> None:
    sources = read_by(one)
    arrivals = replay(one.physical, sources, "ms")
    local = LocalRun(one.physical, arrivals, EPOCH)
    found = rows(local)
    assert found, "the streams make no result of this form"
    if one.on_spark != "no":
        with InProcess(EPOCH, 2, tmp_path / "run").begin(one.physical, arrivals, sources, "ms") as run:
            # When a row of an open window leaves hangs on where epochs end.
            assert rows(run) == found or one.emission == "`EARLY`"
    if one.by_tuples and one.target == "C":
        again = LocalRun(one.physical, replay(one.physical, sources, "ms"), Epochs(each_tuple=True))
        assert rows(again)
        seen = again.observe()
        assert seen.tuples == seen.in_time + seen.late == sum(table.num_rows for table in sources.values())


def test_the_page_is_what_the_planner_says() -> None:
    assert PAGE.read_text(encoding="utf-8") == page() + "\n", "write it anew: python -m tests.forms"
