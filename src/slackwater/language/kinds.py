"""Kinds of SELECT that a word behind it asks for, as in SELECT DISTINCT; each is defined in a file of its own.

Parser and binder know kinds by this registry alone. A new kind is a file like `distinct` and one line here; its plan is
one line in `plan.planner`, its truth one line in `verify`.

Invariant: a kind reads streams, and stands alone: no query reads it, and it reads none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from slackwater.core.errors import QueryError
from slackwater.language import distinct
from slackwater.language.bound import Output, RowsQuery, StreamRef
from slackwater.language.parsed import ParsedQuery
from slackwater.language.scope import Scope
from slackwater.language.selection import bind_outputs

__all__ = ["KINDS", "bind_kind", "check_kind"]


class Kind(Protocol):
    """A module that defines a kind of SELECT."""

    def refusal(
        self, parsed: ParsedQuery, streams: tuple[StreamRef, ...], aggregation: bool
    ) -> tuple[str, tuple[int, int]] | None:
        """Why a query cannot be of this kind, and the place of that in the text; None if it can."""

    def bound(self, parsed: ParsedQuery, streams: tuple[StreamRef, ...], outputs: tuple[Output, ...]) -> RowsQuery:
        """The query over streams whose windows and filters are bound already, and so is what it selects."""


KINDS: Mapping[str, Kind] = {
    "DISTINCT": distinct,
}
"""By the word behind SELECT."""


def check_kind(parsed: ParsedQuery, streams: tuple[StreamRef, ...], aggregation: bool) -> None:
    """Refuse what does not go with the kind of a query."""
    refused = KINDS[parsed.kind].refusal(parsed, streams, aggregation) if parsed.kind else None
    if refused is not None:
        message, place = refused
        raise QueryError(message, parsed.text, *place)


def bind_kind(parsed: ParsedQuery, streams: tuple[StreamRef, ...]) -> RowsQuery | None:
    """The query of its kind; None for a plain SELECT."""
    if not parsed.kind:
        return None
    return KINDS[parsed.kind].bound(parsed, streams, bind_outputs(parsed.items, Scope(parsed.text, streams)))
