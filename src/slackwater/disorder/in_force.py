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
        self._epochs, self._clock = 0, BEFORE_ALL
        self.last = NOTHING_IN_FORCE

    def begin(self) -> None:
        """Arrivals are about to come."""
        self._epochs, self._clock = self._release.epochs, self._release.epoch_clock

    def look(self) -> InForce:
        """What is in force for the run that was just let out; what the end of the input lets out waited for as much as
        the last before it."""
        release = self._release
        frontier = release.frontier
        if frontier in (BEFORE_ALL, AFTER_ALL):
            return self.last
        if release.spec.discipline == "tuple":
            self.last = InForce(release.slack, max(release.clocks) - frontier, 0)
            return self.last
        # Before the first epoch there is no clock to measure it from.
        length = AFTER_ALL if self._clock == BEFORE_ALL else release.epoch_clock - self._clock
        passed = max(1, release.epochs - self._epochs)
        self.last = InForce(release.slack, release.epoch_clock - frontier, length // passed)
        self.begin()
        return self.last
