"""Many queries over one reading, as one kernel.

A runtime hosts it like a `Pipeline`: `absorb` takes tuples of a clock domain in, `advance` ends an epoch and gives what
leaves with the name of its query, `snapshot_delta` and `restore` carry its state from one process to another, `observe`
says where a query stands. Between two epochs queries may be added, dropped, paused, resumed and built anew.

Invariant (the law of sets): results, late tuples, rejected tuples, counts and slack over time of every query are those
of the same query alone over the same epochs, whatever other queries there are, however the input is cut, whenever the
kernel is stopped and restored. A query that is added is the query alone whose filter drops what came before. One that
is paused takes nothing in and emits nothing: its cursor stands still, what it holds stays held, and tuples that come
meanwhile are counted as `paused`; when it goes on, it is as if these had never come, but for the clocks they moved. A
query that fails stops alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from slackwater.core.batch import Batch, Words
from slackwater.core.errors import UsageError
from slackwater.core.state import (
    Emission,
    Observation,
    StateUpdate,
    by_part,
    decode_json,
    encode_json,
    state_update,
    under,
    updated,
)
from slackwater.disorder.cutting import Epochs
from slackwater.disorder.sharing.pool import PersistedTuples, TuplePool
from slackwater.operators.query_kernel import QueryKernel
from slackwater.operators.query_set.domain import Domain
from slackwater.operators.query_set.member import FAILED, PAUSED, RUNNING, Build, Member
from slackwater.operators.query_set.places import DomainPlan, QueryPlace

SET_VERSION = 4
SET, SOURCE, DOMAIN, QUERY = "set", "source", "domain", "query"
"""The cells of its state."""


@dataclass(frozen=True)
class QueryStatus:
    """Whether a query runs, is paused or has failed, and why; and how many tuples came while it was paused."""

    status: str
    reason: str
    paused: int


class QuerySet:
    """The kernel. `remembers`: it keeps what it persists, so that a query can be built anew without its host's help."""

    def __init__(self, epochs: Epochs, remembers: bool = True) -> None:
        self._epochs, self._remembers = epochs, remembers
        self.domains: dict[str, Domain] = {}
        self.pools: dict[str, TuplePool] = {}
        """Per source, the tuples that wait for queries of any domain."""
        self._gone: list[StateUpdate] = []

    # Queries come and go, between two epochs.

    def add_built(self, name: str, domain: DomainPlan, place: QueryPlace, build: Build) -> None:
        """A query that begins now."""
        if any(name in one.members for one in self.domains.values()):
            raise UsageError(f"there is a query {name} already; every query of a set needs a name of its own")
        if domain.key not in self.domains:
            for source in domain.sources:
                self.pools.setdefault(source, TuplePool())
            self.domains[domain.key] = Domain(domain, self._epochs, self.pools)
        one = self.domains[domain.key]
        one.grow(domain)
        member = one.add(name, place, build)
        member.kept = {} if self._remembers else None

    def rebuild(self, name: str, build: Build, entries: Iterable[StateUpdate] | None = None) -> None:
        """Go on with the same query built anew, with another target for example, as after a restart. `entries` has what
        is persisted of it, where its host knows and this kernel does not."""
        domain, member = self._find(name)
        if member.status == FAILED:
            raise UsageError(f"query {name} has failed: {member.reason}")
        if entries is not None:
            domain.rebuild(member, build, _Persisted.among(entries).own.get(name, []))
            return
        if member.kept is None:
            raise UsageError(f"query {name}: this kernel remembers nothing; say what is persisted of it")
        member.owed += self._said(member)
        kept = [StateUpdate(namespace, key, value) for (namespace, key), value in member.kept.items()]
        domain.rebuild(member, build, kept)

    def drop(self, name: str) -> None:
        """End a query; nothing more is emitted of it, and nothing persisted is left."""
        domain, member = self._find(name)
        domain.drop(name)
        self._gone += _of(QUERY, name, _dropped(member.keys))
        if not domain.members:
            del self.domains[domain.plan.key]
            self._gone += _of(DOMAIN, domain.plan.key, _dropped(domain.keys))
            unread = domain.log.close()
            for source in [source for source, pool in self.pools.items() if pool in unread]:
                self._gone += _of(SOURCE, source, self.pools.pop(source).chunks.gone())

    def pause(self, name: str) -> None:
        """Take nothing in for a query and emit nothing, until it is resumed."""
        domain, member = self._find(name)
        self._refuse_failed(member)
        domain.pause(member)

    def resume(self, name: str) -> None:
        """Go on with a query that was paused."""
        domain, member = self._find(name)
        self._refuse_failed(member)
        domain.resume(member)

    def fail(self, name: str, error: BaseException) -> None:
        """Stop a query that has failed before its tuples came here, in a filter or a computed row."""
        domain, member = self._find(name)
        if member.status != FAILED:
            domain.fail(member, error)

    # Tuples.

    def absorb(self, domain: str, batch: Batch, passed: Words) -> None:
        """Take in tuples of a domain in arrival order.

        `stream` and rows are those of the domain's plan; by its identity (row 1) a tuple of a source is known in all
        domains that read it. Bit f of `passed` (64 a word) says that a tuple has passed filter f of its source. Without
        filters `passed` may have no words. What `Batch.passes` drops only moves clocks, whatever the filters.
        """
        self.domains[domain].absorb(batch, passed)

    def advance(self, end: bool = False) -> Iterator[tuple[str, Emission]]:
        """End the epoch of every domain; what leaves comes with the name of its query. With `end`, everything."""
        for key in list(self.domains):
            yield from self.advance_domain(key, end)

    def advance_domain(self, domain: str, end: bool = False) -> Iterator[tuple[str, Emission]]:
        """End the epoch of one domain."""
        yield from self.domains[domain].advance(end)

    def on_processing_time(self, now: int) -> Iterator[tuple[str, Emission]]:
        """End an epoch in which nothing arrived: at this moment streams may have been silent for too long."""
        for domain in list(self.domains.values()):
            yield from domain.on_processing_time(now)

    def take_ahead(self, name: str) -> list[Batch]:
        """The tuples rejected since the last call, as this query sees them."""
        _, member = self._find(name)
        ahead, member.ahead = member.ahead, []
        return ahead

    # What is asked.

    @property
    def names(self) -> list[str]:
        """All queries, those that failed among them."""
        return [name for domain in self.domains.values() for name in domain.members]

    def query(self, name: str) -> QueryKernel:
        """One query behind its guard: its release, its meters, its resizes."""
        return self._find(name)[1].query

    def domain_of(self, name: str) -> Domain:
        """The domain that a query stands in."""
        return self._find(name)[0]

    def status(self, name: str) -> QueryStatus:
        """Whether a query runs, and if not, why."""
        _, member = self._find(name)
        return QueryStatus(member.status, member.reason, member.paused)

    def observe(self, name: str) -> Observation:
        """Clocks, slack, watermark and counts of a query."""
        return self.query(name).observe()

    @property
    def log_tuples(self) -> int:
        """Tuples held for the logs of all domains, each counted once."""
        return sum(map(len, self.pools.values()))

    def _find(self, name: str) -> tuple[Domain, Member]:
        for domain in self.domains.values():
            if name in domain.members:
                return domain, domain.members[name]
        known = ", ".join(self.names) or "none"
        raise UsageError(f"there is no query {name}; known are: {known}")

    def _refuse_failed(self, member: Member) -> None:
        if member.status == FAILED:
            raise UsageError(f"query {member.name} has failed: {member.reason}")

    # State.

    def snapshot_delta(self) -> Iterator[StateUpdate]:
        """What to persist since the last call."""
        members = [member for domain in self.domains.values() for member in domain.members.values()]
        status = {m.name: {"status": m.status, "reason": m.reason, "paused": m.paused} for m in members}
        tuples = {source: pool.snapshot_delta() for source, pool in self.pools.items()}
        following = {source: pool.chunks.next for source, pool in self.pools.items()}
        own = {"version": SET_VERSION, "queries": status, "next": following}
        yield state_update(SET, "queries", encode_json(own))
        yield from self._gone
        self._gone = []
        for source, of_source in tuples.items():
            yield from _of(SOURCE, source, of_source)
        for key, domain in self.domains.items():
            shared = list(domain.snapshot_delta())
            _note(domain.keys, shared)
            yield from _of(DOMAIN, key, shared)
        for member in members:
            owed, member.owed = member.owed, []
            yield from _of(QUERY, member.name, [*owed, *(self._said(member) if member.status != FAILED else [])])

    def _said(self, member: Member) -> list[StateUpdate]:
        """What a query persists, remembered where that is asked for."""
        entries = list(member.query.snapshot_delta())
        self._remember(member, entries)
        return entries

    def restore(self, entries: Iterable[StateUpdate]) -> None:
        """Take over all state that an earlier kernel persisted; queries that were not there then begin now, and what
        is left of queries that are not here is let go."""
        found = _Persisted.among(entries)
        for part, there, here in (
            (QUERY, found.own, self.names),
            (DOMAIN, found.shared, self.domains),
            (SOURCE, found.tuples, self.pools),
        ):
            for key in there.keys() - set(here):
                self._gone += _of(part, key, (replace(entry, value=None) for entry in there[key]))
        status = found.status or {}
        for name, before in status.items():
            if name in self.names:
                _, member = self._find(name)
                member.status, member.reason, member.paused = before.status, before.reason, before.paused
        self._restore_queries(found)
        tuples = self._persisted_tuples(found.tuples, found.following)
        same = {key: domain.restore(found.shared.get(key, []), status, tuples) for key, domain in self.domains.items()}
        self._stay(same, tuples)
        for key, domain in self.domains.items():
            _note(domain.keys, found.shared.get(key, []))

    def catch_up(self, entries: Iterable[StateUpdate]) -> bool:
        """Take over what another kernel of the same queries has persisted or dropped since this one was up to date.
        False, and nothing is changed, where queries stand otherwise there: then all has to be restored."""
        found = _Persisted.among(entries)
        if found.status is not None:
            here = {name: self.status(name) for name in self.names}
            if {n: (s.status, s.reason) for n, s in here.items()} != {
                n: (s.status, s.reason) for n, s in found.status.items()
            }:
                return False
            for name, one in found.status.items():
                self._find(name)[1].paused = one.paused
        if not all(key in self.domains and self.domains[key].can_catch_up(of) for key, of in found.shared.items()):
            return False
        self._restore_queries(found)
        before = {source: pool.persisted() for source, pool in self.pools.items()}
        now = {source: updated(of, found.tuples.get(source, [])) for source, of in before.items()}
        following = {source: pool.chunks.next for source, pool in self.pools.items()} | found.following
        tuples = self._persisted_tuples(now, following)
        same = {key: self.domains[key].catch_up(of, tuples) for key, of in found.shared.items()}
        self._stay(same, tuples)
        for key, shared in found.shared.items():
            _note(self.domains[key].keys, shared)
        return True

    def _restore_queries(self, found: _Persisted) -> None:
        for name, entries in found.own.items():
            if name in self.names and (member := self._find(name)[1]).status != FAILED:
                member.query.restore(entries)
                self._remember(member, entries)

    def _persisted_tuples(
        self, tuples: Mapping[str, list[StateUpdate]], following: Mapping[str, int]
    ) -> dict[str, PersistedTuples]:
        for source, pool in self.pools.items():
            pool.chunks.take_over((entry.key for entry in tuples.get(source, [])), following.get(source, 0))
        return {source: PersistedTuples(tuples.get(source, [])) for source in self.pools}

    def _stay(self, same: Mapping[str, bool], tuples: Mapping[str, PersistedTuples]) -> None:
        """What all of its readers have as it was persisted is persisted."""
        for source, pool in self.pools.items():
            if all(same[key] for key, domain in self.domains.items() if source in domain.plan.sources and key in same):
                pool.stay_in(tuples[source])

    def _remember(self, member: Member, entries: list[StateUpdate]) -> None:
        _note(member.keys, entries)
        if member.kept is None:
            return
        for entry in entries:
            if entry.value is None:
                member.kept.pop((entry.namespace, entry.key), None)
            else:
                member.kept[entry.namespace, entry.key] = entry.value


@dataclass
class _Persisted:
    """Entries of a set, by what they are of."""

    status: dict[str, QueryStatus] | None = None
    """None: nothing is said of it."""
    following: dict[str, int] = field(default_factory=dict)
    """Per source, the number of the chunk that comes next."""
    tuples: dict[str, list[StateUpdate]] = field(default_factory=dict)
    shared: dict[str, list[StateUpdate]] = field(default_factory=dict)
    own: dict[str, list[StateUpdate]] = field(default_factory=dict)

    @classmethod
    def among(cls, entries: Iterable[StateUpdate]) -> _Persisted:
        """Entries under their own names."""
        parts = by_part(entries)
        tuples, shared, own = (
            {_unquoted(name): of for name, of in by_part(parts[part]).items()} for part in (SOURCE, DOMAIN, QUERY)
        )
        found = cls(tuples=tuples, shared=shared, own=own)
        for entry in parts[SET]:
            reported = decode_json(entry.value or b"{}")
            if reported["version"] != SET_VERSION:
                raise ValueError(
                    f"this state has format {reported['version']}, and this version reads format {SET_VERSION}"
                )
            found.status = {name: QueryStatus(**one) for name, one in reported["queries"].items()}
            found.following = reported["next"]
        return found


def _quoted(name: str) -> str:
    """A name without the sign that parts the names of cells."""
    return name.replace("%", "%25").replace("/", "%2F")


def _unquoted(name: str) -> str:
    return name.replace("%2F", "/").replace("%25", "%")


def _of(part: str, name: str, entries: Iterable[StateUpdate]) -> Iterator[StateUpdate]:
    """What is persisted of a source, a domain or a query."""
    return under(f"{part}/{_quoted(name)}", entries)


def _dropped(keys: set[tuple[str, str]]) -> list[StateUpdate]:
    return [state_update(namespace, key, None) for namespace, key in sorted(keys)]


def _note(keys: set[tuple[str, str]], entries: Iterable[StateUpdate]) -> None:
    for entry in entries:
        (keys.discard if entry.value is None else keys.add)((entry.namespace, entry.key))


__all__ = ["FAILED", "PAUSED", "RUNNING", "QuerySet", "QueryStatus"]
