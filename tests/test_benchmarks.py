"""The rule by which `make bench` says that a kernel has become slower."""

import numpy as np
import pytest

from benchmarks import core, trees
from benchmarks.comparing import ALLOWED, FEWEST, MOST, interval, judge, measured


def noisy(ratio: float, noise: float, seed: int) -> np.ndarray:
    """Ratios of pairs of runs, of which one in five was disturbed by something else on the machine."""
    rng = np.random.default_rng(seed)
    disturbed = np.where(rng.random((2, MOST)) < 0.2, 1 + 3 * rng.random((2, MOST)), 1.0)
    return ratio * np.exp(rng.normal(0, noise, MOST)) * disturbed[0] / disturbed[1]


def decided(ratios):
    for n in range(1, MOST + 1):
        judged = judge(ratios[:n])
        if judged.decided:
            return judged, n
    raise AssertionError("undecided for ever")


def test_equal_trees_are_told_equal_after_few_pairs_on_a_quiet_machine():
    judged, pairs = decided([1.0, 1.01, 0.99, 1.0, 1.02, 0.98, 1.0, 1.01] * 5)
    assert (judged.slower, pairs) == (False, FEWEST)


def test_a_loss_of_a_tenth_is_found_after_few_pairs_on_a_quiet_machine():
    judged, pairs = decided([1.1, 1.11, 1.09, 1.1, 1.12, 1.08, 1.1, 1.11] * 5)
    assert (judged.slower, pairs) == (True, FEWEST)


def test_a_single_disturbed_run_decides_nothing():
    assert not judge([1.0, 1.0, 1.0, 5.0, 1.0, 1.0, 1.0, 1.0]).decided
    judged, _ = decided([1.0, 1.0, 1.0, 5.0] + [1.0] * 36)
    assert not judged.slower


def test_before_there_are_enough_pairs_nothing_is_decided():
    assert not any(judge([2.0] * n).decided for n in range(1, FEWEST))


def test_more_pairs_narrow_the_interval():
    ratios = noisy(1.0, 0.05, seed=1)
    widths = [np.subtract(*interval(ratios[:n])[::-1]) for n in (8, 20, 40)]
    assert widths == sorted(widths, reverse=True)


def test_an_undecided_kernel_is_judged_by_its_median_at_the_end():
    ratios = [ALLOWED + 0.01, ALLOWED - 0.02] * (MOST // 2 - 1) + [ALLOWED + 0.01] * 2
    judged, pairs = decided(ratios)
    assert judged.low < ALLOWED < judged.high
    assert (judged.slower, pairs) == (True, MOST)


@pytest.mark.parametrize(("ratio", "least", "most"), [(1.0, 0, 4), (1.1, 190, 200), (1.2, 198, 200)])
def test_on_a_noisy_machine_a_verdict_is_seldom_wrong(ratio, least, most):
    slower = sum(decided(noisy(ratio, 0.05, seed))[0].slower for seed in range(200))
    assert least <= slower <= most


def test_either_tree_runs_first_as_often_as_the_other():
    order = []
    seconds = {"base": 1.0, "now": 1.02}
    judged, base, now = measured(*((lambda name=name: order.append(name) or seconds[name]) for name in ("base", "now")))
    first = order[::2]
    assert (len(base), len(now), judged.ratio) == (FEWEST, FEWEST, 1.02)
    assert first.count("base") == first.count("now")


@pytest.mark.parametrize(("after", "code"), [(1.0, 0), (1.04, 0), (1.2, 1)])
def test_the_benchmarks_fail_beyond_a_twentieth_of_what_the_base_takes(monkeypatch, capsys, tmp_path, after, code):
    asked = []

    class Played:
        """A process of a tree, in which a run takes so long."""

        def __init__(self, tree):
            self._tree = tree

        def ask(self, line):
            return ["replay sum"]

        def open(self, name, tuples):
            return {"results": 1, "pairs": 0}

        def run(self):
            asked.append(self._tree)
            return after if self._tree == core.TREE else 1.0

        def close(self):
            """Nothing runs."""

    monkeypatch.setattr(core, "Side", Played)
    monkeypatch.setattr(core, "base_tree", lambda name: tmp_path / name)
    monkeypatch.setattr("sys.argv", ["core", "--quick", "--base", "before", "replay sum"])
    assert core.main() == code
    assert "before" in capsys.readouterr().out
    assert asked.count(core.TREE) == asked.count(tmp_path / "before") == FEWEST * (1 + code), "a loss is measured twice"


def test_the_base_is_the_last_tag_and_until_there_is_one_a_commit_of_this_history():
    tags = trees._git("tag", "--merged").split()
    assert (
        (trees.base_name() in tags)
        if tags
        else trees._git("merge-base", "--is-ancestor", trees.base_name(), "HEAD") == ""
    )
