"""Random queries that emit on arrival, early or with corrections: first answers and corrected ones are what they should
be, whatever the streams, the epochs and the waiting."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from tests.effort import tried
from tests.kit import random_queries
from tests.kit.random_queries import Row
from tests.runtime.streams import Runtime
from tests.runtime.test_against_the_judge import answer_is_sound


@pytest.mark.local_only("hundreds of examples, tuple release among them")
@pytest.mark.parametrize("kind", ["joins", "aggregates", "of several operators", "distinct"])
@tried(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), rows=random_queries.ROWS, epoch=st.sampled_from(["1", "2", "7", "200 ms", "1 s"]))
def test_every_answer_is_sound(runtime: Runtime, kind: str, data: st.DataObject, rows: list[Row], epoch: str) -> None:
    answer_is_sound(runtime, data.draw(random_queries.QUERIES[kind]), rows, epoch)
