"""Streams in files of any format, in folders and by patterns: what is read, in which order, with which types."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slackwater.core.errors import DataError
from slackwater.sources.files import read_path

CSV = "ts,v,name,at\n3,1,x,2026-01-02T05:04:05+02:00\n1,2.5,7 up,2026-01-02T03:04:06.5Z\n"
JSON = '{"ts": 3, "v": 1, "name": "x", "at": "2026-01-02T05:04:05+02:00"}\n{"ts": 1, "v": 2.5, "name": "7 up"}\n'


def written(path: Path, text: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    return path


@pytest.mark.parametrize("name", ["s.csv", "s.csv.gz", "S.CSV", "s.jsonl", "s.ndjson", "s.json", "s.jsonl.gz"])
def test_a_file_is_read_by_what_its_name_says(tmp_path: Path, name: str) -> None:
    table = read_path("s", written(tmp_path / name, CSV if "csv" in name.lower() else JSON))
    assert table.column("ts").to_pylist() == [3, 1]
    assert table.column("v").to_pylist() == [1.0, 2.5]
    assert table.column("name").to_pylist() == ["x", "7 up"]
    assert pa.types.is_timestamp(table.schema.field("at").type)
    assert table.column("at")[0].as_py().replace(tzinfo=UTC) == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_the_types_of_a_file_are_those_of_all_its_rows(tmp_path: Path) -> None:
    many = 300_000
    lines = [f"{i},{i}" for i in range(many)]
    table = read_path("s", written(tmp_path / "s.csv", "\n".join(["ts,v", *lines, f"{many},2.5"])))
    assert table.column("v")[-1].as_py() == 2.5
    lines = [json.dumps({"ts": i, "v": i}) for i in range(many)]
    table = read_path("s", written(tmp_path / "s.jsonl", "\n".join([*lines, '{"ts": 1, "v": 2.5}'])))
    assert table.column("v")[-1].as_py() == 2.5


def test_text_that_is_only_sometimes_a_moment_stays_text(tmp_path: Path) -> None:
    table = read_path("s", written(tmp_path / "s.jsonl", '{"ts": "2026-01-02T03:04:05.5"}\n{"ts": "soon"}'))
    assert table.column("ts").to_pylist() == ["2026-01-02T03:04:05.5", "soon"]
    table = read_path("s", written(tmp_path / "s.csv", "ts,clock\n1,12:30:00"))
    assert table.column("clock").to_pylist() == ["12:30:00"]


def test_a_list_of_objects_in_a_json_file_is_read_as_well(tmp_path: Path) -> None:
    table = read_path("s", written(tmp_path / "s.json", '[{"ts": 1},\n {"ts": 2, "v": 0.5}]'))
    assert table.to_pydict() == {"ts": [1, 2], "v": [None, 0.5]}


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_a_folder_and_a_pattern_are_read_in_the_order_of_names(tmp_path: Path, form: str) -> None:
    folder = tmp_path / "days"
    folder.mkdir()
    for name, ts in (("day-2", [5, 4]), ("day-1", [9, 8]), ("day-3", [])):
        if form == "parquet":
            pq.write_table(pa.table({"ts": pa.array(ts, pa.int64())}), folder / f"{name}.parquet")
        elif form == "csv":
            written(folder / f"{name}.csv", "\n".join(["ts", *map(str, ts)]) + "\n")
        elif ts:
            written(folder / f"{name}.jsonl", "".join(json.dumps({"ts": t}) + "\n" for t in ts))
    (folder / "_SUCCESS").write_text("")
    (folder / ".hidden.crc").write_text("x")
    assert read_path("s", folder).column("ts").to_pylist() == [9, 8, 5, 4]
    assert read_path("s", folder / f"day-*.{form}").column("ts").to_pylist() == [9, 8, 5, 4]
    assert read_path("s", folder / f"day-[2].{form}").column("ts").to_pylist() == [5, 4]


def test_a_column_may_be_whole_in_one_file_and_broken_in_another(tmp_path: Path) -> None:
    written(tmp_path / "d" / "1.csv", "ts,v\n1,1\n")
    written(tmp_path / "d" / "2.csv", "ts,v\n2,2.5\n")
    assert read_path("s", tmp_path / "d").column("v").to_pylist() == [1.0, 2.5]


def test_a_parquet_file_needs_no_ending(tmp_path: Path) -> None:
    pq.write_table(pa.table({"ts": [1]}), tmp_path / "part-0")
    assert read_path("s", tmp_path / "part-0").num_rows == 1


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("none.csv", "there is no file"),
        ("none-*.csv", "no file has a name like"),
        ("empty", "there is no file in folder"),
        ("s.xlsx", "a stream is in files .parquet, .csv"),
        ("bad.csv", "bad.csv cannot be read as csv"),
        ("nothing.csv", "cannot be read as csv"),
        ("bad.jsonl", "cannot be read as JSON lines"),
        ("list.json", "write one object a line"),
        ("bad.parquet", "cannot be read as parquet"),
        ("bad.csv.gz", "cannot be read as csv"),
        ("mixed", "files of several formats"),
        ("columns", "a.csv has columns ts, v, and b.csv has ts, w"),
        ("types", "column 'v' holds int64 in a.csv and string in b.csv"),
    ],
)
def test_what_cannot_be_read_is_told_with_the_stream_and_the_cause(tmp_path: Path, path: str, message: str) -> None:
    (tmp_path / "empty").mkdir()
    for name, text in (
        ("s.xlsx", "x"),
        ("bad.csv", "ts,v\n1,2,3\n"),
        ("nothing.csv", ""),
        ("bad.jsonl", '{"ts": 1}\n{"ts": '),
        ("list.json", "[1, 2]"),
        ("bad.parquet", "x"),
        ("mixed/a.csv", "ts\n1\n"),
        ("mixed/b.jsonl", '{"ts": 1}\n'),
        ("columns/a.csv", "ts,v\n1,1\n"),
        ("columns/b.csv", "ts,w\n1,1\n"),
        ("types/a.csv", "ts,v\n1,1\n"),
        ("types/b.csv", "ts,v\n1,x\n"),
    ):
        written(tmp_path / name, text)
    (tmp_path / "bad.csv.gz").write_text("no gzip")
    with pytest.raises(DataError, match="stream clicks: ") as refused:
        read_path("clicks", tmp_path / path)
    assert message in str(refused.value)
