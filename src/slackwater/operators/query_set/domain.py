"""The queries of one clock domain: clocks and guard once, the log once, and each query behind its cursor.

A *selection* is a choice of filters that some queries share; a tuple carries a flag for each, so which queries want it
is worked out once, when it comes. A query that is added while others run gets a selection of its own, which flags
nothing that came before; so does one that was paused.

Invariant: each query is given what it is given alone, by the same functions (`QueryKernel`, `CursorRelease`). Where
epochs do not end for all queries at once (tuple release), and where an operator brings streams into order itself
(graphs, trees), a query has a `Release` of its own behind the common guard: reading, encoding, filters and verdicts are
shared then, slack is not. Aggregates that have enough in common read one pane store (`pane_groups`).
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from slackwater.core.batch import Batch, Flags, Words
from slackwater.core.errors import FAILURES, reason_of
from slackwater.core.state import Emission, StateUpdate, decode_json, encode_json, state_update, updated
from slackwater.core.time import AFTER_ALL
from slackwater.disorder.clock_guard import Guarded
from slackwater.disorder.controllers import SlackController
from slackwater.disorder.cutting import Epochs
from slackwater.disorder.release.release import Release, ReleaseSpec
from slackwater.disorder.sharing.clock_domain import ClockDomain, Timeline
from slackwater.disorder.sharing.cursor import CursorRelease, Wanted
from slackwater.disorder.sharing.log import FLAGS, NAMESPACE, OrderedLog, References, Selection
from slackwater.disorder.sharing.pool import PersistedTuples, TuplePool
from slackwater.disorder.sharing.run_order import View, gathered
from slackwater.operators.aggregate.shared.store import NAMESPACE as PANES
from slackwater.operators.aggregate.shared.store import PaneReader, PaneStore
from slackwater.operators.query_kernel import MakeRelease
from slackwater.operators.query_set.layout import NOBODY, LayoutMigration, flag, flagged_places
from slackwater.operators.query_set.member import FAILED, PAUSED, RUNNING, Build, Member
from slackwater.operators.query_set.pane_groups import PaneGroup
from slackwater.operators.query_set.places import DomainPlan, QueryPlace


@dataclass(frozen=True)
class Choice:
    """A selection in use: the filter of every stream, and whether what comes is flagged."""

    filters: tuple[int, ...]
    active: bool = True


class Domain:
    """Clocks, log and queries that share them."""

    def __init__(self, plan: DomainPlan, epochs: Epochs, pools: Mapping[str, TuplePool]) -> None:
        """`pools` has the pool of every source that the domain reads."""
        self.plan, self._epochs = plan, epochs
        self._flags = 1
        self.clocks = ClockDomain(plan.terms, epochs, plan.width + self._flags)
        self.log = OrderedLog([pools[source] for source in plan.sources], plan.rows, self._flags)
        self.members: dict[str, Member] = {}
        self.groups: dict[str, PaneGroup] = {}
        """Queries that read one pane store, by what they have in common."""
        self._gone: list[StateUpdate] = []
        self._choices: list[Choice | None] = []
        self.keys: set[tuple[str, str]] = set()
        """What is persisted of it."""
        self._begun = False
        self._totals = {"taken": 0, "admitted": 0, "ahead": 0}
        self._shares = ClockDomain.shares(epochs, plan.terms.max_ahead)

    # Queries come and go.

    def add(self, name: str, place: QueryPlace, build: Build) -> Member:
        """A query that begins now; what came before has only moved the clocks."""
        selection = self._select(Choice(place.filters), own=self._begun)
        reader = self._reader(place, selection)
        member = Member(name, place, build(self._release_of(place.view, selection), reader), selection, reader)
        self._join_panes(member)
        member.query.count_unjudged = lambda: self.clocks.unjudged if member.status == RUNNING else 0
        if self._begun:
            member.query.count_taken(self._totals["taken"])
            member.query.count_judged(self._totals["ahead"], self._totals["admitted"], None)
            self._begin_here(member)
        self.members[name] = member
        return member

    def _reader(self, place: QueryPlace, selection: int) -> PaneReader | None:
        """What a query reads of panes, where it shares them."""
        if place.panes is None or not self._shares:
            return None
        return PaneReader(place.panes.range, place.panes.slide, place.panes.aggregates, selection)

    def _join_panes(self, member: Member) -> None:
        panes = member.place.panes
        if member.reader is not None and panes is not None:
            if panes.key not in self.groups:
                self.groups[panes.key] = PaneGroup(PaneStore(panes.spec, self._flags))
            self.groups[panes.key].join(member)

    def _leave_panes(self, member: Member) -> None:
        if member.reader is None or member.place.panes is None:
            return
        key = member.place.panes.key
        self.groups[key].leave(member)
        member.reader = None
        if not self.groups[key].members:
            self._gone += self.groups.pop(key).store.snapshot_delta(f"{key}/")

    def _begin_here(self, member: Member) -> None:
        """The clocks of a query begin as they stand."""
        if member.cursor is not None:
            member.cursor.begin_here()
        elif self._shares:
            # A query behind its release gets the clocks when an epoch ends.
            now = member.query.release.begin_at(self.clocks.release)
            for _ in member.query.process([member.query.release.on_processing_time(now)]):
                pass

    def rebuild(self, member: Member, build: Build, entries: list[StateUpdate]) -> None:
        """The same query built anew, which goes on from this state."""
        before, reader = member.query, self._reader(member.place, member.selection)
        member.query = build(self._release_of(member.place.view, member.selection), reader)
        if reader is not None and member.place.panes is not None:
            self.groups[member.place.panes.key].exchange(member, reader)
        member.query.count_unjudged = before.count_unjudged
        member.query.restore(entries)

    def drop(self, name: str) -> Member:
        member = self.members.pop(name)
        self._unselect(member)
        self._leave_panes(member)
        return member

    def pause(self, member: Member) -> None:
        """It takes nothing in from now on; what it holds, it holds."""
        if member.status != RUNNING:
            return
        source, member.status = member.selection, PAUSED
        member.query.count_taken(-self.clocks.unjudged)
        member.paused += self.clocks.unjudged
        frozen = self._select(Choice(member.place.filters, active=False), own=True)
        self._unselect(member)
        member.selection = frozen
        if member.reader is not None and member.reader.store is not None:
            member.reader.store.copy_flag(source, frozen)
            member.reader.flag = frozen
        if member.cursor is not None:
            self.log.copy_flag(Selection.numbered(source), Selection.numbered(member.selection), member.cursor.cursor)
            member.cursor.selection = Selection.numbered(member.selection)

    def resume(self, member: Member) -> None:
        """It takes in what comes from now on."""
        if member.status != PAUSED:
            return
        member.status = RUNNING
        member.query.count_taken(self.clocks.unjudged)
        member.paused -= self.clocks.unjudged
        self._choices[member.selection] = Choice(member.place.filters)
        if member.cursor is not None:
            member.cursor.follow_clocks()

    def fail(self, member: Member, error: BaseException) -> None:
        """It stops here, and the others go on."""
        member.status, member.reason = FAILED, reason_of(error)
        self._unselect(member)
        self._leave_panes(member)
        member.owed += [state_update(*place, None) for place in sorted(member.keys)]
        member.keys.clear()

    def grow(self, plan: DomainPlan) -> None:
        """Tuples have more rows from now on."""
        if plan.width > self.plan.width:
            self._relay(plan.width, self._flags)
        self.plan = plan
        self.log.lay_out(plan.rows)

    def _release_of(self, view: View, selection: int) -> MakeRelease:
        def made(spec: ReleaseSpec, controller: SlackController) -> Release:
            if not self._shares or spec.external_sync:
                return Release(spec, controller)
            return CursorRelease(spec, controller, self.clocks, self.log, Selection.numbered(selection), view)

        return made

    def _select(self, choice: Choice, own: bool) -> int:
        if not own and choice in self._choices:
            return self._choices.index(choice)
        number = self._choices.index(None) if None in self._choices else len(self._choices)
        self._choose(number, choice)
        return number

    def _choose(self, number: int, choice: Choice) -> None:
        """A selection that nobody has, from now on."""
        self._choices += [None] * (number + 1 - len(self._choices))
        self._choices[number] = choice
        if number >= FLAGS * self._flags:
            self._relay(self.plan.width, 1 + number // FLAGS)
        self.log.clear_flag(Selection.numbered(number))
        for group in self.groups.values():
            group.store.clear_flag(number)
        self.clocks.relay(self.clocks.rows, lambda batch: self._unflagged(batch.words, number))

    def _unflagged(self, words: Words, number: int) -> Words:
        changed = words.copy()
        selection = Selection.numbered(number)
        changed[self.plan.width + selection.word] &= ~selection.mask
        return changed

    def _unselect(self, member: Member) -> None:
        others = (other for other in self.members.values() if other is not member and other.status != FAILED)
        if all(other.selection != member.selection for other in others):
            self._choices[member.selection] = None

    def _relay(self, width: int, flags: int) -> None:
        """More rows, or more flags; what is held gets nothing in them."""
        before, words_before = self.plan.width, self._flags

        def change(batch: Batch) -> Words:
            wider = np.zeros((width + flags, len(batch)), np.int64)
            wider[:before] = batch.words[:before]
            wider[width : width + words_before] = batch.words[before:]
            return wider

        self._flags = flags
        self.clocks.relay(width + flags, change)
        self.log.widen(flags)
        for group in self.groups.values():
            group.store.relay(flags)

    # Tuples.

    def absorb(self, batch: Batch, passed: Words) -> None:
        """Take in tuples in arrival order: rows as the plan lays them out, and bits that say which filters of its
        source each has passed. A tuple that passes nothing (`Batch.passes`) only moves clocks."""
        if not len(batch):
            return
        self._begun = True
        self._totals["taken"] += len(batch)
        for member in self.members.values():
            if member.status == RUNNING:
                member.query.count_taken(len(batch), batch.arrival_time is not None)
            else:
                member.paused += len(batch) if member.status == PAUSED else 0
        words = np.zeros((self.plan.width + self._flags, len(batch)), np.int64)
        words[: len(batch.words)] = batch.words
        streams = self.plan.terms.streams
        filters = np.array(
            [[NOBODY] * streams if one is None or not one.active else one.filters for one in self._choices],
            np.int64,
        ).reshape(len(self._choices), streams)
        flag(batch.stream, batch.passes, passed, filters, words[self.plan.width :])
        self.clocks.absorb(replace(batch, words=words))

    def advance(self, end: bool = False) -> Iterator[tuple[str, Emission]]:
        """End the epoch for every query; what leaves comes with the name of its query."""
        guarded = self.clocks.admit(end)
        batch = guarded.batch
        self._totals["admitted"] += len(batch)
        self._totals["ahead"] += len(guarded.ahead)
        line = self.clocks.tell(guarded) if self._shares else None
        wanted: dict[int, Wanted] = {}

        def chosen(member: Member) -> Wanted:
            if member.selection not in wanted:
                wanted[member.selection] = Wanted(batch, self._places(batch, member.selection))
            return wanted[member.selection]

        for member in list(self.members.values()):
            if member.status == RUNNING and len(guarded.ahead):
                member.ahead.append(self.own(member, guarded.ahead))
            if member.status == RUNNING and member.reader is None:
                yield from self._emitted(member, self._runs(member, guarded, line, chosen(member), end))
        for group in list(self.groups.values()):
            assert line is not None, "panes are shared in epochs"
            yield from group.advance(guarded, line, chosen, self.plan.width, self.fail, end)
        if line is not None:
            self.log.settle(batch, line.delay, self.cursors())

    def _runs(
        self, member: Member, guarded: Guarded, line: Timeline | None, chosen: Wanted, end: bool
    ) -> Iterator[Emission]:
        batch = guarded.batch
        if member.cursor is None or line is None:
            clocks = guarded.clocks
            if clocks is not None:
                clocks = replace(clocks, stream=member.place.view.stream[clocks.stream])
            own = Guarded(self.own(member, batch), self.own(member, guarded.ahead), guarded.ends, clocks)
            yield from member.query.take(own, end)
            return
        arrived = None if batch.arrival_time is None else batch.arrival_time[chosen.at]
        member.query.count_judged(len(guarded.ahead), len(batch) - len(chosen.at), arrived)
        yield from member.query.process(member.cursor.runs(batch, line, chosen, end))

    def on_processing_time(self, now: int) -> Iterator[tuple[str, Emission]]:
        """End an epoch in which nothing arrived."""
        line = self.clocks.on_processing_time(now) if self._shares else None
        for member in list(self.members.values()):
            if member.status != RUNNING or member.reader is not None:
                continue
            if member.cursor is None or line is None:
                yield from self._emitted(member, member.query.on_processing_time(now))
            else:
                yield from self._emitted(member, member.query.process(iter([member.cursor.silent_run(line)])))
        if line is not None:
            for group in list(self.groups.values()):
                yield from group.on_processing_time(line, self.clocks.rows, self.plan.width, self.fail)
            self.log.settle(Batch.of([], self.clocks.rows), np.zeros(0, np.int64), self.cursors())

    def _emitted(self, member: Member, emissions: Iterator[Emission]) -> Iterator[tuple[str, Emission]]:
        """What a query emits, until it fails."""
        while True:
            try:
                emission = next(emissions)
            except StopIteration:
                return
            except FAILURES as error:
                self.fail(member, error)
                return
            yield member.name, emission

    def cursors(self) -> dict[int, int]:
        """The oldest cursor of each selection that waits in the log."""
        oldest: dict[int, int] = {}
        for member in self.members.values():
            if member.status != FAILED and member.cursor is not None and member.cursor.waits:
                oldest[member.selection] = min(oldest.get(member.selection, AFTER_ALL), member.cursor.cursor)
        return oldest

    def _flagged(self, batch: Batch, number: int) -> Flags:
        selection = Selection.numbered(number)
        return np.not_equal(batch.words[self.plan.width + selection.word] & selection.mask, 0)

    def _places(self, batch: Batch, number: int) -> Words:
        """Where the tuples stand that a selection flags."""
        selection, places = Selection.numbered(number), np.empty(len(batch), np.int64)
        return places[: flagged_places(batch.words[self.plan.width + selection.word], selection.bit, places)]

    def own(self, member: Member, batch: Batch) -> Batch:
        """Tuples of the domain as a query sees them; those that it does not want do not pass."""
        return replace(self.view(member, batch), passes=self._flagged(batch, member.selection))

    def view(self, member: Member, batch: Batch) -> Batch:
        """Tuples as a query sees them, which may not be flagged yet."""
        view = member.place.view
        words = gathered(batch.words, batch.stream, np.arange(len(batch)), view.rows)
        return Batch(view.stream[batch.stream], words, batch.passes, batch.arrival_time, batch.reading)

    def wanted(self, batch: Batch, passed: Words, filters: tuple[int, ...]) -> Words:
        """The places of tuples that a choice of filters takes; arguments are those of `absorb`."""
        flags = np.zeros((1, len(batch)), np.int64)
        flag(batch.stream, batch.passes, passed, np.array([filters], np.int64), flags)
        return np.flatnonzero(flags[0])

    # State.

    def snapshot_delta(self) -> Iterator[StateUpdate]:
        """What to persist of what is shared, since the last call."""
        log = self.log.snapshot_delta()
        own = {"totals": self._totals, "begun": self._begun, "next": self.log.chunks.next} | self._layout()
        yield state_update("domain", "own", encode_json(own))
        yield from self.clocks.snapshot_delta()
        yield from log
        gone, self._gone = self._gone, []
        yield from gone
        for key, group in self.groups.items():
            yield from group.store.snapshot_delta(f"{key}/")

    def _layout(self) -> dict[str, Any]:
        """What tuples that are persisted mean."""
        return {
            "width": self.plan.width, "flags": self._flags,
            "columns": [columns.tolist() for columns in self.log.columns],
            "queries": {
                name: {
                    "selection": member.selection, "rows": member.place.view.rows.tolist(),
                    "panes": None if member.place.panes is None else member.place.panes.key,
                }
                for name, member in self.members.items() if member.status != FAILED
            },
        }  # fmt: skip

    def _is_as(self, reported: dict[str, Any]) -> bool:
        """Whether tuples mean here what they meant to who persisted them."""
        if reported["columns"]:
            self.log.place_columns()
        return all(reported[name] == what for name, what in self._layout().items())

    def can_catch_up(self, entries: list[StateUpdate]) -> bool:
        """Whether all that differs from what is here is what came and went."""
        return all(self._is_as(decode_json(one.value)) for one in entries if one.namespace == "domain" and one.value)

    def catch_up(self, entries: list[StateUpdate], tuples: Mapping[str, PersistedTuples]) -> bool:
        """Take over what another kernel has persisted since this one was up to date, as `restore`; `tuples` has what is
        persisted now."""
        shared = updated([*self.log.persisted(), *self._persisted_panes()], entries)
        self.log.clear()
        for group in self.groups.values():
            group.store.clear()
        return self.restore(shared, self.members, tuples)

    def _persisted_panes(self) -> Iterator[StateUpdate]:
        for key, group in self.groups.items():
            yield from group.store.persisted(f"{key}/")

    def restore(self, entries: list[StateUpdate], known: Container[str], tuples: Mapping[str, PersistedTuples]) -> bool:
        """Take over what was shared, and of the tuples of each source those to which the log refers; its queries, the
        `known` among them, have taken over their own state. Returns whether all of it is as it was persisted."""
        own = next((entry.value for entry in entries if entry.namespace == "domain"), None)
        if own is None:
            return False
        reported = decode_json(own)
        self._begun, self._totals = reported["begun"], reported["totals"]
        moved, bits = self._restore_selections(reported, known)
        if self._flags < reported["flags"]:
            self._relay(self.plan.width, reported["flags"])
        same = self._is_as(reported)
        self._restore_panes([entry for entry in entries if entry.namespace == PANES], reported["queries"], known)
        migration = LayoutMigration(moved, bits, reported["width"], self.plan.width, self._flags)
        others = ("domain", NAMESPACE, PANES)
        self.clocks.restore([entry for entry in entries if entry.namespace not in others])
        if not same:
            self.clocks.relay(self.clocks.rows, migration.tuples)
        for name, member in self.members.items():
            if name not in known:
                self._begin_here(member)
        chunks = [entry for entry in entries if entry.namespace == NAMESPACE]
        of_streams = [tuples[source] for source in self.plan.sources]
        references = References.persisted(chunks, reported["flags"])
        held, delay, chunk = migration.referred(references, of_streams, reported["columns"])
        self.log.chunks.take_over((entry.key for entry in chunks), reported["next"])
        # Without their chunks tuples are persisted anew.
        self.log.settle(held, delay, self.cursors(), chunk if same else None)
        return same

    def _restore_selections(
        self, reported: dict[str, Any], known: Container[str]
    ) -> tuple[list[dict[int, int]], list[tuple[int, int]]]:
        """Give every query a selection: the one that it had, where that is still one. Returns which rows and which
        selections of now those of then are."""
        self._choices = []
        moved: list[dict[int, int]] = [{} for _ in self.plan.sources]
        numbers: dict[tuple[int, tuple[int, ...], bool], int] = {}
        new = []
        for name, member in self.members.items():
            before = reported["queries"].get(name) if name in known else None
            if member.status == FAILED:
                self._leave_panes(member)
            elif before is None:
                new.append(member)
            else:
                choice = Choice(member.place.filters, member.status != PAUSED)
                group = before["selection"], choice.filters, choice.active
                if group not in numbers:
                    # Queries that had one selection may have different filters now.
                    free = before["selection"] not in numbers.values()
                    numbers[group] = before["selection"] if free else len(self._choices)
                    self._choose(numbers[group], choice)
                member.selection = numbers[group]
                for rows, olds, news in zip(moved, before["rows"], member.place.view.rows.tolist(), strict=True):
                    rows |= {old: new for old, new in zip(olds, news, strict=True) if old >= 0 and new >= 0}
        for member in new:
            member.selection = self._select(Choice(member.place.filters, member.status != PAUSED), own=True)
        for member in self.members.values():
            if member.cursor is not None:
                member.cursor.selection = Selection.numbered(member.selection)
            if member.reader is not None:
                member.reader.flag = member.selection
        return moved, [(then, now) for (then, _, _), now in numbers.items()]

    def _restore_panes(self, entries: list[StateUpdate], before: dict[str, Any], known: Container[str]) -> None:
        """Give every store the panes that its queries had; what was persisted under another name is persisted anew."""
        by_key: dict[str, list[StateUpdate]] = {}
        for entry in entries:
            by_key.setdefault(entry.key.rpartition("/")[0], []).append(entry)
        for key, group in self.groups.items():
            had: dict[str, set[tuple[int, int]]] = {}
            for member in group.members:
                was = before.get(member.name) if member.name in known else None
                if was is not None and was["panes"] is not None:
                    had.setdefault(was["panes"], set()).add((was["selection"], member.selection))
            for old, flags in had.items():
                group.store.restore(f"{old}/", by_key.get(old, []), sorted(flags))
            as_it_is = all(old == key and all(was == now for was, now in flags) for old, flags in had.items())
            group.store.note_persisted((entry.key for entry in by_key.get(key, [])), as_it_is)
        for key in by_key.keys() - self.groups.keys():
            self._gone += [replace(entry, value=None) for entry in by_key[key]]
