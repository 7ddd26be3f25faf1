"""The page in a real browser: it loads, moves, shows the numbers of the query, moves a target, and asks nobody else."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from slackwater.core.measured import MeasuredQuality
from slackwater.core.outlook import Outlook
from slackwater.core.quality import Recall
from slackwater.observe.value import QueryProgress
from slackwater.observe.waiting import Waiting
from slackwater.page.history import RecordedHistory
from slackwater.page.hub import Hub
from slackwater.page.server import Page
from tests.page.made import Game, made, playing

playwright = pytest.importorskip("playwright.sync_api", reason="the browser is driven by playwright")
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="accessibility is checked by axe")

BROWSER = os.environ.get("SLACKWATER_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium here; SLACKWATER_CHROMIUM names one")
SOON = 30_000
"""Milliseconds: other tests may have the cores."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        one = started.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield one
        one.close()


class Looked:
    """A page that is open, and what it asked for and complained about."""

    def __init__(self, browser: Any, address: str, width: int = 1280, scheme: str = "light") -> None:
        self.page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        self.asked: list[str] = []
        self.errors: list[str] = []
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", lambda said: self.errors.append(said.text) if said.type == "error" else None)
        self.page.set_default_timeout(SOON)
        self.page.goto(address)
        self.page.wait_for_selector("article.query [data-is=results]:not(:empty)")

    def text(self, name: str) -> str:
        return str(self.page.locator(f"article.query [data-is={name}]").first.inner_text())

    def wait_for(self, name: str, words: str) -> None:
        # The page's policy forbids what `wait_for_function` does between two looks.
        playwright.expect(self.page.locator(f"[data-is={name}]").first).to_contain_text(words, timeout=SOON)


@pytest.fixture(scope="module")
def played(browser: Any) -> Iterator[tuple[Looked, Game, Page]]:
    hub = Hub()
    with Page(hub, port=0, control=True) as served, playing(hub) as game:
        looked = Looked(browser, served.address)
        yield looked, game, served
        looked.page.close()


def test_the_page_moves_with_the_query(played: tuple[Looked, Game, Page]) -> None:
    looked, _, _ = played
    before = looked.text("results")
    drawn = looked.page.locator(".heat canvas").screenshot()
    playwright.expect(looked.page.locator("[data-is=results]").first).not_to_have_text(before, timeout=SOON)
    looked.page.wait_for_timeout(1500)
    assert looked.page.locator(".heat canvas").screenshot() != drawn
    assert looked.text("state") == "running"
    assert looked.page.locator(".chart canvas").count() == 3
    assert looked.page.locator(".plan svg rect.node").count() >= 5


def test_a_target_that_is_moved_by_hand_reaches_the_query(played: tuple[Looked, Game, Page]) -> None:
    looked, game, _ = played
    looked.page.wait_for_selector(".curve svg polyline")
    wish = looked.page.locator("input[data-is=wish]")
    wish.focus()
    for _ in range(10):
        looked.page.keyboard.press("ArrowRight")
    assert "would take a slack of about" in looked.text("answer")
    asked = float(wish.input_value())
    assert asked == pytest.approx(0.96, abs=0.0005)
    looked.page.get_by_role("button", name="Ask for it").press("Enter")
    looked.wait_for("target", f"RECALL {asked:g}")
    assert isinstance(game.run.plan.quality, Recall)
    assert game.run.plan.quality.target == asked


def test_who_has_only_a_keyboard_can_read_the_picture(played: tuple[Looked, Game, Page]) -> None:
    looked, _, _ = played
    looked.page.locator(".heat").focus()
    looked.page.keyboard.press("Home")
    looked.page.keyboard.press("ArrowRight")
    assert "arrivals" in looked.text("readout")
    looked.page.keyboard.press("Tab")
    assert looked.text("readout") == ""


def test_an_ended_query_stays_with_its_last_numbers_when_the_server_has_stopped(
    played: tuple[Looked, Game, Page],
) -> None:
    looked, game, served = played
    game.end()
    looked.wait_for("state", "ended")
    seen = served.hub.latest["RECALL 0.95 OVER 5 s"]
    looked.wait_for("results", f"{seen.results:,}")
    assert looked.text("late") == f"{seen.late:,}"
    assert looked.text("staterows") == f"{seen.state_rows:,}"
    counts = looked.page.locator("[data-is=counts]").inner_text()
    assert f"{seen.in_time:,}" in counts
    served.stop()
    playwright.expect(looked.page.locator("#status")).to_contain_text("stopped", timeout=SOON)
    assert looked.text("results") == f"{seen.results:,}"
    here = served.address
    assert looked.asked
    assert all(url.startswith(here) for url in looked.asked), "no request leaves this machine"
    # The stream of events ends with the server; nothing else may go wrong.
    assert [error for error in looked.errors if "ERR_" not in error] == []


@pytest.fixture(scope="module")
def recorded() -> Iterator[Page]:
    snapshots = [made(name, batch) for name in ("first", "second") for batch in range(1, 60)]
    with Page(Hub.of_recorded(RecordedHistory({"first": None, "second": None}, snapshots)), port=0) as served:
        yield served


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_wrong(browser: Any, recorded: Page, scheme: str) -> None:
    looked = Looked(browser, recorded.address, scheme=scheme)
    looked.page.evaluate("document.querySelector('details.plan').open = true")
    looked.page.wait_for_timeout(500)
    found = axe.Axe().run(looked.page)
    assert [(one["id"], [node["target"] for node in one["nodes"]]) for one in found.response["violations"]] == []
    assert looked.errors == []
    looked.page.close()


def test_a_phone_shows_all_of_it_in_one_column(browser: Any, recorded: Page) -> None:
    looked = Looked(browser, recorded.address, width=360)
    assert looked.page.evaluate("document.documentElement.scrollWidth") <= 360
    left = [box.bounding_box()["x"] for box in looked.page.locator("article.query").all()]
    assert len(set(left)) == 1
    looked.page.close()


def test_a_wall_shows_queries_side_by_side_and_lets_one_be_hidden(browser: Any, recorded: Page) -> None:
    looked = Looked(browser, recorded.address, width=3000)
    left = [box.bounding_box()["x"] for box in looked.page.locator("article.query").all()]
    assert len(set(left)) == 2
    looked.page.get_by_role("button", name="first").press("Space")
    assert looked.page.locator("article.query:visible").count() == 1
    looked.page.close()


def test_a_page_that_is_open_for_long_holds_no_more_than_so_many_snapshots(browser: Any) -> None:
    hub = Hub(most=100)
    with Page(hub, port=0) as served:
        hub.expect("q")
        hub.publish(made())
        looked = Looked(browser, served.address)
        kept = looked.page.evaluate(
            """async () => {
              const { Store, MOST } = await import("/static/store.js");
              const store = new Store();
              for (let batch = 1; batch <= 20000; batch += 1) {
                store.add({ batch, at: batch, slack: 1, samples: [], streams: [{ clock: batch * 100 }],
                            delays: { a: [[0, 1], [3, 1]] } });
              }
              const all = store.snapshots.flatMap((one) => one.delays.a).reduce((sum, [, n]) => sum + n, 0);
              return [store.snapshots.length <= MOST, all, store.latest.batch];
            }"""
        )
        assert kept == [True, 40000, 20000]
        looked.page.close()


def test_corrections_stand_beside_the_first_answer_and_slack_on_arrival_is_called_what_it_is(browser: Any) -> None:
    hub = Hub()
    with Page(hub, port=0) as served:
        hub.expect("q")
        quality = MeasuredQuality("results", 0.9, good=90.0, bad=10.0, expected=7.4, corrected=9.0)
        plain = made(batch=1)
        corrected = replace(plain, amends="corrections", observed=replace(plain.observed, amended=9, quality=quality))
        hub.publish(corrected)
        looked = Looked(browser, served.address)
        assert (looked.text("measured"), looked.text("corrected")) == ("90.0 %", "99.0 %")
        assert (looked.text("amends"), looked.text("amended"), looked.text("awaited")) == (
            "corrections",
            "9",
            "7 more expected",
        )
        assert looked.text("slackname") == "slack"
        hub.publish(made(batch=2, emit="ON ARRIVAL"))
        looked.wait_for("slackname", "findable for")
        assert not looked.page.locator("[data-is=amended]").is_visible()
        assert not looked.page.locator("[data-is=corrected]").is_visible()
        assert looked.errors == []
        looked.page.close()


def measured(latest: float, low: float = 0.96) -> MeasuredQuality:
    """A recall of 0.97, in doubt down to `low`, and over the latest period as said."""
    unsure = 97 / low - 100
    return MeasuredQuality(
        "results", 0.95, good=97, bad=3, unsure=unsure, latest_good=100 * latest, latest_bad=100 * (1 - latest)
    )


def progress(batch: int = 1, waited: int = 0, **observed: Any) -> QueryProgress:
    shown = made(batch=batch, waiting=Waiting(slack=waited, results=1) if waited else Waiting())
    return replace(shown, observed=replace(shown.observed, **observed))


CHARTS = """async (frames) => {
  const seen = [];
  for (let i = 0; i < frames; i += 1) {
    await new Promise(requestAnimationFrame);
    // Frames are asked for before sizes are observed: what is painted is known behind it.
    await new Promise((done) => setTimeout(done));
    for (const box of document.querySelectorAll(".chart")) {
      const canvas = box.querySelector("canvas");
      seen.push(canvas == null ? "none" : Math.abs(canvas.clientWidth - box.clientWidth) <= 1 ? "fits" : "wrong size");
    }
  }
  return [...new Set(seen)];
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_charts_stay_and_fit_while_the_window_changes(browser: Any, scheme: str) -> None:
    snapshots = [progress(n, waited=120_000, quality=measured(0.96)) for n in range(1, 30)]
    with Page(Hub.of_recorded(RecordedHistory({"q": None}, snapshots)), port=0) as served:
        looked = Looked(browser, served.address, width=1200, scheme=scheme)
        playwright.expect(looked.page.locator(".chart canvas")).to_have_count(3, timeout=SOON)
        for width in (360, 1200, 700):
            looked.page.set_viewport_size({"width": width, "height": 900})
            assert looked.page.evaluate(CHARTS, 30) == ["fits"]
        looked.page.emulate_media(color_scheme="dark" if scheme == "light" else "light")
        assert looked.page.evaluate(CHARTS, 30) == ["fits"]
        looked.page.close()


def test_the_quality_chart_shows_the_worst_there_was(browser: Any) -> None:
    worst = {7: measured(0.04, 0.9), 8: measured(0.96, 0.02)}
    snapshots = [progress(n, quality=worst.get(n, measured(0.96, 0.9))) for n in range(1, 30)]
    with Page(Hub.of_recorded(RecordedHistory({"q": None}, snapshots)), port=0) as served:
        looked = Looked(browser, served.address)
        heights = looked.page.evaluate(
            """async () => {
              const { QualityChart } = await import("/static/charts.js");
              const { snapshots } = await (await fetch("/snapshots")).json();
              const box = document.body.appendChild(document.createElement("div"));
              box.style.cssText = "width: 500px; height: 120px";
              const chart = new QualityChart(box);
              chart.draw(snapshots.map((one, i) => ({ ...one, x: i })));
              await new Promise(requestAnimationFrame);
              const { plot } = chart, high = plot.bbox.height / devicePixelRatio;
              return plot.data.slice(1).flat().map((y) => plot.valToPos(y, "y") / high);
            }"""
        )
        assert min(heights) >= 0
        assert max(heights) <= 1
        assert len(set(heights)) > 4
        assert "latest period" in looked.text("qualitycaption")
        looked.page.close()


def test_the_state_says_what_the_log_says(browser: Any) -> None:
    hub = Hub()
    with Page(hub, port=0) as served:
        hub.expect("q")
        hub.publish(progress(quality=measured(0.97)))
        looked = Looked(browser, served.address)
        assert looked.text("state") == "running"
        cap = Outlook(1_000_000, True, 10, 4, 5_000_000, 0.9, unreachable=True)
        missed, met = progress(quality=measured(0.94)), progress(quality=measured(0.97))
        for batch, shown, said in (
            (2, missed, "running, target missed"),
            (3, progress(quality=measured(0.94), outlook=cap), "running, target unreachable"),
            (4, met, "running"),
            (5, replace(missed, paused=True), "paused"),
            (6, replace(missed, over=True), "ended, target missed"),
        ):
            hub.publish(replace(shown, batch=batch))
            playwright.expect(looked.page.locator("[data-is=state]")).to_have_text(said, timeout=SOON)
        looked.page.close()


def test_latency_stays_that_of_the_last_results(browser: Any) -> None:
    hub = Hub()
    with Page(hub, port=0) as served:
        hub.expect("q")
        hub.publish(progress(waited=120_000))
        hub.publish(progress(2))
        looked = Looked(browser, served.address)
        looked.wait_for("batch", "epoch 2")
        assert looked.text("latency") == "120 ms"
        looked.page.close()
