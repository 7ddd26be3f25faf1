"""What experiments measure is what they say they measure."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from papers.experiments.changes import AT_S, periods_until_back, slack_after
from papers.experiments.fulfilment import errors, least_slack, recalls, share_at_least, share_at_most
from papers.experiments.recorded_streams import FOLDER, RECORDINGS, folder_of_recordings, recorded
from papers.experiments.stages import STRAGGLER_MS, Stage, changed
from papers.experiments.trials import answer, truth
from papers.workloads import WORKLOADS
from slackwater.core.errors import UsageError

SHORT = Stage("dsyn3", seed=1, minutes=0.5)


def test_recall_per_period_agrees_with_a_count_period_by_period() -> None:
    rng = np.random.default_rng(0)
    true = {second: float(rng.integers(0, 9)) for second in range(40, 90)}
    made = {second: float(rng.integers(0, count + 1)) for second, count in true.items()}
    ends, found = recalls(made, true, period=7)
    slow = {}
    for end in range(48, 91):
        should = sum(true[second] for second in range(end - 7, end))
        if should:
            slow[end] = sum(made[second] for second in range(end - 7, end)) / should
    assert ends.tolist() == list(slow)
    assert found == pytest.approx(list(slow.values()))


def test_a_stream_no_longer_than_one_period_has_no_recall() -> None:
    assert len(recalls({1: 1.0}, {1: 1.0, 5: 1.0}, period=5)[1]) == 0
    assert np.isnan(share_at_least(np.zeros(0), 0.9))


def test_a_window_that_was_never_emitted_meets_no_bound() -> None:
    assert share_at_most(errors({}, {1: 2.0, 2: 3.0}), 1e9) == 0.0


def test_the_truth_is_at_least_what_any_waiting_finds_and_all_of_it_when_nothing_is_late() -> None:
    none, some = answer(SHORT, "NO WAIT"), answer(SHORT, "DELAY 100 MILLISECONDS")
    everything = truth(SHORT)
    assert sum(none.by_time.values()) < sum(some.by_time.values()) < sum(everything.values())
    assert all(count <= everything[second] for second, count in some.by_time.items())
    assert answer(SHORT, "DELAY 21 SECONDS").by_time == everything


def test_epochs_put_in_order_for_free_what_arrives_together_and_the_truth_stays_the_same() -> None:
    in_epochs = replace(SHORT, epoch_ms=500)
    assert truth(in_epochs) == truth(SHORT)
    found, each = answer(in_epochs, "NO WAIT"), answer(SHORT, "NO WAIT")
    assert sum(each.by_time.values()) < sum(found.by_time.values()) < sum(truth(SHORT).values())
    assert found.latency_ms > each.latency_ms + 100


def test_a_recording_that_is_absent_is_refused_with_its_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(FOLDER, str(tmp_path))
    with pytest.raises(UsageError, match=f"no binance_hft.parquet in {tmp_path}; set {FOLDER}"):
        recorded("binance")


@pytest.mark.parametrize("name", RECORDINGS)
def test_a_recording_is_joined_as_it_stands(name: str) -> None:
    if not (folder_of_recordings() / f"{RECORDINGS[name].file}.parquet").exists():
        pytest.skip(f"recorded streams are absent; set {FOLDER} to their folder")
    stage = Stage(name)
    assert sum(truth(stage).values()) > sum(answer(stage, "NO WAIT").by_time.values()) > 0


def test_every_choice_of_slack_is_noted_and_timed() -> None:
    found = answer(SHORT, "RECALL 0.9 OVER 10 SECONDS")
    assert len(found.slack_over_time) == len(found.adaptation_ms) > 20
    assert all(took > 0 for took in found.adaptation_ms)
    assert 0 < found.learning_ms < 1000 * found.report["seconds"]
    times = [at for at, _ in found.slack_over_time]
    assert times == sorted(times)


def test_the_clairvoyant_constant_is_enough_and_one_step_less_is_not() -> None:
    tried = []

    def meets(slack: int) -> bool:
        tried.append(slack)
        return slack >= 1234

    assert least_slack(meets, 10) == 1240
    assert {1230, 1240} <= set(tried)


def test_a_change_leaves_the_streams_before_it_as_they_were() -> None:
    plain = WORKLOADS["dsyn3"](seed=2, minutes=6).streams["s1"]["ts"].to_numpy()
    before = 5 * 6000
    for change in ("delays x10", "rate x10", "straggler"):
        other = changed("dsyn3", 2, 6.0, change).streams["s1"]["ts"].to_numpy()
        assert (other[:before] == plain[:before]).all()
        assert (other[before : len(plain)] != plain[before:]).any()


def test_ten_times_the_rate_is_ten_times_the_tuples_and_ends_at_the_same_minute() -> None:
    plain = WORKLOADS["dsyn3"](seed=2, minutes=6).streams["s2"]["ts"].to_numpy()
    faster = changed("dsyn3", 2, 6.0, "rate x10").streams["s2"]["ts"].to_numpy()
    assert len(faster) - len(plain) == 9 * 6000
    assert abs(int(faster.max()) - int(plain.max())) <= 10


def test_exactly_one_tuple_is_the_straggler() -> None:
    plain = WORKLOADS["dsyn3"](seed=2, minutes=6).streams
    other = changed("dsyn3", 2, 6.0, "straggler").streams
    differing = {name: np.flatnonzero(plain[name]["ts"].to_numpy() != other[name]["ts"].to_numpy()) for name in plain}
    assert [len(rows) for rows in differing.values()] == [1, 0, 0]
    row = int(differing["s1"][0])
    ts = other["s1"]["ts"].to_numpy()
    assert 0 <= ts[:row].max() - ts[row] - (STRAGGLER_MS - 10) <= 10


def test_an_unknown_change_is_refused() -> None:
    with pytest.raises(UsageError, match="no change"):
        changed("dsyn3", 0, 6.0, "flood")


def test_back_means_a_whole_period_without_a_miss() -> None:
    recall = [(AT_S + t, 0.5 if t in (10, 65) else 1.0) for t in range(180)]
    assert periods_until_back(recall, 0.9) == pytest.approx(66 / 60)
    assert periods_until_back(recall[:100], 0.9) is None


def test_slack_after_the_change_is_weighted_by_time() -> None:
    assert slack_after([(AT_S - 10, 5.0), (AT_S, 100.0), (AT_S + 10, 20.0), (AT_S + 40, 0.0)]) == pytest.approx(40.0)


def test_a_part_of_a_velocity_stream_is_a_stretch_of_its_arrivals() -> None:
    whole = Stage("velocity1", window_s=1.0).streams.streams["s"]
    part = Stage("velocity1", minutes=1.0, window_s=1.0).streams.streams["s"]
    first = int(part["arrival"][0].as_py())
    assert part.equals(whole.slice(first, part.num_rows))
    assert 59_000 <= part["ts"].to_numpy().max() - part["ts"].to_numpy().min() <= 66_000
