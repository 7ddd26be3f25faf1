"""Soccer sensor streams with the disorder that was published for the real ones.

Invariant: the recorded data is not shipped; what these streams share with it is the published statistics (Table 4.1,
the sizes and largest delays of the join dataset, mostly small delays with rare large ones, no-wait recall around one
half).

References: 003 §VI; 004 §4.3.1, Table 4.1, Fig. 4.7 and 4.8.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from slackwater.core.errors import UsageError
from slackwater.workloads.motion import TEAM_SIZE, play
from slackwater.workloads.profiles import IN_ORDER, Disordered, Profile, disordered_times
from slackwater.workloads.workload import (
    EPOCH_MS,
    Integers,
    Workload,
    arrival_ranks,
    generator,
    whole_milliseconds,
)

POSITION_RATE = 326.0
"""Tuples a second in each team's stream: about 450,000 in 23 minutes."""

_POSITION_DELAYS_MS = (22_000, 26_300)
_POSITION_PEAKS = (0.18, 0.85)
_MOTION, _TEAM = range(2)


@dataclass(frozen=True)
class _Published:
    """One column of Table 4.1, and what the text says about its large delays."""

    duration_ms: int
    tuples: int
    profile: Profile


_VELOCITIES = {
    1: _Published(
        980_000,
        544_223,
        Profile(313_405, 313_405 - 261_426, 4_490, peak_at=0.52, episodes=20, backlog=40, second_half_share=0.8),
    ),
    # Max-K-slack waited 17.3 s on average here, so the largest delay must have come almost at once.
    2: _Published(
        1_400_000,
        559_211,
        Profile(279_337, 279_337 - 231_260, 16_950, peak_at=0.02, episodes=80, backlog=35, typical_delay_ms=18.0),
    ),
}


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
    paths = play(generator(seed, _MOTION), duration_ms)
    teams = []
    for team, (max_delay_ms, peak_at) in enumerate(zip(_POSITION_DELAYS_MS, _POSITION_PEAKS, strict=True)):
        # So many tuples out of order and 1 in 100 of a large delay agree with the published recall without
        # waiting (about 0.5) and with the slack that recall 0.99 took (about 1 s).
        profile = Profile(
            out_of_order=tuples * 56 // 100,
            runs=max(1, tuples // 11),
            max_delay_ms=max_delay_ms,
            peak_at=peak_at,
            episodes=max(1, tuples // 7500),
            backlog=75,
        )
        rng = generator(seed, _TEAM, team)
        disordered = disordered_times(rng, tuples, duration_ms, profile)
        player = _players(rng, disordered, team * TEAM_SIZE, TEAM_SIZE)
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


def velocities(dataset: int = 1, seed: int = 0) -> Workload:
    """AggrDataset1 or AggrDataset2: one stream s (ts, arrival, vel in m/s) and a sliding SUM over it."""
    if dataset not in _VELOCITIES:
        raise UsageError(f"there are velocity datasets 1 and 2, not {dataset}")
    published = _VELOCITIES[dataset]
    paths = play(generator(seed, _MOTION, dataset), published.duration_ms)
    rng = generator(seed, _TEAM, dataset)
    disordered = disordered_times(rng, published.tuples, published.duration_ms, published.profile)
    player = _players(rng, disordered, 0, 2 * TEAM_SIZE)
    stream = pa.table(
        {
            "ts": EPOCH_MS + disordered.ts,
            "arrival": np.arange(published.tuples, dtype=np.int64),
            "vel": paths.speed_at(player, disordered.ts),
        }
    )
    query = "SELECT SUM(vel) AS total FROM s [RANGE 5 SECONDS SLIDE 100 MILLISECONDS]\nWITH COMPLETE"
    return Workload(f"velocity{dataset}", {"s": stream}, query)


def _players(rng: np.random.Generator, disordered: Disordered, first: int, players: int) -> Integers:
    """Who each tuple is about; a run is the backlog of one player's sensor."""
    player = rng.integers(first, first + players, len(disordered.ts))
    late = disordered.run != IN_ORDER
    runs = int(disordered.run.max()) + 1
    player[late] = rng.integers(first, first + players, runs)[disordered.run[late]]
    return player
