"""Query text as tokens.

Invariant: every token knows its offsets in the text as the user wrote it, so every complaint can point at its cause.
Only the words an expression needs are keywords here; clause words are told apart by where they stand, so a column may
be called `date`, `left` or `options`. What is too long or too deep is refused before anything is made of it, by one
look at its tokens; whatever comes after may go down into it by recursion.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType
from sqlglot.tokens import Tokenizer

from slackwater.core.errors import QueryError, UsageError

MOST_CHARACTERS = 200_000
MOST_TOKENS = 20_000
MOST_DEEP = 32
"""Brackets, and CASE ... END, that stand in each other; also NOT and signs that stand before each other."""
MOST_DIGITS = 400
_PREFIXES = frozenset(("NOT", "-", "+", "~"))


def _words(listed: str) -> frozenset[str]:
    return frozenset(listed.split())


_KEYWORDS = _words(
    "SELECT FROM WHERE AS AND OR NOT IN BETWEEN IS NULL TRUE FALSE CASE WHEN THEN ELSE END DISTINCT LIKE ILIKE EXISTS "
    "INTERVAL TIMESTAMP DATE"
)
_SYMBOLS = _words(":: || == <> != <= >= <=>")
OPENING = _words("( [ CASE")
CLOSING = _words(") ] END")
_VALUES = _words(") ] END NULL TRUE FALSE")
_NEVER_A_NAME = _KEYWORDS - _words("TIMESTAMP DATE INTERVAL EXISTS LIKE ILIKE")


class QueryTokenizer(Tokenizer):
    """Knows the words and signs that expressions need."""

    IDENTIFIERS = ['"', "`"]  # noqa: RUF012 - the base class declares it so
    COMMANDS = set()  # noqa: RUF012 - no word may swallow the rest of the text
    KEYWORDS = {  # noqa: RUF012
        word: kind for word, kind in Tokenizer.KEYWORDS.items() if word in _KEYWORDS or word in _SYMBOLS
    }


def tokenize(text: str) -> list[Token]:
    """The tokens of a query, comments left out.

    >>> [token.text for token in tokenize("FROM a [5 sec] -- the last five")]
    ['FROM', 'a', '[', '5', 'sec', ']']
    """
    check_length(text)
    return tokens_of(text)


def tokens_of(text: str) -> list[Token]:
    """The tokens of any text, however many there are."""
    tokenizer = QueryTokenizer()
    try:
        return tokenizer.tokenize(text)
    except TokenError:
        read = tokenizer.tokens[-1].end + 1 if tokenizer.tokens else 0
        quotes = [place for mark in "'\"`" if (place := text.find(mark, read)) >= 0]
        start = min(quotes, default=read)
        raise QueryError("this quote is never closed", text, start, start + 1) from None


def word(token: Token | None) -> str:
    """A token as a word to compare keywords and symbols with: upper case, and nothing for a quoted name or a string."""
    if token is None or token.token_type in (TokenType.IDENTIFIER, TokenType.STRING):
        return ""
    return str(token.text).upper()


def is_name(token: Token | None) -> bool:
    """Whether a token can name a stream, a column or an option."""
    if token is not None and token.token_type == TokenType.IDENTIFIER:
        return True
    return word(token).isidentifier() and word(token) not in _NEVER_A_NAME


def ends_operand(token: Token) -> bool:
    """Whether an expression may end with this token; after it a clause can begin."""
    if token.token_type in (TokenType.STRING, TokenType.NUMBER):
        return True
    return is_name(token) or word(token) in _VALUES


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
        deep = max(0, deep + (said in OPENING) - (said in CLOSING))
        row = row + 1 if said in _PREFIXES else 0
        if max(deep, row) > MOST_DEEP:
            what = "brackets may stand" if deep > MOST_DEEP else "NOT and signs may stand"
            where = "in each other" if deep > MOST_DEEP else "before each other"
            message = f"this is nested too deeply: {what} {MOST_DEEP} deep {where}"
            raise QueryError(message, text, token.start, token.end + 1)
