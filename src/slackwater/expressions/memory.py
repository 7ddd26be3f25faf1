"""Memory read by its address in compiled code.

Invariant: whoever hands out an address keeps what it points to alive, and in its place, until the call is over.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic


def _loading(bits: int, returned: Any) -> Callable[[int], Any]:
    """For compiled code: what reads so many bits at an address, at whatever byte it begins."""

    def at(typing: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, _: Any, args: Any) -> Any:
            pointer = builder.inttoptr(args[0], ir.IntType(bits).as_pointer())
            word = builder.load(pointer, align=1)
            return word if bits == 64 else builder.zext(word, ir.IntType(64))

        return returned(types.int64), generate

    return cast("Callable[[int], Any]", intrinsic(at))


word_at: Callable[[int], np.uint64] = _loading(64, types.uint64)
"""Eight bytes as an unsigned number, the first one the smallest."""
number_at: Callable[[int], int] = _loading(64, types.int64)
"""Eight bytes as a signed number."""
half_at: Callable[[int], np.uint64] = _loading(32, types.uint64)
"""Four bytes as an unsigned number."""
byte_at: Callable[[int], np.uint64] = _loading(8, types.uint64)
"""One byte as an unsigned number."""
