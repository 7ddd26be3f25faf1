"""Recorded streams beside the repository, and `verify` over them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from slackwater.cli.prepare import prepare, runtime_of
from slackwater.cli.verify import Verified, verify_query
from slackwater.core.time import SECOND

EPOCHS = ("1", "1000", "1 s")
Verify = Callable[..., Verified]


@pytest.fixture
def recorded() -> Callable[[str], Path]:
    """The path of a recorded stream; the test is skipped where it is absent."""
    folder = Path(os.environ.get("SLACKWATER_DATA", Path(__file__).parents[3] / "shared" / "data"))

    def find(name: str) -> Path:
        path = folder / f"{name}.parquet"
        if not path.exists():
            pytest.skip(f"recorded streams are absent: no {path.name} in {folder}; set SLACKWATER_DATA to their folder")
        return path

    return find


@pytest.fixture(params=EPOCHS)
def epoch(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def verify(tmp_path: Path) -> Verify:
    def verified(query: str, streams: list[str], epoch: str, count_only: bool = False) -> Verified:
        (tmp_path / "query.sql").write_text(query)
        prepared = prepare(tmp_path / "query.sql", streams, "ts", "ms", {})
        return verify_query(prepared, runtime_of("local", epoch), count_only, None, None, SECOND, quiet=True)

    return verified
