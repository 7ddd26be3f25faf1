"""What is in force while tuples are emitted, for those who ask afterwards what results have waited for.

Invariant: nothing here decides anything, and nothing of it is state: a release that goes on after a restart is looked
at anew, from its next epoch on.
"""

from __future__ import annotations

from slackwater.core.time import AFTER_ALL, BEFORE_ALL
from slackwater.core.waiting import NOTHING_IN_FORCE, InForce
from slackwater.disorder.release.release import Release


class Watch:
    """Looks at a release before and after it emits a run."""

    def __init__(self, release: Release) -> None:
        self._release = release
        self._epochs, self._clock, self._watermark = 0, BEFORE_ALL, BEFORE_ALL
        self.last = NOTHING_IN_FORCE

    def begin(self, watermark: int) -> None:
        """Arrivals are about to come, and this is the watermark of the query."""
        self._epochs, self._clock, self._watermark = self._release.epochs, self._release.epoch_clock, watermark

    def look(self, watermark: int) -> None:
        """See what is in force for the run that was just emitted; what the end of the input emits waited for as much
        as the last before it."""
        release = self._release
        if watermark == AFTER_ALL:
            return
        in_epochs = release.spec.discipline == "epoch"
        clock = release.epoch_clock if in_epochs else max(release.clocks)
        lag = AFTER_ALL if watermark == BEFORE_ALL else clock - watermark
        if not in_epochs:
            self.last = InForce(release.slack, lag)
            return
        passed = max(1, release.epochs - self._epochs)
        # Before the first epoch there is no clock to measure it from: it took as long as anything waited for it.
        begun = BEFORE_ALL not in (self._clock, self._watermark)
        length = (clock - self._clock) // passed if begun else AFTER_ALL
        moved = (watermark - self._watermark) // passed if begun else AFTER_ALL
        # The watermark of a single stream is always its slack behind the clock.
        known = passed == 1 or release.spec.streams == 1
        self.last = InForce(release.slack, lag, length, moved, known)
        self.begin(watermark)
