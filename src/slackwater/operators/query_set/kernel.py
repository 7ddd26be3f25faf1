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

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from slackwater.core.batch import Batch, Words
from slackwater.core.errors import SlackwaterError, UsageError
from slackwater.core.state import Emission, Observation, StateUpdate, decode_json, encode_json, state_update
from slackwater.disorder.cutting import Epochs
from slackwater.disorder.sharing.pool import PersistedTuples, TuplePool
from slackwater.operators.guarded_query import GuardedQuery
from slackwater.operators.query_set.domain import Domain
from slackwater.operators.query_set.member import FAILED, PAUSED, RUNNING, Build, Member
from slackwater.operators.query_set.places import DomainPlan, QueryPlace

SET_VERSION = 3
SET, SOURCE, DOMAIN, QUERY = "set", "source", "domain", "query"
"""The cells of its state."""


@dataclass(frozen=True)
class Standing:
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

    def rebuild(self, name: str, build: Build) -> None:
        """Go on with the same query built anew, with another target for example, as after a restart."""
        domain, member = self._find(name)
        if member.status == FAILED:
            raise UsageError(f"query {name} has failed: {member.reason}")
        if member.kept is None:
            raise UsageError(f"query {name}: this kernel remembers nothing; restore another one with the new target")
        member.owed += list(self._said(member))
        entries = [StateUpdate(namespace, key, value) for (namespace, key), value in member.kept.items()]
        domain.rebuild(member, build, entries)

    def drop(self, name: str) -> None:
        """End a query; nothing more is emitted of it, and nothing persisted is left."""
        domain, member = self._find(name)
        domain.drop(name)
        self._gone += [state_update(f"{QUERY}/{_quoted(name)}/{n}", key, None) for n, key in sorted(member.keys)]
        if not domain.members:
            del self.domains[domain.plan.key]
            self._gone += [
                state_update(f"{DOMAIN}/{_quoted(domain.plan.key)}/{n}", k, None) for n, k in sorted(domain.keys)
            ]
            unread = domain.log.close()
            for source in [source for source, pool in self.pools.items() if pool in unread]:
                gone = self.pools.pop(source).gone()
                self._gone += [replace(one, namespace=f"{SOURCE}/{_quoted(source)}/{one.namespace}") for one in gone]

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

    def fail(self, name: str, error: SlackwaterError) -> None:
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

    def query(self, name: str) -> GuardedQuery:
        """One query behind its guard: its release, its meters, its resizes."""
        return self._find(name)[1].query

    def domain_of(self, name: str) -> Domain:
        """The domain that a query stands in."""
        return self._find(name)[0]

    def standing(self, name: str) -> Standing:
        """Whether a query runs, and if not, why."""
        _, member = self._find(name)
        return Standing(member.status, member.reason, member.paused)

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
        standing = {m.name: {"status": m.status, "reason": m.reason, "paused": m.paused} for m in members}
        yield state_update(SET, "queries", encode_json({"version": SET_VERSION, "queries": standing}))
        yield from self._gone
        self._gone = []
        for source, pool in self.pools.items():
            for entry in pool.snapshot_delta():
                yield replace(entry, namespace=f"{SOURCE}/{_quoted(source)}/{entry.namespace}")
        for key, domain in self.domains.items():
            for entry in domain.snapshot_delta():
                _note(domain.keys, entry)
                yield replace(entry, namespace=f"{DOMAIN}/{_quoted(key)}/{entry.namespace}")
        for member in members:
            owed, member.owed = member.owed, []
            for entry in [*owed, *(self._said(member) if member.status != FAILED else [])]:
                yield replace(entry, namespace=f"{QUERY}/{_quoted(member.name)}/{entry.namespace}")

    def _said(self, member: Member) -> Iterable[StateUpdate]:
        """What a query persists, remembered where that is asked for."""
        for entry in member.query.snapshot_delta():
            _note(member.keys, entry)
            if member.kept is not None and entry.value is None:
                member.kept.pop((entry.namespace, entry.key), None)
            elif member.kept is not None and entry.value is not None:
                member.kept[entry.namespace, entry.key] = entry.value
            yield entry

    def restore(self, entries: Iterable[StateUpdate]) -> None:
        """Take over all state that an earlier kernel persisted; queries that were not there then begin now, and what
        is left of queries that are not here is let go."""
        tuples: dict[str, list[StateUpdate]] = {source: [] for source in self.pools}
        shared: dict[str, list[StateUpdate]] = {}
        own: dict[str, list[StateUpdate]] = {}
        part_of = {SOURCE: tuples, DOMAIN: shared, QUERY: own}
        standing: dict[str, dict[str, object]] = {}
        for entry in entries:
            part, _, rest = entry.namespace.partition("/")
            if part == SET:
                reported = decode_json(entry.value or b"{}")
                if reported["version"] != SET_VERSION:
                    raise ValueError(
                        f"this state has format {reported['version']}, and this version reads format {SET_VERSION}"
                    )
                standing = reported["queries"]
                continue
            key, _, namespace = rest.partition("/")
            part_of[part].setdefault(_unquoted(key), []).append(replace(entry, namespace=namespace))
        for name in own.keys() - set(self.names):
            self._gone += [state_update(f"{QUERY}/{_quoted(name)}/{e.namespace}", e.key, None) for e in own[name]]
        for key in shared.keys() - self.domains.keys():
            self._gone += [state_update(f"{DOMAIN}/{_quoted(key)}/{e.namespace}", e.key, None) for e in shared[key]]
        for source in tuples.keys() - self.pools.keys():
            gone = tuples[source]
            self._gone += [state_update(f"{SOURCE}/{_quoted(source)}/{e.namespace}", e.key, None) for e in gone]
        for source, pool in self.pools.items():
            pool.take_over([entry.key for entry in tuples[source]])
        persisted = {source: PersistedTuples(entries) for source, entries in tuples.items()}
        for key, domain in self.domains.items():
            for name, member in domain.members.items():
                if name in standing:
                    before = standing[name]
                    member.status, member.reason = str(before["status"]), str(before["reason"])
                    member.paused = int(str(before["paused"]))
                if name in own and member.status != FAILED:
                    member.query.restore(own[name])
                    self._remember(member, own[name])
            for entry in shared.get(key, []):
                _note(domain.keys, entry)
            domain.restore(shared.get(key, []), standing, persisted)

    def _remember(self, member: Member, entries: list[StateUpdate]) -> None:
        for entry in entries:
            _note(member.keys, entry)
            if member.kept is not None and entry.value is not None:
                member.kept[entry.namespace, entry.key] = entry.value


def _quoted(name: str) -> str:
    """A name without the sign that parts the names of cells."""
    return name.replace("%", "%25").replace("/", "%2F")


def _unquoted(name: str) -> str:
    return name.replace("%2F", "/").replace("%25", "%")


def _note(keys: set[tuple[str, str]], entry: StateUpdate) -> None:
    if entry.value is None:
        keys.discard((entry.namespace, entry.key))
    else:
        keys.add((entry.namespace, entry.key))


__all__ = ["FAILED", "PAUSED", "RUNNING", "QuerySet", "Standing"]
