"""A user's registered functions, on their way to the workers.

Invariant: a worker compiles a function before the first tuple needs it, and again only if another one has taken its
name; what travels is the plain function, as Spark ships any other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from slackwater.core.schema import Kind
from slackwater.expressions.functions import register
from slackwater.expressions.user import USER_FUNCTIONS


@dataclass(frozen=True)
class Shipped:
    """A registered function without what was compiled from it."""

    name: str
    function: Callable[..., Any]
    args: tuple[Kind, ...]
    result: Kind


def registered() -> tuple[Shipped, ...]:
    """Everything that is registered in this process."""
    return tuple(Shipped(one.name, one.function, one.args, one.result) for one in USER_FUNCTIONS.values())


def register_here(functions: tuple[Shipped, ...]) -> None:
    """Have functions of another process registered in this one.

    >>> register_here((Shipped("doctest_half", lambda x: x / 2, (Kind.FLOAT,), Kind.FLOAT),))
    >>> "doctest_half" in USER_FUNCTIONS
    True
    """
    for one in functions:
        known = USER_FUNCTIONS.get(one.name.lower())
        if known is None or (known.args, known.result) != (one.args, one.result) or not _same(known.function, one):
            register(one.name, one.function, one.args, one.result)


def _same(known: Callable[..., Any], shipped: Shipped) -> bool:
    codes = [getattr(function, "__code__", None) for function in (known, shipped.function)]
    return codes[0] is not None and codes[0] == codes[1]
