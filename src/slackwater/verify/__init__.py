"""The judge behind `slackwater verify`: the true answer of a query on sorted input, by DuckDB, against what a run
produced.

Invariant: it shares no evaluation code with the engine. Both read the same bound query; what its operators, windows and
aggregates mean is written down here a second time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.core.emitting import EARLY
from slackwater.core.errors import UsageError
from slackwater.core.join_kinds import JoinKind
from slackwater.core.rates import Resize
from slackwater.core.time import SECOND
from slackwater.expressions.aggregates import FUNCTIONS
from slackwater.expressions.tree import columns_of
from slackwater.language.asof import AsOfQuery
from slackwater.language.bound import (
    AggregateQuery,
    BoundQuery,
    FillingWindow,
    InstantQuery,
    JoinQuery,
    is_chain,
    raw_streams,
    streams_read,
)
from slackwater.language.distinct import DistinctQuery
from slackwater.language.top import TopQuery
from slackwater.verify.absence import judge_absence
from slackwater.verify.aggregate import judge_aggregate, read_by
from slackwater.verify.aggregate_truth import make_truth
from slackwater.verify.asof import judge_as_of
from slackwater.verify.chain import Levels, all_expressions
from slackwater.verify.chain_rows import judge_chain
from slackwater.verify.change_rows import split
from slackwater.verify.counted import judge_counted_join
from slackwater.verify.distinct import judge_distinct
from slackwater.verify.early import judge_early
from slackwater.verify.groups import group_expressions
from slackwater.verify.inputs import JudgedInput, load, workbench
from slackwater.verify.instants import columns_read, judge_instants
from slackwater.verify.join import judge_join
from slackwater.verify.rate_truth import check_rates_judged
from slackwater.verify.recall import RecallPeriods
from slackwater.verify.relation_sql import tree_expressions
from slackwater.verify.row_aggregate import judge_row_aggregate
from slackwater.verify.row_join import judge_counted_row_join, judge_row_join
from slackwater.verify.row_truth import counts_rows
from slackwater.verify.sql import Renderer
from slackwater.verify.verdict import Changed, Early, Trial, Verdict

__all__ = ["Changed", "JudgedInput", "Verdict", "check_rates_judged", "judge"]


def judge(
    query: BoundQuery,
    inputs: Sequence[JudgedInput],
    produced: Iterable[pa.Table] | pa.Table,
    *,
    count_only: bool = False,
    period: int = 60 * SECOND,
    interval: int = SECOND,
    resizes: Sequence[Resize] = (),
    in_epochs: bool = True,
) -> Verdict:
    """Compare what a run produced with the truth. `inputs` has one entry for each stream that is read, in the order of
    the text.

    A join's rows have the SELECT list, `_ts` and `_row_<alias>` of every stream; with `count_only` they have `second`
    and `count`. An aggregate's have window_start, window_end, every GROUP BY key and aggregate (selected or not)
    and what is computed from them.
    A query over instantaneous windows gives window_start, window_end and what it selects.
    Where rows change what has left, they have `_change`, `_version`, `_amends` and `_clock` (`core.emitting`).
    Recall is measured over `period`, every `interval`, both in microseconds. Where windows follow rates, `resizes` says
    what was in force since when, from the beginning on. `in_epochs`: the run was not tuple by tuple.
    """
    given = len(raw_streams(query))
    if len(inputs) != given:
        raise UsageError(f"the query reads {given} streams, but {len(inputs)} inputs were given to verify")
    if period <= 0 or interval <= 0:
        raise UsageError("the period and the interval of measurement must be longer than nothing")
    check_rates_judged(query)
    _check_estimates(query, above=False)
    court = _Court(query, RecallPeriods(*_span(inputs), period, interval), count_only, resizes, in_epochs)
    if not query.emit.changes:
        return court.judge(inputs, produced)
    return _judge_changes(court, inputs, produced)


def _check_estimates(query: BoundQuery, above: bool) -> None:
    """Refuse what depends on an estimate, of which only the bounds are known."""
    if isinstance(query, AggregateQuery):
        names = {call.name for call in query.aggregates if FUNCTIONS[call.function].sketched}
        if names and (above or any(name in names for expr in query.having for _, name in columns_of(expr))):
            raise UsageError(
                "verify knows the bounds of an estimate alone: judge APPROX_COUNT_DISTINCT without HAVING, and where no"
                " query reads it"
            )
    for stream in streams_read(query):
        if stream.query is not None:
            _check_estimates(stream.query, above=True)


def _judge_changes(court: _Court, inputs: Sequence[JudgedInput], produced: Iterable[pa.Table] | pa.Table) -> Verdict:
    """The verdict on the first answer; with corrections also that on the answer after them: it is what a run would give
    that waits for them."""
    query, emit = court.query, court.query.emit
    with workbench([]) as connection:
        rows = split(connection, query, produced)
    corrected = early = None
    if emit.corrections:
        reach = emit.correctable or query.options.max_behind
        corrected = court.judge([one.corrected_for(reach) for one in inputs], rows.corrected)
    if emit.kind == EARLY:
        assert isinstance(query, AggregateQuery), "nothing else has rows of open windows"
        early = court.look_at_early(query, inputs, rows.early)
    return replace(court.judge(inputs, rows.first), changed=Changed(rows.corrections, rows.faults, corrected, early))


@dataclass(frozen=True)
class _Court:
    """What is the same for all answers of one query."""

    query: BoundQuery
    periods: RecallPeriods
    count_only: bool
    resizes: Sequence[Resize]
    in_epochs: bool

    def judge(self, inputs: Sequence[JudgedInput], produced: Iterable[pa.Table] | pa.Table) -> Verdict:
        """The verdict on one answer."""
        query = self.query
        with self._workbench() as connection:
            if is_chain(query) or isinstance(query, TopQuery):
                return judge_chain(connection, query, inputs, produced, self.periods, self.in_epochs)
            render = self._load(connection, inputs)
            trial = Trial(connection, query, render, produced, self.periods, self.count_only, self.resizes)
            return JUDGES[type(query)](trial)

    def look_at_early(self, query: AggregateQuery, inputs: Sequence[JudgedInput], early: pa.Table) -> Early:
        """What is said of rows of open windows."""
        with self._workbench() as connection:
            if is_chain(query):
                return judge_early(connection, query, early, Levels(connection, inputs).windows(query, "true"))
            render = self._load(connection, inputs)
            types = {one.name: one.type for one in early.schema}
            make_truth(connection, query, *read_by(query, types, render))
            return judge_early(connection, query, early, "truth")

    def _workbench(self) -> AbstractContextManager[Any]:
        exprs = [*all_expressions(self.query), *group_expressions(self.query)]
        if isinstance(self.query, InstantQuery):
            exprs += [*columns_read(self.query), *tree_expressions(self.query.relation)]
        return workbench(exprs)

    def _load(self, connection: Any, inputs: Sequence[JudgedInput]) -> Renderer:
        """Tables s0, s1, ... of the rows of all streams."""
        streams = raw_streams(self.query)
        exprs = list(all_expressions(self.query))
        if isinstance(self.query, InstantQuery):
            exprs += columns_read(self.query)
        render = Renderer([stream.schema for stream in streams])
        for position, (stream, given) in enumerate(zip(streams, inputs, strict=True)):
            load(connection, position, stream, given, exprs, render)
        return render


def _span(inputs: Sequence[JudgedInput]) -> tuple[int, int]:
    """The first and last event time of all inputs; filtered rows count, since they move the clocks too."""
    extremes = [pc.min_max(given.table.column("_ts")).as_py() for given in inputs if given.table.num_rows]
    return min((e["min"] for e in extremes), default=0), max((e["max"] for e in extremes), default=0)


def _judge_windows(trial: Trial[AggregateQuery]) -> Verdict:
    of_time = trial.query.stream.window is None or isinstance(trial.query.stream.window, FillingWindow)
    return (judge_aggregate if of_time else judge_row_aggregate)(trial)


def _judge_joined(trial: Trial[JoinQuery]) -> Verdict:
    if trial.query.kind is not JoinKind.INNER:
        return judge_absence(trial)
    if counts_rows(trial.query):
        return (judge_counted_row_join if trial.count_only else judge_row_join)(trial)
    return (judge_counted_join if trial.count_only else judge_join)(trial)


JUDGES: Mapping[type[BoundQuery], Callable[[Trial[Any]], Verdict]] = {
    JoinQuery: _judge_joined,
    AggregateQuery: _judge_windows,
    DistinctQuery: judge_distinct,
    AsOfQuery: judge_as_of,
    InstantQuery: judge_instants,
}
"""By the kind of a query of one operator."""
