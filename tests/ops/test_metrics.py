"""What a scrape finds: golden text, the rules of Prometheus, and nothing that is not known."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from prometheus_client import REGISTRY, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from slackwater.observe.metrics import METRICS, LatestProgress, metric_names, registry_of
from slackwater.observe.value import QueryProgress
from slackwater.observe.waiting import Waiting
from tests.ops.made import bare, made

GOLDEN = Path(__file__).parent / "golden" / "metrics.txt"
needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="no promtool: install the package prometheus of your system"
)


def scraped(*progress: QueryProgress) -> str:
    latest = LatestProgress()
    for one in progress:
        latest.publish(one)
    return generate_latest(registry_of(latest)).decode()


def test_a_scrape_gives_this_text() -> None:
    """To change it on purpose: `python -m tests.ops.test_metrics`."""
    assert scraped(made(), bare()) == GOLDEN.read_text()


@needs_promtool
@pytest.mark.parametrize("text", [scraped(), scraped(bare()), scraped(made(), bare(), made(query='odd "q"\\\n'))])
def test_promtool_finds_nothing_to_say_about_it(text: str) -> None:
    done = subprocess.run(["promtool", "check", "metrics"], input=text, text=True, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_moment_with_everything_gives_every_metric() -> None:
    given = {line.split("{")[0] for line in scraped(made()).splitlines() if not line.startswith("#")}
    assert given == metric_names()


def test_names_keep_to_the_conventions_of_prometheus() -> None:
    for told in METRICS:
        assert re.fullmatch(r"slackwater_[a-z0-9]+(_[a-z0-9]+)*", told.name)
        assert (told.kind == "counter") == told.name.endswith("_total")
        assert told.help.endswith(".")
        assert not re.search(r"_(ms|millis|milliseconds|minutes|percent|us)\b", told.name)


def test_before_anything_has_run_a_scrape_says_so() -> None:
    latest = LatestProgress()
    latest.expect("pairs")
    lines = [line for line in generate_latest(registry_of(latest)).decode().splitlines() if not line.startswith("#")]
    assert lines[1:] == ['slackwater_query_running{query="pairs"} 1.0']


def test_a_query_that_ended_keeps_its_numbers_and_does_not_run() -> None:
    text = scraped(made(), made(over=True))
    assert 'slackwater_query_running{query="pairs"} 0.0' in text
    assert 'slackwater_results_total{query="pairs"} 95000.0' in text
    latest = LatestProgress()
    latest.publish(made())
    latest.ended("pairs", "the source is gone")
    text = generate_latest(registry_of(latest)).decode()
    assert 'slackwater_query_running{query="pairs"} 0.0' in text
    assert 'slackwater_query_failed{query="pairs"} 1.0' in text


def test_delays_are_added_up_and_the_last_latency_stays() -> None:
    text = scraped(made(), made(waiting=Waiting(), delays={"a": [(0, 7)]}))
    assert 'slackwater_delay_seconds_count{query="pairs",stream="a"} 5007.0' in text
    assert 'slackwater_waiting_seconds{cause="micro_batch",query="pairs"} 5.656' in text


def test_buckets_of_delays_never_fall_and_end_with_all() -> None:
    [family] = [one for one in text_string_to_metric_families(scraped(made())) if one.type == "histogram"]
    counts = [one.value for one in family.samples if one.name.endswith("_bucket") and one.labels["stream"] == "a"]
    assert counts == sorted(counts)
    assert counts[-1] == 5_000


def test_the_registry_of_the_process_is_left_alone() -> None:
    scraped(made())
    assert "slackwater" not in generate_latest(REGISTRY).decode()


if __name__ == "__main__":
    GOLDEN.write_text(scraped(made(), bare()))
