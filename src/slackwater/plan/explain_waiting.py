"""EXPLAIN of waiting: the most slack for a target, the rules of clocks, and which streams are not waited for."""

from __future__ import annotations

from slackwater.disorder.controllers import SlackController
from slackwater.model.options import Options
from slackwater.model.quality import Recall, RelativeError, default_cap
from slackwater.model.time import format_duration
from slackwater.operators.aggregate import WindowAggregate
from slackwater.plan.physical import PhysicalPlan


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
    ranges = [node.operator.range for node in (plan, *plan.nodes) if isinstance(node.operator, WindowAggregate)]
    if ranges:
        return default_cap(max(ranges), plan.options.max_behind)
    outlook = controller.outlook()
    return None if outlook is None else outlook.cap


def explain_clocks(options: Options) -> str:
    """Which tuples move clocks, and which are kept, rejected or late.

    >>> print(explain_clocks(Options()))
    a tuple ahead of its stream's crowd is kept until its time comes, beyond 10 min (max_ahead) rejected unless the \
others come along; beyond 1 d behind (max_behind) it is late and teaches nothing
    """
    ahead, behind = format_duration(options.max_ahead), format_duration(options.max_behind)
    return (
        f"a tuple ahead of its stream's crowd is kept until its time comes, beyond {ahead} (max_ahead) rejected unless"
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
