"""The six queries of the smart plugs, with windows of seconds: exact by the judge in every placement of operators,
however the stream is cut, with late tuples; and the same while the plan changes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from itertools import product

import pyarrow as pa
import pytest

from papers.workloads.delays import Delays
from papers.workloads.plug_queries import PLUG_QUERIES
from papers.workloads.plugs import smart_plugs
from slackwater.cli.prepare import Prepared, epochs_of
from slackwater.expressions.relational import Placement, operators
from slackwater.operators.instant import adapting
from slackwater.operators.instant.fragments import COLUMN, ROW
from slackwater.operators.instant.spec import InstantRelation
from slackwater.plan.physical import PhysicalPlan
from slackwater.runtime.local.run import LocalRun
from slackwater.sources.binding import bind_to_tables
from slackwater.sources.replay import replay
from slackwater.verify import Verdict
from tests.effort import ALL_ON_SPARK
from tests.operators.instant.test_changing_plans import Restless
from tests.runtime.streams import Runtime

CUTS = ("7", "1", "25", "900 ms")


@dataclass(frozen=True)
class Forced(Prepared):
    """A query whose operators are placed so, or by whom else."""

    placement: Placement | None = None
    planner: adapting.Planner | None = None

    def plan(self, count_only: bool = False, identities: bool = False) -> PhysicalPlan:
        physical = super().plan(count_only, identities)
        spec = physical.operator
        assert isinstance(spec, InstantRelation)
        placed = replace(spec, relation=spec.as_stated, placement=self.placement, planner=self.planner)
        return replace(physical, operator=placed, placed=None)


def plugs(seed: int) -> pa.Table:
    """Some seconds of a few plugs, whose tuples come late now and then."""
    return smart_plugs(seed, 0.1, 5, Delays(0.7, 5000)).streams["plugs"]


def prepared(name: str, seed: int, **others) -> Forced:
    text = PLUG_QUERIES[name].replace("MINUTE", "SECOND") + " WITH DELAY 500 MS"
    tables = {"plugs": plugs(seed)}
    return Forced(bind_to_tables(text, tables, "ts"), tables, None, "ms", **others)


def placements(one: Forced) -> list[Placement]:
    spec = one.plan().operator
    assert isinstance(spec, InstantRelation)
    return list(product((ROW, COLUMN), repeat=len(operators(spec.relation))))


def assert_exact(*verdicts: Verdict) -> None:
    for verdict in verdicts:
        assert (verdict.missing_unexplained, verdict.spurious, verdict.out_of_order) == (0, 0, 0)
        assert verdict.results
    assert any(verdict.missing_late or verdict.displaced for verdict in verdicts), "some tuples are late"


def rows(one: Forced, placement: Placement, epoch: str) -> Counter[tuple[object, ...]]:
    """The results, with floats to nine digits."""
    physical = replace(one, placement=placement).plan()
    run = LocalRun(physical, replay(physical, one.sources, one.time_unit), epochs_of(epoch))
    found = pa.concat_tables(run.tables()).to_pylist()
    return Counter(
        tuple(f"{value:.9g}" if isinstance(value, float) else value for value in row.values()) for row in found
    )


@pytest.mark.local_only("shards are asked for some placements below")
@pytest.mark.parametrize("name", PLUG_QUERIES)
def test_every_placement_is_exact(runtime: Runtime, name: str) -> None:
    """For each cut one placement is judged, and all others give the same."""
    cases = [(prepared(name, seed), epoch) for seed, epoch in enumerate(CUTS)]
    first, *others = placements(cases[0][0])
    assert_exact(*(runtime.judge(replace(one, placement=first), epoch) for one, epoch in cases))
    wanted = [rows(one, first, epoch) for one, epoch in cases]
    # `make test` takes some twelve of many, an odd number apart, so that no operator is always on one engine.
    for at, placement in enumerate(others[:: 1 if ALL_ON_SPARK else len(others) // 12 | 1]):
        one, epoch = cases[at % len(cases)]
        assert rows(one, placement, epoch) == wanted[at % len(cases)]


@pytest.mark.end_to_end
@pytest.mark.parametrize("name", PLUG_QUERIES)
def test_placements_are_exact_in_shards(runtime: Runtime, name: str) -> None:
    one = prepared(name, 5)
    every = placements(one)
    verdict = runtime.judge(replace(one, placement=every[len(every) // 3]), "20")
    assert verdict.sound
    assert verdict.results


def test_plans_that_change_are_exact(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    for constant in ("FIRST", "SHORTEST", "LONGEST"):
        monkeypatch.setattr(adapting, constant, 1)
    queries = enumerate(("q1", "q6"))
    assert_exact(*(runtime.judge(prepared(name, seed, planner=Restless(seed)), "20") for seed, name in queries))


def test_the_report_says_which_engines_have_computed_a_query(runtime: Runtime) -> None:
    ran = runtime.run(PLUG_QUERIES["q5"].replace("MINUTE", "SECOND"), {"plugs": plugs(1)}, "50")
    assert ran.report["engines"]["changed"] == 0
    assert ran.report["engines"]["row"] % 2 == 0


@pytest.mark.parametrize(
    "query",
    [
        """SELECT p.plug, COUNT(p.household) AS n FROM plugs [RANGE 3 SECONDS SLIDE 1 SECOND] p,
        (SELECT house, MAX(value) AS top FROM plugs [RANGE 5 SECONDS SLIDE 1 SECOND] GROUP BY house) m
        WHERE p.house = m.house AND p.value >= m.top GROUP BY p.plug""",
        """SELECT a.plug, b.value FROM plugs [RANGE 2 SECONDS SLIDE 1 SECOND] a,
        plugs [RANGE 1 SECOND SLIDE 1 SECOND] b WHERE a.house = b.house AND a.household = b.household""",
        """SELECT DISTINCT a.house FROM plugs [RANGE 2 SECONDS SLIDE 1 SECOND] a WHERE NOT EXISTS
        (SELECT * FROM plugs [RANGE 1 SECOND SLIDE 1 SECOND] b WHERE b.house = a.house AND b.value > 20)""",
    ],
)
def test_windows_of_one_source_may_read_different_columns(runtime: Runtime, query: str) -> None:
    verdict = runtime.verify(query + " WITH DELAY 500 MS", {"plugs": plugs(2)}, "30")
    assert verdict.sound
    assert verdict.results
