"""The CPU time of this process, its JVM and its Python workers, as Linux counts it.

Invariant: CPU time, not time on the wall. A process that ends takes nothing with it: who waited for it has its count.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
COMPILES = ("C1 ", "C2 ", "Sweeper")
DRIVES = (
    "stream exec",
    "dag-schedul",
    "dispatcher",
    "task-result",
    "Thread-",
    "map-output",
    "spark-liste",
    "element-tra",
)
"""How the names begin of threads of the JVM that compile, and of those that plan, schedule and talk to the driver."""


@dataclass(frozen=True)
class Cpu:
    """Seconds of CPU time."""

    program: float
    """The driver's own Python."""
    driver: float
    """Threads of the JVM that plan and schedule."""
    compiler: float
    """Threads of the JVM that make machine code: a matter of its age, not of the work."""
    jvm: float
    """All else in the JVM: tasks, and collecting garbage."""
    workers: float
    """Python workers, and the process they are forked from."""

    @property
    def tasks(self) -> float:
        """What tasks use."""
        return self.jvm + self.workers


Counts = dict[tuple[str, int], float]
"""Seconds so far, by what a process or thread does, and its number."""


def counts_now() -> Counts:
    """What every process and thread of ours has used by now."""
    root, counts = os.getpid(), {}
    for pid in _family(root):
        process = Path(f"/proc/{pid}")
        is_jvm = _name(process) == "java"
        counts["program" if pid == root else "jvm" if is_jvm else "workers", pid] = _used(process)
        if pid != root:
            counts["workers", -pid] = _used(process, ended=True)
        for thread in _threads(pid) if is_jvm else ():
            name = _name(thread)
            kind = "compiler" if name.startswith(COMPILES) else "driver" if name.startswith(DRIVES) else None
            if kind is not None:
                counts[kind, int(thread.name)] = _used(thread)
    return counts


def used_between(before: Counts, after: Counts) -> Cpu:
    """What was used meanwhile. A worker that has ended is counted with the process that waited for it; of a thread that
    has ended it is not known by itself, and counts with the rest of its process.

    >>> before = {("workers", 1): 5.0, ("workers", -1): 0.0, ("workers", 2): 3.0}
    >>> used_between(before, {("workers", 1): 5.5, ("workers", -1): 3.25, ("workers", 3): 1.0}).workers
    1.75
    """
    used = dict.fromkeys(Cpu.__dataclass_fields__, 0.0)
    for one, seconds in after.items():
        used[one[0]] += seconds - before.get(one, 0.0)
    used["workers"] -= sum(seconds for one, seconds in before.items() if one[0] == "workers" and one not in after)
    # The threads of a JVM are counted with it.
    used["jvm"] -= used["compiler"] + used["driver"]
    return Cpu(**used)


def _family(root: int) -> Iterator[int]:
    """A process and all below it."""
    yield root
    for thread in _threads(root):
        try:
            children = (thread / "children").read_text().split()
        except OSError:
            continue
        for child in children:
            yield from _family(int(child))


def _threads(pid: int) -> list[Path]:
    try:
        return list(Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return []


def _name(folder: Path) -> str:
    try:
        return (folder / "comm").read_text().strip()
    except OSError:
        return ""


def _used(folder: Path, ended: bool = False) -> float:
    """Seconds that a process or thread has used; or those of its children that have ended."""
    try:
        fields = (folder / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[13:15] if ended else fields[11:13])) / TICKS
