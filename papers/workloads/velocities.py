"""Velocities of soccer players with the disorder that was published for the recorded ones.

Invariant: the recorded data is not shipped; what these streams share with it is the published statistics (Table 4.1).

References: 004 §4.3.1, Table 4.1, Fig. 4.7 and 4.8.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from slackwater.core.errors import UsageError
from slackwater.workloads.soccer import MOTION, TEAM, TEAM_SIZE, DelayProfile, disordered_times, play, players_of
from slackwater.workloads.workload import EPOCH_MS, Workload, generator


@dataclass(frozen=True)
class _Published:
    """One column of Table 4.1, and what the text says about its large delays."""

    duration_ms: int
    tuples: int
    profile: DelayProfile


_VELOCITIES = {
    1: _Published(
        980_000,
        544_223,
        DelayProfile(313_405, 313_405 - 261_426, 4_490, peak_at=0.52, episodes=20, backlog=40, second_half_share=0.8),
    ),
    # Max-K-slack waited 17.3 s on average here, so the largest delay must have come almost at once.
    2: _Published(
        1_400_000,
        559_211,
        DelayProfile(279_337, 279_337 - 231_260, 16_950, peak_at=0.02, episodes=80, backlog=35, typical_delay_ms=18.0),
    ),
}


def velocities(dataset: int = 1, seed: int = 0) -> Workload:
    """AggrDataset1 or AggrDataset2: one stream s (ts, arrival, vel in m/s) and a sliding SUM over it."""
    if dataset not in _VELOCITIES:
        raise UsageError(f"there are velocity datasets 1 and 2, not {dataset}")
    published = _VELOCITIES[dataset]
    paths = play(generator(seed, MOTION, dataset), published.duration_ms)
    rng = generator(seed, TEAM, dataset)
    disordered = disordered_times(rng, published.tuples, published.duration_ms, published.profile)
    player = players_of(rng, disordered, 0, 2 * TEAM_SIZE)
    stream = pa.table(
        {
            "ts": EPOCH_MS + disordered.ts,
            "arrival": np.arange(published.tuples, dtype=np.int64),
            "vel": paths.speed_at(player, disordered.ts),
        }
    )
    query = "SELECT SUM(vel) AS total FROM s [RANGE 5 SECONDS SLIDE 100 MILLISECONDS]\nWITH COMPLETE"
    return Workload(f"velocity{dataset}", {"s": stream}, query)
