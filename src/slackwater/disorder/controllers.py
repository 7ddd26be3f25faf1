"""Slack controllers: who decides how long to wait.

Invariant: a controller sees measurements only and sets `slack` only; it never touches a tuple. The release loops read
`slack` at the start of a stretch of arrivals and stop at `next_adaptation`, so a controller may be arbitrarily clever
without a cost per tuple.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy.typing as npt

from slackwater.disorder.ordered_batch import OrderedBatch
from slackwater.model.batch import Floats, Words
from slackwater.model.measured import MeasuredQuality
from slackwater.model.outlook import Outlook
from slackwater.model.quality import Recall
from slackwater.model.time import AFTER_ALL, format_duration


@dataclass(frozen=True)
class Measured:
    """What a controller may look at when it adapts."""

    clocks: tuple[int, ...]
    largest_delay: int
    slack: int


@dataclass(frozen=True)
class DelayObservations:
    """Tuples that passed their filters, in arrival order."""

    stream: Words
    words: Words
    behind: Words
    """How far each was behind its stream's clock when the epoch began: its delay, as the documents have it."""
    needed: Words
    """How far each was behind the slowest stream's clock then: the slack that would have kept it in time."""


class SlackController(Protocol):
    """Chooses the slack K that all inputs of a query share (Same-K policy, 004 Theorem 4.1)."""

    slack: int
    """K in force, in microseconds."""
    follows_largest_delay: bool
    """True: the release loop itself raises K with every new largest delay."""
    next_adaptation: int
    """Event time at which `adapt` is due; AFTER_ALL for never."""

    learns: bool
    """Whether it wants to be shown every arrival."""

    def learn(self, arrived: DelayObservations) -> None:
        """Note arrivals."""

    def as_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """What it has learned, to go on from elsewhere."""

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take over what another one, made with the same arguments, has learned."""

    def adapt(self, measured: Measured) -> None:
        """Choose `slack` and `next_adaptation` anew."""

    def describe(self) -> str:
        """One line for EXPLAIN and the report."""


class Ledger(Protocol):
    """Results made and results lost, by their timestamps."""

    def between(self, edges: Words) -> tuple[Floats, Floats]:
        """Made and lost between each edge and the next."""

    def lost_to_far(self) -> tuple[float, float] | None:
        """All results so far, and those of them lost to tuples that no slack allowed would have kept in time; None
        where curves are made of results, not of tuples."""


@runtime_checkable
class Measuring(Protocol):
    """A controller that can itself tell how good the answers were, given every run that the operator processes."""

    def observe_batch(self, run: OrderedBatch) -> None: ...
    def measured(self) -> MeasuredQuality: ...


@runtime_checkable
class LedgerReader(Protocol):
    """A controller for a recall target: a ledger is kept beside it, whether it looks into them or not."""

    target: Recall
    ledger: Ledger | None
    retention: int
    interval: int
    memory: int
    """How far back it looks."""


@runtime_checkable
class Foreseeing(Protocol):
    """A controller that may not wait for ever, and knows whether its target can be met nevertheless."""

    def outlook(self) -> Outlook: ...


class StaticController:
    """What controllers have in common that look at no tuple."""

    learns = False

    def learn(self, arrived: DelayObservations) -> None:
        """Nothing to note."""

    def as_arrays(self) -> dict[str, npt.NDArray[Any]]:
        return {}

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Nothing was learned."""


class FixedSlack(StaticController):
    """K never changes. With 0 this is No-K-slack: only the slowest stream is waited for.

    >>> FixedSlack(2_000_000).describe()
    'fixed slack of 2 s'
    """

    follows_largest_delay = False

    def __init__(self, slack: int) -> None:
        self.slack = slack
        self.next_adaptation = AFTER_ALL

    def adapt(self, measured: Measured) -> None:
        self.next_adaptation = AFTER_ALL

    def describe(self) -> str:
        if self.slack == 0:
            return "no slack (No-K-slack); the slowest stream is still waited for"
        return f"fixed slack of {format_duration(self.slack)}"


class LargestDelay(StaticController):
    """K is the largest delay seen so far (Max-K-slack).

    A tuple that sets a new largest delay is itself late: its delay is only known once it is here.

    References: [MP13a] in 004 §3.2.1; 003 §VI, baseline Max-K-slack.
    """

    follows_largest_delay = True

    def __init__(self, initial: int = 0) -> None:
        self.slack = initial
        self.next_adaptation = AFTER_ALL

    def adapt(self, measured: Measured) -> None:
        self.slack = max(self.slack, measured.largest_delay)

    def describe(self) -> str:
        return (
            "slack follows the largest delay seen (Max-K-slack); a tuple that sets a new largest delay is itself late"
        )
