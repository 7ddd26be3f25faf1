"""A tree of joins as an operator: its nodes climb over a run one after the other, and the last one makes the results.

Invariant: a raw tuple has its fate at the node that reads it; the pieces a run is cut into change nothing, for every
node takes what comes in the order in which it came.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import numpy as np

from slackwater.disorder.release import ReleaseSpec
from slackwater.disorder.run import Run
from slackwater.disorder.synchronizer import Inflow
from slackwater.kernel import Change
from slackwater.model.batch import Words
from slackwater.model.quality import Recall
from slackwater.operators.join.accounts import JoinLedger
from slackwater.operators.join.operator import JoinOperator, WindowJoin
from slackwater.operators.node import BELOW, Node, together
from slackwater.operators.output import Output

PIECE = 2048
"""Tuples that climb together: enough that the way costs little, few enough that combinations do not pile up."""


class TreeOperator:
    """The mutable half of `JoinTree`. `stand_behind` says how tuples are released before anything is processed."""

    def __init__(self, whole: WindowJoin, joins: Iterable[WindowJoin], encode_text: Callable[[str], int]) -> None:
        self.spec, self._encode_text = whole, encode_text
        self._operators = [JoinOperator(join, encode_text) for join in joins]
        self._nodes: list[Node] = []

    def keep_books(self, retention: int, width: int, stretches: int, target: Recall) -> JoinLedger:
        """The books of the whole tree. Its nodes persist their raw tuples for them, combinations need not be kept."""
        ledger = JoinOperator(self.spec, self._encode_text).ledger(retention, width, stretches, True, target)
        for n, operator in enumerate(self._operators, 1):
            operator.remember_for(_OfNode(ledger, _inputs(n), self.spec.rows))
        return ledger

    def stand_behind(self, raw: ReleaseSpec) -> None:
        """Give every node its synchronizer, to follow the release of the raw streams."""
        self._nodes = [
            Node(operator, _inputs(n), operator.spec.rows, raw) for n, operator in enumerate(self._operators, 1)
        ]

    def climb(self, run: Run) -> Iterator[tuple[Run, Run]]:
        """Pieces of a run whose streams are apart, as the last node is to process them; and for each the raw tuples
        whose fate is known with it, with the frontier they met at their own nodes."""
        size = max(1, len(run)) if run.ended else PIECE
        for begin in range(0, max(1, len(run)), size):
            yield self._climb(run, begin, min(begin + size, len(run)))

    def _climb(self, run: Run, begin: int, end: int) -> tuple[Run, Run]:
        below: list[Inflow] = []
        fates = []
        for node in self._nodes:
            synchronized = node.let_in(run, begin, end, below)
            fates.append(node.raw_part(synchronized.run))
            if node is not self._nodes[-1]:
                below = [node.made_of(synchronized).as_input(0)]
        top = replace(synchronized.run, largest=run.largest, now=run.now)
        return top, replace(together(fates), largest=run.largest, now=run.now)

    def process(self, run: Run, ordered: bool) -> Iterator[Output]:
        """What the last node makes of a run that has climbed up to it."""
        yield from self._operators[-1].process(run, ordered)

    @property
    def frontier(self) -> int:
        """Where the last node stands."""
        return self._nodes[-1].synchronizer.frontier

    @property
    def held(self) -> int:
        """Raw tuples in the synchronizers."""
        return sum(node.held for node in self._nodes)

    @property
    def retained(self) -> int:
        """Tuples and combinations in the windows of all nodes."""
        return sum(operator.retained for operator in self._operators)

    def changes(self) -> list[Change]:
        """The changes of every node, under its number."""
        return [
            replace(entry, cell=f"{n}/{entry.cell}")
            for n, node in enumerate(self._nodes, 1)
            for entry in node.changes()
        ]

    def restore(self, entries: list[Change]) -> None:
        """Take over persisted state."""
        for n, node in enumerate(self._nodes, 1):
            mine = [entry for entry in entries if entry.cell.partition("/")[0] == str(n)]
            if mine:
                node.restore([replace(entry, cell=entry.cell.partition("/")[2]) for entry in mine])


class _OfNode:
    """What a node of the tree remembers for the books: raw tuples alone."""

    def __init__(self, ledger: JoinLedger, inputs: tuple[int, int], raw_rows: int) -> None:
        self._ledger, self._inputs, self._raw_rows = ledger, inputs, raw_rows
        self.retention: Words = np.where(np.array(inputs) == BELOW, 0, ledger.retention)

    def put_back(self, stream: int, words: Words) -> None:
        if self._inputs[stream] != BELOW:
            self._ledger.put_back(self._inputs[stream], words[: self._raw_rows])


def _inputs(n: int) -> tuple[int, int]:
    """What node n joins: what the node below makes, or stream 0, and stream n."""
    return (BELOW if n > 1 else 0, n)
