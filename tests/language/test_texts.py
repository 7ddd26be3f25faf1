"""What holds of every text: how it is laid out does not matter, and nothing but a QueryError ever comes out."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from slackwater.core.errors import QueryError
from slackwater.core.time import parse_duration
from slackwater.language.bind import sources_of
from slackwater.language.tokens import tokenize
from tests.effort import tried

from .streams import bound

_QUERIES = (
    "SELECT a.key , b.v - 1 AS w FROM a [ RANGE 5 SECONDS ] , b [ 2 SEC ] WHERE a.key = b.key AND a.v IN ( 1 , 2 )",
    "SELECT key , COUNT ( * ) AS n FROM s [ RANGE 1 SECOND SLIDE 100 MS ] GROUP BY key WITH ERROR 1 % CONFIDENCE 95 %",
    "SELECT a.v FROM a , b , s WINDOW ( a , b ) = 5 SECONDS AND DWINDOW ( b , s ) 3 SEC WHERE a.key = s.key",
    "SELECT t.n , u.v FROM ( SELECT key , COUNT ( * ) AS n FROM s [ 1 MIN ] GROUP BY key ) t [ 5 SEC ] ,"
    " ( SELECT key , v FROM a UNION ALL SELECT key , v FROM b WHERE ok ) AS u [ 1 SEC ] WHERE t.key = u.key",
    "SELECT v FROM s WHERE CASE WHEN ok THEN v ELSE 0 END > 1 WITH NO WAIT OPTIONS ( max_ahead = 1 HOUR )",
    "WITH t AS ( SELECT a.v FROM a [ RATE 5 s ] , b [ RATE 5 s ] MATCH TIME ) SELECT v FROM t",
    "SELECT a.v FROM a [ 5 s ] , b [ 5 s ] WITH RECALL 0.95 OVER 6 H AT MOST 10 MIN OPTIONS ( idle_after = 20 )",
    "SELECT a.v FROM a [ RATE 5 s BY ARRIVAL ] , b [ RATE 5 s BY ARRIVAL ] MATCH TIME WITHIN 1 SECOND WHERE a.ok",
    "SELECT v FROM s EMIT IN ORDER WITH CORRECTIONS FOR 5 MINUTES WITH DELAY 5 SECONDS",
    "SELECT key , SUM ( v ) AS n FROM s [ 1 MIN ] GROUP BY key EMIT EARLY AT ERROR 5 % WITH CORRECTIONS",
)
_GAPS = st.sampled_from((" ", "\n", "\t", "  ", " -- a comment\n", " /* SELECT */ "))
_WORDS = """
    SELECT EXPLAIN FROM WHERE GROUP BY WITH COMPLETE NO WAIT DELAY RECALL OVER ERROR CONFIDENCE OPTIONS RANGE
    SLIDE ON JOIN INNER LEFT CROSS AND OR NOT IN BETWEEN IS NULL TRUE CASE WHEN THEN ELSE END AS DISTINCT
    INTERVAL TIMESTAMP COUNT SUM MIN QUANTILE sqrt dist a b s v key name ok ts a.v b.v s.* * + - / % = <> < (
    ) [ ] , ; . 5 1.5 99999999999999999999 'x' '2024' "q" SECONDS sec window_start max_ahead :: || ? @ { } ~ !
    RATE ARRIVAL MATCH TIME WINDOW DWINDOW PATH WITHIN <-> ^ -> HAVING ORDER LIMIT UNION EXISTS
    LIKE ILIKE ESCAPE CAST( EXTRACT( INT upper( EMIT EARLY CORRECTIONS FOR
"""
_NESTED_WORDS = """
    (SELECT v FROM s) t ) ( [5s] UNION ALL SELECT COUNT(*) WHERE GROUP BY key WITH NO WAIT , ; v>1 u a b t.v _ts AS n
"""

_TARGET_WORDS = """
    COMPLETE NO WAIT DELAY RECALL OVER ERROR CONFIDENCE AT MOST AT MOST 10 MINUTES 0 SECONDS 5s '1 min' - 0.95 .95 . 99%
    1% % OPTIONS (max_behind=1h) (idle_after=20) WITH ;
    EMIT IN ORDER ON ARRIVAL EARLY EVERY 5% CORRECTIONS FOR
"""
_WINDOW_WORDS = "WINDOW DWINDOW PATH WITHIN AND WHERE a b s ( ) , = -> <-> 5 SECONDS 3s (a,b) (b,s)=3s 5s a.key=b.key"


def outcome(text: str) -> QueryError | None:
    """What a text is refused with; any other exception is a failure of the test."""
    try:
        bound(text)
    except QueryError as error:
        return error
    return None


@given(st.sampled_from(_QUERIES), st.data())
@tried(60, deadline=None)
def test_spacing_comments_and_the_case_of_keywords_change_nothing(query: str, data: st.DataObject) -> None:
    words = [
        word.lower() if word.isupper() and word.isalpha() and data.draw(st.booleans()) else word
        for word in query.split()
    ]
    laid_out = "".join(word + data.draw(_GAPS) for word in words) + data.draw(st.sampled_from(("", ";", " ; -- end")))
    assert bound(laid_out).query == bound(query).query


@given(st.lists(st.sampled_from(_WORDS.split()), max_size=14), st.booleans())
@example(["'x", "'x"], True)
@tried(400, deadline=None)
def test_no_text_fails_with_anything_but_a_query_error(words: list[str], grounded: bool) -> None:
    text = ("SELECT v FROM s [1 s] WHERE " if grounded else "SELECT ") + " ".join(words)
    refused_or_fine(text)


@given(st.lists(st.sampled_from(_WINDOW_WORDS.split()), max_size=14))
@tried(300, deadline=None)
def test_no_window_clause_fails_with_anything_but_a_query_error(words: list[str]) -> None:
    refused_or_fine("SELECT a.v FROM a, b, s " + " ".join(words))


@given(st.lists(st.sampled_from(_TARGET_WORDS.split()), max_size=12), st.sampled_from(("RECALL .9", "ERROR 1%", "")))
@tried(300, deadline=None)
def test_no_target_fails_with_anything_but_a_query_error(words: list[str], begun: str) -> None:
    stream = "s [5 s]" if begun == "ERROR 1%" else "a [5 s], b [5 s]"
    item = "COUNT(*)" if begun == "ERROR 1%" else "a.v"
    refused_or_fine(f"SELECT {item} FROM {stream} WITH {begun} " + " ".join(words))


@given(st.lists(st.sampled_from(_NESTED_WORDS.split()), max_size=14))
@tried(300, deadline=None)
def test_no_sub_query_fails_with_anything_but_a_query_error(words: list[str]) -> None:
    refused_or_fine("SELECT v FROM (SELECT v FROM s " + " ".join(words))


def refused_or_fine(text: str) -> None:
    error = outcome(text)
    if error is not None:
        assert error.start is None or 0 <= error.start <= len(text)
        assert str(error)


@given(st.text(max_size=40))
@tried(150, deadline=None)
def test_not_even_noise_does(noise: str) -> None:
    for text in (noise, f"SELECT v FROM s WHERE {noise}", f"SELECT {noise} FROM s"):
        error = outcome(text)
        assert error is None or error.exit_code == 2


@given(st.lists(_GAPS, min_size=4, max_size=12))
@tried(50, deadline=None)
def test_the_place_of_an_error_is_the_place_in_the_text_as_written(gaps: list[str]) -> None:
    layout = iter(gaps * 4)
    query = "SELECT v FROM s WHERE v > 1 AND nosuch < 2"
    text = "".join(word + next(layout) for word in query.split())
    with pytest.raises(QueryError) as caught:
        bound(text)
    assert text[caught.value.start : caught.value.stop] == "nosuch"


@given(st.integers(0, 10**6), st.sampled_from(("us", "ms", "SEC", "seconds", "Minute", "h", "DAYS")), st.booleans())
@tried(60, deadline=None)
def test_a_duration_means_the_same_everywhere(number: int, unit: str, quoted: bool) -> None:
    written = f"'{number} {unit}'" if quoted else f"{number} {unit}"
    expected = parse_duration(f"{number} {unit}")
    query = bound(f"SELECT v FROM s [{written}] WITH DELAY {written} OPTIONS (initial_slack = {written})").query
    assert (query.streams[0].range, query.quality.slack, query.options.initial_slack) == (expected,) * 3


@pytest.mark.parametrize("inside", ["(" * 3000 + "ok" + ")" * 3000, "NOT " * 3000 + "ok", "v + " * 4000 + "1 > 2"])
def test_deep_nesting_is_refused_not_crashed_on(inside: str) -> None:
    with pytest.raises(QueryError, match="nested too deeply"):
        bound(f"SELECT v FROM s WHERE {inside}")


def test_a_long_list_of_conditions_does_not_nest() -> None:
    query = bound("SELECT v FROM s WHERE " + " AND ".join(f"key <> {number}" for number in range(2000))).query
    assert len(query.streams[0].filters) == 2000


def test_sources_are_named_before_schemas_are_known() -> None:
    text = 'EXPLAIN SELECT * FROM trades x [1 s], "my quotes" [1 s] JOIN trades z [1 s] ON x.k = z.k WITH NO WAIT'
    assert sources_of(text) == ("trades", "my quotes")


def test_tokens_know_their_offsets_beyond_the_first_plane() -> None:
    text = "'🐍é' , nosuch"
    assert [text[token.start : token.end + 1] for token in tokenize(text)] == ["'🐍é'", ",", "nosuch"]
