"""Machine code of closures, kept on disk by what it was made of, so that a process reads what another has compiled.

Invariant: two closures share a name only if they compute the same. Numba finds machine code by the name of its function
and by the cells of the closure, which are other objects in every process. So a closure is named here by the text that
its maker writes of all that went into it; the stamp of its file covers the rest, as for any other loop.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from numba.core.caching import FunctionCache
from numba.core.ccallback import CFunc

from slackwater.core.jit import _stamp, jit

KEPT = 1000
"""How many closures of a folder have their machine code on disk; of more the oldest go."""
_FunctionCache: Any = FunctionCache
_OF_CLOSURE = re.compile(r"_[0-9a-f]{32}-\d+\.")


def closure(function: Callable[..., Any], made_of: str | None) -> Callable[..., Any]:
    """Compile a closure on first call; without a text that says all it is made of, it is compiled in every process."""
    cache = _cache_of(function, made_of)
    dispatcher: Any = jit(function)
    if cache is not None:
        dispatcher._cache = cache
    return dispatcher


def callback(signature: Any, function: Callable[..., Any], made_of: str | None) -> Any:
    """As `closure`, as a C function of this signature, which has an address; compiled at once."""
    cache = _cache_of(function, made_of)
    made: Any = CFunc(function, (signature.args, signature.return_type), {}, {})
    if cache is not None:
        made._cache = cache
    made.compile()
    return made


def _cache_of(function: Callable[..., Any], made_of: str | None) -> _Cache | None:
    if made_of is None:
        return None
    # It becomes the name of the symbol, too: whatever is loaded into a process must differ by that.
    function.__qualname__ = f"{function.__name__}_{hashlib.sha256(made_of.encode()).hexdigest()[:32]}"
    cache = _Cache(function)
    cache._cache_file._source_stamp = _stamp(Path(function.__code__.co_filename))
    return cache


class _Cache(_FunctionCache):  # type: ignore[misc]
    def _index_key(self, sig: Any, codegen: Any) -> Any:
        return sig, codegen.magic_tuple()

    def _save_overload(self, sig: Any, data: Any) -> None:
        super()._save_overload(sig, data)
        files = [file for file in Path(self._cache_path).iterdir() if _OF_CLOSURE.search(file.name)]
        # Each has two files. Where there are too many half of them go, so that this is done seldom.
        if len(files) > 2 * KEPT:
            for file in sorted(files, key=_age)[: len(files) // 2]:
                file.unlink(missing_ok=True)


def _age(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except FileNotFoundError:
        return 0.0
