"""The tour runs from top to bottom, and its outputs are those that are kept with it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

TOUR = Path(__file__).parents[2] / "examples" / "tour.ipynb"
nbformat = pytest.importorskip("nbformat", reason="pip install -e '.[dev]'")
nbclient = pytest.importorskip("nbclient", reason="pip install -e '.[dev]'")
pytest.importorskip("ipykernel", reason="pip install -e '.[dev]'")


def shown(notebook: Any) -> list[tuple[str, str]]:
    """What every cell of code shows, as text, with the first line of the cell."""
    found = []
    for cell in notebook.cells:
        if cell.cell_type == "code":
            texts = [one.text if "text" in one else one.data["text/plain"] for one in cell.outputs]
            found.append((cell.source.splitlines()[0], "\n".join(texts).strip()))
    return found


def test_the_tour_gives_what_it_shows(tmp_path: Path) -> None:
    notebook = nbformat.read(TOUR, as_version=4)
    kept = shown(notebook)
    resources = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=300, startup_timeout=300, resources=resources).execute()
    assert shown(notebook) == kept
    assert sum(bool(text) for _, text in kept) >= 8
    # What follows a query in a cell has been drawn in that cell.
    [view] = [one for cell in notebook.cells for one in cell.get("outputs", []) if "<svg" in str(one.get("data"))]
    assert view["data"]["text/html"].count("<svg") == 2


def test_what_is_kept_is_small_and_of_no_machine() -> None:
    text = TOUR.read_text(encoding="utf-8")
    assert len(text) < 60_000
    assert not re.search(r"/(home|root|tmp|work|Users)/|site-packages|127\.0\.0\.1:\d|tuples/s", text)
    notebook = nbformat.read(TOUR, as_version=4)
    nbformat.validate(notebook)
    assert all(one.output_type != "error" for cell in notebook.cells for one in cell.get("outputs", []))
    assert all("execution" not in cell.metadata for cell in notebook.cells)
