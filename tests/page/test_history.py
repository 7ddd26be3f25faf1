"""The history of a run is bounded, loses no arrival, and can be read however it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slackwater.core.errors import DataError
from slackwater.observe.delays import added
from slackwater.page.history import NAME, HistoryFile, Thinned, read_history
from slackwater.page.hub import Hub
from tests.page.made import made


def test_a_long_run_is_kept_in_few_snapshots_with_all_its_arrivals() -> None:
    seen = Thinned(most=40)
    for batch in range(1, 5001):
        seen.add(made(batch=batch))
    kept = list(seen)
    assert len(kept) <= 40
    assert [one.batch for one in kept[-10:]] == list(range(4991, 5001)), "the newest are all there"
    assert [one.batch for one in kept] == sorted({one.batch for one in kept})
    total = added([one.delays for one in kept])
    assert total == {"a": [(0, 8 * 5000), (5, 2 * 5000)], "b": [(0, 10 * 5000)]}


def test_the_file_is_bounded_and_gives_back_what_is_remembered(tmp_path: Path) -> None:
    hub = Hub(HistoryFile(tmp_path), most=40)
    hub.expect("q", plan={"nodes": []})
    hub.expect("r")
    sizes = []
    for batch in range(1, 1001):
        hub.publish(made("q", batch))
        hub.publish(made("r", batch))
        sizes.append((tmp_path / NAME).stat().st_size)
    hub.close()
    assert max(sizes) < 2 * max(sizes[: len(sizes) // 4]), "it has stopped growing"
    found = read_history(tmp_path)
    assert found.queries == {"q": {"nodes": []}, "r": None}
    assert found.broken == 0
    for name in ("q", "r"):
        mine = [one for one in found.progress if one.query == name]
        assert mine[-1].batch == 1000
        assert added([one.delays for one in mine]) == {"a": [(0, 8000), (5, 2000)], "b": [(0, 10_000)]}


def test_a_file_that_was_cut_off_gives_what_is_whole(tmp_path: Path) -> None:
    hub = Hub(HistoryFile(tmp_path))
    hub.expect("q")
    for batch in range(1, 6):
        hub.publish(made(batch=batch))
    hub.close()
    path = tmp_path / NAME
    whole = path.read_bytes()
    for length in range(len(whole) - 1, len(whole) // 2, -97):
        path.write_bytes(whole[:length])
        found = read_history(tmp_path)
        assert [one.batch for one in found.progress] == list(range(1, len(found.progress) + 1))
        assert found.broken <= 1
    path.write_bytes(whole[: len(whole) // 2] + b"\x00\xff garbage\n" + b"[1]\nnull\n{}\n" + whole)
    assert len(read_history(tmp_path).progress) >= 5


def test_a_folder_without_a_history_is_refused_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="a run with --page writes one"):
        read_history(tmp_path)
    (tmp_path / NAME).write_text("")
    with pytest.raises(DataError, match="no progress"):
        read_history(tmp_path)


def test_who_is_slow_begins_anew_and_who_is_not_gets_each_moment_once() -> None:
    hub = Hub(most=40)
    hub.expect("q")
    number, texts = hub.everything()
    got = []
    for batch in range(1, 301):
        hub.publish(made(batch=batch))
        if batch % 7 == 0:
            found = hub.since(number)
            assert found is not None
            number, texts = found
            got += [json.loads(text)["batch"] for text in texts]
    assert got == list(range(1, len(got) + 1))
    assert hub.since(3) is None
