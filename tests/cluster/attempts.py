"""What Spark's event log says of the tasks of streaming queries: which attempts there were, where, and how they ended.

Invariant: an attempt is counted by what Spark itself has written down; a log that was cut off by a kill tells what it
has.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SETTINGS = {
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
    "spark.eventLog.rolling.enabled": "false",
}
QUERY, BATCH = "sql.streaming.queryId", "streaming.sql.batchId"


@dataclass(frozen=True)
class Attempt:
    """One attempt of one task."""

    application: str
    query: str
    """The streaming query, by its id."""
    batch: int
    stage: tuple[int, int]
    """Its number, and the attempt of the stage."""
    partition: int
    attempt: int
    host: str
    speculative: bool
    end: str | None
    """`Success`, or why it failed; None: nothing is known of its end."""

    @property
    def task(self) -> tuple[str, int, int, int]:
        """What it is an attempt of."""
        return self.query, self.batch, self.stage[0], self.partition


def attempts(logs: Path) -> list[Attempt]:
    """All attempts of all applications that have written to a folder, in the order in which they began."""
    found: list[Attempt] = []
    for log in logs_in(logs):
        properties: dict[int, dict[str, str]] = {}
        begun: dict[int, dict[str, Any]] = {}
        ended: dict[int, str] = {}
        for event in events(log):
            if event["Event"] == "SparkListenerStageSubmitted":
                properties[event["Stage Info"]["Stage ID"]] = event.get("Properties") or {}
            elif event["Event"] == "SparkListenerTaskStart":
                begun[event["Task Info"]["Task ID"]] = event
            elif event["Event"] == "SparkListenerTaskEnd":
                ended[event["Task Info"]["Task ID"]] = event["Task End Reason"]["Reason"]
        for number, event in begun.items():
            said, info = properties.get(event["Stage ID"], {}), event["Task Info"]
            if QUERY in said:
                found.append(
                    Attempt(
                        log.name.partition(".")[0],
                        said[QUERY],
                        int(said[BATCH]),
                        (event["Stage ID"], event["Stage Attempt ID"]),
                        info.get("Partition ID", info["Index"]),
                        info["Attempt"],
                        info["Host"],
                        info["Speculative"],
                        ended.get(number),
                    )
                )
    return found


def retried(found: list[Attempt]) -> list[tuple[Attempt, Attempt]]:
    """Attempts that were lost with their executor, each with a later one of the same task that succeeded."""
    return [
        (lost, again)
        for number, lost in enumerate(found)
        if lost.end == "ExecutorLostFailure"
        for again in found[number + 1 :]
        if again.task == lost.task and again.application == lost.application and again.end == "Success"
    ]


def copied(found: list[Attempt]) -> list[tuple[Attempt, Attempt]]:
    """Attempts that took too long, each with the copy on another host that succeeded before them."""
    return [
        (slow, copy)
        for copy in found
        if copy.speculative and copy.end == "Success"
        for slow in found
        if slow.task == copy.task and slow.application == copy.application and slow.host != copy.host
        and not slow.speculative and slow.end != "Success"
    ]  # fmt: skip


def repeated(logs: Path) -> set[tuple[str, int]]:
    """Micro-batches that one driver has begun and another one has run again, by query and number. Of a driver that was
    killed the log has the jobs that began, but not always their tasks."""
    by_driver: dict[tuple[str, int], set[str]] = {}
    for log in logs_in(logs):
        for event in events(log):
            said = event.get("Properties") or {}
            if event["Event"] == "SparkListenerJobStart" and QUERY in said:
                by_driver.setdefault((said[QUERY], int(said[BATCH])), set()).add(log.name)
    return {which for which, drivers in by_driver.items() if len(drivers) > 1}


def logs_in(folder: Path) -> list[Path]:
    """The logs of applications, in the order in which they ended."""
    found = (one for one in folder.glob("*") if not one.name.startswith("."))
    return sorted(found, key=lambda one: one.stat().st_ctime_ns)


def events(log: Path) -> Iterator[dict[str, Any]]:
    """What a log says, as far as it was written."""
    for line in log.read_text(errors="replace").splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            continue
