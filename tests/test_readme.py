"""The pages run: the blocks of each page are executed in order, in a folder of its own, and print what stands below
them."""

import contextlib
import io
import os
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from slackwater.expressions.functions import FUNCTIONS
from slackwater.expressions.user import USER_FUNCTIONS

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
LEAST_SHOWN = {
    README: 1,
    ROOT / "docs" / "reference.md": 6,
    ROOT / "docs" / "python.md": 3,
    ROOT / "docs" / "concepts.md": 1,
}
"""The pages that run, each with how many of its blocks show their output at least."""
NOT_RUN = "<!-- not run -->"
_BLOCK = re.compile(r"(?P<mark><!-- not run -->\n)?^```(?P<kind>\w+)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
_SPEED = re.compile(r"[\d,.]+ tuples/s")


@dataclass(frozen=True)
class Block:
    kind: str
    body: str
    line: int
    shown: str | None
    """What stands below it as its output, if anything does."""


def blocks(text: str) -> list[Block]:
    """The blocks to run, each with its output where the next block is one of text."""
    found = list(_BLOCK.finditer(text))
    runnable = []
    for at, match in enumerate(found):
        if match["mark"] or match["kind"] not in ("python", "sh"):
            continue
        after = found[at + 1] if at + 1 < len(found) else None
        below = after is not None and after["kind"] == "text" and not text[match.end() : after.start()].strip()
        shown = after["body"] if below and after is not None else None
        runnable.append(Block(match["kind"], match["body"], text[: match.start("kind")].count("\n") + 1, shown))
    return runnable


def run_shell(body: str) -> str:
    binaries = str(Path(sys.executable).parent)
    environment = os.environ | {
        "PATH": binaries + os.pathsep + os.environ["PATH"],
        "COLUMNS": "120",
        "LC_ALL": "C.UTF-8",
    }
    command = ["bash", "-eu", "-o", "pipefail", "-c", body]
    return subprocess.run(command, env=environment, check=True, text=True, stdout=subprocess.PIPE).stdout


def run_python(body: str, line: int, names: dict[str, Any]) -> str:
    """Run a block with the names of the blocks before it; a failure points at its line of the page."""
    script = Path(f"block_{line}.py")
    script.write_text("\n" * line + body)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        names |= runpy.run_path(str(script), init_globals=names)
    return printed.getvalue()


def steady(output: str) -> list[str]:
    """Output without what differs from run to run: the speed, and blanks at the end of a line."""
    return [_SPEED.sub("N tuples/s", line.rstrip()) for line in output.strip().splitlines()]


@pytest.fixture
def forgotten_functions() -> Iterator[None]:
    """What the page registers must not be known to the tests that follow."""
    before = dict(FUNCTIONS), dict(USER_FUNCTIONS)
    yield
    for known, kept in zip((FUNCTIONS, USER_FUNCTIONS), before, strict=True):
        for name in set(known) - set(kept):
            del known[name]


@pytest.mark.usefixtures("forgotten_functions")
@pytest.mark.parametrize("page", LEAST_SHOWN, ids=lambda page: page.name)
def test_every_block_of_a_page_prints_what_stands_below_it(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for block in blocks(page.read_text()):
        output = run_shell(block.body) if block.kind == "sh" else run_python(block.body, block.line, names)
        assert steady(output) == steady(block.shown or ""), f"{page.name}, the block at line {block.line}"


@pytest.mark.parametrize("page", LEAST_SHOWN, ids=lambda page: page.name)
def test_a_page_shows_output_often_enough_to_be_worth_running(page: Path) -> None:
    assert len([block for block in blocks(page.read_text()) if block.shown]) >= LEAST_SHOWN[page]


def test_only_setting_up_and_spark_are_left_out() -> None:
    """The blocks on Spark are what the tests of the Spark runtime and of Kafka run."""
    left_out = {page: page.read_text().split(NOT_RUN)[1:] for page in LEAST_SHOWN}
    setting_up, on_spark, on_kafka = (part.split("```")[1] for part in left_out.pop(README))
    assert {"make demo", "make test"} <= {line.partition("#")[0].strip() for line in setting_up.splitlines()}
    assert "sw.session" in on_spark
    assert "sw.kafka_sink" in on_kafka
    assert not any(left_out.values())
