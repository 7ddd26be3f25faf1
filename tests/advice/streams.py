"""Random disordered streams, and what a run over them keeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

import slackwater as sw
from slackwater.advice.arrivals import history_of
from slackwater.advice.joins import EnumeratedJoin, KeyedJoin, keys_of
from slackwater.advice.over import AdviceRequest, advise_over
from slackwater.advice.tally import Tally, grid_of
from slackwater.cli.verify import judge_run
from slackwater.core.time import SECOND
from slackwater.sources.binding import bind_to_tables, plan_over
from slackwater.sources.replay import replay
from slackwater.verify import Verdict

Tables = Mapping[str, pa.Table]
EPOCHS = (sw.Epochs(each_tuple=True), sw.Epochs(tuples=7), sw.Epochs(tuples=60), sw.Epochs(span=100_000))
SLACKS = (0, 1, 10, 50, 100, 250, 400, 777)
"""Milliseconds; some are multiples of the steps in which event times rise, where it matters what happens just there."""


def disordered(seed: int, streams: int, count: int, step: int, late: float = 0.4) -> dict[str, pa.Table]:
    """Streams whose tuples come late by some hundred milliseconds, and which are behind each other."""
    rng = np.random.default_rng(seed)
    times, came = [], []
    for number in range(streams):
        ts = np.sort(rng.integers(0, 4000 // step, count)) * step
        delay = np.where(rng.random(count) < late, rng.exponential(300, count), 0)
        times.append(ts)
        came.append(ts + delay + number * rng.integers(0, 200))
    order = np.argsort(np.concatenate(came), kind="stable")
    arrival = np.empty(len(order), np.int64)
    arrival[order] = np.arange(len(order))
    tables = {}
    for number in range(streams):
        mine = arrival[number * count : (number + 1) * count]
        rows = np.argsort(mine)
        key = [int(k) if k else None for k in rng.integers(0, 4, count)]
        value = rng.integers(-3, 10, count)
        tables["abcd"[number]] = pa.table(
            {"ts": times[number][rows], "arrival": mine[rows], "key": key, "v": value, "w": value * 0.37}
        )
    return tables


def kept_by_runs(query: str, tables: Tables, epochs: sw.Epochs, slacks: Sequence[int]) -> list[int]:
    """How many results a run gives with each slack, in milliseconds."""
    return [sw.replay(f"{query} WITH DELAY {k} MS", tables, epochs=epochs).results.num_rows for k in slacks]


def advised(query: str, tables: Tables, epochs: sw.Epochs, **asked: Any) -> sw.Advice:
    """The advice, with all slacks looked at."""
    bound = bind_to_tables(query, tables, "ts").query
    return advise_over(bound, tables, "ms", AdviceRequest(epochs, tuple(1000 * k for k in SLACKS), **asked))


def both_ways(query: str, tables: Tables, epochs: sw.Epochs) -> tuple[Tally, Tally]:
    """The same join counted by its key, and by all its results."""
    bound = bind_to_tables(query, tables, "ts").query
    plan = plan_over(bound, tables, "ms", identities=True)
    arrivals = replay(plan, tables, "ms")
    history = history_of(plan, arrivals, epochs)
    keys = keys_of(plan)
    assert keys is not None
    found = []
    for join in (KeyedJoin.of(history, plan, keys), EnumeratedJoin(history, plan, arrivals.codebook)):
        found.append(Tally.of(grid_of(history.most, fine=False), history.streams, len(history.batch)))
        join.count(found[-1])
    return found[0], found[1]


def verdict_on(query: str, tables: Tables, epochs: sw.Epochs) -> Verdict:
    """What the judge says of a run."""
    from slackwater.runtime.local.run import LocalRun

    bound = bind_to_tables(query, tables, "ts").query
    plan = plan_over(bound, tables, "ms", identities=True)
    arrivals = replay(plan, tables, "ms")
    run = LocalRun(plan, arrivals, epochs)
    rows = list(run.tables())
    return judge_run(bound, run, arrivals, rows, False, None, SECOND).verdict
