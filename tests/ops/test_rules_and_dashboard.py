"""What is shipped for Prometheus and Grafana asks for metrics that there are, and is what their own tools accept.

The dashboard is checked against the model of Grafana that its foundation SDK is generated from: what is read into it
and written again has lost nothing. That is no running Grafana; nobody looks at the picture here.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from slackwater.observe.metrics import METRICS, metric_names

ROOT = Path(__file__).parents[2]
OPS = ROOT / "ops"
DASHBOARD = json.loads((OPS / "grafana" / "slackwater.json").read_text())
PANELS = DASHBOARD["panels"]
SHOWING = [panel for panel in PANELS if panel["type"] != "row"]
ALERTS = (OPS / "prometheus" / "alerts.yml").read_text()
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="no promtool: install the package prometheus of your system"
)


def named(text: str) -> set[str]:
    """The metrics that an expression asks for."""
    return set(re.findall(r"(?<![\w:])slackwater_\w+", text))


def promtool(*arguments: str) -> str:
    done = subprocess.run(["promtool", *arguments], text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@needs_promtool
def test_promtool_accepts_the_rules_and_the_example() -> None:
    assert "SUCCESS" in promtool("check", "rules", str(OPS / "prometheus" / "alerts.yml"))
    assert "SUCCESS" in promtool("check", "config", str(OPS / "prometheus" / "prometheus.yml"))


@needs_promtool
def test_every_alert_fires_for_what_it_is_for_and_not_for_a_query_that_is_well() -> None:
    assert "SUCCESS" in promtool("test", "rules", str(Path(__file__).parent / "alerts_test.yml"))


def test_every_alert_is_tried_above() -> None:
    tried = (Path(__file__).parent / "alerts_test.yml").read_text()
    alerts = re.findall(r"- alert: (\w+)", ALERTS)
    assert len(alerts) > 5
    assert [name for name in alerts if f'alertname="{name}"' not in tried or f"alertname: {name}" not in tried] == []


def test_alerts_ask_for_metrics_that_there_are() -> None:
    assert named(re.sub(r"description:.*", "", ALERTS)) <= metric_names()


@needs_promtool
def test_every_panel_asks_in_good_promql(tmp_path: Path) -> None:
    texts = [target["expr"] for panel in SHOWING for target in panel["targets"]]
    asked = [text.replace("$__rate_interval", "1m").replace("$query", ".*") for text in texts]
    rules = [{"record": f"panel:{at}", "expr": text} for at, text in enumerate(asked)]
    # JSON is YAML.
    (tmp_path / "panels.json").write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}))
    promtool("check", "rules", "--lint=none", str(tmp_path / "panels.json"))


@pytest.mark.parametrize("panel", SHOWING, ids=lambda panel: panel["title"])
def test_a_panel_asks_for_metrics_and_labels_that_there_are(panel: dict[str, Any]) -> None:
    assert panel["description"]
    assert panel["datasource"] == SOURCE
    assert panel["fieldConfig"]["defaults"]["unit"]
    references = [target["refId"] for target in panel["targets"]]
    assert references
    assert len(set(references)) == len(references)
    labels = {told.name: {"query", *told.labels} for told in METRICS}
    labels["slackwater_delay_seconds_bucket"] = {"query", "stream", "le"}
    for target in panel["targets"]:
        assert target["datasource"] == SOURCE
        asked = named(target["expr"])
        assert asked
        assert asked <= metric_names()
        shown = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
        assert all(shown <= labels[name] for name in asked)


def test_panels_have_ids_of_their_own_and_do_not_overlap() -> None:
    assert len({panel["id"] for panel in PANELS}) == len(PANELS)
    assert len({panel["title"] for panel in PANELS}) == len(PANELS)
    places = [panel["gridPos"] for panel in PANELS]
    for place in places:
        assert place["x"] >= 0
        assert place["w"] >= 1
        assert place["x"] + place["w"] <= 24
        assert place["h"] >= 1
    for one, other in combinations(places, 2):
        apart = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        above = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert apart or above


def test_variables_of_the_dashboard_are_those_that_panels_ask_for() -> None:
    known = {variable["name"] for variable in DASHBOARD["templating"]["list"]}
    asked = set(re.findall(r"\$\{?(\w+)", json.dumps(PANELS))) - {"__rate_interval"}
    assert asked == known


def test_the_model_of_grafana_has_every_field_of_the_dashboard() -> None:
    dashboard = pytest.importorskip("grafana_foundation_sdk.models.dashboard", reason="pip install -e '.[dev]'")
    encoder = pytest.importorskip("grafana_foundation_sdk.cog.encoder")
    back = json.loads(encoder.JSONEncoder().encode(dashboard.Dashboard.from_json(DASHBOARD)))
    assert list(lost(DASHBOARD, back)) == []
    assert list(lost({"panels": [{"grid": 1}]}, back)) == [".panels: 1 of them", ".panels[0].grid"]


def lost(written: Any, back: Any, at: str = "") -> Any:
    """Where the model has nothing, or something else."""
    if isinstance(written, dict) and isinstance(back, dict):
        for name, value in written.items():
            if name not in back:
                yield f"{at}.{name}"
            else:
                yield from lost(value, back[name], f"{at}.{name}")
    elif isinstance(written, list) and isinstance(back, list):
        if len(written) != len(back):
            yield f"{at}: {len(written)} of them"
        for position, (mine, theirs) in enumerate(zip(written, back, strict=False)):
            yield from lost(mine, theirs, f"{at}[{position}]")
    elif written != back:
        yield at
