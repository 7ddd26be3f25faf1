"""Pages: a log of changes is the same state as a table of entries, whoever reads it and however often it is cleaned.

Every law is tried on files of a disk, and on those of a process alone.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark", reason="the Spark runtime needs pyspark")

from slackwater.core.errors import SlackwaterError
from slackwater.core.state import StateUpdate
from slackwater.runtime.spark.state.page_files import Mark
from slackwater.runtime.spark.state.pages import Account, PageStore
from slackwater.runtime.spark.store import LocalStore
from tests.effort import tried

Table = dict[tuple[str, str], bytes]
CHANGES = st.dictionaries(
    st.tuples(st.sampled_from("ab"), st.sampled_from("xyz")), st.one_of(st.none(), st.binary(max_size=40)), max_size=4
)


class Home:
    """The pages of one shard in files of a checkpoint, as one micro-batch after the other finds them."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self.path = Path(self._folder.name, "0")
        self._files, self._number = LocalStore(str(self.path)), 0

    def store(self) -> PageStore:
        """As the next micro-batch finds it."""
        return PageStore(self._files, self._number, spare=300)

    def done(self) -> None:
        """The micro-batch is committed."""
        self._number += 1

    @property
    def count(self) -> int:
        return len(self._files.names())


class Worker:
    """Someone who keeps entries between micro-batches."""

    def __init__(self) -> None:
        self.table: Table = {}
        self.mark: Mark | None = None
        self.account = Account()
        self.missed: set[tuple[str, str]] = set()
        """What others have changed since."""

    def turn(self, home: Home, changes: dict[tuple[str, str], bytes | None], fails: bool = False) -> bool:
        """Catch up, and write these changes; whether it could go on with what it had. A task may fail at its end."""
        store = home.store()
        now = store.mark()
        store.account = self.account
        missed = None if self.mark is None or now is None else store.between(self.mark, now)
        if missed is None:
            self.table = {}
            store.account = None
        if missed is not None:
            # Some entries may be taken in once only, such as tuples that are held.
            assert {(one.namespace, one.key) for one in missed} == self.missed
        apply(self.table, store.everything() if missed is None else missed)
        self.missed = set()
        updates = [StateUpdate(*place, value) for place, value in changes.items()]
        apply(self.table, updates)
        self.mark = store.write(now, updates)
        assert store.account is not None
        self.account = store.account
        if not fails:
            home.done()
        return missed is not None


def apply(table: Table, updates: list[StateUpdate]) -> None:
    for one in updates:
        if one.value is None:
            table.pop((one.namespace, one.key), None)
        else:
            table[one.namespace, one.key] = one.value


@tried(50)
@given(turns=st.lists(st.tuples(st.integers(0, 2), CHANGES, st.integers(0, 4)), max_size=40))
def test_every_worker_finds_the_entries_that_were_written(turns) -> None:
    place, truth = Home(), Table()
    workers = [Worker(), Worker(), Worker()]
    for who, changes, luck in turns:
        if luck == 0:
            # Another attempt has written something, and died.
            workers[(who + 1) % 3].turn(place, {("a", "x"): b"of no use"}, fails=True)
        apply(truth, [StateUpdate(*name, value) for name, value in changes.items()])
        workers[who].turn(place, changes)
        for other in workers:
            if other is not workers[who]:
                other.missed |= set(changes)
        assert workers[who].table == truth
        again = place.store()
        assert {(one.namespace, one.key): one.value for one in again.everything()} == truth
        assert again.account == workers[who].account


def test_a_log_is_cleaned_and_a_worker_that_was_away_for_long_reads_everything() -> None:
    place, away, here = Home(), Worker(), Worker()
    here.turn(place, {("a", "stays"): b"1" * 30})
    away.turn(place, {("a", "stays too"): b"2" * 30, ("a", "goes"): b"3"})
    here.missed = {("a", "stays too"), ("a", "goes")}
    assert here.turn(place, {("a", "goes"): None})
    away.missed = {("a", "goes")}
    assert away.turn(place, {})
    here.missed = set()
    for _ in range(100):
        here.turn(place, {("b", "changes"): b"4" * 40})
    assert 3 <= place.count < 16
    assert not away.turn(place, {})
    assert away.table == here.table
    assert len(away.table) == 3


def test_a_write_that_was_not_committed_is_not_taken_for_the_state() -> None:
    place, worker = Home(), Worker()
    worker.turn(place, {("a", "x"): b"1"})
    worker.turn(place, {("a", "x"): b"2"}, fails=True)
    Worker().turn(place, {("a", "x"): b"3"})
    assert not worker.turn(place, {})
    assert worker.table == {("a", "x"): b"3"}


def test_a_file_that_is_missing_is_named_and_nothing_is_made_up() -> None:
    place, worker = Home(), Worker()
    for value in (b"1", b"2", b"3"):
        worker.turn(place, {("a", value.decode()): value})
    (place.path / "0000000001.pages").unlink()
    with pytest.raises(SlackwaterError, match=r"0000000001\.pages, a part of the state, is not there; put it back"):
        Worker().turn(place, {})
    (place.path / "0000000002.pages").unlink()
    with pytest.raises(SlackwaterError, match=r"the state after micro-batch 2, is not there; put it back"):
        Worker().turn(place, {})


def test_what_a_task_that_was_killed_has_left_is_removed(monkeypatch) -> None:
    place, worker = Home(), Worker()
    worker.turn(place, {("a", "x"): b"1"})
    (place.path / ".1-0123").write_bytes(b"half a page")
    Worker().turn(place, {})
    assert (place.path / ".1-0123").exists()
    monkeypatch.setattr("slackwater.runtime.spark.state.page_files.ABANDONED", -1)
    Worker().turn(place, {})
    assert not (place.path / ".1-0123").exists()
