"""A real cluster: what dies, or stands still, costs no row and doubles none, and Spark's own log says that it did.

Every case has the rows of `local[2]`, and those are DuckDB's as far as the query promises them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the Spark runtime needs pyspark")

from tests.cluster.attempts import copied, retried
from tests.cluster.cases import CASES, Rows, due, plain, rows_in, truth
from tests.cluster.conftest import FILES, TABLES, Alone, Begin
from tests.cluster.run import Run
from tests.cluster.standalone import HOSTS, Standalone
from tests.effort import more

pytestmark = [
    pytest.mark.xdist_group("spark"),
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds processes in /proc"),
]
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.minTaskRuntime": "500ms",
    "spark.speculation.task.duration.threshold": "1s",
    "spark.speculation.multiplier": "2",
    "spark.speculation.quantile": "0.5",
}
"""One of two tasks that takes a second longer than the other one, or any that takes so long alone, is copied."""
FEW = 5
INSTEAD = "test_a_join_an_aggregate_and_a_set_outlive_an_executor_a_host_and_a_driver: all three in one application"


def rows_of(run: Run, case: str) -> dict[str, Rows]:
    return {name: rows_in(run.of(case, "rows", name)) for name in CASES[case]}


def stop_at(cluster: Standalone, run: Run, case: str) -> str:
    """Let a micro-batch of a case wait for a host that stands still; which one."""
    run.until_idle()
    host = cluster.warm_host()
    cluster.freeze(host)
    run.feed(case)
    run.until_stuck(case, host)
    return host


def lose_an_executor(cluster: Standalone, run: Run, case: str) -> None:
    """A micro-batch waits for a host, and the executor there dies."""
    cluster.kill_executor(stop_at(cluster, run, case))
    run.commit()
    run.until_noted(case, lambda found: retried(found) != [])


def lose_a_host(cluster: Standalone, run: Run, case: str) -> None:
    """A micro-batch waits for a host, and all that is there goes; later another machine has its address."""
    before = len(retried(run.attempts(case)))
    host = stop_at(cluster, run, case)
    cluster.kill_host(host)
    run.commit()
    run.until_noted(case, lambda found: len(retried(found)) > before)
    cluster.begin(host)
    cluster.wait_for(host)


def lose_the_driver(cluster: Standalone, run: Run, case: str) -> None:
    """A micro-batch is under way, and the driver dies; another one runs it again."""
    number = run.fed[case]
    host = stop_at(cluster, run, case)
    run.kill()
    cluster.thaw(host)
    run.start()
    run.commit()
    run.driver.until(lambda: run.was_repeated(case, number), limit=30)


def wait_for_a_host(cluster: Standalone, run: Run, case: str) -> None:
    """A host stands still for two micro-batches, whose tasks are copied to the other one; then it goes on."""
    run.until_idle()
    host = cluster.warm_host()
    cluster.freeze(host)
    run.feed_and_commit(case)
    run.feed_and_commit(case)
    cluster.thaw(host)
    run.feed_and_commit(case)
    run.until_noted(case, lambda found: copied(found) != [])


DISTURBED: dict[str, tuple[Callable[[Standalone, Run, str], None], dict[str, str]]] = {
    "an executor": (lose_an_executor, {}),
    "a host": (lose_a_host, {}),
    "the driver": (lose_the_driver, {}),
    "copies of slow tasks": (wait_for_a_host, SPECULATION),
}


def test_a_join_an_aggregate_and_a_set_outlive_an_executor_a_host_and_a_driver(
    cluster: Standalone, driver: Begin, alone: Alone
) -> None:
    run = driver(cluster.url, *CASES, files=FEW)
    run.commit()
    lose_an_executor(cluster, run, "join")
    lose_a_host(cluster, run, "aggregate")
    lose_the_driver(cluster, run, "set")
    run.feed_rest()
    run.kill()
    for case in CASES:
        assert rows_of(run, case) == alone(case, FEW)


@pytest.mark.parametrize("case", CASES)
def test_rows_of_one_machine_are_those_of_duckdb_as_far_as_they_are_promised(case: str, alone: Alone) -> None:
    for name, stated in CASES[case].items():
        found, wanted = plain(alone(case, FEW)[name]), truth(stated, TABLES[:FEW])
        passed = max(map(due, found))
        wanted = Counter({row: times for row, times in wanted.items() if due(row) <= passed})
        if case == "set":
            # The delay covers every tuple, so nothing is missing that the watermark has passed.
            assert found == wanted
        elif case == "join":
            assert found <= wanted
            assert found.total() > 0.9 * wanted.total()
        else:
            sums = {row[:3]: row[3] for row in wanted}
            assert sums.keys() == {row[:3] for row in found}
            errors = [abs(row[3] - sums[row[:3]]) / sums[row[:3]] for row in found]
            assert sum(errors) / len(errors) < 0.05


@pytest.mark.parametrize("disturbed", more(INSTEAD, *DISTURBED))
@pytest.mark.parametrize("case", CASES)
def test_a_case_outlives(case: str, disturbed: str, cluster: Standalone, driver: Begin, alone: Alone) -> None:
    disturb, settings = DISTURBED[disturbed]
    run = driver(cluster.url, case, **settings)
    run.commit()
    disturb(cluster, run, case)
    run.feed_rest()
    run.kill()
    assert rows_of(run, case) == alone(case, FILES)


@pytest.mark.long("tests/spark/test_stores.py: input, state and results in an object store, in one process")
@pytest.mark.parametrize("format", ["parquet", "slackwater"])
def test_all_in_an_object_store_outlives_an_executor_a_host_and_a_driver(
    format: str, cluster: Standalone, driver: Begin, alone: Alone
) -> None:
    run = driver(cluster.url, *CASES, files=FEW, on_s3=True, format=format)
    run.commit()
    lose_an_executor(cluster, run, "join")
    lose_a_host(cluster, run, "aggregate")
    lose_the_driver(cluster, run, "set")
    run.feed_rest()
    run.kill()
    for case in CASES:
        assert rows_of(run, case) == alone(case, FEW)


@pytest.mark.long("test_a_join_an_aggregate_and_a_set_...: the same driver, as a process of Python")
def test_a_script_that_is_submitted_gives_the_same(cluster: Standalone, driver: Begin, alone: Alone) -> None:
    run = driver(cluster.url, *CASES, files=FEW, submit=True)
    run.commit()
    run.feed_rest()
    run.stop()
    for case in CASES:
        assert rows_of(run, case) == alone(case, FEW)
        assert {one.host for one in run.attempts(case)} <= {*HOSTS}


@pytest.mark.long("test_a_join_an_aggregate_and_a_set_...: executors that a Worker starts")
def test_executors_of_a_local_cluster_give_the_same(driver: Begin, alone: Alone) -> None:
    run = driver("local-cluster[2,1,1024]", *CASES, files=FEW)
    run.commit()
    run.feed_rest()
    run.stop()
    for case in CASES:
        assert rows_of(run, case) == alone(case, FEW)
