"""Session windows, slow and obvious: a session is a list of tuples, and every tuple looks at all lists.

Invariant: shares no code with the operator. An answer is known by its start, its end and its key.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator

from slackwater.core.batch import Batch
from slackwater.operators.session.operator import SessionAggregate
from tests.kit.evaluate import evaluate
from tests.kit.oracle_aggregate import Answer, aggregate_of, result_kind
from tests.kit.oracle_projection import Made
from tests.kit.oracle_release import NEVER, Released, Tuple, tuples_of
from tests.kit.words import encode

Session = list[Tuple]


def truth(spec: SessionAggregate, batch: Batch, absent: Collection[int] = ()) -> Answer:
    """The true answer on these tuples, but for those that are absent: all runs of neighbours, cut where they are full.

    >>> from slackwater.operators.aggregate.algebra import AggregateSpec
    >>> spec = SessionAggregate(3, None, (), (AggregateSpec("COUNT"),), 2)
    >>> truth(spec, Batch.of([(0, 5, 8), (0, 1, 8), (0, 2, 8), (0, 9, 8)]))
    {(1, (8,)): (3,), (9, (12,)): (1,)}
    """
    present = [e for e in tuples_of(batch) if e.passes and e.row not in absent]
    sessions: list[Session] = []
    newest: dict[tuple[int, ...], Session] = {}
    for e in sorted(present, key=lambda e: e.ts):
        key = _key(spec, e)
        inside = newest.get(key)
        if inside is None or e.ts - inside[-1].ts > spec.range or (spec.most and e.ts - inside[0].ts >= spec.most):
            newest[key] = inside = []
            sessions.append(inside)
        inside.append(e)
    return _answer(spec, sessions)


def processed(spec: SessionAggregate, released: Iterable[Released]) -> Answer:
    """The answer on a release sequence: a late tuple joins, and makes one, what is open then."""
    windows = OpenSessions(spec)
    for step in released:
        windows.add(step.tuple, step.met)
    return _answer(spec, windows.sessions)


class OpenSessions:
    """All sessions so far, but for those that have left."""

    def __init__(self, spec: SessionAggregate) -> None:
        self.spec, self.sessions, self.passed = spec, list[Session](), NEVER
        self.late: list[tuple[Tuple, int]] = []
        """Late tuples, each with the watermark it met."""

    def add(self, e: Tuple, met: int) -> None:
        """A tuple that met this watermark."""
        spec, sessions, self.passed = self.spec, self.sessions, max(self.passed, met)
        passed = self.passed
        own = [s for s in sessions if _key(spec, s[0]) == _key(spec, e) and _end(spec, s) >= passed]
        own.sort(key=_first, reverse=True)
        now = [late for late, met in self.late if met == passed]
        before = [[known for known in s if not any(known is late for late in now)] for s in own]
        if e.ts >= passed:
            if own and e.ts <= _last(own[0]) + spec.range and _fits(spec, [*own[0], e]):
                own[0].append(e)
            else:
                sessions.append([e])
            return
        self.late.append((e, passed))
        in_time = any(known and _first(known) <= e.ts + spec.range for known in before)
        if not in_time and e.ts + spec.range < passed:
            return
        around = [s for s in own if _first(s) <= e.ts <= _last(s) + spec.range and _fits(spec, [*s, e])]
        made = [e]
        if around:
            made = [*around[0], e]
            own = [s for s in own if s is not around[0]]
            sessions = [s for s in sessions if s is not around[0]]
        while beside := [s for s in own if _can_be_one(spec, made, s, passed)]:
            made += beside[0]
            own = [s for s in own if s is not beside[0]]
            sessions = [s for s in sessions if s is not beside[0]]
        if _end(spec, made) >= passed:
            sessions.append(made)
        self.sessions = sessions

    def up_to(self, watermark: int | None) -> Iterator[Made]:
        """Emit the sessions that end before, or all."""
        closed = [s for s in self.sessions if watermark is None or _end(self.spec, s) < watermark]
        self.sessions = [s for s in self.sessions if not any(s is one for one in closed)]
        for s in sorted(closed, key=lambda s: (_end(self.spec, s), _first(s), _key(self.spec, s[0]))):
            values = [encode(aggregate_of(a, s), result_kind(a)) for a in self.spec.aggregates]
            end = _end(self.spec, s)
            yield end, (_first(s), end, *_key(self.spec, s[0]), *values)


def state_bound(spec: SessionAggregate, since: Callable[[int], int], watermark: int) -> int:
    """A session that is open has a tuple that is no older than the gap, and none that is older than it may be long; of
    values all are kept."""
    kept = since(watermark - spec.range)
    values = any(one.holistic for one in spec.aggregates)
    return kept + values * since(NEVER if spec.most is None else watermark - spec.most)


def _key(spec: SessionAggregate, e: Tuple) -> tuple[int, ...]:
    return tuple(e.words[row] for row in spec.keys)


def _first(session: Session) -> int:
    return min(e.ts for e in session)


def _last(session: Session) -> int:
    return max(e.ts for e in session)


def _end(spec: SessionAggregate, session: Session) -> int:
    end = _last(session) + spec.range
    return end if spec.most is None else min(end, _first(session) + spec.most)


def _fits(spec: SessionAggregate, session: Session) -> bool:
    return spec.most is None or _last(session) - _first(session) < spec.most


def _can_be_one(spec: SessionAggregate, a: Session, b: Session, passed: int) -> bool:
    near = _first(a) <= _last(b) + spec.range and _first(b) <= _last(a) + spec.range
    return near and _fits(spec, a + b) and _end(spec, a + b) >= passed


def _answer(spec: SessionAggregate, sessions: list[Session]) -> Answer:
    answer: Answer = {}
    for session in sessions:
        start, end, key = _first(session), _end(spec, session), _key(spec, session[0])
        values = tuple(aggregate_of(one, session) for one in spec.aggregates)
        if spec.having is not None:
            row = dict(zip(spec.having.columns, (start, end, *key, *values), strict=True))
            if not all(evaluate(condition, [row]) is True for condition in spec.having.conditions):
                continue
        assert (start, (end, *key)) not in answer, "two sessions of a key are never the same"
        answer[start, (end, *key)] = values
    return answer
