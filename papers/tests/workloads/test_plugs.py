import numpy as np
import pyarrow as pa
import pytest

from papers.workloads import Delays, smart_plugs
from papers.workloads.plug_queries import PLUG_QUERIES, averages_over
from slackwater.core.errors import UsageError
from slackwater.expressions.relational import Join, operators, scans
from slackwater.language.bound import InstantQuery
from slackwater.sources.binding import bind_to_tables
from slackwater.workloads import disorder_statistics


@pytest.fixture(scope="module")
def stream():
    return smart_plugs(minutes=0.5, plugs=50).streams["plugs"]


def test_a_thousand_plugs_send_2000_tuples_a_second():
    table = smart_plugs(minutes=0.1).streams["plugs"]
    seconds = np.bincount((table["ts"].to_numpy() - table["ts"][0].as_py()) // 1000)
    assert seconds.tolist() == [2000] * 6


def test_every_plug_reports_work_and_load_once_a_second(stream):
    columns = ("ts", "house", "household", "plug", "property")
    rows = set(zip(*(stream[name].to_pylist() for name in columns), strict=True))
    assert len(rows) == stream.num_rows == 50 * 2 * 30
    assert len({row[1:4] for row in rows}) == 50


def test_work_grows_by_the_load_and_never_shrinks(stream):
    house, household, plug, kind, value = (
        stream[name].to_numpy() for name in ("house", "household", "plug", "property", "value")
    )
    first = (house == house[0]) & (household == household[0]) & (plug == plug[0])
    work, load = value[first & (kind == 0)], value[first & (kind == 1)]
    assert (np.diff(work) >= 0).all()
    assert work[-1] - work[0] == pytest.approx(load[1:].sum() / 3.6e6, abs=2e-5)


def test_some_plugs_are_on_and_some_are_off(stream):
    load = stream["value"].to_numpy()[stream["property"].to_numpy() == 1]
    assert load.min() == 0
    assert 0.2 < (load > 0).mean() < 0.9


def test_plugs_are_in_order_unless_disorder_is_asked_for(stream):
    assert disorder_statistics(stream["ts"].to_numpy()).out_of_order == 0
    late = smart_plugs(minutes=0.5, plugs=50, disorder=Delays(0.2, 5000)).streams["plugs"]
    found = disorder_statistics(late["ts"].to_numpy())
    assert found.out_of_order > 100
    assert 1000 <= found.max_delay_ms <= 6000


def test_disorder_changes_the_order_and_nothing_else(stream):
    late = smart_plugs(minutes=0.5, plugs=50, disorder=Delays(0.2, 5000)).streams["plugs"].drop_columns("arrival")
    by = [(name, "ascending") for name in late.column_names]
    assert late.sort_by(by).equals(stream.drop_columns("arrival").sort_by(by))


def test_the_columns_are_those_of_the_recorded_data(stream):
    recorded = {"property": pa.int8(), "plug": pa.int16(), "household": pa.int16(), "house": pa.int16()}
    recorded |= {"arrival": pa.int64(), "ts": pa.int64(), "value": pa.float32()}
    assert {field.name: field.type for field in stream.schema} == recorded


@pytest.mark.parametrize("plugs", [0, -1, 2**15 + 1])
def test_a_number_of_plugs_that_cannot_be_is_refused(plugs):
    with pytest.raises(UsageError, match="plugs"):
        smart_plugs(plugs=plugs)


@pytest.mark.parametrize(("name", "windows"), [("q1", 2), ("q2", 2), ("q3", 2), ("q4", 2), ("q5", 1), ("q6", 3)])
def test_each_of_the_six_queries_binds_and_reads_loads_alone(stream, name, windows):
    query = bind_to_tables(PLUG_QUERIES[name], {"plugs": stream}, "ts").query
    assert isinstance(query, InstantQuery)
    assert [len(one.filters) for one in query.streams] == [1] * windows
    assert query.slide == 1_000_000
    assert all("property" not in [column.name for column in scan.columns] for scan in scans(query.relation))


def test_averages_over_eight_windows_are_seven_joins(stream):
    query = bind_to_tables(averages_over(range(1, 9)), {"plugs": stream}, "ts").query
    assert sum(isinstance(one, Join) for one in operators(query.relation)) == 7
    assert [scan.range for scan in scans(query.relation)] == [minutes * 60_000_000 for minutes in range(1, 9)]
