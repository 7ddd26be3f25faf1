"""One driver on a checkpoint, and folders that all machines must share: what goes wrong is said as what it is."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="the Spark runtime needs pyspark")

from slackwater.core.errors import SlackwaterError, UsageError
from slackwater.runtime.spark import fence
from slackwater.runtime.spark.fence import OWNERS, Fence
from slackwater.runtime.spark.folders import HIDDEN, Folder, publish
from slackwater.runtime.spark.state.root import StateRoot
from slackwater.runtime.spark.store import LocalStore

OTHER = """
import sys
from slackwater.runtime.spark.fence import Fence
from slackwater.runtime.spark.store import LocalStore
Fence(LocalStore(sys.argv[1])).take()
print("taken", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(str(tmp_path / "state"))


def test_a_second_driver_is_refused_while_the_first_lives_and_goes_on_when_it_has_died(store: LocalStore) -> None:
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", OTHER, store.root], stdin=pipe, stdout=pipe, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "taken\n"
        told = f"{store.root}: process {other.pid} on .* runs a query from this checkpoint; stop it first, or use"
        with pytest.raises(UsageError, match=told):
            Fence(store).take()
        other.kill()
    mine = Fence(store)
    mine.take()
    mine.check()


def test_the_first_driver_stops_where_one_of_another_machine_has_started(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = Fence(store), Fence(store)
    first.take()
    first.check()
    monkeypatch.setattr(socket, "gethostname", lambda: "elsewhere")
    second.take()
    second.check()
    told = (
        f"{store.root}: process {os.getpid()} on elsewhere has started a query from this checkpoint, so this one stops"
    )
    with pytest.raises(SlackwaterError, match=re.escape(told)):
        first.check()
    # Its end does not let others in.
    first.release()
    second.check()


def test_a_query_that_has_ended_is_in_nobodys_way(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    first = Fence(store)
    first.take()
    here = fence.this_process()
    monkeypatch.setattr(fence, "this_process", lambda: here | {"pid": here["pid"] + 1})
    with pytest.raises(UsageError, match="stop it first"):
        Fence(store).take()
    monkeypatch.undo()
    first.release()
    monkeypatch.setattr(fence, "this_process", lambda: here | {"pid": here["pid"] + 1})
    Fence(store).take()


def test_of_many_who_start_at_once_one_has_the_last_note(store: LocalStore) -> None:
    fences = [Fence(store) for _ in range(8)]
    together = threading.Barrier(8)

    def start(one: Fence) -> None:
        together.wait()
        one.take()

    threads = [threading.Thread(target=start, args=(one,)) for one in fences]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    going_on = []
    for one in fences:
        try:
            one.check()
        except SlackwaterError:
            continue
        going_on.append(one)
    assert len(going_on) == 1
    assert len(store.names(OWNERS)) <= 9


def test_a_checkpoint_that_a_worker_does_not_have_is_called_that(tmp_path: Path) -> None:
    root = StateRoot(str(tmp_path / "state"))
    root.make()
    assert root.of_task() == str(tmp_path / "state")
    (tmp_path / "state").rmdir()
    told = f"{tmp_path / 'state'} is not there on .*, where a worker of this query runs; name a folder that all machine"
    with pytest.raises(SlackwaterError, match=told):
        root.of_task()


def test_a_results_folder_that_workers_do_not_share_is_called_that(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path / "out"), pa.schema([("a", pa.int64())]), ("a",), "snappy")
    told = f"{folder.path}: part-1.parquet, which a worker has written, is not there on .*; name a folder that all"
    with pytest.raises(SlackwaterError, match=told):
        publish(folder, ["part-1.parquet"], 0)
    assert not (tmp_path / "out" / HIDDEN / "whole").exists()
