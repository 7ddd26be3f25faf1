"""Trees to place: random ones, and joins of averages as the paper's Q4 has."""

from __future__ import annotations

import random

import pyarrow as pa

from slackwater.core.schema import Field, Kind
from slackwater.expressions.relational import (
    Aggregate,
    AggregateCall,
    Distinct,
    Join,
    Project,
    Relation,
    Scan,
    Select,
    operators,
)
from slackwater.expressions.tree import Call, Column, Literal
from slackwater.plan.placement.costs import CONSTANTS, Costs
from slackwater.plan.placement.operator_costs import OperatorCosts
from slackwater.plan.placement.sizes import numbered, sizes_of
from slackwater.plan.placement.statistics import Statistics

SECOND = 1_000_000
MINUTE = 60 * SECOND
FUNCTIONS = ("COUNT", "SUM", "AVG", "MIN", "MAX", "MEDIAN", "COUNT_DISTINCT")


def integer(name: str) -> Field:
    return Field(name, Kind.INT, pa.int64())


KEY = Column(0, "k", Kind.INT)
VALUE = Column(0, "v", Kind.INT)


def window(stream: int, range_: int = MINUTE) -> Scan:
    return Scan(stream, range_, (integer("k"), integer("v")))


def above(below: Relation, bound: int = 0) -> Select:
    return Select(below, Call(">", (VALUE, Literal(bound, Kind.INT)), Kind.BOOL))


def aggregate(below: Relation, function: str = "AVG") -> Aggregate:
    return Aggregate(below, (KEY,), (integer("k"),), (AggregateCall(function, VALUE, None, integer("v")),))


def joined(left: Relation, right: Relation, kind: str = "inner", keyed: bool = True) -> Join:
    """By key; its first two columns are again k and v."""
    columns = left.columns
    if kind == "inner":
        taken = {one.name for one in columns}
        for one in right.columns:
            name = one.name
            while name in taken:
                name += "'"
            taken.add(name)
            columns += (integer(name),)
    return Join(left, right, ((KEY, KEY),) if keyed else (), None, kind, columns)  # type: ignore[arg-type]


def projected(below: Relation) -> Project:
    doubled = Call("*", (VALUE, Literal(2, Kind.INT)), Kind.INT)
    return Project(below, (KEY, doubled), (integer("k"), integer("v")))


def random_tree(chance: random.Random, most: int) -> Relation:
    """A tree of at most so many operators over k and v."""
    streams = iter(range(100))

    def made(room: int) -> Relation:
        if room <= 0:
            return window(next(streams), chance.choice((1, 60, 300)) * SECOND)
        kind = chance.randrange(7)
        if kind <= 1 and room >= 2:
            left = chance.randrange(room)
            return joined(
                made(left), made(room - 1 - left), chance.choice(("inner", "semi", "anti")), chance.random() < 0.9
            )
        below = made(room - 1)
        if kind == 2:
            return projected(below)
        if kind == 3 and len(below.columns) <= 2:
            return Distinct(below)
        if kind <= 4:
            return above(below, chance.randrange(3))
        return aggregate(below, chance.choice(FUNCTIONS))

    return made(chance.randint(1, most))


def random_costs(chance: random.Random, relation: Relation) -> OperatorCosts:
    """Rates and costs of any proportion, so that every engine is the better one somewhere."""
    streams = range(len(operators(relation)) + 1)
    statistics = Statistics(
        chance.choice((SECOND // 10, SECOND, 10 * SECOND)),
        {stream: 10 ** chance.uniform(0, 5) for stream in streams},
        {(stream, "k"): 10 ** chance.uniform(0, 3) for stream in streams},
    )
    shipped = Costs()
    scale = 10 ** chance.uniform(-3, 2)
    costs = Costs(**{name: getattr(shipped, name) * scale * 10 ** chance.uniform(-2, 2) for name in CONSTANTS})
    return costed(relation, statistics, costs)


def costed(relation: Relation, statistics: Statistics, costs: Costs | None = None) -> OperatorCosts:
    tree = numbered(relation)
    return OperatorCosts(tree, sizes_of(tree, statistics), statistics.slides, costs or Costs())


def average_of(stream: int) -> Relation:
    """The average of a filtered window: two operators."""
    return aggregate(above(window(stream, (2 * stream + 1) * MINUTE)))
