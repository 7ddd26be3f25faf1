"""A real Kafka broker for tests: one node on loopback, from Maven artifacts, that can be stopped and killed.

Invariant: artifacts are fetched once and kept in the user's cache. Where something is missing, `UnavailableError` says
what, so that a test can skip with that reason. A broker listens on 127.0.0.1 alone.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import warnings
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import Self
from xml.sax.saxutils import escape

BROKER = ("org.apache.kafka:kafka_2.13:4.3.1", "org.slf4j:slf4j-simple:1.7.36")
CONNECTOR = ("org.apache.spark:spark-sql-kafka-0-10_2.13", "org.apache.spark:spark-token-provider-kafka-0-10_2.13")
CLIENT = ("org.apache.kafka:kafka-clients:3.9.1", "org.apache.commons:commons-pool2:2.12.1")
"""What the connector needs beside the jars of Spark."""
NEAREST = (f"{CONNECTOR[0]}:4.2.0", f"{CONNECTOR[1]}:4.1.0-preview1")
"""The connector where a repository does not have that of the Spark in use."""
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "slackwater" / "kafka"
FETCHING = 240.0
"""Seconds that Maven has for a set of artifacts."""
STARTING = 180.0
JAVA = ("-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
CLUSTER = "c2xhY2t3YXRlci10ZXN0cw"
"""The name of the cluster: 16 bytes in base 64."""


class UnavailableError(Exception):
    """What a broker needs is not there; says what."""


def broker_jars() -> Path:
    """The folder with the jars of a broker."""
    return fetched("broker", BROKER, transitive=True)


def connector_jars() -> Path:
    """The folder with the jars of Spark's Kafka connector, for `slackwater.session(kafka=...)`.

    Where the repository does not have the connector of the Spark in use, it is the nearest one, with a warning.
    """
    spark = version("pyspark")
    right, nearest = (*(f"{one}:{spark}" for one in CONNECTOR), *CLIENT), (*NEAREST, *CLIENT)
    try:
        # What is not to be had is not asked for at every start of a test.
        if not kept_in("connector", nearest).is_dir():
            return fetched("connector", right)
    except UnavailableError:
        pass
    if kept_in("connector", right).is_dir():
        return kept_in("connector", right)
    found = fetched("connector", nearest)
    warnings.warn(f"no connector of Spark {spark} in this repository; taken in its place: {NEAREST}", stacklevel=2)
    return found


def kept_in(what: str, artifacts: Sequence[str]) -> Path:
    """The folder of the cache for these artifacts."""
    return CACHE / "-".join([what, *(one.rpartition(":")[2] for one in artifacts)])


def fetched(what: str, artifacts: Sequence[str], transitive: bool = False) -> Path:
    """A folder with these artifacts, which Maven has fetched now or before; `transitive`: and all that they need."""
    folder = kept_in(what, artifacts)
    if folder.is_dir():
        return folder
    for program in ("java", "mvn"):
        if shutil.which(program) is None:
            raise UnavailableError(f"there is no {program} on the path")
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as temporary:
        (Path(temporary) / "pom.xml").write_text(_pom(artifacts, transitive))
        command = [
            "mvn",
            "-q",
            "-B",
            "dependency:copy-dependencies",
            "-DincludeScope=runtime",
            "-DoutputDirectory=jars",
        ]
        try:
            done = subprocess.run(  # noqa: S603
                command, cwd=temporary, capture_output=True, text=True, timeout=FETCHING, check=False
            )
        except subprocess.TimeoutExpired:
            raise UnavailableError(f"Maven did not fetch {artifacts[0]} within {FETCHING:.0f} s") from None
        if done.returncode:
            said = [line for line in done.stdout.splitlines() if "ERROR" in line] or [done.stderr.strip() or "nothing"]
            raise UnavailableError(f"Maven cannot fetch {artifacts[0]}: {said[0][:300]}")
        try:
            # Another process sees all of the folder or nothing.
            (Path(temporary) / "jars").rename(folder)
        except OSError:
            if not folder.is_dir():
                raise
    return folder


def _pom(artifacts: Sequence[str], transitive: bool) -> str:
    """A project that depends on these artifacts and is nothing else."""
    alone = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
    lines = []
    for artifact in artifacts:
        group, name, number = (escape(part) for part in artifact.split(":"))
        lines.append(
            f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{number}</version>"
            f"{'' if transitive else alone}</dependency>"
        )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>slackwater</groupId><artifactId>jars</artifactId><version>1</version><packaging>pom</packaging>"
        f"<dependencies>{''.join(lines)}</dependencies></project>"
    )


def free_port() -> int:
    """A port of loopback that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Broker:
    """A broker and controller in one process, with its data in a folder; a `with` block starts and ends it."""

    def __init__(self, folder: Path) -> None:
        self._jars, self._folder = broker_jars(), folder
        self._process: subprocess.Popen[bytes] | None = None
        self.port, controller = free_port(), free_port()
        self.servers = f"127.0.0.1:{self.port}"
        folder.mkdir(parents=True, exist_ok=True)
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": f"PLAINTEXT://{self.servers},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://{self.servers}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(folder / "data"),
            "auto.create.topics.enable": "false",
            "group.initial.rebalance.delay.ms": "0",
        }
        # One node keeps everything once.
        for topic in ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic"):
            settings |= {f"{topic}.replication.factor": "1", f"{topic}.num.partitions": "1", f"{topic}.min.isr": "1"}
        self._settings = folder / "server.properties"
        self._settings.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        self._run("kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", str(self._settings))

    def _run(self, *arguments: str) -> None:
        done = subprocess.run(self._command(*arguments), capture_output=True, text=True, timeout=STARTING, check=False)  # noqa: S603
        if done.returncode:
            raise UnavailableError(f"{arguments[0]} failed: {(done.stderr or done.stdout)[-500:]}")

    def _command(self, *arguments: str) -> list[str]:
        return ["java", *JAVA, "-cp", f"{self._jars}/*", *arguments]

    def start(self) -> None:
        """Start it, or start it again with the data that it has; returns when it takes connections."""
        log = self._folder / "log"
        with log.open("ab") as out:
            self._process = subprocess.Popen(  # noqa: S603
                self._command("kafka.Kafka", str(self._settings)), stdout=out, stderr=out, start_new_session=True
            )
        deadline = time.monotonic() + STARTING
        while True:
            try:
                with socket.create_connection(("127.0.0.1", self.port), 1):
                    return
            except OSError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise UnavailableError(f"the broker does not start: {log.read_text()[-1000:]}") from None
                time.sleep(0.1)

    def stop(self) -> None:
        """End it in good order; its data stays."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once."""
        self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals) -> None:
        if self._process is None:
            return
        self._process.send_signal(how)
        try:
            self._process.wait(STARTING)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.kill()
