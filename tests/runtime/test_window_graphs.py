"""Windows between pairs of streams: the queries of the report, run; and what they may not let through."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tests.runtime.streams import Runtime, arrived, at

GOLDEN = Path(__file__).parent.parent / "language" / "golden"
ID = {"ObjID": pa.int64()}


def report(name: str) -> str:
    return (GOLDEN / f"report_{name}.sql").read_text()


def cameras(*rows: tuple[str, int, int], streams: int) -> dict[str, pa.Table]:
    """(camera, milliseconds, object), with an empty table for a camera that saw nothing."""
    seen = arrived(ID, *((f"Camera{camera}", *rest) for camera, *rest in rows))
    nothing = arrived(ID, *((f"Camera{number}", 0, None) for number in range(1, streams + 1)))
    return {name: seen.get(name, table.slice(0, 0)) for name, table in nothing.items()}


def test_one_window_for_all_joins_what_lies_within_it(runtime: Runtime) -> None:
    columns = {"ItemNum": pa.int64(), "ItemName": pa.string()}
    streams = arrived(
        columns,
        ("Store1", 0, 7, "tea"), ("Store2", 3000, 7, "tea"), ("Store3", 5000, 7, "tea"), ("Store3", 5001, 7, "tea"),
    )  # fmt: skip
    ran = runtime.run(report("form_1"), streams)
    assert ran.rows("ItemName", "_ts") == [("tea", at(5000))]


def test_every_pair_keeps_its_own_window(runtime: Runtime) -> None:
    # Within 5 s, 3 s and 4 s of each other; object 2 is 4.5 s from the first camera to the third, object 3 just 4 s.
    streams = cameras(
        ("1", 0, 1), ("2", 0, 1), ("3", 3000, 1),
        ("1", 10_000, 2), ("2", 12_000, 2), ("3", 14_500, 2),
        ("1", 20_000, 3), ("2", 22_000, 3), ("3", 24_000, 3),
        streams=3,
    )  # fmt: skip
    assert runtime.run(report("form_2"), streams).rows("ObjID") == [(1,), (3,)]


def test_a_missing_window_follows_from_the_others(runtime: Runtime) -> None:
    columns = {"PacktID": pa.int64()}
    streams = arrived(
        columns,
        ("Network1", 0, 1), ("Network2", 2000, 1), ("Network3", 3000, 1),
        ("Network1", 10_000, 2), ("Network3", 13_000, 2), ("Network2", 11_500, 2),
        ("Network2", 21_000, 3), ("Network3", 20_000, 3), ("Network1", 23_000, 3),
    )  # fmt: skip
    assert runtime.run(report("form_3"), streams).rows("PacktID") == [(1,), (3,)]


SEEN = (
    ("1", 0, 1), ("2", 2000, 1), ("3", 5000, 1), ("4", 6000, 1),
    ("4", 10_000, 2), ("3", 11_000, 2), ("2", 14_000, 2), ("1", 16_000, 2),
    ("1", 20_000, 3), ("2", 20_000, 3), ("3", 20_000, 3), ("4", 20_000, 3),
    ("1", 30_000, 4), ("3", 31_000, 4), ("2", 32_000, 4), ("4", 32_000, 4),
)  # fmt: skip


def test_a_path_is_walked_in_its_direction(runtime: Runtime) -> None:
    """Object 2 comes back the same way, and 4 goes astray."""
    assert runtime.run(report("path"), cameras(*SEEN, streams=4)).rows("ObjID") == [(1,), (3,)]


def test_a_path_that_may_be_walked_both_ways_gives_what_satisfies_both_once(runtime: Runtime) -> None:
    """Object 3 is seen everywhere at once; 4 goes there by one part of the path and back by another."""
    ran = runtime.run(report("path_either_way"), cameras(*SEEN, streams=4))
    assert ran.rows("ObjID") == [(1,), (2,), (3,)]


@pytest.mark.parametrize("name", ["path", "path_either_way"])
@pytest.mark.parametrize("count_only", [False, True], ids=["rows", "counted"])
def test_the_judge_agrees_on_paths_as_rows_and_counted(runtime: Runtime, name: str, count_only: bool) -> None:
    verdict = runtime.verify(report(name), cameras(*SEEN, streams=4), count_only=count_only)
    assert (verdict.missing, verdict.spurious, verdict.out_of_order) == (0, 0, 0)
    assert verdict.true_results == (3 if "either" in name else 2)


def test_a_target_works_with_windows_between_pairs(runtime: Runtime) -> None:
    rows = [(str(1 + n % 4), 100 * n - (700 if n % 9 == 5 else 0), n % 3) for n in range(200)]
    query = report("path_either_way") + " WITH RECALL 0.9 OVER 5 SECONDS"
    verdict = runtime.verify(query, cameras(*rows, streams=4), "500 ms")
    assert (verdict.missing_unexplained, verdict.spurious, verdict.out_of_order) == (0, 0, 0)
    assert verdict.true_results > 100
    assert verdict.missing_late > 0, "nothing was late: the target was not put to the test"


APPROACHES = (("merge", "lca"), ("nested_loop", "pairwise"), ("merge", "gca"), ("hash", "lca"))


@pytest.mark.parametrize(("join", "windows"), APPROACHES, ids=[f"{join}, {windows}" for join, windows in APPROACHES])
def test_the_algorithms_of_the_report_keep_different_windows_with_a_target(
    runtime: Runtime, join: str, windows: str
) -> None:
    """Also of a path that may be walked both ways."""
    rows = [(str(1 + n % 4), 100 * n - (700 if n % 9 == 5 else 0), n % 3) for n in range(160)]
    asked = f" WITH RECALL 0.9 OVER 5 SECONDS OPTIONS (join = '{join}', windows = '{windows}')"
    verdict = runtime.verify(report("path_either_way") + asked, cameras(*rows, streams=4), "2 s")
    assert (verdict.missing_unexplained, verdict.spurious, verdict.out_of_order) == (0, 0, 0)
    assert verdict.true_results > 40
