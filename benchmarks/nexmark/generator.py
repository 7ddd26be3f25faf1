"""Events of NEXMark as columns: of every 50, one person, three auctions and 46 bids.

Invariant: an event is a function of its number and the seed, as far as its kind, id and time go. The k-th to arrive
carries the number `(k div g) g + (953 k mod g)`, so events arrive out of order by less than a group of g, and a group
of 1 is in order. `arrival` is k; times are whole milliseconds.

References
----------
P. Tucker, K. Tufte, V. Papadimos, D. Maier: NEXMark, a benchmark for queries over data streams, 2002; with the
distributions of the generator that Flink is raced with.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

EACH, PERSONS, AUCTIONS = 50, 1, 3
"""Of so many events so many are persons, and so many auctions behind them; all others are bids."""
FIRST_ID, FIRST_CATEGORY, CATEGORIES = 1000, 10, 5
IN_FLIGHT, ACTIVE, AHEAD = 100, 1000, 10
"""Auctions that are bid for, persons who are active, and ids that do not exist yet."""
HOT = 100
"""One id of so many is hot."""
LENGTH_IN_EVENTS = 1667
STRIDE = 953
SIZES = {"person": 200, "auction": 500, "bid": 100}
"""Mean bytes of an event; of a bid beside its channel and its address, as in the generator of the others."""
BASE_MS = 1_767_225_580_000
"""Twenty seconds before midnight, 2026-01-01 UTC: a day ends early in every run."""

FIRST_NAMES = ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter")
LAST_NAMES = ("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris")
CITIES = (
    *("Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland"),
    *("Bend", "Redmond", "Seattle", "Kent", "Cheyenne"),
)
STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
HOT_CHANNELS, CHANNELS = ("Google", "Facebook", "Baidu", "Apple"), 10_000
Integers = np.ndarray[tuple[int], np.dtype[np.int64]]


@dataclass(frozen=True)
class Events:
    """What is generated."""

    count: int
    rate: int = 10_000
    """Events a second."""
    group: int = 1
    """How many events are shuffled with each other."""
    seed: int = 1

    def __post_init__(self) -> None:
        if self.group < 1 or self.group % STRIDE == 0:
            raise ValueError(f"a group of disorder has 1 event or more, and no multiple of {STRIDE}")

    def numbers(self) -> Integers:
        """The number of each event, in order of arrival; the last group may be cut off."""
        k = np.arange(-(-self.count // self.group) * self.group, dtype=np.int64)
        numbers = k // self.group * self.group + STRIDE * k % self.group
        return numbers[numbers < self.count]

    def tables(self) -> dict[str, pa.Table]:
        """Persons, auctions and bids, each in order of arrival."""
        numbers = self.numbers()
        arrival, kind = np.arange(len(numbers)), numbers % EACH
        sorts = {"person": kind < PERSONS, "auction": (kind >= PERSONS) & (kind < PERSONS + AUCTIONS)}
        sorts["bid"] = kind >= PERSONS + AUCTIONS
        made = {"person": _persons, "auction": _auctions, "bid": _bids}
        tables = {}
        for stream, (name, chosen) in enumerate(sorts.items()):
            number = numbers[chosen]
            rng = np.random.default_rng((self.seed, stream))
            millis = BASE_MS + number * 1000 // self.rate
            columns = made[name](rng, number, millis, self.rate)
            columns["extra"] = _extra(rng, columns, SIZES[name])
            tables[name] = pa.table({**columns, "dateTime": _times(millis), "arrival": arrival[chosen]})
        return tables

    def write(self, folder: Path, files: int = 1) -> dict[str, Path]:
        """The streams as folders of parquet files; the n-th file of each holds what arrived in the same span."""
        written = {}
        for name, table in self.tables().items():
            written[name] = folder / name
            written[name].mkdir(parents=True)
            ends = np.searchsorted(table["arrival"].to_numpy(), np.linspace(0, self.count, files + 1)[1:])
            for number, (begin, end) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
                file = written[name] / f"{number:05d}.parquet"
                pq.write_table(table.slice(begin, end - begin), file)
                # File streams go by modification time; files written in a row may share it.
                os.utime(file, (1_000_000 + number, 1_000_000 + number))
        return written


def last_person(number: Integers) -> Integers:
    """The newest person when an event is made, counted from 0."""
    return number // EACH


def last_auction(number: Integers) -> Integers:
    """The newest auction when an event is made, counted from 0; -1 before the first."""
    return number // EACH * AUCTIONS + np.clip(number % EACH, 0, AUCTIONS) - 1


def _some_person(rng: np.random.Generator, number: Integers) -> Integers:
    """One of the last active persons, or one who does not exist yet."""
    persons = last_person(number) + 1
    active = np.minimum(persons, ACTIVE)
    return persons - active + rng.integers(0, active + AHEAD)


def _some_auction(rng: np.random.Generator, number: Integers) -> Integers:
    """One of the auctions in flight, or one that does not exist yet."""
    last = last_auction(number)
    first = np.maximum(last - IN_FLIGHT, 0)
    return first + rng.integers(0, last - first + 1 + AHEAD)


def _price(rng: np.random.Generator, count: int) -> Integers:
    return np.round(10 ** (6 * rng.random(count)) * 100).astype(np.int64)


def _persons(rng: np.random.Generator, number: Integers, _millis: Integers, _rate: int) -> dict[str, object]:
    n = len(number)
    names = [f"{first} {last}" for first in FIRST_NAMES for last in LAST_NAMES]
    card = np.char.zfill(rng.integers(0, 10_000, (4, n)).astype(str), 4)
    return {
        "id": last_person(number) + FIRST_ID,
        "name": _one_of(rng, names, n),
        "emailAddress": pa.array(f"{word[:7]}@{word[7:]}.com" for word in _words(rng, 12, n)),
        "creditCard": pa.array(" ".join(parts) for parts in card.T),
        "city": _one_of(rng, CITIES, n),
        "state": _one_of(rng, STATES, n),
    }  # fmt: skip


def _auctions(rng: np.random.Generator, number: Integers, millis: Integers, rate: int) -> dict[str, object]:
    n = len(number)
    first_bid = _price(rng, n)
    hot = last_person(number) // HOT * HOT
    seller = np.where(rng.integers(0, 4, n) > 0, hot, _some_person(rng, number))
    length = 1 + rng.integers(0, max(1, 2 * (LENGTH_IN_EVENTS * 1000 // rate)), n)
    return {
        "id": last_auction(number) + FIRST_ID,
        "itemName": _text(rng, rng.integers(3, 21, n)),
        "description": _text(rng, rng.integers(3, 101, n)),
        "initialBid": first_bid,
        "reserve": first_bid + _price(rng, n),
        "expires": _times(millis + length),
        "seller": seller + FIRST_ID,
        "category": FIRST_CATEGORY + rng.integers(0, CATEGORIES, n),
    }


def _bids(rng: np.random.Generator, number: Integers, _millis: Integers, _rate: int) -> dict[str, object]:
    n = len(number)
    hot_auction = last_auction(number) // HOT * HOT
    auction = np.where(rng.integers(0, 2, n) > 0, hot_auction, _some_auction(rng, number))
    hot_bidder = last_person(number) // HOT * HOT + 1
    bidder = np.where(rng.integers(0, 4, n) > 0, hot_bidder, _some_person(rng, number))
    channels = [*HOT_CHANNELS, *(f"channel-{at}" for at in range(CHANNELS))]
    paths = _words(rng, 15, len(channels))
    addresses = [
        f"https://auctions.example/{path[:5]}/{path[5:10]}/{path[10:]}/item.htm?query=1&channel_id={at}"
        for at, path in enumerate(paths)
    ]
    hot_channel = rng.integers(0, 2, n) > 0
    channel = np.where(hot_channel, rng.integers(0, 4, n), 4 + rng.integers(0, CHANNELS, n))
    return {
        "auction": auction + FIRST_ID,
        "bidder": bidder + FIRST_ID,
        "price": _price(rng, n),
        "channel": pa.array(channels).take(pa.array(channel)),
        "url": pa.array(addresses).take(pa.array(channel)),
    }


def _times(millis: Integers) -> pa.Array:
    return pa.array(millis, pa.timestamp("ms", "UTC"))


def _one_of(rng: np.random.Generator, values: object, count: int) -> pa.Array:
    return pa.array(values).take(pa.array(rng.integers(0, len(values), count)))  # type: ignore[arg-type]


def _words(rng: np.random.Generator, letters: int, count: int) -> np.ndarray:
    """Words of so many letters each."""
    drawn = rng.integers(ord("a"), ord("z") + 1, (count, letters)).astype(np.uint32)
    return drawn.view(f"U{letters}").ravel()


def _text(rng: np.random.Generator, lengths: Integers) -> pa.Array:
    """One random text of each length."""
    ends = np.concatenate([[0], np.cumsum(lengths)])
    letters = rng.integers(ord("a"), ord("z") + 1, int(ends[-1]), dtype=np.uint8)
    return pa.LargeStringArray.from_buffers(len(lengths), pa.py_buffer(ends), pa.py_buffer(letters)).cast(pa.string())


def _extra(rng: np.random.Generator, columns: dict[str, object], mean: int) -> pa.Array:
    """What pads an event to its mean size, a fifth more or less of what is missing; nothing where it is larger."""
    size: Integers = np.full(len(next(iter(columns.values()))), 8, np.int64)  # type: ignore[arg-type]
    for name, column in columns.items():
        if isinstance(column, pa.Array) and pa.types.is_string(column.type):
            size += (
                0
                if name in ("channel", "url")
                else np.diff(np.frombuffer(column.buffers()[1], np.int32)[: len(column) + 1])
            )
        else:
            size += 8
    missing = np.maximum(0, mean - size)
    spread = np.round(missing / 5).astype(np.int64)
    return _text(rng, missing - spread + rng.integers(0, np.maximum(1, 2 * spread)))
