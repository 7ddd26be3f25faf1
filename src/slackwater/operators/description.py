"""How an operator describes itself to EXPLAIN: a label, attributes, details.

Invariant: attributes are plain data with stable keys; details are words for people and may change. A spec knows rows
and numbers of streams; what these are called it is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Detail:
    """A line about a node or a plan, and what is said under it."""

    text: str
    under: tuple[Detail, ...] = ()

    @classmethod
    def headed(cls, text: str, lines: Sequence[str]) -> Detail:
        """A heading with lines under it."""
        return cls(text, tuple(map(cls, lines)))

    def as_json(self) -> dict[str, Any]:
        """The line as data."""
        return {"text": self.text, "details": [detail.as_json() for detail in self.under]}


@dataclass(frozen=True)
class Described:
    """What an operator tells of itself."""

    label: str
    """In one line."""
    attributes: dict[str, Any]
    """Numbers, texts, lists and mappings, as JSON knows them; durations are microseconds, under names in `_us`."""
    details: tuple[Detail, ...] = ()


@dataclass(frozen=True)
class Shown:
    """What a query calls the inputs and results of an operator."""

    aliases: tuple[str, ...]
    name: Callable[[int, int], str]
    """What stands in a row of an input, in words."""
    windows: tuple[Detail, ...] = ()
    """The windows of the text, and how near in time members must be."""
    window_attributes: tuple[dict[str, Any], ...] = ()
    """The window in brackets of every input, as data; empty where it has none."""
    between: tuple[tuple[str, ...], ...] = ()
    """How far apart every two streams may be, for each alternative."""
    computed: tuple[str, ...] = ()
    """Result columns that are computed behind the operator."""

    def equality(self, left: tuple[int, int], right: tuple[int, int]) -> str:
        """Two rows of streams that are equal."""
        return " = ".join(f"{self.aliases[stream]}.{self.name(stream, row)}" for stream, row in (left, right))
