"""Partitions that lag or fall silent: neither costs recall, nor holds results back for longer than was said."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import pytest

from slackwater.testing.broker import Broker
from tests.kafka.conftest import Pairs, Process, Topics, job_of
from tests.kafka.job import Job
from tests.kafka.messages import IDLE, PARTITIONS, Message, messages, true_pairs
from tests.kafka.test_short import JOIN

pytestmark = [
    pytest.mark.xdist_group("processes on spark"),
    pytest.mark.long("test_short.py: a partition that lags by three seconds; tests/disorder: clocks of partitions"),
]

TARGET = 0.95
RECALL = f"RECALL {TARGET} OVER 20 SECONDS"
Place = tuple[str, int]
"""A stream, and a partition of its topic."""


@dataclass(frozen=True)
class Planned:
    """A micro-batch as the checkpoint has it."""

    number: int
    begun: float
    """In seconds, by the clock of the machine."""
    ends: dict[Place, int]
    """Messages of each partition that are read with it and before."""

    @property
    def read(self) -> int:
        return sum(self.ends.values())


def planned(process: Process, topics: Topics) -> list[Planned]:
    """All micro-batches that were begun."""
    streams, found = {topics.name(stream): stream for stream in "ab"}, []
    for entry in (process.folder / "checkpoint" / "offsets").glob("[0-9]*"):
        lines = entry.read_text().splitlines()
        told = [json.loads(line) for line in lines[2:] if line.startswith('{"t')]
        ends = {
            (streams[topic], int(part)): end
            for one in told
            for topic, parts in one.items()
            for part, end in parts.items()
        }
        found.append(Planned(int(entry.name), json.loads(lines[1])["batchTimestampMs"] / 1000, ends))
    return sorted(found, key=lambda one: one.number)


def taken(process: Process, topics: Topics) -> int:
    """Messages that belong to micro-batches which are done."""
    commits = process.folder / "checkpoint" / "commits"
    return max((one.read for one in planned(process, topics) if (commits / str(one.number)).exists()), default=0)


def recall(found: Pairs, truth: Pairs) -> float:
    assert not found - truth, "a result was invented or doubled"
    return found.total() / truth.total()


def fed_in_order(process: Process, topics: Topics, made: list[Message], each: float) -> None:
    """Send what arrives in some seconds when all before is read: a query sees a lag only if it does not read ahead."""
    sent = 0
    while sent < len(made):
        end = made[sent].arrival + each
        part = [one for one in made[sent:] if one.arrival < end]
        topics.send(part)
        sent += len(part)
        process.until(lambda: taken(process, topics) >= sent)  # noqa: B023


def fed_as_it_arrives(process: Process, topics: Topics, made: list[Message]) -> None:
    """Send every message in the second of its arrival, by the clock on the wall; it begins when the query reads."""
    begun = None
    for second, part in groupby(made, key=lambda one: int(one.arrival)):
        if begun is not None:
            time.sleep(max(0.0, begun + second - time.monotonic()))
        topics.send(part)
        if begun is None:
            process.until(lambda: taken(process, topics) > 0)
            begun = time.monotonic() - second
    process.until(lambda: taken(process, topics) >= len(made))


def emitted(topics: Topics) -> list[tuple[int, tuple[str, int, int]]]:
    """Every result with the number of its micro-batch."""
    found = []
    for record in topics.records("pairs"):
        row = json.loads(record.value)
        found.append((int(dict(record.headers)["slackwater-batch"]), (row["key"], row["av"], row["bv"])))
    return found


def flushed(begin: Callable[..., Process], job: Job, folder: Path) -> dict[str, object]:
    """Start a job again that was killed, and let it emit all that it holds."""
    Job(**{**vars(job), "available": True, "flush": True}).write(folder)
    return begin(folder.name).done()


def with_timeout(waiting: str, seconds: int) -> str:
    return JOIN.format(waiting).replace(")", f", idle_timeout = {seconds} SECONDS)")


def clocks(made: Sequence[Message], at: Planned, idle: int) -> dict[Place, float]:
    """The largest event time of each partition but the idle one, of what is read with a micro-batch and before."""
    found = {}
    for stream in "ab":
        for part in set(range(PARTITIONS)) - {idle}:
            queued = [one.at for one in made if (one.stream, one.partition) == (stream, part)]
            found[stream, part] = max(queued[: at.ends[stream, part]])
    return found


def test_one_that_lags_costs_no_recall_and_one_that_is_idle_holds_results_back_for_its_timeout_at_most(
    broker: Broker, connector: str, topics: Topics, begin: Callable[..., Process], tmp_path: Path
) -> None:
    # From second 20 on one of four partitions sends nothing, from 50 on it is 30 seconds behind, at 70 it catches up in
    # a burst. Another one falls silent at second 40, and is waited for until second 85 or so.
    timeout, silent_from = 45, 40.0
    made = messages(110, 20, lagging=(20.0, 40.0), lag=30.0, idle_from=silent_from)
    topics.make("a", "b", "pairs")
    job = job_of(broker, connector, topics, with_timeout(RECALL, timeout), available=False, flush=False)
    process = begin("job", job)
    fed_as_it_arrives(process, topics, made)
    cut = planned(process, topics)
    process.kill()
    done = flushed(begin, job, tmp_path / "job")

    truth, results = true_pairs(made), emitted(topics)
    at = {one.v: one.at for one in made}
    first_of = {pair: min(at[pair[1]], at[pair[2]]) for pair in truth}
    last_of = {pair: max(at[pair[1]], at[pair[2]]) for pair in truth}
    found = recall(Counter(pair for _, pair in results), truth)
    there, got = Counter(last_of[pair] // 20 for pair in truth), Counter(last_of[pair] // 20 for _, pair in results)
    worst = min(got[period] / there[period] for period in there)
    print(f"recall {found:.4f}, {worst:.4f} in the worst 20 seconds, {done}")
    assert found >= TARGET
    assert float(str(done["quality"])) >= TARGET

    # A micro-batch may take long on a busy machine, so time is counted in them: the first one that begins when the
    # timeout is over emits all that is due.
    sent = Counter((one.stream, one.partition) for one in made)
    spoke = [next(one.begun for one in cut if one.ends[place] == sent[place]) for place in (("a", IDLE), ("b", IDLE))]
    first = next(one for one in cut if one.begun > max(spoke) + timeout)
    before = [pair for number, pair in results if number < first.number and first_of[pair] > silent_from + 2]
    assert not before, "nobody waited for the idle partition, so this would show nothing"
    clock = min(clocks(made, first, idle=IDLE).values())
    due = {pair for pair in truth if silent_from + 2 < first_of[pair] and last_of[pair] < clock - 5}
    emitted_by_then = {pair for number, pair in results if number <= first.number}
    print(f"{len(due)} pairs due in micro-batch {first.number}, begun {first.begun - max(spoke):.1f} s after it spoke")
    assert len(due) > 100
    assert len(due & emitted_by_then) >= TARGET * len(due)


@pytest.mark.parametrize("clock_by", [True, False], ids=["a clock a partition", "one clock"])
def test_a_partition_that_lags_by_thirty_seconds_costs_no_recall_where_it_has_a_clock(
    broker: Broker, connector: str, topics: Topics, begin: Callable[..., Process], clock_by: bool, tmp_path: Path
) -> None:
    topics.make("a", "b", "pairs")
    made = messages(100, 20, lagging=(20.0, 40.0), lag=30.0, idle_from=1e9)
    query = JOIN.format(RECALL) if clock_by else JOIN.format(RECALL).partition(" OPTIONS")[0]
    job = job_of(broker, connector, topics, query, available=False, flush=False)
    process = begin("job", job)
    fed_in_order(process, topics, made, each=5.0)
    process.kill()
    done = flushed(begin, job, tmp_path / "job")
    found = recall(topics.pairs(), true_pairs(made))
    print(f"clock_by {clock_by}: recall {found:.4f}, {done}")
    if clock_by:
        assert found >= TARGET
    else:
        # What the other would show if it could not fail: the backlog is late where all partitions share a clock.
        assert int(str(done["late"])) > 100


def test_an_idle_partition_holds_results_back_no_longer_than_its_timeout(
    broker: Broker, connector: str, topics: Topics, begin: Callable[..., Process]
) -> None:
    topics.make("a", "b", "pairs")
    timeout = 15
    job = job_of(broker, connector, topics, with_timeout("DELAY 1 SECOND", timeout), available=False, flush=False)
    # Nothing is late here: the delay covers all disorder.
    everyone = messages(4, 40, idle_from=1e9, lagging=(1e9, 1e9), disorder=0.05)
    assert {one.partition for one in everyone} == {0, 1, 2, IDLE}
    topics.send(everyone)
    process = begin("job", job)
    process.until(lambda: len(topics.pairs()) > 0)
    # From now on one partition is silent; the others go on for half a minute of event time at once.
    rest = [one for one in messages(34, 40, idle_from=0.0, lagging=(1e9, 1e9), disorder=0.05) if one.arrival >= 4]
    topics.send(rest)
    silent_since = time.monotonic()
    before = len(topics.pairs())
    wanted = true_pairs([*everyone, *rest])
    held = len([pair for pair in wanted if pair[1] > 1000 or pair[2] > 1000])
    assert held > 100

    # What lies two seconds and more before the newest message is due when the silent partition is no longer waited for.
    due = true_pairs([one for one in [*everyone, *rest] if one.at < 30])
    process.until(lambda: not due - topics.pairs())
    waited = time.monotonic() - silent_since
    process.kill()
    assert not topics.pairs() - wanted

    # On a busy machine a micro-batch takes long. So it is counted in them: the first one that begins when the timeout
    # is over, and has read everything, emits all that is due.
    cut = planned(process, topics)
    whole = [one for one in cut if one.read == len(everyone) + len(rest)]
    first = next(one for one in whole if one.begun > cut[0].begun + timeout)
    last = max(number for number, pair in emitted(topics) if pair in due)
    print(f"{before} pairs before, {due.total()} due, all there after {waited:.1f} s, in micro-batch {last}")
    assert last <= first.number
