"""Watermark events: how a run says among its tuples that a stream will bring nothing older than a time.

They are in the same columns as tuples, with the time in row TS, and differ in the stream column alone. Only this module
knows the encoding.

Invariant: `stream_of(watermark_of(s)) == s`, and no stream is a watermark.
"""

from __future__ import annotations

import numpy as np

from slackwater.core.batch import Flags, Words
from slackwater.core.jit import inner


@inner
def is_watermark(stream: int) -> bool:
    """Whether this entry of a stream column is a watermark event, and not a tuple."""
    return stream < 0


@inner
def watermark_of(stream: int) -> int:
    """The entry of the stream column for a watermark event of this stream."""
    return ~stream


@inner
def stream_of(watermark: int) -> int:
    """The stream of a watermark event."""
    return ~watermark


def are_watermarks(streams: Words) -> Flags:
    """Which entries of a stream column are watermark events.

    >>> are_watermarks(np.append([0, 1], watermarks_of(np.array([0, 1])))).tolist()
    [False, False, True, True]
    """
    return np.less(streams, 0)


def watermarks_of(streams: Words) -> Words:
    """A stream column of watermark events of these streams."""
    return np.invert(streams)


def streams_of(column: Words) -> Words:
    """The stream of every entry of a stream column, tuple or watermark event."""
    return np.where(are_watermarks(column), np.invert(column), column)


def as_streams(column: Words, streams: Words | int) -> Words:
    """The same events, renumbered to these streams.

    >>> streams_of(as_streams(watermarks_of(np.array([0])), 7)).tolist()
    [7]
    """
    return np.where(are_watermarks(column), np.invert(streams), streams)
