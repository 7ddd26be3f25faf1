"""Players on a soccer field: smooth paths at the speeds people run.

Invariant: every position lies on the field, and a path is one continuous curve, so positions at nearby event times are
close to each other whatever order they are asked in.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slackwater.workloads.workload import Floats, Integers

LENGTH_M, WIDTH_M = 105.0, 68.0
TEAM_SIZE = 8
GRID_MS = 200

_FORMATION = np.array([(8, 34), (24, 14), (22, 34), (24, 54), (42, 22), (42, 46), (58, 24), (58, 44)], np.float64)
"""Where the players of the left team stand: the goalkeeper, three defenders, two midfielders, two forwards."""
_FOLLOWS_BALL = np.array([0.15, 0.5, 0.45, 0.5, 0.6, 0.6, 0.55, 0.55])


@dataclass(frozen=True)
class Paths:
    """Positions of both teams every GRID_MS: axes are (player, time, x|y); the left team's players come first."""

    grid: Floats

    def at(self, player: Integers, ts: Integers) -> tuple[Floats, Floats]:
        """Where the players were, in metres, at milliseconds from the start."""
        point = _between(self.grid, player, ts)
        return point[:, 0], point[:, 1]

    def speed_at(self, player: Integers, ts: Integers) -> Floats:
        """How fast they ran, in metres a second."""
        steps = np.gradient(self.grid, GRID_MS / 1000, axis=1)
        return _between(np.hypot(steps[..., 0], steps[..., 1]), player, ts)


def play(rng: np.random.Generator, duration_ms: int) -> Paths:
    """A game of this length: players keep their place in the formation, follow the ball, and wander.

    >>> paths = play(np.random.default_rng(0), 60_000)
    >>> x, y = paths.at(np.array([0, 9]), np.array([0, 60_000]))
    >>> bool(((0 <= x) & (x <= LENGTH_M) & (0 <= y) & (y <= WIDTH_M)).all())
    True
    """
    times = duration_ms // GRID_MS + 2
    centre = np.array([LENGTH_M / 2, WIDTH_M / 2])
    ball = _smooth_noise(rng, 1, times, correlation_ms=6000) * (25.0, 15.0)
    wander = _smooth_noise(rng, 2 * TEAM_SIZE, times, correlation_ms=4000) * 6.0
    homes = np.concatenate((_FORMATION, (LENGTH_M, WIDTH_M) - _FORMATION))
    follows = np.tile(_FOLLOWS_BALL, 2)[:, None, None]
    # A place in the formation is meant for the ball in the centre; the whole team moves with the ball.
    wanted = homes[:, None, :] + follows * ball + wander
    pulled = wanted + 0.4 * follows * (centre + ball - wanted)
    return Paths(np.clip(pulled, 0.0, (LENGTH_M, WIDTH_M)))


def _smooth_noise(rng: np.random.Generator, paths: int, times: int, correlation_ms: int) -> Floats:
    """Gaussian paths of unit variance in two dimensions that change over about `correlation_ms`."""
    sigma = correlation_ms / GRID_MS
    reach = int(3 * sigma)
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) / sigma) ** 2)
    kernel /= np.sqrt((kernel**2).sum())
    noise = rng.standard_normal((paths, 2, times + 2 * reach))
    smooth = [[np.convolve(axis, kernel, mode="valid") for axis in path] for path in noise]
    return np.asarray(smooth, np.float64).transpose(0, 2, 1)


def _between(grid: Floats, player: Integers, ts: Integers) -> Floats:
    """Values of `grid` (player, time, ...) between its times, by straight lines."""
    step = np.clip(ts // GRID_MS, 0, grid.shape[1] - 2)
    share = (ts / GRID_MS - step).reshape((-1,) + (1,) * (grid.ndim - 2))
    return np.asarray(grid[player, step] * (1 - share) + grid[player, step + 1] * share, np.float64)
