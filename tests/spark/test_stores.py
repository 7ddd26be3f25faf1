"""State on other file systems than a disk of this machine: the same rows, objects that are whole, one sentence where
it cannot be reached."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="the Spark runtime needs pyspark")

from pyspark.sql import DataFrame, SparkSession

import slackwater as sw
from slackwater.core.errors import SlackwaterError, UsageError
from slackwater.runtime.spark import running
from slackwater.runtime.spark.fence import Fence
from slackwater.runtime.spark.locations import located
from slackwater.runtime.spark.packed_source import CutLog
from slackwater.runtime.spark.state.last_watermark import Before, known_before, note_watermark
from slackwater.runtime.spark.store import At, Location, Store, store_at
from tests.kit.object_store import s3_server
from tests.spark.conftest import Streamed
from tests.spark.in_process import play
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
    note_watermark(folder, Before(2, 17))
    assert known_before(folder, 2) == Before(2, 17)
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


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_shards_give_the_same_on_any_store(query: str, folder: At, tmp_path: Path) -> None:
    found, truth = (play(query, at, 4) for at in (folder, str(tmp_path / "truth")))
    assert found == truth
    assert len(found) > 20
    assert store_at(folder, "0").names() != []


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


@pytest.mark.xdist_group("spark")
def test_a_started_query_keeps_its_state_in_an_object_store_and_goes_on_from_there(
    spark: SparkSession, streamed: Streamed, s3: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(name: str, frame: DataFrame) -> list[str]:
        started = sw.start(
            spark, QUERIES["a sum"], s=frame, results=str(tmp_path / name / "rows"), shards=2, key_groups=2,
            checkpoint=str(tmp_path / name / "checkpoint"), trigger="available",
        )  # fmt: skip
        with started as query:
            query.wait()
        return sorted(map(str, spark.read.parquet(str(tmp_path / name / "rows")).toArrow().to_pylist()))

    tables = pieces(0, 3)
    state = located(f"s3a://bucket/{tmp_path.name}/state", s3.get)
    with monkeypatch.context() as patch:
        patch.setattr(running, "state_folder", lambda spark, checkpoint: state)
        run("far", streamed("s", tables[:2]))
        # What reaches a worker again comes from the store.
        frame = streamed("s", tables[2:])
        far = run("far", frame)
    near = run("near", frame)
    assert [row.rpartition("'batch'")[0] for row in far] == [row.rpartition("'batch'")[0] for row in near]
    assert len(far) > 100
    assert "0000000002.hot" in store_at(state, "0").names()
    assert not (tmp_path / "far" / "checkpoint" / running.STATE).exists()
