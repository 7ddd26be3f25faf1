"""One fixture runs every behaviour test on every runtime."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slackwater.commands.prepare import Prepared, epochs_of, prepare
from slackwater.commands.run import run_query
from slackwater.commands.verify import verify_query
from slackwater.judge import Verdict
from slackwater.model.time import SECOND
from tests.runtime.streams import Ran, Runtime


class LocalRuntime:
    """The in-process runtime, through the same functions that the command line calls."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._runs = folder, count()

    def run(
        self,
        query: str,
        streams: Mapping[str, pa.Table],
        epoch: str = "1",
        *,
        counted: bool = False,
        arrival_time: str | None = None,
        **options: Any,
    ) -> Ran:
        out = self._folder / f"out{next(self._runs)}"
        run_query(self._prepared(query, streams, **options), epochs_of(epoch), out, counted, arrival_time, quiet=True)
        report = json.loads((out / "report.json").read_text())
        return Ran(_parts(out / "results"), _aside(out / "late"), _aside(out / "rejected"), report)

    def verify(
        self,
        query: str,
        streams: Mapping[str, pa.Table],
        epoch: str = "1",
        *,
        counted: bool = False,
        arrival_time: str | None = None,
        **options: Any,
    ) -> Verdict:
        prepared = self._prepared(query, streams, **options)
        return verify_query(prepared, epochs_of(epoch), counted, arrival_time, None, SECOND, quiet=True).verdict

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


@pytest.fixture(params=["local"])
def runtime(request: pytest.FixtureRequest, tmp_path: Path) -> Runtime:
    """The runtime under test."""
    assert request.param == "local"
    return LocalRuntime(tmp_path)
