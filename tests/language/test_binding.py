"""Properties of bound queries that no single golden file shows."""

from __future__ import annotations

from dataclasses import fields

import pytest

from slackwater.core.errors import QueryError
from slackwater.core.options import Options
from slackwater.core.quality import Complete, Recall
from slackwater.core.schema import Kind
from slackwater.expressions import functions
from slackwater.expressions.functions import typed_call
from slackwater.expressions.tree import Call, Column, Literal, streams_of
from slackwater.language.bind import MOST_STREAMS, bind, parse
from slackwater.language.bound import AggregateQuery, JoinQuery

from .streams import SCHEMAS, bound, schema

_PAIR = "FROM a [5 s], b [5 s]"


def refusal(text: str) -> QueryError:
    with pytest.raises(QueryError) as caught:
        bound(text)
    return caught.value


def test_equal_texts_bind_to_equal_values() -> None:
    text = f"SELECT * {_PAIR} WHERE a.key = b.key AND a.v > 1"
    assert bound(text) == bound(text)
    assert hash(bound(text)) == hash(bound(text))


def test_a_filter_reads_its_own_stream_and_a_condition_several() -> None:
    query = bound(f"SELECT a.v {_PAIR} WHERE (a.v > 1 AND (b.v > 2 AND a.key = b.key)) AND (a.ok OR b.ok)").query
    assert isinstance(query, JoinQuery)
    for position, stream in enumerate(query.streams):
        assert stream.filters
        assert all(streams_of(condition) == {position} for condition in stream.filters)
    assert [streams_of(condition) for condition in query.conditions] == [{0, 1}, {0, 1}]


def test_without_a_target_a_query_is_complete_and_says_it_was_not_asked() -> None:
    silent, spoken = bound("SELECT v FROM s"), bound("SELECT v FROM s WITH COMPLETE")
    assert (silent.query.quality, spoken.query.quality) == (Complete(), Complete())
    assert (silent.quality_stated, spoken.quality_stated) == (False, True)


def test_a_repeated_condition_is_kept_once() -> None:
    query = bound(f"SELECT a.v {_PAIR} WHERE a.key = b.key AND a.key = b.key").query
    assert isinstance(query, JoinQuery)
    assert len(query.conditions) == 1


def test_a_join_takes_as_many_streams_as_promised() -> None:
    text = "SELECT a0.v FROM " + ", ".join(f"a a{number} [1 s]" for number in range(MOST_STREAMS))
    assert len(bound(text).query.streams) == MOST_STREAMS
    assert "2 to 8" in refusal(text + ", b [1 s]").message


def test_every_option_can_be_set_by_its_name() -> None:
    for option in fields(Options):
        kinds = {"str": ("'part'", "part"), "float": ("0.5", 0.5)}
        text, value = next((kinds[kind] for kind in kinds if kind in str(option.type)), ("7 SECONDS", 7_000_000))
        if option.name == "idle_after":
            text, value = "20", 20.0
        read = parse(f"SELECT v FROM s OPTIONS ({option.name.upper()} = {text})")
        assert getattr(read.options, option.name) == value


def test_an_exact_name_wins_over_one_that_differs_in_case() -> None:
    query = bound("SELECT v, V FROM odd").query
    assert isinstance(query, JoinQuery)
    assert [output.expr for output in query.outputs] == [Column(0, "v", Kind.INT), Column(0, "V", Kind.INT)]


def test_an_exact_source_wins_over_one_that_differs_in_case() -> None:
    schemas = {"s": schema(ts=Kind.TIME, v=Kind.INT), "S": schema(ts=Kind.TIME, w=Kind.INT)}
    assert bind("SELECT w FROM S", schemas).query.streams[0].source == "S"
    with pytest.raises(QueryError, match="could be Ab or aB"):
        bind("SELECT v FROM ab", {"Ab": schemas["s"], "aB": schemas["s"]})


def test_a_prefixed_name_gives_way_to_a_real_column_of_that_name() -> None:
    schemas = {"a": schema(ts=Kind.TIME, k=Kind.INT), "b": schema(ts=Kind.TIME, k=Kind.INT, a_k=Kind.INT)}
    query = bind("SELECT a.k, b.k, b.a_k FROM a [1 s], b [1 s]", schemas).query
    assert isinstance(query, JoinQuery)
    assert [output.name for output in query.outputs] == ["a_k_2", "b_k", "a_k"]


def test_output_names_always_differ() -> None:
    query = bound(f"SELECT *, a.v, a.v, a.v + 1, a.v + 1, b.v AS a_v {_PAIR}").query
    assert isinstance(query, JoinQuery)
    names = [output.name for output in query.outputs]
    assert len(set(names)) == len(names)
    assert names[-1] == "a_v"


def test_a_registered_function_can_be_called(monkeypatch: pytest.MonkeyPatch) -> None:
    def typed(op: str, args: tuple[object, ...]) -> Call:
        return Call("user:twice", args, Kind.INT)  # type: ignore[arg-type]

    monkeypatch.setitem(functions.FUNCTIONS, "twice", functions.Function(1, 1, typed))
    query = bound("SELECT TWICE(key) AS t FROM s").query
    assert isinstance(query, JoinQuery)
    assert query.outputs[0].expr == Call("user:twice", (Column(0, "key", Kind.INT),), Kind.INT)


def test_an_integer_meets_a_float_the_way_the_allow_list_says() -> None:
    query = bound("SELECT key + v AS x FROM s").query
    assert isinstance(query, JoinQuery)
    assert query.outputs[0].expr == typed_call("+", (Column(0, "key", Kind.INT), Column(0, "v", Kind.FLOAT)))


def test_the_smallest_and_the_largest_integer_fit_and_the_next_do_not() -> None:
    query = bound("SELECT 9223372036854775807 AS hi, -9223372036854775807 AS lo FROM s").query
    assert isinstance(query, JoinQuery)
    assert [output.expr for output in query.outputs] == [
        Literal(2**63 - 1, Kind.INT),
        Literal(-(2**63) + 1, Kind.INT),
    ]
    assert "64 bits" in refusal("SELECT -9223372036854775808 AS lo FROM s").message


def test_a_group_is_found_by_meaning_not_by_spelling() -> None:
    query = bound("SELECT s.KEY, COUNT(*) FROM s [1 s] GROUP BY (key)").query
    assert isinstance(query, AggregateQuery)
    assert (query.keys[0].name, query.order) == ("key", ("key", "count"))


def test_a_column_wins_over_an_alias_of_its_name_in_group_by() -> None:
    query = bound("SELECT key % 2 AS key, COUNT(*) FROM s [1 s] GROUP BY key").query
    assert isinstance(query, AggregateQuery)
    assert [one.expr for one in query.keys] == [Column(0, "key", Kind.INT)]
    assert [one.name for one in query.computed] == ["key"]


def test_a_group_by_an_aggregate_is_refused() -> None:
    assert "groups are made before" in refusal("SELECT COUNT(*) AS n FROM s [1 s] GROUP BY n").message


def test_window_bounds_in_group_by_add_no_key() -> None:
    query = bound("SELECT key, COUNT(*) FROM s [1 s] GROUP BY key, window_start, window_end").query
    assert isinstance(query, AggregateQuery)
    assert [key.name for key in query.keys] == ["key"]


def test_a_recall_of_one_is_allowed() -> None:
    assert bound(f"SELECT a.v {_PAIR} WITH RECALL 100% OVER 10 s").query.quality == Recall(1.0, 10_000_000)


def test_a_percentage_is_exactly_its_fraction() -> None:
    for percent in range(1, 100):
        quality = bound(f"SELECT a.v {_PAIR} WITH RECALL {percent}% OVER 1 s").query.quality
        assert quality == Recall(float(f"0.{percent:02d}"), 1_000_000)


def test_a_window_of_no_time_joins_equal_timestamps_but_aggregates_nothing() -> None:
    assert bound("SELECT a.v FROM a [0 s], b [0 s]").query.streams[0].range == 0
    assert "longer than nothing" in refusal("SELECT COUNT(*) FROM s [0 s]").message


def test_parsing_alone_needs_no_schema() -> None:
    parsed = parse("SELECT x.whatever FROM nowhere x [1 s]")
    assert [(stream.source, stream.alias) for stream in parsed.streams] == [("nowhere", "x")]


def test_the_column_at_fault_is_marked_not_the_whole_condition() -> None:
    text = "SELECT v FROM s WHERE v + 1 > 2 AND abs(v * name) < 3"
    error = refusal(text)
    assert text[error.start : error.stop] == "name"


def test_known_streams_are_listed_when_none_is_close() -> None:
    assert refusal("SELECT v FROM zzz").message == "there is no stream 'zzz'; the streams are " + ", ".join(SCHEMAS)
