"""Every member of the zoo shows the disorder that it promises, and nothing else."""

import re
import runpy
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.core.errors import UsageError
from slackwater.workloads import EPOCH_MS, disorder
from tests.effort import tried

PAGE = (Path(__file__).parents[2] / "docs" / "disorder.md").read_text()
MODELS = {
    "exponential": disorder.exponential(),
    "heavy_tail": disorder.heavy_tail(),
    "bursts": disorder.bursts(),
    "shift": disorder.shift(disorder.exponential(), [(10, 20)]),
    "cycle": disorder.cycle(disorder.exponential(), every=30),
    "lag": disorder.lag([10, 70]),
    "offline": disorder.offline(share=0.2),
    "sum": disorder.exponential() + disorder.bursts() + disorder.lag([10]),
}


def rows(seed=0, count=2000):
    rng = np.random.default_rng(seed)
    ts = EPOCH_MS + np.sort(rng.integers(0, 120_000, count))
    return pa.table({"ts": ts, "v": np.arange(count), "source": rng.integers(0, 20, count)})


def column(workload, name, stream="a"):
    return workload.streams[stream][name].to_numpy()


def seconds(workload, name="sent", stream="a"):
    return (column(workload, name, stream) - EPOCH_MS) / 1000


def delay(workload, stream="a"):
    """How long each tuple took, in seconds; also where its clock is wrong."""
    return seconds(workload, "moment", stream) - seconds(workload, "sent", stream)


@pytest.mark.parametrize("name", MODELS)
@tried(10, deadline=None)
@given(seed=st.integers(0, 1000))
def test_delays_touch_no_event_time_and_lose_no_row(name, seed):
    table = rows(seed)
    arrived = disorder.apply(table, MODELS[name], seed)
    assert arrived.select(["ts", "v", "source"]).sort_by("v").equals(table)
    assert (arrived["moment"].to_numpy() >= arrived["ts"].to_numpy()).all()
    assert (np.diff(arrived["moment"].to_numpy()) >= 0).all()
    assert arrived["arrival"].to_pylist() == list(range(len(table)))


@pytest.mark.parametrize("name", MODELS)
def test_the_seed_decides(name):
    one, again, other = (disorder.apply(rows(), MODELS[name], seed) for seed in (3, 3, 4))
    assert one.equals(again)
    assert name == "lag" or not one.equals(other)  # a lag is not left to chance


def test_a_sum_keeps_the_delays_of_its_first_part():
    plain, more = (disorder.zoo(name, seed=2, minutes=2) for name in ("exponential", "ahead"))
    assert plain.streams["a"].drop_columns(["ts"]).equals(more.streams["a"].drop_columns(["ts"]))


def test_delays_added_up_are_delays():
    both = disorder.exponential() + disorder.heavy_tail()
    at = np.arange(1000.0)
    first = disorder.drawn(disorder.exponential(), at)
    assert (disorder.drawn(both, at) > first).all()
    assert disorder.drawn((both * 2).during(0, 500), at) == pytest.approx(2 * disorder.drawn(both, at) * (at < 500))


@pytest.mark.parametrize("code", re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL))
def test_what_the_page_shows_runs(code, tmp_path):
    (tmp_path / "block.py").write_text(code)
    runpy.run_path(str(tmp_path / "block.py"))


def test_the_page_shows_every_member_and_every_generator():
    words = " ".join(PAGE.split())
    for name, member in disorder.ZOO.items():
        assert f"**{name}**: {member.says}" in words
        assert f"](disorder/{name}.png)" in PAGE
    generators = set(disorder.__all__) - {"ZOO", "AddedDelay", "Disorder", "DisorderKind", "Sent", "ZooMember"}
    assert [name for name in generators if f"{name}(" not in PAGE] == []


def test_what_happens_at_a_time_happens_to_all_streams():
    late = disorder.apply_to_all({"one": rows(1), "other": rows(2)}, disorder.bursts(share=1.0), seed=0)
    stuck = []
    for table in late.values():
        ts, moment = table["ts"].to_numpy(), table["moment"].to_numpy()
        stuck.append(set(moment[moment > ts].tolist()))
    assert stuck[0] == stuck[1]
    assert 4 <= len(stuck[0]) <= 10


def test_timestamps_of_any_unit_keep_their_type():
    for kind in (pa.timestamp("us"), pa.timestamp("s"), pa.timestamp("ms", "UTC"), pa.int32()):
        table = pa.table({"when": pa.array([0, 1000, 2000]).cast(pa.int64())})
        if pa.types.is_timestamp(kind):
            table = pa.table({"when": table["when"].cast(pa.timestamp("ms", kind.tz)).cast(kind)})
        arrived = disorder.apply(table, disorder.exponential(1e-9), time="when")
        assert arrived["when"].to_pylist() == table["when"].to_pylist()
        assert arrived.schema.field("moment").type == table.schema.field("when").type


def test_sources_may_have_names():
    table = rows()
    named = table.set_column(2, "device", pa.array([f"device {n}" for n in table["source"].to_pylist()]))
    moved = disorder.apply(named, disorder.ahead(by=3600, sources=0.1), source="device")
    wrong = moved["device"].to_numpy()[moved["ts"].to_numpy() > EPOCH_MS + 3_600_000]
    assert len(set(wrong)) == 2


@pytest.mark.parametrize(
    ("table", "match"),
    [
        (pa.table({"x": [1]}), "no column 'ts'"),
        (pa.table({"ts": [1.5]}), "whole milliseconds"),
        (pa.table({"ts": pa.array([1, None])}), "nulls"),
    ],
)
def test_a_table_without_proper_times_is_refused(table, match):
    with pytest.raises(UsageError, match=match):
        disorder.apply(table, disorder.exponential())


def test_what_makes_no_sense_is_refused():
    with pytest.raises(UsageError, match="one delay a tuple"):
        disorder.apply(rows(), disorder.delays(lambda rng, at: np.full(len(at), -1.0)))
    with pytest.raises(UsageError, match="above 0"):
        disorder.apply(rows(), disorder.exponential(0))
    with pytest.raises(UsageError, match="overtake"):
        disorder.lag([0], lasts=30, peak=20)
    with pytest.raises(UsageError, match="no 'lions' in the zoo"):
        disorder.zoo("lions")
    with pytest.raises(UsageError, match="longest"):
        disorder.apply(rows(), disorder.offline(every=10))


@pytest.mark.parametrize("name", disorder.ZOO)
def test_members_share_their_tuples_and_ask_two_questions(name):
    workload = disorder.zoo(name, seed=1, minutes=3)
    plain = disorder.zoo("exponential", seed=1, minutes=3)
    for stream in "ab":
        table = workload.streams[stream]
        assert (table["v"].to_numpy() > 0).all()
        assert 40 <= len(table) / 180 <= 100
        assert np.isin(table["sent"].to_numpy(), plain.streams[stream]["sent"].to_numpy()).all()
        assert len(np.unique(table["key"].to_numpy())) == 30
        assert len(np.unique(table["source"].to_numpy())) == 50
    assert "RANGE 2 SECONDS" in workload.query
    assert "SUM(v)" in workload.further["sum"]


@pytest.mark.parametrize("name", disorder.ZOO)
def test_only_members_of_wrong_clocks_say_a_wrong_time(name):
    workload = disorder.zoo(name, minutes=6)
    wrong = column(workload, "ts") != column(workload, "sent")
    member = disorder.ZOO[name]
    if member.kind is disorder.DisorderKind.WRONG_CLOCKS:
        assert 0.01 < wrong.mean() < 0.05
    else:
        assert name == "drift" or not wrong.any()
        assert 1 / 12 <= member.known_after < 0.5


def test_exponential():
    taken = delay(disorder.zoo("exponential"))
    assert np.quantile(taken, [0.5, 0.99]) == pytest.approx([0.2 * np.log(2), 0.2 * np.log(100)], rel=0.1)


def test_heavy_tail():
    taken = delay(disorder.zoo("heavy_tail"))
    assert np.median(taken) == pytest.approx(0.1, rel=0.1)
    assert 3 < np.quantile(taken, 0.99) < 7
    assert 20 < taken.max() <= 30.001


def test_bursts():
    workload = disorder.zoo("bursts")
    taken = delay(workload)
    assert 0.02 < (taken > 1).mean() < 0.05  # 0.3 of the tuples of two seconds in twenty
    assert taken.max() < 4.5


@pytest.mark.parametrize("name", ["shift", "cycle"])
def test_delays_grow_tenfold_and_shrink_again(name):
    workload = disorder.zoo(name)
    minute, taken = seconds(workload) / 60, delay(workload)
    usual, grown = (0.1, 1.0)
    for middle in {"shift": (3, 7), "cycle": (2, 6, 10)}[name]:
        assert taken[abs(minute - middle) < 0.2].mean() == pytest.approx(grown, rel=0.15)
    for middle in {"shift": (1, 5, 10), "cycle": (4, 8)}[name]:
        assert taken[abs(minute - middle) < 0.2].mean() == pytest.approx(usual, rel=0.15)


def test_lagging_partition():
    workload = disorder.zoo("lagging_partition")
    second, taken, part = seconds(workload), delay(workload), column(workload, "source") % 4
    assert taken[part > 0].max() < 2
    lagging = second[taken > 2]
    assert [lagging[abs(lagging - 60 * begin - 30) < 30].size > 200 for begin in (2, 5, 8)] == [True] * 3
    assert all(any(60 * begin <= at <= 60 * begin + 60 for begin in (2, 5, 8)) for at in lagging)
    assert 19 < taken.max() < 22


def test_offline_devices_send_their_backlog_at_once():
    workload = disorder.zoo("offline", seed=1)
    taken, source, moment = delay(workload), column(workload, "source"), seconds(workload, "moment")
    kept = taken > 5
    assert len(np.unique(source[kept])) == 5
    for device in np.unique(source[kept]):
        uploads = np.unique(np.round(moment[kept & (source == device)] / 3))
        assert 3 <= len(uploads) <= 6  # three outages, the exponential delay on top of each
    assert 0.002 < kept.mean() < 0.02
    assert taken.max() < 62


def test_ahead():
    workload = disorder.zoo("ahead")
    offset = column(workload, "ts") - column(workload, "sent")
    assert set(offset) == {0, 1_800_000}
    assert len(np.unique(column(workload, "source")[offset > 0])) == 1
    assert 0.015 < (offset > 0).mean() < 0.025


def test_jumps():
    workload = disorder.zoo("jumps")
    offset = (column(workload, "ts") - column(workload, "sent")) / 1000
    far = offset[offset > 0]
    assert 0.025 < len(far) / len(offset) < 0.035
    assert far.min() < 3
    assert 2 * 86_400 < far.max() <= 3 * 86_400
    assert np.median(far) == pytest.approx(np.sqrt(3 * 86_400), rel=0.4)


def test_behind():
    ts, sent = (column(disorder.zoo("behind"), name) for name in ("ts", "sent"))
    years = np.array([datetime.fromtimestamp(at / 1000, UTC).year for at in ts.tolist()])
    assert set(years) == {1970, 2013}
    assert 0.001 < (years == 1970).mean() < 0.003
    assert set((sent - ts)[years == 2013]) == {0, 3 * 3_600_000}
    assert 0.015 < ((sent - ts) == 3 * 3_600_000).mean() < 0.025


def test_drift():
    workload = disorder.zoo("drift")
    offset = (column(workload, "ts") - column(workload, "sent")) / 1000
    assert 0.6 < abs(offset).max() <= 0.901
    one = column(workload, "source") == 7
    jumps = np.abs(np.diff(offset[one][np.argsort(column(workload, "sent")[one])]))
    assert (jumps > 0.05).sum() in (0, 3, 4, 5)  # it is set right every three minutes of twelve


def test_duplicates():
    table = disorder.zoo("duplicates").streams["a"]
    reported = np.unique(np.column_stack((table["ts"].to_numpy(), table["v"].to_numpy())), axis=0)
    assert len(reported) == 54_000
    assert 0.045 < len(table) / len(reported) - 1 < 0.055


def test_stop():
    workload = disorder.zoo("stop")
    silent = {}
    for stream in "ab":
        minutes = np.bincount((seconds(workload, stream=stream) // 60).astype(int), minlength=12)
        silent[stream] = np.flatnonzero(minutes == 0).tolist()
    assert silent == {"a": [8], "b": [5, 11]}
