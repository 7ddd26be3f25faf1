"""What Spark computes before rows are taken in: which calls, of which stream, and how Spark reads them."""

from __future__ import annotations

import pytest

from slackwater.core.errors import QueryError
from slackwater.language.in_front import without_functions

from .streams import SCHEMAS, bound

COLUMNS = {name: schema.names for name, schema in SCHEMAS.items()}
WORD = r"element_at(split(upper(name), '\\W+'), 1)"


def computed(text: str) -> tuple[str, dict[str, str]]:
    written, found = without_functions(text, COLUMNS)
    return written, {f"{one.stream}.{one.name}": one.sql for one in found}


def test_the_outermost_call_is_computed_with_all_inside_and_once() -> None:
    written, found = computed(
        f"SELECT {WORD} AS word, COUNT(*) AS n, SUM(pmod(s.key, 3) + 1) AS rest FROM s [1 MINUTE]"
        f" WHERE instr(name, 'it''s') > 0 OR pmod(s.key, 3) = 1 GROUP BY {WORD}"
    )
    assert found == {
        "s.element_at_split_upper_name_w_1": r"ELEMENT_AT(SPLIT(UPPER(name), '\\W+'), 1)",
        "s.pmod_s_key_3": "PMOD(key, 3)",
        "s.instr_name_it_s": r"INSTR(name, 'it\'s')",
    }
    assert written.count("element_at_split_upper_name_w_1") == written.count("pmod_s_key_3") == 2
    assert computed(written) == (written, {})


def test_a_call_belongs_to_the_stream_that_all_its_columns_are_of() -> None:
    text = "SELECT md5(a.name) AS x FROM a [1 s], b [1 s] WHERE pmod(a.key, 2) = pmod(b.key, 2)"
    found = {"a.md5_a_name": "MD5(name)", "a.pmod_a_key_2": "PMOD(key, 2)", "b.pmod_b_key_2": "PMOD(key, 2)"}
    assert computed(text)[1] == found
    for mixed in ("concat_ws('/', a.name, b.name)", "md5(name)", "md5('x')", "md5(MAX(a.name))"):
        assert computed(f"SELECT {mixed} AS x FROM a [1 s], b [1 s] WHERE a.key = b.key")[1] == {}
    inside = "SELECT t.n FROM (SELECT md5(name) AS n FROM a) t WHERE md5(t.n) = 'x'"
    assert computed(inside)[1] == {"a.md5_name": "MD5(name)"}


def test_columns_of_a_stream_keep_their_names() -> None:
    columns = {"s": ["name", "md5_name"]}
    assert [one.name for one in without_functions("SELECT md5(name) FROM s", columns)[1]] == ["md5_name_2"]
    (found,) = without_functions("SELECT md5(`a b`.c::string) FROM s", columns)[1]
    assert found.sql == "MD5(CAST(`a b`.c AS string))"


def test_without_spark_it_is_refused_with_the_remedy() -> None:
    with pytest.raises(QueryError, match="is not offered; on Spark, sw"):
        bound("SELECT md5(name) FROM s")
