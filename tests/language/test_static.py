"""Static relations taken out of a query: what is left says the same of the widened stream, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slackwater.core.errors import QueryError
from slackwater.language.static import StaticJoin, without_static

ON = StaticJoin("o", "people", "c", (("by", "id"),))


@pytest.mark.parametrize(
    ("text", "left", "joins"),
    [
        ("SELECT o.v FROM o, p WHERE o.k = p.k", None, ()),
        ("SELECT c.name FROM o LEFT JOIN people AS c ON c.id = (o.by)", "SELECT c.name FROM o", (ON,)),
        (
            "SELECT c.name FROM o JOIN People c ON o.by = c.id WHERE o.v > 1 OR c.age < 3 WITH NO WAIT",
            'SELECT c.name FROM o WHERE (o.v > 1 OR c.age < 3) AND "c"."id" IS NOT NULL WITH NO WAIT',
            (ON,),
        ),
        (
            "SELECT o.v FROM o [5 s] JOIN people c ON o.by = c.id JOIN p [1 s] ON o.k = p.k"
            " LEFT JOIN people d ON p.x = d.y",
            'SELECT o.v FROM o [RANGE 5 s] JOIN p [RANGE 1 s] ON o.k = p.k WHERE "c"."id" IS NOT NULL',
            (ON, StaticJoin("p", "people", "d", (("x", "y"),))),
        ),
        (
            "WITH j AS (SELECT o.v FROM o JOIN people c ON o.by = c.id AND o.x = c.y) SELECT v FROM j"
            " UNION ALL SELECT v FROM p",
            'WITH j AS (SELECT o.v FROM o WHERE "c"."id" IS NOT NULL AND "c"."y" IS NOT NULL) SELECT v FROM j'
            " UNION ALL SELECT v FROM p",
            (StaticJoin("o", "people", "c", (("by", "id"), ("x", "y"))),),
        ),
    ],
)
def test_what_is_left_of_a_query(text, left, joins):
    assert without_static(text, ["people"]) == (left or text, joins)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT c.name FROM people c JOIN o ON o.by = c.id", "stands behind JOIN or LEFT JOIN"),
        ("SELECT c.name FROM o, people c WHERE o.by = c.id", "stands behind JOIN or LEFT JOIN"),
        ("SELECT c.name FROM o RIGHT JOIN people c ON o.by = c.id", "stands behind JOIN or LEFT JOIN"),
        ("SELECT c.name FROM o ASOF JOIN people c ON o.by = c.id", "stands behind JOIN or LEFT JOIN"),
        ("SELECT c.name FROM o JOIN people c [5 SECONDS] ON o.by = c.id", "leave out the window"),
        ("SELECT c.name FROM o JOIN people c USING (id)", "write ON"),
        ("SELECT c.name FROM o JOIN people c ON o.by > c.id", "write other conditions in WHERE"),
        ("SELECT c.name FROM o JOIN people c ON o.by = c.id OR o.v = c.id", "write other conditions in WHERE"),
        ("SELECT c.name FROM o JOIN people c ON upper(o.by) = c.id", "write other conditions in WHERE"),
        ("SELECT c.name FROM o JOIN people c ON by = id", "write other conditions in WHERE"),
        ("SELECT 1 FROM o [1 s] JOIN p [1 s] ON o.k = p.k JOIN people c ON o.a = c.a AND p.b = c.b", "of one stream"),
        ("SELECT 1 FROM (SELECT v FROM o) j JOIN people c ON j.v = c.id", "not with a sub-query"),
        ("SELECT 1 FROM o a [1 s] JOIN o b [1 s] ON a.k = b.k JOIN people c ON a.by = c.id", "read more than once"),
        ("SELECT 1 FROM o [1 s] FULL JOIN p [1 s] ON o.k = p.k JOIN people c ON o.by = c.id", "write LEFT JOIN c"),
    ],
)
def test_what_is_refused_is_said_in_one_sentence(text, said):
    with pytest.raises(QueryError) as refused:
        without_static(text, ["people"])
    assert said in refused.value.message


def test_a_stream_that_others_read_has_a_name_of_its_own_where_it_is_joined():
    text = "SELECT x.v, c.name FROM o x LEFT JOIN people c ON x.by = c.id JOIN p [1 s] ON x.k = p.k"
    name = "o JOIN people c ON by = id"
    left, joins = without_static(text, ["people"], apart=True)
    assert left == f'SELECT x.v, c.name FROM "{name}" AS "x" JOIN p [RANGE 1 s] ON x.k = p.k'
    assert joins == (replace(ON, read_as=name),)
