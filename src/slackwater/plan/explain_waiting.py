"""What a query waits for, in words: its slack, its clocks, the order of its results.

Invariant: everything here is known before a query runs; what it then chooses is in its report.
"""

from __future__ import annotations

from slackwater.core.errors import UsageError
from slackwater.core.options import Options
from slackwater.core.quality import NoWait, Recall, RelativeError, default_cap
from slackwater.core.results import FILTER, SYNC
from slackwater.core.time import format_duration
from slackwater.disorder.controllers import SlackController
from slackwater.language.bound import AggregateQuery
from slackwater.operators.composed.registry import retention_of
from slackwater.operators.description import Detail
from slackwater.plan.physical import PhysicalPlan
from slackwater.plan.sizes import explain_sizes
from slackwater.quality.registry import controller_for

AT_ONCE = "no result waits: slack is how long beyond its window a tuple stays findable for those that come late"
NOTHING_WAITS = "no result waits, and none is lost: a tuple is selected when it arrives, late or not"
NO_SLACK = "no slack (No-K-slack): a tuple is forgotten when all streams have passed its window"
WAITED_FOR = "the slowest stream is waited for"
FILTER_IN_EPOCHS = "in epochs, and so on Spark, it is joined as it arrives"
EPOCHS = "refused in epochs, and so on Spark: an epoch joins what it emits at once, in order"


def explain_waiting(plan: PhysicalPlan, quality_stated: bool = True) -> Detail:
    """How slack is chosen, and which tuples and streams are waited for."""
    head = f"waiting: WITH {plan.quality}" + ("" if quality_stated else " (the default)")
    return Detail.headed(head, _waiting(plan))


def _waiting(plan: PhysicalPlan) -> list[str]:
    options, at_once = plan.options, plan.emit.on_arrival
    if at_once and len(plan.inputs) == 1:
        return [NOTHING_WAITS, explain_clocks(options)]
    lines = [AT_ONCE] if at_once else []
    try:
        controller = controller_for(plan.quality, options, plan.windows)
        lines += [NO_SLACK if at_once and isinstance(plan.quality, NoWait) else controller.describe()]
        lines += explain_cap(plan, controller)
    except UsageError as error:
        lines.append(str(error))
    if len(plan.inputs) > 1 and not isinstance(plan.quality, NoWait):
        slowest = "tuples stay findable until the slowest stream has passed" if at_once else WAITED_FOR
        lines.append(f"{slowest}, and one slack serves all streams (Same-K)")
    if plan.nodes:
        lines.append("every operator waits for its own inputs, not for those above; what one emits is in order,")
        lines[-1] += " so the next never finds it late"
        lines += explain_composed(plan)
    elif len(plan.operator.all_nodes) > 1:
        lines.append("every node waits for its own streams and for the node below, not for streams above")
    if options.initial_slack:
        lines.append(f"slack begins at {format_duration(options.initial_slack)}")
    lines += [explain_clocks(options), *explain_idle(options)]
    if options.clock_by is not None:
        lines.append(f"the clock of a stream is the smallest among its parts, told apart by {options.clock_by}")
    if options.size_by is not None:
        lines.append(explain_sizes(plan))
    return lines


def explain_cap(plan: PhysicalPlan, controller: SlackController) -> list[str]:
    """The most slack for a target, stated or not; nothing where there is no target, or no cap."""
    quality = plan.quality
    if not isinstance(quality, Recall | RelativeError):
        return []
    if quality.at_most is not None:
        most = f"slack is at most {format_duration(quality.at_most)}, as AT MOST says"
    else:
        cap = _default(plan, controller)
        if cap is None:
            return []
        most = f"slack is at most {format_duration(cap)} by default (AT MOST says otherwise)"
    return [f"{most}; where the target asks for more, warnings and the report say so, and what is reached"]


def _default(plan: PhysicalPlan, controller: SlackController) -> int | None:
    quality = plan.quality
    # As published, a controller waits as long as it finds right.
    if plan.options.controller not in (None, "steady"):
        return None
    if isinstance(quality, Recall):
        return default_cap(quality.over, plan.options.max_behind)
    watched = [one.operator.watched for one in plan.operator.all_nodes]
    ranges = [one.range for one in watched if one is not None]
    if ranges:
        return default_cap(max(ranges), plan.options.max_behind)
    outlook = controller.outlook()
    return None if outlook is None else outlook.cap


def explain_composed(plan: PhysicalPlan) -> list[str]:
    """How the target of a query of several operators is served; nothing where only waiting is asked for."""
    if not isinstance(plan.quality, Recall | RelativeError):
        return []
    query = plan.query
    lines = []
    if isinstance(plan.quality, Recall):
        of = "the rows that reach the aggregate" if isinstance(query, AggregateQuery) else "the rows of the query"
        lines.append(f"recall is that of {of}, true rows against rows made")
    elif isinstance(query, AggregateQuery) and isinstance(query.stream.query, AggregateQuery):
        lines.append("the error is that of the sums above, by what late tuples would have added to the windows below")
    else:
        lines.append("the error is that of the aggregate above, by the rows that late tuples have cost it")
    joins = sum(len(node.inputs) > 1 and node.joins and bool(node.windows) for node in plan.nodes)
    again = f"; {'a join is' if joins == 1 else f'{joins} joins are'} run a second time for it" if joins else ""
    kept = format_duration(retention_of(plan.options))
    lines.append(f"true rows are found in the order of arrival, {kept} back{again}")
    return lines


def explain_clocks(options: Options) -> str:
    """Which tuples move clocks, and which are kept, rejected or late.

    >>> print(explain_clocks(Options()))
    a tuple ahead of most of its stream is held until its time comes, beyond 10 min (max_ahead) rejected unless the \
others come along; beyond 1 d behind (max_behind) it is late and teaches nothing
    """
    ahead, behind = format_duration(options.max_ahead), format_duration(options.max_behind)
    return (
        f"a tuple ahead of most of its stream is held until its time comes, beyond {ahead} (max_ahead) rejected unless"
        f" the others come along; beyond {behind} behind (max_behind) it is late and teaches nothing"
    )


def explain_idle(options: Options) -> list[str]:
    """Which streams no longer hold the others back.

    >>> print(*explain_idle(Options(idle_after=20.0, idle_timeout=30_000_000)), sep="; ")
    a stream silent for 30 s no longer holds the others back; a stream that the others have left behind by more than \
20 of its usual gaps, in event time, no longer holds them back
    """
    lines = []
    if options.idle_timeout is not None:
        lines.append(f"a stream silent for {format_duration(options.idle_timeout)} no longer holds the others back")
    if options.idle_after is not None:
        lines.append(
            f"a stream that the others have left behind by more than {options.idle_after:g} of its usual gaps, in event"
            " time, no longer holds them back"
        )
    return lines


def explain_ordering(plan: PhysicalPlan) -> list[Detail]:
    """How results are brought into order; nothing where there is no choice: of one stream, or by an algorithm that
    needs order."""
    streams, ordering = len(plan.inputs), plan.ordering
    if ordering.strategy == SYNC and plan.options.ordering is None:
        return []
    if ordering.strategy == SYNC:
        return [Detail("order: sync: a tuple is joined in its turn, when no other stream can bring an older one")]
    if ordering.strategy == FILTER:
        head = "order: filter: a tuple is joined as it leaves its slack, and its results are held for their turn"
        return [Detail.headed(head, [EPOCHS if plan.options.shape == "binary" else FILTER_IN_EPOCHS])]
    if plan.options.ordering is None and plan.options.alpha is None:
        return [Detail(f"order: adaptive (the default): in turn, and from a load of {ordering.alpha:g} on before it")]
    overlap = ordering.alpha / (1 + ordering.alpha)
    lines = [
        f"before it from alpha = {ordering.alpha:g} on: the share of time that joining takes for all streams but"
        f" the slowest, {streams - 1}/{streams} of the whole; that saves {overlap:.0%} of the response time or more",
        "the load is measured against arrival times; where these are not known, tuples are joined in their turn",
        EPOCHS,
    ]
    return [Detail.headed("order: adaptive: tuples are joined in their turn, or before it where that pays", lines)]
