"""Estimates on every runtime: what stands beside the answer, and that shards learn together."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tests.runtime.streams import Runtime, arrived

QUERY = "SELECT k, COUNT(*) AS n, SUM(x) AS total FROM a [RANGE 500 MS] GROUP BY k WITH ERROR 5% ESTIMATED"
JOINED = (
    "SELECT COUNT(*) AS n FROM (SELECT a.k AS k FROM a [100 MS], b [100 MS] WHERE a.k = b.k) j [500 MS]"
    " WITH ERROR 10% ESTIMATED"
)


def delayed(streams: str, seed: int) -> dict[str, pa.Table]:
    """A tuple each second millisecond, half of them late by 300 ms on average."""
    rng = np.random.default_rng(seed)
    ts = 2 * np.arange(10_000)
    order = np.argsort(ts + rng.exponential(300, len(ts)) * (rng.random(len(ts)) < 0.5), kind="stable")
    rows = [(streams[i % len(streams)], int(ts[i]), int(rng.integers(2)), 1.0 + float(rng.random())) for i in order]
    return arrived({"k": pa.int64(), "x": pa.float64()}, *rows)


def test_every_runtime_gives_answers_with_estimates_beside_them(runtime: Runtime) -> None:
    for query, streams, least in ((QUERY, delayed("a", 1), 20), (JOINED, delayed("ab", 2), 5)):
        for epoch in runtime.offered("1", "250 ms"):
            rows = runtime.run(query, streams, epoch).results.to_pandas()
            known = rows[rows["n_low"].notna() & (rows["n_estimate"] > rows["n"])]
            assert len(known) >= least, "answers close before all has come, and say so"
            assert (known["n_low"] >= known["n"]).all()
            assert (known["n_low"] <= known["n_estimate"]).all()
            assert (known["n_estimate"] <= known["n_high"]).all()


def test_the_judge_measures_the_estimates(runtime: Runtime) -> None:
    for query, streams in ((QUERY, delayed("a", 3)), (JOINED, delayed("ab", 4))):
        for epoch in runtime.offered("1", "250 ms"):
            report, verdict = runtime.judged(query, streams, epoch)
            assert verdict.sound
            bound = 0.05 if query == QUERY else 0.1
            off = {end for end, error in verdict.measurements if error > bound + 1e-9}
            ends = {end for end, _ in verdict.measurements}
            quality = report["measured_quality"]
            assert abs(1 - len(off) / len(ends) - quality["measured"]) < 0.03
