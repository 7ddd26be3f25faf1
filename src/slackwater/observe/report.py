"""The report of a run: what went in, what came out, what was waited for; and what a run is measured by while it goes
on.

Invariant: tuples = in_time + late + filtered + rejected + held, where held is 0 once the input has ended. Nothing is
polled; a report covers exactly what was noted, whichever runtime did so. Where windows are large, four tuples come for
every one that is looked at, so to know how much memory they take costs a run little. The last look is before the end of
the input, which emits everything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from slackwater.core.emitting import Emit
from slackwater.core.measured import MeasuredQuality
from slackwater.core.memory import Memory, Resident
from slackwater.core.outlook import Outlook
from slackwater.core.quality import Recall, RelativeError
from slackwater.core.state import Emission, Observation
from slackwater.core.time import BEFORE_ALL, MILLISECOND
from slackwater.core.values import as_json, of_json
from slackwater.core.wrong_clocks import WrongClock
from slackwater.observe.distribution import Distribution, in_runs
from slackwater.observe.foreseen import Foretelling, as_reported
from slackwater.observe.waiting import FAR_MORE, Causes, Slowest, SlowestUse, Waiting, advice, mostly_for_a_stream
from slackwater.plan.physical import PhysicalPlan
from slackwater.sources.codebook import Codebook
from slackwater.sources.encode import decode_column

FEW = 4096
"""So many tuples are measured whenever there is an occasion; of more,"""
SELDOM = 4
"""so many tuples must have come for each that is measured."""


class MemoryUse:
    """Samples of memory: the average, weighted by the event time between one and the next, and the largest.

    >>> from slackwater.core.memory import Resident
    >>> use = MemoryUse()
    >>> use.begin(0)
    >>> use.note(Memory(Resident(4, 4, 32)), clock=10, arrivals=100)
    >>> use.note(Memory(Resident(8, 8, 64)), clock=40, arrivals=200)
    >>> use.as_json(None)["average"]["query"]["events"], use.as_json(None)["peak"]["query"]["bytes"]
    (7, 64)
    """

    def __init__(self) -> None:
        self._since = BEFORE_ALL
        self._weight = self._samples = 0
        self._last = Memory()
        self._numbers: dict[tuple[str, str], _Numbers] = {}
        self._looked_at = 0

    def begin(self, clock: int) -> None:
        """The first tuple has this event time; later calls do nothing."""
        if self._since == BEFORE_ALL:
            self._since = clock

    def due(self, arrivals: int) -> bool:
        """Whether so many have come, in all, that it is worth looking again."""
        tuples = self._last.query.tuples
        return tuples <= FEW or arrivals - self._looked_at >= SELDOM * tuples

    def note(self, memory: Memory, clock: int, arrivals: int) -> None:
        """What was in the windows when the largest clock was here and so many tuples had come."""
        self.begin(clock)
        weight = max(0, clock - self._since)
        self._since = max(self._since, clock)
        for owner, one in _by_owner(memory):
            known = self._numbers.setdefault(owner, _Numbers())
            known.note(one, weight)
        self._weight += weight
        self._samples += 1
        self._last, self._looked_at = memory, arrivals

    def as_json(self, now: Memory | None) -> dict[str, Any]:
        """What is there now, the average and the largest of each number by itself, and how often it was measured."""
        average = self._as_memory(lambda one: one.average(self._weight)) if self._weight else self._last
        reported = {"now": now or Memory(), "average": average, "peak": self._as_memory(lambda one: one.peak)}
        return {"samples": self._samples, **{name: as_json(one) for name, one in reported.items()}}

    def _as_memory(self, what: Callable[[_Numbers], Resident]) -> Memory:
        groups: dict[str, dict[str, Resident]] = {"": {}, "streams": {}, "nodes": {}, "windows": {}}
        for (group, name), one in self._numbers.items():
            groups[group][name] = what(one)
        return Memory(groups.pop("").get("", Resident()), **groups)


class _Numbers:
    """The numbers of one owner over time; what was not there counts as nothing."""

    def __init__(self) -> None:
        self.peak = Resident()
        self._tuples = self._events = self._bytes = 0

    def note(self, one: Resident, weight: int) -> None:
        self._tuples += weight * one.tuples
        self._events += weight * one.events
        self._bytes += weight * one.bytes
        peak = self.peak
        if one.tuples > peak.tuples or one.events > peak.events or one.bytes > peak.bytes:
            self.peak = Resident(max(one.tuples, peak.tuples), max(one.events, peak.events), max(one.bytes, peak.bytes))

    def average(self, weight: int) -> Resident:
        return Resident(round(self._tuples / weight), round(self._events / weight), round(self._bytes / weight))


def _by_owner(memory: Memory) -> list[tuple[tuple[str, str], Resident]]:
    """Everything with a number of its own: the query, and its streams, nodes and windows."""
    named = [
        ((group, name), one)
        for group, owners in (("streams", memory.streams), ("nodes", memory.nodes), ("windows", memory.windows))
        for name, one in owners.items()
    ]
    return [(("", ""), memory.query), *named]


class SlackUse:
    """Slack in force, weighted by the event time it was in force for."""

    def __init__(self, initial: int) -> None:
        self._slack, self._since = initial, BEFORE_ALL
        self._spans = Distribution()
        self.largest = initial

    def begin(self, clock: int) -> None:
        """The first tuple has this event time: from there on the initial slack is in force; later calls do nothing."""
        if self._since == BEFORE_ALL:
            self._since = clock

    def note(self, changes: Sequence[tuple[int, int]], clock: int) -> None:
        """Changes of slack as (largest clock, slack from there on), and the largest clock now."""
        for at, slack in changes:
            self._until(at)
            self._slack = slack
            self.largest = max(self.largest, slack)
        self._until(clock)

    def _until(self, clock: int) -> None:
        if self._since != BEFORE_ALL and clock > self._since:
            self._spans.count(self._slack, clock - self._since)
        if clock != BEFORE_ALL:
            self._since = max(self._since, clock)

    def as_ms(self) -> dict[str, float]:
        """avg, p50, p95, max and last, in milliseconds."""
        known = self._spans
        return {
            "avg": _ms(known.mean if known.weight else self._slack) or 0.0,
            "p50": _ms(known.quantile(0.5) if known.weight else self._slack) or 0.0,
            "p95": _ms(known.quantile(0.95) if known.weight else self._slack) or 0.0,
            "max": _ms(self.largest) or 0.0,
            "last": _ms(self._slack) or 0.0,
        }


class LatencyUse:
    """Waiting per result of the first answer, in event time, and for what; what the final flush emits is left out."""

    def __init__(self) -> None:
        self._waits = Distribution()
        self._wall = Distribution()
        self.causes = Causes()

    def note(self, emission: Emission) -> None:
        if emission.amends:
            return
        if emission.flushed:
            results = len(emission.ts) if emission.multiplicity is None else int(emission.multiplicity.sum())
            self.causes.end(results, emission.in_force)
            return
        if not len(emission.ts):
            return
        # Results of one tuple share one value, so there are far fewer runs of equal values than results.
        waits, weights = in_runs(emission.clock - emission.ts, emission.multiplicity)
        self._waits.add(waits, weights)
        self.causes.note(waits, weights, emission.in_force)
        if emission.emit_time is not None:
            self._wall.add(emission.emit_time - emission.ts, emission.multiplicity)

    def reported(self) -> dict[str, Any]:
        """The waiting as plain data, for another process to `add`."""
        return self._waits.as_json() | {"causes": as_json(self.causes.so_far)}

    def waiting(self) -> Waiting:
        """The waiting with its quantiles."""
        p50, p95, p99 = (self._waits.quantile(p) for p in (0.5, 0.95, 0.99))
        return replace(self.causes.so_far, p50=p50, p95=p95, p99=p99)

    def add(self, reported: dict[str, Any]) -> None:
        """Count the waiting that another process has reported."""
        self._waits.merge(reported)
        self.causes.add(of_json(Waiting, reported["causes"]))

    @property
    def results(self) -> int:
        """How many results the waiting is that of."""
        return self._waits.weight

    def as_ms(self) -> dict[str, float | None]:
        """avg, p50, p95 and p99, in milliseconds; None where nothing was emitted before the end."""
        return _quantiles(self._waits)

    def causes_as_ms(self) -> dict[str, float] | None:
        """The average by cause, in milliseconds: the parts add up to `avg`."""
        average, whole = self.causes.average(), _ms(self._waits.mean)
        if average is None or whole is None:
            return None
        slack, epoch = (_ms(average[name]) or 0.0 for name in ("slack", "epoch"))
        return {"slack": slack, "slowest_stream": round(whole - slack - epoch, 3), "epoch": epoch}

    def wall_as_ms(self) -> dict[str, float | None] | None:
        """The same from event time to the arrival that caused a result; None without arrival times."""
        return _quantiles(self._wall) if self._wall.weight else None


def _quantiles(waits: Distribution) -> dict[str, float | None]:
    quantiles = {name: _ms(waits.quantile(p)) for name, p in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))}
    return {"avg": _ms(waits.mean), **quantiles}


def _measured(quality: MeasuredQuality) -> dict[str, Any]:
    reported = quality.as_shares()
    since = quality.provisional_from
    return reported | {"provisional_from": None if since is None else utc_text(since)}


def utc_text(ts: int) -> str:
    """An event time as text, to the millisecond.

    >>> utc_text(1_500_000)
    '1970-01-01T00:00:01.500Z'
    """
    return f"{np.datetime_as_string(np.datetime64(ts, 'us'), unit='ms')}Z"


def _ms(micros: float | None) -> float | None:
    return None if micros is None else round(micros / MILLISECOND, 3)


@dataclass(frozen=True)
class Report:
    """What `report.json` holds."""

    plan: PhysicalPlan
    """With the target in force."""
    of: RunStatistics
    controller: str
    runtime: str
    observation: Observation
    unreadable: dict[str, int]
    """Rows rejected before they could move a clock, by reason."""
    seconds: float
    in_epochs: bool
    """Whether several tuples are emitted at once."""
    interrupted: bool = False
    shards: int | None = None
    """Into how many parts the work was cut, where a runtime cuts it."""
    wrong_clocks: tuple[WrongClock, ...] = ()
    """Parts of streams whose clocks are wrong."""

    @property
    def quality(self) -> str:
        return str(self.plan.quality)

    @property
    def emit(self) -> Emit:
        return self.plan.emit

    @property
    def _aliases(self) -> list[str]:
        return [one.stream.alias for one in self.plan.inputs]

    @property
    def _slowest(self) -> Slowest | None:
        return self.of.slowest.reported(self._aliases)

    @property
    def tuples(self) -> int:
        return self.observation.tuples + sum(self.unreadable.values())

    @property
    def rejected(self) -> int:
        return self.observation.ahead + sum(self.unreadable.values())

    def as_json(self) -> dict[str, Any]:
        seen = self.observation
        reasons = dict(self.unreadable)
        if seen.ahead:
            reasons["ahead"] = seen.ahead
        idle = {alias: times for alias, times in zip(self._aliases, seen.idle, strict=False) if times}
        latency, slowest = self.of.latency, self._slowest
        return {
            "tuples": self.tuples,
            "in_time": seen.in_time,
            "late": seen.late,
            "filtered": seen.filtered,
            "rejected": self.rejected,
            "rejected_reasons": reasons,
            "held": seen.held,
            "results": seen.results,
            "emit": str(self.emit),
            **({} if self.emit.amends is None else {"amended": seen.amended, "amends": self.emit.amends}),
            "slack_ms": self.of.slack.as_ms(),
            "latency_ms": latency.as_ms(),
            "latency_by_cause_ms": latency.causes_as_ms(),
            "slowest_stream": None if slowest is None else slowest.as_json(),
            "emitted_at_end": latency.causes.so_far.at_end,
            "waiting_advice": self.waiting_advice(),
            "wall_latency_ms": latency.wall_as_ms(),
            "response_ms": self._response(),
            "ordering": None if seen.ordering is None else seen.ordering.as_json(),
            **({} if not seen.rates else {"rates": [one.as_json() for one in seen.rates]}),
            **({} if seen.engines is None else {"engines": as_json(seen.engines)}),
            "seconds": round(self.seconds, 6),
            "throughput_tps": round(self.tuples / self.seconds, 1) if self.seconds > 0 else None,
            "compute_ms_per_tuple": round(1000 * self.seconds / self.tuples, 6) if self.tuples else None,
            "runtime": self.runtime,
            **({} if self.shards is None else {"shards": self.shards}),
            "epochs": seen.epochs,
            "quality": self.quality,
            "measured_quality": None if seen.quality is None else _measured(seen.quality),
            "outlook": as_reported(self.plan.quality, seen.outlook),
            "controller": self.controller,
            "memory": self.of.memory.as_json(seen.memory),
            "idle_timeouts": idle,
            "wrong_clocks": [one.as_json() for one in self.wrong_clocks],
            "interrupted": self.interrupted,
        }

    @property
    def mostly_late(self) -> bool:
        """Whether more is late than any controller would let be, so that something is wrong with the clocks."""
        return isinstance(self.plan.quality, Recall | RelativeError) and 4 * self.observation.late > self.tuples

    def waiting_advice(self) -> str | None:
        """What helps where results wait mostly for one stream; None where they do not, or for no stream at all."""
        if self.emit.on_arrival:
            return None
        causes, average = self.of.latency.causes.so_far, self.of.latency.causes.average()
        slowest = self._slowest
        # A query that runs has the clock on the wall; a recording has a column for it.
        recorded = self.runtime == "local" and self.observation.waited is None
        helps = advice(slowest, self.plan.options, self.in_epochs, arrival_times=not recorded)
        if average is not None and mostly_for_a_stream(average):
            return helps
        held_back = causes.stuck > FAR_MORE * self.observation.slack
        if slowest is not None and held_back and 2 * causes.at_end > self.observation.results:
            return (
                f"{causes.at_end:,} of {self.observation.results:,} results left only at the end of the input: {helps}"
            )
        return None

    def _response(self) -> dict[str, float | None] | None:
        """What a tuple takes from its arrival until it is done: its waiting, and its part of the work."""
        waited = _ms(self.observation.waited)
        if waited is None or not self.tuples:
            return None
        work = round(1000 * self.seconds / self.tuples, 6)
        return {"waiting": waited, "work": work, "avg": round(waited + work, 3)}


def named_odd_clocks(plan: PhysicalPlan, codebook: Codebook, seen: Observation) -> tuple[WrongClock, ...]:
    """Which partitions have odd clocks, by the values of the columns that distinguish them."""
    return tuple(
        WrongClock(
            plan.inputs[one.stream].stream.alias, name_of_part(plan, codebook, one.stream, one.name), one.ahead,
            one.since, one.waited_for,
        )
        for one in seen.odd_clocks
    )  # fmt: skip


def named_wrong_clocks(plan: PhysicalPlan, codebook: Codebook, seen: Observation) -> tuple[WrongClock, ...]:
    """Those of them that are wrong."""
    return tuple(one for one in named_odd_clocks(plan, codebook, seen) if not one.waited_for)


def name_of_part(plan: PhysicalPlan, codebook: Codebook, stream: int, word: int) -> Any:
    """The value that distinguishes the parts of a stream, of one column or several."""
    one = plan.inputs[stream]
    if one.partition_kind is None:
        return word
    schema = one.stream.schema
    arrow = next((schema[name].arrow for name, _, row in one.columns if row == one.partition_slot), pa.string())
    value = decode_column(np.array([word]), one.partition_kind, arrow, codebook).to_pylist()[0]
    return value if value is None or isinstance(value, int | str) else str(value)


class RunStatistics:
    """The measures of one run of a plan, which begins with this slack."""

    def __init__(self, plan: PhysicalPlan, slack: int) -> None:
        self._plan = plan
        self.slack, self.latency = SlackUse(slack), LatencyUse()
        self.memory, self.slowest = MemoryUse(), SlowestUse()
        self._foretelling = Foretelling()

    def retarget(self, plan: PhysicalPlan) -> None:
        self._plan = plan

    def begin(self, ts: int) -> None:
        self.slack.begin(ts)
        self.memory.begin(ts)

    def note_clocks(self, slack_changes: Sequence[tuple[int, int]], clocks: Sequence[int]) -> None:
        self.slack.note(slack_changes, max(clocks))
        self.slowest.note(clocks)

    def note_memory(self, memory: Callable[[], Memory], clock: int, arrivals: int) -> None:
        if self.memory.due(arrivals):
            self.memory.note(memory(), clock, arrivals)

    def news(self, outlook: Outlook | None) -> str | None:
        """What is to be said of the target, given whether it can be met as it looks now."""
        return self._foretelling.news(self._plan.quality, outlook)
