"""Expressions of a query as sqlglot trees that know their places.

Invariant: every node has a place in the query's text (`place_of`), and every function call is an `Anonymous` node,
whatever sqlglot knows about the function: which functions exist is decided by the allow-list, not by the parser. Only
CAST and EXTRACT, which are no lists of arguments, have nodes of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NoReturn

from sqlglot import exp
from sqlglot.errors import ParseError
from sqlglot.parser import Parser
from sqlglot.tokenizer_core import Token, TokenType

from slackwater.core.errors import QueryError
from slackwater.language import unsupported
from slackwater.language.tokens import word

_FROM, _TO = "from", "to"
_NEEDS_LEFT = frozenset((",", "AND", "OR", "=", "<>", "!=", "<", "<=", ">", ">=", "/", "%", "IN", "IS", "BETWEEN"))


class _StumbleError(ParseError):
    """The parser could not go on; `token` is where."""

    def __init__(self, message: str, token: Token | None) -> None:
        super().__init__(message)
        self.token = token


def _placed(make: Callable[[], exp.Expr]) -> Callable[[Parser, Token], exp.Expr]:
    def parse(parser: Parser, token: Token) -> exp.Expr:
        node = make()
        node.meta.update({_FROM: token.start, _TO: token.end + 1})
        return node

    return parse


def _cast(parser: Any, make: Callable[..., exp.Expr]) -> exp.Expr:
    """The inside of CAST(x AS type); which types there are is not for the parser to say."""
    this = parser._parse_disjunction()
    if this is None or not parser._match(TokenType.ALIAS):
        parser.raise_error("Expecting AS and a type, as in CAST(x AS DOUBLE)")
    words: list[str] = []
    depth = 0
    while parser._curr and not (depth == 0 and parser._curr.token_type == TokenType.R_PAREN):
        depth += (parser._curr.token_type == TokenType.L_PAREN) - (parser._curr.token_type == TokenType.R_PAREN)
        words.append(parser._curr.text)
        parser._advance()
    if not words:
        parser.raise_error("Expecting a type, as in CAST(x AS DOUBLE)")
    return make(this=this, to=exp.Var(this=" ".join(words).replace(" (", "(").replace("( ", "(").replace(" )", ")")))


def _extract(parser: Any) -> exp.Expr:
    """The inside of EXTRACT(part FROM x)."""
    part = parser._curr
    if not part or not word(part).isidentifier():
        parser.raise_error("Expecting the name of a part, as in EXTRACT(YEAR FROM ts)")
    parser._advance()
    if not parser._match(TokenType.FROM):
        parser.raise_error("Expecting FROM, as in EXTRACT(YEAR FROM ts)")
    moment = parser._parse_disjunction()
    if moment is None:
        parser.raise_error("Expecting a timestamp, as in EXTRACT(YEAR FROM ts)")
    return exp.Extract(this=exp.Var(this=part.text), expression=moment)


class _ExpressionParser(Parser):
    FUNCTIONS: ClassVar[dict[str, Callable[..., Any]]] = {}
    FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., Any]]] = {
        "CAST": lambda self: _cast(self, exp.Cast),
        "TRY_CAST": lambda self: _cast(self, exp.TryCast),
        "EXTRACT": _extract,
    }
    NO_PAREN_FUNCTIONS: ClassVar[dict[Any, Any]] = {}
    NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {"CASE": Parser.NO_PAREN_FUNCTION_PARSERS["CASE"]}
    PRIMARY_PARSERS: ClassVar[dict[Any, Any]] = {
        **Parser.PRIMARY_PARSERS,
        TokenType.NULL: _placed(exp.Null),
        TokenType.TRUE: _placed(lambda: exp.Boolean(this=True)),
        TokenType.FALSE: _placed(lambda: exp.Boolean(this=False)),
    }

    def read(self, tokens: list[Token], text: str, aliased: bool) -> exp.Expr | None:
        method = _ExpressionParser._parse_expression if aliased else _ExpressionParser._parse_disjunction
        found = self._parse(method, tokens, text)
        return found[0] if found else None

    def _parse_unary(self) -> exp.Expr | None:
        first = self._curr
        node = super()._parse_unary()
        if node is not None and first and self._prev:
            node.meta.setdefault(_FROM, first.start)
            node.meta.setdefault(_TO, self._prev.end + 1)
        return node

    def _parse_window(self, this: exp.Expr | None, alias: bool = False) -> exp.Expr | None:
        """FILTER (WHERE condition) behind a call; FILTER is a word like any other to the tokenizer."""
        if this is not None and word(self._curr or None) == "FILTER" and word(self._next or None) == "(":
            self._advance(2)
            if not self._match(TokenType.WHERE):
                self.raise_error("Expecting WHERE, as in SUM(v) FILTER (WHERE v > 0)")
            condition = self._parse_disjunction()
            if condition is None:
                self.raise_error("Expecting a condition, as in SUM(v) FILTER (WHERE v > 0)")
            this = exp.Filter(this=this, expression=condition)
            self._match_r_paren()
        return super()._parse_window(this, alias)

    def _parse_escape(self, this: exp.Expr | None) -> exp.Expr | None:
        if this is None or not self._curr or word(self._curr) != "ESCAPE":
            return this
        self._advance()
        return exp.Escape(this=this, expression=self._parse_string())

    def raise_error(self, message: str, token: Token | None = None) -> NoReturn:
        raise _StumbleError(message, token or self._curr or None)


def read_expression(tokens: list[Token], text: str, aliased: bool = False) -> exp.Expr:
    """The tree of one expression; with `aliased` it may end in a name of its own (AS or not).

    >>> from slackwater.language.tokens import tokenize
    >>> node = read_expression(tokenize("a.v + sqrt(b.v)"), "a.v + sqrt(b.v)")
    >>> type(node).__name__, place_of(node), place_of(node.expression)
    ('Add', (0, 15), (6, 15))
    """
    _refuse_gaps(tokens, text)
    try:
        node = _ExpressionParser().read(tokens, text, aliased)
    except _StumbleError as stumble:
        raise _explain(stumble, tokens, text) from None
    except RecursionError:
        raise QueryError("this is nested too deeply", text, tokens[0].start, tokens[-1].end + 1) from None
    if node is None:
        raise QueryError("expected an expression here", text, tokens[0].start, tokens[0].end + 1)
    return node


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
        refusal = unsupported.inside_expression(word(suspect))
        if refusal is not None:
            return QueryError(refusal, text, suspect.start, suspect.end + 1)
    wanted = f"; {_wanted(stumble)}" if _wanted(stumble) else ""
    written = text[token.start : token.end + 1]
    return QueryError(f"did not expect '{written}' here{wanted}", text, token.start, token.end + 1)


def _wanted(stumble: _StumbleError) -> str:
    """sqlglot's own word on what was missing, where it is about the text and not about its classes."""
    message = str(stumble)
    return message[0].lower() + message[1:] if message.startswith("Expect") else ""


def place_of(node: exp.Expr) -> tuple[int, int]:
    """Where a node stands in the text: offset of its first character, and of the one after its last."""
    if _FROM in node.meta:
        return node.meta[_FROM], node.meta[_TO]
    places = [place_of(child) for child in node.iter_expressions()]
    if "start" in node.meta:
        places.append((node.meta["start"], node.meta["end"] + 1))
    places = [place for place in places if place[1] > 0]
    return min((start for start, _ in places), default=0), max((stop for _, stop in places), default=0)


def name_place(call: exp.Expr) -> tuple[int, int]:
    """Where the name of a function call stands, without its arguments."""
    return (call.meta["start"], call.meta["end"] + 1) if "start" in call.meta else place_of(call)
