"""What to say of a function that is not there.

Invariant: a function that SQL has is said to be not offered, and nothing is put in its place; a name is suggested only
where a slip of the finger could have made the one out of the other.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from sqlglot import exp

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
_IN_SQL = frozenset(name.lower() for name in exp.FUNCTION_BY_NAME) | _MORE
_ALIKE = 0.75


def unknown_function(name: str, known: Iterable[str]) -> str:
    """What is said of a function that is not in the allow-list.

    >>> unknown_function("regexp_replace", ["replace"])
    "the function 'regexp_replace' is not offered"
    >>> unknown_function("uper", ["upper", "sqrt"]), unknown_function("frobnicate", ["concat"])
    ("there is no function 'uper'; did you mean 'upper'?", "there is no function 'frobnicate'")
    """
    if name.lower() in _IN_SQL:
        return f"the function '{name}' is not offered"
    close = get_close_matches(name.lower(), list(known), n=1, cutoff=_ALIKE)
    return f"there is no function '{name}'" + (f"; did you mean '{close[0]}'?" if close else "")
