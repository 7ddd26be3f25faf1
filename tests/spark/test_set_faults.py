"""Whatever dies, every folder of a set ends with the rows of a run in which nothing died: none lost, none twice.

`SLACKWATER_KILLS=12 pytest tests/spark/test_set_faults.py` kills as often as that.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.spark.streams import counted, pieces
from tests.spark.supervised import publish
from tests.spark.supervised_set import ADDED, ADDED_AFTER, OUTPUTS, STATED, SetSupervisor, add, sinks, started

pytestmark = [
    pytest.mark.xdist_group("spark"),
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds processes in /proc"),
]

KILLS = int(os.environ.get("SLACKWATER_KILLS", 5))
FILES = max(6, KILLS + 3)
LONGEST = float(os.environ.get("SLACKWATER_KILL_WITHIN", 4))
"""Seconds from when a process is at work to when it is killed, at most."""
Rows = dict[tuple[str, str], Counter[tuple[object, ...]]]


def with_a_bad_row(table: pa.Table) -> pa.Table:
    """One row has no time, and is rejected."""
    ts = table.column("ts").to_pylist()
    ts[7] = None
    return table.set_column(0, "ts", pa.array(ts, pa.int64()))


BATCHES = [(with_a_bad_row(a), b) for a, b in zip(pieces(0, FILES, each=400), pieces(1, FILES, each=400), strict=True)]


def rows_of(spark: SparkSession, folder: Path) -> Rows:
    """What the folders of all queries hold; which micro-batch a row is of depends on when the query was added."""
    found = {}
    for name in [*STATED, ADDED]:
        for what in OUTPUTS:
            table = spark.read.parquet(sinks(folder, name)[what]).toArrow()
            found[name, what] = counted(table, *(one for one in table.column_names if one != "batch"))
    return found


@pytest.fixture(scope="module")
def undisturbed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Rows:
    """The rows of a run without any failure."""
    folder = tmp_path_factory.mktemp("undisturbed")
    (folder / "files").mkdir()
    with started(spark, folder) as running:
        for number, (a, b) in enumerate(BATCHES):
            if number == ADDED_AFTER:
                add(running, folder)
            publish(folder / "files", number, a, b)
            running.process_all_available()
    rows = rows_of(spark, folder)
    assert min(len(rows[name, "results"]) for name in [*STATED, ADDED]) > 20
    assert min(rows[name, "late"].total() for name in STATED) > 10
    assert rows["join", "rejected"].total() == FILES
    assert rows[ADDED, "rejected"].total() == FILES - ADDED_AFTER
    return rows


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[SetSupervisor]:
    made = SetSupervisor(tmp_path, "local[2]", BATCHES)
    yield made
    made.kill()


@pytest.mark.long(
    "test_query_sets.py has micro-batches that are cut off, test_set_sinks.py files that are written twice"
)
def test_a_set_that_is_killed_and_restarted_writes_what_an_undisturbed_one_writes(
    spark: SparkSession, supervisor: SetSupervisor, undisturbed: Rows, tmp_path: Path
) -> None:
    delays = random.Random(2017)
    for kill in range(KILLS):
        supervisor.start()
        # The second kill comes around the time when the query is added; the others in turns right when a file is taken
        # that no start before has seen, and at any moment of a start.
        goal = supervisor.planned() + 1 if kill % 2 == 0 else 0
        supervisor.feed_until(
            lambda goal=goal, kill=kill: (  # type: ignore[misc]
                (kill != 1 or supervisor.adding)
                and supervisor.planned() >= goal
                and any("spark.daemon" in command for command in supervisor.processes().values())
            )
        )
        time.sleep(delays.uniform(0, LONGEST))
        assert supervisor.processes(), "the process was to be killed, not to end"
        supervisor.kill()
    assert supervisor.fed < FILES
    supervisor.start()
    supervisor.feed_until(lambda: supervisor.committed() == FILES)
    supervisor.kill()
    assert rows_of(spark, tmp_path) == undisturbed
