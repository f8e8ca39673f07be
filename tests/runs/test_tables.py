"""CSV tables: torn lines, cutting back, replacing, columns that come later."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import numpy as np
import pytest

from lengthwise.errors import RunError
from lengthwise.runs import Table, read_table
from lengthwise.runs.tables import LENGTH_COLUMNS, LENGTH_KEY


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "train.csv"


def test_round_trip(file: Path) -> None:
    table = Table(file, ("step", "loss", "flags", "evaluation_id", "split"))
    values = [0.1, 1 / 3, 1e-300, np.float64(0.7), 5]
    for step, loss in enumerate(values):
        table.append({"step": step, "loss": loss, "flags": ("a", "b"), "evaluation_id": "12e5"})
    rows = read_table(file)
    assert [row["loss"] for row in rows] == values
    assert rows[0] == {"step": 0, "loss": 0.1, "flags": "a;b", "evaluation_id": "12e5", "split": None}
    assert file.read_text().count("step") == 1


def test_hostile_text(file: Path) -> None:
    table = Table(file, ("step", "flags"))
    texts = ["</script>", 'quote " and, comma', "emoji 🦄", "two\nlines\r\u2028end", "\ud800"]
    table.append(*({"step": i, "flags": text} for i, text in enumerate(texts)))
    rows = table.read()
    assert [row["flags"] for row in rows] == [
        "</script>",
        'quote " and, comma',
        "emoji 🦄",
        "two lines  end",
        "?",
    ]
    with file.open(newline="", encoding="utf-8") as lines:
        assert len(list(csv.reader(lines))) == 6


@pytest.mark.parametrize("tail", [b"3,0.2", b"3", b"3,", b"3,0.25,", b'"3', b"\0\0\0\0", "3,é".encode()[:-1]])
def test_a_torn_last_line_is_dropped_and_repaired(file: Path, tail: bytes) -> None:
    table = Table(file, ("step", "loss"))
    table.append({"step": 1, "loss": 0.5}, {"step": 2, "loss": 0.25})
    whole = file.read_bytes()
    file.write_bytes(whole + tail)
    assert [row["step"] for row in read_table(file)] == [1, 2]
    Table(file, ("step", "loss")).append({"step": 3, "loss": 0.125})
    assert file.read_bytes() == whole + b"3,0.125\n"


def test_every_cut_of_the_file_reads(file: Path) -> None:
    Table(file, ("step", "loss")).append(*({"step": step, "loss": step / 3} for step in range(5)))
    whole = file.read_bytes()
    for size in range(len(whole)):
        file.write_bytes(whole[:size])
        rows = read_table(file)
        assert rows == [{"step": step, "loss": step / 3} for step in range(len(rows))]
        table = Table(file, ("step", "loss"))
        table.append({"step": 99, "loss": 0})
        assert [row["step"] for row in table.read()] == [*range(len(rows)), 99]


def test_damage_elsewhere_is_named(file: Path) -> None:
    file.write_text("step,loss\n1,0.5\n2\n3,0.1\n")
    with pytest.raises(RunError, match=r"train\.csv is damaged: line 3 has 1 fields where 2 are expected"):
        read_table(file)


def test_cut_back(file: Path) -> None:
    table = Table(file, ("step", "loss"))
    table.append(*({"step": step, "loss": 0.1 * step} for step in (1, 2, 10, 20)), {"loss": 3})
    before = file.read_bytes().splitlines()
    table.cut_back("step", 10)
    assert file.read_bytes().splitlines() == [*before[:4], before[5]]
    table.cut_back("step", 10)
    assert len(table.read()) == 4
    table.append({"step": 11})
    assert table.read()[-1] == {"step": 11, "loss": None}


def test_cut_back_is_all_or_nothing(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table(file, ("step", "loss"))
    table.append({"step": 1}, {"step": 2})
    before = file.read_bytes()

    def fail(*_: object) -> None:
        raise OSError(28, "")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(RunError, match="no space left"):
        table.cut_back("step", 1)
    assert file.read_bytes() == before
    assert os.listdir(file.parent) == ["train.csv"]


def test_replace_leaves_no_duplicates(tmp_path: Path) -> None:
    table = Table(tmp_path / "length.csv", LENGTH_COLUMNS)

    def rows(lengths: list[int], accuracy: float) -> list[dict]:
        base = {
            "checkpoint": "last",
            "split": "test",
            "protocol": "greedy",
            "stratum": "all",
            "evaluation_id": "default",
        }
        return [{**base, "length": length, "token_accuracy": accuracy} for length in lengths]

    table.replace(rows([4, 5, 6], 0.5), LENGTH_KEY)
    table.replace(rows([6, 50.0, 6], 0.75), LENGTH_KEY)
    found = {(row["length"], row["token_accuracy"]) for row in table.read()}
    table.replace(rows([50], 0.75), LENGTH_KEY)
    assert len(table.read()) == 4  # 50 and 50.0 are one length
    assert found == {(4, 0.5), (5, 0.5), (6, 0.75), (50, 0.75)}


def test_columns_that_come_later(file: Path) -> None:
    Table(file, ("step", "loss")).append({"step": 1, "loss": 0.5})
    table = Table(file, ("step", "symmetry"))
    table.append({"step": 2, "symmetry": 0.1, "loss": 0.25})
    assert table.read() == [
        {"step": 1, "loss": 0.5, "symmetry": None},
        {"step": 2, "loss": 0.25, "symmetry": 0.1},
    ]
    with pytest.raises(ValueError, match=r"train\.csv has no column los; it has step, loss, symmetry"):
        table.append({"los": 1})


def test_no_file_no_rows(file: Path) -> None:
    assert read_table(file) == []
