"""Targets as texts: what is written for the machine is read as it was, and a cap stands on either side."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.core.errors import QueryError, UsageError
from slackwater.core.options import Options
from slackwater.core.quality import Quality, Recall, RelativeError, clause
from slackwater.core.time import MINUTE
from slackwater.language.bind import bind
from slackwater.language.dialect import parse_quality
from slackwater.plan.physical import PhysicalPlan
from slackwater.plan.planner import plan
from slackwater.quality.registry import learning_key
from slackwater.runtime.targets import capped, complete, recall, relative_error, settable
from tests.language.streams import SCHEMAS

CAPS = st.none() | st.integers(1, 10**12)
JOIN = "SELECT a.v FROM a [RANGE 1 S], b [RANGE 1 S] WHERE a.key = b.key WITH RECALL .5 OVER 30 s AT MOST 9 s"
SHARES = st.floats(0.001, 0.999)
TARGETS = st.builds(Recall, SHARES, st.integers(1, 10**12), CAPS) | st.builds(RelativeError, SHARES, SHARES, CAPS)


def planned(text: str) -> PhysicalPlan:
    """The plan of a query over the streams of these tests."""
    return plan(bind(text, SCHEMAS).query)


@given(TARGETS)
def test_the_clause_of_a_target_is_read_as_the_target(target: Quality) -> None:
    assert parse_quality(clause(target)) == target


@pytest.mark.parametrize(
    ("in_force", "asked", "expected"),
    [
        ("RECALL .9 OVER 10 s AT MOST 5 s", recall(0.99), "RECALL .99 OVER 10 s AT MOST 5 s"),
        ("RECALL .9 OVER 10 s", "RECALL .99", "RECALL .99 OVER 10 s"),
        ("RECALL .9 OVER 10 s AT MOST 5 s", "RECALL .99 OVER 20 s", "RECALL .99 OVER 20 s AT MOST 5 s"),
        ("RECALL .9 OVER 10 s", recall(0.99, over="1 minute"), "RECALL .99 OVER 1 min"),
        ("ERROR 5% CONFIDENCE 80% AT MOST 5 s", relative_error("1%"), "ERROR 1% CONFIDENCE 80% AT MOST 5 s"),
        ("ERROR 5% CONFIDENCE 80%", "ERROR 1%", "ERROR 1% CONFIDENCE 80%"),
        ("ERROR 5% CONFIDENCE 80%", relative_error("1%", confidence=0.95), "ERROR 1% CONFIDENCE 95%"),
        ("NO WAIT", recall(0.99), "RECALL .99 OVER 30 s AT MOST 9 s"),
        ("RECALL .9 OVER 10 s", "DELAY 1 s", "DELAY 1 s"),
    ],
)
def test_a_target_keeps_of_the_one_in_force_what_it_does_not_state(
    in_force: str, asked: Quality | str, expected: str
) -> None:
    total = "SELECT SUM(v) AS v FROM a [RANGE 1 S] WITH ERROR 9% CONFIDENCE 70%"
    kind = total if "ERROR" in expected else JOIN
    assert settable(planned(kind), asked, in_force=in_force) == parse_quality(expected)
    assert settable(planned(kind), asked, in_force=parse_quality(in_force)) == parse_quality(expected)


def test_a_query_that_starts_has_a_minute_and_95_percent_where_nothing_is_said() -> None:
    assert recall(0.99) == Recall(0.99, MINUTE)
    assert relative_error("1%") == RelativeError(0.01, 0.95)


def test_a_cap_of_a_call_counts_and_the_period_in_force_stays() -> None:
    assert str(settable(planned(JOIN), recall(0.9), "4 s")) == "RECALL 0.9 OVER 30 s AT MOST 4 s"


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
