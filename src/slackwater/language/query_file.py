"""A file of named queries: `CREATE QUERY name AS SELECT ...;`, any number of them, with `;` between two.

Invariant: every token of the file belongs to exactly one query, or the file is refused. A query is read as if it stood
alone; only what is wrong with it is reported with its name, and with its place in the file. Two names differ in more
than case, for each of them names a folder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, TypeVar

from sqlglot.tokenizer_core import Token

from slackwater.core.errors import QueryError, SlackwaterError, UsageError
from slackwater.language.dialect import parse, places_of_sources
from slackwater.language.scope import did_you_mean, matching
from slackwater.language.tokens import is_name, tokens_of, word

MOST_CHARACTERS = 5_000_000
MOST_QUERIES = 1_000
FORM = "CREATE QUERY name AS SELECT ..."
_Made = TypeVar("_Made")


@dataclass(frozen=True)
class NamedQuery:
    """One query of a file."""

    name: str
    text: str
    """The query by itself, from SELECT on."""
    start: int = 0
    """Where in the file its text begins."""
    name_place: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class QueryFile:
    """The queries of a file, in its order."""

    text: str
    """Empty where the queries were given one by one."""
    queries: tuple[NamedQuery, ...]

    def texts(self) -> dict[str, str]:
        """Every query by its name."""
        return {query.name: query.text for query in self.queries}

    def sources(self) -> tuple[str, ...]:
        """What the queries read, as they spell it, each once."""
        spelled = [
            name for query in self.queries for name in self.made_of(query, lambda one: places_of_sources(one.text))
        ]
        return tuple(dict.fromkeys(spelled))

    def check_streams(self, given: Iterable[str], remedy: str = "") -> None:
        """Refuse the first query that reads a stream which is not there; `remedy` says of `{}` how to give it."""
        known = list(given)
        for query in self.queries:
            for name, (start, stop) in self.made_of(query, lambda one: places_of_sources(one.text)).items():
                if matching(name, known):
                    continue
                hint = did_you_mean(name, known) or f"; the streams are {', '.join(known)}"
                message = f"query {query.name}: there is no stream '{name}'{hint}{remedy.format(name)}"
                raise QueryError(message, self.text, query.start + start, query.start + stop)

    def made_of(self, query: NamedQuery, make: Callable[[NamedQuery], _Made]) -> _Made:
        """What is made of a query; where that fails, the error has its name, and its place in the file."""
        try:
            return make(query)
        except QueryError as error:
            raise self._located(query, error) from None
        except SlackwaterError as error:
            raise type(error)(f"query {query.name}: {error}") from None

    def of_each(self, make: Callable[[NamedQuery], _Made]) -> dict[str, _Made]:
        """What is made of every query, by name; nothing at all where it fails for one of them."""
        return {query.name: self.made_of(query, make) for query in self.queries}

    def _located(self, query: NamedQuery, error: QueryError) -> QueryError:
        message = f"query {query.name}: {error.message}"
        if error.start is None or error.text != query.text or not self.text:
            return QueryError(message, error.text, error.start, error.stop)
        stop = None if error.stop is None else query.start + error.stop
        return QueryError(message, self.text, query.start + error.start, stop)


def is_query_file(text: str) -> bool:
    """Whether a text gives names to queries, and is not one query alone.

    >>> is_query_file("-- mine\\ncreate query q as select v from s"), is_query_file("SELECT v FROM s")
    (True, False)
    """
    if not isinstance(text, str) or "create" not in text.lower():
        return False
    try:
        tokens = tokens_of(text)
    except QueryError:
        # Whatever is wrong with it, whoever reads it says so.
        return text.lstrip().lower().startswith("create")
    return bool(tokens) and word(tokens[0]) == "CREATE"


def read_query_file(text: str) -> QueryFile:
    """The queries of a file, none of them bound yet.

    >>> file = read_query_file("CREATE QUERY fast AS SELECT v FROM s WITH NO WAIT; CREATE QUERY all AS SELECT v FROM s")
    >>> file.texts()
    {'fast': 'SELECT v FROM s WITH NO WAIT', 'all': 'SELECT v FROM s'}
    """
    if not isinstance(text, str):
        raise UsageError(f"a file of queries is a text, not a {type(text).__name__}")
    if len(text) > MOST_CHARACTERS:
        raise QueryError(f"a file of queries has at most {MOST_CHARACTERS:,} characters, and this one {len(text):,}")
    statements = _statements(tokens_of(text), text)
    if len(statements) > MOST_QUERIES:
        raise QueryError(
            f"a file has at most {MOST_QUERIES:,} queries, and this one {len(statements):,}; cut it in two"
        )
    file = QueryFile(text, tuple(_named(tokens, text) for tokens in statements))
    _check_names(file)
    file.of_each(_check_parsed)
    return file


def query_file(given: str | Path) -> dict[str, str]:
    """The queries of a file, or of its text, by name: what everything that takes several queries takes.

    >>> query_file("CREATE QUERY fast AS SELECT v FROM s WITH NO WAIT; CREATE QUERY slow AS SELECT v FROM s")
    {'fast': 'SELECT v FROM s WITH NO WAIT', 'slow': 'SELECT v FROM s'}
    """
    if isinstance(given, str) and is_query_file(given):
        return read_query_file(given).texts()
    try:
        text = Path(given).read_text()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"{given}: this cannot be read: {reason}; give a file of queries, or its text") from None
    return read_query_file(text).texts()


def queries_by_name(given: Mapping[str, str]) -> QueryFile:
    """Queries that are given with their names and not as a file; what is wrong with one is reported in its own text.

    >>> queries_by_name({"fast": "SELECT v FROM s WITH NO WAIT"}).queries[0].name
    'fast'
    """
    if not given:
        raise UsageError("there is no query; give each of them a name, as in {'alerts': 'SELECT ...'}")
    for name in given:
        if not isinstance(name, str) or not name.strip():
            raise UsageError(f"a query is called by a text, and not {name!r}")
    file = QueryFile("", tuple(NamedQuery(name, text) for name, text in given.items()))
    _check_names(file)
    file.of_each(_check_parsed)
    return file


def _statements(tokens: list[Token], text: str) -> list[list[Token]]:
    """The tokens between semicolons; behind the last one there may be none."""
    if not tokens:
        raise QueryError(f"there is no query in this file; write {FORM}")
    statements: list[list[Token]] = [[]]
    for token in tokens:
        if word(token) != ";":
            statements[-1].append(token)
        elif statements[-1]:
            statements.append([])
        else:
            _fail("there is no query before this ';'; leave it out", text, token)
    return statements if statements[-1] else statements[:-1]


def _named(tokens: list[Token], text: str) -> NamedQuery:
    """One statement as its name and the query behind AS."""
    if word(tokens[0]) != "CREATE":
        if word(tokens[0]) in ("SELECT", "WITH", "EXPLAIN"):
            _fail(
                f"a query of a file needs a name: write CREATE QUERY name AS before {word(tokens[0])}", text, tokens[0]
            )
        _fail(f"expected another query here, as in {FORM}, or the end of the file", text, tokens[0])
    ahead: list[Token | None] = [*tokens, None, None, None]
    if word(ahead[1]) != "QUERY":
        _fail(
            f"CREATE makes queries alone: write {FORM}; streams are given beside the file", text, ahead[1] or tokens[0]
        )
    name, then = ahead[2], ahead[3]
    if not is_name(name) or (word(name) == "AS" and word(then) != "AS"):
        _fail(f"a query needs a name: write {FORM}", text, name or tokens[-1])
    assert name is not None, "it is a name"
    if word(then) == ".":
        _fail("the name of a query has one part; put it in quotes if it has a dot in it", text, name)
    if word(then) != "AS":
        _fail(f"expected AS behind the name of query {name.text}, as in {FORM}", text, then or tokens[-1])
    assert then is not None, "it is AS"
    inside = tokens[4:]
    if not inside:
        _fail(f"query {name.text} is empty: write SELECT ... behind AS", text, then)
    _refuse_missing_semicolon(name.text, inside, text)
    start, stop = inside[0].start, inside[-1].end + 1
    return NamedQuery(name.text, text[start:stop], start, (name.start, name.end + 1))


def _refuse_missing_semicolon(name: str, tokens: list[Token], text: str) -> None:
    """Refuse `CREATE QUERY name AS` inside of a query, where it would be taken for an alias and odd words behind it."""
    for at in range(len(tokens) - 3):
        words = [word(token) for token in tokens[at : at + 4]]
        if words[0] == "CREATE" and words[1] == "QUERY" and words[3] == "AS":
            _fail(f"query {name} does not end before the next one; write ; between them", text, tokens[at])


def _check_names(file: QueryFile) -> None:
    """Refuse two queries of one name."""
    taken: dict[str, NamedQuery] = {}
    for query in file.queries:
        known = taken.setdefault(query.name.lower(), query)
        if known is query:
            continue
        message = f"two queries are called {query.name}; give one of them another name"
        if known.name != query.name:
            message = f"queries {known.name} and {query.name} differ in case alone; give one of them another name"
        raise QueryError(message, file.text, *query.name_place)


def _check_parsed(query: NamedQuery) -> None:
    if parse(query.text).explain:
        message = "EXPLAIN is for the whole file: leave it out here, and `slackwater explain FILE` prints the plan"
        raise QueryError(message, query.text, 0, len("EXPLAIN"))


def _fail(message: str, text: str, token: Token) -> NoReturn:
    raise QueryError(message, text, token.start, token.end + 1)
