"""What a checkpoint knows of its query: the structure that it must agree with, and the target that is in force.

Invariant: the structure is whatever gives state another shape or another meaning. Targets, options, filters and what is
computed from results are not part of it, so these may change on an old checkpoint. Two structures that differ say in
which part, in words for a user. Of targets the last word counts: one that was set while the query ran stays in force
over restarts, until it is set again or the query is started with another target in its text.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace

from slackwater.core.state import StateUpdate, state_update
from slackwater.operators.aggregate.operator import WindowAggregate
from slackwater.operators.contract import PlannedSpec
from slackwater.operators.join.operator import WindowJoin
from slackwater.plan.grid import Grid
from slackwater.plan.physical import InputPlan, PhysicalPlan
from slackwater.plan.tiling import Tiling

SHARDS = "number of shards, key groups or shuffle partitions"
TILES = "tiles that shards have"
NAMESPACE, KEY = "shard", "target"
"""Where state has the targets."""
REMEDY = "use a new checkpoint folder, or go on with the query it was made by"


def structure(plan: PhysicalPlan, labels: tuple[int, ...], time_unit: str, beats: bool) -> str:
    """The structure of a query as JSON: digests, by what they are of; `beats` says whether silence is timed."""
    # What is read from a stream comes first: with another column, the operator's tuples are others as well.
    parts = {"use of idle_timeout (its length may change)": repr(beats), SHARDS: _cut(plan, labels)} | {
        f"columns read from {one.stream.alias}": repr(_shipped(one)) for one in plan.inputs
    }
    parts |= {"windows, keys or conditions": repr(_kept_by(plan)), "unit of time": time_unit}
    cut = plan.partitioning.cut(len(labels))
    if isinstance(cut, Tiling):
        parts[TILES] = repr((cut.axes, cut.widths))
    return json.dumps({name: hashlib.sha256(text.encode()).hexdigest()[:16] for name, text in parts.items()})


def difference(found: str, wanted: str) -> str | None:
    """One sentence that says why a checkpoint does not fit; None where it does.

    >>> difference('{"windows": "1"}', '{"windows": "2"}')
    'this checkpoint belongs to another query: its windows differ; use a new checkpoint folder, or go on with the query\
 it was made by'
    """
    if found == wanted:
        return None
    try:
        before, now = json.loads(found), json.loads(wanted)
    except ValueError:
        return f"this checkpoint belongs to another query; {REMEDY}"
    others = [name for name in (*now, *before) if before.get(name) != now.get(name)]
    if not others:
        return None
    if others[0] == SHARDS and TILES in others:
        return (
            f"this checkpoint was made with another {SHARDS}, or is cut by rows, as earlier versions cut such joins;"
            f" {REMEDY}"
        )
    if others[0] == SHARDS:
        return f"this checkpoint was made with another {SHARDS}; ask for as many as before, or use a new folder"
    return f"this checkpoint belongs to another query: its {others[0]} differ; {REMEDY}"


def _cut(plan: PhysicalPlan, labels: tuple[int, ...]) -> str:
    """Which tuples a shard has: by its label, or by its place in a grid."""
    cut = plan.partitioning.cut(len(labels))
    return repr((labels, cut)) if isinstance(cut, Grid) else repr(labels)


def _shipped(one: InputPlan) -> object:
    """Where the tuples that state holds have their values."""
    schema = one.stream.schema
    columns = tuple((*column, schema[column[0]].scale) for column in one.columns if column[2] < one.rows)
    computed = tuple(column for column in one.computed if column.row < one.rows)
    return one.stream.source, schema.time, columns, computed, one.rows, one.partition_slot


def _kept_by(plan: PhysicalPlan) -> object:
    """What the operator's state depends on: of a plain join not what it selects, of an aggregate its accumulators."""
    operator = plan.operator
    if plan.relation_to_stream is None and type(operator) is WindowJoin:
        return replace(operator, emit=())
    if plan.relation_to_stream is None and type(operator) is WindowAggregate:
        sorted_values = tuple(one for one in operator.aggregates if one.holistic)
        return operator.range, operator.slide, operator.keys, operator.layout, sorted_values, operator.rows
    if isinstance(operator, PlannedSpec):
        return operator.kept, plan.query.out
    return operator, plan.outputs, plan.emitted, plan.query.out


@dataclass(frozen=True)
class Targets:
    """Targets as clauses of the language.

    >>> started = Targets.among([], "RECALL 0.95 OVER 1 MINUTE")
    >>> changed_while_running = started.asked("RECALL 0.99 OVER 1 MINUTE")
    >>> kept = [changed_while_running.as_update()]
    >>> Targets.among(kept, "RECALL 0.95 OVER 1 MINUTE").in_force
    'RECALL 0.99 OVER 1 MINUTE'
    >>> Targets.among(kept, "RECALL 0.9 OVER 1 MINUTE").in_force
    'RECALL 0.9 OVER 1 MINUTE'
    """

    stated: str
    in_force: str

    @classmethod
    def among(cls, entries: Iterable[StateUpdate], stated: str) -> Targets:
        """The targets after a start with this one in the text, given the state that there is."""
        for entry in entries:
            if is_target(entry) and entry.value is not None:
                before = cls(**json.loads(entry.value))
                return before if before.stated == stated else cls(stated, stated)
        return cls(stated, stated)

    def asked(self, target: str | None) -> Targets:
        """With another target from now on, unless it is None."""
        return self if target is None else replace(self, in_force=target)

    def as_update(self) -> StateUpdate:
        """As an entry of state."""
        return state_update(NAMESPACE, KEY, json.dumps({"stated": self.stated, "in_force": self.in_force}).encode())


def is_target(entry: StateUpdate) -> bool:
    """Whether an entry of state holds targets."""
    return (entry.namespace, entry.key) == (NAMESPACE, KEY)
