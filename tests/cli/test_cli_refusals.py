"""Bad input is one clear message, an exit code that is not 0, and nothing written."""

from pathlib import Path

import pytest

WRONG = [
    ("pe=rotary model.width=30 model.heads=4", ["30", "4"]),
    ("model.width=60 model.heads=4", ["15", "even"]),
    ("model.heads=0", ["model.heads=0", "at least 1"]),
    ("model.width=33", ["33", "4"]),
    ("pe=lerned", ["pe=lerned", "Did you mean learned?"]),
    ("+modle.width=8", ["modle.width=8", "Did you mean model.width?"]),
    ("++model.wdth=8", ["model.wdth=8", "Did you mean model.width?"]),
    ("data.lenghts=[1,2]", ["data.lenghts", "Did you mean data.lengths?"]),
    ("data.batch_size=0", ["data.batch_size=0"]),
    ("pe=[rotary,alibi]", ["one option, not a list"]),
    ("pe=unit_interval model=decoder", ["decoder", "UnitInterval"]),
    ("data.lengths=[1,2]", ["data.lengths=1,2", "at least 3"]),
    ("task=majority data.lengths=[4]", ["odd"]),
    ("readout=front model=decoder", ["readout=front", "decoder"]),
    *(
        (f"{slot}._target_=fractions.Fraction", [f"{slot}._target_=fractions.Fraction", f"no {kind}"])
        for slot, kind in (
            ("positions", "Positions"),
            ("norm", "Placement"),
            ("norm_layer", "Module"),
            ("activation", "Module"),
            ("init", "Callable"),
        )
    ),
    ("optimizer=adamw optimizer._target_=collections.OrderedDict", ["optimizer._target_", "cannot be read"]),
    ("trainer.devices=3", ["trainer.devices=3"]),
    ("-m trainer.max_steps=5,10", ["the same run", "trainer.max_steps", "run.label"]),
    ("-m study=length_generalization seed=0,1", ["study.grids=null"]),
    ("-m pe=none,lerned", ["lerned"]),
]


@pytest.mark.parametrize(("arguments", "says"), WRONG, ids=[wrong[0] for wrong in WRONG])
def test_refused_before_anything_is_written(run, tmp_path: Path, arguments: str, says: list[str]) -> None:
    result = run("train", *arguments.split())
    assert result.code == 2
    assert result.err.startswith("error: ")
    assert "Traceback" not in result.err
    assert len(result.err.strip().splitlines()) == 1
    for part in says:
        assert part in result.err
    assert not (tmp_path / "outputs" / "runs").exists()


def test_an_unexpected_error_shows_no_traceback_unless_asked(run, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("something else")

    monkeypatch.setattr("lengthwise.commands.parse", broken)
    result = run("train")
    assert (result.code, result.err) == (1, "error: RuntimeError: something else\n")
    monkeypatch.setenv("LENGTHWISE_TRACEBACK", "1")
    assert "Traceback" in run("train").err


def test_an_unknown_command_is_named(process) -> None:
    result = process("trian")
    assert result.code == 2
    assert "trian" in result.err and "train" in result.err
