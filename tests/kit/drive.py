"""Driving a pipeline over a trace, and its results in a form that can be compared.

Invariant: two outcomes are the same iff they hold the same results, whatever epochs they were emitted in; results of
equal timestamps have no order among them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Any, cast

from slackwater.core.batch import Batch
from slackwater.core.schema import Kind
from slackwater.core.state import Emission, Observation
from slackwater.disorder.controllers import SlackController
from slackwater.operators.aggregate.changing import Changing
from slackwater.operators.aggregate.count_windows import CountWindows
from slackwater.operators.aggregate.estimating import COLUMNS
from slackwater.operators.aggregate.filling import FillingAggregate
from slackwater.operators.aggregate.operator import WindowAggregate
from slackwater.operators.contract import GraphNode, OperatorSpec
from slackwater.operators.graph import OperatorGraph
from slackwater.operators.join.count_windows import RowWindows
from slackwater.operators.join.operator import WindowJoin
from slackwater.operators.join.rate_windows import RateWindows
from slackwater.operators.join.tree import JoinTree
from slackwater.operators.pipeline import Epochs, KernelTerms, Pipeline
from slackwater.operators.relation_to_stream import RelationToStream
from slackwater.operators.session.operator import SessionAggregate
from slackwater.operators.union import StreamUnion
from slackwater.runtime.driver import Driver
from tests.kit.oracle_aggregate import (
    Answer,
    WindowKey,
    oracle_aggregate,
    oracle_aggregate_processing,
    result_kind,
)
from tests.kit.oracle_count_windows import oracle_count_window_processing, oracle_count_windows
from tests.kit.oracle_join import Result, oracle_join, oracle_join_processing, oracle_relation_to_stream
from tests.kit.oracle_levels import oracle_graph, united_row
from tests.kit.oracle_projection import Made
from tests.kit.oracle_release import Released, Tuple, tuples_of
from tests.kit.oracle_row_join import oracle_rate_join, oracle_row_join
from tests.kit.oracle_tree import TreeOutcome
from tests.kit.oracles import ORACLES
from tests.kit.words import decode, same_value

NO_GUARD = 2**62
"""A `max_ahead` that admits everything."""

Make = Callable[[SlackController, Epochs], Pipeline]
"""Builds a fresh pipeline of one query; the laws are about any such factory."""

Results = Counter[Any] | Answer
"""Joins: (timestamp, members) -> times made; counted joins: timestamp -> results; aggregates: window -> values."""


def pipeline_of(spec: OperatorSpec, max_ahead: int = NO_GUARD, idle_timeout: int | None = None) -> Make:
    """The plain factory: the spec's own operator behind clock guard and release."""
    return lambda controller, epochs: Pipeline(
        spec, spec.build(), controller, KernelTerms(epochs, idle_timeout=idle_timeout), max_ahead
    )


@dataclass
class Outcome:
    """What came out of a pipeline, and what it said about itself after each epoch."""

    emissions: list[Emission] = field(default_factory=list)
    observed: list[Observation] = field(default_factory=list)

    @property
    def late_rows(self) -> list[int]:
        return [row for emission in self.emissions for row in emission.late.row.tolist()]

    @property
    def timestamps(self) -> list[int]:
        """Of the first answers."""
        return [ts for emission in self.emissions if not emission.amends for ts in emission.ts.tolist()]


def feed(pipeline: Pipeline, batches: Iterable[Batch], outcome: Outcome, end: bool) -> Outcome:
    """One epoch per batch; with `end`, everything is emitted after the last one."""
    driver = Driver(pipeline, on_epoch=lambda: outcome.observed.append(pipeline.observe()))
    outcome.emissions.extend(driver.run(batches, end))
    return outcome


def drive(pipeline: Pipeline, batches: Iterable[Batch]) -> Outcome:
    """A whole trace through a pipeline, to its end."""
    return feed(pipeline, batches, Outcome(), end=True)


def results_of(spec: OperatorSpec, emissions: Iterable[Emission]) -> Results:
    """The results in comparable form, without what changes them; an aggregate that answers twice for one window and
    key raises."""
    if isinstance(spec, Changing):
        return results_of(spec.made_by, (one for one in emissions if not one.amends))
    if isinstance(spec, RelationToStream):
        made_by = spec.made_by
        if isinstance(made_by, WindowAggregate):
            return _windows(made_by, emissions, later=made_by.grid.slide)
        return results_of(made_by, emissions)
    top = spec.top if isinstance(spec, OperatorGraph) else spec
    if isinstance(top, WindowAggregate):
        return _windows(top, emissions)
    if getattr(spec, "correctable", None) is not None:
        emissions = (one for one in emissions if not one.amends)
    found: Counter[Any] = Counter()
    for (result, _), times in _joined(spec, emissions).items():
        found[result] += times
    return found


def clocked_results_of(spec: WindowJoin | JoinTree | OperatorGraph, emissions: Iterable[Emission]) -> Counter[Any]:
    """As `results_of`, with the largest clock when each result was emitted."""
    return _joined(spec, emissions)


def _joined(spec: Any, emissions: Iterable[Emission]) -> Counter[Any]:
    found: Counter[Any] = Counter()
    for emission in emissions:
        clock = emission.clock.tolist()
        for line, ts in enumerate(emission.ts.tolist()):
            if getattr(spec, "count_only", False):
                assert emission.multiplicity is not None
                found[ts, clock[line]] += int(emission.multiplicity[line])
            else:
                found[(ts, tuple(int(column[line]) for column in emission.columns)), clock[line]] += 1
    return found


def _windows(spec: WindowAggregate, emissions: Iterable[Emission], later: int = 0) -> Answer:
    """Rows by window and key; each has left so much later than its window ended."""
    answer: Answer = {}
    seen: Counter[tuple[int, ...]] = Counter()
    keys = len(spec.keys)
    for emission in emissions:
        for line, end in enumerate(emission.ts.tolist()):
            start, stop, *rest = (int(column[line]) for column in emission.columns)
            window: WindowKey = (start, tuple(rest[:keys]))
            if isinstance(spec, CountWindows):
                assert stop == end, "a window's bounds disagree"
                seen[start, stop, *rest[:keys]] += 1
                window = (start, (stop, seen[start, stop, *rest[:keys]] - 1, *rest[:keys]))
            elif isinstance(spec, SessionAggregate | FillingAggregate):
                assert stop == end, "a window's bounds disagree"
                window = (start, (stop, *rest[:keys]))
            else:
                assert (stop + later, stop - start) == (end, spec.range), "a window's bounds disagree"
            assert window not in answer, f"window {window} was answered twice"
            values, beside = rest[keys : keys + len(spec.aggregates)], rest[keys + len(spec.aggregates) :]
            assert len(beside) == (COLUMNS * len(values) if spec.estimated else 0), "three columns an estimate"
            words = zip(spec.aggregates, values, strict=True)
            answered = [decode(word, result_kind(aggregate)) for aggregate, word in words]
            answer[window] = (*answered, *(decode(word, Kind.FLOAT) for word in beside))
    return answer


def truth(spec: OperatorSpec, batch: Batch) -> Results:
    """What the slow oracle makes of all tuples."""
    if isinstance(spec, Changing):
        return truth(spec.made_by, batch)
    if isinstance(spec, RelationToStream):
        made_by = spec.made_by
        if isinstance(made_by, WindowAggregate):
            return truth(made_by, batch)
        assert isinstance(made_by, WindowJoin)
        return oracle_relation_to_stream(spec, oracle_join(made_by, batch).elements(), _times(tuples_of(batch)))
    if type(spec) in ORACLES:
        return ORACLES[type(spec)].truth(spec, batch)
    if isinstance(spec, WindowAggregate):
        return oracle_aggregate(spec, batch)
    if isinstance(spec, JoinTree):
        return truth(spec.whole, batch)
    if isinstance(spec, OperatorGraph):
        return results_of_graph(spec, oracle_graph(spec, batch))
    if isinstance(spec, StreamUnion):
        return truth(_as_graph(spec), batch)
    if isinstance(spec, WindowJoin):
        return _as_counted(spec, oracle_join(spec, batch).elements())
    raise TypeError(f"there is no oracle for {type(spec).__name__}; write one in tests.kit")


def bounds_of_truth(spec: OperatorSpec, batch: Batch, absent: Collection[int] = ()) -> tuple[Results, Results]:
    """What must be among the results, and what may be, where the order of equal timestamps leaves a choice.

    `absent` names the tuples that came late or were rejected; windows that count tuples are true without them.
    """
    if isinstance(spec, CountWindows):
        answer = oracle_count_windows(spec, batch, absent)
        return answer, answer
    if type(spec) in ORACLES:
        rows = ORACLES[type(spec)].truth(spec, batch, absent)
        return rows, rows
    if not isinstance(spec, WindowJoin) or not isinstance(spec.policy, RowWindows):
        true = truth(spec, batch)
        return true, true
    if isinstance(spec.policy, RateWindows):
        made = _as_counted(spec, oracle_rate_join(spec, batch, absent).elements())
        return made, made
    certain, possible = oracle_row_join(spec, batch, absent)
    return _as_counted(spec, certain), _as_counted(spec, possible)


def expected(spec: OperatorSpec, released: Iterable[Released]) -> Results:
    """What the slow oracle makes of a release sequence, late tuples included; of changes the first answers."""
    if isinstance(spec, Changing):
        return expected(spec.made_by, released)
    if isinstance(spec, RelationToStream):
        made_by = spec.made_by
        if isinstance(made_by, WindowAggregate):
            return expected(made_by, released)
        assert isinstance(made_by, WindowJoin)
        steps = list(released)
        made = (result for result, _ in oracle_join_processing(made_by, steps))
        return oracle_relation_to_stream(spec, made, _times(step.tuple for step in steps))
    if isinstance(spec, CountWindows):
        return oracle_count_window_processing(spec, released)
    if type(spec) in ORACLES:
        return ORACLES[type(spec)].processed(spec, released)
    if isinstance(spec, WindowAggregate):
        return oracle_aggregate_processing(spec, released)
    if isinstance(spec, WindowJoin):
        return _as_counted(spec, (result for result, _ in oracle_join_processing(spec, released)))
    if isinstance(spec, StreamUnion):
        in_time = (step.tuple for step in released if not step.late)
        return results_of_graph(_as_graph(spec), [united_row(spec, e) for e in in_time])
    raise TypeError(f"there is no oracle for {type(spec).__name__}; write one in tests.kit")


def _times(tuples: Iterable[Tuple]) -> dict[int, int]:
    return {e.row: e.ts for e in tuples}


def results_of_graph(spec: OperatorGraph, made: Iterable[Made]) -> Results:
    """What a slow oracle of graphs has made, in comparable form."""
    top = spec.top
    if not isinstance(top, WindowAggregate):
        return Counter(made)
    answer: Answer = {}
    for _, (start, end, *rest) in made:
        words = zip(top.aggregates, rest[len(top.keys) :], strict=True)
        values = tuple(decode(word, result_kind(aggregate)) for aggregate, word in words)
        keys = rest[: len(top.keys)]
        answer[start, (end, *keys) if isinstance(top, SessionAggregate | FillingAggregate) else tuple(keys)] = values
    return answer


def _as_graph(spec: StreamUnion) -> OperatorGraph:
    return OperatorGraph((GraphNode(spec, tuple(range(spec.streams))),), spec.rows)


def expected_of_tree(spec: JoinTree, outcome: TreeOutcome) -> Results:
    """What the slow oracle of trees has made, late tuples included."""
    return _as_counted(spec, (result for result, _ in outcome.results))


def _as_counted(spec: WindowJoin | JoinTree, results: Iterable[Result]) -> Counter[Any]:
    return Counter(result[0] for result in results) if spec.count_only else Counter(results)


def assert_same(found: Results, wanted: Results) -> None:
    """Fail with the first few differences."""
    differing = [key for key in sorted({*found, *wanted}) if not _agrees(found.get(key), wanted.get(key))]
    shown = "\n".join(f"  {key}: {found.get(key)} instead of {wanted.get(key)}" for key in differing[:5])
    assert not differing, f"{len(differing)} of {len(wanted)} results differ:\n{shown}"


def assert_between(found: Results, least: Results, most: Results) -> None:
    """Fail unless all that is certain was found, and nothing that is not possible."""
    if least == most or not isinstance(found, Counter):
        assert_same(found, most)
        return
    lacking, invented = cast("Counter[Any]", least) - found, found - cast("Counter[Any]", most)
    assert not lacking, f"{lacking.total()} results are missing, such as {next(iter(lacking))}"
    assert not invented, f"{invented.total()} results were invented, such as {next(iter(invented))}"


def _agrees(a: Any, b: Any) -> bool:
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(same_value, a, b))
    return bool(a == b)
