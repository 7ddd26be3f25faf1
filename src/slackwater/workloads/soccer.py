"""Positions of two soccer teams, with the disorder that was published for the real ones; the streams of the demo.

Players run smooth paths at the speeds people run. The disorder is made to measure: how many tuples are out of order, in
how many runs, and how far behind.

Invariant: the recorded data is not shipped; what these streams share with it is the published statistics (sizes and
largest delays, mostly small delays with rare large ones, recall without waiting around one half). Every position lies
on the field, and a path is one continuous curve. The clock of a stream moves with its in-order tuples only, and every
other tuple is set at least 1 ms behind the clock at its place. So the counts of out-of-order and correlated tuples are
those asked for, exactly, whatever the random numbers were.

References: 003 §VI; 004 §4.3.1, Fig. 4.7 and 4.8.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from slackwater.core.errors import UsageError
from slackwater.workloads.workload import (
    EPOCH_MS,
    Flags,
    Floats,
    Integers,
    Workload,
    arrival_ranks,
    generator,
    whole_milliseconds,
)

IN_ORDER = -1
EPISODE_FLOOR_MS = 150.0
"""An episode holds its first tuple back at least this long: clearly above the everyday delays."""


@dataclass(frozen=True)
class DelayProfile:
    """The disorder of one sensor stream: everyday delays in short runs, and rare episodes when a backlog arrives."""

    out_of_order: int
    runs: int
    """Maximal sequences of out-of-order tuples; what is out of order and opens no run is correlated."""
    max_delay_ms: int
    peak_at: float
    """Where the largest delay occurs, as a share of the duration (later where it would reach before the start)."""
    episodes: int
    backlog: float
    """Mean number of tuples that one episode holds back."""
    second_half_share: float = 0.5
    """Share of the episodes that fall into the second half."""
    typical_delay_ms: float = 15.0


@dataclass(frozen=True)
class Disordered:
    """One row a tuple, in arrival order; times are milliseconds from the start of the stream."""

    ts: Integers
    moment: Integers
    """When the tuple arrived."""
    run: Integers
    """The run an out-of-order tuple belongs to, else IN_ORDER."""


def run_pattern(rng: np.random.Generator, tuples: int, out_of_order: int, runs: int) -> Flags:
    """Which tuples are out of order: exactly so many, in exactly so many runs of random lengths.

    >>> late = run_pattern(np.random.default_rng(0), tuples=100, out_of_order=30, runs=7)
    >>> int(late.sum()), int((late[1:] & ~late[:-1]).sum()), bool(late[0])
    (30, 7, False)
    """
    if not 0 <= runs <= out_of_order or (runs == 0) != (out_of_order == 0) or tuples < out_of_order + max(runs, 1):
        raise UsageError(f"{tuples} tuples cannot hold {out_of_order} out-of-order tuples in {runs} runs")
    if runs == 0:
        return np.zeros(tuples, np.bool_)
    lengths = np.empty(2 * runs + 1, np.int64)
    lengths[1::2] = _positive_parts(rng, out_of_order, runs)
    # One more in-order tuple than there are, taken off the end again: the stream may end with a run.
    lengths[0::2] = _positive_parts(rng, tuples - out_of_order + 1, runs + 1)
    lengths[-1] -= 1
    return np.repeat(np.arange(2 * runs + 1) % 2 == 1, lengths)


def disordered_times(rng: np.random.Generator, tuples: int, duration_ms: int, profile: DelayProfile) -> Disordered:
    """Event times of a stream that shows the disorder of `profile`."""
    late = run_pattern(rng, tuples, profile.out_of_order, profile.runs)
    moment = np.sort(rng.integers(1, duration_ms + 1, tuples))
    moment[0], moment[-1] = 1, duration_ms
    row = np.arange(tuples)
    clock = moment[np.maximum.accumulate(np.where(late, 0, row))]
    opens = late & ~np.concatenate(([False], late[:-1]))
    run = np.where(late, np.cumsum(opens) - 1, IN_ORDER)

    late_clock = clock[late]
    delay = _everyday_delays(rng, run[late], profile)
    _add_episodes(rng, delay, late_clock, duration_ms, profile)
    ts = clock.copy()
    # Nothing happened before the stream began; the clock is at least 1, so 1 ms of delay is always left.
    ts[late] -= np.clip(np.rint(delay).astype(np.int64), 1, late_clock)
    return Disordered(ts, moment, run)


def _positive_parts(rng: np.random.Generator, total: int, parts: int) -> Integers:
    """Cut `total` into positive whole numbers, every way equally likely."""
    cuts = np.sort(rng.choice(total - 1, parts - 1, replace=False)) + 1
    return np.diff(np.concatenate(([0], cuts, [total])))


def _everyday_delays(rng: np.random.Generator, run: Integers, profile: DelayProfile) -> Floats:
    """One cause a run, so its tuples are delayed alike."""
    scale = profile.typical_delay_ms * np.exp(0.8 * rng.standard_normal(profile.runs))
    return np.minimum(scale[run] * rng.uniform(0.3, 1.7, len(run)), profile.max_delay_ms)


def _add_episodes(
    rng: np.random.Generator, delay: Floats, clock: Integers, duration_ms: int, profile: DelayProfile
) -> None:
    """Overwrite pieces of `delay`: a backlog arrives oldest first, so its delays shrink while it drains."""
    if not len(delay) or not profile.episodes:
        return
    floor, ceiling = min(EPISODE_FLOOR_MS, profile.max_delay_ms), 0.95 * profile.max_delay_ms
    depths = floor * (ceiling / floor) ** rng.random(profile.episodes)
    # One episode in each of equal shares, so that a few of them still spread as the profile says.
    spread = (np.arange(profile.episodes) + rng.random(profile.episodes)) / profile.episodes
    starts = duration_ms * np.interp(spread, (0.0, 1 - profile.second_half_share, 1.0), (0.0, 0.5, 1.0))
    depths[0], starts[0] = profile.max_delay_ms, max(profile.peak_at * duration_ms, profile.max_delay_ms)
    lengths = 1 + rng.poisson(rng.exponential(profile.backlog, profile.episodes))
    firsts = np.minimum(np.searchsorted(clock, starts), len(delay) - 1)
    # The deepest episode comes last, so that none overwrites its largest delay.
    for first, length, depth in reversed(list(zip(firsts, lengths, depths, strict=True))):
        piece = delay[first : first + length]
        piece[:] = depth * np.linspace(1.0, 0.2, length)[: len(piece)]


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


POSITION_RATE = 326.0
"""Tuples a second in each team's stream: about 450,000 in 23 minutes."""

_POSITION_DELAYS_MS = (22_000, 26_300)
_POSITION_PEAKS = (0.18, 0.85)
MOTION, TEAM = range(2)


def positions(seed: int = 0, minutes: float = 23.0, rate: float = POSITION_RATE) -> Workload:
    """Positions of two teams (s1, s2: ts, arrival, sid, x, y in metres) and the distance join Q×2.

    The largest delays are 22 s and 26.3 s; a stream that is shorter shows as much as fits.

    >>> workload = positions(minutes=0.1)
    >>> workload.streams["s1"].num_rows, workload.streams["s2"].column_names
    (1956, ['ts', 'arrival', 'sid', 'x', 'y'])
    """
    duration_ms = whole_milliseconds(minutes)
    tuples = round(rate * duration_ms / 1000)
    if tuples < 10:
        raise UsageError(f"{minutes:g} minutes at {rate:g} tuples a second are too few tuples for a game")
    paths = play(generator(seed, MOTION), duration_ms)
    teams = []
    for team, (max_delay_ms, peak_at) in enumerate(zip(_POSITION_DELAYS_MS, _POSITION_PEAKS, strict=True)):
        # So many tuples out of order and 1 in 100 of a large delay agree with the published recall without
        # waiting (about 0.5) and with the slack that recall 0.99 took (about 1 s).
        profile = DelayProfile(
            out_of_order=tuples * 56 // 100,
            runs=max(1, tuples // 11),
            max_delay_ms=max_delay_ms,
            peak_at=peak_at,
            episodes=max(1, tuples // 7500),
            backlog=75,
        )
        rng = generator(seed, TEAM, team)
        disordered = disordered_times(rng, tuples, duration_ms, profile)
        player = players_of(rng, disordered, team * TEAM_SIZE, TEAM_SIZE)
        x, y = paths.at(player, disordered.ts)
        teams.append((disordered, player, x, y))
    arrivals = arrival_ranks([disordered.moment for disordered, *_ in teams])
    streams = {
        f"s{team + 1}": pa.table(
            {"ts": EPOCH_MS + disordered.ts, "arrival": arrivals[team], "sid": player + 1, "x": x, "y": y}
        )
        for team, (disordered, player, x, y) in enumerate(teams)
    }
    query = "SELECT * FROM s1 [5 SEC], s2 [5 SEC]\nWHERE dist(s1.x, s1.y, s2.x, s2.y) < 5\nWITH COMPLETE"
    return Workload("soccer", streams, query)


def players_of(rng: np.random.Generator, disordered: Disordered, first: int, players: int) -> Integers:
    """Who each tuple is about; a run is the backlog of one player's sensor."""
    player = rng.integers(first, first + players, len(disordered.ts))
    late = disordered.run != IN_ORDER
    runs = int(disordered.run.max()) + 1
    player[late] = rng.integers(first, first + players, runs)[disordered.run[late]]
    return player
