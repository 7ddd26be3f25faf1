"""A SparkSession with the settings that serve our queries best, and a check of anyone else's session.

Some settings serve one streaming query, by where its checkpoint is. Spark writes its own logs under another name and
renames them. Its usual way asks Hadoop's newer interface for files, which starts processes of the system for each file
on a disk, and asks an object store twice as often as the older one. On these two the older one renames in the same way.
Where Spark's package for clouds is at hand a file is written to S3 at once, and nothing is renamed.

Invariant: where a session is started quietly only its JVM is silenced. This process writes where it always did, and
where Spark does not start, what it said last is part of the error. What somebody else has chosen stays as it is, and
after a start of a query a session has its settings of before.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from importlib import import_module
from pathlib import Path
from typing import IO

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from slackwater.core.errors import SlackwaterError, UsageError
from slackwater.runtime.spark.failures import one_sentence
from slackwater.runtime.spark.kafka.brokers import Connector, check_connector, connector_settings, not_fetched
from slackwater.runtime.spark.packed_source import FileStream
from slackwater.runtime.spark.store import OBJECTS, At
from slackwater.runtime.spark.versions import SIMPLE_FILE_MANAGER, check_version, register
from slackwater.runtime.spark.warm_up import start_workers, warm_up

FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
WRITING_AT_ONCE = "org.apache.spark.internal.io.cloud.AbortableStreamBasedCheckpointFileManager"
"""In the package spark-hadoop-cloud."""
PLANNED_ONCE = {"spark.sql.adaptive.streaming.stateless.enabled": "false"}
"""The stages of a query of ours are known beforehand: to plan again behind the first one makes two jobs of one."""
ON_DISK = PLANNED_ONCE | {FILE_MANAGER: SIMPLE_FILE_MANAGER}
INITIALIZING, LONGEST, OFTEN = "Initializing", 30.0, 0.01
"""How Spark's status of a query begins that has not made its sources; seconds to wait for them; and from one look to
the next."""
_one_start = threading.Lock()


DAEMON = "slackwater.runtime.spark.daemon"
SETTINGS = {
    # What `show` prints is then what progress says; queries read event times in UTC in any session.
    "spark.sql.session.timeZone": "UTC",
    # The log is for what went wrong. Spark draws its bars for any program that was not submitted.
    "spark.log.level": "ERROR",
    "spark.ui.showConsoleProgress": "false",
    # Small batches are put together again before they are packed.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    # A worker that imports all it needs by itself takes seconds.
    "spark.python.daemon.module": DAEMON,
} | PLANNED_ONCE
"""What makes a session better; none of it is needed for a right answer."""
JVM_OPTIONS = " ".join(
    (
        "-XX:+UseParallelGC",
        *(f"-XX:Tier4{name}Threshold={times}" for name, times in (("Invocation", 50_000), ("MinInvocation", 6_000))),
        *(f"-XX:Tier4{name}Threshold={times}" for name, times in (("Compile", 150_000), ("BackEdge", 400_000))),
    )
)
"""A JVM that works for us moves large blocks and plans small jobs. Blocks are too large for the regions of the usual
collector; and to optimize all that a start calls a few thousand times costs the cores more than the start itself, so
only what is called ten times as often as usual is optimized fully."""
NEEDED_SOON = ("slackwater.runtime.spark.query", "slackwater.runtime.spark.queries")
"""What a program asks for once it has a session: the language, the planner, all operators."""
JVM_CHOSEN = (
    "SPARK_SUBMIT_OPTS",
    "JDK_JAVA_OPTIONS",
    "JAVA_TOOL_OPTIONS",
    "_JAVA_OPTIONS",
    "SPARK_HOME",
    "SPARK_CONF_DIR",
)
"""Where one of these is set, options of the JVM may have been chosen, and one that is given two collectors ends at
once."""
LOOPBACK = "127.0.0.1"
STDERR = 2
MOST_UNASKED = 8
"""Shards where nobody says how many, and the cores are not known."""
JAVA = "Java 17 or newer is not found; install it (Debian and Ubuntu: openjdk-17-jre-headless), then try again"


def java_is_there() -> bool:
    """Whether there is a Java to start Spark with; how old it is, Spark itself will say."""
    return shutil.which("java") is not None or "JAVA_HOME" in os.environ


def jvm_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """What a session says to its JVM: nothing, where the environment may have said something.

    >>> jvm_settings({"SPARK_SUBMIT_OPTS": "-XX:+UseSerialGC"})
    {}
    >>> "UseParallelGC" in jvm_settings({})["spark.driver.extraJavaOptions"]
    True
    """
    chosen = any(name in environment for name in JVM_CHOSEN)
    return {} if chosen else {"spark.driver.extraJavaOptions": JVM_OPTIONS}


def session(
    master: str = "local[*]",
    shards: int = 2,
    app: str = "slackwater",
    *,
    kafka: Connector = False,
    quiet: bool = False,
    log: IO[bytes] | None = None,
    **settings: str,
) -> SparkSession:
    """A ready session; `shards` is the number of shuffle partitions, one task a shard.

    Where its page is, is told on standard error, unless `quiet`. What the JVM and the workers write there goes to a
    file: `log`, or one that goes when this process ends, unless it ends by an error. `settings` are those of Spark, as
    in `session(**{"spark.driver.memory": "4g"})`.

    `kafka=True` adds Spark's Kafka connector, which comes from Maven in the version of Spark; a version in its place
    asks for that one, and a folder has its jars.
    """
    if not java_is_there():
        raise UsageError(JAVA)
    check_version()
    # Workers must be this interpreter: another one would not find this package.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if master.startswith("local"):
        # Spark's page and ports are for this machine alone, unless the environment says otherwise.
        os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
    builder = SparkSession.builder
    chosen = {
        "spark.master": master,
        "spark.app.name": app,
        # As many shards as this where nobody says how many; Spark's own operators behind ours run in as many tasks.
        "spark.sql.shuffle.partitions": str(shards),
    }
    if master.startswith("local"):
        # Checkpoints are on this disk, where Spark's logs and the state of its own operators are written sooner so.
        chosen |= ON_DISK
    chosen |= SETTINGS | jvm_settings(os.environ) | settings | connector_settings(kafka, settings)
    for name, value in chosen.items():
        builder = builder.config(name, value)
    running = SparkSession.getActiveSession() is not None
    if not running:
        # The JVM takes seconds to start, in which this process has nothing else to do.
        threading.Thread(target=lambda: [import_module(name) for name in NEEDED_SOON], daemon=True).start()
    with nullcontext(log) if log or running else _new_log() as errors:
        with stderr_into(errors) if errors else nullcontext():
            try:
                if not running:
                    # Workers come up while the session does.
                    start_workers(SparkContext.getOrCreate(SparkConf().setAll(list(chosen.items()))))
                made = builder.getOrCreate()
            except PySparkException as error:
                refusal = not_fetched(kafka, _text(errors)) if kafka and errors else None
                raise refusal or error from None
            register(made, FileStream)
        if kafka:
            check_connector(made)
        if not running:
            warm_up(made, made.sparkContext.defaultParallelism)
        if errors and not quiet:
            page = made.sparkContext.uiWebUrl or "off"
            print(f"Spark {made.version} on {master}: page {page}, log {errors.name}", file=sys.stderr)
    return made


def quiet_session(master: str, shards: int, **settings: str) -> SparkSession:
    """A ready session whose JVM says nothing on this terminal; a session that is there already stays as it is."""
    with tempfile.TemporaryFile() as log:
        try:
            with one_sentence():
                spark = session(master, shards, quiet=True, log=log, **({"spark.ui.enabled": "false"} | settings))
        except UsageError:
            raise
        except SlackwaterError as error:
            raise UsageError(f"Spark does not start with --master {master}. {_cause(log) or error}") from None
    spark.conf.set("spark.sql.shuffle.partitions", str(shards))
    return spark


def _cause(log: IO[bytes]) -> str:
    """What the JVM complained of, if it did."""
    lines = [line.strip() for line in _text(log).splitlines()]
    errors = [line for line in lines if line.startswith(("Error", "Exception", "Unrecognized", "Caused by:"))]
    return f"It says: {errors[-1]}" if errors else ""


def _text(log: IO[bytes]) -> str:
    log.seek(0)
    return log.read().decode(errors="replace")


def _new_log() -> IO[bytes]:
    handle, name = tempfile.mkstemp(prefix="slackwater-spark-", suffix=".log")
    atexit.register(_forget, Path(name))
    os.close(handle)
    return Path(name).open("w+b")


def _forget(log: Path) -> None:
    # A program that ends by an error leaves what explains it.
    if not hasattr(sys, "last_value"):
        log.unlink(missing_ok=True)


@contextmanager
def stderr_into(log: IO[bytes]) -> Iterator[None]:
    """A process started inside inherits this file as its standard error, for as long as it lives."""
    sys.stderr.flush()
    kept = os.dup(STDERR)
    os.dup2(log.fileno(), STDERR)
    try:
        yield
    finally:
        os.dup2(kept, STDERR)
        os.close(kept)


def default_shards(spark: SparkSession) -> int:
    """As many shards as there are shuffle partitions, and no more than there are cores to work on them."""
    partitions = int(spark.conf.get("spark.sql.shuffle.partitions", "200") or 200)
    try:
        cores = spark.sparkContext.defaultParallelism
    except (PySparkException, AttributeError):
        # Over Connect a client does not know the cores of the cluster.
        cores = MOST_UNASKED
    return max(1, min(partitions, cores))


def check_session(spark: SparkSession, stacklevel: int) -> None:
    """Warn of settings that do harm and cannot be set here."""
    if spark.conf.get("spark.python.worker.reuse", "true") == "false":
        warnings.warn(
            "spark.python.worker.reuse is false; set it to true: a new worker reads the whole state of a shard in every"
            " micro-batch",
            stacklevel=stacklevel + 1,
        )


def settings_for(spark: SparkSession, checkpoint: At) -> dict[str, str]:
    """What serves a query with this checkpoint best."""
    if isinstance(checkpoint, str):
        return ON_DISK
    if OBJECTS.get(checkpoint.uri.partition("://")[0]) != "s3":
        return PLANNED_ONCE
    return ON_DISK | ({FILE_MANAGER: WRITING_AT_ONCE} if _is_there(spark, WRITING_AT_ONCE) else {})


def started_with(
    spark: SparkSession, settings: Mapping[str, str], start: Callable[[], StreamingQuery]
) -> StreamingQuery:
    """Start a query that has these settings, where nobody has chosen others."""
    with _one_start:
        before = {name: spark.conf.get(name, None) for name in settings}
        ours = {name: value for name, value in settings.items() if before[name] in (None, ON_DISK[name])}
        try:
            for name, value in ours.items():
                spark.conf.set(name, value)
            query = start()
            # Spark makes the sources of a query, which have logs too, in a thread of its own and by the session.
            last = time.monotonic() + LONGEST
            while query.isActive and query.status["message"].startswith(INITIALIZING) and time.monotonic() < last:
                time.sleep(OFTEN)
            return query
        finally:
            for name in ours:
                if (own := before[name]) is None:
                    spark.conf.unset(name)
                else:
                    spark.conf.set(name, own)


def _is_there(spark: SparkSession, name: str) -> bool:
    try:
        spark._jvm.java.lang.Class.forName(name)  # type: ignore[union-attr]
    except (PySparkException, Py4JError, AttributeError):
        return False
    return True
