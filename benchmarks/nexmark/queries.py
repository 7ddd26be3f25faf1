"""The queries of NEXMark, each in our SQL, in Flink's and in DuckDB's.

What has no bound in the original has one here, and a name that says so: pairs at most 10 seconds apart, answers of
every 10 seconds, or of every day. Where the sides read the same text, it stands once.

Invariant: every side is asked for the same rows: those of `judge`, whose columns the others have by the same names.
Times have whole milliseconds. Where SQL leaves ties open, all sides break them alike.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Query:
    """A query in three languages."""

    says: str
    ours: str
    """Without a target; Flink reads the same text where it has none of its own."""
    judge: str = ""
    """Over all rows, in DuckDB; our text where it has none of its own. `bucket(t, s)` is the window of s seconds."""
    flink: str = ""
    """Views before the last statement, each behind a semicolon."""
    bound: str = ""
    """What bounds it; empty where the original has bounds."""

    @property
    def streams(self) -> tuple[str, ...]:
        """What it reads."""
        found = re.findall(r"(?:FROM|JOIN|TABLE) (person|auction|bid)\b", self.ours)
        return tuple(dict.fromkeys(found))


def _near(one: str, other: str) -> str:
    return f"{one}.dateTime BETWEEN {other}.dateTime - INTERVAL '10' SECOND AND {other}.dateTime + INTERVAL '10' SECOND"


_APART, _EACH, _DAY = "within 10 s", "of every 10 s", "of every day"
_HOP = "TABLE(HOP(TABLE bid, DESCRIPTOR(dateTime), INTERVAL '2' SECOND, INTERVAL '10' SECOND))"
_COUNTED = f"""SELECT auction, COUNT(*) AS num, window_start AS starttime, window_end AS endtime
    FROM {_HOP} GROUP BY auction, window_start, window_end"""
_HOPPED = """SELECT auction, COUNT(*) AS num, start AS starttime, start + INTERVAL '10' SECOND AS endtime
    FROM (SELECT auction, unnest(generate_series(bucket(dateTime, 2) - INTERVAL '8' SECOND, bucket(dateTime, 2),
        INTERVAL '2' SECOND)) AS start FROM bid) GROUP BY auction, start"""


def _tumbling(stream: str, unit: str = "SECOND", size: int = 10) -> str:
    return f"TABLE(TUMBLE(TABLE {stream}, DESCRIPTOR(dateTime), INTERVAL '{size}' {unit}))"


_WON = """SELECT a.id, a.category, a.itemName, a.seller, b.bidder, b.price, b.dateTime
    FROM auction a JOIN bid b ON a.id = b.auction AND b.dateTime >= a.dateTime
    AND b.dateTime <= a.dateTime + INTERVAL '10' SECOND AND b.dateTime <= a.expires"""
"""Bids for an auction while it was open."""
_WON_VIEW = f"CREATE TEMPORARY VIEW won AS {_WON};"
_RANKS = "".join(
    f", {what} FILTER (WHERE {which}) AS rank{rank}_{of}"
    for of, what in (
        ("bids", "COUNT(*)"),
        ("bidders", "COUNT(DISTINCT bidder)"),
        ("auctions", "COUNT(DISTINCT auction)"),
    )
    for rank, which in enumerate(("price < 10000", "price >= 10000 AND price < 1000000", "price >= 1000000"), 1)
)  # fmt: skip
_TOTALS = "COUNT(*) AS total_bids, COUNT(DISTINCT bidder) AS total_bidders, COUNT(DISTINCT auction) AS total_auctions"
_LATEST = f"MAX(dateTime) AS latest, {_TOTALS}"
_OF_A_DAY = f"FROM {_tumbling('bid', 'DAY', 1)} GROUP BY "
_PRICES = (
    "auction, COUNT(*) AS total_bids, COUNT(*) FILTER (WHERE price < 10000) AS rank1_bids,"
    " COUNT(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_bids,"
    " COUNT(*) FILTER (WHERE price >= 1000000) AS rank3_bids, MIN(price) AS min_price, MAX(price) AS max_price,"
    " AVG(CAST(price AS DOUBLE)) AS avg_price, SUM(price) AS sum_price"
)
_WINNERS = "id, itemName, seller, bidder, price, dateTime"
_HIGHEST = "price DESC, dateTime ASC, bidder ASC"
_BIDS = "auction, bidder, price, channel, url, dateTime, extra"


def _ranked(source: str, by: str, order: str, most: int, columns: str, rank: str = "") -> str:
    """The first rows of every group of every window, in the text that ours and Flink share."""
    return f"""SELECT {columns}{rank} FROM (
        SELECT {columns},
            ROW_NUMBER() OVER (PARTITION BY window_start, window_end, {by} ORDER BY {order}) AS rank_number
        FROM {source}) ranked WHERE rank_number <= {most}"""


def _judged(source: str, by: str, order: str, most: int, columns: str, rank: str = "") -> str:
    return f"""SELECT {columns}{rank} FROM (SELECT *,
        ROW_NUMBER() OVER (PARTITION BY bucket(dateTime, 10), {by} ORDER BY {order}) AS rank_number
        FROM {source}) WHERE rank_number <= {most}"""


def _sold(auction_time: str) -> str:
    return f"""SELECT b.auction, b.bidder, b.price, b.channel, b.url, b.dateTime AS bid_time, b.extra AS bid_extra,
        a.itemName, a.description, a.initialBid, a.reserve, {auction_time} AS auction_time, a.expires, a.seller,
        a.category, a.extra AS auction_extra
        FROM bid b JOIN auction a ON b.auction = a.id AND {_near("b", "a")} WHERE a.category = 10"""


QUERIES = {
    "q3": Query(
        "sellers of three states, and what they sell",
        f"""SELECT p.name, p.city, p.state, a.id FROM auction a JOIN person p ON a.seller = p.id AND {_near("a", "p")}
        WHERE a.category = 10 AND (p.state = 'OR' OR p.state = 'ID' OR p.state = 'CA')""",
        bound=_APART,
    ),
    "q4": Query(
        "mean winning price of each category",
        f"""SELECT category, AVG(CAST(final AS DOUBLE)) AS mean FROM (
            SELECT id, category, MAX(price) AS final FROM ({_WON}) won [RANGE 10 SECONDS] GROUP BY id, category
        ) prices [RANGE 10 SECONDS] GROUP BY category""",
        judge=f"""SELECT category, AVG(final) AS mean FROM (SELECT id, category, bucket(dateTime, 10) AS w,
            MAX(price) AS final FROM ({_WON}) GROUP BY ALL) GROUP BY category, w""",
        flink=f"""{_WON_VIEW} SELECT category, AVG(CAST(final AS DOUBLE)) AS mean FROM (
            SELECT id, category, MAX(price) AS final, window_start, window_end FROM {_tumbling("won")}
            GROUP BY id, category, window_start, window_end) GROUP BY category, window_start, window_end""",
        bound=_EACH,
    ),
    "q5": Query(
        "auctions with most bids in 10 s, every 2 s",
        f"""SELECT b.auction, b.num FROM ({_COUNTED}) b JOIN (
            SELECT MAX(c.num) AS maxn, c.starttime, c.endtime FROM ({_COUNTED}) c GROUP BY c.starttime, c.endtime) m
        ON b.starttime = m.starttime AND b.endtime = m.endtime AND b.num >= m.maxn""",
        judge=f"""WITH counts AS ({_HOPPED}) SELECT auction, num FROM counts
            QUALIFY num = MAX(num) OVER (PARTITION BY starttime)""",
    ),
    "q7": Query(
        "highest bids of every 10 s",
        f"""SELECT b.auction, b.price, b.bidder, b.dateTime, b.extra FROM bid b JOIN (
            SELECT MAX(price) AS maxprice, window_start AS starttime, window_time AS lasttime
            FROM {_tumbling("bid")} GROUP BY window_start, window_end, window_time) m
        ON b.price = m.maxprice AND b.dateTime BETWEEN m.lasttime - INTERVAL '10' SECOND AND m.lasttime
        AND b.dateTime >= m.starttime""",
        judge="""SELECT auction, price, bidder, dateTime, extra FROM bid
            QUALIFY price = MAX(price) OVER (PARTITION BY bucket(dateTime, 10))""",
    ),
    "q8": Query(
        "persons who sold something in the 10 s in which they came",
        f"""SELECT p.id, p.name, p.starttime FROM (
            SELECT id, name, window_start AS starttime, window_end AS endtime
            FROM {_tumbling("person")} GROUP BY id, name, window_start, window_end) p JOIN (
            SELECT seller, window_start AS starttime, window_end AS endtime
            FROM {_tumbling("auction")} GROUP BY seller, window_start, window_end) a
        ON p.id = a.seller AND p.starttime = a.starttime AND p.endtime = a.endtime""",
        judge="""SELECT DISTINCT p.id, p.name, bucket(p.dateTime, 10) AS starttime FROM person p JOIN auction a
            ON p.id = a.seller AND bucket(p.dateTime, 10) = bucket(a.dateTime, 10)""",
    ),
    "q9": Query(
        "the winning bid of each auction",
        _ranked(f"({_WON}) won [RANGE 10 SECONDS]", "id", _HIGHEST, 1, _WINNERS),
        judge=_judged(f"({_WON})", "id", _HIGHEST, 1, _WINNERS),
        flink=_WON_VIEW + _ranked(_tumbling("won"), "id", _HIGHEST, 1, _WINNERS),
        bound=_EACH,
    ),
    "q11": Query(
        "bids of each session of a bidder, gaps of 10 s",
        """SELECT bidder, COUNT(*) AS bid_count, window_start AS starttime, window_end AS endtime
        FROM TABLE(SESSION(TABLE bid PARTITION BY bidder, DESCRIPTOR(dateTime), INTERVAL '10' SECOND))
        GROUP BY bidder, window_start, window_end""",
        judge="""SELECT bidder, COUNT(*) AS bid_count, MIN(dateTime) AS starttime,
            MAX(dateTime) + INTERVAL '10' SECOND AS endtime FROM (SELECT bidder, dateTime,
            SUM(CAST(new AS INT)) OVER (PARTITION BY bidder ORDER BY dateTime ROWS UNBOUNDED PRECEDING) AS session
            FROM (SELECT bidder, dateTime,
            coalesce(dateTime - LAG(dateTime) OVER (PARTITION BY bidder ORDER BY dateTime) > INTERVAL '10' SECOND, true)
            AS new FROM bid)) GROUP BY bidder, session""",
    ),
    "q15": Query(
        "bids, bidders and auctions by price",
        f"SELECT window_start AS begins, {_TOTALS}{_RANKS} {_OF_A_DAY} window_start, window_end",
        judge=f"SELECT bucket(dateTime, 86400) AS begins, {_TOTALS}{_RANKS} FROM bid GROUP BY 1",
        bound=_DAY,
    ),
    "q16": Query(
        "the same for each channel",
        f"SELECT channel, window_start AS begins, {_LATEST}{_RANKS} {_OF_A_DAY} channel, window_start, window_end",
        judge=f"SELECT channel, bucket(dateTime, 86400) AS begins, {_LATEST}{_RANKS} FROM bid GROUP BY 1, 2",
        bound=_DAY,
    ),
    "q17": Query(
        "bids for each auction, and their prices",
        f"SELECT window_start AS begins, {_PRICES} {_OF_A_DAY} auction, window_start, window_end",
        judge=f"SELECT bucket(dateTime, 86400) AS begins, {_PRICES} FROM bid GROUP BY begins, auction",
        bound=_DAY,
    ),
    "q18": Query(
        "the last bid of a bidder for an auction",
        _ranked(_tumbling("bid"), "bidder, auction", "dateTime DESC, price DESC", 1, _BIDS),
        judge=_judged("bid", "bidder, auction", "dateTime DESC, price DESC", 1, _BIDS),
        bound=_EACH,
    ),
    "q19": Query(
        "the ten highest bids for each auction",
        _ranked(_tumbling("bid"), "auction", _HIGHEST, 10, _BIDS, ", rank_number"),
        judge=_judged("bid", "auction", _HIGHEST, 10, _BIDS, ", rank_number"),
        bound=_EACH,
    ),
    "q20": Query(
        "bids with their auction, of one category",
        _sold("a.dateTime"),
        # Flink writes one event time into a table, and no other.
        flink=_sold("CAST(a.dateTime AS TIMESTAMP(3))"),
        bound=_APART,
    ),
    "q23": Query(
        "bids of persons who sell something, too",
        f"""SELECT b.bidder, b.price, b.channel, b.url, b.extra AS bid_extra, p.id AS person_id, p.name, p.emailAddress,
        p.creditCard, p.city, p.state, p.extra AS person_extra, a.itemName, a.description, a.initialBid, a.reserve,
        a.dateTime AS auction_time, a.expires, a.seller, a.category, a.extra AS auction_extra
        FROM bid b JOIN person p ON p.id = b.bidder AND {_near("p", "b")}
        JOIN auction a ON a.seller = b.bidder AND {_near("a", "b")}""",
        bound=_APART,
    ),
}  # fmt: skip
