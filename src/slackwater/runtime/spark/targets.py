"""The target that is in force, where it may be another one than the text of the query states.

Invariant: the last word counts. A target that was set while the query ran stays in force over restarts, until it is set
again or the query is started with another target in its text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace

from slackwater.kernel import StateUpdate, state_update

NAMESPACE, KEY = "shard", "target"


@dataclass(frozen=True)
class Targets:
    """Targets as clauses of the language.

    >>> started = Targets.among([], "RECALL 0.95 OVER 1 MINUTE")
    >>> changed_while_running = started.asked("RECALL 0.99 OVER 1 MINUTE")
    >>> kept = [changed_while_running.as_update()]
    >>> Targets.among(kept, "RECALL 0.95 OVER 1 MINUTE").in_force
    'RECALL 0.99 OVER 1 MINUTE'
    >>> Targets.among(kept, "RECALL 0.9 OVER 1 MINUTE").in_force
    'RECALL 0.9 OVER 1 MINUTE'
    """

    stated: str
    in_force: str

    @classmethod
    def among(cls, entries: Iterable[StateUpdate], stated: str) -> Targets:
        """The targets after a start with this one in the text, given the state that there is."""
        for entry in entries:
            if is_target(entry) and entry.value is not None:
                before = cls(**json.loads(entry.value))
                return before if before.stated == stated else cls(stated, stated)
        return cls(stated, stated)

    def asked(self, target: str | None) -> Targets:
        """With another target from now on, unless it is None."""
        return self if target is None else replace(self, in_force=target)

    def as_update(self) -> StateUpdate:
        """As an entry of state."""
        return state_update(NAMESPACE, KEY, json.dumps({"stated": self.stated, "in_force": self.in_force}).encode())


def is_target(entry: StateUpdate) -> bool:
    """Whether an entry of state holds targets."""
    return (entry.namespace, entry.key) == (NAMESPACE, KEY)
