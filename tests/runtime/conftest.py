"""One fixture runs every behaviour test on every runtime: local, shards in this process, and Spark.

Shards are what runs in Spark's Python workers, without Spark; they take every case, two shards in those that can be
split. A case on Spark costs seconds. It takes the tests that are marked `@pytest.mark.end_to_end`, one of each kind of
query and of answer, and of a test with several cases the second; all tests with `SLACKWATER_SPARK=all`, and one in ten
of their cases. A test that is about something shards do not have says so: `@pytest.mark.local_only("why")`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slackwater.cli import prepare as commands
from slackwater.cli.prepare import Prepared, prepare
from slackwater.cli.run import run_query
from slackwater.cli.verify import verify_query
from slackwater.core.time import SECOND
from slackwater.sources.binding import bind_to_tables
from slackwater.sources.files import plain
from slackwater.verify import Verdict
from tests.effort import ALL_ON_SPARK
from tests.runtime.streams import TUPLE_RELEASE, Ran, Runtime

LOCAL, SHARDS, SPARK = "local", "shards", "spark"
ONE_IN, FIRST = 10, 1


class CommandRuntime:
    """A runtime, through the same functions that the command line calls."""

    def __init__(self, name: str, folder: Path) -> None:
        self._name, self._folder, self._runs = name, folder, count()

    def offered(self, *epochs: str) -> tuple[str, ...]:
        if self._name == LOCAL:
            return epochs
        return tuple(epoch for epoch in epochs if epoch != TUPLE_RELEASE)[:1]

    def _runtime(self, epoch: str | None) -> commands.Runtime:
        if self._name == LOCAL:
            return commands.runtime_of(LOCAL, epoch)
        on_spark = commands.runtime_of(SPARK, epoch, shards=2)
        if self._name == SPARK:
            return on_spark
        from tests.spark.in_process import InProcess

        return InProcess(on_spark.epochs, on_spark.shards, self._folder / f"run{next(self._runs)}")  # type: ignore[attr-defined]

    def run(
        self,
        query: str,
        streams: Mapping[str, pa.Table],
        epoch: str | None = None,
        *,
        count_only: bool = False,
        arrival_time: str | None = None,
        **options: Any,
    ) -> Ran:
        out = self._folder / f"out{next(self._runs)}"
        run_query(
            self._prepared(query, streams, **options), self._runtime(epoch), out, count_only, arrival_time, quiet=True
        )
        report = json.loads((out / "report.json").read_text())
        return Ran(_parts(out / "results"), _side_output(out / "late"), _side_output(out / "rejected"), report)

    def verify(
        self,
        query: str,
        streams: Mapping[str, pa.Table],
        epoch: str | None = None,
        *,
        count_only: bool = False,
        arrival_time: str | None = None,
        **options: Any,
    ) -> Verdict:
        prepared = self._prepared(query, streams, **options) if options else _handed(query, streams)
        return self.judge(prepared, epoch, count_only=count_only, arrival_time=arrival_time)

    def judge(
        self,
        prepared: Prepared,
        epoch: str | None = None,
        *,
        count_only: bool = False,
        arrival_time: str | None = None,
    ) -> Verdict:
        return verify_query(prepared, self._runtime(epoch), count_only, arrival_time, None, SECOND, quiet=True).verdict

    def judged(
        self, query: str, streams: Mapping[str, pa.Table], epoch: str | None = None
    ) -> tuple[dict[str, Any], Verdict]:
        verified = verify_query(_handed(query, streams), self._runtime(epoch), False, None, None, SECOND, quiet=True)
        return verified.report.as_json(), verified.verdict

    def _prepared(
        self,
        query: str,
        streams: Mapping[str, pa.Table],
        time: str = "ts",
        time_unit: str = "ms",
        **overrides: str,
    ) -> Prepared:
        folder = self._folder / f"in{next(self._runs)}"
        folder.mkdir()
        (folder / "query.sql").write_text(query)
        for name, table in streams.items():
            pq.write_table(table, folder / f"{name}.parquet")
        given = [f"{name}={folder / name}.parquet" for name in streams]
        return prepare(folder / "query.sql", given, time, time_unit, dict(overrides))


def _handed(query: str, streams: Mapping[str, pa.Table]) -> Prepared:
    """The same without files, which properties are tried with; how commands read files is tested with `run`."""
    tables = {name: plain(table) for name, table in streams.items()}
    places = {name: np.arange(table.num_rows) for name, table in tables.items()} if len(tables) == 1 else None
    return Prepared(bind_to_tables(query, tables, "ts"), tables, places, "ms")


def _parts(folder: Path) -> pa.Table:
    return pa.concat_tables(pq.read_table(part) for part in sorted(folder.glob("*.parquet")))


def _side_output(folder: Path) -> dict[str, pa.Table]:
    return {stream.name: _parts(stream) for stream in folder.glob("*") if any(stream.glob("*.parquet"))}


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "local_only(why): a behaviour that only the local runtime has")
    config.addinivalue_line("markers", "end_to_end: a behaviour that is tried on Spark itself, too")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    cases: Counter[str] = Counter()
    dropped = set()
    for item in items:
        params = getattr(getattr(item, "callspec", None), "params", {})
        if "runtime" not in params or params["runtime"] == LOCAL:
            continue
        if item.get_closest_marker("local_only") or params.get("epoch") == TUPLE_RELEASE:
            dropped.add(item)
        if params["runtime"] == SHARDS:
            continue
        test = item.nodeid.partition("[")[0]
        case = cases[test]
        cases[test] += 1
        chosen = len(params) == 1 or case % ONE_IN == FIRST
        if not chosen or not (ALL_ON_SPARK or (item.get_closest_marker("end_to_end") and case <= FIRST)):
            dropped.add(item)
    items[:] = [item for item in items if item not in dropped]


@pytest.fixture(params=[LOCAL, SHARDS, pytest.param(SPARK, marks=pytest.mark.xdist_group("spark"))])
def runtime(request: pytest.FixtureRequest, tmp_path: Path) -> Runtime:
    """The runtime under test."""
    if request.param == SPARK:
        request.getfixturevalue("spark")
    elif request.param == SHARDS:
        pytest.importorskip("pyspark", reason="shards use the types of pyspark")
    return CommandRuntime(request.param, tmp_path)
