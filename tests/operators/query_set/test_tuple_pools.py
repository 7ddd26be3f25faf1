"""A tuple is held once, whatever clock domains wait for it, and as long as the most patient query that wants it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from slackwater.core.state import decode_words
from slackwater.core.time import MILLISECOND, SECOND
from slackwater.operators.pipeline import Epochs
from slackwater.operators.query_set.kernel import FAILED
from tests.effort import more
from tests.operators.query_set.test_kernel import Host, alone, counts
from tests.runtime.test_query_sets import planned, streams

Wants = Callable[[dict[str, Any]], bool]


def everything(_: dict[str, Any]) -> bool:
    return True


JOINS: dict[str, tuple[str, tuple[Wants, ...]]] = {
    "ab": (
        "SELECT a.v, b.v AS w FROM a [1 SECOND], b [1 SECOND] WHERE a.k = b.k WITH DELAY 500 MS",
        (everything, everything),
    ),
    "ab_complete": (
        "SELECT a.v, b.w FROM a [1 SECOND], b [2 SECONDS] WHERE a.k = b.k AND b.v < 50 WITH COMPLETE",
        (everything, lambda b: b["v"] < 50),
    ),
    "bc": (
        "SELECT b.w, c.t FROM b [1 SECOND], c [1 SECOND] WHERE b.k = c.k AND b.k > 1 WITH DELAY 900 MS",
        (lambda b: b["k"] > 1, everything),
    ),
    "ba": (
        "SELECT b.t, a.w FROM b [1 SECOND], a [1 SECOND] WHERE a.k = b.k AND a.w > 20 WITH DELAY 700 MS",
        (everything, lambda a: a["w"] > 20),
    ),
    "abc": (
        "SELECT a.v, b.v AS u, c.v AS w FROM a [1 SECOND], b [1 SECOND], c [1 SECOND]"
        " WHERE a.k = b.k AND b.k = c.k AND b.v >= 30 WITH DELAY 300 MS",
        (everything, lambda b: b["v"] >= 30, everything),
    ),
    "self": (
        "SELECT x.v, y.w AS u FROM a AS x [1 SECOND], a AS y [1 SECOND]"
        " WHERE x.k = y.k AND x.w < y.w AND y.v > 10 WITH DELAY 1 SECOND",
        (everything, lambda y: y["v"] > 10),
    ),
}
TEXTS = {name: text for name, (text, _) in JOINS.items()}


def waited_for(host: Host, tables: dict[str, pa.Table]) -> set[tuple[str, int]]:
    """By hand: each tuple that has come for some query, is wanted by it, and lies after its watermark."""
    rows = {name: table.to_pylist() for name, table in tables.items()}
    waited = set()
    for key, one in host.replays.items():
        if key not in host.kernel.domains:
            continue
        domain = host.kernel.domains[key]
        come = one.done - domain.clocks.unjudged
        for s, row in zip(one.arrivals.stream[:come].tolist(), one.arrivals.row[:come].tolist(), strict=True):
            source = domain.plan.sources[s]
            told = rows[source][row]
            for name, member in domain.members.items():
                if (
                    member.status != FAILED
                    and JOINS[name][1][s](told)
                    and told["ts"] * MILLISECOND > member.query.watermark
                ):
                    waited.add((source, row))
    return waited


@pytest.mark.parametrize("names", [("ab", "bc"), ("ab", "ab_complete", "ba"), ("self",), tuple(JOINS)])
@pytest.mark.parametrize("epochs", [Epochs(), Epochs(span=SECOND // 4)])
def test_what_all_domains_hold_is_the_least_that_anybody_can(names: tuple[str, ...], epochs: Epochs) -> None:
    tables = streams(41, 1200)
    plans = planned({name: TEXTS[name] for name in names}, tables)
    seen: list[tuple[int, int]] = []
    references = []

    def look(host: Host) -> None:
        seen.append((host.kernel.log_tuples, len(waited_for(host, tables))))
        references.append(sum(len(domain.log) for domain in host.kernel.domains.values()))

    host = Host(plans, tables, epochs, 60).run(dict.fromkeys(range(1, 40), look))
    assert [held for held, _ in seen] == [waited for _, waited in seen]
    assert max(held for held, _ in seen) > 50
    assert sum(references) > sum(held for held, _ in seen), "several wait for one tuple"
    assert host.kernel.log_tuples == 0, "the input has ended"


def test_what_is_persisted_is_each_tuple_once() -> None:
    tables = streams(42, 1200)
    host = Host(planned(TEXTS, tables), tables, Epochs(), 60)

    def look(host: Host) -> None:
        host.store.write(host.kernel)
        persisted = [
            (namespace, row)
            for (namespace, _), value in host.store.entries.items()
            if namespace.startswith("source/")
            for row in decode_words(value)["w1"].tolist()
        ]
        assert {(namespace.split("/")[1], row) for namespace, row in persisted} >= waited_for(host, tables)
        words = [
            name for (n, _), value in host.store.entries.items() if n.endswith("/log") for name in decode_words(value)
        ]
        assert not [name for name in words if name.startswith("w")], "logs have references alone"

    host.run(dict.fromkeys(range(1, 20), look))
    host.store.write(host.kernel)
    assert not [namespace for namespace, _ in host.store.entries if namespace.startswith("source/")]


@pytest.mark.parametrize("seed", [0, *more("another seed, here", 1, 2)])
def test_restarts_and_changes_leave_every_query_as_it_is_alone(seed: int) -> None:
    tables = streams(50 + seed, 1500)
    plans = planned(TEXTS, tables)
    random = np.random.default_rng(seed)
    dropped, rests = random.permutation(["ab", "bc", "ba", "abc", "self"])[:2].tolist()

    def drop(host: Host) -> None:
        host.store.write(host.kernel)
        host.kernel.drop(dropped)

    changes: list[Callable[[Host], None]] = [
        Host.restart,
        drop,
        lambda host: host.add("ab_complete", plans["ab_complete"]),
        lambda host: host.kernel.pause(rests),
        Host.restart,
        lambda host: host.kernel.resume(rests),
    ]

    def change(host: Host) -> None:
        changes.pop(0)(host)
        if random.random() < 0.5:
            host.restart()

    first = {name: plan for name, plan in plans.items() if name != "ab_complete"}
    host = Host(first, tables, Epochs(), 75)
    if dropped == "ab":
        # The query that is added then finds nobody who has moved its clocks.
        changes[1], changes[2] = changes[2], changes[1]
    host.run(dict.fromkeys(range(3, 9), change))
    assert not changes
    for name in first.keys() - {dropped, rests}:
        given, seen = alone(plans[name], tables, Epochs(), 75)
        assert host.given[name].results == given.results, name
        assert host.given[name].late == given.late, name
        assert counts(host.kernel.observe(name)) == counts(seen), name
    begun = 4 if dropped == "ab" else 5
    given, seen = alone(plans["ab_complete"], tables, Epochs(), 75, lambda step: step < begun)
    assert host.given["ab_complete"].results == given.results
    by_itself = Host({rests: plans[rests]}, tables, Epochs(), 75)
    by_itself.run({6: lambda host: host.kernel.pause(rests), 8: lambda host: host.kernel.resume(rests)})
    assert host.given[rests].results == by_itself.given[rests].results
    assert counts(host.kernel.observe(rests)) == counts(by_itself.kernel.observe(rests))


def test_what_only_a_dropped_domain_has_waited_for_goes_with_it() -> None:
    tables = streams(43, 1200)
    plans = planned({name: TEXTS[name] for name in ("ab", "bc")}, tables)

    def drop(host: Host) -> None:
        host.store.write(host.kernel)
        assert any(namespace.startswith("source/c/") for namespace, _ in host.store.entries)
        host.kernel.drop("bc")
        assert host.kernel.log_tuples == len(waited_for(host, tables)) > 0
        host.store.write(host.kernel)
        assert not [namespace for namespace, _ in host.store.entries if namespace.startswith("source/c/")]

    Host(plans, tables, Epochs(), 60).run({4: drop})


def test_a_reference_costs_34_bytes_and_a_tuple_its_words_and_16_more() -> None:
    tables = streams(44, 300)
    host = Host(planned({name: TEXTS[name] for name in ("ab", "bc")}, tables), tables, Epochs(), 60).run()
    for domain in host.kernel.domains.values():
        held, chunk = domain.log.held, vars(domain.log)["_chunk"]
        assert sum(one.itemsize for one in (held.ts, held.slot, held.stream, held.delay, *held.flags, chunk)) == 34
    by_source = {}
    for source, pool in host.kernel.pools.items():
        beside = (vars(pool)[name] for name in ("_references", "_chunk", "_free", "_by_identity"))
        by_source[source] = sum(one.itemsize for one in beside if one is not None)
    assert by_source == {"a": 12, "b": 16, "c": 12}


def test_a_restart_with_fewer_queries_finds_its_columns_where_each_stream_has_them_now() -> None:
    tables = streams(60, 1500)
    texts = {
        "gone": "SELECT a.w, b.v FROM a [1 SECOND], b [1 SECOND] WHERE a.k = b.k WITH COMPLETE",
        "stays": "SELECT a.v, b.v AS u FROM a [1 SECOND], b [1 SECOND] WHERE a.k = b.k WITH COMPLETE",
    }
    plans = planned(texts, tables)

    def restart_without(host: Host) -> None:
        host.store.write(host.kernel)
        kept = Host({"stays": plans["stays"]}, tables, Epochs(), 75)
        kept.kernel.restore(host.store.all())
        host.reading, host.kernel = kept.reading, kept.kernel
        for one in host.replays.values():
            one.reading = kept.reading

    host = Host(plans, tables, Epochs(), 75).run({4: restart_without})
    given, seen = alone(plans["stays"], tables, Epochs(), 75)
    assert host.given["stays"].results == given.results
    assert counts(host.kernel.observe("stays")) == counts(seen)
