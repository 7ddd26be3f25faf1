"""Names in a query, matched to streams and columns; and what to say of a function that is not there.

Invariant: a name that is spelled exactly wins; failing that, one that differs in case alone, if it is the only one.
Between two candidates nothing is ever guessed. A function that SQL has is said to be not offered, and nothing is put in
its place; a name is suggested only where a slip of the finger could have made the one out of the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches

from sqlglot import exp

from slackwater.core.errors import QueryError
from slackwater.expressions.functions import ExpressionTypeError, typed_call
from slackwater.expressions.tree import Column, Expr
from slackwater.language.bound import StreamRef
from slackwater.language.nodes import Select, place_of, text_of

_MORE = frozenset(
    """
    any_value approx_count_distinct base64 bround cardinality cbrt chr collect_list collect_set concat_ws conv
    crc32 current_date current_timestamp date_add date_diff date_format date_sub dateadd datediff decode element_at
    encode explode find_in_set format_number format_string from_unixtime from_utc_timestamp get_json_object hash hex
    instr json_tuple last_day levenshtein locate make_date make_timestamp map md5 monotonically_increasing_id
    months_between named_struct next_day now overlay parse_url percentile_approx pmod printf rand random regexp
    regexp_count regexp_extract regexp_extract_all regexp_like regexp_replace regexp_substr rint rlike sha sha1 sha2
    shiftleft shiftright size slice soundex split split_part struct timestamp_micros timestamp_millis
    timestamp_seconds to_char to_csv to_date to_json to_number to_unix_timestamp to_utc_timestamp translate trunc
    try_add try_divide typeof unbase64 unhex unix_date unix_micros unix_millis unix_seconds unix_timestamp url_decode
    url_encode uuid xxhash64
    """.split()  # noqa: SIM905
)
"""Functions of Spark SQL that the parser has no class for, or has it under another name."""
IN_FRONT = frozenset(
    """
    add_months ascii base64 bin bround cbrt chr concat_ws conv crc32 date_add date_format date_sub datediff decode
    degrees element_at find_in_set format_number format_string from_unixtime get_json_object hash hex initcap
    instr isnan last_day left levenshtein locate log log1p log2 lpad md5 months_between next_day overlay parse_url pmod
    position printf radians regexp_count regexp_extract regexp_extract_all regexp_instr regexp_like regexp_replace
    regexp_substr repeat reverse right rint rpad sha sha1 sha2 shiftleft shiftright size soundex split split_part
    substring_index to_date to_unix_timestamp translate trunc unbase64 unhex unix_timestamp url_decode url_encode
    width_bucket xxhash64
    """.split()  # noqa: SIM905
)
"""Functions of Spark that hang on nothing but their arguments, and that Spark computes where streams are read."""
_IN_SQL = frozenset(name.lower() for name in exp.FUNCTION_BY_NAME) | _MORE
_ALIKE = 0.75
Merged = tuple[tuple[int, str], ...]
"""Columns that USING names, which are one: the stream and the name of each."""


def matching(name: str, known: Iterable[str]) -> list[str]:
    """The names meant: the exact one, or all that differ in case alone.

    >>> matching("KEY", ["key", "value"]), matching("v", ["v", "V"]), matching("x", ["X", "x "])
    (['key'], ['v'], ['X'])
    """
    candidates = list(known)
    return [name] if name in candidates else [other for other in candidates if other.lower() == name.lower()]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint at the closest known name, or nothing.

    >>> did_you_mean("postions", ["positions", "trades"]), did_you_mean("z", ["positions"])
    ("; did you mean 'positions'?", '')
    """
    by_lower = {other.lower(): other for other in known}
    close = get_close_matches(name.lower(), by_lower, n=1)
    return f"; did you mean '{by_lower[close[0]]}'?" if close else ""


@dataclass(frozen=True)
class Scope:
    """The streams an expression may read, and the text it stands in."""

    text: str
    streams: tuple[StreamRef, ...]
    merged: tuple[Merged, ...] = field(default=(), kw_only=True)

    def fail(self, message: str, node: exp.Expr) -> QueryError:
        return QueryError(message, self.text, *place_of(node))

    def written(self, node: exp.Expr) -> str:
        """A node as the text has it."""
        return self.text[slice(*place_of(node))]

    def position(self, alias: exp.Expr) -> int:
        """Which entry of FROM a qualifier names."""
        aliases = [stream.alias for stream in self.streams]
        found = matching(alias.name, aliases)
        if len(found) == 1:
            return aliases.index(found[0])
        hint = did_you_mean(alias.name, aliases)
        raise self.fail(f"no stream '{alias.name}' in FROM{hint or '; it has ' + ', '.join(aliases)}", alias)

    def column(self, node: exp.Column | exp.Dot) -> Column:
        """The column a name means: of the stream that its first part names, if that has one; else a field of a nested
        column, by its path."""
        parts = node.parts
        names = [part.name for part in parts]
        if not all(isinstance(part, exp.Identifier) for part in parts):
            raise self.fail("a column is written as stream.column", node)
        everywhere = range(len(self.streams))
        aliased = matching(names[0], [stream.alias for stream in self.streams]) if len(names) > 1 else []
        if aliased:
            positions, name = [self.position(parts[0])], ".".join(names[1:])
            if self.candidates(name, positions):
                return self._one(name, positions, node)
        whole = ".".join(names)
        if names[0].lower() == "window" and not aliased and not self.candidates(whole, everywhere):
            # A row of an aggregate has the bounds of its window, which Spark has as one value.
            bound = "_".join(names)
            if self.candidates(bound, everywhere):
                return self._one(bound, everywhere, node)
        if len(names) == 1 or self.candidates(whole, everywhere):
            return self._one(whole, everywhere, node)
        if aliased:
            raise self.fail(self._unknown(name, positions), parts[-1])
        if any(matching(names[0], {column.partition(".")[0]}) for at in everywhere for column in self._names(at)):
            raise self.fail(self._unknown(whole, everywhere), parts[-1])
        if len(names) > 2:
            raise self.fail("a column is written as stream.column", node)
        self.position(parts[0])
        raise self.fail(self._unknown(whole, everywhere), parts[-1])

    def _one(self, name: str, positions: Sequence[int], node: exp.Column | exp.Dot) -> Column:
        found = self.candidates(name, positions)
        if len(found) == 1:
            return self.at(found[0])
        merged = next((one for one in self.merged if set(found) <= set(one)), None) if found else None
        if merged is not None:
            return self.at(merged[0])
        if found:
            choices = " or ".join(f"{self.streams[position].alias}.{actual}" for position, actual in found)
            raise self.fail(f"'{name}' could be {choices}; say which", node)
        raise self.fail(self._unknown(name, positions), node.parts[-1])

    def at(self, place: tuple[int, str]) -> Column:
        """The column of a stream by its name."""
        position, name = place
        found = self.streams[position].schema[name]
        return Column(position, name, found.kind, found.scale)

    def _names(self, position: int) -> tuple[str, ...]:
        return self.streams[position].schema.names

    def candidates(self, name: str, positions: Iterable[int]) -> list[tuple[int, str]]:
        matches = [(at, actual) for at in positions for actual in matching(name, self.streams[at].schema.names)]
        return [match for match in matches if match[1] == name] or matches

    def _unknown(self, name: str, positions: Sequence[int]) -> str:
        columns = [column for position in positions for column in self.streams[position].schema.names]
        if len(positions) == 1:
            where = f"in stream {self.streams[positions[0]].alias}"
            listing = f"; it has {', '.join(columns)}"
        else:
            where, listing = "in any stream of FROM", ""
        return f"no column '{name}' {where}{did_you_mean(name, columns) or listing}"


@dataclass(frozen=True)
class InnerScope(Scope):
    """The scope of a query in IN or EXISTS: its own entries come first, those of the query around it behind them."""

    own: int

    def column(self, node: exp.Column | exp.Dot) -> Column:
        try:
            return Scope(self.text, self.streams[: self.own]).column(node)
        except QueryError as error:
            try:
                found = Scope(self.text, self.streams[self.own :]).column(node)
            except QueryError:
                raise error from None
            return replace(found, stream=found.stream + self.own)


def scope_of(select: Select, streams: tuple[StreamRef, ...]) -> Scope:
    """What the expressions of a query may read; columns that USING names count once, as those of their first stream."""
    scope = Scope(text_of(select), streams)
    merged: list[list[tuple[int, str]]] = []
    for position, entry in enumerate(select.streams):
        for name in entry.using:
            own = scope.candidates(name.name, [position])
            before = scope.candidates(name.name, range(position))
            group = next((one for one in merged if set(before) <= set(one)), before)
            if len(own) != 1 or not before or (group is before and len(before) > 1):
                where = f"in {streams[position].alias}" if len(own) != 1 else "in exactly one stream before it"
                message = f"USING ({name.name}) needs a column of that name {where}; write ON and the columns"
                raise scope.fail(message, name)
            if group is before:
                merged.append(group)
            group += own
            try:
                typed_call("=", (scope.at(group[0]), scope.at(own[0])))
            except ExpressionTypeError as error:
                raise scope.fail(error.message, name) from None
    return replace(scope, merged=tuple(map(tuple, merged)))


def equalities_of(scope: Scope) -> list[Expr]:
    """What USING says of the columns that it names."""
    found = []
    for first, *others in scope.merged:
        found += [typed_call("=", (scope.at(first), scope.at(other))) for other in others]
    return found


def unknown_function(name: str, known: Iterable[str]) -> str:
    """What is said of a function that is not in the allow-list.

    >>> unknown_function("rand", ["round"])
    "the function 'rand' is not offered"
    >>> unknown_function("uper", ["upper", "sqrt"]), unknown_function("frobnicate", ["concat"])
    ("there is no function 'uper'; did you mean 'upper'?", "there is no function 'frobnicate'")
    """
    if name.lower() in IN_FRONT:
        remedy = "on Spark, sw.sql and sw.start have it computed where it reads one stream"
        return f"the function '{name}' is not offered; {remedy}"
    if name.lower() in _IN_SQL:
        return f"the function '{name}' is not offered"
    close = get_close_matches(name.lower(), list(known), n=1, cutoff=_ALIKE)
    return f"there is no function '{name}'" + (f"; did you mean '{close[0]}'?" if close else "")
