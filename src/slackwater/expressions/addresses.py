"""Compiled conditions handed to compiled code by their addresses.

Numba can pass a function itself, but then asks Python for its type and its address at every call, which takes longer
than joining a few hundred tuples. An address is a plain number.

Invariant: an address lives as long as the `Condition` that its function belongs to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


def function_at(signature: Any) -> Callable[[int], Callable[..., int]]:
    """For compiled code: what makes a callable of this signature out of the address of a C function."""
    kind = types.FunctionType(signature)

    def at(typing: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, _: Any, args: Any) -> Any:
            struct: Any = cgutils.create_struct_proxy
            function = struct(kind)(context, builder)
            function.c_addr = builder.inttoptr(args[0], context.get_value_type(types.voidptr))
            return function._getvalue()

        return kind(types.int64), generate

    return cast("Callable[[int], Callable[..., int]]", intrinsic(at))
