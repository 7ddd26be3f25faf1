"""What the pages and the example show of Kafka runs as it stands, against a real broker.

Only the address of the broker, and where the connector comes from, are those of the test.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import pytest

from slackwater.testing.broker import Broker
from tests.kafka.conftest import ROOT, Process, Topics
from tests.kafka.messages import PARTITIONS

pytestmark = [
    pytest.mark.xdist_group("processes on spark"),
    pytest.mark.long("test_short.py: the same calls, in a job of the tests"),
]

ADDRESS = "127.0.0.1:9092"
_BLOCK = re.compile(r"^```python\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


def lines_on_kafka(page: str) -> str:
    """The one block of a page that goes from topics to a topic."""
    blocks = [match["text"] for match in _BLOCK.finditer((ROOT / page).read_text())]
    (found,) = [block for block in blocks if "kafka=True" in block]
    return found


@pytest.fixture(scope="module")
def named(broker: Broker) -> Iterator[Topics]:
    """The topics that the pages name."""
    made = Topics(broker.servers)
    made.make("impressions", "clicks", "pairs", "rejected")
    yield made
    made.close()


@pytest.fixture
def running(tmp_path: Path) -> Iterator[list[Process]]:
    started: list[Process] = []
    yield started
    for process in started:
        process.kill()


@pytest.mark.parametrize("page", ["README.md", "docs/kafka.md"])
def test_the_lines_of_the_page_write_pairs_to_a_topic(
    page: str, broker: Broker, connector: str, named: Topics, running: list[Process], tmp_path: Path
) -> None:
    text = lines_on_kafka(page)
    assert ADDRESS in text
    text = text.replace("kafka=True", f"kafka={connector!r}").replace(ADDRESS, broker.servers)
    (tmp_path / "lines.py").write_text(f"{text}\nquery.wait()\n")
    process = Process(tmp_path, "lines.py", cwd=tmp_path)
    running.append(process)
    numbers = count()

    def seen() -> bool:
        # A new checkpoint begins with the newest messages, so they are sent until it has begun.
        row = {"ts": datetime.now(UTC).isoformat(timespec="milliseconds"), "ad": "ad-1"}
        for _ in range(8):
            number = next(numbers)
            message = json.dumps(row | {"user": f"{page} {number}"}).encode()
            for topic in ("impressions", "clicks"):
                named.send_raw(topic, message, number % PARTITIONS)
        time.sleep(0.5)
        return any(json.loads(value)["user"].startswith(page) for value in named.read("pairs"))

    process.until(seen)
    keys = {record.key for record in named.records("pairs")}
    assert keys == {b"ad-1"}


def test_the_example_runs_to_its_end(broker: Broker, connector: str, running: list[Process], tmp_path: Path) -> None:
    example = str(ROOT / "examples" / "kafka.py")
    process = Process(tmp_path, example, broker.servers, "--connector", connector, cwd=tmp_path)
    running.append(process)
    assert process.ended() == 0, process.said()
    said = process.said()
    assert re.search(r"^[\d,]{3,} pairs in topic slackwater-\w+-pairs", said, re.MULTILINE), said
    assert re.search(r"^4 rejected messages, one of them: unparsable {.*\"offset\":\d+", said, re.MULTILINE), said


def test_the_example_says_where_no_broker_is(running: list[Process], tmp_path: Path) -> None:
    process = Process(tmp_path, str(ROOT / "examples" / "kafka.py"), "127.0.0.1:1", cwd=tmp_path)
    running.append(process)
    assert process.ended() == 2
    assert "does a broker run there?" in process.said()
