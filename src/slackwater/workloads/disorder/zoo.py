"""The zoo: one workload for each kind of disorder, all over the same two streams, so that only the disorder differs.

Invariant: members of one seed and length start from the same tuples. What happens at set times happens at set shares
of the length, so a short workload shows all of it, on a smaller scale.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

import numpy as np
import pyarrow as pa

from slackwater.core.errors import UsageError
from slackwater.workloads.disorder.lateness import (
    ahead,
    behind,
    bursts,
    cycle,
    dated_1970,
    drift,
    duplicates,
    exponential,
    heavy_tail,
    jumps,
    lag,
    offline,
    shift,
    stops,
)
from slackwater.workloads.disorder.model import Disorder, apply_to_all
from slackwater.workloads.workload import EPOCH_MS, Workload, generator, whole_milliseconds

RATE = 75.0
"""Tuples a second in each stream."""
KEYS, SOURCES = 30, 50
USUAL_MINUTES = 12.0

JOIN = "SELECT a.v AS one, b.v AS other\nFROM a [RANGE 2 SECONDS], b [RANGE 2 SECONDS]\nWHERE a.key = b.key"
SUM = "SELECT SUM(v) AS total FROM a [RANGE 5 SECONDS SLIDE 250 MILLISECONDS]"

_TUPLES = 1


class DisorderKind(Enum):
    """What can be expected of a controller."""

    ALIKE = "alike"
    """Delays before and after are drawn alike: what was learnt holds."""
    CHANGING = "changing"
    """Delays change: the first time cannot be known, the next one can."""
    WRONG_CLOCKS = "wrong clocks"
    """Delays are alike, but some tuples say a time that cannot be right; the others should not suffer."""


@dataclass(frozen=True)
class ZooMember:
    """One kind of disorder."""

    name: str
    says: str
    kind: DisorderKind
    model: Callable[[float], Disorder]
    """From the length of the streams in seconds."""
    known_after: float = 1 / 12
    """The share of the length after which a controller has seen what there is to see (the first event of its kind)."""


def _spans(length: float) -> list[tuple[float, float]]:
    return [(length * 2 / 12, length * 4 / 12), (length * 6 / 12, length * 8 / 12)]


def _lags(length: float) -> Disorder:
    return exponential(0.1) + lag([length * begin / 12 for begin in (2, 5, 8)], length / 12, length / 36)


def _stop(length: float) -> Disorder:
    for_a_while = stops(length * 5 / 12, length * 6 / 12, stream=1) + stops(length * 8 / 12, length * 9 / 12, stream=0)
    return exponential() + for_a_while + stops(length * 11 / 12, stream=1)


_MEMBERS = (
    ZooMember(
        "exponential", "delays are independent, 0.2 s on average", DisorderKind.ALIKE, lambda length: exponential()
    ),
    ZooMember(
        "heavy_tail",
        "half of the tuples arrive within 0.1 s, 1 in 100 after more than 4 s, the last after half a minute",
        DisorderKind.ALIKE,
        lambda length: heavy_tail(),
    ),
    ZooMember(
        "bursts",
        "every 20 s or so, 3 in 10 tuples are stuck for up to 3 s and come all at once",
        DisorderKind.ALIKE,
        lambda length: exponential(0.1) + bursts(),
    ),
    ZooMember(
        "shift",
        "delays grow tenfold for two minutes, and once more four minutes later",
        DisorderKind.CHANGING,
        lambda length: shift(exponential(0.1), _spans(length)),
        known_after=4 / 12,
    ),
    ZooMember(
        "cycle",
        "delays grow tenfold and fall again, every four minutes",
        DisorderKind.CHANGING,
        lambda length: cycle(exponential(0.1), length / 3),
        known_after=4 / 12,
    ),
    ZooMember(
        "lagging_partition",
        "one partition of four falls behind by up to 20 s for a minute, three times",
        DisorderKind.CHANGING,
        _lags,
        known_after=3 / 12,
    ),
    ZooMember(
        "offline",
        "one device in ten is offline for 20 to 60 s, three times each, and then uploads what it kept",
        DisorderKind.CHANGING,
        lambda length: exponential(0.1) + offline(0.1, length / 3, length / 36, length / 12),
        known_after=4 / 12,
    ),
    ZooMember(
        "ahead",
        "the clock of one device in fifty is 30 minutes ahead",
        DisorderKind.WRONG_CLOCKS,
        lambda length: exponential() + ahead(),
    ),
    ZooMember(
        "jumps",
        "now and then 3 in 100 tuples are dated ahead, by a second to three days",
        DisorderKind.WRONG_CLOCKS,
        lambda length: exponential() + jumps(),
    ),
    ZooMember(
        "behind",
        "the clock of one device in fifty is 3 hours behind, and 2 in 1000 tuples are dated 1970",
        DisorderKind.WRONG_CLOCKS,
        lambda length: exponential() + behind() + dated_1970(),
    ),
    ZooMember(
        "drift",
        "every clock gains or loses up to 0.5 %, and is set right every three minutes",
        DisorderKind.ALIKE,
        lambda length: exponential(0.1) + drift(),
    ),
    ZooMember(
        "duplicates",
        "1 tuple in 20 is delivered twice, the second time a second later on average",
        DisorderKind.ALIKE,
        lambda length: exponential() + duplicates(),
    ),
    ZooMember(
        "stop",
        "stream b falls silent for a minute, then a, and b for good a minute before the end",
        DisorderKind.ALIKE,
        _stop,
    ),
)
ZOO: dict[str, ZooMember] = {member.name: member for member in _MEMBERS}
"""Every member by name."""


def zoo(name: str, seed: int = 0, minutes: float = USUAL_MINUTES) -> Workload:
    """Streams `a` and `b` with the disorder of that member, and two questions: a join (`query`), a sum (`further`).

    Rows are `ts` (ms, as the source says), `arrival`, `key`, `v` (above 0), `source` (a device), `sent` (ms, when it
    really happened) and `moment` (ms, when it arrived). Queries should not read `sent`: real streams do not have it.

    >>> workload = zoo("heavy_tail", minutes=0.5)
    >>> workload.streams["a"].column_names
    ['ts', 'arrival', 'key', 'v', 'source', 'sent', 'moment']
    >>> sorted(workload.further)
    ['sum']
    """
    if name not in ZOO:
        raise UsageError(f"there is no '{name}' in the zoo of disorder; there are {', '.join(ZOO)}")
    length_ms = whole_milliseconds(minutes)
    tables = {stream: _tuples(seed, number, length_ms) for number, stream in enumerate("ab")}
    model = ZOO[name].model(length_ms / 1000)
    streams = {
        stream: table.select(["ts", "arrival", "key", "v", "source", "sent", "moment"])
        for stream, table in apply_to_all(tables, model, seed).items()
    }
    return Workload(f"zoo/{name}", streams, f"{JOIN}\nWITH COMPLETE", {"sum": f"{SUM}\nWITH COMPLETE"})


def _tuples(seed: int, stream: int, length_ms: int) -> pa.Table:
    """Tuples at random times, in order, from devices and of keys that are evenly spread."""
    rng = generator(seed, _TUPLES, stream)
    count = max(1, round(RATE * length_ms / 1000))
    ts = EPOCH_MS + np.sort(rng.integers(0, length_ms, count))
    return pa.table(
        {
            "ts": ts,
            "key": rng.integers(0, KEYS, count),
            "v": rng.gamma(4.0, 25.0, count),
            "source": rng.integers(0, SOURCES, count),
            "sent": ts,
        }
    )
