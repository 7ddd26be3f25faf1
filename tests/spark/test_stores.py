"""State on other file systems than a disk of this machine: the same rows, objects that are whole, one sentence where
it cannot be reached."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark", reason="the Spark runtime needs pyspark")

from pyspark.sql import SparkSession

import slackwater as sw
from slackwater.core.errors import SlackwaterError, UsageError
from slackwater.runtime.spark import fence, started
from slackwater.runtime.spark.exchange.files import read_file
from slackwater.runtime.spark.fence import Fence
from slackwater.runtime.spark.folders import Folder, TaskFiles, publish, tidy, withdraw
from slackwater.runtime.spark.locations import located
from slackwater.runtime.spark.packed_source import Before, CutLog, known_before, note_watermark
from slackwater.runtime.spark.state.page_files import SELDOM
from slackwater.runtime.spark.state.root import Share, StateRoot
from slackwater.runtime.spark.store import At, Location, Store, inside, store_at
from tests.kit.object_store import s3_server
from tests.spark.in_process import TASKS, play
from tests.spark.streams import pieces

QUERIES = {
    "a sum": "SELECT key, SUM(v) AS total FROM s [RANGE 100 MS] GROUP BY key WITH DELAY 20 MS",
    "a selection": "SELECT key, v FROM s WHERE v > 0.5 WITH DELAY 20 MS",
}


@pytest.fixture(scope="module")
def s3() -> Iterator[dict[str, str]]:
    """An object store on loopback, as Hadoop's settings name it."""
    with s3_server() as settings:
        yield settings


@pytest.fixture(params=["disk", "s3a", "fsspec"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> At:
    """A folder on one kind of store."""
    if request.param == "disk":
        return str(tmp_path / "state")
    if request.param == "s3a":
        settings = request.getfixturevalue("s3")
        return located(f"s3a://bucket/{tmp_path.name}/state", settings.get)
    pytest.importorskip("fsspec", reason="fsspec is what knows this scheme")
    return Location(f"memory://{tmp_path.name}/state")


@pytest.fixture
def store(folder: At) -> Store:
    return store_at(folder)


def test_a_file_is_written_read_listed_and_removed(store: Store) -> None:
    assert store.names() == store.names("none") == []
    assert (store.read("a"), store.exists("a")) == (None, False)
    store.write("a", b"first")
    store.write("a", b"second")
    store.write("in/b", b"")
    store.write(".hidden", b"1")
    assert (store.read("a"), store.read("a", 3), store.read("in/b")) == (b"second", b"sec", b"")
    assert store.names("in") == ["b"]
    assert "a" in store.names()
    assert ".hidden" not in store.names()
    store.remove("a")
    store.remove("a")
    assert not store.exists("a")


def test_a_file_is_created_once(store: Store) -> None:
    assert store.create("a", b"first")
    assert not store.create("a", b"second")
    assert store.read("a") == b"first"


def test_cuts_hints_and_notes_of_drivers_lie_on_any_store(folder: At) -> None:
    log = CutLog(folder)
    log.add([["x"], []])
    log.add([["y"], ["z"]])
    assert CutLog(folder).cuts == [[["x"], []], [["y"], ["z"]]]
    note_watermark(folder, "q.1", 2, 17)
    assert known_before(folder, 2, ["q.1"]) == Before(2, {"q.1": 17})
    first, second = Fence(store_at(folder)), Fence(store_at(folder))
    first.take()
    first.check()
    second.take()
    second.check()
    with pytest.raises(SlackwaterError, match="only one driver may run on a checkpoint"):
        first.check()


def test_a_note_that_replaces_another_of_its_number_stops_the_first(folder: At) -> None:
    first, second = Fence(store_at(folder)), Fence(store_at(folder))
    first.take()
    # Two that have found nothing at the same time, on a store that cannot refuse the second.
    second.take()
    mine = store_at(folder)
    note = mine.read("owners/0000000002.json")
    assert note is not None
    mine.write("owners/0000000001.json", note)
    mine.remove("owners/0000000002.json")
    with pytest.raises(SlackwaterError, match="so this one stops"):
        first.check()


def test_a_driver_that_runs_for_a_while_reads_no_note_again_and_still_finds_another_one(
    folder: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fence, "SOON", -1.0)
    store = store_at(folder)
    first, second = Fence(store), Fence(store_at(folder))
    first.take()
    first.check()
    with monkeypatch.context() as patch:
        patch.setattr(store, "read", None)
        first.check()
    second.take()
    with pytest.raises(SlackwaterError, match="only one driver may run on a checkpoint"):
        first.check()


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_shards_give_the_same_on_any_store(query: str, folder: At, tmp_path: Path) -> None:
    found, truth = (play(query, at, 4) for at in (folder, str(tmp_path / "truth")))
    assert found == truth
    assert len(found) > 20
    for task in range(TASKS):
        assert store_at(folder, Share(task, TASKS).folder).names() != []


def test_a_store_that_does_not_answer_is_named() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
    settings = {"fs.s3a.access.key": "k", "fs.s3a.secret.key": "s", "fs.s3a.endpoint": f"http://127.0.0.1:{port}"}
    store = store_at(located("s3a://bucket/state", settings.get))
    with pytest.raises(SlackwaterError, match=r"^s3a://bucket/state/a: .*; is the store there, and may workers read"):
        store.write("a", b"1")


def test_what_no_file_system_of_python_knows_is_said_in_one_sentence() -> None:
    with pytest.raises(SlackwaterError, match=r"^nowhere://a/b: there is no way to this file system from Python"):
        store_at(Location("nowhere://a/b"))
    settings = {"fs.s3a.aws.credentials.provider": "com.example.VaultProvider"}
    with pytest.raises(UsageError, match="the credentials come from VaultProvider, which only Hadoop knows; set fs"):
        located("s3a://bucket/a", settings.get)


def test_settings_of_hadoop_reach_arrow() -> None:
    told = {
        "fs.s3a.access.key": "all",
        "fs.s3a.bucket.mine.access.key": "own",
        "fs.s3a.secret.key": "s",
        "fs.s3a.endpoint": "store:9000",
        "fs.s3a.connection.ssl.enabled": "false",
        "fs.s3a.endpoint.region": "eu-1",
        "fs.azure.account.key.box.dfs.core.windows.net": "azure",
    }
    mine = dict(located("s3a://mine/a", told.get).settings)
    assert mine == {
        "access_key": "own", "secret_key": "s", "endpoint_override": "store:9000", "scheme": "http", "region": "eu-1",
    }  # fmt: skip
    assert dict(located("s3a://other/a", told.get).settings)["access_key"] == "all"
    azure = located("abfss://c@box.dfs.core.windows.net/a", told.get)
    assert dict(azure.settings) == {"account_name": "box", "account_key": "azure"}
    anonymous = {"fs.s3a.aws.credentials.provider": "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"}
    assert dict(located("s3a://public/a", anonymous.get).settings) == {"anonymous": "true"}
    assert json.dumps(located("hdfs://name:8020/a", told.get).settings) == "[]"
    assert pa.__version__


def written(folder: Folder, number: int, *tasks: list[int], again: bool = True) -> list[str]:
    """The files of tasks that have these rows, in a micro-batch that is then published; one has died before that."""
    names = []
    for task, rows in enumerate(tasks):
        files = TaskFiles(number, Share(task, len(tasks)))
        files.add("results", folder, pa.table({"n": rows}))
        names += [name for _, name in files.close()]
    publish(folder, names, number, again)
    tidy([folder])
    return names


def rows_in(folder: At) -> dict[str, list[int]]:
    """The rows of each micro-batch that is whole."""
    found = {}
    for batch in (one for one in store_at(folder).names() if one.startswith("batch=")):
        store = store_at(folder, batch)
        assert store.exists("_SUCCESS")
        tables = [pq.read_table(pa.BufferReader(store.read(name) or b"")) for name in store.names()]
        found[batch] = sorted(pa.concat_tables(tables).column("n").to_pylist())
    return found


def test_a_micro_batch_that_runs_again_replaces_its_own_files_on_any_store(folder: At) -> None:
    out = Folder(folder, pa.schema([("n", pa.int64())]), ("n",), "snappy")
    written(out, 0, [1], [2], again=False)
    written(out, 1, [3], [4], [5])
    assert rows_in(folder) == {"batch=0": [1, 2], "batch=1": [3, 4, 5]}
    # By another number of tasks, as a start with more shards has them.
    names = written(out, 1, [6], [7])
    assert rows_in(folder) == {"batch=0": [1, 2], "batch=1": [6, 7]}
    written(out, 1)
    assert rows_in(folder) == {"batch=0": [1, 2], "batch=1": []}
    written(out, 2, [8])
    withdraw(out, names, 1)
    assert rows_in(folder)["batch=2"] == [8]


def test_what_a_failed_query_has_written_to_a_store_is_removed(s3: dict[str, str], tmp_path: Path) -> None:
    at = located(f"s3a://bucket/{tmp_path.name}/out", s3.get)
    out = Folder(at, pa.schema([("n", pa.int64())]), ("n",), "snappy")
    files = TaskFiles(3, Share(0, 2))
    files.add("results", out, pa.table({"n": [1]}))
    withdraw(out, [name for _, name in files.close()], 3)
    assert store_at(at, "batch=3").names() == []


def test_attempts_of_a_task_write_one_file_on_a_store_that_cannot_move_it(s3: dict[str, str], tmp_path: Path) -> None:
    out = Folder(located(f"s3a://bucket/{tmp_path.name}/out", s3.get), pa.schema([("n", pa.int64())]), ("n",), "none")
    for _ in range(2):
        names = written(out, 0, [1], [2], again=False)
    assert sorted(store_at(out.at, "batch=0").names()) == sorted(names)


def test_files_that_nobody_needs_go_from_a_far_store_now_and_then(s3: dict[str, str], tmp_path: Path) -> None:
    state = located(f"s3a://bucket/{tmp_path.name}/state", s3.get)
    play(QUERIES["a sum"], state, SELDOM + 2)
    hot = [name for name in store_at(state, "2/0").names() if name.endswith(".hot")]
    assert 1 < len(hot) <= 3


@pytest.mark.parametrize("kind", ["parquet", "json", "csv"])
def test_files_of_a_far_store_are_read_as_those_of_a_disk(kind: str, s3: dict[str, str], tmp_path: Path) -> None:
    at = located(f"s3a://bucket/{tmp_path.name}/in", s3.get)
    table, schema = pa.table({"n": [1, 2], "k": ["a", "b"]}), pa.schema([("k", pa.string()), ("n", pa.int64())])
    write: dict[str, Callable[[pa.BufferOutputStream], object]] = {
        "parquet": lambda into: pq.write_table(table, into),
        "csv": lambda into: pa.csv.write_csv(table, into),
        "json": lambda into: into.write(b'{"n": 1, "k": "a"}\n{"n": 2, "k": "b"}\n'),
    }
    content = pa.BufferOutputStream()
    write[kind](content)
    store_at(at).write("deep/file", content.getvalue().to_pybytes())
    (one,) = store_at(at).listed(deep=True)
    assert one.name == "deep/file"
    assert read_file(store_at(at).path(one.name), kind, schema, at) == table.select(["k", "n"])


@pytest.fixture
def reached(spark: SparkSession, s3: dict[str, str]) -> Iterator[None]:
    """The session knows how to reach the store; it has no file system of Hadoop's for it."""
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    for name, value in s3.items():
        hadoop.set(name, value)
    yield
    for name in s3:
        hadoop.unset(name)


@pytest.mark.xdist_group("spark")
@pytest.mark.usefixtures("reached")
def test_a_started_query_has_input_state_and_results_in_an_object_store_and_goes_on_from_there(
    spark: SparkSession, s3: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = pieces(0, 3)
    far, near = f"s3a://bucket/{tmp_path.name}", str(tmp_path / "near")

    def run(base: str, name: str) -> None:
        frame = spark.readStream.format("slackwater").schema("ts long, key string, v double").load(f"{base}/in")
        started = sw.start(
            spark, QUERIES["a sum"], s=frame, results=f"{base}/rows", shards=2, key_groups=2,
            checkpoint=str(tmp_path / name / "checkpoint"), trigger="available",
        )  # fmt: skip
        with started as query:
            query.wait()

    def put(base: At, number: int) -> None:
        content = pa.BufferOutputStream()
        pq.write_table(tables[number].drop(["arrival"]), content)
        store_at(base, "in").write(f"{number}.parquet", content.getvalue().to_pybytes())

    def rows(base: At) -> list[str]:
        store = store_at(base, "rows")
        files = [store.read(one.name) for one in store.listed(deep=True) if one.name.endswith(".parquet")]
        return sorted(str(row) for one in files for row in pq.read_table(pa.BufferReader(one)).to_pylist())

    at = located(far, s3.get)
    for number in (0, 1):
        put(at, number)
        put(near, number)
    with monkeypatch.context() as patch:
        patch.setattr(started, "state_of_checkpoint", lambda spark, checkpoint: StateRoot(inside(at, "state")))
        run(far, "far")
        put(at, 2)
        run(far, "far")
    run(near, "near")
    put(near, 2)
    run(near, "near")
    assert rows(at) == rows(near)
    assert len(rows(at)) > 100
    assert store_at(at, "state").names() == ["2", "cuts", "hints"]
    assert "0000000001.hot" in store_at(at, "state/2/0").names()
