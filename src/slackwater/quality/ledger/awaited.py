"""How many corrections are still to come, by how long after their results they have come so far.

Invariant: it is about corrections that are emitted; what nobody corrects is not awaited. It is an estimate: of results
of an age, as large a part of their corrections is expected to be there as of all corrections so far were by that age.
"""

from __future__ import annotations

import numpy as np

from slackwater.core.batch import Floats, Words

DOUBLINGS = 63
"""An age is told to a factor of two, in microseconds."""


class Awaited:
    """Corrections by the age of their results: how far the watermark was past these.

    >>> awaited = Awaited()
    >>> awaited.note(np.array([3, 3, 3, 12]))
    >>> awaited.expected(np.array([80.0, 0.0]), np.array([4, 0]), made=800.0)
    0.10256410256410256
    """

    def __init__(self) -> None:
        self.by_age: Floats = np.zeros(DOUBLINGS)

    def note(self, ages: Words) -> None:
        """Corrections of results of these ages."""
        at = np.frexp(np.maximum(ages, 0).astype(np.float64))[1]
        self.by_age += np.bincount(np.minimum(at, DOUBLINGS - 1), minlength=DOUBLINGS)

    def expected(self, made_lately: Floats, ages: Words, made: float) -> float | None:
        """What is still to come for results of these ages, of so many in all; None where none has come yet."""
        corrected = float(self.by_age.sum())
        if not corrected:
            return None
        share = np.concatenate(([0.0], np.cumsum(self.by_age) / corrected))
        doublings = np.where(ages > 0, np.log2(np.maximum(ages, 1).astype(np.float64)) + 1, 0.0)
        outstanding = float(made_lately @ (1 - np.interp(doublings, np.arange(len(share)), share)))
        # Those of which all corrections are there tell how many a result has.
        settled = made - outstanding
        return corrected * outstanding / settled if settled > 0 else None
