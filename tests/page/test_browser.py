"""The page in a real browser: it loads, moves, shows the numbers of the query, moves a target, and asks nobody else."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from slackwater.core.quality import Recall
from slackwater.page.history import Recorded
from slackwater.page.hub import Hub
from slackwater.page.server import Page
from tests.page.moments import Game, moment, playing

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
    moments = [moment(name, batch) for name in ("first", "second") for batch in range(1, 60)]
    with Page(Hub.of_recorded(Recorded({"first": None, "second": None}, moments)), port=0) as served:
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


def test_a_page_that_is_open_for_long_holds_no_more_than_so_many_moments(browser: Any) -> None:
    hub = Hub(most=100)
    with Page(hub, port=0) as served:
        hub.add("q")
        hub.publish(moment())
        looked = Looked(browser, served.address)
        kept = looked.page.evaluate(
            """async () => {
              const { Store, MOST } = await import("/static/store.js");
              const store = new Store();
              for (let batch = 1; batch <= 20000; batch += 1) {
                store.add({ batch, at: batch, slack: 1, samples: [], streams: [{ clock: batch * 100 }],
                            delays: { a: [[0, 1], [3, 1]] } });
              }
              const all = store.moments.flatMap((one) => one.delays.a).reduce((sum, [, n]) => sum + n, 0);
              return [store.moments.length <= MOST, all, store.latest.batch];
            }"""
        )
        assert kept == [True, 40000, 20000]
        looked.page.close()
