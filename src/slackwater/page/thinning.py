"""Moments of one query, oldest first, never more than so many: the older, the fewer.

Invariant: the newest moments are all there. When there are too many, every second one of the older half goes, and the
next one takes over its arrivals: so the delays of all arrivals are always there, and after n moments the oldest part is
as coarse as n asks for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from slackwater.observe.moment import Moment

MOST = 600


class Thinned:
    """A bounded history of one query.

    >>> seen = Thinned(most=4)
    >>> for batch in range(1, 7):
    ...     seen.add(Moment("q", batch, 0.0, 0.1, None, "NO WAIT", 0.0, None, (), 0, 0, 0, 0, 0, {}, 0, 0,
    ...                     delays={"s": [(0, 1)]}))
    >>> [(one.batch, one.delays["s"][0][1]) for one in seen]
    [(3, 3), (4, 1), (5, 1), (6, 1)]
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = max(4, most)
        self._moments: list[Moment] = []

    def add(self, moment: Moment) -> None:
        """The next moment."""
        if len(self._moments) >= self._most:
            self._thin()
        if self._moments:
            # What is shown of the present alone need not be kept of the past.
            self._moments[-1] = replace(self._moments[-1], trade_off=None, samples=(), wrong_clocks=())
        self._moments.append(moment)

    def _thin(self) -> None:
        # An even number, so that none is without its partner.
        half = self._most // 4 * 2
        older, newer = self._moments[:half], self._moments[half:]
        self._moments = [
            second.with_delays_of(first) for first, second in zip(older[::2], older[1::2], strict=True)
        ] + newer

    def __len__(self) -> int:
        return len(self._moments)

    def __iter__(self) -> Iterator[Moment]:
        return iter(self._moments)

    @property
    def latest(self) -> Moment | None:
        """The newest one."""
        return self._moments[-1] if self._moments else None
