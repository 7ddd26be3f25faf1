"""Aggregates that change what they have emitted, slow and obvious: every answer anew, from lists of tuples.

Invariant: shares no code with the operator. The table that change rows make is read as whoever applies them reads it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from slackwater.core.emitting import CHANGES, DELETE, INSERT, UPDATE
from slackwater.core.state import Emission
from slackwater.operators.aggregate.changing import Changing
from slackwater.operators.aggregate.operator import WindowAggregate
from tests.kit.oracle_aggregate import Answer, oracle_aggregate_processing, result_kind
from tests.kit.oracle_release import Released
from tests.kit.words import decode


def oracle_corrected(spec: Changing, released: Iterable[Released]) -> Answer:
    """The table in the end: a tuple counts in every window that could still be corrected when it came."""
    waited = (replace(step, met=step.met - spec.reaches - 1) for step in released)
    return oracle_aggregate_processing(spec.made_by, waited)


class Table:
    """What change rows make of a table; raises where they contradict what is in it, or say what is known.

    First answers must say so, and are not judged by what they change: a row may be final that has left before.
    """

    def __init__(self, aggregate: WindowAggregate) -> None:
        self._aggregate = aggregate
        self.rows: dict[Any, tuple[int, ...]] = {}
        """By window and group, the words of the values."""
        self.versions: Counter[Any] = Counter()

    def apply(self, emissions: Iterable[Emission]) -> Table:
        """Take rows, in the order in which they left."""
        keys = len(self._aggregate.keys)
        for emission in emissions:
            for line in range(len(emission.ts)):
                start, stop, *rest = (int(column[line]) for column in emission.columns)
                assert (stop, stop - start) == (int(emission.ts[line]), self._aggregate.range), "a window's bounds"
                window = (start, tuple(rest[:keys]))
                change = INSERT if emission.change is None else int(emission.change[line])
                version = 0 if emission.version is None else int(emission.version[line])
                assert version == self.versions[window], f"version {version} of {window} is not the next"
                self.versions[window] += 1
                self._change(window, change, tuple(rest[keys:]), emission.amends)
        return self

    @property
    def answer(self) -> Answer:
        """What is there."""
        kinds = [result_kind(one) for one in self._aggregate.aggregates]
        return {window: tuple(map(decode, words, kinds)) for window, words in self.rows.items()}

    def _change(self, window: Any, change: int, values: tuple[int, ...], amends: bool) -> None:
        there = window in self.rows
        assert there == (change != INSERT), f"{CHANGES[change]} of {window}, which is {'' if there else 'not '}there"
        same = there and self.rows[window] == values
        assert not (change == UPDATE and amends and same), f"{window} was updated to what it is"
        assert not (change == DELETE and not same), f"{window} was deleted as something else"
        assert not (change == DELETE and not amends), f"{window} was deleted by a first answer"
        if change == DELETE:
            del self.rows[window]
        else:
            self.rows[window] = values
