"""Plans: what is shipped, what is a key, what a filter; and EXPLAIN."""

from __future__ import annotations

import pyarrow as pa
import pytest

from slackwater.core.batch import FIRST_COLUMN, ROW, TS
from slackwater.core.errors import UsageError
from slackwater.language.bind import bind
from slackwater.operators.aggregate.operator import WindowAggregate
from slackwater.operators.join.operator import WindowJoin
from slackwater.operators.join.tree import JoinTree
from slackwater.plan.explain import explain
from slackwater.plan.physical import PhysicalPlan
from slackwater.plan.planner import plan
from slackwater.published.wjoin.spec import WJoin
from slackwater.sources.files import schema_of

TABLE = pa.table({"ts": [1], "k": [1], "x": [0.5], "w": [1], "unused": ["u"]})
SCHEMAS = {name: schema_of(name, TABLE, "ts") for name in ("a", "b", "c")}
JOIN = "SELECT a.w AS aw FROM a [5 SEC], b [5 SEC] WHERE "


def planned(query: str, **options: bool) -> PhysicalPlan:
    return plan(bind(query, SCHEMAS).query, **options)


def join_of(physical: PhysicalPlan) -> WindowJoin:
    assert isinstance(physical.operator, WindowJoin)
    return physical.operator


def test_equalities_become_keys_and_the_rest_conditions() -> None:
    physical = planned(JOIN + "a.k = b.k AND a.x < b.x AND a.k + 1 = b.w AND a.x > 0 AND a.k = a.w")
    operator = join_of(physical)
    assert len(operator.equalities) == 2
    assert len(operator.conditions) == 1
    assert [len(one.stream.filters) for one in physical.inputs] == [2, 0]


def test_an_equality_within_one_side_is_a_condition() -> None:
    operator = join_of(planned(JOIN + "a.k + b.k = 3"))
    assert (len(operator.equalities), len(operator.conditions)) == (0, 1)


def test_what_a_condition_makes_of_the_text_of_one_stream_is_computed_when_it_is_taken_in() -> None:
    physical = planned(
        JOIN + "upper(a.unused) = lower(b.unused) AND (length(a.unused) + a.k > b.k OR b.unused LIKE 'u%')"
    )
    operator = join_of(physical)
    assert (len(operator.equalities), len(operator.conditions)) == (1, 1)
    first, second = physical.inputs
    assert {name for name, _, row in first.columns if row < first.rows} == {"w"}
    assert [one.role for one in first.computed] == [one.role for one in second.computed] == ["join key", "argument"]
    shown = explain(physical, True)
    assert "where a.(length(unused) + k) > b.k OR b.(unused LIKE 'u%')" in shown
    assert "a by hash on upper(unused)" in shown


def test_what_is_computed_is_not_mistaken_for_a_column_of_its_name() -> None:
    named = schema_of("a", TABLE.append_column("length(unused)", [[7]]), "ts")
    query = bind(JOIN + 'length(a.unused) > b.k AND a."length(unused)" > b.k', SCHEMAS | {"a": named}).query
    operator = join_of(plan(query))
    rows = {(stream, name): row for stream, name, row in operator.columns}
    assert rows[0, "length(unused)"] != rows[0, "length(unused)'"]


def test_only_what_is_used_is_read_and_only_what_is_emitted_or_compared_is_shipped() -> None:
    physical = planned(JOIN + "a.k = b.k AND a.x > 0")
    first, second = physical.inputs
    assert {name for name, _, _ in first.columns} == {"k", "w", "x"}
    shipped = {name for name, _, row in first.columns if row < first.rows}
    assert shipped == {"k", "w"}
    assert {name for name, _, _ in second.columns} == {"k"}
    assert join_of(physical).rows == max(first.rows, second.rows)


def test_rows_of_an_input_are_given_once() -> None:
    for one in planned(JOIN + "a.k = b.k AND a.k < b.w AND a.x = b.x AND abs(a.x) = b.x").inputs:
        rows = [row for _, _, row in one.columns] + [computed.row for computed in one.computed]
        assert len(set(rows)) == len(rows)
        assert sorted(rows) == list(range(FIRST_COLUMN, one.all_rows))


def test_event_time_and_identity_have_rows_of_their_own() -> None:
    physical = planned("SELECT a.ts AS t FROM a [5 SEC], b [5 SEC]", identities=True)
    assert join_of(physical).emit == ((0, TS), (0, ROW), (1, ROW))
    assert [column.name for column in physical.outputs] == ["t", "_row_a", "_row_b"]


def test_counting_makes_no_rows() -> None:
    physical = planned(JOIN + "a.k = b.k", count_only=True)
    assert (physical.count_only, physical.outputs, join_of(physical).emit) == (True, (), ())
    with pytest.raises(UsageError, match="--count"):
        planned("SELECT COUNT(*) AS n FROM a [5 SEC]", count_only=True)


def test_a_group_key_that_is_not_selected_is_kept_from_the_output() -> None:
    query = "SELECT COUNT(*) AS n FROM a [5 SEC] GROUP BY k"
    physical = planned(query)
    assert isinstance(physical.operator, WindowAggregate)
    assert len(physical.operator.keys) == 1
    assert [column.name for column in physical.outputs] == ["window_start", "window_end", "n"]
    assert [column.name for column in planned(query, identities=True).outputs][-1] == "k"


def test_equal_queries_have_equal_plans() -> None:
    query = JOIN + "a.k = b.k AND a.x < b.x WITH DELAY 2 SECONDS"
    assert planned(query) == planned(query)
    assert planned(query) != planned(query.replace("<", "<="))


def test_explain_says_how_each_stream_is_probed_and_what_is_waited_for() -> None:
    text = explain(
        planned("SELECT a.w AS aw FROM a [5 SEC], b [2 SEC], c [1 SEC] WHERE a.k = b.k AND b.x < c.x WITH NO WAIT")
    )
    for words in ("window join of 3 streams: a, b, c", "WITH NO WAIT", "a 5 s, b 2 s, c 1 s", "b by hash on k",
                  "c by scanning its window", "b.x < c.x", "the slowest stream is still waited for"):  # fmt: skip
        assert words in text
    assert all(len(line) < 200 for line in text.splitlines())


@pytest.mark.parametrize(
    ("query", "count_only", "chosen"),
    [
        ("a.k = b.k AND b.k = c.k", False, "by hash, because equalities lead to every stream"),
        ("a.k = b.k AND b.k = c.k", True, "by products of counts, because results are only counted and one key joins"),
        ("a.k = b.k AND b.w = c.w", True, "by hash, because equalities lead to every stream"),
        (
            "a.k = b.k AND b.x < c.x",
            False,
            "by hash, and by scanning b, c, because no equality and no band leads there from",
        ),
        ("a.x < b.x AND b.x < c.x", False, "by scanning windows, because no equality and no band joins streams"),
        ("a.k > 0", True, "by products of counts, because results are only counted and no condition binds streams"),
    ],
)
def test_a_way_to_join_is_chosen_by_the_conditions_and_explain_says_why(
    query: str, count_only: bool, chosen: str
) -> None:
    text = f"SELECT a.w AS aw FROM a [5 SEC], b [2 SEC], c [1 SEC] WHERE {query}"
    explained = explain(planned(text, count_only=count_only)).splitlines()
    (line,) = [line for line in explained if "· joined" in line]
    assert line.partition("· ")[2].startswith(f"joined {chosen}")


CAPPED = "SELECT a.w AS aw FROM a [5 SEC], b [5 SEC] WHERE a.k = b.k WITH RECALL 0.95 OVER "
SUMS = "SELECT SUM(x) AS total FROM a [RANGE 5 MINUTES SLIDE 1 MINUTE] WITH ERROR 1%"


@pytest.mark.parametrize(
    ("query", "most"),
    [
        (f"{CAPPED} 6 HOURS AT MOST 10 MINUTES", "at most 10 min, as AT MOST says"),
        (f"{CAPPED} 10 SECONDS", "at most 10 min by default"),
        (f"{CAPPED} 1 HOUR", "at most 10 h by default"),
        (f"{CAPPED} 6 HOURS", "at most 1 d by default"),
        (f"{CAPPED} 6 HOURS OPTIONS (max_behind = 90 SECONDS)", "at most 90 s by default"),
        (f"{CAPPED} 6 HOURS OPTIONS (controller = 'pd')", None),
        (SUMS, "at most 50 min by default"),
        (f"{SUMS} AT MOST 2 SECONDS", "at most 2 s, as AT MOST says"),
        (SUMS.partition(" WITH")[0], None),
    ],
)
def test_explain_shows_the_most_slack_that_a_target_may_take(query: str, most: str | None) -> None:
    text = explain(planned(query))
    assert (f"slack is {most}" in text) if most is not None else ("at most" not in text)


def test_explain_shows_the_rules_of_clocks_and_which_streams_are_not_waited_for() -> None:
    text = explain(planned(f"{JOIN} a.k = b.k OPTIONS (max_ahead = 5 s, max_behind = 2 h, idle_after = 20)"))
    for words in ("beyond 5 s (max_ahead)", "beyond 2 h behind (max_behind)", "more than 20 of its usual gaps"):
        assert words in text
    assert "usual gaps" not in explain(planned(f"{JOIN} a.k = b.k"))


def test_what_is_asked_for_is_explained_as_that_and_no_order_is_chosen_for_two_streams() -> None:
    text = explain(planned(f"{ONE_WINDOW} OPTIONS (join = 'merge')"))
    assert "joined by 'merge' of the W-join report, because the query asks for it" in text
    assert "the order at first" not in explain(planned(ONE_WINDOW))


THREE = "SELECT a.w AS aw FROM a [5 SEC], b [2 SEC], c [1 SEC] WHERE a.k = b.k AND b.k = c.k AND b.x < c.x"


def test_a_join_is_a_tree_of_binary_joins_where_that_is_asked_for() -> None:
    tree = planned(f"{THREE} OPTIONS (shape = 'binary')")
    assert isinstance(tree.operator, JoinTree)
    assert tree.operator.whole == planned(f"{THREE} OPTIONS (shape = 'multiway')").operator == planned(THREE).operator
    assert (tree.joins, tree.count_only, tree.windows) == (True, False, planned(THREE).windows)
    count_only = planned(f"{THREE} OPTIONS (shape = 'binary')", count_only=True).operator
    assert isinstance(count_only, JoinTree)
    assert [node.count_only for node in count_only.nodes] == [False, True]


def test_explain_says_how_a_tree_is_built_and_what_each_node_asks() -> None:
    text = explain(planned(f"{THREE} WITH NO WAIT OPTIONS (shape = 'binary')"))
    for words in ("as a tree of binary joins: ((a ⨝ b) ⨝ c)", "node (a ⨝ b)", "by hash on a.k = c.k", "where b.x < c.x",
                  "every member inside its own window", "not for streams above"):  # fmt: skip
        assert words in text
    assert "multiway" in explain(planned(THREE))


@pytest.mark.parametrize(
    ("query", "words"),
    [
        (f"{THREE} OPTIONS (shape = 'bushy')", "there is multiway and binary"),
        ("SELECT k FROM a OPTIONS (shape = 'binary')", "two streams or more"),
        ("SELECT COUNT(*) AS n FROM a [5 SEC] OPTIONS (shape = 'binary')", "for joins alone"),
    ],
)
def test_a_shape_that_is_not_there_is_refused(query: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        planned(query)


ONE_WINDOW = "SELECT a.w AS aw FROM a [5 SEC], b [5 SEC] WHERE a.k = b.k"


@pytest.mark.parametrize(
    ("join", "words"), [("hash", "HW-join"), ("nested_loop", "NLW-join"), ("merge", "no window is asked for")]
)
def test_a_join_goes_by_an_algorithm_of_the_report_where_that_is_asked_for(join: str, words: str) -> None:
    made = planned(f"{ONE_WINDOW} OPTIONS (join = '{join}')")
    assert isinstance(made.operator, WJoin)
    assert made.operator.algorithm == join
    assert words in explain(made)
    assert "where a.k = b.k" in explain(made)
    assert not isinstance(planned(ONE_WINDOW).operator, WJoin)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        (f"{ONE_WINDOW} OPTIONS (join = 'ripple')", "there is hash, nested_loop, merge"),
        (f"{ONE_WINDOW} OPTIONS (join = 'merge', shape = 'binary')", "multiway"),
        ("SELECT a.w FROM a [5 SEC], b [5 SEC] WHERE a.x < b.x OPTIONS (join = hash)", "equal in all streams"),
        ("SELECT k FROM a OPTIONS (join = 'nested_loop')", "two streams or more"),
        ("SELECT COUNT(*) AS n FROM a [5 SEC] OPTIONS (join = 'hash')", "for joins alone"),
        ("SELECT COUNT(*) AS n FROM a [5 SEC] OPTIONS (windows = 'lca')", "for joins alone"),
        (f"{THREE} OPTIONS (windows = 'lca')", "nothing to choose"),
        (f"{THREE} OPTIONS (join = 'merge', windows = 'exact')", "there is lca, gca, pairwise"),
        (f"{THREE} OPTIONS (join = 'nested_loop', windows = 'pairwise')", "in one way only"),
    ],
)
def test_an_algorithm_that_does_not_apply_is_refused(query: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        planned(query)


def test_explain_describes_aggregates_and_their_filters() -> None:
    text = explain(planned("SELECT k, MEDIAN(x) AS m FROM a [10 SEC SLIDE 1 SEC] WHERE w > 2 GROUP BY k"), False)
    for words in ("window 10 s, sliding by 1 s, 1 group key", "(the default)", "group by k", "MEDIAN", "filter w > 2",
                  "source a"):  # fmt: skip
        assert words in text


PATH = "SELECT a.w AS aw FROM a, b, c WHERE a.k = b.k AND b.k = c.k PATH a -> b -> c WITHIN (5 SEC, 3 SEC)"


def test_windows_between_pairs_are_closed_and_explained() -> None:
    physical = planned(PATH)
    second = 1_000_000
    assert physical.windows == (8 * second, 3 * second, 0)
    graph = join_of(physical).graph
    assert graph is not None
    assert graph.widest[2][0] == 8 * second
    text = explain(physical)
    for line in ("a before b, at most 5 s", "a before c, at most 8 s", "b before c, at most 3 s"):
        assert line in text


def test_a_path_both_ways_is_explained_as_two() -> None:
    text = explain(planned(PATH.replace("->", "<->"), count_only=True))
    assert "· windows\n" in text
    assert "· or windows\n" in text
    assert "c before b, at most 3 s" in text
    assert "one of the windows is kept in whole" in text
    assert "every member inside the windows" in explain(planned(PATH + " OPTIONS (shape = 'binary')"))


@pytest.mark.parametrize(
    ("windows", "of_streams"),
    [
        ("WINDOW 5 s", "a [5 s], b [5 s], c [5 s]"),
        ("WINDOW (a, b) = 9 s AND WINDOW = 5 s", "a [5 s], b [5 s], c [5 s]"),
    ],
)
def test_one_window_for_all_is_planned_as_windows_of_streams(windows: str, of_streams: str) -> None:
    query = "SELECT a.w AS aw FROM {} {} WHERE a.k = b.k AND b.k = c.k"
    operator = join_of(planned(query.format("a, b, c", windows)))
    assert operator == join_of(planned(query.format(of_streams, "")))
    assert operator.graph is None


@pytest.mark.parametrize(
    ("query", "options", "words"),
    [
        (THREE, "join = 'merge'", "local windows (LCA), a 5 s, b 2 s, c 1 s"),
        (THREE, "join = 'nested_loop', windows = 'gca'", "largest window of all (GCA), 5 s"),
        (PATH, "join = 'merge', windows = 'lca'", "local windows (LCA), a 8 s, b 3 s, c 0 s"),
        (PATH, "join = 'merge', windows = 'lca'", "refines: every pair"),
        (PATH, "join = 'hash', windows = 'pairwise'", "one bound stream gives the period"),
        (PATH.replace("->", "<->"), "join = 'nested_loop', windows = 'pairwise'", "two joins put together"),
    ],
)
def test_explain_says_how_an_algorithm_goes_about_different_windows(query: str, options: str, words: str) -> None:
    assert words in explain(planned(f"{query} OPTIONS ({options})"))


def test_explain_says_nothing_of_an_approach_with_one_window_for_all() -> None:
    assert "filters by" not in explain(planned(f"{ONE_WINDOW} OPTIONS (join = 'merge', windows = 'gca')"))
