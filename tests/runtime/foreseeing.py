"""A controller that says of its target what it is told to, for tests of what users are told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from slackwater.core.outlook import Outlook
from slackwater.core.time import DAY, MINUTE
from slackwater.disorder.controllers import FixedSlack

FINISHED = Outlook(10 * MINUTE, True, choices=50)
BAD = Outlook(10 * MINUTE, True, choices=50, bound=20, needed=9 * DAY, reached=0.9343, unreachable=True)
SAID = (
    "RECALL 0.95 cannot be met within 10 minutes: it would need a slack of about 9 days; with 10 minutes 0.934 is"
    " reached"
)
AGAIN = "RECALL 0.95 can be met within 10 minutes again"


class Reported(FixedSlack):
    """No slack, and one outlook after the other; the last one stays."""

    def __init__(self, outlooks: Sequence[Outlook]) -> None:
        super().__init__(0)
        self._outlooks = list(outlooks)

    def outlook(self) -> Outlook:
        return self._outlooks.pop(0) if len(self._outlooks) > 1 else self._outlooks[0]


def foresee(monkeypatch: pytest.MonkeyPatch, *outlooks: Outlook) -> None:
    """Have every kernel that is made from now on foresee this."""

    def controller(*_: Any) -> Reported:
        return Reported(outlooks)

    monkeypatch.setattr("slackwater.runtime.kernels.controller_of", controller)
