"""Which controller serves a quality target of a query: that of one operator, or that of several.

Invariant: a registry by the type of the spec; what is not in it is served as one operator is (`disorder.chosen`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch

from slackwater.core.errors import UsageError
from slackwater.core.options import Options
from slackwater.core.quality import Quality, Recall, RelativeError
from slackwater.core.time import MINUTE
from slackwater.disorder.controllers import SlackController
from slackwater.disorder.meters import Scaling
from slackwater.operators.composed.error import ComposedError
from slackwater.operators.composed.gathering import GatheringRows, GatheringTuples
from slackwater.operators.composed.recall import ComposedRecall
from slackwater.operators.composed.true_rows import KnownRows, TrueRows
from slackwater.operators.contract import Operator, OperatorSpec
from slackwater.operators.graph import OperatorGraph
from slackwater.operators.graph_operator import GraphOperator
from slackwater.operators.handing import Handing, PanePartials
from slackwater.operators.inputs import node_of
from slackwater.quality.recall.steady import ControllerConfig
from slackwater.quality.registry import controller_for, usual_interval


@singledispatch
def controller_of(
    spec: OperatorSpec, operator: Operator, quality: Quality, options: Options, windows: Sequence[int]
) -> SlackController:
    """The controller for the query of this spec, whose operator has just been built; `windows` are those of a join."""
    return controller_for(quality, options, windows)


@controller_of.register
def _(
    spec: OperatorGraph, operator: GraphOperator, quality: Quality, options: Options, windows: Sequence[int]
) -> SlackController:
    return composed_controller(quality, options, operator, spec.streams)


@controller_of.register
def _(
    spec: PanePartials, operator: Operator, quality: Quality, options: Options, windows: Sequence[int]
) -> SlackController:
    watched = spec.aggregate.watched
    if isinstance(quality, RelativeError) and watched is not None:
        return GatheringTuples(quality, options, watched)
    return controller_for(quality, options, windows)


def retention_of(options: Options) -> int:
    """How long what has arrived is kept to find true rows: what is stated, else a minute."""
    stated: int | None = options.retention
    return MINUTE if stated is None else stated


def composed_controller(quality: Quality, options: Options, graph: GraphOperator, streams: int) -> SlackController:
    """The controller for a graph over so many raw streams; what waits without a target is the same for any query."""
    if not isinstance(quality, Recall | RelativeError):
        return controller_for(quality, options)
    controller_for(quality, options)  # Refuses options that no controller has.
    if options.controller not in (None, "steady"):
        raise UsageError(
            f"option controller = '{options.controller}' is for one join or one aggregate of streams; of several"
            " operators only the steady one knows what a late tuple costs. Leave it out"
        )
    top = graph.vertices[-1].operator
    handed = isinstance(top.spec, Handing)
    whole = not (handed or top.spec.windowed)
    rows = TrueRows(graph, streams, whole, retention_of(options))
    if handed:
        return GatheringRows(quality, options, rows, top.spec.summed)
    return told_of_rows(quality, options, graph.spec, rows, top.scaling)


def told_of_rows(
    quality: Recall | RelativeError, options: Options, graph: OperatorSpec, rows: KnownRows,
    scaling: Scaling | None = None,
) -> ComposedRecall | ComposedError:  # fmt: skip
    """The steady controller of a graph, which is shown the true rows that its last node gives, or is given."""
    retention, top = retention_of(options), graph.all_nodes[-1]
    watched = top.operator.watched
    if isinstance(quality, Recall):
        interval = options.adaptation_interval or usual_interval(quality.over)
        config = ControllerConfig(interval, options.granularity, options.basic_window)
        whole = not top.operator.windowed
        return ComposedRecall(quality, config, retention, options.initial_slack, options.max_behind, rows, whole)
    assert watched is not None, "a bound on the error is one on an aggregate"
    coarse = graph.all_nodes[node_of(top.inputs[0])].operator.watched is not None
    return ComposedError(quality, options, retention, rows, watched, coarse, scaling)
