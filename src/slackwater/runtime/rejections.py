"""What a run has to say about rows that it rejected, besides counting them.

Invariant: a stream is spoken of once, under the name of its source, as soon as what is to be said is known.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from slackwater.observe.rejections import FEW, rejection_warning
from slackwater.plan.physical import PhysicalPlan
from slackwater.runtime.aside import rejected_input_table
from slackwater.runtime.recorded import SideOutputs
from slackwater.sources.encode import GOOD, REASONS, Reasons
from slackwater.sources.replay import Replay


def rejected_at_first(plan: PhysicalPlan, replay: Replay) -> list[str]:
    """Of rows that cannot move a clock, which is known before a run begins."""
    return _reported(plan, replay, (one.reasons for one in replay.inputs))


def rejected_rows(plan: PhysicalPlan, replay: Replay, side_outputs: SideOutputs) -> list[str]:
    """Of all rows, at the end of a run: those that were ahead of all evidence as well."""
    return _reported(plan, replay, (side_outputs.reasons(position) for position in range(len(plan.inputs))))


def _reported(plan: PhysicalPlan, replay: Replay, reasons: Iterable[Reasons]) -> list[str]:
    reported: dict[str, str] = {}
    for one, table, why in zip(plan.inputs, replay.tables, reasons, strict=True):
        source = one.stream.source
        if source not in reported and (why != GOOD).any():
            arguments = source, len(why), _counts(why)
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
        self._counts: dict[str, dict[str, int]] = {source: {} for source in self._times}
        self._reported: set[str] = set()

    def note(self, source: str, table: pa.Table, reasons: Reasons) -> None:
        """Some rows of a stream have come, and these are the reasons why they cannot be taken in."""
        counts = self._counts[source]
        self._rows[source] += len(reasons)
        for reason, count in _counts(reasons).items():
            counts[reason] = counts.get(reason, 0) + count
        if source in self._reported or self._rows[source] < FEW or not (reasons != GOOD).any():
            return
        text = rejection_warning(source, self._rows[source], counts, _example(table, reasons), self._times[source])
        if text is not None:
            self._reported.add(source)
            warnings.warn(text, stacklevel=4)


def _counts(reasons: Reasons) -> dict[str, int]:
    codes, counts = np.unique(reasons[reasons != GOOD], return_counts=True)
    return {REASONS[code]: count for code, count in zip(codes.tolist(), counts.tolist(), strict=True)}


def _example(table: pa.Table, reasons: Reasons) -> str:
    """The first of the rows that are rejected for the most frequent reason, as JSON."""
    code = int(np.argmax(np.bincount(reasons[reasons != GOOD])))
    row = int(np.flatnonzero(reasons == code)[0])
    return str(rejected_input_table("", table.slice(row, 1), reasons[row : row + 1]).column("row")[0].as_py())
