"""What is refused before anything starts, and messages that could not be parsed where rows are packed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import slackwater as sw
from slackwater.core.errors import UsageError
from slackwater.plan.planner import plan as planned
from slackwater.runtime.side_outputs.rejections import rejection_warning
from slackwater.runtime.spark.exchange.writer import UNPARSED, lines_of
from slackwater.runtime.spark.kafka.brokers import check_brokers, connector_settings, not_fetched
from slackwater.runtime.spark.query import packings_of
from slackwater.sources.binding import bind_to_tables
from slackwater.sources.codebook import Codebook
from slackwater.testing.broker import free_port


def test_the_connector_has_the_version_of_spark_unless_another_or_a_folder_is_named(tmp_path: Path) -> None:
    import pyspark

    assert connector_settings(False, {}) == {}
    assert connector_settings(True, {})["spark.jars.packages"].endswith(f"_2.13:{pyspark.__version__}")
    with pytest.raises(UsageError, match="there are no jars in this folder"):
        connector_settings(tmp_path, {})
    (tmp_path / "one.jar").touch()
    assert connector_settings(tmp_path, {"spark.jars": "x.jar"}) == {"spark.jars": f"x.jar,{tmp_path / 'one.jar'}"}
    with pytest.raises(UsageError, match="there is no such folder"):
        connector_settings("jars-of-kafka", {})


def test_a_connector_that_cannot_be_fetched_is_told_with_another_way() -> None:
    log = "x\nException: [unresolved dependency: org.apache.spark#spark-sql-kafka-0-10_2.13;9.9.9: not found]"
    assert "2.13:9.9.9 could not be fetched" in str(not_fetched("9.9.9", log))
    assert not_fetched(True, "java.lang.OutOfMemoryError") is None


def test_a_broker_that_is_not_there_is_told_at_once() -> None:
    nowhere = f"127.0.0.1:{free_port()}"
    with pytest.raises(UsageError, match=f"no Kafka broker answers at {nowhere} .*refused"):
        check_brokers(nowhere)
    with pytest.raises(UsageError, match=f"no Kafka broker answers at {nowhere} .*refused"):
        sw.kafka_sink(nowhere, "pairs").check(["ad"], "results")
    with pytest.raises(UsageError, match="write host:port"):
        check_brokers("localhost")


@pytest.mark.xdist_group("spark")
def test_a_session_without_the_connector_is_told_how_to_get_it(spark: Any) -> None:
    with pytest.raises(UsageError, match=r"start with sw.session\(kafka=True\)"):
        sw.kafka(spark, "127.0.0.1:9092", "clicks", schema="ts timestamp")
    with pytest.raises(UsageError, match="the messages have a field 'offset'"):
        sw.kafka(spark, "127.0.0.1:9092", "clicks", schema="ts timestamp, offset long")
    with pytest.raises(UsageError, match="name the topic"):
        sw.kafka(spark, "127.0.0.1:9092", "", schema="ts timestamp")
    with pytest.raises(UsageError, match="it is one of json, csv"):
        sw.kafka(spark, "127.0.0.1:9092", "clicks", schema="ts timestamp", format="avro")


def test_a_message_that_could_not_be_parsed_is_rejected_with_what_is_told_of_it() -> None:
    told = json.dumps({"topic": "clicks", "partition": 2, "offset": 41, "message": "no JSON"})
    data = pa.table({"ts": pa.array([1000, None, 2000, None]), "key": pa.array(["k", None, "k", "l"])})
    plan = planned(bind_to_tables("SELECT key FROM s", {"s": data}, "ts").query)
    (packing,) = packings_of(plan, (0,), "ms", tasks=1)
    # The third has an event time, and some other field that does not fit.
    marked = data.append_column(UNPARSED, pa.array([None, told, told, None]))
    assert UNPARSED in packing.read_from(marked.column_names)
    (line,) = lines_of(packing, marked, False, Codebook())
    assert line.header is not None
    header = json.loads(line.header)
    assert header["rejected"] == {"unparsable": 2, "null_time": 1}
    assert header["rows"] == 4
    assert line.rejected_rows is not None
    rows = pa.ipc.open_stream(line.rejected_rows).read_all()
    assert list(zip(rows["reason"].to_pylist(), rows["row"].to_pylist(), strict=True)) == [
        ("unparsable", told),
        ("unparsable", told),
        ("null_time", json.dumps({"ts": None, "key": "l"})),
    ]


def test_where_most_messages_cannot_be_parsed_the_warning_asks_for_the_schema() -> None:
    said = rejection_warning("clicks", 20, {"unparsable": 20}, '{"offset": 1}', "ts")
    assert said is not None
    assert said.endswith("do the messages have the format and the schema that were stated?")
