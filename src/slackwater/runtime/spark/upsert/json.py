"""JSON as upserts write it.

Invariant: equal values have equal JSON, so that a key is the same bytes after every start: all fields, in the order of
the columns; times in UTC with microseconds.
"""

from __future__ import annotations

SECONDS = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"
JSON = {
    "ignoreNullFields": "false", "timestampFormat": f"{SECONDS}XXX", "timestampNTZFormat": SECONDS, "timeZone": "UTC",
}  # fmt: skip
"""Options of Spark's `to_json`, which else cuts times to milliseconds, and has them in the zone of the session."""
