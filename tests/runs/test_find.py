"""Run folders: creating, finding, loading; damaged ones never hide the others."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from lengthwise.errors import RunError
from lengthwise.runs import (
    RunFolder,
    Status,
    Table,
    completed,
    describe_start,
    find_run,
    iterate_runs,
    load_lengths,
    load_runs,
    read_starts,
    record_start,
    run_hash,
)
from lengthwise.runs.provenance import git_state


def config(seed: int = 0, **other: object) -> dict:
    return {
        "task": {"_target_": "lengthwise.tasks.sets.SetMax"},
        "pe": {"_target_": "lengthwise.nn.position.rotary.Rotary", "base": 10000.0},
        "norm": {"_target_": "lengthwise.nn.norm.PreNorm"},
        "model": {"_target_": "lengthwise.nn.transformer.Encoder", "width": 64, "heads": 4},
        "data": {"lengths": "4-10", "batch_size": 32},
        "trainer": {"max_steps": 3},
        "seed": seed,
        "init_seed": seed,
        "data_seed": seed,
        **other,
    }


def finished(outputs: Path, **options: object) -> RunFolder:
    made = config(**options)  # type: ignore[arg-type]
    folder = RunFolder.create(outputs, made)
    folder.write_config(made)
    with folder.claim(), folder.ending(Status.first(made, 3, 3)) as status:
        status.steps, status.results = 3, {"extrapolation": 0.5}
        Table(folder.length_csv, ("length", "token_accuracy")).append(
            {"length": 4, "token_accuracy": 1.0}, {"length": 50, "token_accuracy": 0.5}
        )
    return folder


def test_create_and_locate(tmp_path: Path) -> None:
    folder = finished(tmp_path)
    assert folder.name == f"set_max-rotary-pre-s0-{run_hash(config())}"
    assert folder.path.parent == tmp_path / "runs"
    again = RunFolder.create(tmp_path, config(trainer={"max_steps": 10_000}))
    assert again.path == folder.path
    assert RunFolder.locate(tmp_path, config(seed=1)).path != folder.path
    assert not RunFolder.locate(tmp_path, config(seed=1)).path.exists()
    renamed = folder.path.rename(folder.path.with_name(f"favourite-{folder.hash}"))
    assert RunFolder.locate(tmp_path, config()).path == renamed
    (tmp_path / "runs" / f"copy-{folder.hash}").mkdir()
    with pytest.raises(RunError, match="2 folders hold run"):
        RunFolder.locate(tmp_path, config())


def test_config_round_trip(tmp_path: Path) -> None:
    hostile = {
        "text": "</script> 🦄 \n: - #",
        "number": "1e-3",
        "on": "yes",
        "tiny": 1e-05,
        "none": None,
        "path": Path("a"),
    }
    made = config(wandb=hostile, extra=(1, 2.5, True))
    folder = RunFolder.create(tmp_path, made)
    folder.write_config(made)
    plain = {**made, "wandb": {**hostile, "path": "a"}, "extra": [1, 2.5, True]}
    assert folder.read_config() == completed(plain)  # what came later is filled in
    assert {**folder.read_config(), **plain} == {**plain, "positions": completed({})["positions"]}
    folder.write_config({**made, "trainer": {"max_steps": 9}})
    assert folder.read_config()["trainer"]["max_steps"] == 9
    with pytest.raises(RunError, match="belongs to another run"):
        folder.write_config(config(seed=1))


@pytest.mark.parametrize(
    "content", [b"", b"[1", b"- 1", b"\xff\xfe\0", b"!!python/object/apply:os.getcwd []", b"a: *b"]
)
def test_damaged_config(tmp_path: Path, content: bytes) -> None:
    folder = RunFolder(tmp_path)
    with pytest.raises(RunError, match=r"has no config\.yaml"):
        folder.read_config()
    folder.config_file.write_bytes(content)
    with pytest.raises(RunError, match=r"config\.yaml is damaged.*overwrite=true"):
        folder.read_config()


def test_clear(tmp_path: Path) -> None:
    folder = finished(tmp_path)
    folder.last.write_bytes(b"x")
    with folder.claim():
        folder.clear()
        assert sorted(os.listdir(folder.path)) == ["checkpoints", "run.lock"]
        assert not os.listdir(folder.checkpoints)
        with pytest.raises(RunError, match="already running"):
            folder.claim()
    assert not folder.exists


def test_find(tmp_path: Path) -> None:
    runs = [finished(tmp_path, seed=seed) for seed in range(20)]
    one = runs[0]
    for text in (one.name, str(one.path), one.hash, one.hash[:8], one.hash.upper(), f"{one.path}/"):
        assert find_run(tmp_path, text).path == one.path
    assert find_run("nowhere", one.path).path == one.path
    first = max("0123456789abcdef", key=lambda digit: sum(run.hash.startswith(digit) for run in runs))
    with pytest.raises(RunError, match=rf"run={first} may be any of \d+ runs:\n  set_max"):
        find_run(tmp_path, first)
    with pytest.raises(RunError, match=r"run=xyz: no such run in .*\n  set_max.*\n(.*\n)+  … and 10 more"):
        find_run(tmp_path, "xyz")
    with pytest.raises(RunError, match=r"there is no run in .* yet"):
        find_run(tmp_path / "nowhere", "abc")


@pytest.mark.parametrize(
    "text", ["", " ", "../../etc", "..", "/", "x" * 5000, "a/" + "x" * 5000, "a\0b", "</script>", "🦄"]
)
def test_hostile_run(tmp_path: Path, text: str) -> None:
    finished(tmp_path)
    with pytest.raises(RunError, match="run"):
        find_run(tmp_path, text)


def test_damaged_folders_hide_nothing(tmp_path: Path) -> None:
    good = finished(tmp_path)
    half = finished(tmp_path, seed=1)
    half.status_file.write_text('{"format": 1, "sta')
    newer = finished(tmp_path, seed=2)
    newer.status_file.write_text('{"format": 99, "state": "done"}')
    no_config = finished(tmp_path, seed=3)
    no_config.config_file.unlink()
    bad_lengths = finished(tmp_path, seed=4)
    bad_lengths.config_file.write_text("data: {lengths: oops}")
    torn = finished(tmp_path, seed=5)
    torn.length_csv.write_text("length,token_accuracy\n1\n2,3\n")
    (tmp_path / "runs" / "stray").mkdir()
    (tmp_path / "runs" / ".hidden").mkdir()
    (tmp_path / "runs" / "file").write_text("")

    problems = {folder.name: problem for folder, problem in iterate_runs(tmp_path)}
    assert len(problems) == 7
    assert [name for name, problem in problems.items() if problem is None] == sorted([good.name, torn.name])
    assert "newer Lengthwise" in (problems[newer.name] or "")

    frame = load_runs(tmp_path).set_index("run")
    assert len(frame) == 7
    assert (frame["state"] == "damaged").sum() == 5
    row = frame.loc[good.name]
    assert (row["state"], row["task"], row["pe"], row["norm"], row["heads"], row["seed"]) == (
        "done", "set_max", "rotary", "pre", 4, 0,
    )  # fmt: skip
    assert (row["results.extrapolation"], row["pe.base"], row["hash"], row["steps"]) == (
        0.5,
        10000,
        run_hash(config()),
        3,
    )

    with pytest.warns(UserWarning, match="left out"):
        lengths = load_lengths(tmp_path)
    assert list(lengths["run"]) == [good.name] * 2
    assert list(lengths["length"]) == [4, 50]
    assert list(lengths["pe"]) == ["rotary"] * 2
    assert list(lengths["train_lengths"]) == ["4-10"] * 2


def test_nothing_there(tmp_path: Path) -> None:
    assert list(iterate_runs(tmp_path)) == []
    assert list(load_runs(tmp_path)["state"]) == []
    assert len(load_lengths(tmp_path)) == 0


def test_variants_group_seeds(tmp_path: Path) -> None:
    for seed in (0, 1):
        finished(tmp_path, seed=seed)
    finished(tmp_path, readout="mean")
    frame = load_runs(tmp_path)
    assert sorted(frame.groupby("variant").size()) == [1, 2]


def test_provenance(tmp_path: Path) -> None:
    file = tmp_path / "provenance.json"
    argv = ["/some/where/train.py", "pe=rotary", "+wandb.api_key=abc", "outputs=x"]
    record_start(file, describe_start(argv=argv, precision="32-true", devices=["cpu"], threads=1))
    record_start(file, describe_start(argv=argv))
    first, second = read_starts(file)
    assert first["argv"] == ["train.py", "pe=rotary", "+wandb.api_key=…", "outputs=x"]
    assert (first["precision"], first["devices"], first["threads"]) == ("32-true", ["cpu"], 1)
    assert first["packages"]["numpy"] and second["python"] and second["cpu"]["count"]
    file.write_text("{")
    with pytest.raises(RunError, match="damaged"):
        read_starts(file)
    record_start(file, {"time": float("nan")})
    assert read_starts(file) == [{"time": None}]
    assert (tmp_path / "provenance.damaged.json").read_text() == "{"


def git(folder: Path, *arguments: str) -> None:
    options = ["-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", "-C", str(folder), *options, *arguments], check=True, capture_output=True)


def test_git_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "src" / "lengthwise"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("a = 1\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert git_state(package) is None
    git(tmp_path, "init", "-q")
    assert (git_state(package) or {})["of"] == "working folder"
    git(tmp_path, "add", ".")
    assert (git_state(package) or {})["commit"] is None
    git(tmp_path, "commit", "-qm", "x")
    state = git_state(package)
    assert state is not None
    assert (state["of"], state["dirty"], state["diff"], len(state["commit"])) == ("lengthwise", False, "", 40)
    (package / "__init__.py").write_text("a = 2\n" + "b" * 300_000 + "\n")
    (tmp_path / "new.py").write_text("")
    state = git_state(package)
    assert state is not None
    assert "+a = 2" in state["diff"]
    assert (state["dirty"], state["diff_cut"], len(state["diff"]), state["untracked"]) == (
        True,
        True,
        200_000,
        ["new.py"],
    )
    json.dumps(state)
