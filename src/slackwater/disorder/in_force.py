"""What is in force while tuples are let out, for those who ask afterwards what results have waited for.

Invariant: nothing here decides anything, and nothing of it is state: a release that goes on after a restart is looked
at anew, from its next epoch on.
"""

from __future__ import annotations

from slackwater.disorder.release import Release
from slackwater.model.time import AFTER_ALL, BEFORE_ALL
from slackwater.model.waiting import NOTHING_IN_FORCE, InForce


class Watch:
    """Looks at a release before and after it lets a run out."""

    def __init__(self, release: Release) -> None:
        self._release = release
        self._epochs, self._clock, self._frontier = 0, BEFORE_ALL, BEFORE_ALL
        self.last = NOTHING_IN_FORCE

    def begin(self, frontier: int) -> None:
        """Arrivals are about to come, and this is the frontier of the query."""
        self._epochs, self._clock, self._frontier = self._release.epochs, self._release.epoch_clock, frontier

    def look(self, frontier: int) -> None:
        """See what is in force for the run that was just let out; what the end of the input lets out waited for as much
        as the last before it."""
        release = self._release
        if frontier == AFTER_ALL:
            return
        in_epochs = release.spec.discipline == "epoch"
        clock = release.epoch_clock if in_epochs else max(release.clocks)
        lag = AFTER_ALL if frontier == BEFORE_ALL else clock - frontier
        if not in_epochs:
            self.last = InForce(release.slack, lag)
            return
        passed = max(1, release.epochs - self._epochs)
        # Before the first epoch there is no clock to measure it from: it took as long as anything waited for it.
        begun = BEFORE_ALL not in (self._clock, self._frontier)
        length = (clock - self._clock) // passed if begun else AFTER_ALL
        moved = (frontier - self._frontier) // passed if begun else AFTER_ALL
        # The frontier of a single stream is always its slack behind the clock.
        known = passed == 1 or release.spec.streams == 1
        self.last = InForce(release.slack, lag, length, moved, known)
        self.begin(frontier)
