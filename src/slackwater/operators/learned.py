"""What a query has learned, persisted: what its controller knows, and what its meters have counted.

Whoever goes on from this state may ask for something else. What was learned is taken over where both agree in the
learning key; the share that a target asks for is not part of it, so a meter is told whether that is still the same.

Invariant: with another learning key nothing learned is taken over, and the meters begin where the query stands; a
controller that learns goes on from the slack in force, and a stated slack is what it says.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy.typing as npt

from slackwater.core.state import StateUpdate
from slackwater.disorder.controllers import SlackController
from slackwater.disorder.meters import QualityMeter
from slackwater.disorder.release.release import Release
from slackwater.operators.array_checkpoint import ArrayCheckpoint

CONTROLLER, LEDGER = "controller", "ledger"
"""The cells of this state."""


class Learned:
    """The controller and the meters of one query, and what they were made for."""

    def __init__(
        self, controller: SlackController, meters: Sequence[QualityMeter], target: str, learning_key: str
    ) -> None:
        self._controller, self._meters = controller, meters
        self._target, self._learning_key = target, learning_key
        self._stated = controller.slack
        self._of_controller, self._of_meters = ArrayCheckpoint(CONTROLLER), ArrayCheckpoint(LEDGER)

    def terms(self) -> dict[str, Any]:
        """What is asked for, and what a controller must agree in to go on with what this one has learned."""
        return {"target": self._target, "learning_key": self._learning_key}

    def snapshot_delta(self) -> Iterator[StateUpdate]:
        """What to persist since the last call."""
        yield from self._of_controller.snapshot_delta(self._controller.as_arrays())
        of_meters: dict[str, npt.NDArray[Any]] = {}
        for number, meter in enumerate(self._meters):
            of_meters |= {f"{number}/{name}": array for name, array in meter.as_arrays().items()}
        yield from self._of_meters.snapshot_delta(of_meters)

    def restore(self, entries: dict[str, list[StateUpdate]], before: dict[str, Any], release: Release) -> None:
        """Take over what was persisted on these terms; `release` has been restored, and says where the query stands."""
        learned = self._of_controller.restore(entries[CONTROLLER])
        of_meters = self._of_meters.restore(entries[LEDGER])
        if before["learning_key"] != self._learning_key:
            if not (self._controller.learns or self._controller.follows_largest_delay):
                self._controller.slack = self._stated
            for meter in self._meters:
                meter.begin_at(release.watermark, max(release.clocks))
            return
        if entries[CONTROLLER]:
            self._controller.restore(learned)
        if entries[LEDGER]:
            for number, meter in enumerate(self._meters):
                own = {name.partition("/")[2]: a for name, a in of_meters.items() if name.startswith(f"{number}/")}
                meter.restore(own, same_target=before["target"] == self._target)
