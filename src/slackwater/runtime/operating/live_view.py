"""A view of running queries that follows them: in a cell of a notebook, or at a terminal.

Invariant: a query pays for taking down a moment, and for no drawing: what is shown is drawn by a thread of the view, a
few times a second, or by whoever asks. Memory is bounded however long it runs.
"""

from __future__ import annotations

import threading
import time
from typing import Any, Self

from rich.console import Console
from rich.live import Live
from rich.text import Text

from slackwater.observe.moment import Moment
from slackwater.observe.view import moments_html, moments_text
from slackwater.page.thinning import Thinned
from slackwater.runtime.operating.following import follow
from slackwater.runtime.watching import EVERY

REDRAWN = 0.5
"""Seconds from one drawing to the next."""


class LiveView:
    """Shows itself where it stands last in a cell, and is drawn anew there while queries run; `live_view` makes one."""

    def __init__(self) -> None:
        self._seen: dict[str, Thinned] = {}
        self._names: dict[str, bool] = {}
        """Whether each has ended."""
        self._lock = threading.Lock()
        self._news = threading.Event()
        self._stopped = threading.Event()
        self._display: Any = None

    def expect(self, query: str, resumed: bool = False) -> None:
        """A query will publish moments."""
        with self._lock:
            self._names[query] = False

    def ended(self, query: str, failure: str | None = None) -> None:
        """A query runs no more; it may never have told anything."""
        with self._lock:
            self._names[query] = True
        self._news.set()

    def publish(self, moment: Moment) -> None:
        """A query tells how it stands."""
        with self._lock:
            self._seen.setdefault(moment.query, Thinned()).add(moment)
        self._news.set()

    @property
    def moments(self) -> dict[str, list[Moment]]:
        """What is remembered of every query, oldest first."""
        with self._lock:
            names = dict.fromkeys([*self._names, *self._seen])
            return {name: list(self._seen.get(name, ())) for name in names}

    @property
    def is_over(self) -> bool:
        """Whether all queries have ended."""
        moments = self.moments
        over = {name for name, mine in moments.items() if mine and (mine[-1].ended or mine[-1].failure is not None)}
        return bool(moments) and all(name in over or self._names.get(name, False) for name in moments)

    def __str__(self) -> str:
        return moments_text(self.moments)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return moments_html(self.moments)

    def show(self, seconds: float | None = None) -> Self:
        """Show it here. With `seconds`, follow the queries for so long, or to their end; without, in the background."""
        self._display = _new_display(self)
        if self._display is not None and seconds is None:
            threading.Thread(target=self._follow, name="slackwater view", daemon=True).start()
        elif self._display is not None:
            self._follow(time.monotonic() + (seconds or 0.0))
        elif seconds is not None:
            self._at_terminal(time.monotonic() + seconds)
        else:
            print(self)
        return self

    def update(self) -> None:
        """Draw it anew, now."""
        if self._display is not None:
            self._display.update(self)

    def stop(self) -> None:
        """Follow the queries no longer; the last picture stays."""
        self._stopped.set()
        self._news.set()

    def _follow(self, until: float | None = None) -> None:
        while self._waited(until):
            self.update()
        self.update()

    def _at_terminal(self, until: float) -> None:
        with Live(console=Console(), auto_refresh=False) as drawn:
            while self._waited(until):
                drawn.update(Text(str(self)), refresh=True)
            drawn.update(Text(str(self)), refresh=True)

    def _waited(self, until: float | None) -> bool:
        """Wait for something new, and a little; False where nothing more is to be waited for."""
        if self.is_over:
            return False
        left = None if until is None else until - time.monotonic()
        if left is not None and left <= 0:
            return False
        self._news.wait(left)
        self._news.clear()
        return not self._stopped.wait(REDRAWN if left is None else min(REDRAWN, max(0.0, left)))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        self.stop()


def _new_display(view: LiveView) -> Any:
    """Where a notebook shows it; None where there is no notebook."""
    try:
        from IPython.core.getipython import get_ipython
        from IPython.display import display
    except ImportError:
        return None
    shell = get_ipython()
    if shell is None or not hasattr(shell, "kernel"):
        return None
    return display(view, display_id=True)  # type: ignore[no-untyped-call]


def live_view(query: Any, seconds: float | None = None, *, name: str | None = None, every: float = EVERY) -> LiveView:
    """Show a running query, or several as {'name': query}, and follow them in place.

    In a notebook the view is drawn in the cell, and drawn anew while the query runs: for so many `seconds`, or, without
    them, in the background until it ends. At a terminal it needs `seconds`; else it is printed once. `every` is the
    least time between two moments of a query that rows are pushed into; with 0 there is one at every push.
    """
    view = LiveView()
    follow(query, view, name, every)
    return view.show(seconds)
