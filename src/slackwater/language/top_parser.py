"""Lists of a query, and its first rows: ORDER BY and LIMIT, QUALIFY, and WHERE around ROW_NUMBER.

`SELECT * FROM (SELECT ..., ROW_NUMBER() OVER (...) AS rn FROM ...) WHERE rn <= 3`, as for Flink, is the inner query
with QUALIFY rn <= 3.

Invariant: the tree says of a query how many rows are wanted and how they are numbered, however that was written.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import NoReturn

from sqlglot import exp
from sqlglot.tokenizer_core import Token

from slackwater.core.errors import QueryError
from slackwater.language import unsupported
from slackwater.language.forms import unwrapped
from slackwater.language.nodes import Item, Named, RowNumber, Select, Top, place_of, put
from slackwater.language.tokens import word
from slackwater.language.window_functions import WindowFunctionParser
from slackwater.language.window_parser import WINDOW_WORDS

HARD = frozenset(("FROM", "WHERE", "WITH", "GROUP BY", "ORDER BY"))
SOFT = unsupported.CLAUSE_WORDS | WINDOW_WORDS | {"HAVING", "OPTIONS", "MATCH"}
_CALL = ("ROW_NUMBER", "(", ")", "OVER", "(")
_AS_IN = "as in ROW_NUMBER() OVER (PARTITION BY window ORDER BY v DESC)"
_CHOOSE = "ROW_NUMBER only numbers rows, which have no end; say how many are wanted, as in QUALIFY rn <= 3"
_AROUND = "around ROW_NUMBER stands SELECT * or names of columns, and WHERE rn <= 3 alone; or write QUALIFY rn <= 3"
_HOW_MANY = "expected how many rows are wanted here, a whole number from 1 on"
_QUALIFY = f"QUALIFY is for ROW_NUMBER, {_AS_IN} <= 3, or by the name it has in the SELECT list"
_LESS = {exp.LTE: 0, exp.LT: -1, exp.EQ: 0}


class TopParser(WindowFunctionParser):
    """Reads lists, and which rows are the first."""

    numbered: dict[int, Top]
    """By the identity of a query: its ROW_NUMBER, until it is known how many rows are wanted."""
    named: dict[str, Named]
    """The sub-queries that have a name."""

    def read_list(
        self, nothing: str, soft: frozenset[str], read: Callable[[int], exp.Expr] | None = None
    ) -> list[tuple[exp.Expr, list[Token]]]:
        """Comma-separated expressions up to the next clause, each with its tokens; brackets are kept whole."""
        start, end, depth = self._index, self.clause_end(HARD, soft), 0
        cuts = [start - 1]
        for at in range(start, end):
            here = word(self._tokens[at])
            depth += (here in ("(", "[")) - (here in (")", "]"))
            if depth == 0 and here == ",":
                cuts.append(at)
        cuts.append(end)
        items = [(before + 1, after) for before, after in pairwise(cuts)]
        self._advance(end - start)
        if items[-1][0] == end:
            self.fail(nothing if len(items) == 1 else "something is missing after the last comma")
        for (first, stop), (following, its_stop) in pairwise(items):
            if first == stop:
                after = self._tokens[following] if following < its_stop else None
                self.fail("something is missing before this item", after)
        found = []
        for first, stop in items:
            self._advance(first - self._index)
            found.append(((read or self.read_expression)(stop), self._tokens[first:stop]))
        return found

    def read_selected(self, stop: int) -> exp.Expr:
        """An item of the SELECT list, which may be ROW_NUMBER() OVER (...)."""
        if not self._begins_number():
            return self.read_expression(stop, aliased=True)
        number = self._number()
        self.accept("AS")
        called = self.name("a name for ROW_NUMBER") if self._index < stop else exp.Identifier(this="row_number")
        if self._index < stop:
            self.fail("ROW_NUMBER() OVER (...) stands by itself in the SELECT list")
        return exp.Alias(this=number, alias=called)

    def take_number(self, select: Select, items: list[Item]) -> list[Item]:
        """The items that are left without ROW_NUMBER, which is noted."""
        found = [at for at, item in enumerate(items) if isinstance(item.node, RowNumber)]
        if len(found) > 1:
            self._refuse("a query numbers its rows once; leave this ROW_NUMBER out", items[found[1]])
        if found and len(items) == 1:
            self._refuse("SELECT needs columns to return beside ROW_NUMBER", items[0])
        for at in found:
            number, called = items[at].node, items[at].called
            self.numbered[id(select)] = Top(ranking=number, called=called)
        return [item for at, item in enumerate(items) if at not in found]

    def read_top(self, select: Select) -> None:
        """ORDER BY and LIMIT, or QUALIFY, if they come next."""
        first = self._curr
        if self.accept("QUALIFY"):
            top = Top(ranking=self._number()) if self._begins_number() else self._named_number(select, first)
            offset = next((less for sign, less in (("<=", 0), ("<", -1), ("=", 0)) if self.accept(sign)), None)
            one_alone = self.word(-1) == "="
            if offset is None:
                self.fail(_QUALIFY)
            most = self._how_many(offset)
            if one_alone and most != 1:
                self.fail(_HOW_MANY, self._prev)
        elif self.accept("ORDER", "BY"):
            top, order = Top(ranking=RowNumber()), self._order("LIMIT")
            top.ranking.set("order", order)
            if not self.accept("LIMIT"):
                self.fail(unsupported.CLAUSES["ORDER"], first)
            most = self._how_many(0)
        else:
            return
        top.set("most", most)
        select.set("top", self.placed(top, first))

    def _named_number(self, select: Select, first: Token) -> Top:
        """The ROW_NUMBER of the SELECT list, by its name."""
        named, top = self.name("ROW_NUMBER").name.lower(), self.numbered.pop(id(select), None)
        if top is None or top.called is None or top.called.name.lower() != named:
            self.fail(_QUALIFY, first)
        return top

    def _how_many(self, less: int) -> int:
        token = self.peek()
        if token is None or not token.text.isdecimal() or int(token.text) + less < 1:
            self.fail(_HOW_MANY)
        return int(self.take().text) + less

    def _begins_number(self) -> bool:
        return all(self.word(ahead) == expected for ahead, expected in enumerate(_CALL))

    def _number(self) -> RowNumber:
        """ROW_NUMBER() OVER (PARTITION BY ... ORDER BY ...)."""
        first = self._curr
        self.accept(*_CALL)
        # A parenthesis that closes nothing else closes this one.
        self.inside += 1
        partition = []
        if self.accept("PARTITION", "BY"):
            partition = [one for one, *_ in self.read_list("PARTITION BY needs columns", frozenset())]
        if not self.accept("ORDER", "BY"):
            self.fail(f"ROW_NUMBER needs an order, {_AS_IN}")
        order = self._order(")")
        self.inside -= 1
        if not self.accept(")"):
            self.fail(f"expected ')' here, {_AS_IN}")
        return self.placed(RowNumber(partition=partition, order=order), first)

    def _order(self, end: str) -> list[exp.Expr]:
        nothing = "ORDER BY needs columns to order by"
        return [one for one, *_ in self.read_list(nothing, SOFT | {end}, self._ordered)]

    def _ordered(self, stop: int) -> exp.Expr:
        """v, v DESC, v DESC NULLS FIRST: as in Spark nulls are least where nothing is said."""
        end, words = stop, [word(token) for token in self._tokens[:stop]]
        nulls = words[-2:] in (["NULLS", "FIRST"], ["NULLS", "LAST"])
        end -= 2 * nulls
        way = end - 1 > self._index and words[end - 1] in ("ASC", "DESC")
        descending = way and words[end - 1] == "DESC"
        node = self.read_expression(end - way)
        self._advance(stop - self._index)
        first = words[-1] == "FIRST" if nulls else not descending
        return exp.Ordered(this=node, desc=descending, nulls_first=first)

    # As for Flink: SELECT * FROM (SELECT ..., ROW_NUMBER() OVER (...) AS rn FROM ...) WHERE rn <= 3.

    def is_numbered(self, query: object) -> bool:
        """Whether a query numbers its rows, and does not say how many are wanted."""
        return id(query) in self.numbered

    def flattened(self, select: Select) -> Select:
        """The query; around one that numbers its rows, that one with what is said of their number."""
        inner = select.streams[0].query
        if inner is None or not self.is_numbered(inner):
            return select
        top = self.numbered.pop(id(inner))
        assert top.called is not None, "it has a name in the SELECT list"
        others = (*select.streams[1:], select.streams[0].window, select.groups, select.having, select.top, select.match)
        if any(others) or select.windows or select.kind or select.to_stream or self.is_numbered(select):
            self._refuse(_AROUND, select)
        where = select.where or select
        top.set("most", self._wanted(where, top.called.name))
        self._choose(select, inner, top)
        put(top, *place_of(where))
        inner.set("top", top)
        # What stood around it is gone, and so is the name that it was read by.
        for name in [name for name, one in self.named.items() if one.query is inner]:
            del self.named[name]
        inner.pop()
        return inner

    def _wanted(self, written: exp.Expr, name: str) -> int:
        where = unwrapped(written)
        less = next((less for kind, less in _LESS.items() if isinstance(where, kind)), None)
        if less is not None and isinstance(where.this, exp.Column) and where.this.name.lower() == name.lower():
            number = where.args["expression"]
            most = int(number.name) + less if isinstance(number, exp.Literal) and number.name.isdecimal() else 0
            if most == 1 or (most > 1 and not isinstance(where, exp.EQ)):
                return most
        return self._refuse(_AROUND, written)

    def _choose(self, select: Select, inner: Select, top: Top) -> None:
        """Leave of the inner list what the outer one names."""
        if len(select.items) == 1 and isinstance(select.items[0].node, exp.Star):
            return
        known = {(item.requested_name or item.node.name).lower(): item for item in inner.items}
        starred = any(isinstance(item.node, exp.Star) for item in inner.items)
        chosen: list[Item] = []
        number, top.args["called"] = top.called, None
        for item in select.items:
            name = item.node.name.lower()
            if not isinstance(item.node, exp.Column) or item.requested_name is not None:
                self._refuse(_AROUND, item)
            elif number is not None and name == number.name.lower():
                top.set("called", number)
            elif name in known:
                chosen.append(known[name])
            elif starred and not item.node.table:
                chosen.append(item)
            else:
                self._refuse(_AROUND, item)
        if not chosen:
            self._refuse("SELECT needs columns to return beside ROW_NUMBER", select)
        inner.set("items", chosen)

    def check_numbered(self) -> None:
        """Refuse rows that are numbered, and of which nothing says how many are wanted."""
        for top in self.numbered.values():
            self._refuse(_CHOOSE, top.ranking)

    def _refuse(self, message: str, node: exp.Expr) -> NoReturn:
        raise QueryError(message, self.sql, *place_of(node))
