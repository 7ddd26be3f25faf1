"""Where the time of the tests goes: `python -m pytest -p tests.kit.cpu` lists folders, files and tests by CPU seconds.

Invariant: a second of the processor is counted once, for the test in whose time it was used, whichever process below
this one has used it; so the figures mean the same on a busy machine. Missing is what processes have used that ended and
that nothing waited for: Python workers of Spark.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path

import pytest

LISTED = 30
COLLECTING = "(importing and collecting, in all processes)"
_TICKS = os.sysconf("SC_CLK_TCK")
_begun = pytest.StashKey[float]()
_of_test: dict[str, float] = defaultdict(float)
_collected: list[float] = []


def used() -> float:
    """CPU seconds of this process and of all below it, whether they still run or have ended."""
    own = os.times()
    total, waiting = own.user + own.system + own.children_user + own.children_system, _below(os.getpid())
    while waiting:
        process = waiting.pop()
        try:
            fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += sum(map(int, fields[11:15])) / _TICKS
        waiting += _below(process)
    return total


def _below(process: int) -> list[int]:
    try:
        threads = list(Path(f"/proc/{process}/task").iterdir())
        return [int(child) for thread in threads for child in (thread / "children").read_text().split()]
    except OSError:
        return []


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """A test begins, and with it the fixtures that are made for it."""
    item.stash[_begun] = used()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """The last of a test's three reports carries what it has used."""
    report = yield
    if call.when == "teardown":
        if not _collected:
            _collected.append(item.stash[_begun])
            report.user_properties.append((COLLECTING, _collected[0]))
        report.user_properties.append((item.nodeid.partition("@")[0], max(0.0, used() - item.stash[_begun])))
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Where tests are run by several processes, only the one above them has all reports."""
    if report.when == "teardown" and "PYTEST_XDIST_WORKER" not in os.environ:
        for name, seconds in report.user_properties:
            _of_test[name] += float(str(seconds))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Three lists, each from the dearest on."""
    if not _of_test:
        return
    of_file: dict[str, float] = defaultdict(float)
    of_folder: dict[str, float] = defaultdict(float)
    for name, seconds in _of_test.items():
        file = name.partition("::")[0]
        of_file[file] += seconds
        of_folder["/".join(file.split("/")[:-1][:2]) or file] += seconds
    terminalreporter.section(f"{sum(_of_test.values()):.0f} CPU seconds")
    for listed in (of_folder, of_file, _of_test):
        for name, seconds in sorted(listed.items(), key=lambda one: -one[1])[:LISTED]:
            terminalreporter.write_line(f"{seconds:8.2f}  {name}")
        terminalreporter.write_line("")
