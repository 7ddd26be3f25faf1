"""A bound between the event times of two streams of a join: what a window clause says, before anything follows from it.

Invariant: a bound is one-sided and never negative; `ts_newer - ts_older <= most`. A window both ways is two of them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class WindowBound:
    """A tuple of stream `newer` is at most `most` microseconds newer than the one of stream `older` it joins."""

    newer: int
    older: int
    most: int


Bounds = tuple[WindowBound, ...]
"""All of them hold."""


def window_of(stream: int, size: int, streams: int) -> Bounds:
    """`stream [RANGE size]`: whatever joins a tuple of this stream is at most so much newer.

    >>> window_of(1, 5, streams=3)
    (WindowBound(newer=0, older=1, most=5), WindowBound(newer=2, older=1, most=5))
    """
    return tuple(WindowBound(other, stream, size) for other in range(streams) if other != stream)


def within(a: int, b: int, size: int) -> Bounds:
    """`WINDOW (a, b) = size`: the two are at most so much apart, either way round."""
    return WindowBound(a, b, size), WindowBound(b, a, size)


def before(first: int, then: int, size: int) -> Bounds:
    """`DWINDOW (first, then) = size`: the second comes with or after the first, at most so much later."""
    return WindowBound(then, first, size), WindowBound(first, then, 0)
