"""What every shard hears of a table that was packed, whichever of its tuples it gets.

Invariant: clocks, delays and counts of a stream follow from headers alone. A header is made once, and parsed once in a
task, for all shards there.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from slackwater.core.batch import Words
from slackwater.disorder.event_times import of_sampled
from slackwater.disorder.release.state import NO_PARTITION
from slackwater.sources.codebook import Codebook

UNCOUNTED = {"filtered": 0, "rejected": {}, "rows": 0}
"""What a header says to all shards but the first."""
FAILED = "failed"
"""What a header has, and nothing else, where a query has failed over these rows."""


class Reported(NamedTuple):
    """The event times of one partition of a stream, or of all of it."""

    name: int | None
    """The word of the partition."""
    shift: int
    buckets: Words
    """Columns of counts, latest and oldest times, as of `of_sampled`."""
    behind: Sequence[Sequence[int | None]] = ()
    """Where several filters are told of: for each, how far the oldest of a bucket is behind the latest of all."""


def parse_header(text: str) -> dict[str, Any]:
    """A header with its arrays."""
    header: dict[str, Any] = json.loads(text)
    if "reported" in header:
        header["reported"] = [
            Reported(name, shift, of_sampled(buckets), *behind)
            for name, (shift, buckets, *behind) in header["reported"]
        ]
        header["counts"] = [np.frombuffer(b64decode(one), np.int64).reshape(2, -1).copy() for one in header["counts"]]
    return header


def heralds(shards: Sequence[int], tasks: int) -> set[int]:
    """The first shard of every task: with its line a header comes to all shards there.

    >>> heralds((4, 5, 6, 7), 2), heralds((3, 0, 1), 4)
    ({4, 5}, {0, 1, 3})
    """
    return set({label % tasks: label for label in reversed(shards)}.values())


def counted_times(ts: Words, granularity: int) -> str:
    """Event times, cut to the granularity, and how many tuples have each.

    >>> header = {"reported": [], "counts": [counted_times(np.array([7, 5, 11]), 5)]}
    >>> parse_header(json.dumps(header))["counts"][0].tolist()
    [[5, 10], [2, 1]]
    """
    return b64encode(np.stack(np.unique(ts // granularity * granularity, return_counts=True)).tobytes()).decode()


def by_partition(words: Words, row: int) -> Iterator[tuple[int | None, Words | slice]]:
    """The partitions of a stream by their words, each with the places of its tuples; all where there are none."""
    if row == NO_PARTITION:
        yield None, slice(None)
        return
    # Sorted once: a look at all tuples for each partition would cost their product.
    order = np.argsort(words[row], kind="stable")
    names, begins = np.unique(words[row, order], return_index=True)
    for name, (begin, end) in zip(names.tolist(), pairwise([*begins.tolist(), len(order)]), strict=True):
        yield name, order[begin:end]


def texts_of(names: Sequence[int | None], is_text: bool, codebook: Codebook) -> list[str]:
    """The texts that words of partitions stand for: a shard gets those, too, of which it has no tuple."""
    if not is_text:
        return []
    texts: list[str | None] = codebook.decode(np.array(names, np.int64)).to_pylist()
    return [text for text in texts if text is not None]
