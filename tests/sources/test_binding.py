"""Binding to tables: columns no query can read are never passed over in silence."""

import pyarrow as pa
import pytest

import slackwater as sw
from slackwater.core.errors import QueryError

ODD = pa.table({"ts": [1, 2], "v": [10, 20], "tags": [["a"], ["b"]]})


def test_naming_a_column_that_no_query_can_read_says_so():
    with pytest.raises(QueryError, match=r"column 'tags' of stream s holds list<.*>, which a query cannot read"):
        sw.replay("SELECT tags FROM s", {"s": ODD})


def test_a_star_leaves_such_a_column_out_with_a_word():
    with pytest.warns(UserWarning, match=r"s\.tags \(list<.*>\) is left out"):
        answer = sw.replay("SELECT * FROM s", {"s": ODD})
    assert answer.results.column_names == ["ts", "v", "_ts"]
