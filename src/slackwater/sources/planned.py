"""Plans of queries over tables, by what the tables say: rates, and how many rows operators have.

Invariant: what is counted is the end of each table, and at most SAMPLE rows of it, however long it is. A plan changes
which way a query is computed, and never its results.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from slackwater.core.batch import TS
from slackwater.expressions.columnar import Coding
from slackwater.language.bound import BoundQuery
from slackwater.operators.contract import BuildContext
from slackwater.operators.instant.spec import InstantRelation
from slackwater.operators.instant.store import WindowStore
from slackwater.operators.instant.table_statistics import take_statistics
from slackwater.plan.instant import on_engines_by
from slackwater.plan.physical import PhysicalPlan
from slackwater.plan.planner import plan
from slackwater.plan.rate_model import Expected
from slackwater.sources.codebook import Codebook
from slackwater.sources.encode import GOOD
from slackwater.sources.expected import expected_of
from slackwater.sources.ingest import ingest

SAMPLE = 1 << 17
"""Rows of a table that are looked at."""
NEWEST = 0.99
"""Event times beyond this quantile may be wrong, and are not gone by."""


def plan_over(
    query: BoundQuery,
    tables: Mapping[str, pa.Table],
    time_unit: str,
    *,
    count_only: bool = False,
    identities: bool = False,
) -> PhysicalPlan:
    """The plan of a query over recorded streams."""
    expected = expected_of(query, tables, time_unit)
    made = plan(query, count_only=count_only, identities=identities, expected=expected)
    spec = made.operator.as_relations
    return made if spec is None else _measured(made, spec, tables, time_unit, expected)


def _measured(
    made: PhysicalPlan,
    spec: InstantRelation,
    tables: Mapping[str, pa.Table],
    time_unit: str,
    expected: Mapping[str, Expected],
) -> PhysicalPlan:
    """The plan by table statistics of the newest windows that all streams have filled; as it is where there are
    none."""
    codebook = Codebook()
    found, rates = [], {}
    for stream, one in enumerate(made.inputs):
        table = tables[one.stream.source]
        taken = ingest(one, table.slice(max(0, len(table) - SAMPLE)), codebook, time_unit)
        good = taken.reasons == GOOD
        keep = good & taken.passes
        if not keep.any() or one.stream.source not in expected:
            return made
        rates[stream] = expected[one.stream.source].rate * float(keep.sum() / good.sum())
        places = [place for _, place in spec.places[stream]]
        found.append((taken.words[TS, keep], taken.words[places][:, keep]))
    newest = min(float(np.quantile(ts, NEWEST)) for ts, _ in found)
    at = (int(newest) // spec.slide + 1) * spec.slide
    stores = []
    for ts, words in found:
        stores.append(WindowStore(len(words)))
        stores[-1].append(ts[ts < at], words[:, ts < at])
    statistics = take_statistics(spec.as_stated, stores, at, BuildContext(Coding(codebook), codebook.table))
    return on_engines_by(made, spec, statistics, rates)
