"""Slack controllers: who decides how long to wait.

Invariant: a controller sees measurements only and sets `slack` only; it never touches a tuple. The release loops read
`slack` at the start of a segment of arrivals and stop at `next_adaptation`, so a controller may be arbitrarily clever
without a cost per tuple.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from slackwater.core.batch import Words
from slackwater.core.outlook import Outlook
from slackwater.core.quality import Recall
from slackwater.core.time import AFTER_ALL, format_duration
from slackwater.core.trade_off import TradeOff
from slackwater.disorder.meters import Ledger, LedgerTerms, Measurable, QualityMeter, Report


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


class SlackController(ABC):
    """Chooses the slack K that all inputs of a query share (Same-K policy, 004 Theorem 4.1).

    What a controller does not say for itself is what one says that learns nothing and measures nothing.
    """

    slack: int
    """K in force, in microseconds."""
    follows_largest_delay: bool = False
    """True: the release loop itself raises K with every new largest delay."""
    next_adaptation: int
    """Event time at which `adapt` is due; AFTER_ALL for never."""
    learns: bool = False
    """Whether it wants to be shown every arrival."""

    def prime(self, slack: int) -> None:
        """Where nothing was learned yet, begin with this slack; a stated one is what it says."""
        if self.learns or self.follows_largest_delay:
            self.slack = max(self.slack, slack)

    @abstractmethod
    def adapt(self, measured: Measured) -> None:
        """Choose `slack` and `next_adaptation` anew."""

    @abstractmethod
    def describe(self) -> str:
        """One line for EXPLAIN and the report."""

    def learn(self, arrived: DelayObservations) -> None:  # noqa: B027 - most that do not learn have nothing to note
        """Note arrivals."""

    def as_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """What it has learned, to go on from elsewhere."""
        return {}

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:  # noqa: B027 - nothing was learned
        """Take over what another one, made with the same arguments, has learned."""

    def meters(self, query: Measurable, automatic_retention: bool, max_behind: int) -> tuple[QualityMeter, ...]:
        """The meters that are given what the query does. Called once, before the first tuple.

        `automatic_retention`: nobody has stated how long tuples are kept to find out what late ones cost. A tuple
        further behind its clock than `max_behind` teaches nothing.
        """
        return ()

    def join_shards(self, taught: bool) -> bool:
        """From now on choose slack by what all shards of the query report, this one among them; whether it can. Called
        once, after `meters`; `taught` says that it is shown the arrivals of all shards anyway."""
        return False

    def report(self, measured: Measured) -> Report:
        """What has been observed here since the last call of `hear`, now that an epoch has ended."""
        return {}

    def hear(self, reports: Sequence[Report]) -> None:  # noqa: B027 - most that do not learn have nothing to hear
        """Take in what all shards have observed in the last epoch."""

    def outlook(self) -> Outlook | None:
        """Whether the target can be met, where slack may not grow for ever; None where there is no such limit."""
        return None

    def trade_off(self) -> TradeOff | None:
        """The slack that other targets would ask for; None where it is not known, or nothing is asked of it."""
        return None


class KeepsLedger(SlackController):
    """A controller for a recall target: a ledger is kept beside it, whether it looks into it or not."""

    target: Recall
    ledger: Ledger | None
    retention: int
    interval: int
    memory: int
    """How far back it looks."""

    def meters(self, query: Measurable, automatic_retention: bool, max_behind: int) -> tuple[QualityMeter, ...]:
        outlook = self.outlook()
        far = None if outlook is None else (outlook.cap, max_behind)
        terms = LedgerTerms(self.target, self.retention, self.interval, self.memory, automatic_retention, far)
        ledger = query.ledger_for(terms)
        if ledger is None:
            return ()
        self.ledger = ledger
        return (ledger,)


class FixedSlack(SlackController):
    """K never changes. With 0 this is No-K-slack: only the slowest stream is waited for.

    >>> FixedSlack(2_000_000).describe()
    'fixed slack of 2 s'
    """

    def __init__(self, slack: int) -> None:
        self.slack = slack
        self.next_adaptation = AFTER_ALL

    def adapt(self, measured: Measured) -> None:
        self.next_adaptation = AFTER_ALL

    def describe(self) -> str:
        if self.slack == 0:
            return "no slack (No-K-slack); the slowest stream is still waited for"
        return f"fixed slack of {format_duration(self.slack)}"


class LargestDelay(SlackController):
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
