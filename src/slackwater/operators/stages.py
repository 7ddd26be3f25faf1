"""The stages behind a release, as a pipeline drives them: one operator, a graph of them, or an eager join.

A run leaves the release, passes the stages, and what reaches the last operator is processed. A single operator has no
stage of its own: the release has brought the streams into order. A graph has a synchronizer in front of every node, and
an eager join (Filter-Order) has one that passes tuples on before their turn.

Invariant: every raw tuple is in exactly one pair that `run_stage` yields, as in time or as late.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator

from slackwater.core.batch import Batch, Flags, Words
from slackwater.core.results import OrderingSeen
from slackwater.disorder.ordered_batch import OrderedBatch
from slackwater.disorder.release.release import Release

Tells = Callable[[Words, Words], Flags]
"""Of tuples, given by their streams and words, says which somebody tells of."""


class Stages(ABC):
    """The stages of a run from the release to the last operator."""

    @abstractmethod
    def run_stage(self, run: OrderedBatch) -> Iterator[tuple[OrderedBatch, OrderedBatch]]:
        """Pieces of a run for the last operator; and with each the raw tuples that are now known to be in time or late,
        which may be others."""

    @property
    @abstractmethod
    def watermark(self) -> int:
        """How far the last operator has come."""

    @property
    def reached(self) -> int:
        """How far it has come by its inputs; their end is not counted."""
        return self.watermark

    @property
    def heading(self) -> int:
        """How far the last operator will have come when all pieces of the run have passed; known with the first one."""
        return self.watermark

    @abstractmethod
    def pending(self, tells: Tells | None = None) -> int:
        """Raw tuples that wait between the release and an operator; those alone that somebody tells of."""

    def note_arrivals(self, batch: Batch) -> bool:
        """Called before arrivals are released; returns whether waiting tuples are to be processed before them."""
        return False

    def report_busy_time(self, seconds: float) -> None:  # noqa: B027 - most do not care
        """How long the work took since the last call."""

    @property
    def ordering(self) -> OrderingSeen | None:
        """How results are brought into order, where that is not always done in one way."""
        return None


class DirectStage(Stages):
    """A single operator behind a release that brings its streams into order."""

    def __init__(self, release: Release) -> None:
        self._release = release

    def run_stage(self, run: OrderedBatch) -> Iterator[tuple[OrderedBatch, OrderedBatch]]:
        yield run, run

    @property
    def watermark(self) -> int:
        return self._release.watermark

    @property
    def reached(self) -> int:
        return self._release.state.reached

    def pending(self, tells: Tells | None = None) -> int:
        return 0
