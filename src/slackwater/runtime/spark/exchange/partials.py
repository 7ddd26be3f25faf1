"""Aggregates that travel as partial results: which tuples of a block do, and how a shard gets at the tuples after all.

A task that reads files knows neither the watermark nor the clock by which a shard judges the tuples; both are known
once all headers are there. So it guesses: tuples behind the watermark after the last cut stay tuples, and so do those
far ahead of the others. The rest becomes partials (`operators/aggregate/pane_partials.py`). A shard that finds one of
these to be late or too far ahead reads the file again.

Invariant: what a shard makes of partials is what it would have made of their tuples. A guess costs time if it is wrong,
and nothing else.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from slackwater.core.batch import Flags, Words
from slackwater.core.quality import Complete, Delay, NoWait
from slackwater.disorder.release.state import NO_PARTITION
from slackwater.operators.aggregate.operator import WindowAggregate
from slackwater.plan.physical import PhysicalPlan

SAMPLE = 1024
"""Tuples by which the usual event times of a block are guessed."""


class Origin(NamedTuple):
    """Where the rows of a block are from, so that they can be read again."""

    files: tuple[str, ...]
    part: int
    parts: int
    table: int
    """The number of the table, of those that the part is read in."""


class PartialsHeader(NamedTuple):
    """What a header tells of the partials that come with it."""

    within: Within
    origin: Origin

    @staticmethod
    def of_json(found: Any) -> PartialsHeader:
        """As it was before it became JSON."""
        within, (files, *place) = found
        return PartialsHeader(Within(*within), Origin(tuple(files), *place))


class Within(NamedTuple):
    """The event times that partials of a block are made of, the first and the last."""

    first: int
    last: int

    def has(self, ts: Words) -> Flags:
        """Which tuples these are."""
        return (ts >= self.first) & (ts <= self.last)


def aggregate_of(plan: PhysicalPlan) -> WindowAggregate | None:
    """The operator of a plan, where it can do with partials: nobody learns from its tuples, and all share one clock."""
    operator = plan.operator.pane_partials
    if operator is None:
        return None
    fixed = isinstance(plan.quality, Delay | NoWait | Complete)
    return operator if fixed and plan.inputs[0].partition_slot == NO_PARTITION else None


def guessed(ts: Words, watermark: int, max_ahead: int) -> Within | None:
    """Event times that are likely to be in time and admitted; None where there are none."""
    if not len(ts):
        return None
    sample = np.sort(ts[:: max(1, len(ts) // SAMPLE)])
    # Up to `max_ahead` is admitted, from a clock that the others agree on.
    usual = int(sample[len(sample) * 99 // 100]) + max_ahead
    first, last = int(ts.min()), int(ts.max())
    if first < watermark or last > usual:
        likely = ts[(ts >= watermark) & (ts <= usual)]
        if not len(likely):
            return None
        first, last = int(likely.min()), int(likely.max())
    return Within(first, last)
