"""Positions of two soccer teams, with the disorder that was published for the real ones; the streams of the demo.

Invariant: the recorded data is not shipped; what these streams share with it is the published statistics (sizes and
largest delays, mostly small delays with rare large ones, recall without waiting around one half).

References: 003 §VI; 004 §4.3.1, Fig. 4.7 and 4.8.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from slackwater.core.errors import UsageError
from slackwater.workloads.motion import TEAM_SIZE, play
from slackwater.workloads.profiles import IN_ORDER, DelayProfile, Disordered, disordered_times
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
