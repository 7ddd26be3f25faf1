"""Query text as a tree, before any name is resolved.

A named sub-query, `WITH name AS (SELECT ...)` before the query that reads it, stands for what is in its parentheses, as
if that were written where the name is read; read twice, it is two operators. It is known after its closing parenthesis,
so no query reads itself. What no query reads is refused, for nobody would look at it.

Invariant: every token of the text belongs to exactly one clause, or the query is refused; nothing is skipped over.
"""

from __future__ import annotations

from typing import Any, NoReturn

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from slackwater.core.errors import QueryError
from slackwater.language import unsupported
from slackwater.language.forms import unwrapped
from slackwater.language.kinds import KINDS
from slackwater.language.nodes import (
    ASOF_JOINS,
    EXPLAIN_AS,
    JOINED_AS,
    TEXT,
    VERSIONED_AS,
    Item,
    MatchTime,
    Named,
    Select,
    Stream,
    place_of,
    put,
)
from slackwater.language.scope import matching
from slackwater.language.tokens import CLOSING, OPENING, is_name, word
from slackwater.language.top_parser import HARD, SOFT, TopParser
from slackwater.language.window_parser import WINDOW_WORDS

MOST_NESTED = 8
"""How deep queries may stand in each other."""
MOST_INPUTS = 32
"""Streams that a query reads in all, sub-queries included."""
_JOINS = frozenset(("JOIN", "INNER", "CROSS"))
_INNER = (("JOIN",), ("INNER", "JOIN"))
_OTHERS: dict[tuple[str, ...], str] = {
    **{tuple(name.split()): name for name in JOINED_AS},
    **{(side, "OUTER", "JOIN"): f"{side} JOIN" for side in ("LEFT", "RIGHT", "FULL")},
    **{(kind, "JOIN"): f"LEFT {kind} JOIN" for kind in ("SEMI", "ANTI")},
    **{tuple(name.split()): name for name in ASOF_JOINS},
    ("ASOF", "LEFT", "JOIN"): "LEFT ASOF JOIN",
}
"""How joins are written that are not inner joins."""
_EXAMPLE_OF_VERSIONS = "as in o JOIN rates FOR SYSTEM_TIME AS OF o.ts AS r ON o.currency = r.currency"
_TARGETS = frozenset(("COMPLETE", "NO", "DELAY", "RECALL", "ERROR"))
_WINDOW_WORDS = frozenset(("RANGE", "SLIDE", "ROWS"))
_SECOND = (
    "one query at a time; this is the beginning of a second. A file of several queries gives each of them a name:"
    " CREATE QUERY name AS SELECT ..."
)
_OF_A_FILE = "CREATE QUERY names a query in a file of queries; one query by itself begins with SELECT"
_NOT_AN_ALIAS = (
    (SOFT - WINDOW_WORDS - {"MATCH"})
    | _JOINS
    | _TARGETS
    | _WINDOW_WORDS
    | {"FROM", "WHERE", "WITH", "GROUP", "BY", "ON"}
)


class QueryParser(TopParser):
    """Reads whole queries."""

    def parse(self, raw_tokens: list[Token], sql: str) -> list[exp.Expr | None]:
        """The one query of a text."""
        self.begin(raw_tokens, sql)
        self.named = {}
        self.waits, self.delay = None, 0
        self.numbered = {}
        self.read: set[str] = set()
        """Those names that some query reads."""
        self.extents: dict[int, tuple[int, int]] = {}
        """By the identity of a named query: how deep it is, and how many streams it reads."""
        return [self._statement()]

    def _statement(self) -> Select:
        explain = self._explain()
        self._read_named()
        query = self._query()
        query.meta[TEXT] = self.sql
        self._check_named(query)
        self.check_numbered()
        self._read_ending(query)
        query.set("explain", explain)
        query.set("named", list(self.named.values()))
        self._end()
        return query

    def _read_ending(self, query: Select) -> None:
        """When results leave, how good they must be, and options: each once, EMIT at any place among them."""
        self._read_emitted(query)
        start = self.peek()
        if start is not None and self.accept("WITH"):
            query.set("target", self.read_target(start))
        self._read_emitted(query)
        if query.target is None and self.waits is not None:
            query.set("target", self.waits)
        if self.accept("OPTIONS"):
            query.set("settings", self.read_settings())
        self._read_emitted(query)

    def _read_emitted(self, query: Select) -> None:
        if query.emitted is None and self.accept("EMIT"):
            query.set("emitted", self.read_emitted(self._prev))

    def _explain(self) -> str | None:
        """EXPLAIN, or EXPLAIN (FORMAT name), in front of the query; None where the results are asked for."""
        if not self.accept("EXPLAIN"):
            return None
        if not self.accept("(", "FORMAT"):
            return EXPLAIN_AS[0]
        form = self.word()
        if form not in EXPLAIN_AS:
            self.fail(f"EXPLAIN has the formats {' and '.join(EXPLAIN_AS)}")
        self.take()
        if not self.accept(")"):
            self.fail("expected ) here, as in EXPLAIN (FORMAT JSON) SELECT ...")
        return form

    def _query(self) -> Select:
        """SELECTs with UNION ALL between them."""
        first = self._select()
        united = []
        while self.word() == "UNION":
            if not self.accept("UNION", "ALL"):
                self.fail(unsupported.CLAUSES["UNION"])
            united.append(self._select())
        first.set("united", united)
        return first

    def _select(self) -> Select:
        if self.word() == "WITH":
            self.fail("a query begins with SELECT; WITH name AS (SELECT ...) stands once, before the whole query")
        if self.word() == "CREATE":
            self.fail(_OF_A_FILE)
        if not self.accept("SELECT"):
            self.fail(unsupported.CLAUSES.get(self.word()) or "a query begins with SELECT, or with EXPLAIN SELECT")
        first, behind = self._prev, self.peek()
        select = Select(kind=next((kind for kind in KINDS if self.accept(kind)), ""))
        if select.kind and behind is not None:
            select.meta["kind"] = behind.start, behind.end + 1
        select.set("to_stream", self.read_relation_to_stream())
        items = self.read_list("SELECT needs columns to return", frozenset(), self.read_selected)
        select.set("items", self.take_number(select, [self._item(*one) for one in items]))
        if not self.accept("FROM"):
            self.fail("expected FROM and the streams to read here")
        select.set("streams", self._from(self.is_numbered(select)))
        windows, match = self._between()
        if self.accept("WHERE"):
            select.set("where", self._condition("WHERE", commas=False))
            more, again = self._between(match)
            windows, match = windows + more, match or again
        select.set("windows", windows)
        select.set("match", match)
        if self.accept("GROUP", "BY"):
            select.set("groups", [one for one, *_ in self.read_list("GROUP BY needs columns to group by", SOFT)])
        if self.accept("HAVING"):
            select.set("having", self._condition("HAVING", commas=False))
        self.read_top(select)
        self.move_window(select)
        return self.flattened(self.placed(select, first))

    def _between(self, known: MatchTime | None = None) -> tuple[list[Any], MatchTime | None]:
        """What is said about time between streams: window clauses and MATCH TIME, which stands once."""
        windows, match = self.read_window_clauses(), None
        while self.begins_match():
            if known is not None or match is not None:
                self.fail("MATCH TIME stands here already; it is said once")
            match = self.read_match()
            windows += self.read_window_clauses()
        return windows, match

    def _item(self, node: exp.Expr, tokens: list[Token]) -> Item:
        called = None
        if isinstance(node, exp.Alias):
            named = len(tokens) > 2 and word(tokens[-2]) == "AS"
            if isinstance(node.this, exp.Literal) and not named:
                self.fail("write AS before the name of a constant", tokens[-1])
            node, called = node.this, node.args["alias"]
        item = Item(node=node, called=called)
        put(item, tokens[0].start, tokens[-1].end + 1)
        return item

    def _from(self, numbered: bool) -> list[Stream]:
        streams = [self._stream(numbered=numbered)]
        while True:
            if self.accept(","):
                streams.append(self._stream())
            elif self.accept("CROSS", "JOIN"):
                streams.append(self._stream("CROSS JOIN"))
                if self.word() == "ON":
                    self.fail("CROSS JOIN takes no ON; write JOIN ... ON")
            elif (join := self._join()) is not None:
                streams.append(self._stream(join))
                if streams[-1].join in ASOF_JOINS:
                    self._read_as_of(streams[-1])
                    continue
                if self.accept("USING"):
                    streams[-1].set("using", self._using(join))
                    continue
                if not self.accept("ON"):
                    self.fail(
                        unsupported.CLAUSES.get(self.word()) or f"{join} needs a condition: ON, as in ON a.key = b.key"
                    )
                streams[-1].set("on", self._condition("ON", commas=True))
            else:
                return streams

    def _read_version(self, stream: Stream) -> None:
        """FOR SYSTEM_TIME AS OF a time, which makes an as-of join of a join."""
        if stream.join not in VERSIONED_AS or stream.query is not None:
            self.fail(f"FOR SYSTEM_TIME stands behind the name of a stream of versions, {_EXAMPLE_OF_VERSIONS}")
        if not self.accept("FOR", "SYSTEM_TIME", "AS", "OF"):
            self.fail(f"expected FOR SYSTEM_TIME AS OF and a time here, {_EXAMPLE_OF_VERSIONS}")
        first, name, table = self._curr, self.name("the event time of the other stream"), None
        if self.accept("."):
            table, name = name, self.name("the event time of the other stream")
        column = exp.Column(this=name, table=table)
        put(column, first.start, self._prev.end + 1)
        stream.set("as_of", column)
        stream.set("join", VERSIONED_AS[stream.join])

    def _read_as_of(self, stream: Stream) -> None:
        """What stands behind the stream of an as-of join."""
        if self.accept("MATCH_CONDITION"):
            written = self._condition("MATCH_CONDITION", commas=True, more=frozenset(("ON", "USING", "WITHIN")))
            if not isinstance(written, exp.Paren):
                self.fail("MATCH_CONDITION stands in parentheses, as in MATCH_CONDITION (a.ts >= b.ts)", self._prev)
            stream.set("match_condition", unwrapped(written))
        if self.accept("ON"):
            stream.set("on", self._condition("ON", commas=True, more=frozenset(("WITHIN", "MATCH_CONDITION"))))
        if self.word() in ("USING", "MATCH_CONDITION"):
            self.fail(f"write {stream.join} b MATCH_CONDITION (a.ts >= b.ts) ON a.key = b.key, in this order")
        if self.accept("WITHIN"):
            stream.set("within", self.read_duration("how much older a tuple may be"))

    def _join(self) -> str | None:
        """The words of a join with ON that comes next, as they are written out."""
        if any(self.accept(*words) for words in _INNER):
            return "JOIN"
        return next((join for words, join in _OTHERS.items() if self.accept(*words)), None)

    def _using(self, join: str) -> list[exp.Identifier]:
        """The columns of USING, in parentheses."""
        if join != "JOIN":
            self.fail(f"USING is for inner joins; with {join} write ON, as in ON a.key = b.key", self._prev)
        if not self.accept("("):
            self.fail("USING takes columns in parentheses, as in USING (key)")
        names = [self.name("a column that both sides have")]
        while self.accept(","):
            names.append(self.name("a column that both sides have"))
        if not self.accept(")"):
            self.fail("expected ',' or ')' here, as in USING (key)")
        return names

    def _stream(self, join: str = ",", numbered: bool = False) -> Stream:
        first = self._curr
        stream = Stream(join=join)
        if self.begins_table_function():
            self.read_table_function(stream)
        else:
            self.read_table(stream)
        if self.word() == "FOR" and self.word(1) == "SYSTEM_TIME":
            self._read_version(stream)
        self.placed(stream, first)
        self.read_watermark(stream)
        called, window = self._alias(), self.read_window()
        if called is None and window is not None:
            called = self._alias()
        self.read_watermark(stream)
        if window is not None and stream.window is not None:
            raise QueryError("there is a window already; leave one of them out", self.sql, *window.place)
        if called is None and isinstance(stream.reads, Select):
            if not numbered and not self.is_numbered(stream.reads):
                self.fail("a sub-query needs a name, as in (SELECT v FROM s) j")
            # Flink lets it have none.
            called = exp.Identifier(this="t")
        stream.set("called", called)
        stream.set("window", window or stream.window)
        return stream

    def read_table(self, stream: Stream) -> None:
        """What an entry of FROM reads: a query in parentheses, or a name; STREAM s WATERMARK ... is Spark's."""
        if self.word() == "(":
            stream.set("reads", self._query_in_parentheses())
            return
        if self.word(2) == "WATERMARK":
            self.accept("STREAM")
        name = self._stream_name()
        stream.set("reads", name)
        stream.meta["query"] = self._named_query(name.name)

    def _stream_name(self) -> exp.Identifier:
        if self.word() in ("LATERAL", "UNNEST") and (is_name(self.peek(1)) or self.word(1) == "("):
            self.fail(unsupported.CLAUSES["LATERAL"])
        name = self.name("the name of a stream")
        if self.word() == ".":
            self.fail("a stream's name has one part; put it in quotes if it has a dot in it")
        if self.word() == "(":
            self.fail(unsupported.FUNCTIONS["window"])
        return name

    def _query_in_parentheses(self) -> Select:
        opening = self.take()
        if self.word() != "SELECT":
            self.fail("in parentheses FROM takes a query, as in FROM (SELECT v FROM s) j")
        query = self.read_query(opening)
        self.accept(")")
        return query

    def read_query(self, opening: Token) -> Select:
        """The query that stands in parentheses, up to the one that closes it."""
        if self.inside == MOST_NESTED:
            self.fail(f"queries may stand {MOST_NESTED} deep in each other, and this is one more", opening)
        self.inside += 1
        query = self._query()
        if self.word() in ("WITH", "OPTIONS", "EMIT"):
            why = "it leaves as one" if self.word() == "EMIT" else "one slack serves all of it"
            self.fail(f"{self.word()} stands once, at the end of the whole query: {why}")
        if self.word() != ")":
            self._refuse_rest("expected ')' and a name for the sub-query here")
        self.inside -= 1
        return query

    def _alias(self) -> exp.Identifier | None:
        if self.accept("AS"):
            return self.name("another name for the stream")
        begins_clause = self.begins_window_clause() or self.begins_match() or self._begins_rate()
        begins_clause = begins_clause or self.begins_watermark()
        begins_clause = begins_clause or (
            self.word() == "MATCH_CONDITION" and (self.word(1) == "(" or self.word(2) == ".")
        )
        if is_name(self.peek()) and self.word() not in _NOT_AN_ALIAS and not begins_clause:
            return self.name("another name for the stream")
        return None

    def _begins_rate(self) -> bool:
        """Whether a window that follows a rate comes next without its brackets, and not a stream called so."""
        after = self.peek(1)
        return self.word() == "RATE" and after is not None and after.token_type == TokenType.NUMBER

    def _condition(self, clause: str, commas: bool, more: frozenset[str] = frozenset()) -> exp.Expr:
        """A condition up to the next clause; `more` begins one here, too."""
        stop = self.clause_end(HARD | {","} if commas else HARD, SOFT | _JOINS | more)
        if stop == self._index:
            self.fail(f"{clause} needs a condition")
        tokens = self._tokens[self._index : stop]
        depth = 0
        for before, token, after in zip(tokens, tokens[1:], tokens[2:], strict=False):
            depth += (word(before) in OPENING) - (word(before) in CLOSING)
            if not depth and word(before) == "AND" and word(token) in WINDOW_WORDS and word(after) == "(":
                self.fail(f"{word(token)} is a clause of its own, not a condition; leave out AND before it", before)
        return self.read_expression(stop)

    # Sub-queries that have a name.

    def _read_named(self) -> None:
        """All named sub-queries that come next, and not how long to wait."""
        if self.word() != "WITH" or not is_name(self.peek(1)) or self.word(2) not in ("AS", "("):
            return
        self.take()
        while True:
            first = self._curr
            name = self.name("the name of a sub-query")
            if not self.accept("AS"):
                self.fail("expected AS and a query in parentheses here; its columns are named in its SELECT list")
            if matching(name.name, self.named):
                self.fail(f"there is a sub-query '{name.name}' already; call this one otherwise", first)
            if self.word() != "(" or self.word(1) != "SELECT":
                self.fail("expected a query in parentheses here, as in WITH j AS (SELECT v FROM s)")
            query = self._query_in_parentheses()
            self.named[name.name] = self.placed(Named(called=name, query=query), first)
            # Those it reads are known, so this goes no deeper than the query itself.
            self._check_extent(query, as_name=True)
            if not self.accept(","):
                return

    def _named_query(self, name: str) -> Select | None:
        """The sub-query that a name in FROM stands for, if it does."""
        found = matching(name, self.named)
        if len(found) != 1:
            return None
        self.read.add(found[0])
        return self.named[found[0]].query

    def _check_named(self, query: Select) -> None:
        """Refuse names that nothing reads, and what becomes too deep or too much where names stand for queries."""
        for name, one in self.named.items():
            if name not in self.read:
                raise QueryError(f"no query reads '{name}'; leave it out", self.sql, *place_of(one.called))
        if self.named:
            self._check_extent(query)

    def _check_extent(self, query: Select, as_name: bool = False) -> None:
        """Refuse what is too deep or too much; what stands for a name is at least one deeper where it is read."""
        place = place_of(next(iter(self.named.values())).called)
        deep, streams = self._extent(query)
        deep += as_name
        if deep > MOST_NESTED + 1:
            message = f"queries may stand {MOST_NESTED} deep in each other, and with these names it is {deep - 1}"
            raise QueryError(message, self.sql, *place)
        if streams > MOST_INPUTS:
            message = f"a query reads at most {MOST_INPUTS} streams in all, and with these names it is {streams}"
            raise QueryError(message, self.sql, *place)

    def _extent(self, query: Select) -> tuple[int, int]:
        """How deep a query is, and how many streams it reads; a query under several names is looked at once."""
        if id(query) not in self.extents:
            inside = [stream.query for select in query.all_united for stream in select.streams]
            inside += [member for select in query.all_united for member in select.members]
            below = [(0, 1) if one is None else self._extent(one) for one in inside]
            self.extents[id(query)] = 1 + max(deep for deep, _ in below), sum(streams for _, streams in below)
        return self.extents[id(query)]

    # What stands behind a query.

    def _end(self) -> None:
        self.accept(";")
        if self.peek() is None:
            return
        if self.word(-1) == ";":
            self.fail(_SECOND)
        self._refuse_rest()

    def _refuse_rest(self, otherwise: str | None = None) -> NoReturn:
        """Refuse what stands behind a query, with what is wrong about it."""
        known = unsupported.CLAUSES.get(self.word())
        if self.word() == "UNION" and self.word(1) == "ALL":
            known = "UNION ALL stands before WITH and OPTIONS, which are for the whole query"
        if self.word() in _TARGETS:
            known = f"write WITH before {self.word()}"
        if self.word() in _WINDOW_WORDS or self._begins_rate():
            known = "a window stands in brackets after its stream, as in s [RANGE 5 SECONDS]"
        if self.begins_window_clause() or self.begins_match():
            known = f"{self.word()} cannot stand here; it stands before or after WHERE"
        if known is None and self.word() in ("WHERE", "GROUP", "HAVING", "WITH", "OPTIONS", "FROM", "JOIN", "ON"):
            order = "SELECT, FROM, WHERE, GROUP BY, HAVING, WITH, OPTIONS"
            known = f"{self.word()} cannot stand here; the order is {order}, each once"
        token = self.peek()
        strange = "" if token is None else f"did not expect '{self.sql[token.start : token.end + 1]}' here"
        self.fail(known or otherwise or strange)
