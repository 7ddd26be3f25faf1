"""The ledger of queries of several operators, against trying everything: any chain, any disorder, however it is cut."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from slackwater.core.options import Options
from slackwater.core.quality import Recall, RelativeError
from slackwater.language.bind import bind
from slackwater.operators.composed.error import ComposedError
from slackwater.operators.composed.recall import ComposedRecall
from slackwater.operators.composed.registry import composed_controller
from slackwater.operators.graph import OperatorGraph
from slackwater.operators.pipeline import Epochs, KernelTerms, Pipeline
from slackwater.plan.planner import plan
from tests.effort import tried
from tests.kit.drive import NO_GUARD, Outcome, drive, feed, results_of, truth
from tests.kit.oracle_levels import oracle_graph
from tests.kit.traces import cuttings, pieces
from tests.operators.test_graph import SCHEMA, SLIDING, WINDOWS, arrivals

KEEP_ALL = Options(retention=10**6)
EPOCHS = st.sampled_from([Epochs(each_tuple=True), Epochs(), Epochs(tuples=3)])


@st.composite
def sources(draw: st.DrawFn, depth: int) -> str:
    """A stream, or mostly a query in parentheses."""
    return "s" if depth == 0 or draw(st.integers(0, 2)) == 0 else f"({draw(rows(depth - 1))})"


@st.composite
def rows(draw: st.DrawFn, depth: int) -> str:
    """A query of joins, selections and unions with the columns k and n, and others up to so deep inside it."""
    kind = draw(st.sampled_from(["join", "select", "union"]))
    if kind == "join":
        left, right = draw(sources(depth)), draw(sources(depth))
        more = draw(st.sampled_from(["", " AND x.n <> y.n"]))
        text = f"SELECT x.k AS k, y.n AS n FROM {left} x [{draw(WINDOWS)}], {right} y [{draw(WINDOWS)}]"
        return f"{text} WHERE x.k = y.k{more}"
    if kind == "select":
        inside = draw(sources(depth))
        return f"SELECT k, n + 1 AS n FROM {inside} x" + ("" if inside == "s" else " WHERE n > 0")
    return f"SELECT k, n FROM {draw(sources(depth))} x UNION ALL SELECT n AS k, k AS n FROM {draw(sources(depth))} y"


def still(quality: Recall | RelativeError, spec: OperatorGraph, slack: int) -> ComposedRecall | ComposedError:
    """A controller that learns and keeps a ledger, and leaves the slack as it is."""
    options = Options(retention=KEEP_ALL.retention, granularity=10, initial_slack=slack)
    controller = composed_controller(quality, options, spec.build(), spec.streams)
    assert isinstance(controller, ComposedRecall | ComposedError)
    adapt = controller.adapt

    def note(measured) -> None:
        adapt(measured)
        controller.slack = slack

    controller.adapt = note
    return controller


def planned(text: str, data: st.DataObject):
    physical = plan(bind(text, {"s": SCHEMA}).query)
    spec = physical.operator
    assume(isinstance(spec, OperatorGraph) and spec.streams <= 5)
    batch = arrivals(physical, data.draw(st.integers(0, 10**6)), 10 * (spec.streams + 1))
    return spec, batch, data.draw(cuttings(len(batch)))


@tried(25)
@given(data=st.data())
def test_of_any_rows_what_was_made_and_lost_is_what_is_true_and_needs_say_which(data):
    spec, batch, cuts = planned(data.draw(rows(2)), data)
    epochs, slack = data.draw(EPOCHS), data.draw(st.sampled_from([0, 1, 2, 4]))
    controller = still(Recall(0.9, 12), spec, slack)
    required: list[int] = []
    shadow = controller._rows
    take = shadow.take

    def noted(arrived, slack):
        found = take(arrived, slack)
        required.extend(found.need.tolist())
        return found

    shadow.take = noted
    outcome = drive(Pipeline(spec, spec.build(), controller, KernelTerms(epochs), NO_GUARD), pieces(batch, cuts))
    made, true = len(outcome.timestamps), len(oracle_graph(spec, batch))
    seen = controller.ledger.measured()
    assert (seen.good, seen.good + seen.bad, seen.unknown_late) == (made, true, 0)
    # What waits for its turn is not taken for lost, nor what is made before its watermark for more than was true.
    lost = [o.quality.bad for o in outcome.observed if o.quality is not None]
    assert all(0 <= before <= after for before, after in pairwise(lost))
    # What lies at the watermark itself is in time or not, as it happens.
    assert sum(need < slack for need in required) <= made
    exact = all(len(under) in (1, spec.streams) for under in shadow._under)
    if exact and not epochs.each_tuple:
        assert made <= sum(need <= slack for need in required)


ABOVE = "SELECT k, COUNT(*) AS c, SUM(n) AS t, AVG(n) AS m, MIN(n) AS low, MAX(n) AS high FROM ({}) u [{}] GROUP BY k"
OF_SUMS = (
    "SELECT k, SUM(c) AS c, SUM(t) AS t FROM"
    " (SELECT k, COUNT(*) AS c, SUM(n) AS t FROM {} x [{}] GROUP BY k) u [{}] GROUP BY k"
)
PAIRS = "SELECT x.k AS k, y.n AS n FROM s x [4 us], s y [4 us] WHERE x.k = y.k"
BOUND = 0.2


@tried(25)
@given(data=st.data())
def test_of_any_windows_those_off_are_those_that_the_truth_says(data):
    if data.draw(st.booleans()):
        text = ABOVE.format(data.draw(rows(1)), data.draw(SLIDING))
    else:
        text = OF_SUMS.format(data.draw(sources(1)), data.draw(SLIDING), data.draw(SLIDING))
    spec, batch, cuts = planned(text, data)
    epochs, slack = data.draw(EPOCHS), data.draw(st.sampled_from([0, 2, 5]))
    controller = still(RelativeError(BOUND, 0.9), spec, slack)
    outcome = drive(Pipeline(spec, spec.build(), controller, KernelTerms(epochs), NO_GUARD), pieces(batch, cuts))
    given_, true = results_of(spec, outcome.emissions), truth(spec, batch)
    off: dict[int, bool] = defaultdict(bool)
    for at, values in true.items():
        answer = given_.get(at)
        off[at[0]] |= answer is None or any(
            (a is None) != (t is None) or (t is not None and abs(a - t) > BOUND * abs(t or 1) + 1e-9)
            for a, t in zip(answer, values, strict=True)
        )
    seen = controller.measured()
    assert (seen.good, seen.bad, seen.unknown_late) == (len(off) - sum(off.values()), sum(off.values()), 0)


@pytest.mark.parametrize("epochs", [Epochs(), Epochs(each_tuple=True)], ids=["epoch", "tuple"])
@pytest.mark.parametrize(
    ("text", "quality"),
    [
        (f"{PAIRS} UNION ALL SELECT k, n FROM s", Recall(0.9, 20)),
        (ABOVE.format(PAIRS, "6 us SLIDE 2 us"), RelativeError(0.1, 0.8)),
        (OF_SUMS.format("s", "3 us", "6 us"), RelativeError(0.1, 0.8)),
    ],
    ids=["recall", "error", "sums of sums"],
)  # fmt: skip
def test_going_on_after_a_restart_is_as_never_stopping(text, quality, epochs):
    physical = plan(bind(text, {"s": SCHEMA}).query)
    spec = physical.operator
    parts = pieces(arrivals(physical, 3, 600), range(40, 601, 40))

    def made() -> Pipeline:
        controller = composed_controller(quality, Options(granularity=10, retention=60), spec.build(), spec.streams)
        return Pipeline(spec, spec.build(), controller, KernelTerms(epochs), NO_GUARD)

    whole = drive(made(), parts)
    first = made()
    begun = feed(first, parts[:7], Outcome(), end=False)
    second = made()
    second.restore([entry for entry in first.snapshot_delta() if entry.value is not None])
    outcome = feed(second, parts[7:], begun, end=True)
    assert outcome.timestamps == whole.timestamps
    assert [o.slack for o in outcome.observed] == [o.slack for o in whole.observed]
    assert outcome.observed[-1].quality == whole.observed[-1].quality
    assert whole.observed[-1].quality.bad > 0


def test_rows_that_began_before_anybody_looked_are_left_out():
    physical = plan(bind(f"{PAIRS} UNION ALL SELECT k, n FROM s", {"s": SCHEMA}).query)
    spec = physical.operator
    parts = pieces(arrivals(physical, 3, 400), range(40, 401, 40))
    controller = still(Recall(0.9, 12), spec, 2)
    before = Pipeline(
        spec, spec.build(), still(Recall(0.9, 12), spec, 2), KernelTerms(Epochs(), learning_key="waiting"), NO_GUARD
    )
    feed(before, parts[:5], Outcome(), end=False)
    after = Pipeline(spec, spec.build(), controller, KernelTerms(Epochs(), learning_key="recall"), NO_GUARD)
    after.restore([entry for entry in before.snapshot_delta() if entry.value is not None])
    begin = controller._rows.known_from
    outcome = feed(after, parts[5:], Outcome(), end=True)
    seen = controller.ledger.measured()
    assert seen.good == np.count_nonzero(np.array(outcome.timestamps) >= begin) > 0
    true = oracle_graph(spec, arrivals(physical, 3, 400))
    assert seen.good + seen.bad == sum(ts >= begin for ts, _ in true)
