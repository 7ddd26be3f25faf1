"""Names of earlier versions that still work for one version, with a warning that says the new one.

Invariant: this is the only place that knows an old name; none of them is written anywhere.
"""

from __future__ import annotations

import warnings
from typing import Any

OLD_KEYS = {"let_out_at_end": "emitted_at_end", "aside_dropped": "side_output_dropped", "reduced": "degraded"}
"""Keys of reports."""


def warn_old_name(old: str, new: str) -> None:
    """Warn, once per place, that a name goes away."""
    warnings.warn(f"{old!r} is called {new!r} now, and goes with the next version", DeprecationWarning, stacklevel=3)


class WithOldNames(dict[str, Any]):
    """A report whose keys are also found under their old names.

    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as warned:
    ...     warnings.simplefilter("always")
    ...     found = WithOldNames(emitted_at_end=3)["let_out_at_end"]
    >>> found, str(warned[0].message)
    (3, "'let_out_at_end' is called 'emitted_at_end' now, and goes with the next version")
    >>> WithOldNames(late=1)["rejected"]
    Traceback (most recent call last):
    KeyError: 'rejected'
    """

    def __missing__(self, key: str) -> Any:
        new = OLD_KEYS.get(key)
        if new is None or new not in self:
            raise KeyError(key)
        warn_old_name(key, new)
        return self[new]
