"""Bounds between event times as conditions: for what cannot be told while partners are looked for one by one.

Invariant: true of a combination iff its event times keep the bounds.
"""

from __future__ import annotations

from slackwater.core.schema import Kind
from slackwater.expressions.functions import typed_call
from slackwater.expressions.tree import Column, Expr, Literal
from slackwater.windows.graph import WindowGraph

TIME = "\0ts"
"""The name of a member's own event time: one that no query can spell."""


def time_of(stream: int) -> Column:
    """The event time of a member."""
    return Column(stream, TIME, Kind.TIME)


def at_most(newer: Column, older: Column, most: int) -> Expr:
    """One event time is at most so much after another."""
    return typed_call("<=", (typed_call("-", (newer, older)), Literal(most, Kind.INT)))


def one_alternative(graph: WindowGraph) -> Expr:
    """That a combination which keeps the widest bounds keeps one of the alternatives; of a graph that is undecided.

    >>> from slackwater.core.time import before
    >>> either = one_alternative(WindowGraph(2, (before(0, 1, 5), before(1, 0, 5))))
    >>> either.op, [direction.op for direction in either.args]
    ('or', ['<=', '<='])
    """
    return typed_call("or", tuple(_kept(graph, n) for n in range(len(graph.alternatives))))


def _kept(graph: WindowGraph, alternative: int) -> Expr:
    closed, every = graph.closed[alternative], range(graph.streams)
    tighter = [(i, j) for i in every for j in every if closed[i][j] < graph.widest[i][j]]
    bounds = [at_most(time_of(i), time_of(j), closed[i][j]) for i, j in tighter]
    return bounds[0] if len(bounds) == 1 else typed_call("and", tuple(bounds))
