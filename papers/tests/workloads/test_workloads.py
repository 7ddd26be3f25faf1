import json
from functools import partial

import pytest

from papers.workloads import WORKLOADS, write
from slackwater.workloads import WORKLOADS as SHIPPED
from slackwater.workloads import Workload
from tests.workloads import checks

SMALL = {"dsyn3": {"minutes": 0.1}, "dsyn4": {"minutes": 0.1}, "plugs": {"minutes": 0.05}}
SMALL |= {"stores": {"minutes": 30.0}, "meteorology": {"minutes": 30.0}, "meteorology9": {"minutes": 30.0}}
SMALL |= {"drm": {"minutes": 0.5}, "rates": {"minutes": 0.1}}
OURS = [name for name in WORKLOADS if name not in SHIPPED]


def make(name: str, seed: int = 0) -> Workload:
    return WORKLOADS[name](seed=seed, **SMALL.get(name, {}))


@pytest.mark.parametrize("name", OURS)
def test_the_same_seed_gives_the_same_rows_and_another_other_rows_in_every_stream(name: str) -> None:
    checks.the_same_seed_gives_the_same_rows_and_another_other_rows_in_every_stream(partial(make, name))


@pytest.mark.parametrize("name", OURS)
def test_a_workload_is_called_by_its_name_and_its_query_reads_its_streams(name: str) -> None:
    checks.it_is_called_by_its_name_and_its_query_reads_its_streams(partial(make, name), name)


@pytest.mark.parametrize("name", OURS)
def test_rows_are_in_arrival_order_and_arrivals_are_one_sequence_over_the_streams(name: str) -> None:
    checks.rows_are_in_arrival_order_and_arrivals_are_one_sequence_over_the_streams(partial(make, name))


def test_streams_of_one_workload_do_not_repeat_each_other():
    streams = make("dsyn3").streams
    assert not streams["s2"]["ts"].equals(streams["s3"]["ts"])
    assert not streams["s2"]["a1"].equals(streams["s3"]["a1"])


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
