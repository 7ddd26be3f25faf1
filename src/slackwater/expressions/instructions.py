"""Strict operators that are one instruction of the machine, for those who write code and need no call.

Invariant: an instruction gives what the function of the same operator gives, word for word. It is there for the time
to compile alone: a call of a function costs the compiler milliseconds, and most operators of most queries are these.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from slackwater.expressions import arithmetic

Instruction = Callable[..., Any]
"""(builder, value, ...) -> value."""

_BITS = ir.IntType(64)


def instruction_for(function: Callable[..., Any], on_floats: bool) -> Instruction | None:
    """The instruction that does what a strict operator does on words or on floats, where there is one."""
    return (_ON_FLOATS if on_floats else _ON_WORDS).get(function)


def _words(symbol: str) -> Instruction:
    return lambda builder, a, b: builder.zext(builder.icmp_signed(symbol, a, b), _BITS)


def _floats(symbol: str) -> Instruction:
    return lambda builder, a, b: builder.zext(builder.fcmp_ordered(symbol, a, b), _BITS)


_ON_FLOATS: dict[Callable[..., Any], Instruction] = {
    arithmetic.add: lambda builder, a, b: builder.fadd(a, b),
    arithmetic.subtract: lambda builder, a, b: builder.fsub(a, b),
    arithmetic.multiply: lambda builder, a, b: builder.fmul(a, b),
    arithmetic.negate: lambda builder, a: builder.fneg(a),
    arithmetic.equal: _floats("=="),
    # A NaN is unequal to everything; that it is unknown, its state says.
    arithmetic.unequal: lambda builder, a, b: builder.zext(builder.fcmp_unordered("!=", a, b), _BITS),
    arithmetic.less: _floats("<"),
    arithmetic.at_most: _floats("<="),
}
_ON_WORDS: dict[Callable[..., Any], Instruction] = {
    arithmetic.negate: lambda builder, a: builder.neg(a),
    arithmetic.to_float: lambda builder, a: builder.sitofp(a, ir.DoubleType()),
    arithmetic.equal: _words("=="),
    arithmetic.unequal: _words("!="),
    arithmetic.less: _words("<"),
    arithmetic.at_most: _words("<="),
    arithmetic.logical_not: lambda builder, a: builder.sub(ir.Constant(_BITS, 1), a),
}
