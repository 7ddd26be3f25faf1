"""The PD controller: Eq. 3.7, bounds, and that it closes a loop."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.published.controllers.pd import FOR_AGGREGATES, FOR_JOINS, Gains, PdController


@given(measured=st.lists(st.floats(0.0, 1.0), max_size=30), wanted=st.floats(0.0, 1.0), alpha=st.floats(0.0, 1.0))
def test_alpha_moves_by_the_error_and_its_change_and_stays_within_0_and_1(measured, wanted, alpha):
    controller = PdController(FOR_AGGREGATES, alpha)
    errors = [wanted - value for value in measured]
    for j, value in enumerate(measured):
        change = errors[j] - errors[j - 1] if j else 0.0
        alpha = max(0.0, min(alpha + 0.2 * errors[j] + 4.0 * change, 1.0))
        assert controller.step(wanted, value) == pytest.approx(alpha)
        assert 0 <= controller.slack(12345) <= 12345


def test_slack_follows_a_new_largest_delay():
    controller = PdController(FOR_JOINS, alpha=0.5)
    assert (controller.slack(100), controller.slack(1000), controller.slack(0)) == (50, 500, 0)
    assert PdController(FOR_JOINS, alpha=1.0).slack(10**15 + 1) == 10**15 + 1


@pytest.mark.parametrize("gains", [FOR_JOINS, Gains(0.2, 0.0)])
def test_a_plant_that_gains_quality_with_slack_is_brought_to_the_setpoint(gains):
    controller = PdController(gains)
    for _ in range(200):
        controller.step(0.9, 0.5 + 0.5 * controller.alpha)
    assert controller.alpha == pytest.approx(0.8, abs=0.01)
