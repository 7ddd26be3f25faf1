"""Which keys bring most of the tuples of a shard in a micro-batch.

A key is in one shard, so one with many tuples makes its shard slow, however many shards there are. To count all keys
would cost as much as to group by them. A sample of 512 tuples is enough: the share of a key with half of them is
known to within 4.5 points in nineteen of twenty cases, and keys with few tuples are of no interest.

Invariant: a micro-batch that runs again tells the same. Up to SAMPLE tuples are counted exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from slackwater.core.batch import TS, Batch, Floats, Words
from slackwater.core.schema import ARROW_OF, Kind, decimal_type
from slackwater.expressions.render import render
from slackwater.observe.imbalance import KeyLoad
from slackwater.operators.aggregate.pane_partials import KEY, TUPLES
from slackwater.plan.physical import InputPlan, PhysicalPlan
from slackwater.sources.codebook import Codebook
from slackwater.sources.encode import decode_column

SAMPLE, MOST = 512, 8
"""Tuples that are looked at, and keys that are told, at most."""
FEWEST, LEAST_SHARE = 16, 1 / 32
"""Tuples of the sample, and share of the shard, that a key needs to be told."""
_PLACES = np.sort(np.random.default_rng(0).random(SAMPLE))
"""Where a sample is taken, as shares of a micro-batch. Places at equal distances would see one key of a stream that
brings its keys in turns, and take it for all."""
PLAIN = (int, float, str, bool, type(None))


class KeyColumn(NamedTuple):
    """One part of a key."""

    name: str
    kind: Kind
    arrow: pa.DataType
    rows: Words
    """Per input, the row that holds it."""


class HotKeys:
    """Of one shard: how many tuples came in a micro-batch, and the keys that brought many of them."""

    def __init__(self, plan: PhysicalPlan, codebook: Codebook) -> None:
        self._columns, self._codebook = key_columns(plan), codebook
        self.taken = 0
        self.found: tuple[KeyLoad, ...] = ()
        """Keys as users know them, the one with most tuples first."""

    def seen_by(self, rows: Words) -> HotKeys:
        """The same for tuples that have others of their rows in these places, a line each stream."""
        streams = np.arange(len(rows))
        self._columns = tuple(one._replace(rows=rows[streams, one.rows]) for one in self._columns)
        return self

    def count(self, batch: Batch | None, partials: Sequence[Words] = (), among: Words | None = None) -> None:
        """Look at the tuples of a micro-batch, or at those `among` them, and at partials of others, before texts that
        nobody holds any more are forgotten."""
        tuples = 0 if batch is None else len(batch) if among is None else len(among)
        counted = sum(int(one[TUPLES].sum()) for one in partials)
        self.taken, self.found = tuples + counted, ()
        if self.taken < FEWEST or not self._columns:
            return
        keys: list[Words] = []
        counts: list[Floats] = []
        # Of every key: how often it was seen, and how many tuples that stands for.
        if batch is not None and tuples:
            at = np.arange(tuples) if tuples <= SAMPLE else (_PLACES * tuples).astype(np.int64)
            at = at if among is None else among[at]
            keys.append(np.stack([_words_at(batch, column.rows, at) for column in self._columns]))
            counts.append(np.array([[1.0], [tuples / len(at)]]).repeat(len(at), axis=1))
        for one in partials:
            keys.append(one[KEY : KEY + len(self._columns)])
            counts.append(one[[TUPLES, TUPLES]].astype(np.float64))
        found, (seen, stands_for) = _summed(np.hstack(keys), np.hstack(counts))
        hot = np.flatnonzero((seen >= FEWEST) & (stands_for >= LEAST_SHARE * self.taken))
        if len(hot):
            hot = hot[np.argsort(-stands_for[hot], kind="stable")][:MOST]
            rows = np.round(stands_for[hot]).astype(int).tolist()
            self.found = tuple(map(KeyLoad, self._values(found[:, hot]), rows))

    def _values(self, words: Words) -> list[dict[str, Any]]:
        columns = [self._decoded(one, row) for one, row in zip(self._columns, words, strict=True)]
        names = [one.name for one in self._columns]
        return [dict(zip(names, key, strict=True)) for key in zip(*columns, strict=True)]

    def _decoded(self, column: KeyColumn, words: Words) -> list[Any]:
        if column.kind is Kind.TEXT:
            # Few texts are asked for one by one: to decode a column makes a dictionary of all.
            texts = self._codebook.table
            return [None if entry < 0 else texts.text(entry) for entry in texts.find(words).tolist()]
        values = decode_column(words, column.kind, column.arrow, self._codebook).to_pylist()
        return [one if isinstance(one, PLAIN) else str(one) for one in values]


def _words_at(batch: Batch, rows: Words, at: Words) -> Words:
    """The words of some tuples, in a row that depends on their stream; to look for a stream costs as much again."""
    if (rows == rows[0]).all():
        return batch.words[rows[0]][at]
    found: Words = batch.words[rows[batch.stream[at]], at]
    return found


def _summed(words: Words, counts: Floats) -> tuple[Words, Floats]:
    """All combinations of words, and the sums of their counts.

    >>> keys, sums = _summed(np.array([[7, 1, 7, 7], [0, 0, 0, 1]]), np.array([[1.0, 1.0, 2.0, 1.0]]))
    >>> keys.tolist(), sums.tolist()
    ([[1, 7, 7], [0, 0, 1]], [[1.0, 3.0, 1.0]])
    """
    order = np.lexsort(words[::-1])
    ordered = words[:, order]
    differs = (ordered[:, 1:] != ordered[:, :-1]).any(axis=0)
    begins = np.concatenate([[0], np.flatnonzero(differs) + 1])
    return ordered[:, begins], np.add.reduceat(counts[:, order], begins, axis=1)


def key_columns(plan: PhysicalPlan) -> tuple[KeyColumn, ...]:
    """The columns of the key by which a query is cut, named as the first input has them; none where there is no key."""
    keys = plan.partitioning.keys
    if keys is None or plan.partitioning.rates or len(set(map(len, keys))) > 1:
        return ()
    return tuple(
        KeyColumn(*_named(plan.inputs[0], row), np.array([rows[place] for rows in keys], np.int64))
        for place, row in enumerate(keys[0])
    )


def _named(one: InputPlan, row: int) -> tuple[str, Kind, pa.DataType]:
    """What users call a row of an input, and its type."""
    schema = one.stream.schema
    if row == TS:
        return schema.time, Kind.TIME, schema[schema.time].arrow
    for name, kind, place in one.columns:
        if place == row:
            return name, kind, schema[name].arrow
    expr = next(computed.expr for computed in one.computed if computed.row == row)
    arrow = decimal_type(expr.scale) if expr.kind is Kind.DECIMAL else ARROW_OF[expr.kind]
    return render(expr), expr.kind, arrow
