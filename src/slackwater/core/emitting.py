"""When an answer leaves, and what may follow it: what a query asks for behind EMIT.

Invariant: what leaves under `IN_ORDER` leaves under every other `Emit`, too, with the same target: sooner, out of
order, or with change rows beside it. A query that changes what it has emitted says so in two columns, CHANGE and
VERSION: of the rows with one key, that of the highest version is true, and is not there where it is a deletion.
"""

from __future__ import annotations

from dataclasses import dataclass

from slackwater.core.time import format_duration

IN_ORDER, ON_ARRIVAL, EARLY = "IN ORDER", "ON ARRIVAL", "EARLY"
CHANGE, VERSION = "_change", "_version"
"""The columns of change rows: what a row does to its key, and how many of its key have left before."""
AMENDS, CLOCK = "_amends", "_clock"
"""What change rows say of themselves to a judge: whether they are corrections or rows of open windows, and the largest
clock when they were emitted (null at the end of the input)."""
EXPECTED_ERROR = "_expected_error"
"""The column of EARLY: how wrong a row of an open window is expected to be."""
INSERT, UPDATE, DELETE = range(3)
CHANGES = ("insert", "update", "delete")
"""What a change is called, by its number."""


@dataclass(frozen=True)
class Emit:
    """When results leave. Durations are microseconds.

    >>> print(Emit(corrections=True, correctable=60_000_000))
    IN ORDER WITH CORRECTIONS FOR 1 min
    """

    kind: str = IN_ORDER
    corrections: bool = False
    """Whether what late tuples would have changed follows as change rows."""
    correctable: int | None = None
    """How far behind the watermark a result may be corrected; None: as far as `max_behind`."""
    every: int | None = None
    """EARLY: how often rows of open windows leave."""
    error: float | None = None
    """EARLY: the expected error at which the first row of an open window leaves."""

    @property
    def changes(self) -> bool:
        """Whether rows change what has left, and say so."""
        return self.corrections or self.kind == EARLY

    @property
    def amends(self) -> str | None:
        """What rows beside the first answer are called; None where there are none.

        >>> Emit(EARLY, corrections=True, every=1).amends, Emit(ON_ARRIVAL).amends
        ('early rows and corrections', None)
        """
        called = ["early rows"] * (self.kind == EARLY) + ["corrections"] * self.corrections
        return " and ".join(called) or None

    @property
    def on_arrival(self) -> bool:
        """Whether a result leaves when its last member arrives."""
        return self.kind == ON_ARRIVAL

    def __str__(self) -> str:
        text = self.kind
        if self.every is not None:
            text += f" EVERY {format_duration(self.every)}"
        if self.error is not None:
            text += f" AT ERROR {self.error!r}"
        if self.corrections:
            text += " WITH CORRECTIONS"
        return text if self.correctable is None else f"{text} FOR {format_duration(self.correctable)}"


ONCE = Emit()
"""Every result leaves once, in order."""
