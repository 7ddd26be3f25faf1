"""A tree of joins as a graph of nodes that keeps a ledger of the whole join."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from slackwater.core.batch import Words
from slackwater.core.quality import Recall
from slackwater.core.time import AFTER_ALL
from slackwater.disorder.meters import LedgerTerms
from slackwater.operators.graph_operator import GraphOperator, Vertex
from slackwater.operators.inputs import BELOW, from_node
from slackwater.operators.join.join_ledger import JoinLedger, ledger_on
from slackwater.operators.join.operator import JoinOperator, WindowJoin


class TreeOperator(GraphOperator):
    """The mutable half of `JoinTree`."""

    def __init__(self, whole: WindowJoin, joins: Iterable[JoinOperator], encode_text: Callable[[str], int]) -> None:
        self._encode_text = encode_text
        self._operators = list(joins)
        super().__init__(whole, (Vertex(operator, _inputs(n)) for n, operator in enumerate(self._operators)))

    def ledger_for(self, terms: LedgerTerms) -> JoinLedger:
        return ledger_on(terms, self.spec.windows, self.open_ledger)

    def open_ledger(
        self, retention: int, width: int, buckets: int, target: Recall, automatic: bool = False
    ) -> JoinLedger:
        """The ledger of the whole tree. Its nodes persist their raw tuples for them, combinations need not be kept."""
        ledger = JoinOperator(self.spec, self._encode_text).ledger(retention, width, buckets, True, target, automatic)
        for vertex, operator in zip(self._vertices, self._operators, strict=True):
            operator.remember_for(_NodeMemory(ledger, vertex.raw, self.spec.rows))
        return ledger


class _NodeMemory:
    """What a node of the tree remembers for the ledger: raw tuples alone."""

    def __init__(self, ledger: JoinLedger, inputs: tuple[int, ...], raw_rows: int) -> None:
        self._ledger, self._inputs, self._raw_rows = ledger, inputs, raw_rows

    @property
    def kept_since(self) -> Words:
        inputs = np.array(self._inputs)
        return np.where(inputs == BELOW, AFTER_ALL, self._ledger.kept_since[np.maximum(inputs, 0)])

    def put_back(self, stream: int, words: Words) -> None:
        if self._inputs[stream] != BELOW:
            self._ledger.put_back(self._inputs[stream], words[: self._raw_rows])


def _inputs(n: int) -> tuple[int, int]:
    """What node n, counted from 0, joins: what the node below makes, or stream 0, and stream n + 1."""
    return (from_node(n - 1) if n else 0, n + 1)
