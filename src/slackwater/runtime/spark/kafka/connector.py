"""Spark's Kafka connector: which jars a session needs, and what to do where they are missing.

Invariant: the connector has the version of Spark itself unless another one is asked for; what cannot be had is said in
one sentence, with another way.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pyspark
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from slackwater.core.errors import UsageError
from slackwater.runtime.spark.versions import SCALA

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
