"""Functions a user has registered: plain Python, compiled at once, so a query never fails for want of compilable code.

Invariant: whatever stands in USER_FUNCTIONS has been compiled for exactly the kinds it was registered with.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from slackwater.core.errors import UsageError
from slackwater.core.schema import Kind


@dataclass(frozen=True, eq=False)
class UserFunction:
    """A registered function. Two are the same only if they are one object, so a replaced one is never confused."""

    name: str
    function: Callable[..., Any]
    args: tuple[Kind, ...]
    result: Kind
    compiled: Any
    """numba's compile result for `args`."""

    @classmethod
    def build(cls, name: str, function: Callable[..., Any], args: tuple[Kind, ...], result: Kind) -> UserFunction:
        """Compile `function` for `args`, or say in one sentence why that cannot be done."""
        # numba takes longer to import than most commands take to run, and most queries register nothing.
        from numba import njit, types
        from numba.core.errors import NumbaError

        numba_kinds = {
            Kind.INT: types.int64,
            Kind.FLOAT: types.float64,
            Kind.BOOL: types.boolean,
            Kind.TIME: types.int64,
        }
        for kind in (Kind.TEXT, Kind.DECIMAL):
            if kind in (*args, result):
                raise UsageError(f"function '{name}' cannot take or give {kind.value}")
        plain = getattr(function, "py_func", function)
        signature = tuple(numba_kinds[kind] for kind in args)
        # Division by zero must give NaN or infinity: an exception could not leave the compiled loop it runs in.
        dispatcher = njit(error_model="numpy")(plain)
        try:
            dispatcher.compile(signature)
        except (NumbaError, NotImplementedError) as error:
            raise UsageError(f"function '{name}' cannot be compiled: {_reason(error)}") from None
        compiled: Any = dispatcher.overloads[signature]
        returned: Any = compiled.signature.return_type
        # A function that always returns 7 is typed as the constant 7.
        given = getattr(returned, "literal_type", returned)
        if not _fits(given, result):
            raise UsageError(f"function '{name}' returns {given}, which is not {result.value}")
        return cls(name, plain, args, result, compiled)


USER_FUNCTIONS: dict[str, UserFunction] = {}
"""Registered functions by lower-case name."""


def _fits(given: Any, result: Kind) -> bool:
    from numba import types

    if given in types.integer_domain:
        # An unsigned 64-bit number does not fit in a signed word.
        return result is Kind.FLOAT or (result is not Kind.BOOL and given != types.uint64)
    return given in types.real_domain if result is Kind.FLOAT else given == types.boolean and result is Kind.BOOL


def _reason(error: Exception) -> str:
    """The first line of numba's message that says something: its own opening line only names a compiler stage."""
    lines = [line.strip() for line in str(error).splitlines()]
    telling = [line for line in lines if line and not line.startswith(("Failed in", "-", "File "))]
    return telling[0] if telling else type(error).__name__
