"""The join of two streams whose windows hold an interval of time each, but are kept as numbers of tuples.

What a window holds follows the rate of its stream (`rates.py`): it is resized now and then, and between two resizes a
tuple leaves it when so many have come after it, whatever their times. Two tuples match if their event times are no
further apart than epsilon, which is stated or found at run time.

Invariant: when time moves on, a window is left with the newest tuples in time of its stream, none missing between them,
as many as are in force, and those of the same time as the oldest of these; so tuples of one time come and go together,
and their order is free. A resize drops only what is beyond the new size; what has left does not come back when a window
grows. A late tuple enters no window and triggers nothing, as for all windows that count (`count_windows.py`).

References: 001 §2.2, §2.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from slackwater.core.batch import Words
from slackwater.core.rates import RatesSeen, Resize
from slackwater.core.state import StateUpdate
from slackwater.core.time import BEFORE_ALL
from slackwater.disorder.ordered_batch import OrderedBatch
from slackwater.operators.array_checkpoint import ArrayCheckpoint
from slackwater.operators.contract import PLAIN, BuildContext, ResizeLog
from slackwater.operators.join.count_windows import EVER, CountWindowJoin, CountWindowJoinOperator, evict
from slackwater.operators.join.operator import JoinOperator, WindowJoin
from slackwater.operators.join.rates import (
    DISTANCE,
    FIRST_SIZE,
    FIRST_WITHIN,
    LOGGED,
    SINCE,
    SIZES,
    WITHIN,
    Sampling,
    no_log,
    sampling,
)
from slackwater.operators.output import Output

SLIDING, ROUNDS = 20, 1
"""Slices of a sample: ours moves on by a twentieth of its length; the published one is taken in rounds."""
REMEMBERED = 4096
"""Where nobody takes them, so many of the last resizes are remembered beside those of the last run."""


@dataclass(frozen=True)
class RateJoin(CountWindowJoin):
    """Spec of such a join; `last` has the sizes it starts from."""

    intervals: tuple[int, ...] = ()
    """Per stream, the time its window is to hold."""
    within: int | None = None
    """How far apart in time two tuples that match may be; None: found at run time; EVER: no matter."""
    slices: int = SLIDING
    by_arrival: bool = False
    """Whether intervals are times of arrival."""

    def __post_init__(self) -> None:
        super().__post_init__()
        assert len(self.intervals) == len(self.windows) == 2, "a join of two streams"

    @property
    def at_first(self) -> Resize:
        """What is in force before anything is known."""
        return Resize(BEFORE_ALL, self.last, FIRST_WITHIN if self.within is None else self.within)

    @property
    def in_time_only(self) -> bool:
        return True

    @property
    def most(self) -> Words:
        within = self.at_first.within
        return np.array([[0, within], [within, 0]], np.int64)

    def build(self, context: BuildContext = PLAIN) -> RateJoinOperator:
        return RateJoinOperator(self, context.encode_text)


def by_rate(
    join: WindowJoin,
    intervals: tuple[int, ...],
    within: int | None = None,
    slices: int = SLIDING,
    by_arrival: bool = False,
    first: int = FIRST_SIZE,
) -> RateJoin:
    """The same join with windows that follow rates.

    >>> by_rate(WindowJoin((5, 5), (), (), (), (), 2), (10, 20)).last
    (100, 100)
    """
    same: dict[str, Any] = {field.name: getattr(join, field.name) for field in fields(WindowJoin)}
    same |= {"windows": (EVER, EVER), "last": (first, first)}
    return RateJoin(**same, intervals=intervals, within=within, slices=slices, by_arrival=by_arrival)


class RateJoinOperator(CountWindowJoinOperator):
    """The mutable half of `RateJoin`."""

    spec: RateJoin

    def __init__(self, spec: RateJoin, encode_text: Callable[[str], int]) -> None:
        super().__init__(spec, encode_text)
        self._kept = ArrayCheckpoint("rates")
        self._resizes: list[Resize] = []
        self._resized = 0

    def _sampling(self, spec: CountWindowJoin) -> Sampling:
        assert isinstance(spec, RateJoin), "made by `RateJoin.build`"
        return sampling(spec.intervals, spec.within, spec.slices, spec.by_arrival, spec.last[0])

    def process(self, run: OrderedBatch, ordered: bool) -> Iterator[Output]:
        """Take in a run; yield its results."""
        self._rates = self._rates._replace(log=no_log(self.spec.streams, len(run)))
        self._rates.state[LOGGED] = 0
        yield from super().process(run, ordered)
        resizes = self._rates.log[: self._rates.state[LOGGED]].tolist()
        self._resized += len(resizes)
        del self._resizes[:-REMEMBERED]
        self._resizes += [Resize(line[SINCE], tuple(line[SIZES:]), line[DISTANCE]) for line in resizes]

    def resize_logs(self) -> list[tuple[int, ResizeLog]]:
        return [(0, self)]

    def take_resizes(self) -> list[Resize]:
        """The resizes since the last call, oldest first."""
        taken, self._resizes = self._resizes, []
        return taken

    def seen(self) -> RatesSeen:
        """The windows in force, and how often that has changed."""
        return RatesSeen(tuple(self._rates.sizes.tolist()), int(self._rates.state[WITHIN]), self._resized)

    def _arrays(self) -> dict[str, Words]:
        taken = self._rates
        resident = [self._resident(stream) for stream in range(self.spec.streams)]
        return {
            "sizes": taken.sizes, "kept": taken.kept, "state": taken.state, "slices": taken.slices.ravel(),
            "streams": taken.streams.ravel(), "resident": np.array(resident), "resized": np.array([self._resized]),
        }  # fmt: skip

    def snapshot_delta(self) -> list[StateUpdate]:
        return [*super().snapshot_delta(), *self._kept.snapshot_delta(self._arrays())]

    def restore(self, entries: list[StateUpdate]) -> None:
        """Samples and sizes are taken over before the tuples, and what windows had already let go leaves them again."""
        arrays = self._kept.restore([entry for entry in entries if entry.namespace == "rates"])
        if arrays:
            taken = self._rates
            taken.sizes[:], taken.kept[:], taken.state[:] = arrays["sizes"], arrays["kept"], arrays["state"]
            taken.slices[:] = arrays["slices"].reshape(taken.slices.shape)
            taken.streams[:] = arrays["streams"].reshape(taken.streams.shape)
            self._resized = int(arrays["resized"][0])
            most = self.order.probes.most
            most[0, 1] = most[1, 0] = taken.state[WITHIN]
        super().restore([entry for entry in entries if entry.namespace != "rates"])
        if arrays:
            for stream, resident in enumerate(arrays["resident"].tolist()):
                evict(self._store.windows, stream, resident)

    def _put_back(self, stream: int, words: Words) -> None:
        # How many tuples a window holds is not its size where it has just grown; `restore` knows the number.
        JoinOperator._put_back(self, stream, words)
