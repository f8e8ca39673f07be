"""Attention maps and the encoding's picture, on request: files in the run folder, and the same ones in W&B."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from lengthwise import compose, drawing
from lengthwise.build import build_parts
from lengthwise.drawing import _attention, _positions, drawn_lengths
from lengthwise.tasks import test_items as items_of
from support.commandline import QUICK, SMALL, in_process
from support.wandb_file import read_all

COMMAND = [word for word in [*QUICK, *SMALL] if not word.startswith("wandb")]
BOTH = "evaluation.pictures=[attention,positions]"


def pictures(root: Path) -> dict[str, Path]:
    return {path.stem: path for path in sorted((root / "outputs" / "runs").glob("*/pictures/*.png"))}


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("drawn")
    result = in_process(root, "train", *COMMAND, "wandb=offline", BOTH)
    assert result.code == 0, result.err
    return root


def test_the_run_folder_has_them(drawn: Path) -> None:
    assert list(pictures(drawn)) == [
        *(f"attention-n{length}-{index}" for length in (10, 12) for index in (1, 2)),
        "positions",
    ]
    for path in pictures(drawn).values():
        with Image.open(path) as image:
            assert image.width > 300 and len(np.unique(image.convert("L"))) > 20, path


def test_wandb_has_the_same_files(drawn: Path) -> None:
    (run,) = read_all(drawn / "outputs")
    for name, path in pictures(drawn).items():
        assert run.logged(f"pictures/{name}").read_bytes() == path.read_bytes()


def test_by_default_there_are_none(tmp_path: Path) -> None:
    assert in_process(tmp_path, "train", *COMMAND, "wandb=disabled").code == 0
    assert not list((tmp_path / "outputs").rglob("pictures"))


def test_a_finished_run_is_drawn_once_by_the_same_command_or_by_evaluate(tmp_path: Path) -> None:
    assert in_process(tmp_path, "train", *COMMAND, "wandb=disabled").code == 0
    (folder,) = (tmp_path / "outputs" / "runs").iterdir()
    positions = "evaluation.pictures=[positions]"
    assert in_process(tmp_path, "evaluate", f"run={folder}", positions).code == 0
    assert list(pictures(tmp_path)) == ["positions"]
    before = pictures(tmp_path)["positions"].stat().st_mtime_ns
    result = in_process(tmp_path, "train", *COMMAND, "wandb=disabled", BOTH)
    assert result.code == 0 and "done already" in result.out
    assert len(pictures(tmp_path)) == 5
    assert pictures(tmp_path)["positions"].stat().st_mtime_ns == before
    longer = in_process(tmp_path, "train", *COMMAND, "wandb=disabled", positions, "trainer.max_steps=6")
    assert longer.code == 0
    assert pictures(tmp_path)["positions"].stat().st_mtime_ns != before  # the weights are others


@pytest.mark.parametrize("asked", ["[attnetion]", "attention", "3"])
def test_what_cannot_be_drawn_is_refused(tmp_path: Path, asked: str) -> None:
    result = in_process(tmp_path, "train", *COMMAND, f"evaluation.pictures={asked}")
    assert result.code == 2 and "attention, positions" in result.err
    assert not (tmp_path / "outputs").exists()


def maps_of(figure) -> list[np.ndarray]:
    return [np.asarray(axis.images[0].get_array()) for axis in figure.axes if axis.images]


@pytest.mark.parametrize("model", ["encoder", "decoder"])
def test_the_maps_are_the_models_own_weights(model: str) -> None:
    config = compose([*SMALL, "model.layers=2", f"model={model}", "evaluation.lengths=[4,12]"])
    task, layout, transformer = build_parts(config)
    transformer.eval()
    assert drawn_lengths(config) == [10, 12]
    with torch.no_grad():
        figures = _attention(config, task, layout, transformer)
        batch = layout(items_of(task, 10, 2), "test", 10)
        expected = transformer.inspect(batch).attention_maps
    shown = maps_of(figures["attention-n10-2"])
    (limits,) = {axis.images[0].get_clim() for axis in figures["attention-n10-2"].axes if axis.images}
    assert limits == (0, max(float(weights.max()) for weights in shown))  # one scale for all heads
    assert len(shown) == 2 * 2
    for number, weights in enumerate(shown):
        layer, head = divmod(number, 2)
        np.testing.assert_array_equal(weights, expected[layer][1, head].numpy())
        np.testing.assert_allclose(weights.sum(-1), 1, rtol=1e-5)
        assert not np.array_equal(weights, expected[layer][0, head].numpy())  # not the other sequence's


def test_an_encoder_decoder_has_three_kinds_of_maps() -> None:
    config = compose([*SMALL, "model=encoder_decoder", "task=reverse", "evaluation.lengths=[4,100]"])
    task, layout, model = build_parts(config)
    with torch.no_grad():
        figures = _attention(config, task, layout, model.eval())
    longest = max(config["data"]["lengths"])
    assert drawn_lengths(config) == [longest]  # 4 is within, 100 too long to be seen
    kinds = {name.partition("-n")[0] for name in figures}
    assert kinds == {"attention", "attention-cross", "attention-source"}
    reads, writes = (
        maps_of(figures[f"attention-{kind}-n{longest}-1"])[0].shape for kind in ("source", "cross")
    )
    assert reads[0] == reads[1] == writes[1] and writes[0] != writes[1]


def test_a_picture_that_fails_costs_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*arguments: object) -> None:
        raise ZeroDivisionError("as the test wants")

    monkeypatch.setitem(drawing._KINDS, "positions", fails)
    result = in_process(tmp_path, "train", *COMMAND, "wandb=disabled", BOTH)
    assert result.code == 0 and "no picture of positions (ZeroDivisionError: as the test wants)" in result.out
    assert len(pictures(tmp_path)) == 4


def test_where_every_length_is_long_the_shortest_is_drawn() -> None:
    config = compose([*SMALL, "data.lengths=[70,80]", "evaluation.lengths=[100]"])
    assert drawn_lengths(config) == [70]


@pytest.mark.parametrize("pe", ["none", "sinusoidal", "alibi", "rotary", "t5", "cope"])
def test_every_kind_of_encoding_has_a_picture(pe: str) -> None:
    config = compose([*SMALL, f"pe={pe}", *(["model=decoder"] if pe == "cope" else [])])
    figure = _positions(config, *build_parts(config))["positions"]
    titles = [axis.get_title() for axis in figure.axes]
    assert ("vectors" in titles) == (pe == "sinusoidal")
    assert "mean score against that at distance 0" in titles


@pytest.mark.parametrize(
    "words", [["model=encoder_decoder", "task=reverse"], ["attention=fixed", "pe=learned"]]
)
def test_where_there_is_nothing_to_draw_the_picture_says_so(words: list[str]) -> None:
    config = compose([*SMALL, *words])
    figure = _positions(config, *build_parts(config))["positions"]
    assert "has no such picture" in figure.get_suptitle() and not figure.axes
