"""Disordered traces: arrivals as a source with bounded disorder sends them, drawn by Hypothesis or from a seed.

Invariant: a tuple's delay, against the clock of its own stream when it arrives, is at most the delay asked for.
Everything else may happen: ties, bursts, gaps, silent streams, duplicates, one timestamp for all, times before 1970
or near the bounds of time, nulls and NaN among the values.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from slackwater.core.batch import FIRST_COLUMN, Batch
from slackwater.core.schema import NULL_FLOAT, NULL_WORD, Kind
from slackwater.core.time import MAX_TIME, MIN_TIME

Arrival = tuple[int, int, int, bool, tuple[int, ...]]
"""(stream, how far the clock moves, delay, passes its filter, words)."""

ORIGINS = (0, -40, 1_700_000_000_000_000, MIN_TIME + 100_000, MAX_TIME - 100_000)
FLOATS = (0.0, -0.0, 1.0, -2.5, 3.25, 1e-3, 999.5, float("nan"))


def float_word(value: float) -> int:
    """The word that carries a float.

    >>> hex(float_word(1.0))
    '0x3ff0000000000000'
    """
    word: int = struct.unpack("<q", struct.pack("<d", value))[0]
    return word


def assemble(origin: int, arrivals: Sequence[Arrival], rows: int) -> Batch:
    """A batch from steps and delays: every stream's clock follows one common clock, minus its own delays.

    >>> assemble(10, [(0, 5, 0, True, ()), (1, 1, 0, True, ()), (0, 0, 3, True, ())], 2).ts.tolist()
    [15, 16, 13]
    """
    now = origin
    tuples = []
    for stream, step, delay, _, words in arrivals:
        now += step
        tuples.append((stream, now - delay, *words))
    batch = Batch.of(tuples, rows)
    return Batch(batch.stream, batch.words, np.array([passes for _, _, _, passes, _ in arrivals], np.bool_))


def values(kind: Kind) -> st.SearchStrategy[int]:
    """Words of one column: few distinct values, so that keys meet; nulls among them."""
    if kind is Kind.FLOAT:
        return st.sampled_from([*map(float_word, FLOATS), NULL_FLOAT])
    return st.sampled_from([0, 1, 1, 2, 3, -7, NULL_WORD])


@st.composite
def traces(
    draw: st.DrawFn,
    streams: int = 1,
    kinds: tuple[Kind, ...] = (),
    most: int = 40,
    largest_delay: int = 12,
    filtered: bool = False,
) -> Batch:
    """Traces of up to `most` tuples; `kinds` are those of the rows after event time and identity."""
    everyone = st.just(set(range(streams)))
    speaking = draw(st.one_of(everyone, st.sets(st.integers(0, streams - 1), min_size=1)))
    longest_step = draw(st.sampled_from([0, 1, 3, 30]))
    delays = st.one_of(st.just(0), st.integers(0, draw(st.sampled_from([0, 2, largest_delay]))))
    passes = st.sampled_from([True, True, True, False]) if filtered else st.just(True)
    one = st.tuples(
        st.sampled_from(sorted(speaking)),
        st.integers(0, longest_step),
        delays,
        passes,
        st.tuples(*map(values, kinds)),
    )
    arrivals: list[Arrival] = draw(st.lists(one, max_size=most))
    twice: bool = draw(st.booleans())
    if arrivals and twice:
        stream, _, delay, keep, words = arrivals[-1]
        arrivals.append((stream, 0, delay, keep, words))
    return assemble(draw(st.sampled_from(ORIGINS)), arrivals, FIRST_COLUMN + len(kinds))


def seeded_trace(
    seed: int,
    streams: int = 1,
    kinds: tuple[Kind, ...] = (),
    tuples: int = 1000,
    largest_delay: int = 12,
    late_share: float = 0.3,
    longest_step: int = 3,
    keys: int = 5,
) -> Batch:
    """A long trace without Hypothesis; the same seed gives the same trace.

    >>> trace = seeded_trace(1, streams=2, tuples=100, largest_delay=5)
    >>> len(trace), largest_delay_of(trace) <= 5
    (100, True)
    """
    random = np.random.default_rng(seed)
    stream = random.integers(0, streams, tuples)
    step = random.integers(0, longest_step + 1, tuples)
    delay = random.integers(0, largest_delay + 1, tuples) * (random.random(tuples) < late_share)
    columns: list[Any] = []
    for kind in kinds:
        if kind is Kind.FLOAT:
            column = np.round(random.normal(0.0, 100.0, tuples), 3).view(np.int64)
            null = NULL_FLOAT
        else:
            column, null = random.integers(0, keys, tuples), NULL_WORD
        columns.append(np.where(random.random(tuples) < 0.02, null, column))
    arrivals: list[Arrival] = [
        (int(stream[i]), int(step[i]), int(delay[i]), True, tuple(int(column[i]) for column in columns))
        for i in range(tuples)
    ]
    return assemble(0, arrivals, FIRST_COLUMN + len(kinds))


@st.composite
def cuttings(draw: st.DrawFn, tuples: int) -> list[int]:
    """Where a trace of so many tuples is cut into epochs: ascending positions, the last one at its end."""
    inside = draw(st.sets(st.integers(1, max(1, tuples - 1)), max_size=8))
    return sorted({at for at in inside if at < tuples} | ({tuples} if tuples else set()))


def pieces(batch: Batch, cuts: Sequence[int]) -> list[Batch]:
    """The batch in pieces that end at these positions.

    >>> [piece.ts.tolist() for piece in pieces(Batch.of([(0, 1), (0, 2), (0, 3)]), [1, 3])]
    [[1], [2, 3]]
    """
    return [batch.take(slice(begin, end)) for begin, end in zip([0, *cuts], cuts, strict=False)]


def largest_delay_of(batch: Batch) -> int:
    """The slack that makes a trace complete: the largest delay of a tuple against its own stream's clock."""
    clocks: dict[int, int] = {}
    largest = 0
    for stream, ts in zip(batch.stream.tolist(), batch.ts.tolist(), strict=True):
        clocks[stream] = max(clocks.get(stream, ts), ts)
        largest = max(largest, clocks[stream] - ts)
    return largest
