import numpy as np
import pytest

from papers.workloads import Delays
from slackwater.core.errors import UsageError


def test_held_back_tuples_are_mostly_held_back_little():
    held = Delays(late_share=1.0, max_delay_ms=9_999).draw(np.random.default_rng(0), 10_000)
    assert 0.45 < (held < 99).mean() < 0.55
    assert held.max() > 9_000


@pytest.mark.parametrize(("share", "delay"), [(-0.1, 5), (1.1, 5), (float("nan"), 5), (0.5, -1)])
def test_a_share_or_delay_that_makes_no_sense_is_refused(share, delay):
    with pytest.raises(UsageError):
        Delays(share, delay)
