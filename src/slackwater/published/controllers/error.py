"""The published controllers for aggregates: by the analytical model, and by a PD controller.

Both adapt with every new window (Alg. 4.1), after a warm-up: they translate the bound on the error into a coverage
that windows must have (Alg. 4.2), measure the coverage of a window old enough to be known (Alg. 4.3), and then

- `ModelError` takes the least slack whose modelled coverage, corrected by how earlier ones turned out, meets the
  threshold (Alg. 4.4, Eq. 4.2);
- `PdError` moves the share of the largest delay that is waited for by the distance of threshold and measurement
  (§3.4.2, 4.1.6).

Invariant: the measured window is the newest that was closed M ago, where M is the q-quantile of the delays of all
out-of-order tuples so far (q: option `retrospect`); tuples that come later than that after its closing are missed by
the measurement, as published. A window that has only just been closed has no missing tuples yet, whatever the slack:
M counts from the closing and not from the window's end.

References: 004 §3.4.2, §4.1.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from slackwater.core.batch import TS, Floats
from slackwater.core.measured import MeasuredQuality
from slackwater.core.options import Options
from slackwater.core.quality import RelativeError
from slackwater.core.time import BEFORE_ALL, SECOND
from slackwater.disorder.controllers import DelayObservations, Measured
from slackwater.disorder.meters import Watched
from slackwater.published.controllers.coverage_model import Calibration, coverages, smallest_slack
from slackwater.published.controllers.delays import DelaysAsShares
from slackwater.published.controllers.pd import FOR_AGGREGATES, PdController
from slackwater.quality.error.answers import EXACT
from slackwater.quality.error.quantile_slack import edge_of, least_bin, no_weights, note_required_slack
from slackwater.quality.error.steady import under
from slackwater.quality.error.threshold import Thresholds
from slackwater.quality.error.windows import WatchesWindows, WindowLosses

WARM_UP = SECOND
"""L_warmup; the documents leave its length open. What is emitted meanwhile is emitted without slack."""


MOST_DELAYS = 2**17
"""Delays that the model remembers: minutes of a fast stream, and few enough to be persisted."""


class PublishedError(WatchesWindows):
    """What both controllers share: statistics, threshold, measured coverage."""

    learns = True

    def __init__(self, target: RelativeError, options: Options) -> None:
        self.target, self._options = target, options
        self.slack = options.initial_slack
        self.next_adaptation = BEFORE_ALL
        self._begun = BEFORE_ALL
        self._out_of_order = no_weights()
        """The delays of all out-of-order tuples so far, binned."""

    def watch(self, watched: Watched) -> None:
        """Hear which windows there are."""
        self._unit = max(1, self._options.granularity // 10)
        self._losses = WindowLosses(
            watched, self.target.bound, self._options.least_retention(), self._unit, ahead=self._options.max_ahead
        )
        self._thresholds = Thresholds(self.target, watched.aggregates)
        self._is_modelled = np.array([a.function not in EXACT for a in watched.aggregates], np.bool_)

    def learn(self, arrived: DelayObservations) -> None:
        self._losses.absorb(arrived, self.slack, self._allowed)
        self._thresholds.absorb(arrived.words)
        note_required_slack(self._out_of_order, arrived.behind, self._unit)

    def measured(self) -> MeasuredQuality:
        """The windows so far that were within the bound."""
        return self._losses.measured(self.target.confidence, self._allowed)

    @property
    def _allowed(self) -> Floats:
        """What may be missing of each aggregate; for the report alone."""
        return np.where(self._is_modelled, 1.0 - self._thresholds.shares, self.target.bound)

    def adapt(self, measured: Measured) -> None:
        self._losses.count(self._allowed)
        clock = max(measured.clocks)
        losses = self._losses
        following = losses.last_ended(clock) + 1
        interval = self._options.adaptation_interval
        end = following * losses.watch.slide + losses.watch.range
        self.next_adaptation = end if interval is None else clock + interval
        if clock == BEFORE_ALL:
            self.next_adaptation = BEFORE_ALL
            return
        watermark = losses.reach(clock, measured.slack)
        self._begun = clock if self._begun == BEFORE_ALL else self._begun
        if clock - self._begun < WARM_UP:
            return
        if self._thresholds.is_due(clock):
            self._thresholds.recalculate(clock, losses.tuples())
        window = losses.last_ended(watermark - self._retrospect())
        self._choose(window, losses.coverage(window), watermark, measured)

    def _retrospect(self) -> int:
        """M of Alg. 4.3."""
        return edge_of(least_bin(self._out_of_order, 1.0 - self._options.retrospect), self._unit)

    def _choose(self, window: int, coverage: float | None, watermark: int, measured: Measured) -> None:
        raise NotImplementedError

    def as_arrays(self) -> dict[str, npt.NDArray[Any]]:
        found: dict[str, npt.NDArray[Any]] = {
            "times": np.array([self.slack, self.next_adaptation, self._begun]),
            "out_of_order": self._out_of_order.copy(),
        }
        found |= {f"losses_{name}": array for name, array in self._losses.as_arrays().items()}
        return found | {f"thresholds_{name}": array for name, array in self._thresholds.as_arrays().items()}

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        self.slack, self.next_adaptation, self._begun = arrays["times"].tolist()
        self._out_of_order = np.array(arrays["out_of_order"])
        self._losses.restore(under("losses_", arrays))
        self._thresholds.restore(under("thresholds_", arrays))


class ModelError(PublishedError):
    """Slack by the model of window coverage."""

    def __init__(self, target: RelativeError, options: Options) -> None:
        super().__init__(target, options)
        self._delays = DelaysAsShares(options.granularity, 1, MOST_DELAYS)
        self._calibration = Calibration()
        self._estimated: deque[tuple[int, float]] = deque()
        """From which window on, and which coverage the model expected, uncorrected."""

    def learn(self, arrived: DelayObservations) -> None:
        super().learn(arrived)
        self._delays.absorb(arrived.stream, arrived.words[TS], arrived.behind)

    def _choose(self, window: int, coverage: float | None, watermark: int, measured: Measured) -> None:
        options = self._options
        while len(self._estimated) > 1 and self._estimated[1][0] <= window:
            self._estimated.popleft()
        if coverage is not None and self._estimated and self._estimated[0][0] <= window:
            self._calibration.note(self._estimated[0][1], coverage)
        modelled = coverages(
            self._delays.counts(0), self._losses.watch.range, options.basic_window, options.granularity
        )
        # Tuples later than M are not in a measurement yet: it may say that more is missing, never that less is.
        corrected = np.minimum(modelled, self._calibration.apply(modelled))
        self.slack = smallest_slack(corrected, self._thresholds.strictest, options.granularity)
        chosen = float(modelled[min(self.slack // options.granularity, len(modelled) - 1)])
        self._estimated.append((self._losses.last_ended(watermark) + 1, chosen))

    def as_arrays(self) -> dict[str, npt.NDArray[Any]]:
        found = super().as_arrays()
        found["calibration"] = np.array([self._calibration.estimated_missing, self._calibration.measured_missing])
        found["estimated_from"] = np.array([window for window, _ in self._estimated], np.int64)
        found["estimated"] = np.array([estimate for _, estimate in self._estimated], np.float64)
        return found | {f"delays_{name}": array for name, array in self._delays.as_arrays().items()}

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        super().restore(arrays)
        self._calibration.estimated_missing, self._calibration.measured_missing = arrays["calibration"].tolist()
        self._estimated = deque(zip(arrays["estimated_from"].tolist(), arrays["estimated"].tolist(), strict=True))
        self._delays.restore(under("delays_", arrays))

    def describe(self) -> str:
        return (
            f"the least slack whose modelled window coverage keeps the error within {self.target.bound:g} with"
            f" confidence {self.target.confidence:g} (analytical model, as published)"
        )


class PdError(PublishedError):
    """Slack by a PD controller on the measured coverage."""

    def __init__(self, target: RelativeError, options: Options) -> None:
        super().__init__(target, options)
        self._controller = PdController(FOR_AGGREGATES)

    def _choose(self, window: int, coverage: float | None, watermark: int, measured: Measured) -> None:
        if coverage is not None:
            self._controller.step(self._thresholds.strictest, coverage)
        self.slack = self._controller.slack(measured.largest_delay)

    def as_arrays(self) -> dict[str, npt.NDArray[Any]]:
        previous = self._controller.previous_error
        state = np.array([self._controller.alpha, np.nan if previous is None else previous])
        return super().as_arrays() | {"pd": state}

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        super().restore(arrays)
        self._controller.alpha, previous = arrays["pd"].tolist()
        self._controller.previous_error = None if np.isnan(previous) else previous

    def describe(self) -> str:
        return (
            f"a PD controller keeps window coverage where the error is within {self.target.bound:g} with confidence"
            f" {self.target.confidence:g} (as published)"
        )
