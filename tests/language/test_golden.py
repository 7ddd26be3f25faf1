"""Every golden/NAME.sql binds to, or is refused with, exactly what golden/NAME.expected says."""

from __future__ import annotations

from pathlib import Path

import pytest

from slackwater.core.errors import QueryError

from .streams import bound, show

_CASES = sorted((Path(__file__).parent / "golden").glob("*.sql"))


@pytest.mark.parametrize("case", _CASES, ids=lambda case: case.stem)
def test_a_query_binds_to_what_its_file_says(case: Path) -> None:
    try:
        found = show(bound(case.read_text()))
    except QueryError as error:
        found = f"{error}\n"
    assert found == case.with_suffix(".expected").read_text()


def test_there_are_golden_cases() -> None:
    assert len(_CASES) > 40
