"""Options and components in a folder of one's own: ``--config-dir my_conf pe=mine``."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import lengthwise
from lengthwise import outside
from lengthwise.build import build_parts
from lengthwise.composing import compose
from lengthwise.config import options
from lengthwise.errors import ConfigError, RunError
from lengthwise.nn import Context
from lengthwise.runs import run_hash
from support.commandline import QUICK, SMALL, Result, in_own_process, in_process

SOURCE = """
import torch
from lengthwise.nn import PositionEncoding
from helper_of_mine import FACTOR

class Mine(PositionEncoding):
    symmetries = frozenset({"translation", "reversal"})

    def __init__(self, sizes, *, slope: float = 0.5, share: bool = False, cross: bool = False):
        super().__init__(sizes, share=share, cross=cross)
        self.slope = slope

    def bias(self, context):
        distances = context.offsets().abs()[:, None].to(context.precision)
        return (-FACTOR * self.slope * distances).expand(-1, self.sizes.heads, -1, -1)
"""
OPTION = "# By distance, one slope.\n_target_: mine.Mine\n_partial_: true\nslope: 0.5\nshare: false\ncross: false\n"
TINY = [*QUICK, *SMALL, "trainer.max_steps=2", "evaluation.symmetry=false"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """my_conf with pe=mine."""
    write(
        tmp_path / "my_conf",
        {"pe/mine.yaml": OPTION, "mine.py": SOURCE, "helper_of_mine.py": "FACTOR = 1.0\n"},
    )
    return tmp_path / "my_conf"


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


@contextlib.contextmanager
def not_raised(kind: type[BaseException]) -> Iterator[None]:
    """What would be an error of the test's own is a failure."""
    try:
        yield
    except kind as error:
        pytest.fail(f"{kind.__name__}: {error}")


def only_run(folder: Path) -> Path:
    (run,) = (folder / "outputs" / "runs").iterdir()
    return run


def test_a_run_remembers_where_its_components_lie(
    run: Callable[..., Result], folder: Path, tmp_path: Path
) -> None:
    """Trained with a folder named from where the user stands; tested, loaded and reported from elsewhere without it."""
    result = run("train", "--config-dir", "my_conf", "pe=mine", *TINY)
    assert result.code == 0, result.err
    made = only_run(tmp_path)
    assert made.name.startswith("word_order-mine-")
    assert yaml.safe_load((made / "config.yaml").read_text())["run"]["components"] == str(folder)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    result = in_process(elsewhere, "evaluate", f"run={made}", "evaluation.lengths=[8]", "pe.slope=0.25")
    assert result.code == 0, result.err
    result = in_process(elsewhere, "report", f"outputs={tmp_path / 'outputs'}")
    assert result.code == 0 and " mine " in result.out, result.err
    with outside.restored():
        assert type(lengthwise.load_model(made).stack.encodings()[0]).__name__ == "Mine"
    assert "mine" not in sys.modules and str(folder) not in sys.path and "mine" not in options("pe")


def test_a_folder_that_has_moved_is_named_again(
    run: Callable[..., Result], folder: Path, tmp_path: Path
) -> None:
    assert run("train", "--config-dir", str(folder), "pe=mine", *TINY).code == 0
    made = only_run(tmp_path)
    folder.rename(tmp_path / "moved")
    result = run("evaluate", f"run={made}", "evaluation.lengths=[8]")
    assert result.code == 2
    assert result.err.startswith(f"error: run.components={folder}: ") and "--config-dir DIR" in result.err
    assert result.err.count("\n") == 1
    assert run("evaluate", f"run={made}", "evaluation.lengths=[8]", "--config-dir=moved").code == 0


def test_an_edited_source_is_another_run(run: Callable[..., Result], folder: Path, tmp_path: Path) -> None:
    """The file, or one that it imports from beside itself; found without importing, from any folder."""
    hashes = []

    def note() -> None:
        with contextlib.chdir("/"), outside.restored():
            hashes.append(run_hash(compose(["pe=mine"], config_dir=folder)))
            assert "mine" not in sys.modules

    note()
    assert run("train", "--config-dir", "my_conf", "pe=mine", *TINY).code == 0
    made = only_run(tmp_path)
    write(folder, {"unrelated.py": "x = 1\n", "mine.py": SOURCE.replace("\n", "\r\n")})
    note()
    assert hashes[0] == hashes[1]
    for name, text in (("helper_of_mine.py", "FACTOR = 2.0\n"), ("mine.py", SOURCE + "\n")):
        write(folder, {name: text})
        note()
    assert len(set(hashes)) == 3
    result = run("evaluate", f"run={made}", "evaluation.lengths=[8]")
    assert result.code == 2 and "the source of mine.Mine is not what run" in result.err
    with outside.restored(), pytest.raises(RunError, match="is not what run"):
        lengthwise.load_model(made)
    assert run("train", "--config-dir", "my_conf", "pe=mine", *TINY).code == 0
    assert len(list(made.parent.iterdir())) == 2


@pytest.mark.slow
def test_a_sweep_finds_it_from_any_folder(folder: Path, tmp_path: Path) -> None:
    """Warm jobs, forked from a process that never heard of it."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    words = ["train", "--config-dir", "../my_conf", "-m", "pe=mine,none", *TINY]
    result = in_own_process(elsewhere, *words, environment={"PYTHONPATH": ""})
    assert result.code == 0, result.out + result.err
    assert "2 of 2 runs done" in result.out


@pytest.mark.slow
def test_fresh_jobs_and_ranks_find_it(folder: Path, tmp_path: Path) -> None:
    words = ["train", "--config-dir", "my_conf", "-m", "pe=mine", "pe.slope=0.5,1", *TINY, "sweep.start=cold"]
    result = in_own_process(tmp_path, *words, "trainer.devices=2", "trainer.accelerator=cpu")
    assert result.code == 0, result.out + result.err
    assert "2 of 2 runs done" in result.out


def test_help_and_hints_know_the_folder(run: Callable[..., Result], folder: Path) -> None:
    shown = run("train", "--help", "--config-dir", "my_conf")
    assert shown.code == 0 and f"mine                 By distance, one slope. [{folder}]" in shown.out
    assert "By distance" not in run("train", "--help").out
    given = ["--config-dir", "my_conf"]
    for words, said in (
        (["pe=mien"], "pe=mien: no such option; options: abacus, "),
        (["pe=mien"], "Did you mean mine?"),
        (["pe=mine", "+pe.slpoe=1"], "Did you mean pe.slope?"),
        (["pe=[mine,none]"], "mine"),
        (["pe=mine", "pe.slope=abc"], "pe.slope=abc: Mine takes float here"),
    ):
        result = run("train", *given, *words)
        assert result.code == 2 and said in result.err, result.err


REFUSED: list[tuple[dict[str, str], str]] = [
    ({"pe/rotary.yaml": OPTION}, "pe=rotary is Lengthwise's own; give yours another name"),
    ({"hydra/launcher/local.yaml": "{}"}, "hydra/launcher=local is Lengthwise's own"),
    ({"config.yaml": "{}"}, "config.yaml is Lengthwise's own"),
    ({"torch.py": ""}, "Python has another module of that name"),
    ({"lengthwise/__init__.py": ""}, "Python has another module of that name"),
    ({"random.py": ""}, "Python has another module of that name (its own)"),
    ({"pe/other.yml": OPTION}, "rename it to other.yaml"),
]


@pytest.mark.parametrize(("files", "said"), REFUSED, ids=[next(iter(files)) for files, _ in REFUSED])
def test_a_name_that_is_taken_is_refused(
    run: Callable[..., Result], folder: Path, tmp_path: Path, files: dict[str, str], said: str
) -> None:
    """One message, before anything starts, whatever else was asked for."""
    write(folder, files)
    for command in (
        ["train", "pe=none", *TINY],
        ["train", "-m", "pe=none,alibi", *TINY],
        ["check", "pe=none"],
    ):
        result = run(command[0], "--config-dir", "my_conf", *command[1:])
        assert result.code == 2, command
        assert result.err.startswith(f"error: {folder / next(iter(files)).removesuffix('/__init__.py')}: ")
        assert said in result.err and result.err.count("\n") == 1
    assert not (tmp_path / "outputs").exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"mine.py": None}, "pe._target_=mine.Mine: cannot import 'mine'"),
        ({"mine.py": "x = 1\n\n1/0\n"}, "importing mine fails (line 3): ZeroDivisionError"),
        ({"mine.py": "def (\n"}, "importing mine fails (line 1): SyntaxError"),
        ({"mine.py": "import no_such_module_xyz\n"}, "No module named 'no_such_module_xyz'"),
        ({"mine.py": "class Other: pass\n"}, "mine has no 'Mine'"),
        ({"pe/mine.yaml": OPTION + "extra: 1\n"}, "pe.extra=1: Mine has no such option"),
    ],
)
def test_what_is_wrong_in_the_folder_is_said(
    run: Callable[..., Result], folder: Path, change: dict[str, Any], said: str
) -> None:
    for name, text in change.items():
        (folder / name).unlink()
        if text is not None:
            write(folder, {name: text})
    for command in (["train", "pe=mine", *TINY], ["check", "pe=mine"]):
        result = run(*command, "--config-dir", "my_conf")
        assert result.code != 0 and said in result.err + result.out, result.err + result.out
        assert "Traceback" not in result.err


def test_a_folder_that_is_not_there(run: Callable[..., Result]) -> None:
    result = run("train", "--config-dir", "nowhere", "pe=none")
    assert (result.code, result.err) == (2, "error: --config-dir nowhere: there is no such folder\n")
    assert run("train", "pe=none", "--config-dir").code == 2


def test_every_slot_takes_one(folder: Path) -> None:
    write(
        folder,
        {
            "attention/mine.yaml": "# Mine.\n_target_: parts_of_mine.Attention\n_partial_: true\n",
            "norm/mine.yaml": "# Mine.\n_target_: parts_of_mine.Norm\n_partial_: true\n",
            "task/mine.yaml": "# @package _global_\n# Mine.\ntask: {_target_: parts_of_mine.Task}\n"
            "data: {lengths: [2, 3]}\nevaluation: {lengths: [4]}\n",
            "parts_of_mine.py": "from lengthwise.nn import PreNorm as Norm, ScaledAttention as Attention\n"
            "from lengthwise.tasks import Reverse as Task\n",
        },
    )
    with outside.restored():
        config = compose(["pe=mine", "attention=mine", "norm=mine", "task=mine"], config_dir=folder)
        for slot in ("attention", "norm", "task"):
            assert config[slot]["_target_"].startswith("parts_of_mine."), slot
            assert "mine" in options(slot)
        assert type(build_parts(config)[0]).__name__ == "Reverse"


def test_two_folders_with_one_name_are_refused(folder: Path, tmp_path: Path) -> None:
    write(tmp_path / "second", {"pe/mine.yaml": OPTION})
    with outside.restored():
        outside.use(folder)
        with pytest.raises(ConfigError, match=r"pe=mine is in .*my_conf too"):
            outside.use(tmp_path / "second")
    with outside.restored():  # control: one at a time
        outside.use(tmp_path / "second")


@pytest.mark.parametrize(
    "words",
    [
        ["pe=mine", "--config-dir", "my_conf", "pe.slope=0.25"],
        ["pe=mine", "pe.slope=0.25", "--config-dir=my_conf"],
        ["--config-dir", "my_conf", "pe=mine", "pe.slope=0.25"],
        ["-m", "pe=mine", "--config-dir", "my_conf", "pe.slope=0.25,0.5"],
        ["pe=mine", "-m", "--config-dir", "my_conf", "pe.slope=0.25,0.5"],
    ],
    ids=" ".join,
)
def test_flags_stand_anywhere(run: Callable[..., Result], folder: Path, words: list[str]) -> None:
    """Between overrides as before and after them, also where Hydra prints what it has composed."""
    with not_raised(SystemExit):
        result = run("train", *words, "--cfg", "job", "norm=pre")
    assert result.code == 0, result.err
    assert "slope: 0.25" in result.out and "PreNorm" in result.out
    wrong = run("train", *words, "norm=pre", "no.such=key")
    assert wrong.code == 2 and wrong.err.startswith("error: no.such"), wrong.err


def trained(folder: Path, **options: Any) -> tuple[str, float]:
    """The hash of a run of pe=mine, and the bias at distance 1 of the class that was built for it."""
    config = compose(["pe=mine", *TINY], **options)
    run = lengthwise.train({**config, "outputs": str(folder / "outputs")})
    encoding = lengthwise.load_model(run.path).stack.encodings()[0]
    return run.hash, float(encoding.bias(Context(2, 2))[0, 0, 0, 1])


def test_an_edited_source_is_imported_anew(folder: Path, tmp_path: Path) -> None:
    """In one process, as a notebook does it: what is trained is the class that the run's hash names."""
    with outside.restored():
        found = [trained(tmp_path, config_dir=folder)]
        found.append(trained(tmp_path, config_dir=folder))
        assert found[0] == found[1] and found[0][1] == -0.5
        kept = sys.modules["mine"]
        build_parts(compose(["pe=mine", *TINY]))
        assert sys.modules["mine"] is kept  # control: as long as nothing changes
        write(folder, {"helper_of_mine.py": "FACTOR = 3.0\n"})
        found.append(trained(tmp_path, config_dir=folder))
        write(folder, {"mine.py": SOURCE.replace("-FACTOR", "+FACTOR")})
        found.append(trained(tmp_path))
    assert [bias for _, bias in found] == [-0.5, -0.5, -1.5, 1.5]
    assert len({name for name, _ in found}) == 3


def test_an_edit_within_a_second_is_seen(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python tells a compiled file from its source by size and full seconds."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    factors = []
    with outside.restored():
        for factor in (1.0, 3.0):
            write(folder, {"helper_of_mine.py": f"FACTOR = {factor}\n"})
            os.utime(folder / "helper_of_mine.py", (1e9, 1e9))
            build_parts(compose(["pe=mine", *TINY], config_dir=folder))
            factors.append(sys.modules["helper_of_mine"].FACTOR)
    assert factors == [1.0, 3.0]


def test_what_was_imported_by_hand_before_is_looked_at_too(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where Python keeps a compiled file, that tells."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    with outside.restored():
        outside.use(folder)
        importlib.import_module("mine")
        write(folder, {"mine.py": SOURCE.replace("-FACTOR", "+2 * FACTOR")})
        assert trained(tmp_path)[1] == 1.0


def test_each_call_of_the_library_names_its_folder(folder: Path, tmp_path: Path) -> None:
    """The next folder takes its place, names and modules and all; a configuration keeps its own."""
    write(
        tmp_path / "second",
        {
            "pe/mine.yaml": OPTION,
            "mine.py": SOURCE.replace("-FACTOR", "+FACTOR"),
            "helper_of_mine.py": "FACTOR = 1.0",
        },
    )
    with outside.restored():
        first = trained(tmp_path, config_dir=folder)
        with not_raised(ConfigError):
            second = trained(tmp_path, config_dir=tmp_path / "second")
        assert (first[1], second[1]) == (-0.5, 0.5)
        assert outside.in_use() == [tmp_path / "second"]
        configs = [compose(["pe=mine"], config_dir=place) for place in (folder, tmp_path / "second")]
        hashes = [run_hash(config) for config in configs]
        assert hashes == [run_hash(config) for config in configs] and hashes[0] != hashes[1]
        assert trained(tmp_path, config_dir=folder) == first
        # One that is refused leaves the one before it in use.
        write(tmp_path / "third", {"pe/rotary.yaml": OPTION})
        for words, place in ((["pe=mine"], tmp_path / "third"), (["pe=mien"], tmp_path / "second")):
            with pytest.raises(ConfigError):
                compose(words, config_dir=place)
            assert outside.in_use() == [folder]
        assert compose(["pe=mine"])["run"]["components"] == str(folder)


@pytest.mark.parametrize(
    "source", ["raise SystemExit(3)\n", "import sys\n\nsys.exit(3)\n"], ids=["raised", "called"]
)
def test_a_module_that_exits_is_named(run: Callable[..., Result], folder: Path, source: str) -> None:
    write(folder, {"mine.py": source})
    for command in (["train", "pe=mine", *TINY], ["check", "pe=mine"]):
        with not_raised(SystemExit):
            result = run(*command, "--config-dir", "my_conf")
        assert result.code == 2 and "importing mine fails (line" in result.err
        assert "SystemExit: 3" in result.err
