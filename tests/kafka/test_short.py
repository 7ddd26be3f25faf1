"""From topics to topics with a real broker: bad messages are told, a repeated micro-batch writes nothing.

The one test of Kafka in `make test`; the others are in `test_faults.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from slackwater.testing.broker import Broker
from tests.kafka.conftest import Process, Topics
from tests.kafka.job import Job
from tests.kafka.messages import messages, true_pairs

pytestmark = pytest.mark.xdist_group("processes on spark")

JOIN = (
    "SELECT a.key, a.v AS av, b.v AS bv FROM a [RANGE 1 SECOND], b [RANGE 1 SECOND] WHERE a.key = b.key"
    " WITH {} OPTIONS (clock_by = 'partition')"
)


def test_every_pair_is_in_the_topic_once_though_a_micro_batch_is_repeated_and_bad_messages_are_told(
    broker: Broker, connector: str, topics: Topics, begin: Callable[..., Process]
) -> None:
    topics.make("a", "b", "pairs", "rejected")
    made = messages(20, 20, lagging=(5.0, 12.0), lag=3.0)
    topics.send(made)
    bad = [topics.send_raw("a", value, 2) for value in (b"no json", b'{"ts": "yesterday"}', None, b"\xff")]
    job = Job(
        JOIN.format("DELAY 6 SECONDS"),
        broker.servers,
        connector,
        {name: topics.name(name) for name in "ab"},
        topics.name("pairs"),
        topics.name("rejected"),
        repeat=True,
        source={"maxOffsetsPerTrigger": "150"},
    )
    done = begin("job", job).done()

    wanted = true_pairs(made)
    assert len(wanted) > 500
    assert topics.pairs() == wanted
    assert (done["late"], done["rejected"]) == (0, {"unparsable": len(bad)})
    told = [json.loads(value) for value in topics.read("rejected")]
    assert {row["reason"] for row in told} == {"unparsable"}
    places = sorted((json.loads(row["row"]) for row in told), key=lambda row: row["offset"])
    assert [(row["topic"], row["partition"], row["offset"]) for row in places] == [
        (topics.name("a"), 2, offset) for offset in bad
    ]
    assert [row["message"] for row in places] == ["no json", '{"ts": "yesterday"}', None, "\ufffd"]
