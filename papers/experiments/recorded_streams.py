"""Recorded streams as workloads, where somebody has them.

Invariant: nothing is shipped and nothing made up. Without the recording a stage is refused with a sentence that says
where it was looked for; with it, rows are taken as they stand.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from slackwater.core.errors import UsageError
from slackwater.sources.files import StreamFile, read_streams
from slackwater.workloads import Workload

FOLDER = "SLACKWATER_DATA"
"""The environment variable that names the folder of recordings; by default `shared/data` beside the repository."""


@dataclass(frozen=True)
class Recording:
    """Which rows of which file are the streams of a query."""

    file: str
    streams: tuple[str, ...]
    """`NAME?column=value&...`, as on the command line but for the file."""
    query: str
    rates: str = ""
    """The same question with windows that follow the rates, where it makes sense."""


MARKETS = (
    "SELECT a.price AS spot, b.price AS future FROM spot AS a [RANGE 100 MS], usdm AS b [RANGE 100 MS]"
    " WHERE a.asset = b.asset"
)
MESSAGES = "SELECT a.seq AS seq FROM a [RANGE 2 SECONDS], b [RANGE 2 SECONDS] WHERE a.seq = b.seq"


# A special report comes when the weather changes; what does the station say in its routine reports around it? The
# routine stream is twenty to thirty times as fast. Times are whole minutes, so a match by half an interval (3 s) would
# ask for the same minute; half an hour is how often stations report.
SPECIAL = "SELECT s.station AS station, s.temp_c AS special, r.temp_c AS routine"
SPECIAL_IN_TIME = (
    f"{SPECIAL} FROM special AS s [RANGE 30 MINUTES], routine AS r [RANGE 30 MINUTES] WHERE s.station = r.station"
)
SPECIAL_BY_RATE = (
    f"{SPECIAL} FROM special AS s [RATE 30 MINUTES], routine AS r [RATE 30 MINUTES] MATCH TIME WITHIN 30 MINUTES"
    " WHERE s.station = r.station"
)

# Stations of the United States and of Canada that report the same air within five minutes.
BORDER = "SELECT us.station AS here, ca.station AS there"
SAME_AIR = "WHERE us.temp_c = ca.temp_c AND us.dew_c = ca.dew_c"
BORDER_IN_TIME = f"{BORDER} FROM us [RANGE 5 MINUTES], ca [RANGE 5 MINUTES] {SAME_AIR}"
BORDER_BY_RATE = f"{BORDER} FROM us [RATE 10 MINUTES], ca [RATE 10 MINUTES] MATCH TIME WITHIN 5 MINUTES {SAME_AIR}"


def _devices(left: str, right: str) -> Recording:
    return Recording("ooo_umts", (f"a?stream={left}", f"b?stream={right}"), MESSAGES)


RECORDINGS = {
    "binance": Recording(
        "binance_hft",
        (
            "spot?stream=spot:btcusdt&stream=spot:ethusdt",
            "usdm?stream=usdm:btcusdt&stream=usdm:ethusdt",
        ),
        MARKETS,
    ),
    "umts 2, 7": _devices("dev_2", "dev_7"),
    "umts 14, 16": _devices("dev_14", "dev_16"),
}
"""Trades and quotes of one asset on two markets within 100 ms; equally numbered messages of two devices within 2 s."""

HOURS = {"2019": "metar_20190701_12z", "2020": "metar_20200106_00z"}
WEATHER = {
    f"{name} {year}": Recording(file, streams, in_time, by_rate)
    for year, file in HOURS.items()
    for name, streams, in_time, by_rate in (
        ("special", ("special?kind=SPECI", "routine?kind=METAR"), SPECIAL_IN_TIME, SPECIAL_BY_RATE),
        ("border", ("us?stream=K", "ca?stream=C"), BORDER_IN_TIME, BORDER_BY_RATE),
    )
}
"""Two hours of weather reports, of very different rates; what is dated into the future is left to the guard."""


def folder_of_recordings() -> Path:
    """Where recordings are looked for."""
    return Path(os.environ.get(FOLDER, Path(__file__).parents[3] / "shared" / "data"))


def recorded(name: str) -> Workload:
    """A recording as a workload; refused where it is absent.

    >>> from unittest import mock
    >>> with mock.patch.dict(os.environ, {FOLDER: "/nowhere"}):
    ...     recorded("binance")
    Traceback (most recent call last):
    slackwater.core.errors.UsageError: recorded streams are absent: no binance_hft.parquet in /nowhere; set ...
    """
    recording = (RECORDINGS | WEATHER)[name]
    path = folder_of_recordings() / f"{recording.file}.parquet"
    if not path.exists():
        raise UsageError(f"recorded streams are absent: no {path.name} in {path.parent}; set {FOLDER} to their folder")
    files = []
    for stream in recording.streams:
        alias, _, rows = stream.partition("?")
        files.append(StreamFile.parse(f"{alias}={path}?{rows}"))
    further = {"rates": recording.rates} if recording.rates else {}
    return Workload(name, read_streams(files)[0], recording.query, further)
