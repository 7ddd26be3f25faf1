"""How hard tests try: on how many traces a property, and what on Spark itself.

`make test` tries each property on a quarter of the traces that its test says; `make test-long` on four times as many,
and everything that shards in process are asked is asked of Spark too. Both find the same traces on every run. A test on
Spark that `make test` has no time for is marked `@pytest.mark.long("what is checked there instead")`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import settings

AS_WRITTEN = 24
"""With so many examples a property is tried on as many traces as its test says."""
EXAMPLES = int(os.environ.get("SLACKWATER_EXAMPLES", AS_WRITTEN // 4))
ALL_ON_SPARK = os.environ.get("SLACKWATER_SPARK") == "all"


def tried(times: int, *parent: settings, **others: Any) -> settings:
    """A property that is tried on so many traces, more or fewer by the effort asked for."""
    return settings(*parent, max_examples=max(2, times * EXAMPLES // AS_WRITTEN), **others)


def tries(times: int) -> int:
    """The same for a loop over seeds."""
    return max(2, times * EXAMPLES // AS_WRITTEN)


def more(instead: str, *cases: Any) -> list[Any]:
    """Cases of a parametrized test that `make test` leaves out, and what it checks of the same."""
    return [
        pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.long(instead)) for case in cases
    ]


def each_with_members(examples: Sequence[Any]) -> Any:
    """For each example; one that is counted and stands beside the same one with members is for `make test-long`."""
    named = {one.name for one in examples}
    counted = [one for one in examples if one.name.removesuffix(", counted") in named - {one.name}]
    cases = [one for one in examples if one not in counted] + more("the same results with their members", *counted)
    return pytest.mark.parametrize("example", cases, ids=lambda example: example.name)
