"""Ways to join that a query asks for by name, `OPTIONS (join = ...)`; without a name the engine joins."""

from __future__ import annotations

from collections.abc import Callable

from slackwater.core.registry import Registry
from slackwater.operators.join.operator import WindowJoin

ALGORITHMS: Registry[Callable[[WindowJoin, str | None], WindowJoin]] = Registry("wjoin", {})
"""Each makes the spec of the same join; the text is option `windows`. Another name refuses what it cannot join."""
