"""A cap on slack may change from one start to the next: what was learned stays."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from slackwater.language.bind import bind
from slackwater.operators.pipeline import Epochs, Pipeline
from slackwater.plan.planner import plan
from slackwater.runtime.kernels import kernel_for
from slackwater.sources.codebook import Codebook
from slackwater.sources.files import schema_of
from slackwater.sources.replay import replay

JOIN = "SELECT a.v FROM a [1 s], b [1 s] WHERE a.v = b.v WITH RECALL 0.95 OVER 5 SECONDS"
SUM = "SELECT SUM(v) AS total FROM a [1 s] WITH ERROR 5%"


def streams() -> dict[str, pa.Table]:
    rng = np.random.default_rng(1)
    made = {}
    for name in ("a", "b"):
        ts = rng.integers(0, 30_000, 1500)
        arrival = ts + rng.exponential(300, 1500).astype(int)
        order = np.argsort(arrival, kind="stable")
        made[name] = pa.table({"ts": ts[order], "arrival": arrival[order], "v": ts[order] % 5})
    return made


def kernel(text: str) -> Pipeline:
    return kernel_for(
        plan(bind(text, {n: schema_of(n, t, "ts") for n, t in streams().items()}).query), Epochs(), Codebook()
    )


@pytest.mark.parametrize("query", [JOIN, SUM])
def test_a_query_goes_on_with_what_it_has_learned_under_another_cap(query: str) -> None:
    first = kernel(query)
    tables = {name: table for name, table in streams().items() if f"{name} [" in query}
    physical = plan(bind(query, {n: schema_of(n, t, "ts") for n, t in tables.items()}).query)
    for batch in replay(physical, tables, "ms", None).batches(200):
        first.absorb(batch)
        for _ in first.advance():
            pass
    kept = list(first.snapshot_delta())
    learned = first.release.controller.as_arrays()
    assert first.release.slack > 0
    capped = kernel(f"{query} AT MOST 1 HOUR")
    capped.restore(kept)
    found = capped.release.controller.as_arrays()
    assert found.keys() == learned.keys()
    assert all(np.array_equal(found[name], learned[name]) for name in learned)
    assert capped.observe().quality == first.observe().quality
