"""The command line in this process, and files to give it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slackwater.cli.app import main


@dataclass(frozen=True)
class Finished:
    code: int
    out: str
    err: str


Command = Callable[..., Finished]
Written = Callable[..., Path]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """`slackwater ARGUMENTS`, as far as its exit code and what it prints."""

    def call(*arguments: object) -> Finished:
        monkeypatch.setattr(sys, "argv", ["slackwater", *map(str, arguments)])
        capsys.readouterr()
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        printed = capsys.readouterr()
        return Finished(code, printed.out, printed.err)

    return call


@pytest.fixture
def parquet(tmp_path: Path) -> Written:
    """Write a parquet file of the given columns."""

    def write(name: str, /, **columns: Any) -> Path:
        path = tmp_path / f"{name}.parquet"
        pq.write_table(pa.table(columns), path)
        return path

    return write


@pytest.fixture
def query(tmp_path: Path) -> Callable[[str], Path]:
    """Write a query."""

    def write(text: str) -> Path:
        path = tmp_path / "query.sql"
        path.write_text(text)
        return path

    return write


def rows(folder: Path) -> pa.Table:
    """The parts of a folder, in the order of their names."""
    return pa.concat_tables(pq.read_table(part) for part in sorted(folder.glob("part-*.parquet")))
