"""Targets as texts: what is written for the machine is read as it was, and a cap stands on either side."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.core.errors import QueryError, UsageError
from slackwater.core.options import Options
from slackwater.core.quality import Quality, Recall, RelativeError, clause
from slackwater.core.time import MINUTE
from slackwater.language.clauses import parse_quality
from slackwater.quality.registry import learning_key
from slackwater.runtime.targets import capped, complete, recall, relative_error

CAPS = st.none() | st.integers(1, 10**12)
SHARES = st.floats(0.001, 0.999)
TARGETS = st.builds(Recall, SHARES, st.integers(1, 10**12), CAPS) | st.builds(RelativeError, SHARES, SHARES, CAPS)


@given(TARGETS)
def test_the_clause_of_a_target_is_read_as_the_target(target: Quality) -> None:
    assert parse_quality(clause(target)) == target


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("RECALL 0.95 OVER 1 MINUTE AT MOST 5 SECONDS", "with recall .95 at most '5 s' over 60 s"),
        ("ERROR 1% CONFIDENCE 90% AT MOST 5 SECONDS", "ERROR 0.01 AT MOST 5000 ms CONFIDENCE 0.9"),
        ("ERROR 1% CONFIDENCE 95% AT MOST 5 SECONDS", "ERROR .01 AT MOST 5 s"),
    ],
)
def test_a_cap_stands_on_either_side(one: str, other: str) -> None:
    assert parse_quality(one) == parse_quality(other)


def test_a_cap_from_python_is_that_of_the_language() -> None:
    assert recall(0.95, over="6 hours", at_most="10 minutes") == parse_quality("RECALL .95 OVER 6 h AT MOST 10 min")
    assert relative_error("1%", at_most="2 s") == parse_quality("ERROR 1% AT MOST 2 s")
    assert capped("RECALL .95 OVER 6 h", "10 min") == recall(0.95, "6 hours", "10 minutes")
    assert capped(None, None) is None
    assert capped(complete(), None) == complete()


@pytest.mark.parametrize("at_most", ["0 s", "soon", "-1 s", "", "10 %"])
def test_a_cap_that_is_none_is_refused_under_its_name(at_most: str) -> None:
    for make in (
        lambda: recall(0.95, at_most=at_most),
        lambda: relative_error("1%", at_most=at_most),
        lambda: capped("RECALL 0.95 OVER 1 MINUTE", at_most),
    ):
        with pytest.raises(UsageError, match="at_most="):
            make()


@pytest.mark.parametrize("target", [None, "COMPLETE", "NO WAIT", "DELAY 2 s", "RECALL .9 OVER 1 MIN AT MOST 1 s"])
def test_a_cap_goes_with_one_target_that_has_none_yet(target: str | None) -> None:
    with pytest.raises(UsageError, match="at_most='5 s'"):
        capped(target, "5 s")


def test_a_target_from_python_ends_where_it_ends() -> None:
    with pytest.raises(QueryError, match="nothing may follow"):
        parse_quality("RECALL 0.9 OVER 1 MINUTE AT MOST 5 SECONDS PLEASE")


@given(TARGETS, CAPS)
def test_what_is_learned_does_not_hang_on_the_cap(target: Recall | RelativeError, cap: int | None) -> None:
    other = type(target)(*(getattr(target, name) for name in list(vars(target))[:2]), cap)
    assert learning_key(target, Options()) == learning_key(other, Options())
    assert learning_key(Recall(0.9, MINUTE, cap), Options()) != learning_key(Recall(0.9, 2 * MINUTE, cap), Options())
