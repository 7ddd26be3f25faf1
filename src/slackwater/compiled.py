"""How inner loops are compiled: cached on disk, never holding the interpreter.

Invariant: every njit function of the package is made here, so that one place decides the flags and a new process finds the
machine code of the last one. Numba asks only whether a function's own file has changed; machine code holds the callees
too, so the stamp of every cached function covers all files that hold compiled code.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import numba

P = ParamSpec("P")
R = TypeVar("R")

_HERE = Path(__file__).parent
_FOLDERS = ("model", "windows", "disorder", "operators", "observe")


@cache
def _stamp() -> bytes:
    digest = hashlib.sha256()
    for folder in _FOLDERS:
        for file in sorted((_HERE / folder).rglob("*.py")):
            digest.update(file.read_bytes())
    return digest.digest()


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile to machine code on first call, and keep it on disk beside the package."""
    dispatcher: Any = numba.njit(cache=True, nogil=True)(function)
    dispatcher._cache._cache_file._source_stamp = _stamp()
    return cast("Callable[P, R]", dispatcher)


def inner(function: Callable[P, R]) -> Callable[P, R]:
    """For the helpers of a `compiled` loop: no wrapper of their own, so that they cost little to compile."""
    options = {"nogil": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return cast("Callable[P, R]", numba.njit(**options)(function))


def jit(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a closure of the expression compiler; closures cannot be cached on disk."""
    return cast("Callable[..., Any]", numba.njit(nogil=True)(function))
