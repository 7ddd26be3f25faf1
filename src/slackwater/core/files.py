"""Files that are whole when they can be seen.

Invariant: under its name there is the file that was there before or the new one, and never a part of either. A writer
that is cut off leaves a hidden file.
"""

from __future__ import annotations

import os
import secrets

from slackwater.core.errors import writing


def write_whole(path: str | os.PathLike[str], content: bytes, durable: bool = False) -> None:
    """Write a file in place of one of the same name; where `durable`, it is forced to the disk."""
    os.replace(_aside(os.fspath(path), content, durable), path)


def create_whole(path: str | os.PathLike[str], content: bytes) -> bool:
    """Write a file to the disk unless there is one of that name; whether it did."""
    hidden = _aside(os.fspath(path), content, durable=True)
    try:
        # A rename would replace the file that is there.
        os.link(hidden, path)
    except FileExistsError:
        return False
    finally:
        os.unlink(hidden)
    return True


def _aside(path: str, content: bytes, durable: bool) -> str:
    """The file under a hidden name that nobody else has, in a folder that is made where there is none."""
    folder, last = os.path.split(path)
    hidden = os.path.join(folder, f".{last}.{secrets.token_hex(8)}")
    with writing(path):
        try:
            file = open(hidden, "wb")  # noqa: SIM115
        except FileNotFoundError:
            os.makedirs(folder, exist_ok=True)
            file = open(hidden, "wb")  # noqa: SIM115
        with file:
            file.write(content)
            if durable:
                file.flush()
                os.fsync(file.fileno())
    return hidden
