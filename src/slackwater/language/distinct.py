"""SELECT DISTINCT: rows of one stream or sub-query, without those that repeat one within a window.

A row is emitted, at its own event time, unless a row with equal selected columns has been emitted at most the window
before it, both ends included. It is what has been emitted that counts, and not what has come: of a row that comes every
second, [RANGE 5 SECONDS] gives every sixth. Event times decide, not arrival. Nulls are equal to each other, and so are
NaNs; -0.0 is 0.0.

Planner and judge know the query, and need no parser for it; `kinds` says what does not go with it.
"""

from __future__ import annotations

from dataclasses import dataclass

from slackwater.core.emitting import ONCE, Emit
from slackwater.core.options import Options
from slackwater.core.quality import Quality
from slackwater.core.results import AS_MADE, Out
from slackwater.language.bound import Output, RowsQuery, StreamRef


@dataclass(frozen=True)
class DistinctQuery(RowsQuery):
    """The rows of one stream, unless an equal one has been emitted within its window before."""

    streams: tuple[StreamRef, ...]
    """The one entry of FROM."""
    outputs: tuple[Output, ...]
    """What is compared, and given."""
    quality: Quality
    options: Options
    out: Out = AS_MADE
    emit: Emit = ONCE
