"""Settings for all tests, and the one Spark session that tests share."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import Phase, settings

from tests.effort import EXAMPLES

settings.register_profile("steady", deadline=None, max_examples=EXAMPLES, derandomize=True)
settings.register_profile("quick look", settings.get_profile("steady"), phases=[Phase.explicit, Phase.generate])
settings.load_profile("steady")


# JVMs of tests live for seconds, those that tests start in processes of their own too: compiling well, or collecting
# garbage in parallel, costs more than it brings.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A session of two shards; who asks for it belongs to an xdist group, so that there are few such processes."""
    pytest.importorskip("pyspark", reason="the Spark runtime needs pyspark")
    if shutil.which("java") is None:
        pytest.skip("no Java: install one of 17 or newer, e.g. openjdk-17-jre-headless")
    from slackwater.runtime.spark.session import session

    made = session("local[2]", shards=2, **{"spark.ui.enabled": "false"})
    yield made
    made.stop()
