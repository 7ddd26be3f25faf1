"""Quality meters: they are given what a query emits and what comes late, and report how good its answers are.

A controller asks the query it serves for what it needs to measure (`Measurable`), and gives the pipeline the meters
that are to be told. What a query cannot offer is None, and then nothing is measured.

Invariant: a meter hears of every run once, after all that was emitted for it; it changes nothing that is emitted.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from slackwater.core.batch import Floats, Words
from slackwater.core.measured import MeasuredQuality
from slackwater.core.quality import Recall
from slackwater.core.schema import Kind
from slackwater.disorder.ordered_batch import OrderedBatch

MOST_BUCKETS = 4096
"""A ledger tells about so many buckets of time apart."""
SPARE_BUCKETS = 64


class QualityMeter:
    """Hears what is emitted, and of the tuples it was made of. Most meters need only some of this."""

    def emitted(self, ts: Words, weight: Words | None, by: Words) -> None:
        """Lines that leave: their timestamps, how many results each stands for (None: one), and the place in the run
        of the tuple that caused each."""

    def amended(self, ts: Words, watermark: Words) -> None:
        """Results that were lost and leave as corrections: their timestamps, and the watermark each met."""

    def processed(self, run: OrderedBatch, raw: OrderedBatch) -> None:
        """A run that the operator has processed, and the raw tuples that turned out in time or late with it."""

    def measured(self) -> MeasuredQuality | None:
        """How good the answers were so far; None where it is not for this meter to say."""
        return None

    def as_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """What to persist of it beside the controller."""
        return {}

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]], same_target: bool = True) -> None:
        """The inverse of `as_arrays`, which may be of another target."""

    def begin_at(self, watermark: int, clock: int) -> None:
        """Begin in the middle of a run, in which nobody has looked so far; `clock` is the largest of all streams."""

    hears_history = False
    """Whether it hears of rows of a history too, because later tuples are joined with them."""

    def pass_over(self) -> None:
        """What an operator has noted for it of rows of a history counts for nothing."""

    def begin_behind_history(self, watermark: int, clock: int) -> None:
        """The history is over: from here on it measures."""
        self.begin_at(watermark, clock)


Report = Mapping[str, npt.NDArray[Any]]
"""What one shard has observed in a micro-batch, for the others."""


class Ledger(QualityMeter, ABC):
    """Results made and results lost, by their timestamps."""

    @abstractmethod
    def between(self, edges: Words) -> tuple[Floats, Floats]:
        """Made and lost between each edge and the next."""

    @abstractmethod
    def false_between(self, edges: Words) -> Floats:
        """Rows that left and turned out not to be true, likewise."""

    @abstractmethod
    def lost_to_far(self) -> tuple[float, float] | None:
        """All results so far, and those of them lost to tuples that no slack allowed would have kept in time; None
        where curves are made of results, not of tuples."""

    def ages(self) -> tuple[float, float] | None:
        """By how much members of results are older than these, summed up, and how many; None where windows tell."""
        return None

    @abstractmethod
    def of_all_shards(self) -> SharedLedger:
        """That of all shards, where this is the ledger of one."""


class SharedLedger(Ledger):
    """The ledgers of all shards of a query, added up: it hears what all of them report."""

    @abstractmethod
    def report(self) -> Report:
        """What this shard has noted since the last reports were heard."""

    @abstractmethod
    def hear(self, reports: Sequence[Report]) -> None:
        """Add up what all shards have noted."""


@dataclass(frozen=True)
class LedgerTerms:
    """What a ledger is kept for: a target, how long tuples are retained for it, how finely and how far back."""

    target: Recall
    retention: int
    interval: int
    memory: int
    automatic: bool = False
    """Whether the retention is not stated, and may be longer."""
    far: tuple[int, int] | None = None
    """Delays of tuples whose worth is summed up by itself: more than the first, up to the second."""

    def buckets(self, windows: Sequence[int]) -> tuple[int, int]:
        """How much event time a bucket of a join with these windows has, and how many buckets there are.

        >>> LedgerTerms(Recall(0.9, 20), retention=1000, interval=1, memory=100).buckets((5, 5))
        (1, 4096)
        """
        span = self.memory + 2 * self.retention + 2 * max(windows)
        width = max(self.interval, span // MOST_BUCKETS)
        return width, max(MOST_BUCKETS, 1 << (span // width + SPARE_BUCKETS).bit_length())


@dataclass(frozen=True)
class Asked:
    """One aggregate: function, row of its argument (-1 for none), whether that is a float, the p of QUANTILE."""

    function: str
    row: int = -1
    is_float: bool = False
    parameter: float | None = None
    kind: Kind | None = field(default=None, repr=False)
    """Of the argument, where that is known."""


@dataclass(frozen=True)
class Watched:
    """The windows, group keys (rows) and aggregates of a query."""

    range: int
    slide: int
    keys: tuple[int, ...]
    aggregates: tuple[Asked, ...]


class AnswerLog:
    """What an operator notes of every answer that it emits, until its meter takes it."""

    def __init__(self, bound: float) -> None:
        self.bound = bound
        """The error that answers may have."""
        self._noted: list[tuple[Words, Words, Floats]] = []

    def note(self, windows: Words, keys: Words, summaries: Floats) -> None:
        """Answers: the numbers of their windows, and a line each of the keys and of what is to be known of it."""
        self._noted.append((windows, keys, summaries))

    def take(self) -> list[tuple[Words, Words, Floats]]:
        """What was noted since the last call."""
        noted, self._noted = self._noted, []
        return noted


class Scaling:
    """How an operator scales the answers of windows that close now, as the controller of its query has learned.

    The truth by the estimate lies between `low` and `high` times its spread beside 1; the spread is a part that grows
    less with the tuples that an answer is made of, and a part that does not.
    """

    def __init__(self, aggregates: int) -> None:
        self.factor = 1.0
        """What a count or a sum is multiplied by."""
        self.terms = np.full((aggregates, 4), np.nan)
        """By aggregate: both ends of the interval, in spreads, and the parts of the squared spread; NaN: unknown."""

    def interval(self, aggregate: int, tuples: Words) -> tuple[Floats, Floats, bool]:
        """By line: between what the truth lies, in estimates; and whether that is known."""
        return interval(self.terms[aggregate], tuples)


def interval(terms: Floats, tuples: npt.NDArray[Any]) -> tuple[Floats, Floats, bool]:
    """The same by the terms of one aggregate.

    >>> low, high, known = interval(np.array([-2.0, 2.0, 1.0, 0.0]), np.array([400]))
    >>> low.tolist(), high.tolist(), known
    ([0.9], [1.1], True)
    """
    low, high, falling, lasting = terms.tolist()
    spread = np.sqrt(falling / np.maximum(tuples, 1) + lasting)
    return 1.0 + low * spread, 1.0 + high * spread, low == low


class Measurable(Protocol):
    """What a controller may ask of the operator of its query."""

    def ledger_for(self, terms: LedgerTerms) -> Ledger | None:
        """A ledger that the operator keeps what it needs for; None where it makes no results that could be counted."""

    @property
    def watched(self) -> Watched | None:
        """The windows and aggregates that have an error; None where there are none, or not on raw tuples."""

    def answers_for(self, bound: float) -> AnswerLog | None:
        """A log of the answers that sums do not tell of, for a bound on their error; None where there are none."""

    @property
    def scaling(self) -> Scaling | None:
        """How its answers are scaled; None where they have no estimates beside them."""

    @property
    def several_nodes(self) -> bool:
        """Whether windows and results are spread over several operators."""
