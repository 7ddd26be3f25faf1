"""The shards of a query that runs in two fragments: those of the lower one hand on rows, those of the upper one take
them.

What is handed on are lines of the packed stream of a second stage, as packers make them of a source. Their headers have
the watermark that all shards of the lower fragment share, and what was in force there, so that results are known to
have waited for it.

Invariant: in a micro-batch that the query takes part in, every shard of the upper fragment hears of every one of the
lower fragment, also where these had nothing to hand on. Tuples, late ones and clocks are counted below, results above.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from slackwater.core.batch import ROW, Flags, Words
from slackwater.core.quality import NoWait
from slackwater.core.state import NOTHING, NOTHING_IN_FORCE, Emission, InForce, StateUpdate
from slackwater.core.time import BEFORE_ALL
from slackwater.disorder.clock_guard import Guarded
from slackwater.disorder.clock_readings import ClockReadings
from slackwater.disorder.cutting import Epochs
from slackwater.disorder.meters import Report, Watched
from slackwater.disorder.release.state import MAX_TS
from slackwater.observe.imbalance import ShardLoad
from slackwater.observe.value import QueryProgress
from slackwater.operators.aggregate.pane_partials import KEY, partials_of, text_keys
from slackwater.operators.composed.gathering import Gathering, GatheringRows
from slackwater.operators.handing import PARTIALS
from slackwater.operators.query_kernel import QueryKernel
from slackwater.plan.fragments import lower, upper
from slackwater.plan.physical import PhysicalPlan
from slackwater.quality.error.windows import WindowLosses
from slackwater.runtime.driver import with_results
from slackwater.runtime.kernels import query_for
from slackwater.runtime.spark.control import Message
from slackwater.runtime.spark.exchange.format import read_block, write_block
from slackwater.runtime.spark.exchange.writer import Packing, aggregate_of, split
from slackwater.runtime.spark.members import Member
from slackwater.runtime.spark.output_schema import Emitted, StageLines
from slackwater.runtime.spark.query import packings_of
from slackwater.runtime.spark.state.checkpoint import structure
from slackwater.runtime.spark.state.host import Hosted
from slackwater.runtime.spark.state.judge import JUDGED_ABOVE, MADE, NOTES, is_of_judge, judge_of
from slackwater.runtime.spark.state.root import ABOVE
from slackwater.runtime.spark.state.shard import Block, Shard

HANDED = "handed"
"""The kind of what a lower fragment emits for the upper one."""
MOST_WAITING = 1 << 16
"""Tuples that are gathered before they are handed on."""
PIECES = 1 << 32
"""More than the lines that a shard hands on in one micro-batch."""
RESTS = {"watermark": None, "end": False}
"""The header of a line that brings tuples alone, or says that the query rests."""


def fragments(one: Member) -> tuple[Member, Member | None]:
    """A query as the lower stage hosts it, and as the upper one does; None where one stage is enough."""
    if one.plan.partitioning.above is None or len(one.shards) == 1:
        return one, None
    plan, first = upper(one.plan), one.packings[0]
    labels = one.shards[: plan.partitioning.shards(len(one.shards))]
    packings = tuple(packings_of(plan, labels, first.time_unit, first.tasks))
    last = replace(
        one, plan=plan, packings=packings, structure=structure(plan, labels, first.time_unit, False), timed=False,
        fragment=UPPER,
    )  # fmt: skip
    return replace(one, plan=lower(one.plan), fragment=Lower(packings)), last


def stages_of(hosted: Hosted) -> tuple[Hosted, Hosted | None]:
    """Queries as the first stage hosts them, and those parts of them that a second stage hosts; None where one stage
    is enough."""
    pairs = [fragments(one) for one in hosted.members]
    above = tuple(last for _, last in pairs if last is not None)
    if not above:
        return hosted, None
    first = replace(hosted, members=tuple(one for one, _ in pairs), emitter=StageLines())
    return first, replace(hosted, members=above, folders_read=None, name=f"{hosted.name}/{ABOVE}")


@dataclass(frozen=True)
class Lower:
    """A fragment that hands on, and how what it hands on is packed."""

    above: tuple[Packing, ...]

    def shard(self, one: Member, label: int, plan: PhysicalPlan, **more: Any) -> Shard:
        """An empty shard of it."""
        return LowerShard(
            plan, one.text_rows, one.structure, above=self.above, label=label, first=label == one.shards[0], **more
        )


@dataclass(frozen=True)
class Upper:
    """A fragment that takes what is handed on."""

    def shard(self, one: Member, label: int, plan: PhysicalPlan, **more: Any) -> Shard:
        """An empty shard of it."""
        return UpperShard(plan, one.text_rows, one.structure, **more | {"among_shards": False})


UPPER = Upper()


@dataclass
class LowerShard(Shard):
    """A shard that hands on."""

    above: tuple[Packing, ...] = ()
    label: int = 0
    first: bool = True
    """Whether every task above hears this one, also where there is nothing for it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._tuples: list[list[Words]] = [[] for _ in self.above]
        self._waiting = self._pieces = 0
        self._header: Mapping[str, Any] = RESTS

    @property
    def _summed(self) -> Watched | None:
        """The windows above that sums of rows are enough to judge."""
        controller = self.kernel.release.controller
        return controller.summed if isinstance(controller, GatheringRows) else None

    @property
    def _makes_partials(self) -> bool:
        """Whether rows travel as partial results. What nodes below make is never late above; of a stream the operator
        itself knows what is. A judge above must see rows themselves, or sums of them."""
        gathers = isinstance(self.kernel.release.controller, GatheringRows)
        return bool(self.plan.nodes) and (self._summed is not None or not gathers)

    def given(self, query: str, emissions: Iterable[Emission]) -> Iterator[Emitted]:
        for one in with_results(emissions):
            inputs, words = one.columns[0], one.columns[1:]
            if inputs[0] == PARTIALS:
                yield from self._lines(query, 0, RESTS, None, np.stack(words))
                continue
            for at, packing in enumerate(self.above):
                mine = slice(None) if len(self.above) == 1 else np.flatnonzero(inputs == at)
                self._tuples[at].append(np.stack([row[mine] for row in words[: packing.plan.rows]]))
            self._waiting += len(inputs)
            if self._waiting >= MOST_WAITING:
                yield from self._send(query)
        self._header = self._closing_header()
        controller = self.kernel.release.controller
        if isinstance(controller, Gathering):
            sums, noted = controller.take()
            yield from self._lines(query, NOTES, RESTS, noted, sums)

    def closing(self, query: str) -> Iterator[Emitted]:
        yield from self._send(query, self._header)
        self._header, self._pieces = RESTS, 0

    def _closing_header(self) -> dict[str, Any]:
        release, controller = self.kernel.release, self.kernel.release.controller
        return {
            "watermark": self.kernel.reached,
            "clock": int(release.state.clock.scalars[MAX_TS]),
            "clocks": release.clocks,
            "unknown": controller.unknown if isinstance(controller, Gathering) else (0, 0),
            "slack": release.slack,
            "in_force": asdict(self.kernel.in_force),
            "end": self._ended,
        }

    def _send(self, query: str, closing: Mapping[str, Any] | None = None) -> Iterator[Emitted]:
        """Hand on what is gathered, with a header that closes the micro-batch, where it is closing."""
        for at, waiting in enumerate(self._tuples):
            words, partials = np.concatenate(waiting, axis=1) if waiting else None, None
            # One header says it all.
            header = closing if at == 0 else None
            if words is not None and self._summed is not None:
                yield from self._lines(query, MADE, RESTS, None, WindowLosses.sums_of(self._summed, words))
            if words is not None and self._makes_partials:
                aggregate = self.above[at].aggregate
                partials = None if aggregate is None else partials_of(aggregate, words)
                words = words if partials is None else None
            if waiting or header is not None:
                yield from self._lines(query, at, header or RESTS, words, partials)
            self._tuples[at] = []
        self._waiting = 0

    def _lines(
        self, query: str, at: int, header: Mapping[str, Any], words: Words | None, partials: Words | None = None
    ) -> Iterator[Emitted]:
        packing = self.above[min(at, len(self.above) - 1)]
        # The codes of texts are enough for one who judges.
        rows, without = ((), ()) if at >= NOTES else (packing.text_rows, (ROW,))
        tuples = self._blocks(packing, words, rows, without)
        made: list[bytes | None] = [None] * packing.parts
        if partials is not None:
            by_key = replace(packing, shard_slots=tuple(KEY + n for n in range(len(packing.shard_slots))))
            rows = () if packing.aggregate is None else text_keys(packing.aggregate, packing.text_rows)
            made = self._blocks(by_key, partials, rows, ())
        readers, told, number = json.dumps([(query, at)]), json.dumps(header), self.label * PIECES + self._pieces
        self._pieces += 1
        heard: set[int] = set()
        for place, label in enumerate(packing.shards):
            part, task = packing.part_of(place), label % packing.tasks
            if tuples[part] is None and made[part] is None and (task in heard or not self.first):
                continue
            line = (label, readers, number, None if task in heard else told, tuples[part], made[part], None)
            heard.add(task)
            yield Emitted(query, HANDED, line=line)

    @property
    def learning_key(self) -> str:
        return JUDGED_ABOVE

    def _blocks(
        self, packing: Packing, words: Words | None, text_rows: tuple[int, ...], without: tuple[int, ...]
    ) -> list[bytes | None]:
        """Words as a block for every part of the shards above, where it has some."""
        if words is None:
            return [None] * packing.parts
        parts = split(packing, words, np.ones(words.shape[1], np.bool_))
        return [write_block(one, text_rows, self.codebook, without) if one.shape[1] else None for one in parts]

    def _emitted(self, emission: Emission) -> None:
        """Rows that are handed on are no results, and have not come to their end."""
        self.record.emitted_late(emission)


def _none(streams: Words, words: Words) -> Flags:
    return np.zeros(len(streams), np.bool_)


@dataclass
class UpperShard(Shard):
    """A shard that takes what is handed on: it judges no clocks and waits for nobody."""

    def __post_init__(self) -> None:
        super().__post_init__()
        # They are counted below, and late ones are given out there.
        self.kernel.tells = _none
        self._clock, self._in_force, self._slack = BEFORE_ALL, NOTHING_IN_FORCE, 0
        aggregate = aggregate_of(self.plan)
        self._text_keys = () if aggregate is None else text_keys(aggregate, self.text_rows[0])
        self.judge = judge_of(self.plan, self.kernel)

    def _new_kernel(self) -> QueryKernel:
        return query_for(replace(self.plan, quality=NoWait()), Epochs(), self.codebook)

    def epoch(self, blocks: Iterable[Block], now: int | None = None, end: bool = False) -> Iterator[Emission]:
        """Take in what all shards below hand on in a micro-batch; with `end`, that was the last."""
        self.record.begin()
        every = sorted(blocks, key=lambda block: (block.stream, block.part))
        ordered, notes = ([one for one in every if (one.stream >= NOTES) == is_note] for is_note in (False, True))
        told = [block.header for block in ordered if block.header["watermark"] is not None]
        end = end or any(header["end"] for header in told)
        if self._ended:
            return
        self._ended, clocks = end, None
        batch = self._read(ordered)
        batch = replace(batch, reading=np.full(len(batch), BEFORE_ALL))
        for block in ordered:
            if block.partials is not None:
                self.kernel.take_partials(read_block(block.partials, self._text_keys, self.codebook)[0], 0)
        if told:
            self._clock, self._in_force = told[0]["clock"], InForce(**told[0]["in_force"])
            self._slack = told[0]["slack"]
            if told[0]["watermark"] != BEFORE_ALL:
                watermark = told[0]["watermark"]
                clocks = ClockReadings.of([(stream, None, watermark) for stream in range(len(self.plan.inputs))], None)
        met = self.kernel.reached
        yield from self._drained(self.kernel.take(Guarded(batch, batch.take(NOTHING), None, clocks), end))
        if told and self.judge is not None:
            self.judge.take(notes, batch if len(batch) else None, met, told, end, self.codebook)

    def remember(self, blocks: Iterable[Block], pieces: Sequence[Message], now: int | None) -> Iterator[Emission]:
        """What shards below make of a history counts for no target."""
        judge, self.judge = self.judge, None
        yield from self.epoch(blocks, now)
        self.judge = judge
        self.record.begin()
        if judge is not None:
            judge.begin_anew()

    def pass_by(self, blocks: Iterable[Block], now: int | None = None) -> None:
        """The query rests, and so does what is below."""
        self.record.begin()

    def _emitted(self, emission: Emission) -> None:
        clock = np.full(len(emission.ts), self._clock)
        self.record.latency.note(replace(emission, clock=clock, in_force=self._in_force))

    def progress(self, load: ShardLoad, rejected: Mapping[str, str] | None = None) -> QueryProgress:
        """Results, what it keeps, and what they waited for; all else is said below."""
        known = super().progress(load)
        nothing: dict[str, Any] = dict.fromkeys(("tuples", "in_time", "late", "filtered", "ahead", "held", "epochs"), 0)
        observed = replace(known.observed, clocks=(), idle=(), parts=(), slack=self._slack, **nothing)
        own = (replace(load, is_upper=True),)
        known = replace(known, observed=observed, streams={}, delays={}, rejected={}, batch=0, shards=own)
        return known if self.judge is None else self.judge.added_to(known)

    @property
    def learning_key(self) -> str:
        return JUDGED_ABOVE

    def report(self) -> Report:
        return {} if self.judge is None else self.judge.report()

    def snapshot_delta(self) -> Iterator[StateUpdate]:
        yield from super().snapshot_delta()
        if self.judge is not None:
            yield from self.judge.snapshot_delta()

    def restore(self, entries: Iterable[StateUpdate]) -> None:
        known = list(entries)
        super().restore(entry for entry in known if not is_of_judge(entry))
        if self.judge is not None:
            self.judge.restore([entry for entry in known if is_of_judge(entry)], self.kernel.release)
