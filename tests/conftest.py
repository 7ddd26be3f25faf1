"""Settings for all tests, and the one Spark session that tests share."""

from __future__ import annotations

import gc
import os
import shutil
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import Phase, settings

from tests.effort import ALL_ON_SPARK, EXAMPLES
from tests.kit.processes import QUICK_JVM

settings.register_profile("steady", deadline=None, max_examples=EXAMPLES, derandomize=True)
settings.register_profile("quick look", settings.get_profile("steady"), phases=[Phase.explicit, Phase.generate])
settings.load_profile("steady")


# JVMs of tests live for seconds, those that tests start in processes of their own too: compiling well, or collecting
# garbage in parallel, costs more than it brings. Hadoop starts a `chmod` for every file of a checkpoint; by vfork, that
# is one new program a file, not two.
os.environ.setdefault("SPARK_SUBMIT_OPTS", QUICK_JVM)
CHECKPOINTS = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
"""Spark's other way to write a checkpoint. By the usual one Hadoop starts a `readlink` several times for every file:
some 140 processes in a query of two micro-batches. Tests that kill what writes a checkpoint take the usual one."""


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "long(what): only in `make test-long`; says what `make test` checks of the same")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is marked as long, with no trace but the count of what was left out; groups come first."""
    long = set() if ALL_ON_SPARK else {item for item in items if item.get_closest_marker("long")}
    if long:
        config.hook.pytest_deselected(items=list(long))
        items[:] = [item for item in items if item not in long]
    sizes = Counter(map(_group, items))
    items.sort(key=lambda item: -sizes[_group(item)] if _group(item) else 0)


def _group(item: pytest.Item) -> str:
    mark = item.get_closest_marker("xdist_group")
    return mark.args[0] if mark else ""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Groups first, as they were collected, then file by file: the tests of one share what is compiled and cached.

    Files of doctests are short and come last, so that all processes end at about the same time.
    """
    if config.getvalue("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadGroupScheduling

    class ByFile(LoadGroupScheduling):
        def _split_scope(self, nodeid: str) -> str:
            group = super()._split_scope(nodeid)
            return nodeid.partition("::")[0] if group == nodeid else group

    config.option.loadscopereorder = False
    return ByFile(config, log)


def pytest_collectstart() -> None:
    gc.disable()


def pytest_collection_finish() -> None:
    """What was imported and collected stays to the end: the collector of garbage need not look through it at all."""
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_sessionfinish() -> None:
    gc.unfreeze()


BEHIND_SPARK = 10
"""How far other tests step back behind those on Spark."""
_stepped_back = False


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Let tests on Spark go first: all are in one process, the longest of all, and wait for something half of the time.

    xdist begins with the largest group, so the process that has them steps back once it is through with them.
    """
    global _stepped_back
    if os.environ.get("PYTEST_XDIST_WORKER") and not _stepped_back and not item.get_closest_marker("xdist_group"):
        _stepped_back = True
        os.nice(BEHIND_SPARK)


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """The one session of two shards; who asks for it belongs to the xdist group `spark`, which stays in one process."""
    pytest.importorskip("pyspark", reason="the Spark runtime needs pyspark")
    if shutil.which("java") is None:
        pytest.skip("no Java: install one of 17 or newer, e.g. openjdk-17-jre-headless")
    from slackwater.runtime.spark.session import session

    settings = {"spark.ui.enabled": "false", "spark.sql.streaming.checkpointFileManagerClass": CHECKPOINTS}
    made = session("local[2]", shards=2, **settings)
    yield made
    made.stop()
