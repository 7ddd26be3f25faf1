"""Joins, slow and obvious: the truth by trying all combinations, Algorithm 2 line by line, and what leaves.

Invariant: shares no code with the join kernel. A result is (timestamp, the members' identities in the order of the
streams). It is in force from its own timestamp to the last instant at which all its members are in their windows;
DSTREAM and RSTREAM are told from that, instant by instant.

References: 003 §II-A, Alg. 2; 004 Alg. 4.6.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import permutations, product

from slackwater.core.batch import Batch
from slackwater.core.schema import NULL_WORD
from slackwater.expressions.tree import Column, streams_of, walk
from slackwater.operators.join.count_windows import RowWindows
from slackwater.operators.join.operator import WindowJoin
from slackwater.operators.join.rate_windows import RateWindows
from slackwater.operators.relation_to_stream import RelationToStream
from tests.kit.evaluate import evaluate
from tests.kit.oracle_rates import SlowRates
from tests.kit.oracle_release import Released, Tuple, tuples_of
from tests.kit.words import decode

Result = tuple[int, tuple[int, ...]]
Members = tuple[Tuple, ...]


def near_enough(spec: WindowJoin, members: Members) -> bool:
    """Whether one tuple of each stream keeps every window, or all bounds that one alternative of the graph states."""
    times = [e.ts for e in members]
    if spec.graph is None:
        return all(ts >= max(times) - window for ts, window in zip(times, spec.windows, strict=False))
    return any(
        all(times[bound.newer] - times[bound.older] <= bound.most for bound in stated)
        for stated in spec.graph.alternatives
    )


def near_so_far(spec: WindowJoin, members: Members) -> bool:
    """Whether one tuple of each of the first streams may be joined, as far as every two of them can tell."""
    if spec.graph is None or len(members) == spec.streams:
        return near_enough(spec, members)
    most = spec.graph.widest
    return all(a.ts - b.ts <= most[a.stream][b.stream] for a, b in permutations(members, 2))


def last_of(spec: WindowJoin) -> tuple[int, ...]:
    """Per stream, how many tuples its window holds, where it counts them; else 0."""
    return spec.policy.last if isinstance(spec.policy, RowWindows) else (0,) * spec.streams


def joins(spec: WindowJoin, members: Members) -> bool:
    """Whether one tuple of each stream satisfies every equality and condition."""
    return joins_so_far(spec, members)


def joins_so_far(spec: WindowJoin, members: Members) -> bool:
    """Whether one tuple of each of the first streams satisfies the equalities and conditions that read no others."""
    for equality in spec.equalities:
        if max(equality.left, equality.right) >= len(members):
            continue
        left = members[equality.left].words[equality.left_row]
        right = members[equality.right].words[equality.right_row]
        if left != right or left == NULL_WORD:
            return False
    place = {(stream, name): row for stream, name, row in spec.columns}
    rows: list[dict[str, object]] = [{} for _ in members]
    known = [condition for condition in spec.conditions if max(streams_of(condition), default=0) < len(members)]
    for condition in known:
        for node in walk(condition):
            if isinstance(node, Column):
                word = members[node.stream].words[place[node.stream, node.name]]
                rows[node.stream][node.name] = decode(word, node.kind)
    return all(evaluate(condition, rows) is True for condition in known)


def oracle_join(spec: WindowJoin, batch: Batch) -> Counter[Result]:
    """All true results on these tuples, whatever their order of arrival.

    >>> spec = WindowJoin(windows=(2, 2), equalities=(), conditions=(), columns=(), emit=(), rows=2)
    >>> sorted(oracle_join(spec, Batch.of([(0, 5), (1, 3), (1, 2), (1, 8)])))
    [(5, (0, 1))]
    """
    streams: list[list[Tuple]] = [[] for _ in spec.windows]
    for e in tuples_of(batch):
        if e.passes:
            streams[e.stream].append(e)
    results: Counter[Result] = Counter()
    for members in product(*streams):
        newest = max(e.ts for e in members)
        if near_enough(spec, members) and joins(spec, members):
            results[newest, tuple(e.row for e in members)] += 1
    return results


class SlowWindows:
    """The windows of a join, and which tuples of them an arriving one meets, as Algorithm 2 has it."""

    def __init__(self, spec: WindowJoin) -> None:
        self.spec = spec
        self._windows: list[list[Tuple]] = [[] for _ in spec.windows]
        self._rates = SlowRates(spec) if isinstance(spec.policy, RateWindows) else None
        self._last = last_of(spec)

    def standing(self, watermark: int) -> list[list[Tuple]]:
        """What can still be joined where the watermark stands here; where tuples are counted, what is not pushed
        out."""
        return [
            mine if n else [e for e in mine if e.ts >= watermark - size]
            for mine, n, size in zip(self._windows, self._last, self.spec.windows, strict=True)
        ]

    def results(self, e: Tuple) -> Iterator[Members]:
        """All results of a tuple in time, before it enters its window."""
        if self._rates is not None and self._rates.before(e.ts):
            self._windows = [self._rates.left_in(i, mine) for i, mine in enumerate(self._windows)]
        for members in product(*([e] if j == e.stream else mine for j, mine in enumerate(self._windows))):
            near = near_enough(self.spec, members) and (self._rates is None or self._rates.match(members))
            if near and joins(self.spec, members):
                yield members

    def enter(self, e: Tuple, met: int) -> None:
        """A tuple enters its window; a late one only if it can still be joined, and never where tuples are counted."""
        if e.ts >= met or (e.ts >= met - self.spec.windows[e.stream] and not self._last[e.stream]):
            self._windows[e.stream].append(e)
            if self._rates is None:
                self._evict()
            else:
                self._rates.after(e)

    def _evict(self) -> None:
        self._windows = [mine[-n:] if n else mine for mine, n in zip(self._windows, self._last, strict=True)]


def oracle_join_processing(spec: WindowJoin, released: Iterable[Released]) -> list[tuple[Result, int]]:
    """Algorithm 2 on a release sequence, late tuples included: the results, each with the clock when it was made."""
    windows = SlowWindows(spec)
    results: list[tuple[Result, int]] = []
    for step in released:
        e = step.tuple
        if e.ts >= step.met:
            made = windows.results(e)
            results += [((e.ts, tuple(member.row for member in members)), step.clock) for members in made]
        windows.enter(e, step.met)
    return results


def oracle_join_with_corrections(
    spec: WindowJoin, released: Iterable[Released], correctable: int
) -> list[tuple[Result, bool]]:
    """The same with what late tuples add, as far as results are `correctable`: each result, and whether it is late."""
    streams: list[list[Tuple]] = [[] for _ in spec.windows]
    results: list[tuple[Result, bool]] = []
    for step in released:
        e, late = step.tuple, step.tuple.ts < step.met
        for members in product(*([e] if j == e.stream else mine for j, mine in enumerate(streams))):
            newest = max(member.ts for member in members)
            if (not late or newest >= step.met - correctable) and near_enough(spec, members) and joins(spec, members):
                results.append(((newest, tuple(member.row for member in members)), late))
        streams[e.stream].append(e)
    return results


def oracle_periods(
    made: Mapping[int, float], true: Mapping[int, float], first: int, last: int, bucket: int, length: int
) -> list[float]:
    """The recall of every period of `length` segments with true results, from the first tuple to the last event time.

    >>> oracle_periods({0: 1, 9: 1}, {0: 1, 9: 2, 29: 1}, first=0, last=31, bucket=5, length=2)
    [0.6666666666666666, 0.5, 0.0]
    """
    measured = []
    for end in range(first // bucket + length, last // bucket + 1):
        inside = [ts for ts in true if end - length <= ts // bucket < end]
        if inside:
            measured.append(sum(made.get(ts, 0) for ts in inside) / sum(true[ts] for ts in inside))
    return measured


def oracle_relation_to_stream(
    spec: RelationToStream, results: Iterable[Result], times: Mapping[int, int]
) -> Counter[Result]:
    """Results as (timestamp, members) with the timestamps they leave with; `times` are those of the members.

    >>> join = WindowJoin(windows=(2, 3), equalities=(), conditions=(), columns=(), emit=(), rows=2)
    >>> sorted(oracle_relation_to_stream(RelationToStream(join), [(5, (0, 1))], {0: 4, 1: 5}))
    [(7, (0, 1))]
    >>> sorted(oracle_relation_to_stream(RelationToStream(join, every=2), [(5, (0, 1))], {0: 4, 1: 5}))
    [(6, (0, 1))]
    """
    join = spec.made_by
    assert isinstance(join, WindowJoin), "the rows of an aggregate are the same whenever they leave"
    found: Counter[Result] = Counter()
    for made, members in results:
        instant = made
        while all(instant <= times[row] + size for row, size in zip(members, join.windows, strict=True)):
            if spec.every and instant % spec.every == 0:
                found[instant, members] += 1
            instant += 1
        if not spec.every:
            found[instant, members] += 1
    return found
