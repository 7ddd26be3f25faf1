"""Spark's own cluster manager on loopback: a Master and Workers as JVMs of their own, each Worker on its own host.

Invariant: a host has its own address, folder of work and folder of machine code, and what runs on it is one session of
processes: the Worker, its executors and their Python workers. So a host that goes away is one session that is killed.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import slackwater
from tests.kit.processes import QUICK_JVM, ROOT, Process, kill_now, spark_home

MASTER, HOSTS = "127.0.0.1", ("127.0.0.2", "127.0.0.3")
DAEMON = "slackwater.runtime.spark.daemon"
EXECUTOR = "CoarseGrainedExecutorBackend"
SOURCE = Path(slackwater.__path__[0])


class Standalone:
    """A cluster; hosts have one core each, so that two tasks at the same time are on two hosts."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.home = spark_home(folder / "spark")
        self._processes: list[Process] = []
        self._hosts: dict[str, Process] = {}
        self.url = ""

    def start(self) -> None:
        """Start the Master and a Worker on every host."""
        master = self._started("master", MASTER, "org.apache.spark.deploy.master.Master", "--webui-port", "0")
        found: list[str] = []
        master.until(lambda: bool(_noted(master, r"master at (spark://\S+)", found)))
        self.url = found[-1]
        for host in HOSTS:
            self.begin(host)
        for host in HOSTS:
            self.wait_for(host)

    def _started(self, name: str, host: str, *command: str) -> Process:
        folder = self._folder / name
        for inner in ("tmp", "local"):
            (folder / inner).mkdir(parents=True)
        given = {
            "SPARK_HOME": str(self.home),
            "SPARK_LOCAL_IP": host,
            "SPARK_LOCAL_DIRS": str(folder / "local"),
            "JDK_JAVA_OPTIONS": f"-Djava.io.tmpdir={folder / 'tmp'} {QUICK_JVM}",
            "NUMBA_CACHE_DIR": str(folder / "machine-code"),
            "PYTHONPATH": os.pathsep.join((str(SOURCE.parent), str(ROOT))),
        }
        where = ("--host", host, "--port", "0")
        process = Process([str(self.home / "bin" / "spark-class"), *command, *where], folder / "log", given)
        self._processes.append(process)
        return process

    def begin(self, host: str) -> None:
        """Start a Worker on a host, as on a new machine of that address."""
        name = f"{host}-{sum(1 for _ in self._folder.glob(f'{host}-*'))}"
        copy_machine_code(self._folder / name / "machine-code")
        work = ("--cores", "1", "--memory", "1g", "--webui-port", "0", "--work-dir", str(self._folder / name / "work"))
        self._hosts[host] = self._started(name, host, "org.apache.spark.deploy.worker.Worker", *work, self.url)

    def wait_for(self, host: str) -> None:
        """Wait until the Master knows a host."""
        worker = self._hosts[host]
        worker.until(lambda: bool(_noted(worker, r"Successfully registered with master", [])))

    def executors(self, host: str) -> list[int]:
        """The executors on a host."""
        return [pid for pid, command in self._hosts[host].members().items() if EXECUTOR in command]

    def warm_host(self) -> str:
        """A host that has Python workers."""
        return next(host for host in self._hosts if self._python(host))

    def freeze(self, host: str) -> None:
        """Let the Python workers of a host stand still: a task that needs them does not end."""
        for pid in self._python(host):
            kill_now(pid, signal.SIGSTOP)

    def thaw(self, host: str) -> None:
        """Let them go on."""
        for pid in self._python(host):
            kill_now(pid, signal.SIGCONT)

    def _python(self, host: str) -> list[int]:
        return [pid for pid, command in self._hosts[host].members().items() if DAEMON in command]

    def kill_executor(self, host: str) -> None:
        """End the executor of a host and its Python workers; the Worker starts another one."""
        for pid in (*self.executors(host), *self._python(host)):
            kill_now(pid)

    def kill_host(self, host: str) -> None:
        """End all that runs on a host."""
        self._hosts[host].kill()

    def kill(self) -> None:
        """End everything."""
        for one in self._processes:
            one.kill()


@contextmanager
def standalone(folder: Path) -> Iterator[Standalone]:
    """A cluster that ends with the block."""
    made = Standalone(folder)
    try:
        made.start()
        yield made
    finally:
        made.kill()


def _noted(process: Process, pattern: str, found: list[str]) -> list[str]:
    found += re.findall(pattern, process.log.read_text(errors="replace"))
    return found


def copy_machine_code(folder: Path) -> None:
    """Give a host all machine code that there is here, as one that has run before: tests do not wait for it."""
    from numba.core.caching import UserProvidedCacheLocator as Locator

    for file in SOURCE.rglob("*.nb[ic]"):
        module = file.parent.parent / "any.py"
        place = folder / Locator.get_suitable_cache_subpath(str(module))
        place.mkdir(parents=True, exist_ok=True)
        shutil.copy2(file, place)
