"""The plan graph of several queries that run together: shared sources, filters and slack, then each query's own nodes.

Per source there is one source node and the tree of shared filters behind it. Behind that comes slack: queries that read
the same streams on the same terms have one ordered log, in which a tuple stands once, and every one of them a cursor
on it that goes by its own slack. A query of several operators keeps a slack of its own. What comes behind, from the
synchronizer to the output, is that of the query alone, with the name of the query before its id.

Invariant: as in the graph of one query, nothing is decided here. Taking the shared nodes away from a query leaves what
its own graph has behind its slack.

The keys of attributes that are not those of one query (`graph_of_plan.py`):

- source: source, time, columns (what any query ships), queries
- filter of a source: source, conditions, queries (all below it)
- slack: source, queries, clock_domain (what queries must have in common to share it), and of each input that reads it,
  in `cursors`: query, stream, reads (the id of the node that has tested its filter), and what its slack node alone has
- every node of one query alone: query
- operator, of an aggregate with another one over its stream: panes, with shared_with (queries that read the same pane
  store) and own_because (why it shares with nobody, or null)

References: 004 §5.1, Figure 5.1; §5.3 has chains of slack where here is one log.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from slackwater.expressions.render import render
from slackwater.operators.description import Detail
from slackwater.operators.query_set.places import QueryPlace
from slackwater.plan.graph import NodeKind, PlanGraph, PlanNode
from slackwater.plan.graph_of_plan import graph_of
from slackwater.plan.names import columns_shipped
from slackwater.plan.physical import PhysicalPlan
from slackwater.plan.query_set import QuerySetPlan
from slackwater.plan.sharing.conjuncts import conjuncts_of
from slackwater.plan.sharing.global_plan import ROOT, FilterNode, FilterTree, Reader, global_plan
from slackwater.plan.sharing.panes import PanesOf, panes_of


def graph_of_queries(
    plans: Mapping[str, PhysicalPlan], qualities_stated: Mapping[str, bool] | None = None
) -> PlanGraph:
    """The graph of queries, by name; `qualities_stated` says of which the text has a WITH clause."""
    stated = qualities_stated or {}
    graphs = {name: graph_of(plan, stated.get(name, True)) for name, plan in plans.items()}
    trees = global_plan(plans).trees
    places = QuerySetPlan.of(plans).places
    logs, panes = _logs(plans, places), panes_of(plans, places)
    nodes: list[PlanNode] = []
    for tree in trees:
        nodes += _Shared(tree, plans, graphs, logs).nodes()
    for name, graph in graphs.items():
        nodes += _own_nodes(name, plans[name], graph, logs, panes.get(name))
    notes = [Detail(f"query {name}", graph.notes) for name, graph in graphs.items()]
    return PlanGraph(tuple(nodes), (*_sharing(trees, plans, logs, panes.values()), *notes))


@dataclass(frozen=True)
class _Log:
    """Where tuples of a source wait for queries of one clock domain."""

    id: str
    source: str
    domain: str
    readers: tuple[Reader, ...]

    @property
    def queries(self) -> list[str]:
        return _queries(self.readers)


def _logs(plans: Mapping[str, PhysicalPlan], places: Mapping[str, QueryPlace]) -> list[_Log]:
    """What waits together: the queries of a clock domain, but for those whose operators bring streams into order."""
    found: dict[tuple[str, str, str], list[Reader]] = {}
    for query, plan in plans.items():
        own = query if plan.release.external_sync else ""
        for position, one in enumerate(plan.inputs):
            found.setdefault((one.stream.source, places[query].domain, own), []).append(Reader(query, position))
    made: list[_Log] = []
    for (source, domain, _), readers in found.items():
        number = sum(log.source == source for log in made)
        made.append(_Log(f"slack.{source}" + (f".{number + 1}" if number else ""), source, domain, tuple(readers)))
    return made


class _Shared:
    """The nodes of one source that all its queries share."""

    def __init__(
        self,
        tree: FilterTree,
        plans: Mapping[str, PhysicalPlan],
        graphs: Mapping[str, PlanGraph],
        logs: Iterable[_Log],
    ) -> None:
        self._tree, self._plans, self._graphs = tree, plans, graphs
        self._logs = [log for log in logs if log.source == tree.source]
        order = list(plans)
        self._readers = sorted(tree.node_of, key=lambda reader: (order.index(reader.query), reader.position))

    def nodes(self) -> list[PlanNode]:
        """Source, filters, slack."""
        filters = [self._filter(node) for node in self._tree.nodes[1:]]
        return [self._source(), *filters, *map(self._slack, self._logs)]

    def _id(self, number: int) -> str:
        """The id of a node of the tree."""
        return f"source.{self._tree.source}" if number == ROOT else f"filter.{self._tree.source}.{number}"

    def _source(self) -> PlanNode:
        inputs = [self._plans[reader.query].inputs[reader.position] for reader in self._readers]
        columns = list(dict.fromkeys(column for one in inputs for column in columns_shipped(one)))
        attributes = {
            "source": self._tree.source,
            "time": inputs[0].stream.schema.time,
            "columns": columns,
            "queries": _queries(self._readers),
        }
        ships = (Detail(f"ships {', '.join(columns)}"),)
        return PlanNode(self._id(ROOT), NodeKind.SOURCE, f"source {self._tree.source}", (), attributes, ships)

    def _filter(self, node: FilterNode) -> PlanNode:
        queries = _queries(self._tree.below(node.number))
        conditions = [render(one.expr) for one in node.predicate]
        label = f"filter {' and '.join(conditions)}" + (f", for {', '.join(queries)}" if len(queries) > 1 else "")
        attributes = {"source": self._tree.source, "conditions": conditions, "queries": queries}
        assert node.parent is not None, "only the source has none"
        return PlanNode(self._id(node.number), NodeKind.FILTER, label, (self._id(node.parent),), attributes)

    def _slack(self, log: _Log) -> PlanNode:
        read = sorted({self._tree.node_of[reader] for reader in log.readers})
        cursors = [self._cursor(reader) for reader in log.readers]
        attributes = {"source": log.source, "queries": log.queries, "clock_domain": log.domain, "cursors": cursors}
        count = len(log.queries)
        whose = f"one ordered log for {count} queries" if count > 1 else f"for query {log.queries[0]}"
        details = tuple(Detail(self._waiting(one)) for one in cursors)
        label = f"slack of {log.source}, {whose}"
        return PlanNode(log.id, NodeKind.SLACK, label, tuple(map(self._id, read)), attributes, details)

    def _waiting(self, cursor: Mapping[str, Any]) -> str:
        """For whom a tuple is held, and what has been tested of it by then."""
        number = next(node.number for node in self._tree.nodes if self._id(node.number) == cursor["reads"])
        path = [render(one.expr) for node in self._tree.path(number) for one in node.predicate]
        alias = "" if cursor["stream"] == self._tree.source else f" as {cursor['stream']}"
        passing = ", passing at once" if cursor["at_once"] else ""
        return f"{cursor['query']}{alias}: WITH {cursor['quality']}{passing}, of {' and '.join(path) or 'all'}"

    def _cursor(self, reader: Reader) -> dict[str, Any]:
        """How one input of a query waits."""
        alias = self._plans[reader.query].inputs[reader.position].stream.alias
        alone = next(
            node for node in self._graphs[reader.query].of_kind(NodeKind.SLACK) if node.attributes["stream"] == alias
        )
        return {"query": reader.query, "reads": self._id(self._tree.node_of[reader]), **alone.attributes}


def _own_nodes(
    name: str, plan: PhysicalPlan, graph: PlanGraph, logs: Iterable[_Log], panes: PanesOf | None
) -> list[PlanNode]:
    """The nodes behind slack, with what they read called what it is called in the graph of all queries."""
    positions = {one.stream.alias: position for position, one in enumerate(plan.inputs)}
    log_of = {reader: log.id for log in logs for reader in log.readers}
    called: dict[str, str] = {}
    nodes = []
    for node in graph:
        if node.kind is NodeKind.SLACK:
            called[node.id] = log_of[Reader(name, positions[node.attributes["stream"]])]
        elif node.kind is NodeKind.SOURCE or (node.kind is NodeKind.FILTER and _is_shared(node, graph)):
            continue
        else:
            called[node.id] = f"{name}/{node.id}"
            label = node.label
            if node.kind is NodeKind.OUTPUT:
                label = f"output of {name}{label.removeprefix('output')}"
            inputs = tuple(called[one] for one in node.inputs)
            attributes, details = {"query": name, **node.attributes}, node.details
            if panes is not None and node.kind is NodeKind.OPERATOR:
                attributes["panes"] = {"shared_with": list(panes.with_queries), "own_because": panes.own_because}
                details = (*details, Detail(str(panes)))
            nodes.append(
                replace(node, id=called[node.id], label=label, inputs=inputs, attributes=attributes, details=details)
            )
    return nodes


def _is_shared(node: PlanNode, graph: PlanGraph) -> bool:
    """Whether a filter is one of a source, and not of what an operator gives."""
    return all(below.kind is NodeKind.SOURCE for below in graph.inputs_of(node))


SHARED_IN_EPOCHS = (
    "{what} shared in the local runtime where tuples are released in epochs; tuple by tuple, and on Spark, every query"
    " has its own"
)


def _sharing(
    trees: Iterable[FilterTree], plans: Mapping[str, PhysicalPlan], logs: Iterable[_Log], panes: Iterable[PanesOf]
) -> list[Detail]:
    """How many conditions are tested for all queries, in place of how many for each; and when more is shared."""
    apart = sum(len(conjuncts_of(one.stream.filters)) for plan in plans.values() for one in plan.inputs)
    tested = sum(tree.tests for tree in trees)
    conditions, queries = _counted(apart, "condition", "conditions"), _counted(len(plans), "query", "queries")
    notes = [Detail(f"filters: {conditions} in {queries}, tested as {tested}")] if apart else []
    what = "slack and panes are" if any(one.with_queries for one in panes) else "slack is"
    waits_together = any(len(log.queries) > 1 for log in logs)
    return notes + ([Detail(SHARED_IN_EPOCHS.format(what=what))] if waits_together else [])


def _counted(count: int, one: str, several: str) -> str:
    return f"{count:,} {one if count == 1 else several}"


def _queries(readers: Iterable[Reader]) -> list[str]:
    return list(dict.fromkeys(reader.query for reader in readers))
