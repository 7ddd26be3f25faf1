"""Whatever dies, the sink ends with the rows of a run in which nothing died: none lost, none twice."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import slackwater as sw
from tests.effort import ALL_ON_SPARK
from tests.kit.processes import kill_now
from tests.spark.streams import counted, pieces
from tests.spark.supervised import QUERIES, begin, publish
from tests.spark.supervisor import Supervisor

pytestmark = [
    pytest.mark.xdist_group("spark"),
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds processes in /proc"),
]

Rows = dict[str, Counter[tuple[object, ...]]]
FILES = 7 if ALL_ON_SPARK else 6
BATCHES = list(zip(pieces(0, FILES, each=400), pieces(1, FILES, each=400), strict=True))


@pytest.fixture(scope="module")
def undisturbed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Rows:
    """The rows of a run without any failure."""
    folder = tmp_path_factory.mktemp("undisturbed")
    (folder / "files").mkdir()
    for number, (a, b) in enumerate(BATCHES):
        publish(folder / "files", number, a, b)
    for query in begin(spark, folder / "files", folder, available=True):
        query.awaitTermination()
    rows = rows_of(spark, folder)
    assert min(map(len, rows.values())) > 300
    return rows


def rows_of(spark: SparkSession, folder: Path) -> Rows:
    """What the sinks hold by their own logs; files of micro-batches that never ended are no part of them."""
    return {name: counted(spark.read.parquet(str(folder / name / "rows")).drop("batch").toArrow()) for name in QUERIES}


@pytest.fixture
def supervisor(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Supervisor]:
    # A task may fail four times, as in a cluster.
    made = Supervisor(tmp_path, getattr(request, "param", "local[2,4]"), BATCHES)
    yield made
    made.kill()


def test_late_tuples_are_among_those_that_failures_may_hit() -> None:
    a, b = (pa.concat_tables(tables) for tables in zip(*BATCHES, strict=True))
    assert sw.replay(QUERIES["join"], {"a": a, "b": b}, epochs=sw.Epochs(tuples=800)).report["late"] > 50
    assert sw.replay(QUERIES["aggregate"], {"a": a}, epochs=sw.Epochs(tuples=400)).report["late"] > 20


def starting(run: Supervisor) -> Callable[[], bool]:
    """A JVM is there."""
    return lambda: any("java" in command for command in run.processes().values())


def working(run: Supervisor) -> Callable[[], bool]:
    """A micro-batch is under way; the first of a start repeats one that was killed, if there is one."""
    return lambda: any("spark.daemon" in command for command in run.processes().values())


def planned(run: Supervisor, more: int = 1) -> Callable[[], bool]:
    """This start has planned so many micro-batches that no start before has."""
    goal = run.planned() + more
    return lambda: run.planned() >= goal


def planned_another(run: Supervisor) -> Callable[[], bool]:
    """This start has finished a micro-batch with warm workers, and planned the next."""
    return planned(run, 2)


KILLS: tuple[tuple[Callable[[Supervisor], Callable[[], bool]], float], ...] = (
    (planned_another, 1.0),
    *(((planned, 2.0), (working, 3.0), (starting, 4.0), (planned, 1.0)) if ALL_ON_SPARK else ()),
)
"""What is waited for after each start, and the most seconds from then to the kill."""


def kill_python(run: Supervisor) -> None:
    """End all Python workers with the process that forks them; the tasks that they worked for fail."""
    for pid, command in run.processes().items():
        if "pyspark.daemon" in command:
            kill_now(pid)


def test_killed_and_restarted_queries_write_what_undisturbed_ones_write(
    spark: SparkSession, supervisor: Supervisor, undisturbed: Rows, tmp_path: Path
) -> None:
    delays = random.Random(2016)
    for point, latest in KILLS:
        supervisor.start()
        supervisor.feed_until(point(supervisor))
        time.sleep(delays.uniform(0, latest))
        assert supervisor.processes(), "the process was to be killed, not to end"
        supervisor.kill()
    assert supervisor.fed < len(BATCHES) - 1
    supervisor.start()
    # Workers alone die in the middle of a micro-batch, too: its tasks are tried again by others, which know nothing.
    supervisor.feed_until(planned_another(supervisor))
    kill_python(supervisor)
    supervisor.feed_until(lambda: supervisor.committed() == len(BATCHES))
    supervisor.kill()
    assert rows_of(spark, tmp_path) == undisturbed


@pytest.mark.long("test_killed_and_restarted_queries_...: the workers of a micro-batch die, and its tasks run again")
@pytest.mark.parametrize("supervisor", ["local-cluster[2,1,1024]"], indirect=True)
def test_an_executor_may_die_in_the_middle_of_a_micro_batch(
    spark: SparkSession, supervisor: Supervisor, undisturbed: Rows, tmp_path: Path
) -> None:
    def executors() -> set[int]:
        return {pid for pid, command in supervisor.processes().items() if "CoarseGrainedExecutorBackend" in command}

    supervisor.start()
    supervisor.feed_until(lambda: supervisor.committed() == 2)
    before = executors()
    assert len(before) == 2
    hit = False
    while not hit and supervisor.fed < len(BATCHES):
        supervisor.feed_until(planned(supervisor))
        kill_now(min(executors()))
        hit = supervisor.committed() < supervisor.fed
    assert hit
    supervisor.feed_until(lambda: supervisor.committed() == len(BATCHES) and executors() - before != set())
    supervisor.kill()
    assert rows_of(spark, tmp_path) == undisturbed
