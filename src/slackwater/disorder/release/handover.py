"""Handing the synchronizer of a release over to one that stands by itself, and taking it back.

A release that synchronizes its streams itself is faster than two stages; where a strategy wants to see tuples as they
leave their slack, the synchronizer must stand apart.

Invariant: what is held is held in exactly one place, before and after; T-sync and the watermark go along. Tuple release
alone: there heaps 0 to m-1 are slack buffers, and m to 2m-1 the synchronizer's.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from slackwater.core.time import BEFORE_ALL
from slackwater.disorder.release import state as st
from slackwater.disorder.release.release import Release
from slackwater.disorder.release.synchronizer import NodeSynchronizer

ALONG = [st.T_SYNC, st.WATERMARK, st.SEQUENCE, st.MAX_TS, st.NOW]


def separate(release: Release, synchronizer: NodeSynchronizer) -> None:
    """From now on the release keeps its streams apart, and the synchronizer goes on where it stood."""
    held = release.state.columns()
    behind = held["heap"] >= release.spec.streams
    synchronizer.hold_again({name: column[behind] for name, column in held.items()})
    release.state.fill({name: column[~behind] for name, column in held.items()})
    clock = synchronizer.state.clock
    clock.scalars[ALONG] = release.state.clock.scalars[ALONG]
    clock.promised_watermark[:] = BEFORE_ALL
    release.spec = replace(release.spec, external_sync=True)


def unite(release: Release, synchronizer: NodeSynchronizer) -> None:
    """From now on the release synchronizes its streams itself."""
    held, waiting = release.state.columns(), synchronizer.state.columns()
    release.state.fill({name: np.concatenate([held[name], waiting[name]]) for name in held})
    synchronizer.hold_again({name: column[:0] for name, column in waiting.items()})
    clock = release.state.clock
    clock.scalars[ALONG] = np.maximum(synchronizer.state.clock.scalars[ALONG], clock.scalars[ALONG])
    # Only an idle stream has sent a watermark, and the release knows for itself which ones are idle.
    clock.promised_watermark[:] = BEFORE_ALL
    release.spec = replace(release.spec, external_sync=False)
