"""What every slack would have lost, bucket by bucket of the recent past.

Invariant: for each bucket there is a curve over the slacks that come into question: the share of results that this
slack would have lost there, by the delays of that very bucket. A period is a window of buckets; so for any slack one
can ask in how many of the past periods it would have lost more than is allowed. What is older counts less.

Two kinds of losses are distinguished. A burst is over before anybody could answer it: the next one of its kind is only
met by who remembers this one, and so it counts for as long as it is remembered. A regime is a run of buckets that each
lose far too much: it lasts, and the next one of its kind is answered when it comes. So a regime that is over counts
with what would be lost now, and slack can go down again soon after delays have.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from slackwater.core.batch import Flags, Floats
from slackwater.core.jit import in_place, inner

REGIME = 5
"""So many buckets in a row that lose far too much are a regime; fewer are a burst."""
FAR = 2.0
"""A bucket of a regime loses so many times what is allowed: chance alone makes runs of buckets that lose more."""
CHUNK = 16
"""Buckets that are persisted together."""
RECENT = 2
"""A regime is over once it is so many periods old."""


class Past(NamedTuple):
    """A ring of buckets: their curves (a line a slack), summed over tuples, and how many tuples they had."""

    loss: npt.NDArray[np.float32]
    tuples: Floats
    weight: Floats
    """What a period that ends with this bucket counts, by its place from the newest."""
    over: Flags
    """Whether the bucket of this age is part of a regime that is over; found anew with every choice."""


@inner
def present_level(past: Past, newest: int, buckets: int, k: int) -> float:
    """The share that slack k would have lost in the last so many buckets."""
    loss = tuples = 0.0
    at = _place(past, newest - buckets + 1)
    for _ in range(buckets):
        loss += past.loss[k, at]
        tuples += past.tuples[at]
        at = _after(past, at)
    return loss / tuples if tuples > 0 else 0.0


@inner
def _place(past: Past, number: int) -> int:
    """Where the ring has a bucket."""
    return number % len(past.tuples)


@inner
def _after(past: Past, at: int) -> int:
    """The next place; to divide for each bucket would cost more than all else."""
    return at + 1 if at + 1 < len(past.tuples) else 0


@inner
def mark_regimes(past: Past, newest: int, used: int, recent: int, k: int, allowed: float) -> None:
    """Mark, by age, the buckets of regimes that are over: runs that lose far too much under the slack k of today."""
    run = 0
    at = _place(past, newest - used + 1)
    for age in range(used - 1, -1, -1):
        past.over[age] = False
        run = run + 1 if past.loss[k, at] > FAR * allowed * past.tuples[at] else 0
        if run >= REGIME:
            for older in range(age, age + REGIME if run == REGIME else age + 1):
                past.over[older] = older >= recent
        at = _after(past, at)


@inner
def missed_share(past: Past, newest: int, used: int, span: int, recent: int, k: int, allowed: float) -> float:
    """In what share of the past periods slack k would have lost more than `allowed`."""
    level = present_level(past, newest, min(recent, used), k)
    bad = periods = loss = tuples = 0.0
    at = gone = _place(past, newest - used + 1)
    # From the oldest bucket to the newest, with sums over the last `span` of them.
    for age in range(used - 1, -1, -1):
        loss += level * past.tuples[at] if past.over[age] else past.loss[k, at]
        tuples += past.tuples[at]
        at = _after(past, at)
        if age + span < used:
            loss -= level * past.tuples[gone] if past.over[age + span] else past.loss[k, gone]
            tuples -= past.tuples[gone]
            gone = _after(past, gone)
        if tuples > 0.5:
            periods += past.weight[age]
            # What is summed and taken off again leaves some dust.
            if loss > (allowed + 1e-9) * tuples:
                bad += past.weight[age]
    return bad / periods if periods > 0 else 0.0


@inner
def least_that_does(
    past: Past, newest: int, used: int, span: int, recent: int, allowed: float, missing: float, lo: int, hi: int
) -> int:
    """The least of the slacks lo..hi that does; longer slack loses no more, so they can be bisected."""
    while lo < hi:
        k = (lo + hi) >> 1
        if missed_share(past, newest, used, span, recent, k, allowed) > missing:
            lo = k + 1
        else:
            hi = k
    return lo


@in_place
def next_slack(
    loss: npt.NDArray[np.float32], tuples: Floats, weight: Floats, over: Flags, newest: int, used: int, span: int,
    recent: int, allowed: float, missing: float, before: int, band: float,
) -> int:  # fmt: skip
    """The least slack that does; but not less than before, unless `band` times what is allowed would do."""
    # A named tuple takes compiled code longer to unpack than all of this.
    past = Past(loss, tuples, weight, over)
    lo, hi = 0, len(loss) - 1
    while lo < hi:
        k = (lo + hi) >> 1
        if present_level(past, newest, min(recent, used), k) > allowed:
            lo = k + 1
        else:
            hi = k
    mark_regimes(past, newest, used, recent, lo, allowed)
    if before < lo or missed_share(past, newest, used, span, recent, before, allowed) > missing:
        first = max(lo, before + 1)
        return least_that_does(past, newest, used, span, recent, allowed, missing, first, len(loss) - 1)
    if before == 0 or missed_share(past, newest, used, span, recent, before - 1, band * allowed) > missing:
        return before
    return least_that_does(past, newest, used, span, recent, band * allowed, missing, 0, before - 1)


@inner
def mean_loss(past: Past, newest: int, used: int, k: int) -> float:
    """The share of results that slack k would have lost over all of the past; what is older counts less."""
    loss = tuples = 0.0
    at = _place(past, newest - used + 1)
    for age in range(used - 1, -1, -1):
        loss += past.weight[age] * past.loss[k, at]
        tuples += past.weight[age] * past.tuples[at]
        at = _after(past, at)
    return loss / tuples if tuples > 0 else 0.0


@in_place
def loss_at(
    loss: npt.NDArray[np.float32], tuples: Floats, weight: Floats, over: Flags, newest: int, used: int, k: int
) -> float:
    """As `mean_loss`."""
    return mean_loss(Past(loss, tuples, weight, over), newest, used, k)


@in_place
def least_like(past: Past, newest: int, used: int, recent: int, model: int, more: float) -> int:
    """The least slack that loses no more than slack `model` and some more, neither over all of the past nor now."""
    over_all = mean_loss(past, newest, used, model) + more
    now = present_level(past, newest, min(recent, used), model) + more
    lo, hi = 0, model
    while lo < hi:
        k = (lo + hi) >> 1
        if mean_loss(past, newest, used, k) > over_all or present_level(past, newest, min(recent, used), k) > now:
            lo = k + 1
        else:
            hi = k
    return lo


class LossHistory:
    """The curves of the last so many buckets.

    >>> past = LossHistory(buckets=4, span=2, memory=100.0, slacks=3)
    >>> for lost in (0.5, 0.0, 0.0):
    ...     past.note(np.array([lost, 0.0]), tuples=10)
    ...     past.next_bucket()
    >>> [past.least(allowed, missing=0.05) for allowed in (0.1, 0.6)]
    [1, 0]
    """

    def __init__(self, buckets: int, span: int, memory: float, slacks: int) -> None:
        self.span, self._recent, self._newest, self.used = span, RECENT * span, 0, 1
        self.ring = Past(
            np.zeros((slacks, buckets), np.float32),
            np.zeros(buckets),
            np.exp(-np.arange(buckets) / memory),
            np.zeros(buckets, np.bool_),
        )

    @property
    def sequence(self) -> int:
        """Where the ring has the newest bucket."""
        return self._newest % len(self.ring.tuples)

    def note(self, curve: Floats, tuples: int) -> None:
        """So many tuples have come in the newest bucket, and this is what each slack would have lost of them.

        A curve may end early: longer slacks lose nothing.
        """
        self.ring.loss[: len(curve), self.sequence] += curve * tuples
        self.ring.tuples[self.sequence] += tuples

    def next_bucket(self, many: int = 1) -> None:
        """Begin another bucket, or so many where nothing came in between; the oldest are forgotten."""
        for _ in range(min(many, len(self.ring.tuples))):
            self._newest += 1
            self.ring.loss[:, self.sequence] = 0
            self.ring.tuples[self.sequence] = 0
        self.used = min(self.used + many, len(self.ring.tuples))

    @property
    def periods(self) -> float:
        """How many periods are known."""
        return self.used / self.span

    def least(self, allowed: float, missing: float, before: int = 0, band: float = 1.0) -> int:
        """The least slack that would have lost more than `allowed` in no more than this share of the periods.

        But not less than before, unless it would have kept `band` times what is allowed.
        """
        return next_slack(
            *self.ring, self._newest, self.used, self.span, self._recent, allowed, missing, before, band
        )  # fmt: skip

    def least_like(self, model: int, more: float) -> int:
        """The least slack that loses no more than slack `model`, and some more."""
        return least_like(self.ring, self._newest, self.used, self._recent, model, more)

    def mean(self, k: int) -> float:
        """The share of results that slack k would have lost over all that is remembered."""
        return loss_at(*self.ring, self._newest, self.used, k)

    def as_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """All state, in chunks of buckets: those that are complete never change and are written once."""
        found: dict[str, npt.NDArray[Any]] = {"place": np.array([self._newest, self.used])}
        oldest = self._newest - self.used + 1
        for chunk in range(oldest // CHUNK, self._newest // CHUNK + 1):
            numbers = np.arange(max(chunk * CHUNK, oldest), min((chunk + 1) * CHUNK, self._newest + 1))
            loss = self.ring.loss[:, numbers % len(self.ring.tuples)]
            losing = np.flatnonzero(loss.any(axis=1))
            found[f"loss_{chunk}"] = loss[: int(losing[-1]) + 1 if len(losing) else 1]
            found[f"tuples_{chunk}"] = self.ring.tuples[numbers % len(self.ring.tuples)]
        return found

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take over what `as_arrays` of another one, made with the same arguments, gave."""
        self.ring.loss[:], self.ring.tuples[:] = 0, 0
        self._newest, self.used = arrays["place"].tolist()
        oldest = self._newest - self.used + 1
        for chunk in range(oldest // CHUNK, self._newest // CHUNK + 1):
            loss, tuples = arrays[f"loss_{chunk}"], arrays[f"tuples_{chunk}"]
            first = max(chunk * CHUNK, oldest)
            at = np.arange(first, first + len(tuples)) % len(self.ring.tuples)
            self.ring.loss[: len(loss), at], self.ring.tuples[at] = loss, tuples
