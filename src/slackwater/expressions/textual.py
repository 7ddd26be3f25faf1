"""What functions of text compute, value by value, as Spark computes it.

Invariant: known values in (but for `OF_NULLS`); out comes a value, or None where there is none. A function is asked
once for each distinct combination of its arguments (`columnar.py`), never for each tuple. Characters are code points.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from slackwater.core.schema import Kind
from slackwater.expressions import decimals, text_casts
from slackwater.expressions.tree import Call


def _substring(text: str, position: int, length: int | None = None) -> str:
    """From a position that counts from 1, or from the end where it is negative; 0 is as 1."""
    start = position - 1 if position > 0 else len(text) + position if position < 0 else 0
    end = len(text) if length is None else start + length
    return text[max(start, 0) : max(end, 0)]


def _like(text: str, pattern: str, escape: str = "\\") -> bool | None:
    matching = _matcher(pattern, escape)
    return None if matching is None else matching.fullmatch(text) is not None


def _ilike(text: str, pattern: str, escape: str = "\\") -> bool | None:
    return _like(text.lower(), pattern.lower(), escape)


@lru_cache(maxsize=1024)
def _matcher(pattern: str, escape: str) -> re.Pattern[str] | None:
    """A pattern of LIKE as a regular expression; None where the escape character stands before nothing special.

    What stands between two % is matched where it comes first, and for good: trying all other places as well would take
    time without end, and find nothing more.
    """
    pieces = [""]
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            escaped = next(characters, "")
            if escaped not in ("%", "_", escape):
                return None
            pieces[-1] += re.escape(escaped)
        elif character == "%":
            pieces.append("")
        else:
            pieces[-1] += "." if character == "_" else re.escape(character)
    first, *between = pieces
    if not between:
        return re.compile(first, re.DOTALL)
    last = between.pop()
    return re.compile(first + "".join(f"(?>.*?{piece})" for piece in between) + f".*{last}", re.DOTALL)


def _replace(text: str, search: str, other: str = "") -> str:
    return text.replace(search, other) if search else text


def _partition(*named: str | None) -> str:
    """Names and values in turns, such that other values give another text.

    >>> _partition("host", "a", "channel", None), _partition("host", "a, channel=b")
    ('host=a, channel=NULL', 'host="a, channel=b"')
    """
    return ", ".join(f"{name}={_told_apart(value)}" for name, value in zip(named[::2], named[1::2], strict=True))


def _told_apart(value: str | None) -> str:
    if value is None:
        return "NULL"
    return json.dumps(value, ensure_ascii=False) if value == "NULL" or "," in value or '"' in value else value


TEXT_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "upper": str.upper,
    "lower": str.lower,
    "length": len,
    "substring": _substring,
    "trim": lambda text: text.strip(" "),
    "ltrim": lambda text: text.lstrip(" "),
    "rtrim": lambda text: text.rstrip(" "),
    "replace": _replace,
    "concat": lambda *texts: "".join(texts),
    "startswith": str.startswith,
    "endswith": str.endswith,
    "contains": str.__contains__,
    "like": _like,
    "ilike": _ilike,
    "partition": _partition,
}
"""The functions that are of text in any case."""
OF_NULLS = frozenset(("partition",))
"""Those that make a value of unknown ones, too."""

# Code points are in the order of the bytes of UTF-8, which is that of Spark.
_ORDER: dict[str, Callable[[str, str], bool]] = {
    "<": str.__lt__,
    "<=": str.__le__,
    ">": str.__gt__,
    ">=": str.__ge__,
}


def text_function(call: Call) -> Callable[..., Any]:
    """What computes a call that makes text or looks into it.

    >>> from slackwater.expressions.tree import Literal
    >>> from slackwater.core.schema import Kind
    >>> name = Literal("a_b", Kind.TEXT)
    >>> text_function(Call("like", (name, name), Kind.BOOL))("a%b", "a\\\\%_")
    True
    """
    if call.op in TEXT_FUNCTIONS:
        return TEXT_FUNCTIONS[call.op]
    if call.op in _ORDER:
        return _ORDER[call.op]
    if call.op == "cast_string" and call.args[0].kind is Kind.DECIMAL:
        scale = call.args[0].scale
        return lambda digits: decimals.written(digits, scale)
    if call.op == "cast_string":
        return text_casts.TO_TEXT[call.args[0].kind]
    return text_casts.FROM_TEXT[call.op]
