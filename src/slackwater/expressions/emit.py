"""Lowered expressions as one numba intrinsic that computes any of them, inlined into the loop that asks.

Invariant: the code emitted for an expression has no side effects, never raises, and gives (value, state) where the
state is KNOWN, UNKNOWN or FAILED and the value means something only when KNOWN.

Each node is emitted straight into the caller's loop. Compared with one compiled function a node, this keeps the time to
compile a query nearly independent of its size: what is compiled apart is only each kernel, once a process. A strict
operator that is one instruction of the machine is not even a call: the instruction gives what the function of the same
operator gives, word for word, and saves the compiler milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numba.core.cgutils
from llvmlite import ir
from numba.extending import intrinsic

from slackwater.core.schema import NULL_FLOAT, NULL_WORD, Kind
from slackwater.expressions import arithmetic
from slackwater.expressions.kernels import Checked, Lazy, Strict
from slackwater.expressions.logic import FAILED, KNOWN
from slackwater.expressions.lower import MAX_STREAMS, Address, Cell, Count, Node, Step, Word
from slackwater.expressions.shapes import Given, GivenRow, Shape, ShapeStep, parameters_of
from slackwater.expressions.user import UserFunction

_BITS = ir.IntType(64)
_NULL = ir.Constant(_BITS, NULL_WORD)
_KNOWN = ir.Constant(_BITS, KNOWN)
_FAILED = ir.Constant(_BITS, FAILED)

Emitted = tuple[Any, Any]
"""The values of the code builder that hold a result and its state."""
Instruction = Callable[..., Any]
"""(builder, value, ...) -> value."""


def evaluator(nodes: tuple[Node | Shape, ...]) -> Any:
    """An intrinsic `f(which, words, floats, stream, position, others, parameters) -> (value, state)`.

    It computes node number `which`, where the tuple of `stream` is at `position` and the tuples of the other streams
    are where `others`, a tuple of MAX_STREAMS positions, says. Shapes take their parameters from a tuple, which is
    empty for nodes. All must agree on integer or float values. A `which` out of range gives a known 1.
    """
    value_type = number_type(nodes[0].kind) if nodes else types.int64

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        which, words, floats, stream, position, others, parameters = args
        positions = [
            builder.select(
                builder.icmp_signed("==", stream, ir.Constant(_BITS, number)),
                position,
                builder.extract_value(others, number),
            )
            for number in range(MAX_STREAMS)
        ]
        given = [builder.extract_value(parameters, at) for at in range(len(signature.args[6]))]
        writer = _Writer(context, builder, signature.args[1:3], (words, floats), positions, given)
        done, other = builder.append_basic_block("done"), builder.append_basic_block("other")
        switch = builder.switch(which, other)
        results = [(ir.Constant(context.get_value_type(value_type), 1), _KNOWN, other)]
        for number, node in enumerate(nodes):
            block = builder.append_basic_block(f"node{number}")
            switch.add_case(ir.Constant(_BITS, number), block)
            builder.position_at_end(block)
            value, state = writer.emit(node)
            # Emitting may have opened further blocks.
            results.append((value, state, builder.block))
            builder.branch(done)
        builder.position_at_end(other)
        builder.branch(done)
        builder.position_at_end(done)
        value, state = builder.phi(results[0][0].type), builder.phi(_BITS)
        for one_value, one_state, block in results:
            value.add_incoming(one_value, block)
            state.add_incoming(one_state, block)
        return context.make_tuple(builder, signature.return_type, [value, state])

    @intrinsic
    def evaluate(
        typing: Any, which: Any, words: Any, floats: Any, stream: Any, position: Any, others: Any, parameters: Any
    ) -> Any:
        positions = types.UniTuple(types.int64, MAX_STREAMS)
        pair = types.Tuple((value_type, types.int64))
        return pair(types.int64, words, floats, types.int64, types.int64, positions, parameters), codegen

    return evaluate


def filler(shapes: tuple[Shape, ...]) -> Any:
    """An intrinsic `f(which, words, floats, parameters, n, out) -> failed`.

    It computes shape number `which` at positions 0..n-1, with these parameters, into the words of `out`; other than 0
    comes back if a value failed. Each shape has a loop of its own, so it is as fast as one that was compiled alone.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        which, words, floats, parameters, n, out = args
        parameters_type, out_type = signature.args[3], signature.args[5]
        source = context.make_array(parameters_type)(context, builder, parameters).data
        target = context.make_array(out_type)(context, builder, out).data
        failed = cgutils.alloca_once_value(builder, ir.Constant(_BITS, 0))
        done = builder.append_basic_block("done")
        switch = builder.switch(which, done)
        for number, shape in enumerate(shapes):
            block = builder.append_basic_block(f"shape{number}")
            switch.add_case(ir.Constant(_BITS, number), block)
            builder.position_at_end(block)
            # Read before the loop: inside, whatever is written could be one of them for all the compiler knows.
            given = [builder.load(builder.gep(source, [ir.Constant(_BITS, k)])) for k in range(parameters_of(shape))]
            with cgutils.for_range(builder, n) as loop:
                positions = [loop.index] * MAX_STREAMS
                writer = _Writer(context, builder, signature.args[1:3], (words, floats), positions, given)
                value, state = writer.emit(shape)
                word = builder.bitcast(value, _BITS) if shape.kind is Kind.FLOAT else value
                null = ir.Constant(_BITS, NULL_FLOAT if shape.kind is Kind.FLOAT else NULL_WORD)
                known = builder.icmp_signed("==", state, _KNOWN)
                builder.store(builder.select(known, word, null), builder.gep(target, [loop.index]))
                # FAILED is the only state that leaves something when shifted.
                one_failed = builder.lshr(state, ir.Constant(_BITS, 1))
                builder.store(builder.or_(builder.load(failed), one_failed), failed)
            builder.branch(done)
        builder.position_at_end(done)
        return builder.load(failed)

    @intrinsic
    def fill(typing: Any, which: Any, words: Any, floats: Any, parameters: Any, n: Any, out: Any) -> Any:
        return types.int64(types.int64, words, floats, parameters, types.int64, out), codegen

    return fill


def number_type(kind: Kind) -> Any:
    """The machine type that carries a kind."""
    return types.float64 if kind is Kind.FLOAT else types.int64


class _Writer:
    """Writes nodes into one function under construction."""

    def __init__(
        self,
        context: Any,
        builder: Any,
        array_types: Any,
        arrays: tuple[Any, Any],
        positions: list[Any],
        parameters: Sequence[Any] = (),
    ) -> None:
        self.context, self.builder, self.array_types = context, builder, array_types
        self.arrays = [context.make_array(array_types[at])(context, builder, arrays[at]) for at in (0, 1)]
        self.positions, self.parameters = positions, parameters

    def emit(self, node: Node | Shape) -> Emitted:
        if isinstance(node, Cell):
            return self._cell(ir.Constant(_BITS, node.row), self.positions[node.stream], node.kind)
        if isinstance(node, GivenRow):
            return self._cell(self.parameters[node.at], self.positions[0], node.kind)
        if isinstance(node, Given):
            value = self.parameters[node.at]
            if node.kind is Kind.FLOAT:
                value = self.builder.bitcast(value, ir.DoubleType())
            return value, self._known(value, node.kind)
        if isinstance(node, (Address, Count)):
            return ir.Constant(_BITS, node.bits), _KNOWN
        if isinstance(node, Word):
            value = (
                ir.Constant(ir.DoubleType(), node.number) if node.kind is Kind.FLOAT else ir.Constant(_BITS, node.bits)
            )
            return value, self._known(value, node.kind)
        args = [self.emit(arg) for arg in node.args]
        kernel = node.kernel
        if isinstance(kernel, Lazy):
            return self._lazy(kernel, node, args)
        if isinstance(kernel, Checked):
            return self._checked(kernel, args)
        if isinstance(kernel, Strict):
            return self._strict(kernel, node, args)
        return self._user(kernel, node, args)

    def _cell(self, row: Any, position: Any, kind: Kind) -> Emitted:
        array = kind is Kind.FLOAT
        pointer = cgutils.get_item_pointer(
            self.context,
            self.builder,
            self.array_types[array],
            self.arrays[array],
            [row, position],
            wraparound=False,
        )
        value = self.builder.load(pointer)
        return value, self._known(value, kind)

    def _known(self, value: Any, kind: Kind) -> Any:
        """KNOWN unless the word is that of a null."""
        if kind is Kind.FLOAT:
            known = self.builder.fcmp_ordered("ord", value, value)
        else:
            known = self.builder.icmp_signed("!=", value, _NULL)
        return self.builder.zext(known, _BITS)

    def _all_known(self, args: list[Emitted]) -> Any:
        """FAILED if one argument is, else KNOWN if all are."""
        every = some = args[0][1]
        for _, state in args[1:]:
            every, some = self.builder.and_(every, state), self.builder.or_(some, state)
        return self.builder.or_(self.builder.and_(every, _KNOWN), self.builder.and_(some, _FAILED))

    def _strict(self, kernel: Strict, step: Step | ShapeStep, args: list[Emitted]) -> Emitted:
        signature = number_type(step.kind)(*(number_type(arg.kind) for arg in step.args))
        values = [value for value, _ in args]
        plain = instruction_for(kernel.function, step.args[0].kind is Kind.FLOAT)
        if plain is not None:
            value = plain(self.builder, *values)
        else:
            value = self.context.compile_internal(self.builder, kernel.function, signature, values)
        keep = self.builder.or_(self._known(value, step.kind), _FAILED)
        return value, self.builder.and_(self._all_known(args), keep)

    def _checked(self, kernel: Checked, args: list[Emitted]) -> Emitted:
        state = self._all_known(args)
        both = getattr(self.builder, kernel.instruction)(args[0][0], args[1][0])
        value, overflow = self.builder.extract_value(both, 0), self.builder.extract_value(both, 1)
        # The word of null is no number: reaching it is an overflow like going beyond.
        outside = self.builder.or_(overflow, self.builder.icmp_signed("==", value, _NULL))
        # KNOWN + KNOWN is FAILED; any other state stays.
        return value, self.builder.add(state, self.builder.and_(state, self.builder.zext(outside, _BITS)))

    def _lazy(self, kernel: Lazy, step: Step | ShapeStep, args: list[Emitted]) -> Emitted:
        kinds = [kind for arg in step.args for kind in (number_type(arg.kind), types.int64)]
        signature = types.Tuple((number_type(step.kind), types.int64))(*kinds)
        flat = [part for arg in args for part in arg]
        pair = self.context.compile_internal(self.builder, kernel.function, signature, flat)
        return self.builder.extract_value(pair, 0), self.builder.extract_value(pair, 1)

    def _user(self, function: UserFunction, step: Step | ShapeStep, args: list[Emitted]) -> Emitted:
        """A user's function, called for known values only; an exception in it is a failure like an overflow."""
        context, builder = self.context, self.builder
        compiled = function.compiled
        signature, kind = compiled.signature, number_type(step.kind)
        context.active_code_library.add_linking_library(compiled.library)
        state = self._all_known(args) if args else _KNOWN
        zero = ir.Constant(context.get_value_type(kind), 0)
        value_slot, state_slot = cgutils.alloca_once_value(builder, zero), cgutils.alloca_once_value(builder, state)
        with builder.if_then(builder.icmp_signed("==", state, _KNOWN)):
            given = [
                context.cast(builder, value, number_type(arg.kind), wanted)
                for (value, _), arg, wanted in zip(args, step.args, signature.args, strict=True)
            ]
            status, result = context.call_internal_no_propagate(builder, compiled.fndesc, signature, given)
            value = context.cast(builder, result, signature.return_type, kind)
            builder.store(value, value_slot)
            builder.store(builder.select(status.is_error, _FAILED, self._known(value, step.kind)), state_slot)
        return builder.load(value_slot), builder.load(state_slot)


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


# numba is only half typed: what it calls untyped would have to be excused at every use.
types: Any = numba.types
cgutils: Any = numba.core.cgutils
