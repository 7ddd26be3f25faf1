"""Disorder made to measure: how many tuples are out of order, in how many runs, and how far behind.

Invariant: the clock of a stream moves with its in-order tuples only, and every other tuple is
set at least 1 ms behind the clock at its place. So the counts of out-of-order and correlated tuples are those asked
for, exactly, whatever the random numbers were.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slackwater.core.errors import UsageError
from slackwater.workloads.workload import Flags, Floats, Integers

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
