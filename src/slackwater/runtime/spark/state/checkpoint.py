"""What a checkpoint knows of its query: what its state depends on, and the target that is in force.

The first is described field by field. It is whatever gives state another shape or another meaning. Targets, options,
filters and what is computed from results are not part of it, so these may change on an old checkpoint.

Invariant: a field that has its default is left out of a description. So a checkpoint fits a later version with one
field more, as long as its query does not use that; a default that is changed needs a new DESCRIPTION. Two descriptions
that differ say in which field, with both values. The last target that was set while the query ran stays in force over
restarts, until it is set again or the query is started with another target in its text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from enum import Enum
from math import isfinite
from typing import Any

import pyarrow as pa

from slackwater.core.state import StateUpdate, state_update
from slackwater.plan.grid import Grid
from slackwater.plan.physical import InputPlan, PhysicalPlan
from slackwater.plan.tiling import Tiling

DESCRIPTION = 1
"""The version of descriptions."""
SHARDS = "number of shards or key groups"
TILES = "tiles that shards have"
NAMESPACE, KEY = "shard", "target"
"""Where state has the targets."""
REMEDY = "use a new checkpoint folder, or go on with the query it was made by"
ABSENT = "its default"
"""How a field that is left out is shown."""
MOST_SHOWN = 40
"""Characters that are shown of a value."""


def structure(plan: PhysicalPlan, labels: tuple[int, ...], time_unit: str, timed: bool) -> str:
    """What the state of a query depends on, as JSON; `timed` says whether the clock on the wall tells silence."""
    # What is read from a stream comes first: with another column, the operator's tuples are others as well.
    parts: dict[str, Any] = {
        "version": DESCRIPTION,
        "use of idle_timeout (its length may change)": timed,
        SHARDS: _cut(plan, labels),
    }
    parts |= {f"columns read from {one.stream.alias}": described(_shipped(one)) for one in plan.inputs}
    parts |= {"windows, keys or conditions": described(_kept_by(plan)), "unit of time": time_unit}
    if plan.partitioning.above is not None and len(labels) > 1:
        parts["steps it runs in"] = 2
    cut = plan.partitioning.cut(len(labels))
    if isinstance(cut, Tiling):
        parts[TILES] = described({"axes": cut.axes, "widths": cut.widths})
    return json.dumps(parts)


def described(value: object) -> Any:
    """A value as JSON; of a dataclass the fields that do not have their default.

    >>> from slackwater.core.window_graph import WindowGraph
    >>> described({"bounds": WindowGraph(2, ()), "keys": (1, None)})
    {'bounds': {'is': 'WindowGraph', 'streams': 2, 'alternatives': []}, 'keys': [1, None]}
    """
    if isinstance(value, float) and not isfinite(value):
        # Not a number is not even equal to itself.
        return str(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, pa.DataType):
        return str(value)
    if isinstance(value, Mapping):
        return {str(name): described(one) for name, one in value.items()}
    if isinstance(value, tuple | list):
        return [described(one) for one in value]
    if is_dataclass(value):
        found = {one.name: getattr(value, one.name) for one in fields(value)}
        stated = {one.name: found[one.name] for one in fields(value) if found[one.name] != _default(one)}
        return {"is": type(value).__name__} | described(stated)
    raise TypeError(f"a {type(value).__name__} has no description")


def _default(field: Any) -> object:
    return field.default if field.default_factory is MISSING else field.default_factory()


def difference(found: str, wanted: str) -> str | None:
    """One sentence that says why a checkpoint does not fit; None where it does.

    >>> difference('{"windows": {"range": 1}}', '{"windows": {"range": 2}}')
    'this checkpoint belongs to another query: its windows differ (range was 1 and is 2); use a new checkpoint folder,\
 or go on with the query it was made by'
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
    if others[0] == "version":
        return (
            f"this checkpoint describes its query by version {before.get('version')}, and this version of slackwater"
            f" reads {now['version']}; go on with the version that wrote it, or use a new checkpoint folder"
        )
    if others[0] == SHARDS and TILES in others:
        return (
            f"this checkpoint was made with another {SHARDS}, or is cut by rows, as earlier versions cut such joins;"
            f" {REMEDY}"
        )
    if others[0] == SHARDS:
        return f"this checkpoint was made with another {SHARDS}; ask for as many as before, or use a new folder"
    path, was, is_now = next(differing(before.get(others[0], ABSENT), now.get(others[0], ABSENT)))
    return (
        f"this checkpoint belongs to another query: its {others[0]} differ ({path or 'it'} was {_shown(was)} and is"
        f" {_shown(is_now)}); {REMEDY}"
    )


def differing(before: Any, now: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """The innermost fields in which two descriptions differ, each with both values.

    >>> list(differing({"a": [1, {"b": 2}]}, {"a": [1, {"b": 3}], "c": 4}))
    [('a[1].b', 2, 3), ('c', 'its default', 4)]
    """
    if isinstance(before, dict) and isinstance(now, dict):
        for name in dict.fromkeys((*before, *now)):
            inner = f"{path}.{name}" if path else name
            yield from differing(before.get(name, ABSENT), now.get(name, ABSENT), inner)
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        for number, (one, other) in enumerate(zip(before, now, strict=True)):
            yield from differing(one, other, f"{path}[{number}]")
    elif before != now:
        yield path, before, now


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]} ..."


def _cut(plan: PhysicalPlan, labels: tuple[int, ...]) -> Any:
    """Which tuples a shard has: by its label, or by its place in a grid."""
    cut = plan.partitioning.cut(len(labels))
    return described({"labels": labels} | ({"grid": cut} if isinstance(cut, Grid) else {}))


def _shipped(one: InputPlan) -> object:
    """Where the tuples that state holds have their values."""
    schema = one.stream.schema
    return {
        "source": one.stream.source,
        "time": schema.time,
        "columns": [
            {"name": name, "kind": kind, "row": row, "scale": schema[name].scale}
            for name, kind, row in one.columns
            if row < one.rows
        ],
        "computed": [column for column in one.computed if column.row < one.rows],
        "rows": one.rows,
        "partition_slot": one.partition_slot,
    }


def _kept_by(plan: PhysicalPlan) -> object:
    """What the operator's state depends on: of a plain join not what it selects, of an aggregate its accumulators."""
    operator = plan.operator
    if operator.state_identity is not operator:
        return operator.state_identity
    return {"operator": operator, "outputs": plan.outputs, "emitted": plan.emitted, "out": plan.query.out}


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
        return state_update(NAMESPACE, KEY, json.dumps({"stated": self.stated, "in_force": self.in_force}).encode())


def is_target(entry: StateUpdate) -> bool:
    """Whether an entry of state holds targets."""
    return (entry.namespace, entry.key) == (NAMESPACE, KEY)
