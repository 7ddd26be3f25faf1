"""docs/operate.md names every metric, alert and event that there is, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from slackwater.observe.metrics import metric_names

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "operate.md").read_text()


def section(title: str) -> str:
    return PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]


def first_column(text: str) -> set[str]:
    rows = re.findall(r"^\| (`.*?) \|", text, re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`(\w+)`", row)}


def test_the_page_names_every_metric() -> None:
    assert {f"slackwater_{name}" for name in first_column(section("Metrics"))} == metric_names()


def test_the_page_names_every_alert() -> None:
    alerts = set(re.findall(r"- alert: (\w+)", (ROOT / "ops" / "prometheus" / "alerts.yml").read_text()))
    assert first_column(section("Prometheus and Grafana")) == alerts


def test_the_page_names_every_event() -> None:
    source = (ROOT / "src" / "slackwater" / "observe" / "events.py").read_text()
    told = set(re.findall(r'event\(\s*"(\w+)"', source))
    told |= {name for pair in re.findall(r'_warning\("(\w+)", "(\w+)"', source) for name in pair}
    assert len(told) > 12
    assert first_column(section("Logs")) == told
