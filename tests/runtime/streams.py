"""Small streams in one line each: `arrived` keeps the order in which tuples of several streams came."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

import pyarrow as pa

from slackwater.cli.prepare import Prepared
from slackwater.verify import Verdict

Row = tuple[Any, ...]
TUPLE_RELEASE = "1"


@dataclass(frozen=True)
class Ran:
    """What a run left behind; a stream without late or rejected rows is not in the dictionary."""

    results: pa.Table
    late: dict[str, pa.Table]
    rejected: dict[str, pa.Table]
    report: dict[str, Any]

    def rows(self, *names: str) -> list[tuple[Any, ...]]:
        """Result columns by name, row by row."""
        return list(zip(*(self.results.column(name).to_pylist() for name in names), strict=True))


class Runtime(Protocol):
    """Where behaviour tests run: every runtime answers the same questions. Without an epoch it takes its default."""

    def offered(self, *epochs: str) -> tuple[str, ...]:
        """Those of some epochs that the runtime offers, or as many of them as it has time for."""

    def run(
        self,
        query: str,
        streams: Mapping[str, pa.Table],
        epoch: str | None = None,
        *,
        count_only: bool = False,
        **options: Any,
    ) -> Ran: ...

    def verify(
        self,
        query: str,
        streams: Mapping[str, pa.Table],
        epoch: str | None = None,
        *,
        count_only: bool = False,
        **options: Any,
    ) -> Verdict: ...

    def judged(
        self, query: str, streams: Mapping[str, pa.Table], epoch: str | None = None
    ) -> tuple[dict[str, Any], Verdict]:
        """What one run says of itself, and what the judge says of it."""
        ...

    def judge(self, prepared: Prepared, epoch: str | None = None) -> Verdict:
        """The verdict on a query that is ready to be planned."""
        ...


def arrived(columns: Mapping[str, pa.DataType], *rows: Row) -> dict[str, pa.Table]:
    """Rows (stream, ts in ms, value, ...) in arrival order as one table a stream."""
    tables: dict[str, list[list[Any]]] = {}
    for arrival, (stream, *values) in enumerate(rows):
        tables.setdefault(stream, []).append([arrival, *values])
    return {
        stream: pa.table(
            {
                "arrival": pa.array([row[0] for row in kept], pa.int64()),
                "ts": pa.array([row[1] for row in kept], pa.int64()),
                **{
                    name: pa.array([row[i + 2] for row in kept], kind) for i, (name, kind) in enumerate(columns.items())
                },
            }
        )
        for stream, kept in tables.items()
    }


def one(columns: Mapping[str, pa.DataType], *rows: Row) -> dict[str, pa.Table]:
    """A single stream `s` of rows (ts in ms, value, ...)."""
    return arrived(columns, *(("s", *row) for row in rows))


def at(milliseconds: float) -> datetime:
    """A moment so many milliseconds after 1970 began."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def moments(values: Sequence[float]) -> list[datetime]:
    return [at(value) for value in values]
