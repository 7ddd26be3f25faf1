"""The progress of one query over time, oldest first, never more than so many values: the older, the fewer.

Invariant: the newest are all there. When there are too many, every second one of the older half goes, and the next one
takes over its arrivals: so the delays of all arrivals are always there, and after n values the oldest part is as coarse
as n asks for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from slackwater.core.memory import Memory
from slackwater.observe.value import QueryProgress

MOST = 600


def without_present(progress: QueryProgress) -> QueryProgress:
    """Without what is shown of the latest progress alone."""
    streams = {name: replace(one, samples=(), parts={}) for name, one in progress.streams.items()}
    known = progress.observed.memory
    observed = replace(progress.observed, memory=None if known is None else Memory(known.query))
    return replace(progress, trade_off=None, streams=streams, wrong_clocks=(), observed=observed, shards=())


class Thinned:
    """A bounded history of one query.

    >>> from slackwater.observe.value import nothing_observed
    >>> seen = Thinned(most=4)
    >>> for batch in range(1, 7):
    ...     seen.add(QueryProgress(observed=nothing_observed(1), batch=batch, delays={"s": [(0, 1)]}))
    >>> [(one.batch, one.delays["s"][0][1]) for one in seen]
    [(3, 3), (4, 1), (5, 1), (6, 1)]
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = max(4, most)
        self._all: list[QueryProgress] = []

    def add(self, progress: QueryProgress) -> None:
        """The next value."""
        if len(self._all) >= self._most:
            self._thin()
        if self._all:
            self._all[-1] = without_present(self._all[-1])
        self._all.append(progress)

    def _thin(self) -> None:
        # An even number, so that none is without its partner.
        half = self._most // 4 * 2
        older, newer = self._all[:half], self._all[half:]
        self._all = [second.after(first) for first, second in zip(older[::2], older[1::2], strict=True)] + newer

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[QueryProgress]:
        return iter(self._all)

    @property
    def latest(self) -> QueryProgress | None:
        """The newest one."""
        return self._all[-1] if self._all else None
