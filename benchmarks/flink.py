"""Flink beside us: an environment of its own, made when it is missing, and runs of `flink_side.py` in it.

Invariant: nothing of Flink is installed into the environment of this package; what cannot be installed is told in one
sentence, and left out.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console

PACKAGES = ("apache-flink", "setuptools")
JARS = (
    "org.apache.flink:flink-sql-parquet:{flink}",
    "org.apache.hadoop:hadoop-client-api:3.4.1",
    "org.apache.hadoop:hadoop-client-runtime:3.4.1",
)
"""What Flink needs to read parquet."""
SIDE = Path(__file__).parent / "flink_side.py"


def made_environment(folder: Path, console: Console) -> Path | None:
    """The Python of an environment with Flink; None, with a word, where it cannot be made."""
    python = folder / "bin" / "python"
    try:
        if not (folder / "ready").exists():
            console.print("installing Flink, some 500 MB ...")
            _run(sys.executable, "-m", "venv", str(folder))
            _run(str(python), "-m", "pip", "install", "-q", *PACKAGES)
            version = _run(str(python), "-c", "from importlib.metadata import version as v; print(v('apache-flink'))")
            for jar in JARS:
                artifact = jar.format(flink=version.strip())
                place = f"-DoutputDirectory={folder / 'jars'}"
                _run("mvn", "-q", "dependency:copy", f"-Dartifact={artifact}", place)
            (folder / "ready").touch()
    except (OSError, subprocess.CalledProcessError) as error:
        reason = (getattr(error, "stderr", "") or str(error)).strip().splitlines()
        console.print(f"Flink is left out: {reason[-1] if reason else error}")
        return None
    return python


def run_flink(python: Path, race: str, folders: Mapping[str, Path]) -> float:
    """Seconds that a query takes over folders of parquet files."""
    jars = sorted(str(jar) for jar in (python.parent.parent / "jars").glob("*.jar"))
    given = json.dumps({name: str(folder) for name, folder in folders.items()})
    told = _run(str(python), str(SIDE), race, given, json.dumps(jars))
    return float(json.loads(told.splitlines()[-1])["seconds"])


def _run(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
