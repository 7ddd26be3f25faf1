"""Pages: a log of changes is the same state as a table of entries, whoever reads it and however often it is cleaned."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from slackwater.core.state import StateUpdate
from slackwater.runtime.spark.query_set.pages import Account, PageStore
from slackwater.runtime.spark.state.store import Mark
from tests.effort import tried
from tests.spark.in_process import Handle

Table = dict[tuple[str, str], bytes]
CHANGES = st.dictionaries(
    st.tuples(st.sampled_from("ab"), st.sampled_from("xyz")), st.one_of(st.none(), st.binary(max_size=40)), max_size=4
)


class Worker:
    """Someone who keeps entries between micro-batches."""

    def __init__(self) -> None:
        self.table: Table = {}
        self.mark: Mark | None = None
        self.account = Account()

    def turn(self, handle: Handle, changes: dict[tuple[str, str], bytes | None]) -> bool:
        """Catch up, and write these changes; whether it could go on with what it had."""
        store = PageStore(handle, largest=50, spare=300)
        now = store.mark()
        missed = None if self.mark is None or now is None else store.between(self.mark, now, self.account)
        if missed is None:
            self.table = {}
        apply(self.table, store.everything() if missed is None else missed)
        updates = [StateUpdate(*place, value) for place, value in changes.items()]
        apply(self.table, updates)
        self.mark = store.write(now, updates)
        assert store.account is not None
        self.account = store.account
        return missed is not None


def apply(table: Table, updates: list[StateUpdate]) -> None:
    for one in updates:
        if one.value is None:
            table.pop((one.namespace, one.key), None)
        else:
            table[one.namespace, one.key] = one.value


@tried(100)
@given(st.lists(st.tuples(st.integers(0, 2), CHANGES), max_size=40))
def test_every_worker_finds_the_entries_that_were_written(turns: list[tuple[int, dict[object, object]]]) -> None:
    handle, truth = Handle(), Table()
    workers = [Worker(), Worker(), Worker()]
    for who, changes in turns:
        apply(truth, [StateUpdate(*place, value) for place, value in changes.items()])  # type: ignore
        workers[who].turn(handle, changes)  # type: ignore[arg-type]
        assert workers[who].table == truth
        assert {(one.namespace, one.key): one.value for one in PageStore(handle).everything()} == truth
        again = PageStore(handle)
        again.everything()
        assert again.account == workers[who].account


def test_a_log_is_cleaned_and_a_worker_that_was_away_for_long_reads_everything() -> None:
    handle, away, here = Handle(), Worker(), Worker()
    here.turn(handle, {("a", "stays"): b"1" * 30})
    away.turn(handle, {("a", "stays too"): b"2" * 30, ("a", "goes"): b"3"})
    assert here.turn(handle, {("a", "goes"): None})
    assert away.turn(handle, {})
    for _ in range(100):
        here.turn(handle, {("b", "changes"): b"4" * 40})
    pages = handle.getMapState("pages", "", "").entries
    assert 3 <= len(pages) < 12
    assert not away.turn(handle, {})
    assert away.table == here.table
    assert len(away.table) == 3


def test_a_write_that_was_not_committed_is_not_taken_for_the_state() -> None:
    handle, worker = Handle(), Worker()
    worker.turn(handle, {("a", "x"): b"1"})
    pages, mark = dict(handle.getMapState("pages", "", "").entries), handle.getValueState("mark", "").get()
    worker.turn(handle, {("a", "x"): b"2"})
    # The task fails, and the store is as before; another worker writes the micro-batch.
    handle.getMapState("pages", "", "").entries = pages
    handle.getValueState("mark", "").update(mark)
    Worker().turn(handle, {("a", "x"): b"3"})
    assert not worker.turn(handle, {})
    assert worker.table == {("a", "x"): b"3"}
