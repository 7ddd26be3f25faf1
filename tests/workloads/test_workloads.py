from datetime import UTC, datetime
from functools import partial

import pyarrow.parquet as pq
import pytest

from slackwater.core.errors import UsageError
from slackwater.workloads import EPOCH_MS, WORKLOADS, Workload, write
from tests.workloads import checks

SMALL = {"soccer": {"minutes": 0.5}} | {name: {"minutes": 1.0} for name in WORKLOADS if name.startswith("zoo/")}


def make(name: str, seed: int = 0) -> Workload:
    return WORKLOADS[name](seed=seed, **SMALL.get(name, {}))


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_same_seed_gives_the_same_rows_and_another_other_rows_in_every_stream(name: str) -> None:
    checks.the_same_seed_gives_the_same_rows_and_another_other_rows_in_every_stream(partial(make, name))


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_workload_is_called_by_its_name_and_its_query_reads_its_streams(name: str) -> None:
    checks.it_is_called_by_its_name_and_its_query_reads_its_streams(partial(make, name), name)


@pytest.mark.parametrize("name", WORKLOADS)
def test_rows_are_in_arrival_order_and_arrivals_are_one_sequence_over_the_streams(name: str) -> None:
    checks.rows_are_in_arrival_order_and_arrivals_are_one_sequence_over_the_streams(partial(make, name))


def test_event_time_begins_on_a_summer_afternoon():
    assert datetime.fromtimestamp(EPOCH_MS / 1000, UTC) == datetime(2013, 6, 29, 14, tzinfo=UTC)


def test_a_workload_is_written_as_one_file_a_stream_and_its_query(tmp_path):
    workload = make("soccer")
    files = write(workload, tmp_path / "new" / "folder")
    assert sorted(path.name for path in files) == ["query.sql", "s1.parquet", "s2.parquet"]
    for name, table in workload.streams.items():
        assert pq.read_table(tmp_path / "new" / "folder" / f"{name}.parquet").equals(table)
    assert (tmp_path / "new" / "folder" / "query.sql").read_text() == workload.query + "\n"


def test_a_negative_seed_is_refused():
    with pytest.raises(UsageError, match="seed"):
        make("soccer", -1)
