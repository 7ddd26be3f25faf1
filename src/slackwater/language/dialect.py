"""The language as a dialect of sqlglot: a tokenizer, a parser and a generator.

`parse` makes a tree of a text and `written` a text of a tree. To add a clause, write its class in `nodes`, its method
in `clause_parser`, its function in `generator`, and what it does not go with in `check`.

Invariant: parsing what is written gives an equal tree.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot.dialects.dialect import Dialect

from slackwater.core.quality import Quality
from slackwater.language.generator import QueryGenerator
from slackwater.language.nodes import Select, Stream
from slackwater.language.parser import QueryParser
from slackwater.language.tokens import QueryTokenizer, tokenize


class Slackwater(Dialect):
    """What sqlglot has to know of the language."""

    Tokenizer = QueryTokenizer
    Parser = QueryParser
    Generator = QueryGenerator


def written(query: Select) -> str:
    """A tree as query text.

    >>> written(parse("select v from s [5 SECONDS]  with delay 1000 ms -- late"))
    'SELECT v FROM s [RANGE 5 s] WITH DELAY 1 s'
    """
    return query.sql(dialect=Slackwater, comments=False)


def parse(text: str) -> Select:
    """The tree of a query.

    >>> query = parse("SELECT a.v FROM a [5 SEC], b [5 SEC] WHERE a.k = b.k WITH NO WAIT")
    >>> [stream.window.range for stream in query.streams], str(query.quality)
    ([5000000, 5000000], 'NO WAIT')
    """
    (query,) = Slackwater().parser().parse(tokenize(text), text)
    assert isinstance(query, Select)
    return query


def parse_quality(text: str, whole: bool = True) -> Quality:
    """A target by itself, with or without its WITH; where it is not `whole`, the period of RECALL may be left out.

    >>> str(parse_quality("with recall 95% over 1 minute"))
    'RECALL 0.95 OVER 1 min'
    """
    parser = QueryParser()
    parser.begin(tokenize(text), text)
    parser.accept("WITH")
    target = parser.read_target(parser._curr, whole)
    if parser.peek() is not None:
        parser.fail("the target ends here; nothing may follow it")
    return target.quality


def sources_of(text: str) -> tuple[str, ...]:
    """The sources a query reads as it spells them, each once, in the order of the text.

    >>> sources_of("SELECT x.v FROM trades x [5 s], (SELECT v FROM quotes) y [5 s], trades z [5 s]")
    ('trades', 'quotes')
    """
    return tuple(places_of_sources(text))


def places_of_sources(text: str) -> dict[str, tuple[int, int]]:
    """The same, each with the place where the text names it first.

    >>> places_of_sources("SELECT x.v FROM trades x [5 s], trades z [5 s]")
    {'trades': (16, 22)}
    """
    found: dict[str, tuple[int, int]] = {}
    for stream in _raw_streams(parse(text)):
        found.setdefault(stream.source, stream.place)
    return found


def _raw_streams(query: Select) -> Iterator[Stream]:
    for select in query.all_united:
        for stream in select.streams:
            yield from [stream] if stream.query is None else _raw_streams(stream.query)
        for member in select.members:
            yield from _raw_streams(member)
