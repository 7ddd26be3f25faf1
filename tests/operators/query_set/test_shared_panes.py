"""Panes kept for several aggregates: each answers as it does with panes of its own, whatever comes and goes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as some

from slackwater.core.quality import Complete, Delay, NoWait
from slackwater.core.time import MILLISECOND, SECOND
from slackwater.operators.pipeline import Epochs
from slackwater.operators.query_set.kernel import FAILED, PAUSED, RUNNING
from slackwater.plan.physical import PhysicalPlan
from slackwater.plan.query_set import QuerySetPlan
from slackwater.runtime.kernels import QuerySetKernel
from tests.effort import tried
from tests.operators.query_set.test_kernel import Host, alone, counts
from tests.runtime.test_query_sets import planned, streams

WINDOWS = ("[1 SECOND]", "[2 SECONDS SLIDE 1 SECOND]", "[3 SECONDS SLIDE 500 MS]", "[700 MS]", "[1500 MS SLIDE 600 MS]")
TARGETS = ("NO WAIT", "DELAY 300 MS", "DELAY 2 SECONDS", "COMPLETE", "ERROR 5%")
FILTERS = ("", "WHERE k > 1", "WHERE k >= 1 AND k < 4", "WHERE k = 2", "WHERE k > 0 AND v < 50")
SHAPES = (
    "SELECT k, SUM(v) AS s, MAX(w) AS m FROM a {} {} GROUP BY k WITH {}",
    "SELECT SUM(v) AS s FROM a {} {} WITH {}",
)

aggregates = some.builds(
    str.format,
    some.sampled_from(SHAPES),
    some.sampled_from(WINDOWS),
    some.sampled_from(FILTERS),
    some.sampled_from(TARGETS),
)
joins = some.builds(
    "SELECT a.v, b.v AS w FROM a [1 SECOND], b [{}] WHERE a.k = b.k {} WITH {}".format,
    some.sampled_from(("500 MS", "1 SECOND")), some.sampled_from(("", "AND a.k > 1")), some.sampled_from(TARGETS[:4]),
)  # fmt: skip
texts = some.one_of(aggregates, aggregates, joins)


class Apart(QuerySetPlan):
    """A plan of queries that all have panes of their own."""

    def with_query(self, name: str, plan: PhysicalPlan) -> QuerySetPlan:
        made = super().with_query(name, plan)
        return replace(made, places={key: replace(place, panes=None) for key, place in made.places.items()})


class HostApart(Host):
    """As `Host`, without shared panes, and never stopped."""

    def restart(self) -> None:
        pass

    def __init__(
        self, plans: Mapping[str, PhysicalPlan], tables: dict[str, pa.Table], epochs: Epochs, step: int
    ) -> None:
        super().__init__(plans, tables, epochs, step)
        self.kernel = QuerySetKernel(Apart.of(plans), epochs, self.reading.codebook)


class PersistingHost(Host):
    """As `Host`, and all is persisted after every step."""

    def _advance(self, end: bool) -> None:
        super()._advance(end)
        self.store.write(self.kernel)


def change(at: int, what: str, name: str, plan: PhysicalPlan) -> Callable[[Host], None]:
    """A change that is made where it can be."""

    def made(host: Host) -> None:
        known = name in host.kernel.names
        status = host.kernel.status(name).status if known else ""
        match what:
            case "add" if not known:
                host.add(name, plan)
            case "drop" if known and len(host.kernel.names) > 1:
                host.kernel.drop(name)
            case "pause" if status == RUNNING:
                host.kernel.pause(name)
            case "resume" if status == PAUSED:
                host.kernel.resume(name)
            case "target" if known and status != FAILED:
                qualities = (NoWait(), Delay(1200 * MILLISECOND), Complete())
                host.kernel.set_target(name, qualities[at % 3])
            case "restart":
                host.restart()

    return made


# A query that goes comes back under its name, and one that is paused goes on.
episodes = some.tuples(
    some.integers(1, 9), some.sampled_from([("pause", "resume"), ("drop", "add"), ("target", "restart")]),
    some.integers(0, 3), some.integers(1, 4), some.booleans(),
)  # fmt: skip


@tried(36)
@given(
    some.lists(texts, min_size=3, max_size=5), some.lists(episodes, min_size=1, max_size=5), some.integers(0, 99),
    some.booleans(), some.integers(20, 35),
)  # fmt: skip
def test_each_query_answers_as_with_panes_of_its_own_whatever_comes_and_goes(
    queries: list[str], history: list[tuple[int, tuple[str, str], int, int, bool]], seed: int, spans: bool, step: int
) -> None:
    tables = streams(seed, 900)
    plans = planned({f"q{n}": text for n, text in enumerate(queries)}, tables)
    epochs = Epochs(span=SECOND // 3) if spans else Epochs()
    changes: dict[int, Callable[[Host], None]] = {}

    def then(at: int, what: str, name: str) -> None:
        one, before = change(at, what, name, plans[name]), changes.get(at, lambda host: None)
        changes[at] = lambda host: (before(host), one(host))  # type: ignore[assignment, func-returns-value]

    for at, (first, second), number, length, restarts in history:
        name = f"q{number % len(queries)}"
        then(at, first, name)
        if restarts:
            then(at + length - 1, "restart", name)
        then(at + length, second, name)
    begun = {name: plan for n, (name, plan) in enumerate(plans.items()) if n < 4}
    shared = PersistingHost(begun, tables, epochs, step).run(changes)
    apart = HostApart(begun, tables, epochs, step).run(changes)
    assert sorted(shared.kernel.names) == sorted(apart.kernel.names)
    for name, given_alone in apart.given.items():
        assert shared.given[name].results == given_alone.results, name
        assert shared.given[name].late == given_alone.late, name
    for name in shared.kernel.names:
        assert counts(shared.kernel.observe(name)) == counts(apart.kernel.observe(name)), name
        assert shared.kernel.status(name) == apart.kernel.status(name), name


def test_panes_are_kept_and_persisted_once_and_every_query_answers_as_alone() -> None:
    tables = streams(31, 2400)
    shape, targets = "SELECT k, SUM(v) AS s FROM a [2 SECONDS SLIDE 1 SECOND] GROUP BY k WITH ", TARGETS[:4]
    plans = planned({f"q{n}": shape + target for n, target in enumerate(targets)}, tables)
    rows: list[tuple[int, int]] = []

    def look(host: Host) -> None:
        host.store.write(host.kernel)
        (domain,) = host.kernel.domains.values()
        (group,) = domain.groups.values()
        assert len(group.members) == len(plans)
        panes = {key for namespace, key in host.store.entries if namespace.endswith("/panes")}
        # By hand: groups and seconds of what has come and some query still needs.
        (one,) = host.replays.values()
        needed = min(member.reader.next for member in group.members if member.reader is not None)
        come = {
            (ts // 1000, k)
            for ts, k in zip(
                *(tables["a"].column(name).take(one.arrivals.row[: one.done]).to_pylist() for name in ("ts", "k")),
                strict=True,
            )
        }
        held = {(second, k) for second, k in come if second >= needed}
        assert len(panes) == len({second for second, _ in held})
        rows.append((group.store.state_rows, len(held)))
        for member in group.members:
            assert member.reader is not None
            mine = sum(second >= member.reader.next for second, _ in come)
            assert host.kernel.observe(member.name).state_rows == mine

    host = Host(plans, tables, Epochs(), 60).run(dict.fromkeys(range(1, 13), look))
    assert [kept for kept, _ in rows] == [held for _, held in rows]
    for name, plan in plans.items():
        given_alone, seen = alone(plan, tables, Epochs(), 60)
        assert host.given[name].results == given_alone.results, name
        assert host.given[name].late == given_alone.late, name
        assert counts(host.kernel.observe(name)) == counts(seen), name


def test_queries_with_filters_on_one_value_have_one_store_and_hundreds_of_them_their_own_flags() -> None:
    tables = streams(32, 900)
    texts = {
        f"q{n}": f"SELECT SUM(v) AS s FROM a [1 SECOND] WHERE v >= {n} AND v < {n + 9} WITH {TARGETS[n % 4]}"
        for n in range(70)
    }
    plans = planned(texts, tables)
    host = Host(plans, tables, Epochs(), 60).run({3: Host.restart, 5: Host.restart})
    (domain,) = host.kernel.domains.values()
    assert len(domain.groups) == 1
    for name, plan in plans.items():
        given_alone, _ = alone(plan, tables, Epochs(), 60)
        assert host.given[name].results == given_alone.results, name


def test_float_sums_of_shared_panes_differ_by_rounding_alone() -> None:
    tables = streams(33, 1500)
    texts = {
        f"q{n}": f"SELECT AVG(w) AS x FROM a [3 SECONDS SLIDE 1 SECOND] WHERE k < {n} WITH COMPLETE" for n in (2, 4)
    }
    plans = planned(texts, tables)
    host = Host(plans, tables, Epochs(), 60).run()
    for name, plan in plans.items():
        given_alone, _ = alone(plan, tables, Epochs(), 60)
        ours, theirs = (np.array([row[-1] for row in one.results]) for one in (host.given[name], given_alone))
        assert ours.view(np.float64) == pytest.approx(theirs.view(np.float64), rel=1e-12)


def test_a_query_that_overflows_stops_alone_while_others_read_the_same_panes() -> None:
    tables = streams(34, 1500)
    big = np.where(tables["a"].column("k").to_numpy() == 3, 2**61, 1)
    tables["a"] = tables["a"].append_column("big", pa.array(big))
    texts = {f"q{n}": f"SELECT SUM(big) AS s FROM a [2 SECONDS] WHERE k <= {n} WITH COMPLETE" for n in (1, 2, 4)}
    plans = planned(texts, tables)
    host = Host(plans, tables, Epochs(), 60).run({6: Host.restart})
    assert host.kernel.status("q4").status == FAILED
    assert "integer overflow in SUM" in host.kernel.status("q4").reason
    for name in ("q1", "q2"):
        given_alone, _ = alone(plans[name], tables, Epochs(), 60)
        assert host.given[name].results == given_alone.results, name
