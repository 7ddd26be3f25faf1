"""A folder of parquet files: results/, late/<stream>/, rejected/<stream>/, report.json.

Invariant: names sort in output order; output of an earlier run in the same folder is replaced, never mixed in, and
nothing but such output is ever removed.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from slackwater.core.errors import SlackwaterError, UsageError, writing

ROWS_PER_PART = 1 << 20


class PartWriter:
    """Tables into part-00000.parquet, part-00001.parquet, ... of one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._waiting: list[pa.Table] = []
        self._rows = 0
        self._part = 0

    def write(self, table: pa.Table) -> None:
        self._waiting.append(table)
        self._rows += table.num_rows
        if self._rows >= ROWS_PER_PART:
            self._flush()

    def _flush(self) -> None:
        table = pa.concat_tables(plain_text(self._waiting))
        with writing(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
            pq.write_table(table, self._folder / f"part-{self._part:05d}.parquet")
        self._part += 1
        self._waiting, self._rows = [], 0

    def close(self) -> None:
        if self._waiting:
            self._flush()


def folder_name(alias: str) -> str:
    """An alias as the name of one folder: it may hold anything, and must not lead elsewhere.

    >>> folder_name("trades"), folder_name("../x")
    ('trades', '%2E.%2Fx')
    """
    name = quote(alias, safe=" ")
    return "%2E" + name[1:] if name.startswith(".") else name


def plain_text(tables: list[pa.Table]) -> list[pa.Table]:
    """Text as plain strings: dictionaries differ from table to table."""
    plain = []
    for table in tables:
        for i, field in enumerate(table.schema):
            if pa.types.is_dictionary(field.type):
                table = table.set_column(i, field.name, table.column(i).cast(field.type.value_type))
        plain.append(table)
    return plain


class OutputFolder:
    """The folder that `--out` names."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with writing(path):
            if path.exists() and not path.is_dir():
                raise UsageError(f"--out {path}: this is a file; name a folder")
            for old in ("report.json", "results/part-*.parquet", "late/*/part-*.parquet", "rejected/*/part-*.parquet"):
                for file in path.glob(old):
                    file.unlink()
            path.mkdir(parents=True, exist_ok=True)
        if not os.access(path, os.W_OK):
            raise SlackwaterError(f"--out {path}: this folder cannot be written to; name another")
        self.results = PartWriter(path / "results")

    def side_output(self, what: str, stream: str, table: pa.Table) -> None:
        writer = PartWriter(self.path / what / folder_name(stream))
        writer.write(table)
        writer.close()

    def report(self, content: dict[str, Any]) -> None:
        with writing(self.path):
            (self.path / "report.json").write_text(json.dumps(content, indent=2) + "\n")
