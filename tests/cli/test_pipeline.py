"""What `train` hands to the parts of a run, and in which order it writes."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from lengthwise import pipeline
from lengthwise.build import build_parts
from lengthwise.composing import compose
from lengthwise.measure import measure
from support.commandline import QUICK, SMALL


class Stopped(Exception):
    pass


def test_both_seeds_reach_what_they_are_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """init_seed: initial values and dropout; data_seed: batches; each alone."""

    def parts(init_seed: int, data_seed: int) -> tuple[int, torch.Tensor, torch.Tensor]:
        seen: list[Any] = []

        def fit(*arguments: Any, **_: Any) -> None:
            seen.extend(arguments)
            raise Stopped

        monkeypatch.setattr(pipeline, "fit", fit)
        seeds = [f"init_seed={init_seed}", f"data_seed={data_seed}"]
        with pytest.raises(Stopped):
            pipeline.train(
                compose([*QUICK, *SMALL, "evaluation.symmetry=false", f"outputs={tmp_path}", *seeds])
            )
        module, data, _ = seen
        return module.init_seed, module.model.head.weight, data.train_batch(0).tokens

    dropout, weights, tokens = parts(3, 5)
    other_dropout, other_weights, same_tokens = parts(4, 5)
    assert (dropout, other_dropout) == (3, 4)
    assert not torch.equal(weights, other_weights)
    assert torch.equal(tokens, same_tokens)
    same_dropout, same_weights, other_tokens = parts(3, 6)
    assert same_dropout == dropout
    assert torch.equal(weights, same_weights)
    assert not torch.equal(tokens, other_tokens)


def test_the_status_is_written_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that is killed while it is measured must not look done: its tables are not whole."""
    states: list[str] = []

    def watched(folder: Any, *arguments: Any) -> Any:
        states.append(folder.status().state)
        rows = measure(folder, *arguments)
        states.append(folder.status().state)
        return rows

    monkeypatch.setattr(pipeline, "measure", watched)
    folder = pipeline.train(compose([*QUICK, *SMALL, f"outputs={tmp_path}"]))
    assert states == ["running", "running"]
    assert folder.status().state == "done"


def test_each_checkpoint_is_tested_with_its_own_weights(tmp_path: Path) -> None:
    config = compose([*QUICK, *SMALL, "evaluation.symmetry=false", f"outputs={tmp_path}"])
    folder = pipeline.train(config)
    best = torch.load(folder.checkpoints / "best.ckpt", weights_only=True)
    best["global_step"] = 2
    for name in ("weight", "bias"):
        best["state_dict"][f"model.head.{name}"].zero_()  # all symbols alike
    torch.save(best, folder.checkpoints / "best.ckpt")
    folder.length_csv.unlink()
    task, layout, model = build_parts(config)
    rows = measure(folder, config, task, layout, model)
    alike = pytest.approx(math.log(len(layout.vocabulary)))
    found = {(row["checkpoint"], row["step"], row["loss"] == alike) for row in rows if row["n"]}
    assert found == {("best", 2, True), ("last", 4, False)}
