"""Small files of a checkpoint, on a disk or in an object store: written whole, and checked when they are read.

What Spark reaches by a Hadoop file system we reach by one of Arrow (S3, GCS, Azure, HDFS), or by one of fsspec. On a
disk a file is written under a hidden name and renamed. An object appears whole by itself.

Invariant: a file is whole or absent, and what is read back is what was written: every file has a checksum, and one that
does not fit is refused by its name. Of two who create a file of one name on a disk only one succeeds; an object store
that Arrow writes to cannot promise that, so who creates a file there reads it again before relying on it.

It costs little to import: Spark starts a process of Python for every source only to ask for its offset.
"""

from __future__ import annotations

import json
import os
import secrets
import struct
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar
from urllib.parse import urlsplit
from zlib import crc32

from slackwater.core.errors import SlackwaterError
from slackwater.core.files import create_whole, write_whole

REMEDY = "restore it from a backup, or use a new checkpoint folder"
CHECK = "crc"
"""The field of a JSON document that has the checksum of the others."""
_SEAL = struct.Struct("<4sI")
_MAGIC = b"swf1"
AT_ONCE = 8
"""Requests at the same time."""
S = TypeVar("S")
T = TypeVar("T")


def damaged(file: object, why: str) -> SlackwaterError:
    """The refusal of a file that is not what was written."""
    return SlackwaterError(f"{file} is damaged ({why}); {REMEDY}")


def signed(fields: dict[str, Any]) -> str:
    """Named values as one line of JSON with a checksum.

    >>> signed({"a": 1})
    '{"a": 1, "crc": 4221669015}'
    """
    return json.dumps(fields | {CHECK: _checksum(fields)})


def verified(text: str | bytes, file: object) -> dict[str, Any]:
    """The inverse of `signed`; `file` is what to name where it is not what was written.

    >>> verified(signed({"a": 1}), "here")
    {'a': 1}
    """
    try:
        fields = json.loads(text)
    except ValueError:
        raise damaged(file, "it is not JSON") from None
    if not isinstance(fields, dict):
        raise damaged(file, "it has no fields")
    if CHECK not in fields:
        raise damaged(file, "or of an earlier version: it has no checksum")
    if fields.pop(CHECK) != _checksum(fields):
        raise damaged(file, "its checksum differs")
    return fields


def _checksum(fields: dict[str, Any]) -> int:
    return crc32(json.dumps(fields, sort_keys=True).encode())


def sealed(content: bytes) -> bytes:
    """Bytes behind their checksum.

    >>> unsealed(sealed(b"rows"), "here")
    b'rows'
    """
    return _SEAL.pack(_MAGIC, crc32(content)) + content


def unsealed(content: bytes, file: object) -> bytes:
    """The inverse of `sealed`; `file` is what to name where it is not what was written."""
    if len(content) < _SEAL.size:
        raise damaged(file, "it is cut off")
    magic, checksum = _SEAL.unpack_from(content)
    rest = content[_SEAL.size :]
    if magic != _MAGIC or checksum != crc32(rest):
        raise damaged(file, "its checksum differs")
    return rest


@dataclass(frozen=True)
class Location:
    """A folder that is not one of this machine, and how its file system is reached."""

    uri: str
    settings: tuple[tuple[str, str], ...] = ()
    """Arguments of Arrow's file system."""

    def __str__(self) -> str:
        return self.uri


At = str | Location
"""A folder: a path of this machine, or a location elsewhere."""


class Listed(NamedTuple):
    """A file in a listing."""

    name: str
    """As it is called below the folder that was listed."""
    time: int
    """When it was written, in nanoseconds, as exactly as its file system knows."""
    size: int


class Store(Protocol):
    """Files below a folder."""

    root: str
    far: bool
    """Whether every request goes over a network: several at once cost little more than one."""

    def path(self, name: str) -> str:
        """A file as users know it."""

    def read(self, name: str, size: int = -1) -> bytes | None:
        """A file, or so many bytes of it; None where there is none."""

    def write(self, name: str, content: bytes, durable: bool = False) -> None:
        """A file that appears whole, in place of one of the same name; where `durable`, forced to the disk."""

    def create(self, name: str, content: bytes) -> bool:
        """A file that appears whole, unless there is one of that name; whether it did."""

    def exists(self, name: str) -> bool:
        """Whether there is such a file, or folder."""

    def names(self, folder: str = "") -> list[str]:
        """The files in a folder, sorted; none where there is no folder. Hidden ones are in the making."""

    def listed(self, folder: str = "", deep: bool = False) -> list[Listed]:
        """The same with what is known of each; where `deep`, all files below the folder and no folders."""

    def read_all(self, names: Sequence[str]) -> list[bytes | None]:
        """Several files, as `read` gives each."""

    def remove(self, *names: str) -> None:
        """Remove files, as far as they are there."""

    def remove_abandoned(self, before: float) -> None:
        """Remove files of writers that have died, where they were written before a time of the clock."""


def inside(folder: At, name: str) -> At:
    """A folder inside of another one."""
    if isinstance(folder, str):
        return f"{folder}/{name}"
    return Location(f"{folder.uri}/{name}", folder.settings)


def store_at(folder: At, name: str = "") -> Store:
    """The files of a folder, or of one inside of it."""
    place = inside(folder, name) if name else folder
    return LocalStore(place) if isinstance(place, str) else RemoteStore(place)


class LocalStore:
    """Files below a folder of this machine, or of a disk that all machines share."""

    far = False

    def __init__(self, root: str) -> None:
        self.root = root

    def path(self, name: str) -> str:
        return f"{self.root}/{name}"

    def read(self, name: str, size: int = -1) -> bytes | None:
        try:
            with open(self.path(name), "rb", buffering=0 if size >= 0 else -1) as file:
                return file.read(size)
        except FileNotFoundError:
            return None

    def write(self, name: str, content: bytes, durable: bool = False) -> None:
        write_whole(self.path(name), content, durable)

    def create(self, name: str, content: bytes) -> bool:
        return create_whole(self.path(name), content)

    def exists(self, name: str) -> bool:
        return os.path.exists(self.path(name))

    def names(self, folder: str = "") -> list[str]:
        try:
            found = os.listdir(self.path(folder) if folder else self.root)
        except FileNotFoundError:
            return []
        return sorted(name for name in found if not name.startswith((".", "_")))

    def listed(self, folder: str = "", deep: bool = False) -> list[Listed]:
        return list(self._listed(self.path(folder) if folder else self.root, "", deep))

    def _listed(self, path: str, below: str, deep: bool) -> Iterator[Listed]:
        try:
            entries = os.scandir(path)
        except FileNotFoundError:
            return
        with entries:
            for entry in entries:
                if entry.name.startswith((".", "_")):
                    continue
                if deep and entry.is_dir():
                    yield from self._listed(entry.path, f"{below}{entry.name}/", deep)
                else:
                    known = entry.stat()
                    yield Listed(below + entry.name, known.st_mtime_ns, known.st_size)

    def read_all(self, names: Sequence[str]) -> list[bytes | None]:
        return [self.read(name) for name in names]

    def remove(self, *names: str) -> None:
        for name in names:
            Path(self.path(name)).unlink(missing_ok=True)

    def remove_abandoned(self, before: float) -> None:
        for name in os.listdir(self.root):
            file = Path(self.path(name))
            if name.startswith(".") and file.stat().st_mtime < before:
                file.unlink(missing_ok=True)


class RemoteStore:
    """Files below a folder of another file system."""

    far = True

    def __init__(self, location: Location) -> None:
        self.root = location.uri
        self._files, self._whole = file_system(location)

    def path(self, name: str) -> str:
        return f"{self.root}/{name}"

    def _at(self, name: str) -> str:
        return path_in(self.path(name) if name else self.root)

    def read(self, name: str, size: int = -1) -> bytes | None:
        with self._asked(name):
            try:
                with self._files.open_input_file(self._at(name)) as file:
                    return bytes(file.read(None if size < 0 else size))
            except FileNotFoundError:
                return None

    def write(self, name: str, content: bytes, durable: bool = False) -> None:
        with self._asked(name):
            if self._whole:
                self._put(self._at(name), content)
                return
            folder, _, last = self._at(name).rpartition("/")
            hidden = f"{folder}/.{last}.{secrets.token_hex(8)}"
            self._files.create_dir(folder, recursive=True)
            self._put(hidden, content)
            self._files.move(hidden, self._at(name))

    def _put(self, path: str, content: bytes) -> None:
        with self._files.open_output_stream(path, compression=None) as file:
            file.write(content)

    def create(self, name: str, content: bytes) -> bool:
        # One request, where to ask whether there is a file or a folder would be two.
        if self.read(name, 1) is not None:
            return False
        self.write(name, content)
        return self.read(name) == content

    def exists(self, name: str) -> bool:
        from pyarrow.fs import FileType

        with self._asked(name):
            return bool(self._files.get_file_info(self._at(name)).type != FileType.NotFound)

    def names(self, folder: str = "") -> list[str]:
        return sorted(one.name for one in self.listed(folder))

    def listed(self, folder: str = "", deep: bool = False) -> list[Listed]:
        from pyarrow.fs import FileSelector, FileType

        at = self._at(folder)
        with self._asked(folder):
            found = self._files.get_file_info(FileSelector(at, allow_not_found=True, recursive=deep))
        listed = []
        for one in found:
            name = one.path.strip("/").removeprefix(at.strip("/")).lstrip("/")
            if not (deep and one.type != FileType.File) and not any(p.startswith((".", "_")) for p in name.split("/")):
                listed.append(Listed(name, one.mtime_ns or 0, one.size or 0))
        return listed

    def read_all(self, names: Sequence[str]) -> list[bytes | None]:
        return at_once(self.read, names)

    def remove(self, *names: str) -> None:
        at_once(self._remove, names)

    def _remove(self, name: str) -> None:
        with self._asked(name):
            try:
                self._files.delete_file(self._at(name))
            except FileNotFoundError:
                return

    def remove_abandoned(self, before: float) -> None:
        """An object that was not written to its end is none; elsewhere few are left, and no listing is worth them."""

    @contextmanager
    def _asked(self, name: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise SlackwaterError(
                f"{self.path(name)}: {str(error).splitlines()[0]}; is the store there, and may workers read and"
                " write in it?"
            ) from None


def at_once(do: Callable[[S], T], names: Sequence[S]) -> list[T]:
    """Several requests at the same time; what each gives, in their order."""
    if len(names) < 2:
        return [do(name) for name in names]
    with ThreadPoolExecutor(min(len(names), AT_ONCE)) as pool:
        return list(pool.map(do, names))


OBJECTS = {"s3": "s3", "s3a": "s3", "s3n": "s3", "gs": "gs", "abfs": "abfs", "abfss": "abfs"}
"""Schemes of object stores, where a file appears whole."""


def path_in(uri: str) -> str:
    """A file as its file system knows it.

    >>> path_in("s3a://bucket/a/b"), path_in("abfss://box@account.dfs.core.windows.net/a"), path_in("hdfs://name:1/a")
    ('bucket/a/b', 'box/a', '/a')
    """
    parts = urlsplit(uri)
    if parts.scheme not in OBJECTS:
        return parts.path if parts.scheme == "hdfs" else uri.partition("://")[2]
    return f"{parts.username or parts.netloc}{parts.path}"


def file_system(location: Location) -> tuple[Any, bool]:
    """What reads and writes at a location, and whether a file appears there whole."""
    parts = urlsplit(location.uri)
    try:
        return _file_system(parts.scheme, parts.netloc, location.settings)
    except (ImportError, ValueError, OSError, AttributeError) as error:
        raise SlackwaterError(
            f"{location.uri}: there is no way to this file system from Python ({error}); install what fsspec needs for"
            f" {parts.scheme}, or name a checkpoint folder elsewhere"
        ) from None


@lru_cache(maxsize=8)
def _file_system(scheme: str, host: str, settings: tuple[tuple[str, str], ...]) -> tuple[Any, bool]:
    from pyarrow import fs

    given: dict[str, Any] = dict(settings)
    if scheme in OBJECTS:
        kind = OBJECTS[scheme]
        if kind == "s3":
            given = {"allow_delayed_open": True, "background_writes": False} | given
            return fs.S3FileSystem(**given | {"anonymous": given.get("anonymous") == "true"}), True
        return (fs.GcsFileSystem if kind == "gs" else fs.AzureFileSystem)(**given), True
    if scheme == "hdfs":
        parts = urlsplit(f"//{host}")
        return fs.HadoopFileSystem(parts.hostname or "default", parts.port or 0), False
    import fsspec

    return fs.PyFileSystem(fs.FSSpecHandler(fsspec.filesystem(scheme, **given))), False
