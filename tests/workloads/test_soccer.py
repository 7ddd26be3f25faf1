import numpy as np
import pytest

from slackwater.core.errors import UsageError
from slackwater.workloads import EPOCH_MS, disorder_statistics, positions
from slackwater.workloads.soccer import play
from slackwater.workloads.workload import delays


def times(table):
    return table["ts"].to_numpy()


@pytest.fixture(scope="module")
def game():
    return positions()


@pytest.mark.parametrize(("stream", "max_delay_ms"), [("s1", 22_000), ("s2", 26_300)])
def test_the_positions_have_the_published_size_and_largest_delay(game, stream, max_delay_ms):
    found = disorder_statistics(times(game.streams[stream]))
    assert found.tuples == pytest.approx(450_000, rel=0.01)
    assert found.duration_ms == pytest.approx(23 * 60_000, rel=0.01)
    assert found.max_delay_ms == max_delay_ms
    assert found.small_delay_share > 0.9
    assert found.correlated / found.out_of_order > 0.7


def test_large_delays_of_positions_are_rare_but_there(game):
    for table in game.streams.values():
        share = (delays(times(table)) > 1000).mean()
        assert 0.001 < share < 0.01


def test_players_stay_on_the_field_and_belong_to_one_team(game):
    teams = [set(np.unique(table["sid"].to_numpy()).tolist()) for table in game.streams.values()]
    assert teams == [set(range(1, 9)), set(range(9, 17))]
    for table in game.streams.values():
        x, y = table["x"].to_numpy(), table["y"].to_numpy()
        assert x.min() >= 0
        assert x.max() <= 105
        assert y.min() >= 0
        assert y.max() <= 68


def test_no_player_outruns_a_sprinter(game):
    for table in game.streams.values():
        for player in np.unique(table["sid"].to_numpy())[:3]:
            own = table.filter(table["sid"].to_numpy() == player).sort_by("ts")
            ts, x, y = (own[name].to_numpy() for name in ("ts", "x", "y"))
            moved = np.hypot(np.diff(x), np.diff(y))
            assert (moved <= 12 * np.diff(ts) / 1000 + 1e-6).all()


def test_players_of_two_teams_meet_now_and_then():
    grid = play(np.random.default_rng(3), 23 * 60_000).grid
    external_sync = np.linalg.norm(grid[:8, None] - grid[None, 8:], axis=-1)
    assert 0.005 < (external_sync < 5).mean() < 0.1


def test_the_two_teams_share_one_arrival_order(game):
    arrivals = [table["arrival"].to_numpy() for table in game.streams.values()]
    assert all((np.diff(arrival) > 0).all() for arrival in arrivals)
    assert (np.sort(np.concatenate(arrivals)) == np.arange(sum(map(len, arrivals)))).all()


def test_the_clocks_of_the_two_teams_stay_together(game):
    arrival = np.concatenate([table["arrival"].to_numpy() for table in game.streams.values()])
    clock = np.concatenate([np.maximum.accumulate(times(table)) for table in game.streams.values()])
    in_order = clock[np.argsort(arrival)]
    assert (np.maximum.accumulate(in_order) - in_order).max() < 1000


def test_a_short_game_keeps_its_event_times_inside_the_game():
    for table in positions(minutes=0.2).streams.values():
        assert times(table).min() >= EPOCH_MS
        assert times(table).max() <= EPOCH_MS + 12_000


def test_a_game_of_hardly_a_tuple_is_refused():
    with pytest.raises(UsageError, match="too few"):
        positions(minutes=0.0001)
