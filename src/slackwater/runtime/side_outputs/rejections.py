"""Rejected rows counted by stream and reason, and one sentence when most rows of a stream are among them.

Invariant: every runtime says it in these words, and says nothing where rejections are the exception they are meant to
be. A stream is spoken of once, under the name of its source, as soon as what is to be said is known.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa

from slackwater.plan.physical import PhysicalPlan
from slackwater.runtime.side_outputs.collectors import RecordedSideOutput, rejected_input_table
from slackwater.sources.encode import GOOD, IN_HISTORY, REASONS, Reasons
from slackwater.sources.replay import Replay

FEW = 10
"""Of fewer rows, nothing is said while more may come."""
SHOWN = 200
"""Characters of a row that are shown."""
_TIMES = frozenset(("null_time", "nan_time", "unparsable_time"))


class RejectionCounts:
    """How many rows of every stream were rejected, by reason.

    >>> counts = RejectionCounts(("a", "b"))
    >>> counts.add("a", {"null_time": 2}); counts.add("b", {"null_time": 1, "ahead": 3})
    >>> counts.by_reason(), counts.total
    ({'null_time': 3, 'ahead': 3}, 6)
    """

    def __init__(self, streams: Iterable[str]) -> None:
        self.by_stream: dict[str, dict[str, int]] = {stream: {} for stream in streams}

    def add(self, stream: str, counts: Mapping[str, int]) -> None:
        mine = self.by_stream[stream]
        for reason, count in counts.items():
            if count:
                mine[reason] = mine.get(reason, 0) + count

    def by_reason(self) -> dict[str, int]:
        together: dict[str, int] = {}
        for reason, count in (one for counts in self.by_stream.values() for one in counts.items()):
            together[reason] = together.get(reason, 0) + count
        return together

    @property
    def total(self) -> int:
        return sum(self.by_reason().values())


def counts_by_reason(reasons: Reasons) -> dict[str, int]:
    """How many rows of a table were rejected, given the reason of every row."""
    codes, counts = np.unique(reasons[reasons != GOOD], return_counts=True)
    return {REASONS[code]: count for code, count in zip(codes.tolist(), counts.tolist(), strict=True)}


def rejection_warning(
    stream: str, rows: int, rejected: Mapping[str, int], example: str | None, time: str | None = None
) -> str | None:
    """The sentence for a stream with so many rows, of which so many were rejected by reason; None where few were.

    `example` is one of the rejected rows, `time` the event-time column.

    >>> print(rejection_warning("s", 4375, {"null_time": 4375}, '{"at": 5}', "ts"))
    4,375 of 4,375 rows of stream s were rejected: null_time, for example {"at": 5}; is 'ts' the event-time column?
    >>> rejection_warning("clicks", 4375, {"null_time": 12}, None)
    """
    # What is read a second time is nothing to warn of.
    rejected = {reason: n for reason, n in rejected.items() if reason != REASONS[IN_HISTORY]}
    count = sum(rejected.values())
    # Wrong clocks are always fewer than right ones, so of those less is enough to speak of.
    if not count or (2 * count < rows and 100 * rejected.get("ahead", 0) < rows):
        return None
    by_count = sorted(((n, reason) for reason, n in rejected.items() if n), key=lambda one: (-one[0], one[1]))
    reasons = ", ".join(reason if len(by_count) == 1 else f"{reason} {n:,}" for n, reason in by_count)
    text = f"{count:,} of {rows:,} rows of stream {stream} were rejected: {reasons}"
    if example is not None:
        text += f", for example {example if len(example) <= SHOWN else example[:SHOWN] + ' ...'}"
    return f"{text}; {_remedy(by_count[0][1], time)}"


def _remedy(reason: str, time: str | None) -> str:
    named = "the event-time column" if time is None else f"'{time}'"
    if reason in _TIMES:
        return f"is {named} the event-time column?" if time is not None else "is it the right event-time column?"
    if reason == "time_out_of_range":
        return f"is the unit of {named} the right one?"
    if reason == "ahead":
        return "they are ahead of their stream by more than option max_ahead allows, and the others did not come along"
    if reason == "unparsable":
        return "do the messages have the format and the schema that were stated?"
    return "they hold numbers that 64 bits cannot"


def rejected_at_first(plan: PhysicalPlan, replay: Replay) -> list[str]:
    """Of rows that cannot move a clock, which is known before a run begins."""
    return _reported(plan, replay, (one.reasons for one in replay.inputs))


def rejected_rows(plan: PhysicalPlan, replay: Replay, side_outputs: RecordedSideOutput) -> list[str]:
    """Of all rows, at the end of a run: those that were ahead of all evidence as well."""
    return _reported(plan, replay, (side_outputs.reasons(position) for position in range(len(plan.inputs))))


def _reported(plan: PhysicalPlan, replay: Replay, reasons: Iterable[Reasons]) -> list[str]:
    reported: dict[str, str] = {}
    for one, table, why in zip(plan.inputs, replay.tables, reasons, strict=True):
        source = one.stream.source
        if source not in reported and (why != GOOD).any():
            arguments = source, len(why), counts_by_reason(why)
            # An example costs more than the counts, and is seldom wanted.
            if rejection_warning(*arguments, None) is not None:
                text = rejection_warning(*arguments, _example(table, why), one.stream.schema.time)
                reported[source] = text or ""
    return list(reported.values())


class RejectedRows:
    """Rows rejected while streams come in pieces; says so once a stream, when enough have come to tell."""

    def __init__(self, plan: PhysicalPlan) -> None:
        self._times = {one.stream.source: one.stream.schema.time for one in plan.inputs}
        self._rows = dict.fromkeys(self._times, 0)
        self._counts = RejectionCounts(self._times)
        self._reported: set[str] = set()

    def note(self, source: str, table: pa.Table, reasons: Reasons) -> None:
        """Some rows of a stream have come, and these are the reasons why they cannot be taken in."""
        self._rows[source] += len(reasons)
        self._counts.add(source, counts_by_reason(reasons))
        if source in self._reported or self._rows[source] < FEW or not (reasons != GOOD).any():
            return
        counts, example = self._counts.by_stream[source], _example(table, reasons)
        text = rejection_warning(source, self._rows[source], counts, example, self._times[source])
        if text is not None:
            self._reported.add(source)
            warnings.warn(text, stacklevel=4)


def _example(table: pa.Table, reasons: Reasons) -> str:
    """The first of the rows that are rejected for the most frequent reason, as JSON."""
    code = int(np.argmax(np.bincount(reasons[reasons != GOOD])))
    row = int(np.flatnonzero(reasons == code)[0])
    return str(rejected_input_table("", table.slice(row, 1), reasons[row : row + 1]).column("row")[0].as_py())
