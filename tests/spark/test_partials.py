"""Aggregates that travel as partial results: what shards make of them is what they make of the tuples themselves.

Tables are small, so that a partial pays already where it stands for few tuples; late tuples, tuples too far ahead and
tuples without a time are among them in every case.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark", reason="the Spark runtime needs pyspark")

import slackwater as sw
from slackwater.core.quality import clause
from slackwater.core.time import BEFORE_ALL
from slackwater.operators.aggregate import pane_partials
from slackwater.plan.planner import plan
from slackwater.runtime.spark.control import TARGET, Message
from slackwater.runtime.spark.exchange.packing import FoldersRead
from slackwater.runtime.spark.members import KeyGroups
from slackwater.runtime.spark.packed_source import Before, known_before, note_watermark
from slackwater.runtime.spark.state.host import Hosted
from slackwater.runtime.spark.state.shard import Shard
from slackwater.runtime.spark.store import At
from slackwater.sources.binding import bind_to_tables
from slackwater.sources.replay import replay
from tests.effort import tried
from tests.spark.in_process import NAME, InProcess, ShardsRun, micro_batch, planned, said
from tests.spark.test_grids import TARGETS, of_both, streams_of, told

ALL = "COUNT(*) AS n, COUNT(x) AS nx, SUM(v) AS total, AVG(v) AS mean, MIN(x) AS low, MAX(x) AS high, VAR(v) AS spread"
ALL += ", FIRST(x) AS oldest, LAST(v) AS newest, MAX_BY(v, x) AS of_high, MIN_BY(x, v) AS of_low"
ALL += ", approx_count_distinct(v, 0.3) AS different"
SUMS = "SELECT SUM(v) AS total FROM a [RANGE 100 MS SLIDE 25 MS]"
QUERIES = {
    "sliding": f"SELECT {ALL} FROM a [RANGE 100 MS SLIDE 25 MS]",
    "slide does not divide": f"SELECT {ALL} FROM a [RANGE 100 MS SLIDE 30 MS]",
    "tumbling": f"SELECT {ALL} FROM a [RANGE 40 MS]",
    "by text": f"SELECT name, {ALL} FROM a [RANGE 100 MS SLIDE 50 MS] GROUP BY name",
    "by two": f"SELECT name, v % 2 AS odd, {ALL} FROM a [RANGE 100 MS SLIDE 50 MS] GROUP BY name, odd",
    "having": "SELECT name, SUM(v) AS total FROM a [RANGE 100 MS] WHERE v <> 3 GROUP BY name HAVING total > 99",
    "kept whole": "SELECT MEDIAN(v) AS mid, SUM(v) AS total FROM a [RANGE 100 MS SLIDE 25 MS]",
    "of text": "SELECT MIN(name) AS least, SUM(v) AS total FROM a [RANGE 100 MS SLIDE 25 MS]",
}


def ran_by_files(query: str, streams: dict[str, pa.Table], epochs: sw.Epochs, shards: int, folder: Path) -> sw.Answer:
    physical = plan(bind_to_tables(query, streams, "ts").query)
    runtime = InProcess(epochs, shards, folder, reads_files=True)
    with runtime.begin(physical, replay(physical, streams, "ms"), streams, "ms") as run:
        tables = list(run.tables(lambda: None))
    late, rejected = {"a": run.side_outputs.late_rows(0)}, {"a": run.side_outputs.rejected_rows(0)}
    return sw.Answer(pa.concat_tables(tables), late, rejected, run.report().as_json())


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """How often partials were taken, and how often tuples were read again; partials pay for one tuple already."""
    seen = {"partials": 0, "again": 0}
    take, again = Shard._take_partials, FoldersRead.block_again

    def count_taken(self: Shard, *given: Any) -> Any:
        found = take(self, *given)
        seen["partials"] += len(found)
        return found

    def count_again(self: FoldersRead, *given: Any) -> Any:
        seen["again"] += 1
        return again(self, *given)

    monkeypatch.setattr(pane_partials, "FEWEST_TUPLES", 1)
    monkeypatch.setattr(pane_partials, "AT_ONCE", 16)
    monkeypatch.setattr(Shard, "_take_partials", count_taken)
    monkeypatch.setattr(FoldersRead, "block_again", count_again)
    return seen


@pytest.mark.parametrize("name", QUERIES)
def test_partials_give_what_tuples_give(name: str, counted: dict[str, int]) -> None:
    cases = st.tuples(
        st.integers(0, 2**16), st.sampled_from(TARGETS), st.integers(20, 200), st.sampled_from((1, 3)), st.booleans()
    )

    @tried(16)
    @given(case=cases)
    def check(case: tuple[int, str, int, int, bool]) -> None:
        seed, target, tuples, shards, hinted = case
        query = f"{QUERIES[name]} WITH {target}"
        streams, epochs = streams_of(seed, "a", 400), sw.Epochs(tuples=tuples)
        local = told(sw.replay(query, streams, epochs=epochs))
        with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
            if not hinted:
                patch.setattr("tests.spark.in_process.known_before", lambda folder, cuts, keys: Before(cuts, {}))
            ran = told(ran_by_files(query, streams, epochs, shards, Path(folder, "ran")))
        assert of_both(ran) == of_both(local)

    check()
    possible = name not in ("kept whole", "of text")
    assert (counted["partials"] > 0, counted["again"] > 0) == (possible, possible)


def test_a_shard_that_wants_tuples_gets_them_and_says_so_for_the_next_cut(
    counted: dict[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when the target was changed while the query ran, which those who pack do not know of."""
    streams, epochs = streams_of(7, "a", 400), sw.Epochs(tuples=50)
    stated, wanted = (f"{SUMS} WITH {target}" for target in ("DELAY 15 MS", "ERROR 0.05"))
    text, target = (clause(planned(query, streams).quality) for query in (stated, wanted))
    message = said(Message(TARGET, 1, NAME, 0, text=text, target=target))

    def told_at_first(
        hosted: Hosted, cut: KeyGroups, lines: Sequence[pa.RecordBatch], folder: At, number: int
    ) -> Iterator[dict[str, Any]]:
        return micro_batch(hosted, cut, [*lines, message] if number == 0 else lines, folder, number)

    monkeypatch.setattr("tests.spark.in_process.micro_batch", told_at_first)
    ran = told(ran_by_files(stated, streams, epochs, 1, tmp_path / "ran"))
    assert of_both(ran) == of_both(told(sw.replay(wanted, streams, epochs=epochs)))
    # The two tasks that read the first cut.
    assert counted == {"partials": 0, "again": 2}


def test_a_micro_batch_that_runs_again_gives_the_same(
    counted: dict[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a kill: the cut is read again, when its first run has already noted the watermark after it."""
    query = f"{QUERIES['by text']} WITH DELAY 15 MS"
    streams, epochs = streams_of(11, "a", 400), sw.Epochs(tuples=60)
    played = ShardsRun._played

    def played_twice(self: ShardsRun, *given: Any) -> Iterator[dict[str, Any]]:
        list(played(self, *given))
        yield from played(self, *given)

    monkeypatch.setattr(ShardsRun, "_played", played_twice)
    ran = told(ran_by_files(query, streams, epochs, 3, tmp_path / "ran"))
    assert counted["partials"] > 0
    assert of_both(ran) == of_both(told(sw.replay(query, streams, epochs=epochs)))


def test_who_learns_from_tuples_has_no_partials(counted: dict[str, int], tmp_path: Path) -> None:
    query = f"{SUMS} WITH ERROR 0.05"
    streams, epochs = streams_of(7, "a", 400), sw.Epochs(tuples=50)
    ran = told(ran_by_files(query, streams, epochs, 1, tmp_path / "ran"))
    assert counted == {"partials": 0, "again": 0}
    assert of_both(ran) == of_both(told(sw.replay(query, streams, epochs=epochs)))


def test_the_watermark_of_the_cut_before_is_found_again_and_no_other(tmp_path: Path) -> None:
    folder = str(tmp_path)

    def known(cuts: int, *keys: str) -> int | None:
        before = known_before(folder, cuts, keys)
        assert before.cuts == cuts
        return before.watermark(keys)

    assert known(0, "q.1") == BEFORE_ALL
    for cuts in range(1, 5):
        note_watermark(folder, "q.1", cuts, 100 * cuts)
        assert known(cuts, "q.1") == 100 * cuts
    # A cut that is read again is told what it was told before; of others nothing is known.
    assert known(3, "q.1") == 300
    assert known(2, "q.1") == BEFORE_ALL
    # Of queries that read the same, the one counts that is farthest behind, or wants tuples.
    note_watermark(folder, "r.1", 3, 250)
    assert (known(3, "q.1", "r.1"), known(3, "q.1", "r.1", "s.1")) == (250, BEFORE_ALL)
    note_watermark(folder, "r.1", 3, None)
    assert known(3, "q.1", "r.1") is None
    note_watermark(folder, "q.1", 5, None)
    assert known(5, "q.1") is None
    note_watermark(folder, "q.1", 5, 500)
    path = tmp_path / "hints" / "q.1.1.json"
    for damaged in ('{"cuts"', path.read_text().replace("500", "501")):
        path.write_text(damaged)
        assert known(5, "q.1") == BEFORE_ALL
