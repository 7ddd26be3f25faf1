"""Panes: the pieces that sliding windows are made of, at most two per slide.

Invariant: a window is a run of whole panes, and a tuple lies in exactly one pane, so a tuple is aggregated once
however many windows overlap. Windows `[k * slide, k * slide + range)` are aligned to 1970-01-01 UTC, like Spark's
`window()`.

Where the slide does not divide the range, each slide is cut in two at `range mod slide`, never finer: the cost does
not depend on a common divisor.

A window that is filled in steps answers after each of them: window k, which ends with step k, begins at the multiple of
`range` before it, and its panes are the steps since then.

References: S. Krishnamurthy, C. Wu, M. Franklin: On-the-fly sharing for streamed aggregation, SIGMOD 2006 (paired
windows).
"""

from __future__ import annotations

from typing import NamedTuple

from slackwater.core.jit import in_place, inner


class Panes(NamedTuple):
    """The pane grid of one window.

    >>> grid = panes(range_=10, slide=4)
    >>> [pane_of(grid, ts) for ts in (-1, 0, 1, 2, 3, 4, 5, 6)]
    [-1, 0, 0, 1, 1, 2, 2, 3]
    >>> first_pane(grid, 1), last_pane(grid, 1), window_end(grid, 1)
    (2, 6, 14)
    """

    range: int
    slide: int
    rest: int
    """range mod slide: where each slide is cut; 0 for not at all."""
    whole: int
    """range // slide."""
    steps: int = 0
    """In how many steps a window is filled; 0: windows slide."""


def panes(range_: int, slide: int | None) -> Panes:
    """The grid for a window size and step; without a step the windows tumble."""
    step = slide or range_
    return Panes(range_, step, range_ % step, range_ // step)


def filling(range_: int, step: int) -> Panes:
    """The grid for windows that are filled in steps, of which the size is a multiple.

    >>> grid = filling(range_=12, step=4)
    >>> [(first_pane(grid, k), last_pane(grid, k), window_end(grid, k)) for k in (-1, 0, 1, 2, 3)]
    [(-3, -1, 0), (0, 0, 4), (0, 1, 8), (0, 2, 12), (3, 3, 16)]
    """
    return Panes(range_, step, 0, range_ // step, range_ // step)


@in_place
def pane_of(grid: Panes, ts: int) -> int:
    """The pane an event time lies in."""
    k = ts // grid.slide
    if grid.rest == 0:
        return k
    return 2 * k + (1 if ts - k * grid.slide >= grid.rest else 0)


@in_place
def first_pane(grid: Panes, k: int) -> int:
    """The oldest pane of window k."""
    if grid.steps > 0:
        return k // grid.steps * grid.steps
    return k if grid.rest == 0 else 2 * k


@in_place
def last_pane(grid: Panes, k: int) -> int:
    """The newest pane of window k."""
    if grid.steps > 0:
        return k
    return k + grid.whole - 1 if grid.rest == 0 else 2 * (k + grid.whole)


@in_place
def window_end(grid: Panes, k: int) -> int:
    """The event time at which window k is complete."""
    if grid.steps > 0:
        return (k + 1) * grid.slide
    return k * grid.slide + grid.range


@in_place
def first_open(grid: Panes, watermark: int) -> int:
    """The oldest window that ends after the watermark."""
    if grid.steps > 0:
        return watermark // grid.slide
    return (watermark - grid.range) // grid.slide + 1


@inner
def first_window_with(grid: Panes, pane: int) -> int:
    """The oldest window that contains a pane, or any window after it if none does."""
    if grid.steps > 0:
        return pane
    if grid.rest == 0:
        return pane - grid.whole + 1
    return (pane + 1) // 2 - grid.whole
