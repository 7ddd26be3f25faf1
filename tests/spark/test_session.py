"""What a session leaves behind, and where its page can be reached."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the Spark runtime needs pyspark")

OPENED = "from slackwater.runtime.spark import session; session._new_log()"


def left_in(folder: Path, program: str) -> list[str]:
    """The logs that a program leaves in the folder for temporary files."""
    environment = os.environ | {"TMPDIR": str(folder)}
    subprocess.run([sys.executable, "-c", program], env=environment, check=False, capture_output=True)
    return [file.suffix for file in folder.iterdir() if file.name.startswith("slackwater-spark-")]


def test_the_log_of_a_program_goes_with_it_unless_it_ends_by_an_error(tmp_path: Path) -> None:
    assert left_in(tmp_path, OPENED) == []
    assert left_in(tmp_path, f"{OPENED}; 1 / 0") == [".log"], "it explains the error"


ASKED = """
import os, sys
from slackwater.runtime.spark import session
class Asked(Exception): pass
def asked(*_): raise Asked
session.SparkContext.getOrCreate = session.SparkConf = asked
try:
    session.session(sys.argv[1], log=sys.stderr.buffer)
except Asked:
    print(os.environ.get("SPARK_LOCAL_IP"))
"""


@pytest.mark.parametrize(("master", "bound"), [("local[2]", "127.0.0.1"), ("spark://host:7077", "None")])
def test_only_a_local_session_binds_loopback_since_executors_must_reach_a_driver(master: str, bound: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "SPARK_LOCAL_IP"}
    done = subprocess.run([sys.executable, "-c", ASKED, master], env=environment, capture_output=True, text=True)
    assert done.stdout.split() == [bound], done.stderr
