"""Damaged files of a checkpoint: refused by their names with the way out, or harmless; never wrong rows."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark", reason="the Spark runtime needs pyspark")

from slackwater.cli.queries import _log_of
from slackwater.core.errors import SlackwaterError
from slackwater.runtime.spark.control import BEGIN, CONTROL, TARGET, Message, read_messages
from slackwater.runtime.spark.output_schema import LATE, ROWS, TAGGED
from slackwater.runtime.spark.packed_source import CUTS, CutLog
from slackwater.runtime.spark.replay.recording import MANIFEST, _is_new
from slackwater.runtime.spark.replay.run import read_epoch, write_epoch
from slackwater.runtime.spark.requests import Request, ask
from slackwater.runtime.spark.store import LocalStore, signed
from tests.effort import tried
from tests.spark.in_process import TASKS, cut_for, hosted_alone, micro_batch, packed, planned, played_member
from tests.spark.streams import pieces

QUERY = "SELECT key, SUM(v) AS total, MAX(v) AS peak FROM s [RANGE 100 MS] GROUP BY key WITH DELAY 20 MS"
PIECES = [piece.slice(0, 200) for piece in pieces(0, 3)]
SHARDS = 2
ONE = played_member(planned(QUERY, {"s": PIECES[0]}), SHARDS)
TARGETED = Message(TARGET, 1, "query", 0, "COMPLETE", target="NO WAIT")
REMEDY = "restore it from a backup, or use a new checkpoint folder"


def tried_to(read: Callable[[], Any]) -> tuple[Any, str]:
    """What is read, or the refusal."""
    try:
        return read(), ""
    except SlackwaterError as refusal:
        return None, str(refusal)


def run_micro_batch(folder: Path, number: int) -> dict[str, list[object]]:
    """What a worker that knows nothing emits in a micro-batch."""
    found: dict[str, list[object]] = {ROWS: [], LATE: []}
    lines = packed([ONE], {"s": PIECES[number]})
    for line in micro_batch(hosted_alone(ONE), cut_for(SHARDS), lines, str(folder), number):
        if line["kind"] in found:
            found[line["kind"]] += map(str, pa.ipc.open_stream(line["block"]).read_all().to_pylist())
    return {kind: sorted(rows) for kind, rows in found.items()}


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The state after two micro-batches."""
    folder = tmp_path_factory.mktemp("state") / "before"
    for number in (0, 1):
        run_micro_batch(folder, number)
    return folder


@pytest.fixture(scope="module")
def truth(checkpoint: Path) -> dict[str, list[object]]:
    """What the third micro-batch emits."""
    folder = checkpoint.with_name("truth")
    shutil.copytree(checkpoint, folder)
    found = run_micro_batch(folder, 2)
    assert len(found[ROWS]) > 5
    return found


def state_files(checkpoint: Path) -> list[str]:
    return sorted(str(file.relative_to(checkpoint)) for file in checkpoint.rglob("*") if file.is_file())


@tried(60)
@given(data=st.data())
def test_a_flipped_bit_in_any_page_is_refused_by_the_name_of_the_file(
    checkpoint: Path, truth: dict[str, list[object]], data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from(state_files(checkpoint)))
    content = bytearray((checkpoint / name).read_bytes())
    content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    folder = checkpoint.with_name("flipped")
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(checkpoint, folder)
    (folder / name).write_bytes(content)
    found, refusal = tried_to(lambda: run_micro_batch(folder, 2))
    assert found == truth or (f"{folder / name} " in refusal and "checkpoint folder" in refusal)


def damages(content: bytes) -> Iterator[bytes]:
    """A file that is cut off, empty, garbage, or longer than it was."""
    yield b""
    yield content[: len(content) // 2]
    yield content[:10]
    yield content + b"\x00"
    yield bytes(range(256)) * 3
    yield b"garbage\n"


def test_a_page_that_is_truncated_or_garbage_is_refused_by_its_name(checkpoint: Path, tmp_path: Path) -> None:
    for task, file in ((0, "0000000001.pages"), (1, "0000000001.hot"), (0, "0000000000.pages")):
        name = f"{TASKS}/{task}/{file}"
        for number, content in enumerate(damages((checkpoint / name).read_bytes())):
            folder = tmp_path / f"{name.replace('/', '-')}-{number}"
            shutil.copytree(checkpoint, folder)
            (folder / name).write_bytes(content)
            with pytest.raises(SlackwaterError, match=re.escape(f"{folder / name} is damaged")) as refusal:
                run_micro_batch(folder, 2)
            assert REMEDY in str(refusal.value)


def test_pages_of_an_earlier_format_are_refused_by_their_format(checkpoint: Path, tmp_path: Path) -> None:
    shutil.copytree(checkpoint, tmp_path / "state")
    file = tmp_path / "state" / str(TASKS) / "0" / "0000000001.pages"
    file.write_bytes(b"\x04\x00" + file.read_bytes()[2:])
    with pytest.raises(SlackwaterError, match="has state of format 4, and this version of slackwater reads format"):
        run_micro_batch(tmp_path / "state", 2)


def test_a_damaged_log_of_cuts_is_refused_by_the_name_of_the_file(tmp_path: Path) -> None:
    log = CutLog(str(tmp_path))
    log.add([["a/1.parquet"], []])
    log.add([["a/2.parquet"], ["b/1.parquet"]])
    assert CutLog(str(tmp_path)).cuts == log.cuts
    file = tmp_path / CUTS / "0000000001.one"
    content = file.read_bytes()
    flips = [bytes([*content[:at], content[at] ^ 1 << at % 8, *content[at + 1 :]]) for at in range(len(content))]
    for damaged in (*damages(content), *flips):
        file.write_bytes(damaged)
        found, refusal = tried_to(lambda: CutLog(str(tmp_path)).cuts)
        assert found == log.cuts or (f"{file} is damaged" in refusal and REMEDY in refusal)
    file.unlink()
    with pytest.raises(SlackwaterError, match=re.escape(f"{tmp_path / CUTS} is damaged (it has 1 cuts of 2)")):
        CutLog(str(tmp_path)).between(0, 2)
    log.add([["a/3.parquet"], []])
    with pytest.raises(SlackwaterError, match=re.escape(f"{tmp_path / CUTS} is damaged (cut 1 is not there)")):
        CutLog(str(tmp_path))


def test_damaged_control_messages_are_refused_by_the_name_of_their_file(tmp_path: Path) -> None:
    folder = tmp_path / CONTROL
    store = LocalStore(str(folder))
    store.write("first.txt", (Message(BEGIN, 0, shards=2).as_json() + "\n").encode())
    store.write("second.txt", (TARGETED.as_json() + "\n").encode())
    before = read_messages(store)
    content = (folder / "second.txt").read_bytes()
    for at in range(len(content)):
        for bit in range(8):
            flipped = bytearray(content)
            flipped[at] ^= 1 << bit
            (folder / "second.txt").write_bytes(flipped)
            found, refusal = tried_to(lambda: read_messages(store))
            assert found == before or f"{folder / 'second.txt'} is damaged" in refusal
    for damaged in damages(content):
        if damaged == content + b"\x00":
            continue
        (folder / "second.txt").write_bytes(damaged)
        with pytest.raises(SlackwaterError, match=re.escape(f"{folder / 'second.txt'} is damaged")) as refusal:
            read_messages(store)
        assert REMEDY in str(refusal.value)
    (folder / "second.txt").write_bytes(content)
    (folder / "first.txt").unlink()
    with pytest.raises(SlackwaterError, match=re.escape(f"{folder} is damaged (message 0 is not there)")):
        read_messages(store)


def test_a_worker_refuses_a_damaged_control_message(tmp_path: Path) -> None:
    line = TARGETED.as_json()
    with pytest.raises(SlackwaterError, match=f"a message of {CONTROL} is damaged"):
        Message.of_json(line.replace("NO WAIT", "NO WAIS"))
    line = Message(BEGIN, shards=2).as_json()
    with pytest.raises(SlackwaterError, match=f"a message of {CONTROL} is damaged"):
        Message.of_json(line[:-5])


def test_the_list_of_queries_names_a_damaged_message(tmp_path: Path) -> None:
    (tmp_path / CONTROL).mkdir()
    (tmp_path / CONTROL / "one.txt").write_text("not a message\n")
    with pytest.raises(SlackwaterError, match=re.escape(f"{tmp_path / CONTROL / 'one.txt'} is damaged")):
        _log_of(tmp_path)


def test_an_answer_that_is_damaged_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "exists", lambda file: file.suffix == ".answer")
    monkeypatch.setattr(Path, "read_text", lambda file, encoding: "{")
    with pytest.raises(SlackwaterError, match=r"\.answer is damaged"):
        ask(tmp_path, Request("drop", "a"), 1)


def test_what_a_recorded_run_keeps_is_checked_and_named(tmp_path: Path) -> None:
    lines = pa.table({"query": ["query.0"], "kind": [ROWS], "note": [""], "block": [b"1"]}, TAGGED)
    write_epoch(tmp_path, 0, lines, 1.0)
    (file,) = tmp_path.iterdir()
    content = file.read_bytes()
    flips = [bytes([*content[:at], content[at] ^ 4, *content[at + 1 :]]) for at in range(len(content))]
    for damaged in (*damages(content), *flips):
        file.write_bytes(damaged)
        with pytest.raises(SlackwaterError, match=re.escape(f"{file} is damaged")):
            read_epoch(tmp_path, 0)


def test_a_damaged_manifest_is_named_and_the_run_refused(tmp_path: Path) -> None:
    mark = {"query and shards": "a", "streams": "b"}
    for damaged in (b"", b"{", b"\xff\xfe", b"[1]", json.dumps(mark)[:-4].encode()):
        (tmp_path / MANIFEST).write_bytes(damaged)
        with pytest.raises(SlackwaterError, match=re.escape(f"{tmp_path / MANIFEST} is damaged")):
            _is_new(tmp_path, mark)
    (tmp_path / MANIFEST).write_text(signed(mark))
    assert not _is_new(tmp_path, mark)
