"""The filters that queries have on one source, judged together: every condition that they have in common once.

Filters are judged along their tree (`plan/sharing/global_plan.py`). Conditions of one shape share their machine code,
whatever constants they compare with, so a hundred filters take hardly longer to compile than one. What looks into text
is asked only about rows that the filters above have left; all else is computed for all rows, which costs less than
choosing them.

Invariant: a filter passes the rows that it passes alone. One that can fail is judged by itself, conjunct by conjunct in
its own order, so it fails for the rows that it fails for alone, and fails no other.

References: 004 §5.1: shared filters are evaluated once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from slackwater.core.batch import Flags, Words
from slackwater.core.errors import DataError
from slackwater.expressions.compile import Map, compile_maps
from slackwater.expressions.computed import Taking
from slackwater.expressions.lower import EncodeText, Layout
from slackwater.expressions.tree import Expr
from slackwater.plan.sharing.conjuncts import Conjunct, conjuncts_of
from slackwater.plan.sharing.global_plan import ROOT, Reader, filter_tree

Usable = Callable[[int], Flags]
"""The rows that a filter may be asked about, by its number."""


class SharedFilters:
    """Judges filters, each with a number, over the words of some rows.

    >>> from slackwater.core.schema import Kind
    >>> from slackwater.expressions.functions import typed_call
    >>> from slackwater.expressions.tree import Column, Literal
    >>> above = [typed_call(">", (Column(0, "k", Kind.INT), Literal(at, Kind.INT))) for at in (1, 2)]
    >>> filters = SharedFilters({0: [above[0]], 7: [above[1]]}, lambda stream, name: 0, len)
    >>> passed, failed = filters.judge(np.array([[1, 2, 3]]), lambda number: np.ones(3, np.bool_))
    >>> {number: found.tolist() for number, found in passed.items()}, failed
    ({0: [False, True, True], 7: [False, False, True]}, {})
    """

    def __init__(self, filters: Mapping[int, Sequence[Expr]], layout: Layout, encode_text: EncodeText) -> None:
        conjuncts = {number: conjuncts_of(one) for number, one in filters.items()}
        risky = {number for number, own in conjuncts.items() if any(one.can_fail for one in own)}
        self._alone = {number: Taking(filters[number], (), layout, encode_text) for number in sorted(risky)}
        self._tree = filter_tree("", {Reader("", n): own for n, own in conjuncts.items() if n not in risky})
        self._occurs = Counter(one for node in self._tree.nodes for one in node.predicate)
        maps = compile_maps([one.expr for one in self._occurs], layout, encode_text)
        self._maps: dict[Conjunct, Map] = dict(zip(self._occurs, maps, strict=True))

    def judge(self, words: Words, usable: Usable) -> tuple[dict[int, Flags], dict[int, DataError]]:
        """The rows that pass every filter, and the filters that failed."""
        passed, failed = self._judge_tree(words, usable), {}
        for number, taking in self._alone.items():
            try:
                passed[number] = taking.take(words, usable(number))
            except DataError as error:
                failed[number] = error
        return passed, failed

    def _judge_tree(self, words: Words, usable: Usable) -> dict[int, Flags]:
        """From the source on down; what stands in several branches is kept for the next one."""
        kept: dict[Conjunct, Flags] = {}
        alive: dict[int, Flags] = {ROOT: np.ones(words.shape[1], np.bool_)}
        passed: dict[int, Flags] = {}
        for node in self._tree.nodes:
            if node.parent is not None:
                left = alive[node.parent]
                for one in node.predicate:
                    left = left & self._true(one, words, left, kept)
                alive[node.number] = left
            passed |= {reader.position: alive[node.number] & usable(reader.position) for reader in node.readers}
        return passed

    def _true(self, conjunct: Conjunct, words: Words, left: Flags, kept: dict[Conjunct, Flags]) -> Flags:
        if conjunct in kept:
            return kept[conjunct]
        compute = self._maps[conjunct]
        if conjunct.reads_text and not left.all():
            found = np.zeros(len(left), np.bool_)
            some = np.ascontiguousarray(words[:, left])
            found[left] = compute(some, some.view(np.float64), some.shape[1]) == 1
            return found
        found = compute(words, words.view(np.float64), words.shape[1]) == 1
        if self._occurs[conjunct] > 1:
            kept[conjunct] = found
        return found
