"""The name of a table in its parts, and the columns of a key among those there are.

Invariant: what a user names goes into SQL in quotes, part by part; a dot within quotes belongs to a name.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from slackwater.core.errors import UsageError
from slackwater.language.scope import did_you_mean
from slackwater.runtime.spark.upsert.changes import CHANGE, VERSION


def parts_of(name: str, quote: str) -> tuple[str, ...]:
    """The parts of a name, between dots.

    >>> parts_of("lake.sales.by_country", "`"), parts_of('public."a.b""c"', '"')
    (('lake', 'sales', 'by_country'), ('public', 'a.b"c'))
    """
    part = re.compile(rf"{quote}((?:[^{quote}]|{quote}{quote})+){quote}|([^{quote}.]+)")
    parts, at = [], 0
    while (found := part.match(name, at)) is not None:
        parts.append(found[2] or found[1].replace(quote * 2, quote))
        at = found.end()
        if at == len(name):
            return tuple(parts)
        if name[at] != ".":
            break
        at += 1
    raise UsageError(f"{name!r} is no name of a table; write it as in schema.table, with {quote} around unusual parts")


def check_columns(columns: Sequence[str], key: Sequence[str], what: str) -> None:
    """Refuse rows that cannot be told apart by this key."""
    twice = [name for name, count in Counter(name.lower() for name in columns).items() if count > 1]
    if twice:
        alike = [name for name in columns if name.lower() == twice[0]]
        raise UsageError(f"{what}: columns {_listed(alike)} differ by case alone; name one otherwise with AS")
    if (CHANGE in columns) != (VERSION in columns):
        own, missing = (CHANGE, VERSION) if CHANGE in columns else (VERSION, CHANGE)
        raise UsageError(
            f"{what}: there is a column '{own}' and no '{missing}'; change rows have both, so name yours otherwise with"
            " AS"
        )
    ordinary = [name for name in columns if name not in (CHANGE, VERSION)]
    for name in key:
        if name not in ordinary:
            hint = did_you_mean(name, ordinary) or f"; there are {', '.join(ordinary)}"
            raise UsageError(f"{what}: there is no column '{name}' for the key of an upsert{hint}")


def _listed(names: Sequence[str]) -> str:
    return " and ".join(f"'{name}'" for name in names)
