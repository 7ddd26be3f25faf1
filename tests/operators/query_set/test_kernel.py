"""The law of sets: what a query gives among others is what it gives alone, through restarts, changes and failures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from slackwater.core.errors import UsageError
from slackwater.core.quality import Complete, Delay
from slackwater.core.state import Emission, StateUpdate
from slackwater.core.time import MILLISECOND, SECOND
from slackwater.operators.pipeline import Epochs
from slackwater.operators.query_set.kernel import FAILED, PAUSED
from slackwater.plan.physical import PhysicalPlan
from slackwater.plan.query_set import QuerySetPlan
from slackwater.runtime.kernels import QuerySetKernel, kernel_for
from slackwater.sources.replay import replay
from slackwater.sources.shared_reading import SharedReading
from tests.runtime.test_query_sets import QUERIES, planned, streams

Row = tuple[int, ...]
SOME = ("sums", "odd_sums", "near", "pairs", "some_pairs", "all_pairs", "good_pairs", "filtered", "self", "absent")


@dataclass
class Given:
    """What a query has given."""

    results: list[Row] = field(default_factory=list)
    late: list[Row] = field(default_factory=list)

    def take(self, emission: Emission) -> None:
        self.late += zip(emission.late.stream.tolist(), emission.late.row.tolist(), strict=True)
        columns = [emission.ts.tolist(), emission.clock.tolist(), *(column.tolist() for column in emission.columns)]
        self.results += zip(*columns, strict=True)
        # Results of equal timestamps have no order among them, but those of a later epoch come later.
        self.results.sort(key=lambda row: (row[1], row))


class Store:
    """What a host keeps of a kernel."""

    def __init__(self) -> None:
        self.entries: dict[tuple[str, str], bytes] = {}

    def write(self, kernel: QuerySetKernel) -> None:
        for entry in kernel.snapshot_delta():
            if entry.value is None:
                self.entries.pop((entry.namespace, entry.key), None)
            else:
                self.entries[entry.namespace, entry.key] = entry.value

    def all(self) -> list[StateUpdate]:
        return [StateUpdate(*key, value) for key, value in self.entries.items()]


class Host:
    """Feeds a kernel of a set step by step; it can be stopped and restored, and queries changed, between two steps."""

    def __init__(
        self, plans: Mapping[str, PhysicalPlan], tables: dict[str, pa.Table], epochs: Epochs, step: int
    ) -> None:
        self.reading, self.epochs, self.step = SharedReading(tables, "ms"), epochs, step
        self.plan = QuerySetPlan.of(plans)
        self.reading.read(self.plan)
        self.kernel = QuerySetKernel(self.plan, epochs, self.reading.codebook)
        self.replays = {key: self.reading.replay(one) for key, one in self.plan.domains.items()}
        self.given: dict[str, Given] = {}
        self.store = Store()
        self.steps = 0

    def run(self, changes: Mapping[int, Callable[[Host], None]] | None = None, end: bool = True) -> Host:
        while any(one.done < len(one) for one in self.replays.values()):
            if changes and self.steps in changes:
                changes[self.steps](self)
            for key, one in self.replays.items():
                if key in self.kernel.domains:
                    self.kernel.absorb(key, *one.next(self.kernel.domains[key].plan, self.step))
                else:
                    one.done = min(one.done + self.step, len(one))
            self._advance(False)
            self.steps += 1
        if end:
            self._advance(True)
        return self

    def _advance(self, end: bool) -> None:
        for name, emission in self.kernel.advance(end):
            self.given.setdefault(name, Given()).take(emission)

    def restart(self) -> None:
        self.store.write(self.kernel)
        self.kernel = QuerySetKernel(self.kernel.plan, self.epochs, self.reading.codebook)
        self.kernel.restore(self.store.all())

    def add(self, name: str, plan: PhysicalPlan) -> None:
        self.kernel.add(name, plan)
        self.reading.read(self.kernel.plan)


def alone(
    plan: PhysicalPlan,
    tables: dict[str, pa.Table],
    epochs: Epochs,
    step: int,
    dropped: Callable[[int], bool] = lambda _: False,
) -> tuple[Given, Any]:
    """The query by itself; what comes in steps that are dropped only moves clocks."""
    recorded = replay(plan, tables, "ms")
    kernel, given = kernel_for(plan, epochs, recorded.codebook), Given()
    for number, batch in enumerate(recorded.batches(step)):
        kernel.absorb(replace(batch, passes=batch.passes & (not dropped(number))))
        for emission in kernel.advance():
            given.take(emission)
    for emission in kernel.advance(end=True):
        given.take(emission)
    return given, kernel.observe()


COUNTS = ("tuples", "in_time", "late", "filtered", "ahead", "held", "results", "epochs", "clocks", "slack", "watermark")


def counts(seen: Any) -> dict[str, Any]:
    return {name: getattr(seen, name) for name in COUNTS}


@pytest.mark.parametrize("epochs", [Epochs(span=SECOND // 2), Epochs()])
def test_restarts_change_nothing(epochs: Epochs) -> None:
    tables = streams(2, 1800)
    plans = planned({name: QUERIES[name] for name in (*SOME, "graph", "three")}, tables)
    random = np.random.default_rng(5)
    at = set(random.integers(1, 11, 4).tolist())
    host = Host(plans, tables, epochs, 151).run(dict.fromkeys(at, Host.restart))
    for name, plan in plans.items():
        given, seen = alone(plan, tables, epochs, 151)
        assert host.given[name].results == given.results, name
        assert host.given[name].late == given.late, name
        assert counts(host.kernel.observe(name)) == counts(seen), name


def test_a_tuple_is_in_the_log_as_long_as_somebody_waits_for_it_and_is_persisted_once() -> None:
    tables = streams(3, 1500)
    names = ("pairs", "some_pairs", "all_pairs")
    plans = planned({name: QUERIES[name] for name in names}, tables)
    seen: list[tuple[int, int]] = []

    def look(host: Host) -> None:
        host.store.write(host.kernel)
        (key,) = host.kernel.domains
        domain = host.kernel.domains[key]
        one = host.replays[key]
        # By hand: what has come, is wanted by somebody, and lies after that one's watermark.
        waited = 0
        for s, row in zip(one.arrivals.stream[: one.done].tolist(), one.arrivals.row[: one.done].tolist(), strict=True):
            table = tables[domain.plan.sources[s]]
            ts, k, v = (table.column(column)[row].as_py() for column in ("ts", "k", "v"))
            wants = {
                "pairs": True,
                "some_pairs": k > 1 if s == 0 else v < 50,
                "all_pairs": s == 0 or v < 50,
            }
            waited += any(wants[name] and ts * MILLISECOND > domain.members[name].query.watermark for name in names)
        seen.append((len(domain.log), waited))
        chunks = sum(1 for namespace, _ in host.store.entries if namespace.endswith("/log"))
        assert chunks <= host.steps

    Host(plans, tables, Epochs(), 100).run(dict.fromkeys(range(1, 10), look))
    assert [held for held, _ in seen] == [waited for _, waited in seen]
    assert max(held for held, _ in seen) > 50


@pytest.mark.parametrize("name", ["pairs", "sums", "all_pairs", "odd_sums", "graph"])
def test_a_query_that_is_added_is_the_query_alone_whose_filter_drops_what_came_before(name: str) -> None:
    tables = streams(4, 2400)
    others = ("some_pairs", "halves", "filtered")
    plans = planned({other: QUERIES[other] for other in others}, tables)
    late_one = planned({name: QUERIES[name]}, tables)[name]
    changes = {4: lambda host: host.add(name, late_one), 7: Host.restart}
    host = Host(plans, tables, Epochs(), 60).run(changes)
    given, seen = alone(late_one, tables, Epochs(), 60, lambda number: number < 4)
    assert host.given[name].results == given.results
    assert host.given[name].late == given.late
    assert counts(host.kernel.observe(name)) == counts(seen)
    for other, plan in plans.items():
        given, _ = alone(plan, tables, Epochs(), 60)
        assert host.given[other].results == given.results, other


def test_dropping_a_query_leaves_nothing_of_it_and_the_others_as_they_are() -> None:
    tables = streams(5, 2400)
    names = ("pairs", "some_pairs", "sums")
    plans = planned({name: QUERIES[name] for name in names}, tables)

    def drop(host: Host) -> None:
        host.store.write(host.kernel)
        host.kernel.drop("pairs")
        with pytest.raises(UsageError, match="there is no query pairs; known are: some_pairs, sums"):
            host.kernel.drop("pairs")

    host = Host(plans, tables, Epochs(), 60).run({3: drop, 5: Host.restart})
    assert not [key for key in host.store.entries if "/pairs/" in key[0]]
    for name in names[1:]:
        given, _ = alone(plans[name], tables, Epochs(), 60)
        assert host.given[name].results == given.results, name


@pytest.mark.parametrize("name", ["pairs", "sums"])
def test_a_paused_query_takes_nothing_in_and_then_goes_on(name: str) -> None:
    tables = streams(6, 2400)
    plans = planned({one: QUERIES[one] for one in ("pairs", "good_pairs", "all_pairs", "sums", "near")}, tables)
    quiet: list[int] = []

    def given_so_far(host: Host) -> None:
        quiet.append(len(host.given[name].results))

    def resume(host: Host) -> None:
        given_so_far(host)
        assert host.kernel.status(name).status == PAUSED
        assert host.kernel.status(name).paused > 0
        host.kernel.resume(name)

    def pause(host: Host) -> None:
        given_so_far(host)
        host.kernel.pause(name)

    changes: dict[int, Callable[[Host], None]] = {3: pause, 4: Host.restart, 6: resume}
    among = Host(plans, tables, Epochs(), 60).run(changes)
    assert quiet[0] == quiet[1]
    by_itself = Host({name: plans[name]}, tables, Epochs(), 60).run({3: pause, 6: resume})
    assert among.given[name].results == by_itself.given[name].results
    assert counts(among.kernel.observe(name)) == counts(by_itself.kernel.observe(name))
    ours = among.kernel.observe(name)
    assert ours.tuples == ours.in_time + ours.late + ours.filtered + ours.ahead
    for other in plans.keys() - {name}:
        given, _ = alone(plans[other], tables, Epochs(), 60)
        assert among.given[other].results == given.results, other


def test_another_target_is_as_a_restart_with_it_and_disturbs_nobody() -> None:
    tables = streams(7, 2400)
    plans = planned({one: QUERIES[one] for one in ("pairs", "some_pairs", "good_pairs", "near")}, tables)

    def retarget(host: Host) -> None:
        host.kernel.set_target("pairs", Complete())
        host.kernel.set_target("good_pairs", Delay(100 * MILLISECOND))

    among = Host(plans, tables, Epochs(), 60).run(
        {2: lambda host: host.store.write(host.kernel), 4: retarget, 6: Host.restart}
    )
    for name, quality in (("pairs", Complete()), ("good_pairs", Delay(100 * MILLISECOND))):
        recorded = replay(plans[name], tables, "ms")
        kernel, given = kernel_for(plans[name], Epochs(), recorded.codebook), Given()
        for number, batch in enumerate(recorded.batches(60)):
            if number == 4:
                state = list(kernel.snapshot_delta())
                kernel = kernel_for(replace(plans[name], quality=quality), Epochs(), recorded.codebook)
                kernel.restore(state)
            kernel.absorb(batch)
            for emission in kernel.advance():
                given.take(emission)
        for emission in kernel.advance(end=True):
            given.take(emission)
        assert among.given[name].results == given.results, name
        assert counts(among.kernel.observe(name)) == counts(kernel.observe()), name
    for name in ("some_pairs", "near"):
        given, _ = alone(plans[name], tables, Epochs(), 60)
        assert among.given[name].results == given.results, name


def test_a_query_that_fails_stops_alone_with_its_reason() -> None:
    tables = streams(8, 2400)
    large = {**tables, "a": tables["a"].append_column("big", pa.array([2**61] * tables["a"].num_rows))}
    texts = {
        "sums": QUERIES["sums"],
        "overflows": "SELECT SUM(big) AS s FROM a [2 SECONDS] WITH NO WAIT",
        "pairs": QUERIES["pairs"],
    }
    plans = planned(texts, large)
    host = Host(plans, large, Epochs(), 60).run({6: Host.restart})
    assert host.kernel.status("overflows").status == FAILED
    assert "integer overflow in SUM" in host.kernel.status("overflows").reason
    with pytest.raises(UsageError, match="overflows has failed: integer overflow"):
        host.kernel.resume("overflows")
    for name in ("sums", "pairs"):
        given, _ = alone(plans[name], large, Epochs(), 60)
        assert host.given[name].results == given.results, name
