"""What stands behind a release, as a pipeline drives it: one operator, a graph of them, or an eager join.

A run leaves the release, passes the stages, and what reaches the last operator is processed. A single operator has no
stage of its own: the release has brought the streams into order. A graph has a synchronizer in front of every node, and
an eager join (Filter-Order) one that lets tuples enter before their turn.

Invariant: a raw tuple turns out in time or late in exactly one pair that `run_stage` gives.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

from slackwater.core.batch import Batch
from slackwater.core.results import OrderingSeen
from slackwater.disorder.ordered_batch import OrderedBatch
from slackwater.disorder.release.release import Release


class Stages(ABC):
    """The way of a run from the release to the last operator."""

    @abstractmethod
    def run_stage(self, run: OrderedBatch) -> Iterator[tuple[OrderedBatch, OrderedBatch]]:
        """Pieces of a run as the last operator is to process them; and for each the raw tuples that have turned out in
        time or late with it, which may be others."""

    @property
    @abstractmethod
    def watermark(self) -> int:
        """How far the last operator has come."""

    @property
    @abstractmethod
    def pending(self) -> int:
        """Raw tuples that wait between the release and an operator."""

    def note_arrivals(self, batch: Batch) -> bool:
        """Arrivals are about to be released; whether something that waits is to be processed before them."""
        return False

    def report_busy_time(self, seconds: float) -> None:  # noqa: B027 - most do not care
        """What the work took since the last time."""

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
    def pending(self) -> int:
        return 0
