"""One fixture runs every behaviour test on every runtime.

Where a test has several cases, Spark takes one in four, beginning with the second: a case costs it seconds. A test that
is about something Spark does not have says so: `@pytest.mark.local_only("why")`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slackwater.commands import runtimes as commands
from slackwater.commands.prepare import Prepared, prepare
from slackwater.commands.run import run_query
from slackwater.commands.verify import verify_query
from slackwater.judge import Verdict
from slackwater.model.time import SECOND
from tests.runtime.streams import TUPLE_RELEASE, Ran, Runtime

LOCAL, SPARK = "local", "spark"
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
        return commands.runtime_of(self._name, epoch, shards=None if self._name == LOCAL else 2)

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
        return Ran(_parts(out / "results"), _aside(out / "late"), _aside(out / "rejected"), report)

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
        prepared = self._prepared(query, streams, **options)
        return verify_query(prepared, self._runtime(epoch), count_only, arrival_time, None, SECOND, quiet=True).verdict

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


def _parts(folder: Path) -> pa.Table:
    return pa.concat_tables(pq.read_table(part) for part in sorted(folder.glob("*.parquet")))


def _aside(folder: Path) -> dict[str, pa.Table]:
    return {stream.name: _parts(stream) for stream in folder.glob("*") if any(stream.glob("*.parquet"))}


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "local_only(why): a behaviour that only the local runtime has")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    cases: Counter[str] = Counter()
    dropped = set()
    for item in items:
        if SPARK not in getattr(getattr(item, "callspec", None), "params", {}).values():
            continue
        several = len(item.callspec.params) > 1  # type: ignore[attr-defined]
        test = item.nodeid.partition("[")[0]
        case = cases[test]
        cases[test] += 1
        if item.get_closest_marker("local_only") or (several and case % ONE_IN != FIRST):
            dropped.add(item)
    items[:] = [item for item in items if item not in dropped]


@pytest.fixture(params=[LOCAL, pytest.param(SPARK, marks=pytest.mark.xdist_group("spark"))])
def runtime(request: pytest.FixtureRequest, tmp_path: Path) -> Runtime:
    """The runtime under test."""
    if request.param == SPARK:
        request.getfixturevalue("spark")
    return CommandRuntime(request.param, tmp_path)
