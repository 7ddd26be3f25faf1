"""Clusters, drivers and what the same queries give on one machine."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the Spark runtime needs pyspark")

from pyspark.sql import SparkSession

from slackwater.runtime.spark.locations import located
from tests.cluster.cases import CASES, Rows, files_of_run, publish, rows_in
from tests.cluster.job import Job, begin
from tests.cluster.run import Run
from tests.cluster.standalone import Standalone, standalone
from tests.kit.object_store import s3_server, spark_settings

FILES = 8
TABLES = files_of_run(FILES)
Alone = Callable[[str, int], dict[str, Rows]]
Begin = Callable[..., Run]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    if shutil.which("java") is None:
        pytest.skip("no Java: install one of 17 or newer, e.g. openjdk-17-jre-headless")
    with standalone(tmp_path_factory.mktemp("cluster")) as made:
        yield made


@pytest.fixture(scope="module")
def s3() -> Iterator[dict[str, str]]:
    """An object store on loopback, as Hadoop's settings name it."""
    with s3_server() as settings:
        yield settings


@pytest.fixture(scope="module")
def alone(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Alone:
    """The rows of a case where nothing is disturbed, in local[2], after so many files."""
    known: dict[tuple[str, int], dict[str, Rows]] = {}

    def run(case: str, files: int) -> dict[str, Rows]:
        if (case, files) not in known:
            folder = tmp_path_factory.mktemp("alone")
            for number, table in enumerate(TABLES[:files]):
                publish(str(folder / "files"), number, table)
            begin(spark, case, str(folder), available=True).wait()
            known[case, files] = {name: rows_in(str(folder / "rows" / name)) for name in CASES[case]}
        return known[case, files]

    return run


@pytest.fixture
def driver(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Begin]:
    """Begin a driver over so many files: `on_s3` for all that it reads and writes."""
    started: list[Run] = []

    def start(
        master: str, *cases: str, files: int = FILES, on_s3: bool = False, format: str = "parquet",
        submit: bool = False, **settings: str,
    ) -> Run:  # fmt: skip
        base = tmp_path / "base"
        place, given = str(base), settings
        if on_s3:
            server = request.getfixturevalue("s3")
            place = f"s3a://bucket/{tmp_path.name}"
            given = spark_settings(server) | settings
        at = located(place, server.get) if on_s3 else place
        run = Run(tmp_path / "run", Job(master, place, cases, format, given), at, TABLES[:files], submit)
        started.append(run)
        run.start()
        return run

    yield start
    for run in started:
        run.kill()
