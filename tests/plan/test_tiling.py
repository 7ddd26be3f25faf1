"""Shards by place: whatever can meet shares one shard, one shard tells of every tuple, and shards have equal shares."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.core.batch import FIRST_COLUMN, ROW, Batch, Words
from slackwater.operators.join.bands import FLOATS, Band, Side, axes_between
from slackwater.plan.tiling import Tiling, tiled
from tests.effort import tried
from tests.kit.oracle_join import oracle_join
from tests.operators.test_cells import JOINS, ROWS, float_word, tuples

PAIRS = {name: spec for name, spec in JOINS.items() if spec.streams == 2 and not spec.equalities}
SHARDS = (2, 3, 4, 5, 16)


def shards_of(tiling: Tiling, batch: Batch) -> list[list[int]]:
    """By tuple, the shards that it is in, first the one that tells of it."""
    found: list[list[int]] = [[] for _ in range(len(batch))]
    for stream in (0, 1):
        mine = np.flatnonzero(batch.stream == stream)
        at, shards = tiling.spread(stream, batch.words[:, mine])
        for one, shard in zip(mine[at].tolist(), shards.tolist(), strict=True):
            found[one].append(shard)
    return found


@pytest.mark.parametrize("home", [0, 1])
@pytest.mark.parametrize("name", PAIRS)
@tried(60)
@given(data=st.data(), shards=st.sampled_from(SHARDS))
def test_what_can_meet_meets_in_one_shard_and_one_shard_tells_of_each(
    name: str, home: int, data: Any, shards: int
) -> None:
    spec = PAIRS[name]
    whole = name in ("floats", "distance", "between")
    batch = Batch.of(data.draw(tuples(2, whole)), ROWS)
    tiling = Tiling(tuple(axes_between(home, 1 - home, spec.bands)[:2]), shards)
    found = shards_of(tiling, batch)
    for stream, own in zip(batch.stream.tolist(), found, strict=True):
        assert len(own) == len(set(own)) == 1 if stream == home else 1 <= len(set(own)) == len(own) <= 4
    for _, members in oracle_join(spec, batch):
        (at,), partner = found[members[home]], found[members[1 - home]]
        assert at in partner
    for shard in range(shards):
        here = [one for one, own in enumerate(found) if shard in own]
        told = tiling.tells(shard, batch.stream[here], batch.words[:, here])
        assert told.tolist() == [found[one][0] == shard for one in here]


def beside(value: float, floats: int) -> float:
    """A float so many floats further."""
    for _ in range(abs(floats)):
        value = math.nextafter(value, math.copysign(math.inf, floats))
    return value


@pytest.mark.parametrize("name", ["floats", "floats, the end among them", "between", "distance", "moved"])
@tried(300)
@given(
    tile=st.one_of(st.integers(-3, 3), st.sampled_from([10**6, -(10**9), 10**13])),
    near=st.integers(-3, 3), far=st.integers(-3, 3), side=st.sampled_from([-1, 1]), home=st.sampled_from([0, 1]),
)  # fmt: skip
def test_no_pair_is_missed_by_rounding_where_a_band_ends_at_a_border(
    name: str, tile: int, near: int, far: int, side: int, home: int
) -> None:
    spec = PAIRS[name]
    tiling = Tiling(tuple(axes_between(home, 1 - home, spec.bands)[:2]), 4)
    band, width = tiling.axes[0], tiling.widths[0]
    at = beside(tile * width, near)
    other = beside(at - (band.low if side < 0 else band.high), far)
    values = {home: at, 1 - home: other}
    batch = Batch.of([(s, 1, float_word(values[s]), 0, 0, 0) for s in (0, 1)], ROWS)
    if oracle_join(spec, batch):
        found = shards_of(tiling, batch)
        assert found[home][0] in found[1 - home]


def test_identities_are_those_of_the_batch() -> None:
    """Which the test above goes by."""
    batch = Batch.of([(0, 1, 0, 0, 0, 0), (1, 1, 0, 0, 0, 0)], ROWS)
    assert batch.words[ROW].tolist() == [0, 1]


def near(d: float, axes: int = 2) -> tuple[Band, ...]:
    """Within so much along each axis."""
    rows = range(FIRST_COLUMN, FIRST_COLUMN + axes)
    return tuple(Band(Side(0, row, FLOATS), Side(1, row, FLOATS), -d, d, (0,)) for row in rows)


def places(*columns: np.ndarray) -> Words:
    words = np.zeros((FIRST_COLUMN + len(columns), len(columns[0])), np.int64)
    words[FIRST_COLUMN:] = np.stack([column.astype(np.float64) for column in columns]).view(np.int64)
    return words


@pytest.mark.parametrize(
    ("field", "begin", "shards", "tasks", "most", "copies"),
    [
        (100.0, 0.0, 2, 2, 0.54, 1.45),
        (100.0, 0.0, 4, 2, 0.54, 1.52),
        (100.0, -50.0, 4, 2, 0.54, 1.52),
        (100.0, 33.0, 4, 2, 0.54, 1.52),
        (100.0, 0.0, 16, 2, 0.54, 1.6),
        (1000.0, 7.0, 4, 4, 0.27, 1.52),
        (1000.0, 7.0, 16, 16, 0.08, 1.6),
        (1000.0, 7.0, 16, 3, 0.40, 1.6),
        (1000.0, 7.0, 5, 5, 0.22, 1.6),
    ],
)
def test_tasks_have_about_the_same_share_of_a_field_and_half_of_one_stream_is_copied(
    field: float, begin: float, shards: int, tasks: int, most: float, copies: float
) -> None:
    rng = np.random.default_rng(0)
    words = places(*(begin + field * rng.random((2, 20_000))))
    tiling = Tiling(near(5.0), shards)
    for stream in (0, 1):
        _, to = tiling.spread(stream, words)
        taken = np.bincount(to % tasks, minlength=tasks) / len(to)
        assert taken.max() < most
        assert len(to) / 20_000 == 1.0 if stream == 0 else 1.3 < len(to) / 20_000 < copies


@pytest.mark.parametrize("shards", [2, 4, 16])
@pytest.mark.parametrize("slope", [1.0, -1.0, 0.0, 0.3, -3.0])
def test_a_line_is_shared_too(slope: float, shards: int) -> None:
    """On a chessboard a diagonal would go through squares of one colour."""
    along = np.linspace(-1000.0, 1000.0, 20_000)
    _, to = Tiling(near(5.0), shards).spread(0, places(along, slope * along))
    assert np.bincount(to % 2).max() / len(to) < 0.6


def test_one_axis_goes_in_turns() -> None:
    along = np.arange(0.0, 100.0, 20.0)
    _, to = Tiling(near(5.0, axes=1), 3).spread(0, places(along))
    assert to.tolist() == [0, 1, 2, 0, 1]


def test_tuples_without_a_place_are_shared_and_not_copied() -> None:
    words = places(np.full(4000, np.nan), np.zeros(4000))
    words[0] = np.arange(4000)
    for stream in (0, 1):
        at, to = Tiling(near(5.0), 4).spread(stream, words)
        assert (at == np.arange(4000)).all()
        assert np.bincount(to).max() < 1100


def test_those_that_are_not_kept_go_nowhere() -> None:
    words = places(np.array([1.0, 2.0, 3.0]), np.zeros(3))
    at, _ = Tiling(near(0.001), 4).spread(1, words, np.array([True, False, True]))
    assert sorted(set(at.tolist())) == [0, 2]


def test_the_faster_stream_is_not_copied() -> None:
    (axis,) = tiled(near(5.0, axes=1), (1.0, 9.0))
    assert (axis.left.stream, axis.right.stream) == (1, 0)
    assert tiled(near(5.0, axes=3), (1.0, 1.0)) == near(5.0)
    assert tiled((), (1.0, 1.0)) == ()
