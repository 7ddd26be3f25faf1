"""The CPU time of this process, its JVM and its Python workers, as Linux counts it.

Invariant: CPU time, not time on the wall, so other programs on the machine change it little; children that have ended
are counted with those who waited for them.
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

    def __sub__(self, other: Cpu) -> Cpu:
        return Cpu(*(getattr(self, name) - getattr(other, name) for name in self.__dataclass_fields__))

    @property
    def tasks(self) -> float:
        """What tasks use."""
        return self.jvm + self.workers


def cpu_now() -> Cpu:
    """What all of them have used by now."""
    root = os.getpid()
    family = set(_family(root))
    jvms = [pid for pid in family if _name(Path(f"/proc/{pid}")) == "java"]
    threads = [(_name(one), _used(one)) for pid in jvms for one in _threads(pid)]
    compiler = sum(used for name, used in threads if name.startswith(COMPILES))
    driver = sum(used for name, used in threads if name.startswith(DRIVES))
    jvm = sum(_used(Path(f"/proc/{pid}")) for pid in jvms)
    workers = sum(_used(Path(f"/proc/{pid}"), children=True) for pid in family - {root, *jvms})
    return Cpu(_used(Path(f"/proc/{root}")), driver, compiler, jvm - compiler - driver, workers)


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


def _used(folder: Path, children: bool = False) -> float:
    """Seconds that a process or thread has used; with `children`, those that have ended and were waited for as well."""
    try:
        fields = (folder / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11 : 15 if children else 13])) / TICKS
