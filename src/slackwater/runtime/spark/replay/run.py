"""A run over recorded streams on Spark, and the log of what each of its micro-batches has emitted, one file each.

Invariant: everything reported comes from the files of the epoch log, read in the order of the micro-batches; a run that
takes up an older one reads that one's files first, so its results and its report are those of one run. A file is whole
or absent, and a micro-batch that runs again writes the same file again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from slackwater.core.state import NO_LATE, Emission, Observation
from slackwater.core.values import total
from slackwater.core.wrong_clocks import WrongClock
from slackwater.observe.delays import Buckets, added
from slackwater.observe.value import QueryProgress, nothing_observed
from slackwater.plan.physical import PhysicalPlan
from slackwater.quality.registry import controller_for
from slackwater.runtime.recorded import RecordedRun, Tick, no_tick
from slackwater.runtime.side_outputs.collectors import LATE, REJECTED
from slackwater.runtime.spark.exchange.format import as_bytes
from slackwater.runtime.spark.exchange.writer import SOURCE_ROW
from slackwater.runtime.spark.output_schema import LATENCY, METRICS, ROWS, result_schema
from slackwater.runtime.spark.store import LocalStore, sealed, unsealed
from slackwater.sinks.rows import SecondCounts
from slackwater.sources.replay import Replay

MicroBatches = Callable[[Tick, Callable[[], bool]], Iterator[int]]
"""Runs to the end of the input, or until interrupted: the numbers of micro-batches as they are kept."""


class SparkRun(RecordedRun):
    """One query over the files of recorded streams."""

    runtime = "spark"
    shards: int

    def __init__(
        self,
        plan: PhysicalPlan,
        replay: Replay,
        arrivals: tuple[int, ...],
        folder: Path,
        shards: int,
        micro_batches: MicroBatches | None = None,
    ) -> None:
        """`arrivals` says how many have come by the end of each micro-batch; those that are not kept in the folder are
        run by `micro_batches`."""
        super().__init__(plan, replay, controller_for(plan.quality, plan.options, plan.windows))
        self.shards = plan.partitioning.shards(shards)
        self._arrivals, self._folder, self._micro_batches = arrivals, folder, micro_batches
        (folder / "epochs").mkdir(exist_ok=True)
        self._reported: dict[tuple[int, bool], QueryProgress] = {}
        self._seconds = 0.0
        self._delayed: Buckets = {}

    def warm_up(self) -> None:
        """Nothing: workers compile on their own, and what they have compiled they find on disk."""

    def tables(self, tick: Tick = no_tick) -> Iterator[pa.Table]:
        if self.plan.count_only:
            yield self._counts(tick)
            return
        nothing = True
        for out in self._epochs(tick):
            # All shards share a watermark, so nothing that comes later is older.
            if out.results is not None and out.results.num_rows:
                nothing = False
                yield out.results
        if nothing:
            yield result_schema(self.plan).empty_table()

    def _counts(self, tick: Tick) -> pa.Table:
        counts = SecondCounts()
        for out in self._epochs(tick):
            if out.results is not None:
                second, count = (out.results.column(name).cast(pa.int64()).to_numpy() for name in ("second", "count"))
                counts.note(Emission(second, (), second, count, NO_LATE))
        return counts.table()

    def _epochs(self, tick: Tick) -> Iterator[EpochLog]:
        """The micro-batches in order: those kept from before, then new ones as they are done."""
        kept = epochs_kept(self._folder / "epochs")
        for number in range(kept):
            yield self._noted(number)
        if self._micro_batches is not None and kept < len(self._arrivals):
            for number in self._micro_batches(tick, lambda: self.interrupted):
                # The last one of an interrupted run may run a second time.
                if number >= kept:
                    yield self._noted(number)

    def _noted(self, number: int) -> EpochLog:
        out = read_epoch(self._folder / "epochs", number)
        self._reported |= {one.shards[0].place: one for one in out.shards}
        new = total(out.shards)
        if new is not None:
            self.resizes += new.resizes
            self._delayed = added([self._delayed, new.delays])
        for reported in out.latency:
            self._statistics.latency.add(reported)
        seen = self.observe()
        clock = max(seen.clocks)
        self._statistics.note_clocks([(clock, seen.slack)], seen.clocks)
        self._note_outlook(seen.outlook)
        if seen.memory is not None and number < len(self._arrivals) - 1:
            self._statistics.memory.note(seen.memory, clock, self._arrivals[number])
        for table in out.side_output:
            self.side_outputs.add_rows(table, SOURCE_ROW)
        self._seconds += out.seconds
        self._done = self._arrivals[number]
        self._looked_at()
        return out

    def known(self) -> QueryProgress:
        found = total(self._reported.values())
        delays, self._delayed = self._delayed, {}
        if found is None:
            asked, emit = str(self.plan.quality), self.plan.emit
            return QueryProgress(
                target=asked, emit=str(emit), amends=emit.amends, observed=self.observe(), delays=delays
            )
        return replace(found, observed=self.observe(), delays=delays, rejected={}, shards=())

    def wrong_clocks(self) -> tuple[WrongClock, ...]:
        # All shards hear the same headers.
        return next((one.wrong_clocks for one in self._reported.values() if one.wrong_clocks), ())

    @property
    def seconds(self) -> float:
        return self._seconds

    def observe(self) -> Observation:
        ahead = self.side_outputs.ahead()
        found = total(one.observed for one in self._reported.values())
        if found is None:
            nothing = nothing_observed(len(self.plan.inputs))
            return replace(nothing, slack=self._controller.slack, tuples=ahead, ahead=ahead)
        taken_in = ahead + found.in_time + found.late + found.filtered + found.held
        return replace(found, tuples=taken_in, ahead=ahead, ordering=None, waited=None)


SECONDS = b"seconds"
BY = ("_ts", "window_end", "second")
"""What results are in the order of: the first of these columns that they have, from the right."""


@dataclass(frozen=True)
class EpochLog:
    """The results of one micro-batch by time, rows that made none, and what the shards said of themselves."""

    results: pa.Table | None
    side_output: list[pa.Table]
    shards: list[QueryProgress]
    latency: list[dict[str, Any]]
    seconds: float


def write_epoch(folder: Path, number: int, lines: pa.Table, seconds: float) -> None:
    """Keep the lines of one micro-batch, and how long it took."""
    file = _file(folder, number)
    lines = lines.replace_schema_metadata({SECONDS: str(seconds).encode()})
    LocalStore(str(folder)).write(file.name, sealed(as_bytes(lines)))


def epochs_kept(folder: Path) -> int:
    """How many micro-batches, from the first on, have their file."""
    number = 0
    while _file(folder, number).exists():
        number += 1
    return number


def read_epoch(folder: Path, number: int) -> EpochLog:
    """What a micro-batch emitted."""
    file = _file(folder, number)
    lines = pa.ipc.open_stream(unsealed(file.read_bytes(), file)).read_all()
    return sorted_out(lines, float(lines.schema.metadata[SECONDS]))


def sorted_out(lines: pa.Table, seconds: float) -> EpochLog:
    """The lines of a micro-batch that took so long, by what they are."""
    by_kind: dict[str, list[Any]] = {kind: [] for kind in (ROWS, LATE, REJECTED, METRICS, LATENCY)}
    for kind, note, block in zip(*(lines.column(name) for name in ("kind", "note", "block")), strict=True):
        reported = block.as_buffer() if kind.as_py() in (ROWS, LATE, REJECTED) else json.loads(note.as_py())
        by_kind[kind.as_py()].append(reported)
    tables = {
        kind: [pa.ipc.open_stream(block).read_all() for block in by_kind[kind]] for kind in (ROWS, LATE, REJECTED)
    }
    results = by_time(tables[ROWS]) if tables[ROWS] else None
    shards = [QueryProgress.of_json(one) for one in by_kind[METRICS]]
    return EpochLog(results, tables[LATE] + tables[REJECTED], shards, by_kind[LATENCY], seconds)


def by_time(tables: list[pa.Table]) -> pa.Table:
    """The rows of all tables by their time."""
    together = pa.concat_tables(tables)
    by = next(name for name in reversed(together.column_names) if name in BY)
    times = together.column(by).cast(pa.int64()).to_numpy()
    if (times[1:] >= times[:-1]).all():
        return together
    return together.take(pa.array(np.argsort(times, kind="stable")))


def _file(folder: Path, number: int) -> Path:
    return folder / f"epoch-{number:08d}.arrow"
