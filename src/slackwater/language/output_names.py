"""Names for the columns of the result.

Invariant: all names differ, none is one that the runtime adds itself, and a name the user wrote is never changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from slackwater.core.errors import QueryError
from slackwater.language.bound import RESULT_TIME, WINDOW_COLUMNS
from slackwater.language.tokens import tokenize, word

_LONGEST = 48
_SYMBOLS = {
    "+": "plus",
    "-": "minus",
    "*": "times",
    "/": "over",
    "%": "mod",
    "=": "eq",
    "==": "eq",
    "<>": "ne",
    "!=": "ne",
    "<": "lt",
    "<=": "le",
    ">": "gt",
    ">=": "ge",
}


@dataclass(frozen=True)
class Wish:
    """What a column would like to be called: by the user, else plainly, else (where that is taken) with more words."""

    written: str | None
    plain: str
    longer: str
    place: tuple[int, int]


def spelled(written: str) -> str:
    """An expression's text as a name.

    >>> spelled("a.v - b.v"), spelled("COUNT(*)"), spelled("QUANTILE(v, 0.9)"), spelled("COUNT(DISTINCT a.k)")
    ('a_v_minus_b_v', 'count', 'quantile_v_0_9', 'count_distinct_a_k')
    """
    words: list[str] = []
    before = "("
    for token in tokenize(written):
        symbol = word(token)
        if symbol in _SYMBOLS:
            if not (symbol == "*" and before == "("):
                words.append(_SYMBOLS[symbol])
        else:
            words.append("".join(letter if letter.isalnum() else "_" for letter in token.text).strip("_").lower())
        before = symbol
    name = "_".join(part for part in words if part)[:_LONGEST].rstrip("_")
    return f"c_{name}" if not name or name[0].isdigit() else name


def name_columns(wishes: Sequence[Wish], text: str, aggregate: bool) -> list[str]:
    """One name per wish, in order."""
    names = [wish.written for wish in wishes]
    taken: set[str] = set()
    for wish in wishes:
        if wish.written is not None:
            if wish.written in taken:
                raise QueryError(f"two columns of the result are called '{wish.written}'", text, *wish.place)
            taken.add(wish.written)
    plain = Counter(wish.plain for wish in wishes if wish.written is None)
    for position, wish in enumerate(wishes):
        if names[position] is None and plain[wish.plain] == 1 and wish.plain not in taken:
            names[position] = wish.plain
            taken.add(wish.plain)
    for position, wish in enumerate(wishes):
        if names[position] is None:
            names[position] = free_name(wish.longer, taken)
    found = [name for name in names if name is not None]
    for name, wish in zip(found, wishes, strict=True):
        _refuse_reserved(name, text, wish.place, aggregate)
    return found


def free_name(name: str, taken: set[str]) -> str:
    """The name, or one with a number behind it where that is taken; it is taken from then on."""
    candidate, count = name, 1
    while candidate in taken:
        count += 1
        candidate = f"{name}_{count}"
    taken.add(candidate)
    return candidate


def _refuse_reserved(name: str, text: str, place: tuple[int, int], aggregate: bool) -> None:
    lower = name.lower()
    if lower == RESULT_TIME or lower.startswith("_row") or (aggregate and lower in WINDOW_COLUMNS):
        raise QueryError(f"a column of the result cannot be called '{name}'; name it otherwise with AS", text, *place)
    if not name:
        raise QueryError("a column of the result needs a name", text, *place)
