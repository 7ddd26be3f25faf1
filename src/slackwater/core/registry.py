"""What a query may ask for by name: what the product offers by itself, and algorithms as published.

Invariant: a room of `slackwater.published` registers what it has when it is loaded, and it is loaded when a query asks
for a name that is not the product's own. So nothing imports an algorithm as published, and what asks for none does not
pay for any. A default may ask: joins that are taken tuple by tuple are adaptive.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Generic, TypeVar

Made = TypeVar("Made")


class Registry(Generic[Made]):
    """Named things of one kind; the product's own come first."""

    def __init__(self, room: str, own: Mapping[str, Made]) -> None:
        self._room, self._made = f"slackwater.published.{room}", dict(own)
        self._loaded = False

    def register(self, name: str, made: Made) -> None:
        """What a room calls while it is loaded."""
        self._made[name] = made

    def find(self, name: str) -> Made | None:
        """What has this name, if anything has."""
        if name not in self._made:
            self._load()
        return self._made.get(name)

    def names(self) -> tuple[str, ...]:
        """All that may be asked for."""
        self._load()
        return tuple(self._made)

    def _load(self) -> None:
        if not self._loaded:
            import_module(self._room)
            self._loaded = True
