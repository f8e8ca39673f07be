"""docs/notebook.ipynb: its cells run in a clean folder, and what it shows was made by them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lengthwise.composing import compose
from support.synthetic_runs import write_run

NOTEBOOK = Path(__file__).parents[2] / "docs" / "notebook.ipynb"


@pytest.fixture(scope="module")
def cells() -> dict[str, dict[str, Any]]:
    return {cell["id"]: cell for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]}


def code(cells: dict[str, dict[str, Any]]) -> dict[str, str]:
    return {name: "".join(cell["source"]) for name, cell in cells.items() if cell["cell_type"] == "code"}


def test_its_cells_run_on_any_runs(cells: dict[str, dict[str, Any]], tmp_path: Path) -> None:
    for encoding in ("learned", "rotary"):
        for seed in range(3):
            folder = write_run(tmp_path / "notebook_runs", encoding, seed)
            status = json.loads((folder / "status.json").read_text())
            status["results"]["last/token_accuracy/extrapolation"] = 0.5
            (folder / "status.json").write_text(json.dumps(status))
    reading = [text for name, text in code(cells).items() if name != "train"]
    assert len(reading) == len(code(cells)) - 1
    loaded = "import sys\nassert not {'torch', 'hydra'} & set(sys.modules)\n"
    done = subprocess.run(
        [sys.executable, "-c", "\n".join([*reading, loaded])],
        cwd=tmp_path, env={**os.environ, "MPLBACKEND": "Agg"}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert re.match(r"At length 100, rotary .* \(3 paired seeds", done.stdout)
    assert [path.name for path in tmp_path.iterdir()] == ["notebook_runs"]


def test_the_runs_it_makes_can_be_made(cells: dict[str, dict[str, Any]]) -> None:
    names: dict[str, Any] = {}
    source = code(cells)["train"].partition("subprocess.run")[0]
    exec(source, names)
    train, sweep, *words = names["command"].split()
    assert (train, sweep) == ("train", "-m")
    first = [word if "[" in word else word.partition(",")[0] for word in words]
    config = compose(first)
    assert config["outputs"] == "notebook_runs" and config["pe"]["_target_"].endswith("Learned")


def test_what_it_shows_was_made_by_its_cells_in_order(cells: dict[str, dict[str, Any]]) -> None:
    shown = [cell for cell in cells.values() if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in shown] == list(range(1, len(shown) + 1))
    outputs = [output for cell in shown for output in cell["outputs"]]
    assert {output["output_type"] for output in outputs} == {"execute_result", "display_data", "stream"}
    assert NOTEBOOK.stat().st_size < 100_000
    text = "".join(outputs[-1]["text"])
    assert "paired seeds" in text and "Holm-corrected" in text and "holm([" in code(cells)["contrast"]
    frame = "".join(cells["lengths"]["outputs"][0]["data"]["text/plain"])
    means = {}  # of length 100, from the table that is shown
    for pe in ("learned", "rotary"):
        block = frame.partition(pe)[2].splitlines()[:3]
        means[pe] = sum(float(line.split()[-1]) for line in block) / 3
    difference = float(re.search(r": ([+−][\d.]+) points", text)[1].replace("−", "-"))
    assert difference == pytest.approx(100 * (means["rotary"] - means["learned"]), abs=0.11)
