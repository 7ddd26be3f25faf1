"""What compiled kernels cost on this machine: the constants of the row engine.

Conditions are measured on batches of words, aggregates by the kernel that keeps windows by pane: over many tuples of
few groups for a tuple, over many groups for a group, over windows of next to nothing for an instant. A relation that is
grouped at an instant is one pane that is filled, emitted and dropped. The logarithm in the cost of holistic aggregates
is that of `operator_costs`.

Joins at an instant are not measured apart: they do what grouping does, a row is hashed and looked up, so their
constants are the shipped ones times how much faster or slower this machine groups.

Invariant: inputs are made before the clock starts, and are the same on every run.

References: 004 §6.3.2, cost of a DSPS-op.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import log2

import numpy as np

from slackwater.core.batch import Words
from slackwater.core.schema import Kind
from slackwater.core.time import BEFORE_ALL
from slackwater.disorder.ordered_batch import OrderedBatch
from slackwater.experiments.hybrid_timing import LEAST, seconds_of
from slackwater.expressions.compile import compile_filter
from slackwater.expressions.tree import Call, Column, Expr, Literal
from slackwater.operators.aggregate.algebra import AggregateSpec
from slackwater.operators.aggregate.operator import WindowAggregate
from slackwater.plan.placement.costs import Costs

TUPLES = 200_000
SLIDE = 1_000_000
RANGE = 20 * SLIDE
FEW, MANY = 200, 20_000
"""Groups where tuples are what costs, and where groups are."""
SLIDES = 40
BATCH = 2000
"""Tuples that arrive together."""
KEY, VALUE, WIDTH = 2, 3, 4
_ABOVE = Call(">", (Column(0, "v", Kind.INT), Literal(500, Kind.INT)), Kind.BOOL)


def _words(tuples: int, groups: int, slides: int) -> Words:
    """Tuples spread evenly over some slides, each of any group."""
    rng = np.random.default_rng(tuples + groups)
    words = np.empty((WIDTH, tuples), np.int64)
    words[0] = np.arange(tuples) * slides * SLIDE // tuples
    words[1] = np.arange(tuples)
    words[KEY] = rng.integers(0, groups, tuples)
    words[VALUE] = rng.integers(0, 1000, tuples)
    return words


def _batches(words: Words, slides: int) -> list[OrderedBatch]:
    """One run a slide; the watermark passes its end."""
    cuts = np.searchsorted(words[0], np.arange(1, slides) * SLIDE)
    found = []
    for number, part in enumerate(np.split(words, cuts, axis=1)):
        n = part.shape[1]
        none, met = np.zeros(n, np.int64), np.full(n, BEFORE_ALL if number == 0 else number * SLIDE)
        found.append(OrderedBatch(none, np.ascontiguousarray(part), met, none, none, none, (number + 1) * SLIDE, 0, 0))
    return found


def _aggregated(function: str, range_: int, slide: int | None, batches: Sequence[OrderedBatch]) -> None:
    operator = WindowAggregate(range_, slide, (KEY,), (AggregateSpec(function, VALUE, Kind.INT),), WIDTH).build()
    for batch in batches:
        for _ in operator.process(batch, True):
            pass


def _judged(condition: Expr, words: Words, tuples: int) -> None:
    keep = compile_filter([condition], lambda _, name: VALUE, len)
    for begin in range(0, words.shape[1], tuples):
        part = words[:, begin : begin + tuples]
        keep(part, part.view(np.float64), part.shape[1])


def measure_rows() -> dict[str, float]:
    """The constants of the row engine, by their names in `Costs`."""
    shipped, found = Costs(), {}
    few = _words(TUPLES, FEW, SLIDES)
    found["row_judge"] = seconds_of(partial(_judged, _ABOVE, few, BATCH)) / TUPLES
    found["row_scan"] = seconds_of(partial(_judged, _ABOVE, few, TUPLES)) / TUPLES
    nothing = _batches(_words(SLIDES, 1, SLIDES), SLIDES)
    instant = seconds_of(partial(_aggregated, "AVG", RANGE, SLIDE, nothing)) / SLIDES
    found["row_instant"] = instant
    # Two equations: tuples and groups, once with many of the one and once with many of the other.
    by_tuple = _seconds_by_slide("AVG", few)
    many = _words(TUPLES, MANY, SLIDES)
    by_group = _seconds_by_slide("AVG", many)
    groups_few, groups_many = FEW * SLIDES, _groups_emitted(MANY)
    found["row_group"] = max(LEAST, (by_group - by_tuple) / (groups_many - groups_few))
    found["row_add"] = max(LEAST, (by_tuple - SLIDES * instant - groups_few * found["row_group"]) / TUPLES)
    median = _seconds_by_slide("MEDIAN", few)
    in_window = TUPLES * RANGE / (SLIDES * SLIDE)
    found["row_holistic"] = max(LEAST, (median - by_tuple) / TUPLES / _doublings(in_window))
    tumbling = _batches(few, SLIDES)
    grouped = seconds_of(partial(_aggregated, "AVG", SLIDE, None, tumbling))
    known = SLIDES * instant + groups_few * found["row_group"]
    found["row_hash"] = max(LEAST, (grouped - known) / TUPLES)
    sorted_ = seconds_of(partial(_aggregated, "MEDIAN", SLIDE, None, tumbling))
    found["row_sort"] = max(LEAST, (sorted_ - grouped) / TUPLES / _doublings(TUPLES / SLIDES))
    for name in ("row_build", "row_probe", "row_pair"):
        found[name] = getattr(shipped, name) * found["row_hash"] / shipped.row_hash
    return found


def _seconds_by_slide(function: str, words: Words) -> float:
    return seconds_of(partial(_aggregated, function, RANGE, SLIDE, _batches(words, SLIDES)))


def _groups_emitted(groups: int) -> float:
    """Groups with tuples, over all windows that are emitted."""
    a_slide = TUPLES / SLIDES
    inside = [min(number, RANGE // SLIDE) * a_slide for number in range(1, SLIDES + 1)]
    return float(sum(groups * (1 - np.exp(-tuples / groups)) for tuples in inside))


def _doublings(tuples: float) -> float:
    return 1 + log2(1 + tuples / FEW)
