"""How large a query may be.

Invariant: what is too long or too deep is refused before anything is made of it, by one look at its tokens; whatever
comes after may go down into it by recursion.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot.tokenizer_core import Token, TokenType

from slackwater.core.errors import QueryError, UsageError

MOST_CHARACTERS = 200_000
MOST_TOKENS = 20_000
MOST_DEEP = 32
"""Brackets, and CASE ... END, that stand in each other; also NOT and signs that stand before each other."""
MOST_DIGITS = 400
_OPENING = frozenset(("(", "[", "CASE"))
_CLOSING = frozenset((")", "]", "END"))
_PREFIXES = frozenset(("NOT", "-", "+", "~"))


def check_length(text: str) -> None:
    """Refuse what is no text, or one that nobody wrote as a query."""
    if not isinstance(text, str):
        raise UsageError(f"a query is a text, not a {type(text).__name__}")
    if len(text) > MOST_CHARACTERS:
        message = f"a query has at most {MOST_CHARACTERS:,} characters, and this one has {len(text):,}"
        raise QueryError(message)


def check_tokens(tokens: Sequence[Token], text: str) -> None:
    """Refuse too many tokens, numbers of too many digits, and what is nested too deeply."""
    if len(tokens) > MOST_TOKENS:
        extra = tokens[MOST_TOKENS]
        message = f"a query has at most {MOST_TOKENS:,} words and signs, and this one has {len(tokens):,}"
        raise QueryError(message, text, extra.start, extra.end + 1)
    deep = row = 0
    before = ""
    for token in tokens:
        if token.token_type == TokenType.NUMBER and len(token.text) > MOST_DIGITS:
            message = f"a number has at most {MOST_DIGITS} digits, and this one has {len(token.text):,}"
            raise QueryError(message, text, token.start, token.end + 1)
        # After a dot, and in quotes, any word is a name.
        plain = before != "." and token.token_type not in (TokenType.IDENTIFIER, TokenType.STRING)
        said = token.text.upper() if plain else ""
        before = token.text
        deep = max(0, deep + (said in _OPENING) - (said in _CLOSING))
        row = row + 1 if said in _PREFIXES else 0
        if max(deep, row) > MOST_DEEP:
            what = "brackets may stand" if deep > MOST_DEEP else "NOT and signs may stand"
            where = "in each other" if deep > MOST_DEEP else "before each other"
            message = f"this is nested too deeply: {what} {MOST_DEEP} deep {where}"
            raise QueryError(message, text, token.start, token.end + 1)
