"""Anything tabular becomes the same table: pandas, polars, readers, lists of dicts, paths."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import slackwater as sw
from slackwater.core.errors import DataError, SlackwaterError, UsageError
from slackwater.sources.tabular import as_table, as_tables

QUERY = "SELECT SUM(v) AS total FROM s [RANGE 5 MS] WITH DELAY 5 MS"
TABLE = pa.table({"ts": [1, 3, 2, 9], "v": [10, 30, 20, 90]})


class Polars:
    """What polars looks like from here."""

    def to_arrow(self) -> pa.Table:
        return TABLE.cast(pa.schema([("ts", pa.int64()), ("v", pa.int64())]))


class Stream:
    def __arrow_c_stream__(self, requested: object = None) -> object:
        return TABLE.__arrow_c_stream__(requested)


def forms(tmp_path: Path) -> dict[str, Any]:
    pq.write_table(TABLE, tmp_path / "s.parquet")
    return {
        "table": TABLE,
        "batch": TABLE.to_batches()[0],
        "reader": TABLE.to_reader(),
        "pandas": TABLE.to_pandas().set_index(pd.Index(["a", "b", "c", "d"])),
        "polars": Polars(),
        "stream": Stream(),
        "rows": TABLE.to_pylist(),
        "columns": TABLE.to_pydict(),
        "path": tmp_path / "s.parquet",
        "text": str(tmp_path / "s.parquet"),
        "selection": f"{tmp_path}/s.parquet?v=10&v=20&v=30&v=90",
    }


def test_a_replay_takes_anything_tabular(tmp_path: Path) -> None:
    for name, form in forms(tmp_path).items():
        assert sw.replay(QUERY, {"s": form}).results.column("total").to_pylist() == [60, 90], name


def test_a_live_query_takes_anything_tabular(tmp_path: Path) -> None:
    for name, form in forms(tmp_path).items():
        live = sw.live("SELECT ts, v FROM s WITH COMPLETE", {"s": TABLE.schema})
        live.push("s", form)
        assert live.close().report["tuples"] == 4, name
    assert sw.live("SELECT ts, v FROM s", {"s": TABLE.to_pandas()}).close().report["tuples"] == 4


def test_rows_pushed_from_python_take_the_types_of_the_query() -> None:
    columns = pa.schema([("ts", pa.int64()), ("v", pa.float32()), ("n", pa.int16()), ("who", pa.large_string())])
    live = sw.live("SELECT v, n, who FROM s WITH NO WAIT", {"s": columns})
    live.push("s", [{"ts": 1, "v": None, "n": 1, "who": "x"}, {"ts": 2, "v": 2, "n": None, "who": None}])
    live.push("s", [])
    assert live.close().report["tuples"] == 2
    live = sw.live("SELECT v, n, who FROM s WITH NO WAIT", {"s": columns})
    with pytest.raises(DataError, match="column 'n' of the rows pushed holds int64"):
        live.push("s", [{"ts": 1, "v": None, "n": 1 << 40, "who": "x"}])


def test_missing_values_of_pandas_are_nulls_and_its_index_is_no_column() -> None:
    frame = pd.DataFrame({"ts": pd.to_datetime(["2026-01-01", None]), "v": [np.nan, 1.0]}, index=[7, 8])
    table = as_table("s", frame)
    assert table.column_names == ["ts", "v"]
    assert table.column("ts").null_count == table.column("v").null_count == 1


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (3, "stream s: a int cannot be read as rows; give a pyarrow Table, a pandas"),
        (None, "stream s: a NoneType cannot be read as rows"),
        (pd.DataFrame, "cannot be read as rows"),
        ([1, 2], "stream s: its list is no table of columns: row 0 is a int, and rows are dicts"),
        ([{"ts": 1}, {"ts": "x"}], "column 'ts'"),
        ([{1: 1}], "a column is called by a text"),
        (lambda: pd.DataFrame({"ts": [1, "x"]}), "stream s: its DataFrame is no table of columns"),
        ({"ts": [1, 2], "v": [1]}, "stream s: its dict is no table of columns"),
        ("nowhere.csv", "stream s: there is no file nowhere.csv"),
        ("", "stream s"),
        ([], "stream s has no time column"),
        (lambda: pd.DataFrame({"v": [1]}), "stream s has no time column 'ts'; it has v"),
    ],
)
def test_what_is_no_table_is_refused_with_the_name_of_the_stream(given: Any, message: str) -> None:
    # A frame compares by its values, which those who look through parameters do not expect.
    given = given() if type(given).__name__ == "function" else given
    with pytest.raises(SlackwaterError) as refused:
        sw.replay("SELECT v FROM s", {"s": given})
    assert message in str(refused.value)


def test_streams_have_names_and_times_a_unit() -> None:
    with pytest.raises(UsageError, match="streams are given by name"):
        as_tables([TABLE])  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="called by a text"):
        as_tables({1: TABLE})  # type: ignore[dict-item]
    with pytest.raises(UsageError, match="it is one of s, ms, us, ns"):
        sw.replay(QUERY, {"s": TABLE}, time_unit="minutes")
