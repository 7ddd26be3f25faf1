"""What a pipeline asks of the operator behind it, and of the spec that the operator was built from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from slackwater.disorder.run import Run
from slackwater.kernel import Change
from slackwater.operators.holdings import Holding
from slackwater.operators.output import Output


class Operator(Protocol):
    """What stands behind the disorder stage."""

    @property
    def retained(self) -> int: ...
    def process(self, run: Run, ordered: bool) -> Iterator[Output]: ...
    def holdings(self, frontier: int) -> Iterator[Holding]: ...
    def changes(self) -> list[Change]: ...
    def restore(self, entries: list[Change]) -> None: ...


class OperatorSpec(Protocol):
    """The frozen half of an operator."""

    @property
    def streams(self) -> int: ...
    @property
    def rows(self) -> int: ...
    @property
    def needs_order(self) -> bool: ...
    def build(self) -> Any: ...
