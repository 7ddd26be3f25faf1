"""Admission: no single tuple may move a stream's clock by more than `max_ahead`.

Invariant: a clock only jumps further than `max_ahead` when three later tuples, of any stream, confirm the jump. A
tuple ahead of that is held aside; it ends admitted (a real gap in the stream) or rejected with reason `ahead` (a
poisoned clock):

- a later tuple *confirms* the one aside when it is itself beyond the guard of that stream, and at most `max_ahead`
  behind the tuple aside;
- the stream itself *refutes* it by reaching its event time without such a jump.

A stream that has no clock yet is measured against the largest clock of the others; the first tuple of all is
admitted. Where arrival times are known they are evidence too: a tuple no further than `max_ahead` from the moment it
arrived is not ahead, however long its stream was silent.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slackwater.compiled import allocating, compiled, inner
from slackwater.kernel import Change, changed, decode_batch, decode_json, encode_batch, encode_json
from slackwater.model.batch import Batch, Words
from slackwater.model.time import BEFORE_ALL

CONFIRMATIONS = 3


@dataclass(frozen=True)
class Admitted:
    """What admission decided about the tuples it was shown: those let in, in order, and those turned away."""

    batch: Batch
    ahead: Batch


class Admission:
    """The guard in front of a query's inputs.

    >>> guard = Admission(streams=1, max_ahead=10)
    >>> seen = guard.admit(Batch.of([(0, 1), (0, 1000), (0, 2)]), end=True)
    >>> seen.batch.ts.tolist(), seen.ahead.ts.tolist()
    ([1, 2], [1000])
    """

    def __init__(self, streams: int, max_ahead: int) -> None:
        self._max_ahead = max_ahead
        self._clocks = np.full(streams, BEFORE_ALL, np.int64)
        self._aside: Batch | None = None
        self._confirmed = np.zeros(0, np.int64)
        self._touched = False

    @property
    def aside(self) -> int:
        """How many tuples wait for their verdict."""
        return 0 if self._aside is None else len(self._aside)

    @property
    def clocks(self) -> Words:
        """The largest event time admitted per stream."""
        return self._clocks

    def admit(self, batch: Batch, end: bool = False) -> Admitted:
        """Judge a batch; with `end`, whatever is still aside is turned away."""
        waiting = self.aside
        shown = batch
        if self._aside is not None:
            # An empty batch knows no arrival times and must not make those aside forget theirs.
            shown = Batch.concat([self._aside, batch]) if len(batch) else self._aside
        confirmed = np.zeros(len(shown), np.int64)
        confirmed[:waiting] = self._confirmed
        order, rejected, still, straight = _judge(
            shown.stream, shown.ts, _moments(shown), waiting, self._clocks, self._max_ahead, confirmed
        )
        if end and len(still):
            rejected, still = np.concatenate([rejected, still]), still[:0]
        self._touched = self._touched or bool(waiting or len(still))
        self._aside = shown.take(still) if len(still) else None
        self._confirmed = confirmed[still]
        let_in = shown if straight else shown.take(order)
        return Admitted(let_in, shown.take(rejected))

    def changes(self) -> list[Change]:
        clocks = changed("admission", "clocks", encode_json({"clocks": self._clocks.tolist()}))
        if not self._touched:
            return [clocks]
        self._touched = False
        aside = None if self._aside is None else encode_batch(self._aside, confirmed=self._confirmed)
        return [clocks, changed("admission", "aside", aside)]

    def restore(self, entries: list[Change]) -> None:
        for entry in entries:
            if entry.value is None:
                self._aside, self._confirmed = None, np.zeros(0, np.int64)
            elif entry.key == "clocks":
                self._clocks[:] = decode_json(entry.value)["clocks"]
            else:
                self._aside, extra = decode_batch(entry.value)
                self._confirmed = extra["confirmed"]


def _moments(batch: Batch) -> Words:
    return np.empty(0, np.int64) if batch.heard is None else batch.heard


@compiled
def _judge(
    stream: Words, ts: Words, heard: Words, waiting: int, clocks: Words, max_ahead: int, confirmed: Words
) -> tuple[Words, Words, Words, bool]:
    order = np.empty(len(ts), np.int64)
    rejected = np.empty(len(ts), np.int64)
    aside = np.empty(len(ts), np.int64)
    n_order, n_rejected, n_aside = 0, 0, waiting
    straight = waiting == 0
    for i in range(waiting):
        aside[i] = i
    for i in range(waiting, len(ts)):
        s, t = stream[i], ts[i]
        jumped = False
        for a in range(n_aside):
            h = aside[a]
            if t > clocks[stream[h]] + max_ahead and t >= ts[h] - max_ahead:
                confirmed[h] += 1
                jumped = jumped or confirmed[h] >= CONFIRMATIONS
        if jumped:
            n_aside, n_order = _let_in(stream, ts, clocks, max_ahead, confirmed, aside, n_aside, order, n_order)
        reference = clocks[s]
        if reference == BEFORE_ALL:
            for clock in clocks:
                reference = max(reference, clock)
        if len(heard) > 0:
            reference = max(reference, heard[i])
        if reference != BEFORE_ALL and t > reference + max_ahead:
            aside[n_aside] = i
            n_aside += 1
            straight = False
            continue
        order[n_order] = i
        n_order += 1
        if t > clocks[s]:
            clocks[s] = t
            if n_aside > 0:
                n_aside, n_rejected = _refute(stream, ts, s, t, aside, n_aside, rejected, n_rejected)
    return order[:n_order], rejected[:n_rejected], aside[:n_aside], straight


@allocating
def _let_in(
    stream: Words,
    ts: Words,
    clocks: Words,
    max_ahead: int,
    confirmed: Words,
    aside: Words,
    n_aside: int,
    order: Words,
    n_order: int,
) -> tuple[int, int]:
    """Admit what is confirmed and, with it, what its stream's new clock no longer finds ahead."""
    jumped = np.zeros(len(clocks), np.bool_)
    for a in range(n_aside):
        h = aside[a]
        if confirmed[h] >= CONFIRMATIONS:
            jumped[stream[h]] = True
            clocks[stream[h]] = max(clocks[stream[h]], ts[h])
    moved = True
    while moved:
        moved = False
        kept = 0
        for a in range(n_aside):
            h = aside[a]
            s = stream[h]
            if confirmed[h] >= CONFIRMATIONS or (jumped[s] and ts[h] <= clocks[s] + max_ahead):
                order[n_order] = h
                n_order += 1
                moved = moved or ts[h] > clocks[s]
                clocks[s] = max(clocks[s], ts[h])
            else:
                aside[kept] = h
                kept += 1
        n_aside = kept
    return n_aside, n_order


@inner
def _refute(
    stream: Words, ts: Words, s: int, reached: int, aside: Words, n_aside: int, rejected: Words, n_rejected: int
) -> tuple[int, int]:
    """Reject the tuples of stream s that its clock reached by itself."""
    kept = 0
    for a in range(n_aside):
        h = aside[a]
        if stream[h] == s and ts[h] <= reached:
            rejected[n_rejected] = h
            n_rejected += 1
        else:
            aside[kept] = h
            kept += 1
    return kept, n_rejected
