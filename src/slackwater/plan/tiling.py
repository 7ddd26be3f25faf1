"""Shards by place, for a join of two streams without a key, but with a band: tuples near each other meet in one shard.

Space is cut into tiles along one band or two (`operators/join/tiles.py`). A tuple of the home stream goes to the shard
of its tile, one of the other stream to those of all tiles that it can reach. So one stream is not copied at all, and of
the other only what is near a border.

Invariant: there is exactly one shard that has both tuples of a pair which the bands let meet. Of all shards that have a
tuple exactly one tells of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import gcd, isqrt

import numpy as np

from slackwater.core.batch import TS, Flags, Words
from slackwater.operators.join.bands import INTEGERS, Band, axes_between
from slackwater.operators.join.cells import AXES, AXIS_FIELDS, Axis, lines_of, probe_line
from slackwater.operators.join.tiles import MOST_REACHED, TIME, spread, told_by

BANDS_A_TILE = (2, 4)
"""How many times as wide as its band a tile is, with one axis and with two. Wider tiles are fewer, and less evenly
shared; narrower ones copy more. These copy half of the other stream, so a quarter of all tuples."""


@dataclass(frozen=True)
class Tiling:
    """How two streams are spread over so many shards; `axes` are seen from the home stream.

    >>> from slackwater.operators.join.bands import FLOATS, Side
    >>> near = Band(Side(0, 2, FLOATS), Side(1, 2, FLOATS), -5.0, 5.0, (0,))
    >>> tiling = Tiling((near,), 4)
    >>> tiling.widths
    (20.0,)
    >>> xs = np.array([[0, 0, 0], [0, 0, 0], np.array([19.0, 21.0, 30.0]).view(np.int64)])
    >>> [shards.tolist() for shards in tiling.spread(0, xs)], [shards.tolist() for shards in tiling.spread(1, xs)]
    ([[0, 1, 2], [0, 1, 1]], [[0, 0, 1, 1, 2], [0, 1, 0, 1, 1]])
    """

    axes: tuple[Band, ...]
    shards: int

    @property
    def home(self) -> int:
        """The stream that is not copied."""
        return self.axes[0].left.stream

    @property
    def widths(self) -> tuple[float, ...]:
        """How wide a tile is along each axis."""
        return tuple(2 * self.half(band) for band in self.axes)

    def half(self, band: Band) -> float:
        """Half of that, the width of a cell."""
        whole = BANDS_A_TILE[len(self.axes) - 1]
        return whole // 2 * (max(1, band.high - band.low) if band.left.read == INTEGERS else band.high - band.low)

    @property
    def step(self) -> int:
        """How many shards further a tile is that is one further along the second axis: an odd number near the square
        root of all, so that tiles of one shard are far apart, and that neighbours of any tile are in other shards. Then
        two tasks, or any even number, have the tiles of a chessboard.

        >>> [Tiling((), shards).step for shards in (2, 3, 4, 5, 8, 16, 256)]
        [1, 1, 3, 3, 3, 5, 17]
        """
        step = isqrt(self.shards) | 1
        while gcd(step, self.shards) > 1:
            step += 2
        return step

    def spread(self, position: int, words: Words, keep: Flags | None = None) -> Words:
        """Which tuples of a stream go to which shards, of those that are kept: their numbers, and below each a shard. A
        tuple in several is there several times, first with the shard that tells of it."""
        home, n = position == self.home, words.shape[1]
        axes, probes = _compiled(self)
        out = np.empty((2, n if home else MOST_REACHED * n), np.int64)
        kept = np.ones(n, np.bool_) if keep is None else keep
        seen = np.full(self.shards, -1, np.int64)
        count = spread(words[self._rows(home)], kept, axes, probes, home, self.shards, self.step, seen, out)
        assert count >= 0, "a tuple reaches more tiles than there can be"
        return out[:, :count]

    def _rows(self, home: bool) -> list[int]:
        return [TS, *((band.left if home else band.right).row for band in self.axes)]

    def tells(self, shard: int, streams: Words, words: Words) -> Flags:
        """Which of these tuples, which are all in this shard, it tells of."""
        told = np.ones(len(streams), np.bool_)
        axes, probes = _compiled(self)
        told_by(words[self._rows(False)], streams != self.home, axes, probes, self.shards, self.step, shard, told)
        return told


@lru_cache(maxsize=256)
def _compiled(tiling: Tiling) -> tuple[Words, Words]:
    """The axes of the home stream and what the other looks for along them, for compiled code; rows are those of
    `operators/join/tiles.py`."""
    probes = np.zeros((AXES, AXIS_FIELDS), np.int64)
    axes = []
    for row, (line, band) in enumerate(zip(probes, tiling.axes, strict=False), TIME + 1):
        axes.append(Axis(row, band.left.read, tiling.half(band), band.left.unit))
        line[:] = probe_line(replace(band.right, row=row), band.low, band.high)
    return lines_of(tuple(axes)), probes


def tiled(bands: Sequence[Band], rates: Sequence[float]) -> tuple[Band, ...]:
    """The bands that two streams of these rates are cut by, seen from the home stream: the faster one, or the first."""
    home = max(range(len(rates)), key=lambda stream: rates[stream])
    return tuple(axes_between(home, 1 - home, bands)[:AXES])
