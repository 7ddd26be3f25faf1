"""Expressions of a query as sqlglot trees that know their places; and the cursor that clauses are read with.

Invariant: every node has a place in the query's text (`place_of`), and every function call is an `Anonymous` node,
whatever sqlglot knows about the function: which functions exist is decided by the allow-list, not by the parser. Only
CAST and EXTRACT, which are no lists of arguments, have nodes of their own. An expression ends where a clause begins,
whatever it could have made of the words behind.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, NoReturn

from sqlglot import exp
from sqlglot.errors import ParseError
from sqlglot.parser import Parser
from sqlglot.tokenizer_core import Token, TokenType

from slackwater.core.errors import QueryError
from slackwater.language import unsupported
from slackwater.language.nodes import ColonCast, Select, put
from slackwater.language.tokens import CLOSING, OPENING, check_tokens, ends_operand, is_name, word

_NEEDS_LEFT = frozenset((",", "AND", "OR", "=", "<>", "!=", "<", "<=", ">", ">=", "/", "%", "IN", "IS", "BETWEEN"))
_BEFORE_A_QUERY = (["IN", "("], ["EXISTS", "("])


class _StumbleError(ParseError):
    """The parser could not go on; `token` is where."""

    def __init__(self, message: str, token: Token | None) -> None:
        super().__init__(message)
        self.token = token


def _placed(make: Callable[[], exp.Expr]) -> Callable[[Parser, Token], exp.Expr]:
    def parse(parser: Parser, token: Token) -> exp.Expr:
        node = make()
        put(node, token.start, token.end + 1)
        return node

    return parse


class ExpressionParser(Parser):
    """Reads expressions, and steps over tokens for whoever reads clauses."""

    FUNCTIONS: ClassVar[dict[str, Callable[..., Any]]] = {}
    FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., Any]]] = {
        "CAST": lambda self: self._cast(exp.Cast),
        "TRY_CAST": lambda self: self._cast(exp.TryCast),
        "EXTRACT": lambda self: self._extract(),
    }
    NO_PAREN_FUNCTIONS: ClassVar[dict[Any, Any]] = {}
    NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {"CASE": Parser.NO_PAREN_FUNCTION_PARSERS["CASE"]}
    PRIMARY_PARSERS: ClassVar[dict[Any, Any]] = {
        **Parser.PRIMARY_PARSERS,
        TokenType.NULL: _placed(exp.Null),
        TokenType.TRUE: _placed(lambda: exp.Boolean(this=True)),
        TokenType.FALSE: _placed(lambda: exp.Boolean(this=False)),
    }
    COLUMN_OPERATORS: ClassVar[dict[Any, Any]] = {
        **Parser.COLUMN_OPERATORS,
        TokenType.DCOLON: lambda self, this, to: self.expression(ColonCast(this=this, to=to)),
    }

    def begin(self, tokens: list[Token], text: str) -> None:
        """Stand before the first token of a text."""
        check_tokens(tokens, text)
        self.reset()
        self.sql, self._tokens, self._tokens_size = text, tokens, len(tokens)
        self._advance(0)
        self.inside = 0
        """How many sub-queries are open here; a parenthesis that closes nothing else closes the innermost."""

    def peek(self, ahead: int = 0) -> Token | None:
        """The token that comes next, or one behind it."""
        index = self._index + ahead
        return self._tokens[index] if index < self._tokens_size else None

    def word(self, ahead: int = 0) -> str:
        """The same as a word."""
        return word(self.peek(ahead))

    def take(self) -> Token:
        """Step over the next token."""
        token = self.peek()
        if token is None:
            self.fail("the query ends too early")
        self._advance()
        return token

    def accept(self, *words: str) -> bool:
        """Step over these words if they come next."""
        if any(self.word(ahead) != expected for ahead, expected in enumerate(words)):
            return False
        self._advance(len(words))
        return True

    def name(self, what: str) -> exp.Identifier:
        """Step over a name."""
        if not is_name(self.peek()):
            self.fail(f"expected {what} here")
        token = self.take()
        found = exp.Identifier(this=token.text, quoted=token.token_type == TokenType.IDENTIFIER)
        put(found, token.start, token.end + 1)
        return found

    def fail(self, message: str, token: Token | None = None) -> NoReturn:
        """Refuse the query at a token, by default the next one."""
        raise self.error(message, token)

    def error(self, message: str, token: Token | None = None) -> QueryError:
        """The complaint `fail` raises; at the end of the text it points behind the last token."""
        token = token or self.peek()
        if token is not None:
            return QueryError(message, self.sql, token.start, token.end + 1)
        end = self._tokens[-1].end + 1 if self._tokens else 0
        return QueryError(message, self.sql, end, end + 1)

    def clause_end(self, hard: Collection[str], soft: Collection[str]) -> int:
        """Where the next clause begins, outside of brackets.

        A hard word always begins one; a soft word only where an expression could have ended, so that it may also name a
        column.
        """
        index, depth = self._index, 0
        tokens, size = self._tokens, self._tokens_size
        while index < size:
            token, before = tokens[index], tokens[index - 1] if index else None
            name = word(token)
            qualified = word(before) == "."
            if depth == 0 and not qualified and word(before) != "DISTINCT":
                pair = f"{name} {word(tokens[index + 1]) if index + 1 < size else ''}"
                ended = index > self._index and before is not None and ends_operand(before)
                if name in hard or pair in hard or (name in soft and ended) or name == ";":
                    break
                if self.inside and name == ")":
                    break
            if not qualified:
                depth += (name in OPENING) - (name in CLOSING)
            if depth < 0:
                self.fail(f"this '{token.text}' closes nothing", token)
            index += 1
        return index

    @contextmanager
    def up_to(self, stop: int) -> Iterator[None]:
        """See no token from `stop` on."""
        size = self._tokens_size
        self._tokens_size = stop
        self._advance(0)
        try:
            yield
        finally:
            self._tokens_size = size
            self._advance(0)

    def read_expression(self, stop: int, aliased: bool = False) -> exp.Expr:
        """The tree of the tokens before `stop`; with `aliased` it may end in a name of its own (AS or not)."""
        tokens = self._tokens[self._index : stop]
        _refuse_gaps(tokens, self.sql)
        try:
            with self.up_to(stop):
                node = self._parse_expression() if aliased else self._parse_disjunction()
                if self._curr:
                    self.raise_error("Invalid expression / Unexpected token")
        except _StumbleError as stumble:
            raise _explain(stumble, tokens, self.sql) from None
        except RecursionError:
            raise QueryError("this is nested too deeply", self.sql, tokens[0].start, tokens[-1].end + 1) from None
        if node is None:
            self.fail("expected an expression here", tokens[0])
        return node

    def read_query(self, opening: Token) -> Select:
        """The query that stands in parentheses, up to the one that closes it."""
        raise NotImplementedError

    def raise_error(self, message: str, token: Token | None = None) -> NoReturn:
        """Stop at a token, with sqlglot's own word on what was missing."""
        raise _StumbleError(message, token or self._curr or None)

    def _parse_select(self, *_: Any, **__: Any) -> Select | None:
        """A query inside an expression: behind IN and EXISTS alone."""
        if self.word() != "SELECT":
            return None
        if [self.word(-2), self.word(-1)] not in _BEFORE_A_QUERY:
            self.fail(unsupported.INSIDE["SELECT"])
        return self.read_query(self._prev)

    def _parse_in(self, this: exp.Expr | None, alias: bool = False) -> exp.In:
        if self.word() != "(" or self.word(1) != "SELECT":
            return super()._parse_in(this, alias)
        opening = self.take()
        found = self.expression(exp.In(this=this, query=self.read_query(opening)))
        self.accept(")")
        return found

    def _parse_primary(self) -> exp.Expr | None:
        """A number without a digit before its point stays as it is written."""
        if self._match_pair(TokenType.DOT, TokenType.NUMBER):
            return exp.Literal.number(f".{self._prev.text}")
        return super()._parse_primary()

    def _parse_unary(self) -> exp.Expr | None:
        first = self._curr
        node = super()._parse_unary()
        if node is not None and first and self._prev and "place" not in node.meta:
            put(node, first.start, self._prev.end + 1)
        return node

    def _parse_window(self, this: exp.Expr | None, alias: bool = False) -> exp.Expr | None:
        """FILTER (WHERE condition) behind a call; FILTER is a word like any other to the tokenizer."""
        if this is not None and self.accept("FILTER", "("):
            if not self._match(TokenType.WHERE):
                self.raise_error("Expecting WHERE, as in SUM(v) FILTER (WHERE v > 0)")
            condition = self._parse_disjunction()
            if condition is None:
                self.raise_error("Expecting a condition, as in SUM(v) FILTER (WHERE v > 0)")
            this = exp.Filter(this=this, expression=condition)
            self._match_r_paren()
        return super()._parse_window(this, alias)

    def _parse_escape(self, this: exp.Expr | None) -> exp.Expr | None:
        if this is None or not self.accept("ESCAPE"):
            return this
        return exp.Escape(this=this, expression=self._parse_string())

    def _parse_dcolon(self) -> exp.Expr | None:
        """The type behind ::, a name and what stands in parentheses behind it."""
        if not is_name(self.peek()):
            return None
        start = self._index
        self._advance()
        self.accept("PRECISION")
        if self.word() == "(":
            while self.peek() is not None and self.word(-1) != ")":
                self._advance()
        return _type_of(self._tokens[start : self._index])

    def _cast(self, make: Callable[..., exp.Expr]) -> exp.Expr:
        """The inside of CAST(x AS type); which types there are is not for the parser to say."""
        this = self._parse_disjunction()
        if this is None or not self._match(TokenType.ALIAS):
            self.raise_error("Expecting AS and a type, as in CAST(x AS DOUBLE)")
        start, depth = self._index, 0
        while self._curr and not (depth == 0 and self.word() == ")"):
            depth += (self.word() == "(") - (self.word() == ")")
            self._advance()
        if self._index == start:
            self.raise_error("Expecting a type, as in CAST(x AS DOUBLE)")
        return make(this=this, to=_type_of(self._tokens[start : self._index]))

    def _extract(self) -> exp.Expr:
        """The inside of EXTRACT(part FROM x)."""
        part = self._curr
        if not part or not word(part).isidentifier():
            self.raise_error("Expecting the name of a part, as in EXTRACT(YEAR FROM ts)")
        self._advance()
        if not self._match(TokenType.FROM):
            self.raise_error("Expecting FROM, as in EXTRACT(YEAR FROM ts)")
        moment = self._parse_disjunction()
        if moment is None:
            self.raise_error("Expecting a timestamp, as in EXTRACT(YEAR FROM ts)")
        return exp.Extract(this=exp.Var(this=part.text), expression=moment)


def _type_of(tokens: list[Token]) -> exp.Var:
    written = " ".join(token.text for token in tokens)
    return exp.Var(this=written.replace(" (", "(").replace("( ", "(").replace(" )", ")"))


def _refuse_gaps(tokens: list[Token], text: str) -> None:
    """Refuse a missing operand where sqlglot would read over it, as in f(1,)."""
    before = "("
    for token in tokens:
        here = word(token)
        if (before in ("(", ",") and here in _NEEDS_LEFT) or (before == "," and here == ")"):
            raise QueryError(f"something is missing before this '{token.text}'", text, token.start, token.end + 1)
        before = here


def _explain(stumble: _StumbleError, tokens: list[Token], text: str) -> QueryError:
    token = stumble.token
    if token is None:
        end = tokens[-1].end + 1
        wanted = f": {_wanted(stumble)}" if _wanted(stumble) else ""
        return QueryError(f"the expression ends too early{wanted}", text, end, end + 1)
    position = next((at for at, other in enumerate(tokens) if other is token), 0)
    for suspect in (token, tokens[max(position - 1, 0)]):
        refusal = unsupported.INSIDE.get(word(suspect))
        if refusal is not None:
            return QueryError(refusal, text, suspect.start, suspect.end + 1)
    wanted = f"; {_wanted(stumble)}" if _wanted(stumble) else ""
    written = text[token.start : token.end + 1]
    return QueryError(f"did not expect '{written}' here{wanted}", text, token.start, token.end + 1)


def _wanted(stumble: _StumbleError) -> str:
    """sqlglot's own word on what was missing, where it is about the text and not about its classes."""
    message = str(stumble)
    return message[0].lower() + message[1:] if message.startswith("Expect") else ""
