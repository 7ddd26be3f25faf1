"""The demo shows numbers of real runs, the same for every seed, fast or in slow motion, and ends when told to."""

import io
import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from slackwater.cli import demo
from slackwater.cli.app import app, main
from slackwater.cli.demo import DEFAULT_SECONDS, TARGETS, play, query_text, true_pairs, ways_of
from slackwater.cli.demo_race import TUPLE_RELEASE, LocalContender, micro_batches, race
from slackwater.cli.demo_view import Outcome, Truth, frame, in_words, own_ledger, percent, recent_recall
from slackwater.cli.prepare import LOCAL, SPARK, Local, prepare
from slackwater.cli.verify import verify_query
from slackwater.core.errors import UsageError
from slackwater.core.measured import MeasuredQuality
from slackwater.core.quality import Complete, Delay, NoWait
from slackwater.core.time import SECOND
from slackwater.language.bind import bind
from slackwater.observe.value import QueryProgress, nothing_observed
from slackwater.plan.planner import plan
from slackwater.runtime.local.run import LocalRun
from slackwater.sources.files import schema_of
from slackwater.sources.replay import replay
from slackwater.workloads import Workload, positions, write

SHORT = 5
FOR_EVER = 1000.0
TARGET = TARGETS[LOCAL]


def quiet_console() -> Console:
    return Console(file=io.StringIO(), width=80)


def printed(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def schemas_of(streams):
    return {name: schema_of(name, table, "ts") for name, table in streams.items()}


def contenders_of(streams):
    plans = [plan(bind(query_text(way), schemas_of(streams)).query, count_only=True) for way in ways_of(TARGET)]
    contenders = [LocalContender(physical, replay(physical, streams, "ms")) for physical in plans]
    return contenders, sum(table.num_rows for table in streams.values())


@pytest.fixture(scope="module")
def short_game():
    return positions(0, SHORT / 60).streams


@pytest.fixture(scope="module")
def telling_game():
    console = quiet_console()
    return play(60, 0, console), printed(console)


def test_the_target_is_met_with_a_fraction_of_the_waiting_of_complete(telling_game):
    none, asked, most = telling_game[0]
    assert none.recall < 0.6 < TARGET.target < asked.recall <= most.recall <= 1
    assert none.latency < asked.latency < most.latency / 20
    assert none.latency_p95 < asked.latency_p95 < most.latency_p95 / 20
    assert none.slack < asked.slack < most.slack / 10
    assert none.late > asked.late > most.late


def test_the_contender_with_a_target_knows_its_recall_without_the_truth(telling_game):
    none, asked, most = telling_game[0]
    assert asked.measured == asked.recall
    assert asked.fulfilment > 0.9
    assert (none.measured, most.measured) == (None, None)


def test_the_summary_prints_what_was_measured(telling_game):
    outcomes, text = telling_game
    for one in outcomes:
        name = one.name.partition(" OVER")[0]
        line = next(line for line in text.splitlines() if line.startswith(f" {name} "))
        assert f"{one.results:,}" in line
        assert percent(one.recall) in line
        assert f"{one.late:,}" in line
    assert f"{outcomes[0].true_results:,} pairs are true" in text
    assert in_words(*outcomes) in " ".join(text.split())
    assert own_ledger(outcomes[1], TARGET.over) in " ".join(text.split())
    assert "asked for 95 %, got" in " ".join(text.split())
    assert "WITH DELAY 1 SECOND" in text
    assert "longer game" not in text


def test_no_line_of_the_summary_is_wider_than_80_columns(telling_game):
    assert max(map(len, telling_game[1].splitlines())) <= 80


def test_a_seed_gives_the_same_text_twice_and_another_seed_another():
    first, again, other = quiet_console(), quiet_console(), quiet_console()
    assert play(SHORT, 3, first) == play(SHORT, 3, again)
    play(SHORT, 4, other)
    assert printed(first) == printed(again) != printed(other)


def test_true_pairs_are_those_of_an_independent_engine(short_game, tmp_path):
    write(Workload("game", short_game, query_text("COMPLETE")), tmp_path)
    files = [f"{name}={tmp_path / name}.parquet" for name in short_game]
    prepared = prepare(tmp_path / "query.sql", files, "ts", "ms", {})
    verified = verify_query(prepared, Local(TUPLE_RELEASE), True, None, None, SECOND, True)
    assert true_pairs(short_game, SHORT).total == verified.verdict.true_results > 0


def test_slow_motion_ends_in_the_same_numbers_as_full_speed(short_game):
    ends = []
    for seconds in (0.0, 0.6):
        contenders, tuples = contenders_of(short_game)
        begun = time.monotonic()
        reports = race(contenders, tuples, seconds)
        assert time.monotonic() - begun >= seconds
        ends.append([Outcome.of(report, 1) for report in reports])
    assert ends[0] == ends[1]


def test_the_live_table_moves_on_a_terminal(monkeypatch):
    monkeypatch.setattr(demo, "LIVE_SECONDS", 0.5)
    live, fast = (Console(file=io.StringIO(), width=80, force_terminal=True, color_system=None) for _ in range(2))
    assert play(SHORT, 0, live) == play(SHORT, 0, fast, fast=True)
    positions_shown = {line for line in printed(live).splitlines() if "tuples in" in line and "event time" in line}
    assert len(positions_shown) > 2
    assert "held to be sorted" in printed(live)
    assert "held to be sorted" not in printed(fast)


def seen_at(clock, tuples, results, slack, latency, late, held, measured=None):
    quality = None if measured is None else MeasuredQuality("results", 0.95, good=measured, bad=1 - measured)
    observed = replace(
        nothing_observed(2), clocks=(clock, clock), tuples=tuples, results=results, slack=slack, late=late, held=held,
        watermark=clock - latency, quality=quality,
    )  # fmt: skip
    return QueryProgress(observed=observed)


def test_a_frame_shows_every_contender_in_80_columns():
    truth = Truth(np.array([10, 40, 60]) * SECOND, np.array([2_000_000, 2_400_000, 2_500_000]))
    waiting = seen_at(73 * SECOND, 500, 1_250_000, 0, 20_000, 4_321, 12)
    behind = seen_at(73 * SECOND, 480, 2_300_000, 26_300_000, 26_330_000, 145, 14_386)
    early = seen_at(12 * SECOND, 80, 2_000_000, 0, 20_000, 5, 12, 0.99)
    asked = seen_at(73 * SECOND, 480, 2_250_000, 40_000, 50_000, 145, 14, 0.96)
    contenders = [
        SimpleNamespace(name="NO WAIT", quality=NoWait(), progress=[waiting]),
        SimpleNamespace(name=str(TARGET), quality=TARGET, progress=[early, asked]),
        SimpleNamespace(name="COMPLETE", quality=Complete(), progress=[behind]),
        SimpleNamespace(name="DELAY 1 s", quality=Delay(SECOND), progress=[]),
    ]
    console = quiet_console()
    for shown_together in (contenders[:3], contenders[1:]):
        console.print(frame(shown_together, 0, 120 * SECOND, 1000, truth, 60 * SECOND))
    lines = printed(console).splitlines()
    cells = {line[1:20].strip(): line[20:].split("  ") for line in lines[: len(lines) // 2]}
    shown = {name: [cell.strip() for cell in row if cell.strip()] for name, row in cells.items()}
    assert lines[0].startswith("event time 1:13 of 2:00")
    assert "500 tuples in" in lines[0]
    assert shown["asked for"] == ["-", "95 %", "-"]
    assert shown["pairs found"] == ["1,250,000", "2,250,000", "2,300,000"]
    assert shown["recall, last 1 min"] == ["50.0 %", "50.0 %", "95.8 %"]
    assert shown["by its own ledger"] == ["-", "96.0 %", "-"]
    assert shown["slack"] == ["0 s", "40 ms", "26.3 s"]
    assert shown["latency now"] == ["20 ms", "50 ms", "26.3 s"]
    assert shown["late tuples"] == ["4,321", "145", "145"]
    assert shown["held to be sorted"] == ["12", "14", "14,386"]
    assert shown["recall, █ 100 %"] == ["········▅·······", "·█·····▅········", "·······█········"]
    assert shown["slack, █ 26.3 s"] == ["········▁·······", "·▁·····▁········", "·······█········"]
    assert shown["latency, █ 26.3 s"] == ["········▁·······", "·▁·····▁········", "·······█········"]
    assert max(map(len, lines)) <= 80


def test_recall_over_time_ends_in_that_of_the_run(short_game):
    contenders, tuples = contenders_of(short_game)
    reports = race(contenders, tuples, 0.0)
    truth = true_pairs(short_game, SHORT)
    for contender, report in zip(contenders, reports, strict=True):
        over_all = recent_recall(contender.progress, truth, 10 * SHORT * SECOND)
        assert over_all[-1] == report.observation.results / truth.total
        assert all(recall is None or 0 <= recall <= 1 for recall in over_all)


def test_a_figure_is_drawn_on_demand(tmp_path):
    console = quiet_console()
    picture = tmp_path / "race.png"
    play(SHORT, 0, console, figure=picture)
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "race.png" in printed(console).replace("\n", "")
    for wrong, why in ((tmp_path / "race.txt", "ends in .png"), (tmp_path / "no" / "race.png", "no folder")):
        with pytest.raises(UsageError, match=why):
            play(SHORT, 0, quiet_console(), figure=wrong)


def test_an_interrupt_ends_every_run_of_the_race_at_once(short_game):
    contenders, tuples = contenders_of(short_game)

    def interrupt():
        raise KeyboardInterrupt

    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        race(contenders, tuples, FOR_EVER, interrupt)
    assert time.monotonic() - begun < 30
    assert all(contender.progress[-1].observed.tuples < tuples for contender in contenders)


def test_a_contender_that_fails_ends_the_race_with_its_error(short_game, monkeypatch):
    contenders, tuples = contenders_of(short_game)

    def fail(pace):
        raise ValueError("broken")

    monkeypatch.setattr(contenders[1], "run", fail)
    with pytest.raises(ValueError, match="broken"):
        race(contenders, tuples, FOR_EVER)


def test_an_interrupted_demo_says_so_and_shows_no_summary(monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(demo, "race", interrupted)
    console = quiet_console()
    with pytest.raises(KeyboardInterrupt):
        play(SHORT, 0, console)
    assert printed(console).rstrip().endswith("interrupted before the end of the game")


def test_a_game_that_is_too_short_is_refused():
    with pytest.raises(UsageError, match="at least 5 seconds"):
        play(4, 0, quiet_console())


def test_the_command_plays_a_short_game_and_says_that_it_is_short():
    result = CliRunner().invoke(app, ["demo", "--seconds", str(SHORT), "--seed", "1", "--fast", "--runtime", "local"])
    assert result.exit_code == 0
    assert "dist(a.x, a.y, b.x, b.y) < 5" in result.stdout
    assert "NO WAIT answered after" in result.stdout
    assert "longer game" in result.stdout


def in_micro_batches(streams, seconds):
    """What the demo on Spark comes to, but for delays, which are told there to 10 ms."""
    true = true_pairs(streams, seconds, micro_batches(seconds)).total
    for way in ways_of(TARGETS[SPARK]):
        physical = plan(bind(query_text(way), schemas_of(streams)).query, count_only=True)
        local = LocalRun(physical, replay(physical, streams, "ms"), micro_batches(seconds))
        for _ in local.tables():
            pass
        yield Outcome.of(local.report(), true)


def test_in_the_micro_batches_of_spark_too_the_target_is_met_with_far_less_waiting_than_complete():
    seconds = DEFAULT_SECONDS[SPARK]
    none, asked, most = in_micro_batches(positions(0, seconds / 60).streams, seconds)
    assert none.recall < TARGETS[SPARK].target < asked.recall < most.recall
    # The game lasts for three periods, and its first long burst is like nothing before it: some of them miss it.
    assert asked.fulfilment > 0.75
    assert 0 < asked.slack < most.slack / 2
    assert none.latency < asked.latency < most.latency / 2


@pytest.mark.xdist_group("spark")
def test_on_spark_the_live_table_moves_and_the_summary_is_right(spark, short_game):
    console = Console(file=io.StringIO(), width=80, force_terminal=True, color_system=None)
    try:
        outcomes = play(SHORT, 0, console, runtime="spark")
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", "2")
    shown = {line for line in printed(console).splitlines() if "tuples in" in line and "event time" in line}
    assert len(shown) > 2
    assert "micro-batches of 1 s" in printed(console)
    for way, outcome, expected in zip(
        ways_of(TARGETS[SPARK]), outcomes, in_micro_batches(short_game, SHORT), strict=True
    ):
        assert (outcome.results, outcome.late, outcome.recall) == (expected.results, expected.late, expected.recall)
        assert (outcome.target, outcome.measured) == (expected.target, expected.measured)
        assert outcome.slack == expected.slack or way != "NO WAIT"


def test_without_java_the_demo_names_the_remedy_and_ends_with_2(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr("sys.argv", ["slackwater", "demo", "--fast"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    reported = " ".join(capsys.readouterr().err.split())
    assert "Java 17 or newer is not found" in reported
    assert reported.endswith("or play without Spark: slackwater demo --runtime local")
