import json
import re
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slackwater.core.errors import UsageError
from slackwater.workloads import EPOCH_MS, WORKLOADS, write

SMALL = {"dsyn3": {"minutes": 0.1}, "dsyn4": {"minutes": 0.1}, "soccer": {"minutes": 0.5}, "plugs": {"minutes": 0.05}}
SMALL |= {"stores": {"minutes": 30.0}, "meteorology": {"minutes": 30.0}, "meteorology9": {"minutes": 30.0}}
SMALL |= {"drm": {"minutes": 0.5}, "rates": {"minutes": 0.1}}
SMALL |= {name: {"minutes": 1.0} for name in WORKLOADS if name.startswith("zoo/")}


def make(name, seed=0):
    return WORKLOADS[name](seed=seed, **SMALL.get(name, {}))


def test_event_time_begins_on_a_summer_afternoon():
    assert datetime.fromtimestamp(EPOCH_MS / 1000, UTC) == datetime(2013, 6, 29, 14, tzinfo=UTC)


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_same_seed_gives_the_same_rows(name):
    assert make(name, 3) == make(name, 3)


@pytest.mark.parametrize("name", WORKLOADS)
def test_another_seed_gives_other_rows_in_every_stream(name):
    one, other = make(name, 3), make(name, 4)
    assert one.streams.keys() == other.streams.keys()
    for stream, table in one.streams.items():
        assert not table.equals(other.streams[stream])


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_workload_is_called_by_its_name_and_its_query_reads_its_streams(name):
    workload = make(name)
    assert workload.name == name
    for stream in workload.streams:
        assert re.search(rf"\b{stream}\b( \[|\n| *$|\))", workload.query, re.MULTILINE)


@pytest.mark.parametrize("name", WORKLOADS)
def test_rows_are_in_arrival_order_and_arrivals_are_one_sequence_over_the_streams(name):
    streams = make(name).streams.values()
    for table in streams:
        assert table.column_names[:2] == ["ts", "arrival"]
        assert table.schema.field("ts").type == table.schema.field("arrival").type == pa.int64()
        assert (np.diff(table["arrival"].to_numpy()) > 0).all()
        assert all(column.null_count == 0 for column in table.columns)
    merged = np.sort(np.concatenate([table["arrival"].to_numpy() for table in streams]))
    assert (merged == np.arange(len(merged))).all()


def test_streams_of_one_workload_do_not_repeat_each_other():
    streams = make("dsyn3").streams
    assert not streams["s2"]["ts"].equals(streams["s3"]["ts"])
    assert not streams["s2"]["a1"].equals(streams["s3"]["a1"])


def test_a_workload_is_written_as_one_file_a_stream_and_its_query(tmp_path):
    workload = make("dsyn4")
    files = write(workload, tmp_path / "new" / "folder")
    assert sorted(path.name for path in files) == ["query.sql", "s1.parquet", "s2.parquet", "s3.parquet", "s4.parquet"]
    for name, table in workload.streams.items():
        assert pq.read_table(tmp_path / "new" / "folder" / f"{name}.parquet").equals(table)
    assert (tmp_path / "new" / "folder" / "query.sql").read_text() == workload.query + "\n"


def test_further_queries_and_statistics_are_written_beside_the_streams(tmp_path):
    workload = make("drm")
    files = {path.name: path for path in write(workload, tmp_path)}
    assert sorted(files) == [
        "d.parquet",
        "m.parquet",
        "query.sql",
        "r.parquet",
        "rates.sql",
        "statistics.json",
        "two_joins.sql",
    ]
    assert files["two_joins.sql"].read_text() == workload.further["two_joins"] + "\n"
    slow = next(made for made in json.loads(files["statistics.json"].read_text()) if made["mode"] == "slow")
    assert (slow["stream"], slow["seconds"], slow["events"], slow["rate"], slow["published_rate"]) == (
        "r",
        10,
        10,
        1,
        1,
    )


def test_a_negative_seed_is_refused():
    with pytest.raises(UsageError, match="seed"):
        make("dsyn3", -1)
