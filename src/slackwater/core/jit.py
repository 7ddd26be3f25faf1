"""How inner loops are compiled: cached on disk, never holding the interpreter.

Invariant: every njit function of the package is made here, so that one place decides the flags and a new process finds
the machine code of the last one. Numba asks only whether a function's own file has changed; machine code holds its
callees too, so the stamp of a cached function covers every file that its own file imports, directly or not, of this
package and of the one that the file is in.

Numba counts the references to every array at every call, with atomic instructions, which costs a helper of a few lines
more than its work. A function that makes no array needs none of that: its caller owns what it is given. So `in_place`
and `inner` count nothing, and cannot make arrays (numba refuses to compile them then); `compiled` and `allocating` can.

An array is handed over as seven words, a named group of ten arrays as seventy, which again is more than the work of a
helper. So an `inner` one becomes part of the loop that calls it, and state may be passed as one named tuple.

Compiling is what a newcomer's first query waits for. So a helper is not compiled anew for every literal it is called
with, and compiled code never assigns one slice to another, which would compile the wording of a shape error along.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import numba
from numba.core import types

P = ParamSpec("P")
R = TypeVar("R")

_HERE = Path(__file__).parent.parent
_IMPORT = re.compile(r"^(?:from|import) (\w+)\.?([\w.]*)(?: import (\([^)]*\)|.*))?$", re.MULTILINE)
_njit: Any = numba.njit
_unliteral: Any = types.unliteral


@cache
def _stamp(file: Path) -> bytes:
    """What the machine code of a function in this file was made from."""
    digest = hashlib.sha256()
    reached, waiting = {file}, [file]
    while waiting:
        fresh = _imported(waiting.pop()) - reached
        reached |= fresh
        waiting += fresh
    for one in sorted(reached | {Path(__file__)}):
        digest.update(one.read_bytes())
    return digest.digest()


@cache
def _imported(file: Path) -> frozenset[Path]:
    """The files that a file imports from, of this package and of its own."""
    own = _package(file)
    packages = {_HERE.name: _HERE, own.name: own}
    found = set()
    for package, module, names in _IMPORT.findall(file.read_text(encoding="utf-8")):
        if package not in packages:
            continue
        root = packages[package]
        path = root.joinpath(*module.split(".")) if module else root
        # A name may be a module of the package or something in its __init__.
        candidates = [path.with_suffix(".py"), path / "__init__.py"]
        candidates += [path / f"{name}.py" for name in re.findall(r"\w+", names)]
        found |= {candidate for candidate in candidates if candidate.is_file()}
    return frozenset(found)


def _package(file: Path) -> Path:
    """The folder of the top package that a file is in; its own folder where that is no package."""
    folder = file.parent
    while (folder.parent / "__init__.py").is_file():
        folder = folder.parent
    return folder


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile to machine code on first call, and keep it on disk beside the package."""
    return _cached(function, {"nogil": True})


def in_place(function: Callable[P, R]) -> Callable[P, R]:
    """As `compiled`, for a loop that works only in the arrays it is given."""
    return _cached(function, {"nogil": True, "_nrt": False})


def inner(function: Callable[P, R]) -> Callable[P, R]:
    """For the helpers of a loop: they make no array, become part of their caller, and so cost little to compile."""
    return _helper(function, {"nogil": True, "_nrt": False, "forceinline": True})


def allocating(function: Callable[P, R]) -> Callable[P, R]:
    """As `inner`, for a helper that makes arrays."""
    return _helper(function, {"nogil": True, "_nrt": True})


def _helper(function: Callable[P, R], options: dict[str, bool]) -> Callable[P, R]:
    dispatcher = _njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, **options)(function)
    template_for = dispatcher.get_call_template

    def without_literals(args: tuple[Any, ...], kws: dict[str, Any]) -> Any:
        return template_for(tuple(map(_unliteral, args)), {name: _unliteral(kind) for name, kind in kws.items()})

    dispatcher.get_call_template = without_literals
    return cast("Callable[P, R]", dispatcher)


def _cached(function: Callable[P, R], options: dict[str, bool]) -> Callable[P, R]:
    dispatcher = _njit(cache=True, **options)(function)
    index = dispatcher._cache._cache_file
    index._source_stamp = _stamp(Path(function.__code__.co_filename))
    read = index._load_index

    def read_if_it_can_be() -> Any:
        # An index names the types of arguments. One of an earlier version may name a module that is gone, and numba
        # reads all of it before it asks whether the stamp is still right.
        try:
            return read()
        except (ImportError, AttributeError):
            return {}

    index._load_index = read_if_it_can_be
    return cast("Callable[P, R]", dispatcher)


def jit(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a closure of the expression compiler; closures cannot be cached on disk."""
    return cast("Callable[..., Any]", numba.njit(nogil=True)(function))
