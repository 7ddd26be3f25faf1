"""What a pipeline asks of the operator behind it, and of the spec that the operator was built from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from slackwater.disorder.ordered_batch import OrderedBatch
from slackwater.kernel import StateUpdate
from slackwater.operators.output import Output
from slackwater.operators.state_size import WindowContents


class Operator(Protocol):
    """What stands behind the disorder stage."""

    @property
    def state_rows(self) -> int: ...
    def process(self, run: OrderedBatch, ordered: bool) -> Iterator[Output]: ...
    def window_contents(self, watermark: int) -> Iterator[WindowContents]: ...
    def snapshot_delta(self) -> list[StateUpdate]: ...
    def restore(self, entries: list[StateUpdate]) -> None: ...


class OperatorSpec(Protocol):
    """The frozen half of an operator."""

    @property
    def streams(self) -> int: ...
    @property
    def rows(self) -> int: ...
    @property
    def needs_order(self) -> bool: ...
    def build(self) -> Any: ...
