"""Options have ranges, and go with what the query asks for; what does not is refused where it stands."""

from __future__ import annotations

from dataclasses import fields

import pytest

from slackwater.core.errors import QueryError, UsageError
from slackwater.core.options import RANGES, Options
from slackwater.operators.pipeline import Epochs

from .streams import bound

JOIN = "SELECT a.v FROM a [5 s], b [5 s] WHERE a.key = b.key"
SUM = "SELECT SUM(v) AS total FROM s [5 s]"
RECALL = f"{JOIN} WITH RECALL 0.9 OVER 1 MINUTE"
ERROR = f"{SUM} WITH ERROR 1% CONFIDENCE 95%"


def test_every_option_that_is_a_number_has_a_range_that_its_default_keeps() -> None:
    for option in fields(Options):
        default = getattr(Options(), option.name)
        if "str" not in str(option.type):
            assert option.name in RANGES
            assert default is None or RANGES[option.name].holds(default)


@pytest.mark.parametrize(
    ("query", "option", "value", "said"),
    [
        (RECALL, "granularity", "0 s", "a duration from 1 us to 1 d, not 0 s"),
        (RECALL, "granularity", "2 DAYS", "a duration from 1 us to 1 d, not 2 d"),
        (RECALL, "basic_window", "0 s", "a duration from 1 us to 1 d, not 0 s"),
        (RECALL, "adaptation_interval", "0 s", "a duration from 1 ms to 1 d, not 0 s"),
        (RECALL, "adaptation_interval", "1 us", "a duration from 1 ms to 1 d, not 1 us"),
        (ERROR, "granularity", "0 s", "a duration from 1 us to 1 d, not 0 s"),
        (JOIN, "idle_timeout", "0 s", "a duration from 1 us to 1000000 d, not 0 s"),
        (JOIN, "max_ahead", "0 ms", "a duration from 1 us to 1000000 d, not 0 s"),
        (ERROR, "retrospect", "1", "a share, more than 0 and below 1, not 1"),
        (ERROR, "retrospect", "0", "a share, more than 0 and below 1, not 0"),
        (JOIN, "max_behind", "0 s", "a duration from 1 us to 1000000 d, not 0 s"),
        (JOIN, "idle_after", "0.99", "a number of gaps, at least 1, not 0.99"),
        (JOIN, "alpha", "1.5", "a share, at least 0 and below 1, not 1.5"),
    ],
)
def test_an_option_out_of_its_range_is_refused_at_its_value(query: str, option: str, value: str, said: str) -> None:
    text = f"{query} OPTIONS ({option} = {value})"
    with pytest.raises(QueryError) as refused:
        bound(text)
    assert f"option {option}: it is {said}" in str(refused.value)
    assert text[refused.value.start : refused.value.stop] == value


@pytest.mark.parametrize("clause", ["[{0}]", "WITH DELAY {0}", "OPTIONS (initial_slack = {0})"])
def test_no_duration_is_longer_than_64_bits_can_add_up(clause: str) -> None:
    with pytest.raises(QueryError, match="at most 1,000,000 days"):
        bound(f"SELECT v FROM s {clause.format('1000001 DAYS')}")


@pytest.mark.parametrize(
    ("text", "message", "place"),
    [
        (f"{RECALL} OPTIONS (retrospect = 0.9)", "option retrospect is for WITH ERROR alone", "retrospect = 0.9"),
        (f"{ERROR} OPTIONS (retrospect = 0.9)", "option retrospect is for controller = 'model' and 'pd'", None),
        (f"{ERROR} OPTIONS (selectivity = 'eqsel')", "option selectivity is for recall targets alone", None),
        (f"{RECALL} OPTIONS (selectivity = 'eqsel')", "option selectivity is for controller = 'model' alone", None),
        (
            f"{RECALL} AT MOST 5 s OPTIONS (controller = 'pd')",
            "that knows no AT MOST; leave it out",
            "controller = 'pd'",
        ),
        (f"{ERROR} AT MOST 5 s OPTIONS (controller = 'model')", "knows no AT MOST", "controller = 'model'"),
        (f"{SUM} OPTIONS (granularity = 5 ms)", "is for WITH RECALL and WITH ERROR", "granularity = 5 ms"),
        (f"{JOIN} WITH NO WAIT OPTIONS (controller = 'pd')", "this query is NO WAIT", "controller = 'pd'"),
        (f"{RECALL} OPTIONS (basic_window = 15 ms)", "(15 ms) must be a multiple of granularity (10 ms)", None),
        (f"{RECALL} OPTIONS (granularity = 3 ms)", "write basic_window = 3 ms", "granularity = 3 ms"),
    ],
)
def test_an_option_that_would_not_be_looked_at_is_refused(text: str, message: str, place: str | None) -> None:
    with pytest.raises(QueryError) as refused:
        bound(text)
    assert message in str(refused.value)
    if place is not None:
        assert text[refused.value.start : refused.value.stop] == place


def test_pieces_of_a_window_may_be_multiples_or_parts_of_the_granularity() -> None:
    for g in (1, 5, 10, 100, 1000):
        assert bound(f"{RECALL} OPTIONS (granularity = {g} ms)").query.options.granularity == g * 1000
    assert bound(f"{ERROR} OPTIONS (controller = 'pd', retrospect = 0.9)").query.options.retrospect == 0.9


@pytest.mark.parametrize("cut", [{"tuples": 10**20}, {"tuples": -1}, {"span": 10**20}, {"span": -1}])
def test_an_epoch_has_a_size_that_can_be_counted(cut: dict[str, int]) -> None:
    with pytest.raises(UsageError, match="an epoch of"):
        Epochs(**cut)
