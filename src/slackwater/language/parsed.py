"""A query's clauses as values, before any name is resolved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from slackwater.core.options import Options
from slackwater.core.quality import Quality
from slackwater.core.results import AS_MADE, Out
from slackwater.language.clauses import Rate, Window
from slackwater.language.landmarks import Landmarks
from slackwater.language.window_clauses import MatchTime, WindowClause

QUERY_COLUMN = "\0query "


def query_column(number: int) -> str:
    """What stands in a condition for the query in its parentheses; no query can spell it."""
    return f"{QUERY_COLUMN}{number}"


EXPLAIN_AS = ("TEXT", "JSON")
"""The forms that EXPLAIN has; the first is that of a text that names none."""


@dataclass(frozen=True)
class ParsedItem:
    """One item of the SELECT list."""

    node: exp.Expr
    alias: str | None
    place: tuple[int, int]


@dataclass(frozen=True)
class ParsedStream:
    """One entry of FROM; a sub-query has no source."""

    source: str
    alias: str
    window: Window | Landmarks | Rate | None
    place: tuple[int, int]
    alias_place: tuple[int, int]
    query: ParsedQuery | None = None


@dataclass(frozen=True)
class ParsedQuery:
    """A query's clauses as written."""

    text: str
    place: tuple[int, int]
    items: tuple[ParsedItem, ...]
    streams: tuple[ParsedStream, ...]
    conditions: tuple[exp.Expr, ...]
    """The ON conditions, then WHERE."""
    windows: tuple[WindowClause, ...]
    """WINDOW, DWINDOW and PATH, before and after WHERE."""
    groups: tuple[exp.Expr, ...] | None
    having: exp.Expr | None = None
    members: tuple[ParsedQuery, ...] = ()
    """The queries of IN (SELECT ...) and EXISTS (SELECT ...) in the conditions, in which `query_column` stands for
    each."""
    united: tuple[ParsedQuery, ...] = ()
    """What stands behind each UNION ALL."""
    explain: str | None = None
    """The form in which the plan is asked for, instead of the results."""
    quality: Quality | None = None
    quality_place: tuple[int, int] = (0, 0)
    options: Options = field(default_factory=Options)
    option_places: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Where the options that are stated stand."""
    out: Out = AS_MADE
    out_place: tuple[int, int] = (0, 0)
    match: MatchTime | None = None
    """MATCH TIME, before or after WHERE."""
    kind: str = ""
    """The word behind SELECT that asks for another kind of query, one of `kinds.KINDS`; empty for a plain SELECT."""
    kind_place: tuple[int, int] = (0, 0)
