"""The identity of a run: what moves it, what does not, and that it never moves by accident."""

from __future__ import annotations

import copy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from lengthwise.errors import ConfigError
from lengthwise.runs.identity import canonical, run_hash, scientific, source_hash, targets, variant_hash

CONFIG = {
    "task": {"_target_": "lengthwise.tasks.word_order.WordOrder", "symbols": 8},
    "pe": {"_target_": "lengthwise.nn.position.rotary.Rotary", "_partial_": True, "base": 10000.0},
    "norm": {"_target_": "lengthwise.nn.norm.PreNorm", "_partial_": True},
    "model": {"_target_": "lengthwise.nn.transformer.Encoder", "width": 64, "layers": 2, "heads": 4, "key_dim": None},
    "readout": "end",
    "optimizer": {"_target_": "torch.optim.AdamW", "_partial_": True, "lr": 0.003},
    "schedule": {"_target_": "lengthwise.training.schedules.cosine", "warmup_steps": 100, "steps": None},
    "data": {"lengths": "4-10", "batch_size": 32, "validation_size": 512},
    "evaluation": {"lengths": "4-100", "count": 1024},
    "trainer": {
        "max_steps": 300, "accumulate": 1, "clip": 1.0, "precision": "auto", "accelerator": "auto", "devices": 1,
        "threads": 1, "log_every": 10, "validate_every": 50, "checkpoint_every": 100,
    },
    "callbacks": {},
    "wandb": {"mode": "offline"},
    "debug": {},
    "seed": 0,
    "init_seed": 0,
    "data_seed": 0,
    "run": {"label": None},
    "outputs": "outputs",
    "overwrite": False,
}  # fmt: skip


def changed(key: str, value: object) -> dict:
    config = copy.deepcopy(CONFIG)
    node = config
    *parents, last = key.split(".")
    for name in parents:
        node = node.setdefault(name, {})
    node[last] = value
    return config


def test_golden() -> None:
    """If this fails, every folder on every user's disk gets another name. Do not update it: see INTRODUCED (and
    RESULTS_VERSION, where results themselves change)."""
    assert run_hash(CONFIG) == "9f0b85d6fe"
    assert variant_hash(CONFIG) == "00f7ebab94"
    assert run_hash(changed("pe.base", 500.5)) == "152ccdcc88"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("outputs", "/elsewhere"), ("overwrite", True), ("wandb.mode", "online"), ("evaluation.count", 7), ("seed", 9),
        ("trainer.max_steps", 10**6), ("trainer.devices", 8), ("trainer.precision", "bf16-mixed"),
        ("trainer.nodes", 2), ("trainer.strategy", "fsdp"),
        ("trainer.threads", 4), ("trainer.log_every", 1),
        ("study", {"name": "x"}), ("hydra", {"x": 1}), ("run.label", None), ("run.other", "x"), ("debug", "none"),
        ("data.lengths", [4, 5, 6, 7, 8, 9, 10]), ("data.lengths", ["4-8", 10.0, "9"]),
        ("pe.base", 1e4), ("pe.base", 10000), ("trainer.clip", np.float64(1)), ("model.width", np.int64(64)),
    ],
)  # fmt: skip
def test_what_does_not_matter(key: str, value: object) -> None:
    assert run_hash(changed(key, value)) == run_hash(CONFIG)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("init_seed", 1), ("data_seed", 1), ("model.heads", 8), ("pe.base", 10001), ("pe._target_", "lengthwise.x.Y"),
        ("trainer.accumulate", 2), ("trainer.validate_every", 51), ("trainer.clip", None), ("run.label", "x"),
        ("schedule.warmup_steps", 10), ("schedule.steps", 300),
        ("data.lengths", "4-11"), ("data.batch_size", 33), ("task.symbols", True),
        ("pe.new", None),
        ("callbacks", {"stop": {"_target_": "pytorch_lightning.callbacks.EarlyStopping"}}),
        ("callbacks", {"recorder": {"_target_": "mine.Recorder"}}),
    ],
)  # fmt: skip
def test_what_matters(key: str, value: object) -> None:
    assert run_hash(changed(key, value)) != run_hash(CONFIG)


def test_variant_is_the_run_without_its_seeds() -> None:
    other = changed("init_seed", 5)
    assert variant_hash(other) == variant_hash(CONFIG)
    assert variant_hash(changed("model.heads", 8)) != variant_hash(CONFIG)


def test_a_bare_seed_counts() -> None:
    bare = {k: v for k, v in CONFIG.items() if k not in ("init_seed", "data_seed")}
    assert run_hash(bare) == run_hash(CONFIG)
    assert run_hash({**bare, "seed": 1}) != run_hash(CONFIG)


def test_order_of_keys_does_not_matter() -> None:
    assert run_hash(dict(reversed(CONFIG.items()))) == run_hash(CONFIG)


def test_numbers() -> None:
    assert canonical([10000, 1e4, np.float32(1e4)]) == [10000] * 3
    assert canonical(True) is True
    assert scientific({"a": True}) != scientific({"b": 1})
    assert run_hash({"a": True}) != run_hash({"a": 1}) != run_hash({"a": "1"})
    assert run_hash({"a": float("inf")}) != run_hash({"a": "inf"})
    assert run_hash({"a": 0.0}) == run_hash({"a": -0.0})
    with pytest.raises(ConfigError, match=r"pe\.thing\[1\]: a object"):
        run_hash({"pe": {"thing": [1, object()]}})


def test_the_input_is_left_alone() -> None:
    before = copy.deepcopy(CONFIG)
    run_hash(CONFIG)
    assert before == CONFIG


def test_a_key_introduced_later_keeps_old_names(monkeypatch: pytest.MonkeyPatch) -> None:
    old = run_hash(CONFIG)
    introduced = {"pe.scale": 1, "positions": {"_target_": "lengthwise.nn.positions.Sequential"}}
    monkeypatch.setattr("lengthwise.runs.identity.INTRODUCED", introduced)
    new = {**changed("pe.scale", 1.0), "positions": {"_target_": "lengthwise.nn.positions.Sequential"}}
    assert run_hash(CONFIG) == run_hash(new) == old
    assert run_hash(changed("pe.scale", 2)) != old
    assert run_hash(changed("pe.scale", True)) != old
    assert run_hash({**new, "positions": {"_target_": "lengthwise.nn.positions.Random"}}) != old


def test_results_version(monkeypatch: pytest.MonkeyPatch) -> None:
    old = run_hash(CONFIG)
    monkeypatch.setattr("lengthwise.runs.identity.RESULTS_VERSION", 3)
    assert run_hash(CONFIG) != old


def test_targets() -> None:
    assert targets({"a": {"_target_": "x.Y", "b": [{"_target_": "z.W"}, 1]}, "_target_": 3}) == ["x.Y", "z.W"]


def test_source_of_outside_components(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    package = tmp_path / "my_components"
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit('imported')\n")
    (package / "encoding.py").write_text("class Mine: scale = 1\n")
    name = "my_components.encoding.Mine"
    config = changed("pe._target_", name)
    first = run_hash(config)
    assert source_hash([name]) is not None
    assert "my_components" not in sys.modules
    (package / "other.py").write_text("x = 1\n")
    (package / "encoding.py").write_bytes(b"class Mine: scale = 1\r\n")
    assert run_hash(config) == first
    (package / "encoding.py").write_text("class Mine: scale = 2\n")
    assert run_hash(config) != first
    # found in __init__ only: any file of the package may define it
    whole = source_hash(["my_components.Mine"])
    (package / "other.py").write_text("x = 2\n")
    assert source_hash(["my_components.Mine"]) != whole


@pytest.mark.parametrize(
    ("source", "helper", "counts"),
    [
        ("import beside_it", "beside_it.py", True),
        ("def later():\n    from beside_it import x", "beside_it.py", True),
        ("import between_them", "beside_it.py", True),
        ("from a_package.inside import x", "a_package/inside.py", True),
        ("from a_package.inside import x", "a_package/__init__.py", True),
        ("from a_package import inside", "a_package/inside.py", True),
        ("import beside_it.more", "other.py", False),
        ("'import beside_it'", "beside_it.py", False),
        ("def (", "beside_it.py", False),
    ],
)
@pytest.mark.parametrize("place", ["my_conf", "site-packages"])
def test_what_a_file_imports_from_beside_itself_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, helper: str, counts: bool, place: str
) -> None:
    """In a folder of one's own; among installed packages what lies beside a file is somebody else's."""
    folder = tmp_path / place
    (folder / "a_package").mkdir(parents=True)
    monkeypatch.syspath_prepend(folder)
    for name in ("beside_it.py", "other.py", "a_package/__init__.py", "a_package/inside.py"):
        (folder / name).write_text("x = 1\n")
    (folder / "between_them.py").write_text("import beside_it, between_them\n")
    (folder / "my_encoding_xyz.py").write_text(source + "\n")
    before = source_hash(["my_encoding_xyz.Mine"])
    (folder / helper).write_text("x = 2\n")
    assert (source_hash(["my_encoding_xyz.Mine"]) != before) == (counts and place == "my_conf")


def test_relative_imports_within_a_package_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever it is installed, and also below a folder without __init__."""
    folder = tmp_path / "site-packages"
    monkeypatch.syspath_prepend(folder)
    (folder / "package_xyz" / "plain").mkdir(parents=True)
    (folder / "package_xyz" / "__init__.py").write_text("")
    (folder / "package_xyz" / "plain" / "encoding.py").write_text(
        "from . import helper\nfrom ..above import x\n"
    )
    seen = [source_hash(["package_xyz.plain.encoding.Mine"])]
    for name in ("plain/helper.py", "above.py", "unrelated.py"):
        (folder / "package_xyz" / name).write_text("x = 1\n")
        seen.append(source_hash(["package_xyz.plain.encoding.Mine"]))
    assert len(set(seen)) == 3 and seen[2] == seen[3] and None not in seen


def test_ours_and_unknown_components_have_no_source() -> None:
    assert source_hash(["lengthwise.runs.RunFolder", "torch.optim.AdamW"]) is None
    assert source_hash(["no_such_module_xyz.Thing", "", "..", "a b.</script>", "x" * 3000, "nul\0.x"]) is None


def test_no_torch_and_no_pandas_on_import() -> None:
    code = "import sys, lengthwise.runs; print([m for m in ('torch', 'pandas', 'hydra', 'wandb') if m in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"
