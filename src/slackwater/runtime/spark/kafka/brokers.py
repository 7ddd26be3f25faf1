"""Before anything of Kafka starts: connector, brokers and topics. What is not there is reported in one sentence, within
seconds, with another way.

Invariant: nothing here writes. Spark and the client of the sink would try for minutes, and then tell of a timeout, or
of an exception without the name of the topic. The connector has the version of Spark itself unless another one is asked
for.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyspark
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from slackwater.core.errors import UsageError
from slackwater.runtime.spark.versions import SCALA

PATIENCE = 5.0
"""Seconds that a broker has to take a connection."""
ANSWER = 15
"""Seconds that a broker has to say which topics it has."""
APPEARING = 3.0
"""Seconds after which a topic that was just made is known to all brokers."""
UNKNOWN = "UnknownTopicOrPartitionException"


def check_brokers(servers: str) -> None:
    """Refuse servers none of which takes a connection."""
    failures = []
    for server in servers.split(","):
        host, _, port = server.strip().rpartition(":")
        if not host or not port.isdigit():
            raise UsageError(f"{server.strip()!r} is no broker; write host:port, several with commas between them")
        try:
            with socket.create_connection((host.strip("[]"), int(port)), PATIENCE):
                return
        except OSError as error:
            failures.append(f"{server.strip()} ({error.strerror or error})")
    raise UsageError(f"no Kafka broker answers at {', '.join(failures)}; is it running, and is this its address?")


def check_topics(spark: SparkSession, servers: str, topics: Sequence[str], options: Mapping[str, object]) -> None:
    """Refuse topics that cannot be read, asked for by the client that Spark itself reads with."""
    jvm: Any = spark._jvm
    settings = jvm.java.util.HashMap()
    for name, value in _settings(servers, options).items():
        settings.put(name, value)
    try:
        admin = jvm.org.apache.kafka.clients.admin.AdminClient.create(settings)
    except Py4JJavaError as error:
        raise UsageError(f"the client of Kafka does not take these options: {_innermost(error)[1]}") from None
    try:
        deadline = time.monotonic() + APPEARING
        for topic in topics:
            while (failure := _described(jvm, admin, topic)) is not None:
                if failure[0] != UNKNOWN or time.monotonic() > deadline:
                    raise _refusal(servers, topic, *failure)
                time.sleep(0.3)
    finally:
        admin.close(jvm.java.time.Duration.ofSeconds(1))


def _described(jvm: Any, admin: Any, topic: str) -> tuple[str, str] | None:
    """Ask for one topic; the class and the message of what went wrong."""
    names = jvm.java.util.ArrayList()
    names.add(topic)
    try:
        admin.describeTopics(names).allTopicNames().get()
    except Py4JJavaError as error:
        return _innermost(error)
    return None


def _settings(servers: str, options: Mapping[str, object]) -> dict[str, str]:
    """The settings of a client that asks; Spark's options for the client begin with `kafka.`

    >>> made = _settings("127.0.0.1:9092", {"kafka.security.protocol": "SSL", "startingOffsets": "earliest"})
    >>> made["security.protocol"], "startingOffsets" in made
    ('SSL', False)
    """
    patience = str(1000 * ANSWER)
    given = {name.removeprefix("kafka."): str(value) for name, value in options.items() if name.startswith("kafka.")}
    return {
        "bootstrap.servers": servers, "default.api.timeout.ms": patience, "request.timeout.ms": patience
    } | given  # fmt: skip


def _innermost(error: Py4JJavaError) -> tuple[str, str]:
    """The class and the message of what went wrong."""
    cause = error.java_exception
    while cause.getCause() is not None:
        cause = cause.getCause()
    return str(cause.getClass().getSimpleName()), str(cause.getMessage())


def _refusal(servers: str, topic: str, kind: str, message: str) -> UsageError:
    """What to say where a topic cannot be described.

    >>> print(_refusal("127.0.0.1:9092", "clicks", UNKNOWN, "This server does not host this topic-partition."))
    topic 'clicks' does not exist at 127.0.0.1:9092; create it first
    """
    if kind == UNKNOWN:
        return UsageError(f"topic '{topic}' does not exist at {servers}; create it first")
    if kind == "TimeoutException":
        return UsageError(
            f"{servers} takes connections, but does not answer as a Kafka broker; is this its"
            " address, and does it ask for another kafka.security.protocol?"
        )
    return UsageError(f"topic '{topic}' at {servers} cannot be read: {message} ({kind})")


ARTIFACT = f"org.apache.spark:spark-sql-kafka-0-10_{SCALA}"
PROVIDER = "org.apache.spark.sql.kafka010.KafkaSourceProvider"
Connector = bool | str | os.PathLike[str]
"""True: the connector of this version of Spark, from Maven; a version; or a folder of jars."""


def connector_settings(kafka: Connector, settings: Mapping[str, str]) -> dict[str, str]:
    """The settings that bring the connector to a session, beside jars and packages that it has already.

    >>> found = connector_settings("4.1.0", {"spark.jars.packages": "a:b:1"})["spark.jars.packages"]
    >>> found == f"a:b:1,{ARTIFACT}:4.1.0"
    True
    """
    if kafka is False:
        return {}
    if kafka is True:
        return _more(settings, "spark.jars.packages", [f"{ARTIFACT}:{pyspark.__version__}"])
    folder = Path(kafka)
    if folder.is_dir():
        jars = sorted(str(jar.resolve()) for jar in folder.glob("*.jar"))
        if not jars:
            raise UsageError(f"kafka={os.fspath(kafka)!r}: there are no jars in this folder")
        return _more(settings, "spark.jars", jars)
    if not os.fspath(kafka)[:1].isdigit():
        raise UsageError(
            f"kafka={os.fspath(kafka)!r}: there is no such folder; give True, a version of the connector such as"
            f" '{pyspark.__version__}', or a folder with its jars"
        )
    return _more(settings, "spark.jars.packages", [f"{ARTIFACT}:{os.fspath(kafka)}"])


def _more(settings: Mapping[str, str], name: str, values: list[str]) -> dict[str, str]:
    return {name: ",".join([*filter(None, [settings.get(name)]), *values])}


def not_fetched(kafka: Connector, log: str) -> UsageError | None:
    """The error to raise where Spark did not start because the connector could not be fetched, by its log."""
    if not any(mark in log for mark in ("unresolved dependency", "download failed")):
        return None
    version = pyspark.__version__ if kafka is True else os.fspath(kafka)  # type: ignore[arg-type]
    return UsageError(
        f"the Kafka connector {ARTIFACT}:{version} could not be fetched from Maven; is there a way to a repository that"
        " has it? If not, fetch its jars elsewhere and name their folder: sw.session(kafka='folder')"
    )


def check_connector(spark: SparkSession) -> None:
    """Refuse a session without the connector; over Connect only the server knows."""
    try:
        loader = spark._jvm.java.lang.Thread.currentThread().getContextClassLoader()  # type: ignore[union-attr]
    except (PySparkException, AttributeError):
        return
    try:
        loader.loadClass(PROVIDER)
    # py4j has a class of its own for each thing that can go wrong here.
    except Exception:
        raise UsageError(
            "this session has no Kafka connector, and a session that runs cannot be given one; stop it, and start with"
            " sw.session(kafka=True)"
        ) from None
