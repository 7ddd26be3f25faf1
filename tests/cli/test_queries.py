"""`slackwater queries DIR ...` where no Spark is needed: what a checkpoint says, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slackwater.runtime.spark import requests
from slackwater.runtime.spark.control import ADD, BEGIN, CONTROL, DROP, FAIL, PAUSE, TARGET, VERSION, Message
from slackwater.runtime.spark.fence import OWNERS, Fence
from slackwater.runtime.spark.locations import STATE
from slackwater.runtime.spark.store import LocalStore, signed, verified
from tests.cli.conftest import Command

SAID = [
    Message(BEGIN, shards=2, groups=2, run="x", version=VERSION),
    *(Message(ADD, n, name, n, f"SELECT v\n FROM {name}", "", True) for n, name in enumerate("abcd", 1)),
    Message(PAUSE, 5, "b", 2),
    Message(FAIL, 6, "c", 3, reason="integer overflow in v * v", batch=4),
    Message(DROP, 7, "d", 4),
    Message(TARGET, 8, "a", 1, target="DELAY 1 S"),
]


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    folder = tmp_path / "checkpoint" / CONTROL
    folder.mkdir(parents=True)
    # Their order is that of their numbers, whatever their files are called.
    for place, one in enumerate(reversed(SAID)):
        (folder / f"{place}.txt").write_text(one.as_json() + "\n")
    (folder / ".half.txt").write_text("{")
    return folder.parent


def test_a_checkpoint_says_which_queries_there_are(command: Command, checkpoint: Path) -> None:
    listed = command("queries", checkpoint, "list", "--json")
    assert (listed.code, listed.err) == (0, "")
    found = [(one["query"], one["state"], one["reason"], one["target"]) for one in json.loads(listed.out)["queries"]]
    assert found == [
        ("a", "running", None, "DELAY 1 S"),
        ("b", "paused", None, None),
        ("c", "failed", "integer overflow in v * v", None),
    ]
    shown = command("queries", checkpoint, "list").out
    assert "SELECT v FROM a" in shown
    assert "integer overflow" in shown


def test_queries_whose_driver_runs_no_more_have_ended(command: Command, checkpoint: Path) -> None:
    def state_of_first() -> str:
        found: str = json.loads(command("queries", checkpoint, "list", "--json").out)["queries"][0]["state"]
        return found

    fence = Fence(LocalStore(str(checkpoint / STATE)))
    fence.take()
    assert state_of_first() == "running"
    fence.release()
    assert state_of_first() == "ended"
    fence.take()
    (note,) = sorted((checkpoint / STATE / OWNERS).iterdir())[-1:]
    told = verified(note.read_bytes(), note)
    note.write_text(signed(told | {"process": told["process"] | {"pid": 2**22 + 1}}))
    assert state_of_first() == "ended", "a process that was killed writes no note"


def test_one_query_alone_is_listed_under_the_name_that_it_has(command: Command, tmp_path: Path) -> None:
    (tmp_path / CONTROL).mkdir()
    begun = Message(BEGIN, shards=1, groups=16, run="y", alone=True, version=VERSION)
    said = [begun, Message(ADD, 1, "query", 1, "SELECT v FROM s", "", 16, True), Message(PAUSE, 2, "query", 1)]
    (tmp_path / CONTROL / "0.txt").write_text("\n".join(one.as_json() for one in said) + "\n")
    (listed,) = json.loads(command("queries", tmp_path, "list", "--json").out)["queries"]
    assert (listed["query"], listed["state"], listed["text"]) == ("query", "paused", "SELECT v FROM s")


def test_what_is_no_set_or_does_not_run_is_refused(
    command: Command, checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere = command("queries", tmp_path / "nowhere", "drop", "a")
    assert (nowhere.code, "is not the checkpoint of queries" in nowhere.err) == (2, True)
    monkeypatch.setattr(requests.ask, "__defaults__", (0.1,))
    before = sorted((checkpoint / CONTROL).iterdir())
    for change in (["drop", "a"], ["add", "e", "SELECT v FROM a", "--out", "e"], ["target", "a", "NO WAIT"]):
        done = command("queries", checkpoint, *change)
        assert (done.code, "nothing was changed: no set runs on" in done.err) == (2, True)
    assert sorted((checkpoint / CONTROL).iterdir()) == before
    assert list((checkpoint / requests.REQUESTS).iterdir()) == []


def test_a_checkpoint_in_an_object_store_is_refused_by_its_whole_address(command: Command) -> None:
    refused = command("queries", "s3a://bucket/checkpoint", "list")
    assert refused.code == 2
    assert "s3a://bucket/checkpoint is not on this machine" in refused.err
