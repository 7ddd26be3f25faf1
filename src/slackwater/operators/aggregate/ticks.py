"""When rows of open windows are due: each time the largest clock has passed a multiple of a period.

Invariant: a run is cut where a row is due, behind the tuple that has moved the clock there; where clocks move in
epochs, behind the last tuple of the epoch. So the rows are of exactly those tuples that had arrived.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from slackwater.core.batch import Words
from slackwater.core.state import StateUpdate, decode_json, encode_json, state_update
from slackwater.disorder.ordered_batch import OrderedBatch
from slackwater.disorder.release.release import Release
from slackwater.operators.output import Output

TICKS = "ticks"


@dataclass(frozen=True)
class Piece:
    """A piece of a run, and whether rows of open windows are due at its end."""

    run: OrderedBatch
    whole: OrderedBatch
    begin: int
    is_due: bool

    @property
    def clock(self) -> int:
        """Where the largest clock stands at its end."""
        end = self.begin + len(self.run)
        return self.whole.max_ts if end == len(self.whole) else int(self.whole.clock[end - 1])

    def in_run(self, made: Output) -> Output:
        """What was made of the piece, as what was made of the whole run. A window closes where the watermark has passed
        its end, which the tuple before has moved there."""
        by = made.by + self.begin
        return self._at(made, by, np.where(by < len(self.whole), np.maximum(by - made.at_watermark, 0), by))

    def at_its_end(self, made: Output) -> Output:
        """The same of what leaves with the last tuple of the piece."""
        end = self.begin + len(self.run)
        by = np.full(len(made.ts), end if end == len(self.whole) else end - 1)
        return self._at(made, by, by)

    def _at(self, made: Output, by: Words, place: Words) -> Output:
        """Lines that leave with the tuples at these places."""
        clock, emit_time = (
            np.append(self.whole.clock, self.whole.max_ts),
            np.append(self.whole.emit_time, self.whole.now),
        )
        return replace(made, by=by, clock=clock[place], emit_time=emit_time[place])


class Ticks:
    """The multiples of a period that the largest clock passes."""

    def __init__(self, every: int) -> None:
        self._every = every
        self._passed: int | None = None
        """The number of the last one."""
        self._each_tuple = False

    def follow(self, release: Release) -> None:
        """The clock is that of this release."""
        self._each_tuple = release.spec.discipline == "tuple"

    def pieces(self, run: OrderedBatch) -> Iterator[Piece]:
        """A run, cut where rows are due. Nothing is due where the input has ended."""
        places, reached, begin = [], self._passed, 0
        if len(run):
            first = run.ts[0] // self._every if self._passed is None else self._passed
            number = np.maximum.accumulate(np.append(first, run.clock // self._every))
            moves = np.flatnonzero(np.diff(number))
            ends = moves + 1 if self._each_tuple else np.searchsorted(number[1:], number[moves + 1], "right")
            places, reached = ends.tolist(), int(number[-1])
        for end in places:
            if end < len(run):
                until = replace(run, watermark=int(run.watermark_at_arrival[end]), ended=False)
                yield Piece(_part(until, begin, end), run, begin, True)
                begin = end
        self._passed = max(reached, run.max_ts // self._every) if reached is not None else None
        is_due = len(run) in places or self._passed != reached
        yield Piece(_part(run, begin, len(run)), run, begin, is_due and not run.ended)

    def snapshot_delta(self) -> list[StateUpdate]:
        """What to persist."""
        return [state_update(TICKS, "", encode_json({"passed": self._passed}))]

    def restore(self, entries: list[StateUpdate]) -> None:
        """Take over persisted state."""
        for entry in entries:
            if entry.value is not None:
                self._passed = decode_json(entry.value)["passed"]


def _part(run: OrderedBatch, begin: int, end: int) -> OrderedBatch:
    """Some tuples of a run."""
    return replace(run, tuples=run.tuples.take(slice(begin, end)))
