"""The data products of meteorology: how many sources, how often, how large, in clear weather and in storms.

Invariant: rates are those of one instrument in real time; whoever speeds a workload up multiplies. A KB is 1000 bytes,
which is how the printed bandwidths come out.

`FOUR` is Table 3, whose rates are 8 times the real ones and of all sources together. The rates an hour are taken, the
rates a second are the same ones cut to two digits (1440 an hour is 0.40 a second, not 0.39). An instrument then has 3
METAR reports an hour, 6 of Acars, 6 or 12 scans of Nexrad, and 12 or 60 of CAPS.

`NINE` is Table 1 with the sources and sizes of section 3. The printed bandwidth of every product is sources x larger
rate x larger size, so the table agrees with itself, CAPS included (9 x 120 x 0.5 MB = 540 MB). Where the paper
disagrees with itself:

- CAPS, "120 (clear), 60 (storm)": storms are the faster mode in Table 3 and in the text, so 60 is clear and 120 storm.
- CAPS and Acars have other rates, and CAPS other sources and sizes, than in Table 3. Each workload keeps to its table.
- METAR first order, "every two minutes" in section 1: Table 1 and Table 3 agree on 3 an hour.
- A range of sizes is clear weather (lower end) and storm (upper end) where Table 3 says so (METAR, Acars, Nexrad).
  Nothing ties soundings and Eta grids to a storm, so they are of any size in their range, at any time.

Measurements are made up.

References: 001 section 3, Table 1, Table 3.
"""

from __future__ import annotations

from dataclasses import dataclass

KB, MB = 1000, 1_000_000

Sizes = tuple[int, int]
"""The smallest and the largest event, in bytes; any size between them is as likely."""


@dataclass(frozen=True)
class Reading:
    """A column of measurements: normal around one mean in clear weather and another in storms."""

    name: str
    clear: float
    storm: float
    spread: float
    least: float = -100.0


@dataclass(frozen=True)
class Product:
    """One stream, and what the sources that flow down it are like; pairs are (clear, storm)."""

    stream: str
    sources: int
    per_hour: tuple[float, float]
    """Events of one instrument in an hour of real time."""
    sizes: tuple[Sizes, Sizes]
    readings: tuple[Reading, ...]


def _just(size: int) -> Sizes:
    return (size, size)


SURFACE = (Reading("temp_c", 28.0, 21.0, 2.0), Reading("wind_kt", 8.0, 24.0, 3.0, least=0.0))
ALOFT = (Reading("temp_c", -22.0, -25.0, 9.0), Reading("wind_kt", 35.0, 60.0, 8.0, least=0.0))
RADAR = (Reading("dbz", 8.0, 45.0, 6.0), Reading("wind_kt", 10.0, 30.0, 4.0, least=0.0))
IMAGE = (Reading("cloud", 0.2, 0.9, 0.05, least=0.0),)
GRID = (Reading("pres_hpa", 1018.0, 1006.0, 3.0),)

_REPORT = (_just(1 * KB), _just(5 * KB))
_AIRCRAFT = (_just(100 * KB), _just(700 * KB))
_LEVEL_3 = (_just(2 * KB), _just(20 * KB))

FOUR = (
    Product("metar", 27, (3, 3), _REPORT, SURFACE),
    Product("acars", 30, (6, 6), _AIRCRAFT, ALOFT),
    Product("nexrad", 13, (6, 12), _LEVEL_3, RADAR),
    Product("caps", 10, (12, 60), (_just(16 * KB), _just(64 * KB)), RADAR),
)
"""Table 3."""

NINE = (
    Product("metar1", 270, (3, 3), _REPORT, SURFACE),
    Product("metar2", 1000, (1, 1), _REPORT, SURFACE),
    Product("rawinsonde", 94, (1 / 12, 1 / 12), ((21 * KB, 25 * KB),) * 2, ALOFT),
    Product("acars", 257, (10, 10), _AIRCRAFT, ALOFT),
    Product("nexrad2", 130, (6, 12), (_just(163 * KB), _just(1700 * KB)), RADAR),
    Product("nexrad3", 130, (6, 12), _LEVEL_3, RADAR),
    Product("goes", 5, (2, 2), (_just(4400 * KB),) * 2, IMAGE),
    Product("eta", 2, (1 / 6, 1 / 6), ((94 * KB, 200 * KB),) * 2, GRID),
    Product("caps", 9, (60, 120), (_just(MB // 2),) * 2, RADAR),
)
"""Table 1."""
