"""The driver: everything a kernel emits is passed on once, side outputs get the rest, and only work is timed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from slackwater.core.batch import ROW, Batch
from slackwater.core.state import Emission
from slackwater.operators.pipeline import Epochs, Pipeline
from slackwater.plan.planner import plan
from slackwater.runtime.driver import Driver, with_results
from slackwater.runtime.kernels import kernel_for
from slackwater.runtime.side_outputs.collectors import BufferedSideOutput, RecordedSideOutput
from slackwater.sources.binding import bind_to_tables
from slackwater.sources.encode import AHEAD
from slackwater.sources.replay import Replay, replay

QUERY = "SELECT v FROM s WHERE v <> 3 WITH DELAY 20 MS OPTIONS (max_ahead = 1 SECOND)"
SIZE = 50


def stream() -> pa.Table:
    """In some disorder, with a few rows far ahead of all others and a few that name no time."""
    rng = np.random.default_rng(7)
    ts = np.arange(400) + rng.integers(-60, 1, 400)
    ts[[111, 222]] = 10_000_000
    return pa.table({"ts": pa.array(ts, mask=np.arange(400) % 97 == 5), "v": np.arange(400) % 7})


def recording() -> tuple[Pipeline, Replay, RecordedSideOutput]:
    table = stream()
    physical = plan(bind_to_tables(QUERY, {"s": table}, "ts").query)
    arrivals = replay(physical, {"s": table}, "ms")
    return kernel_for(physical, Epochs(), arrivals.codebook), arrivals, RecordedSideOutput(physical, arrivals)


def rows_of(batches: list[Batch]) -> list[int]:
    return sorted(row for batch in batches for row in batch.words[ROW].tolist())


def test_late_and_rejected_tuples_reach_the_side_output_as_often_as_they_are_counted() -> None:
    kernel, arrivals, side_output = recording()
    driver = Driver(kernel, side_output=side_output)
    late: list[int] = []
    for emission in driver.run(arrivals.batches(SIZE)):
        late += emission.late.row.tolist()
        # By the time an emission is passed on, its late tuples are there.
        assert side_output.late_rows(0).num_rows == len(late)
    seen = kernel.observe()
    assert len(late) == seen.late > 0
    assert side_output.watermarks(0)[0].tolist() == late
    assert side_output.ahead() == seen.ahead == 2
    assert np.flatnonzero(side_output.reasons(0) == AHEAD).tolist() == [111, 222]
    assert seen.tuples == seen.in_time + seen.late + seen.filtered + seen.ahead


def test_without_a_side_output_rejected_tuples_stay_with_the_kernel() -> None:
    kernel, arrivals, _ = recording()
    for _ in Driver(kernel).run(arrivals.batches(SIZE)):
        pass
    assert rows_of(kernel.take_ahead()) == [111, 222]


def test_what_another_process_tells_as_rows_is_what_is_collected_here() -> None:
    kernel, arrivals, here = recording()
    physical = here._plan
    there, buffer = RecordedSideOutput(physical, arrivals), BufferedSideOutput(physical, arrivals.codebook, most=None)
    for driver in (Driver(kernel, side_output=here), Driver(recording()[0], side_output=buffer)):
        for _ in driver.run(arrivals.batches(SIZE)):
            pass
    named = stream().append_column("number", pa.array(range(400)))
    here.add_unreadable(0, arrivals.inputs[0].reasons)
    buffer.add_unreadable("s", named, arrivals.inputs[0].reasons)
    kinds = []
    for kind, table in buffer.take_tables():
        kinds.append(kind)
        there.add_rows(table, "number")
    assert kinds == sorted(kinds)
    assert set(kinds) == {"late", "rejected"}
    assert there.late_rows(0).equals(here.late_rows(0))
    assert there.rejected_rows(0).equals(here.rejected_rows(0))
    assert there.unreadable() == here.unreadable() == {"null_time": 5}
    assert buffer.take_tables() == []


def test_an_input_that_goes_on_is_not_flushed() -> None:
    kernel, arrivals, _ = recording()
    driver = Driver(kernel)
    emissions = list(driver.run(arrivals.batches(SIZE), end=False))
    assert not any(emission.flushed for emission in emissions)
    assert kernel.observe().held > 0
    (last,) = with_results(driver.epoch(end=True))
    assert last.flushed
    assert kernel.observe().held == 0


def test_every_emission_and_every_epoch_is_told_of_once() -> None:
    kernel, arrivals, _ = recording()
    reported: list[Emission] = []
    epochs: list[int] = []
    driver = Driver(kernel, on_emission=reported.append, on_epoch=lambda: epochs.append(len(reported)))
    passed_on = list(driver.run(arrivals.batches(SIZE)))
    assert all(one is other for one, other in zip(reported, passed_on, strict=True))
    # One a batch, and one for the end.
    assert len(epochs) == -(-len(arrivals) // SIZE) + 1
    assert epochs[-1] == len(reported)


class Wall:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Slow(Pipeline):
    """A kernel whose every emission takes a second of a clock, and the end of an epoch two more."""

    wall: Wall
    arrival_time: list[float]

    def advance(self, end: bool = False) -> Iterator[Emission]:
        for emission in super().advance(end):
            self.wall.now += 1.0
            yield emission
        self.wall.now += 2.0

    def report_busy_time(self, seconds: float) -> None:
        self.arrival_time.append(seconds)


def test_what_the_consumer_takes_is_not_the_time_of_the_kernel() -> None:
    kernel, arrivals, _ = recording()
    wall, arrival_time = Wall(), list[float]()
    kernel.__class__ = Slow
    kernel.wall, kernel.arrival_time = wall, arrival_time  # type: ignore[attr-defined]
    driver = Driver(kernel, clock=wall)
    emissions = 0
    for _ in driver.epoch(*arrivals.batches(SIZE), since=-5.0):
        emissions += 1
        wall.now += 1000.0
    assert emissions > 0
    assert driver.seconds == 5.0 + emissions + 2.0
    assert arrival_time == [driver.seconds]
    # Without a clock nothing is measured, and the kernel hears of no time.
    silent = Driver(kernel)
    silent.discard(end=True)
    assert (silent.seconds, arrival_time) == (0.0, [driver.seconds])
