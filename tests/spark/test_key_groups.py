"""How many key groups a query begins with; no session is needed to say so."""

from __future__ import annotations

import pyarrow as pa
import pytest

from slackwater.language.bind import bind
from slackwater.plan.planner import plan
from slackwater.runtime.spark.started import cut_of
from slackwater.sources.files import schema_of

TABLE = pa.table({"ts": [0], "k": [1], "x": [0.5]})
PAIR = "SELECT a.x FROM a [5 s], b [5 s] WHERE {} WITH DELAY 1 SECOND"


def groups(condition: str, shards: int, before: int | None = None, queries: int = 1) -> int:
    planned = plan(bind(PAIR.format(condition), {name: schema_of(name, TABLE, "ts") for name in "ab"}).query)
    alike = {f"q{number}": planned for number in range(queries)}
    return cut_of(alike, shards, alone=queries == 1, before=before).groups


@pytest.mark.parametrize(("shards", "wanted"), [(1, 4), (2, 4), (4, 4), (6, 6)])
def test_a_join_without_a_key_has_few_since_each_has_copies(shards: int, wanted: int) -> None:
    assert groups("abs(a.x - b.x) < 1", shards) == wanted


def test_a_join_by_a_key_has_many() -> None:
    assert groups("a.k = b.k AND abs(a.x - b.x) < 1", 2) == 16


def test_a_checkpoint_keeps_its_number() -> None:
    assert groups("abs(a.x - b.x) < 1", 2, before=16) == 16


@pytest.mark.parametrize(("shards", "wanted"), [(2, 4), (6, 6)])
def test_each_of_many_queries_has_fewer(shards: int, wanted: int) -> None:
    assert groups("a.k = b.k", shards, queries=4) == wanted
