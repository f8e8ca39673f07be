"""Every wrong choice is one message that names the key, the value and what would work."""

import pytest

from lengthwise.components import check_components
from lengthwise.composing import compose
from lengthwise.errors import ConfigError


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("pe=lerned", ["pe=lerned", "rotary", "Did you mean learned?"]),
        ("+modle.width=8", ["modle.width=8", "Did you mean model.width?"]),
        ("++model.wdth=8", ["model.wdth=8", "Did you mean model.width?"]),
        ("data.lenghts=[1,2]", ["data.lenghts", "Did you mean data.lengths?"]),
        ("+optimiser.lr=1", ["optimiser.lr=1", "Did you mean optimizer.lr?"]),
        ("data.batch_size=0", ["data.batch_size=0", "at least 1"]),
        ("data.batch_size=2.5", ["data.batch_size", "takes a whole number, not '2.5'"]),
        ("model.heads=0", ["model.heads=0", "at least 1"]),
        ("model.dropout=1.5", ["model.dropout=1.5", "below 1"]),
        ("seed=-1", ["seed=-1", "at least 0"]),
        ("pe=[rotary,alibi]", ["pe", "one option, not a list", "-m pe=rotary,alibi"]),
        ("pe=", ["pe=", "rotary"]),
        ("model=5", ["model=5", "decoder"]),
        ("wandb.project=a/b", ["wandb.project=a/b", "1 to 128 characters"]),
        ("wandb.tags=['']", ["wandb.tags", "1 to 64"]),
        ("wandb.mode=oflline", ["wandb.mode=oflline", "Did you mean offline?"]),
        ("study=nothing", ["study=nothing", "length_generalization"]),
        ("readout=middle", ["readout=middle", "front, end, mean"]),
        ("evaluation.checkpoints=[first]", ["evaluation.checkpoints", "last, best"]),
        ("trainer.accumulate=5", ["trainer.accumulate=5", "data.batch_size=32"]),
        ("data.lengths=[4,x]", ["data.lengths"]),
        ("data.lengths=[]", ["data.lengths"]),
        ("a=b=c", ["a=b=c"]),
        ("pe.base=nan", ["pe.base=nan", "finite"]),
        ("optimizer.lr=1e400", ["optimizer.lr=inf", "finite"]),
        ("evaluation.checkpoints=[[last]]", ["evaluation.checkpoints"]),
        ("outputs=''", ["outputs"]),
        ("seed=0,1", ["seed=0,1", "-m", "seed=[0,1]"]),
        ("ep=learned", ["ep", "Did you mean pe?"]),
        ("+pe.base=100", ["+pe.base", "leave out the +"]),
    ],
)
def test_one_clear_message(override: str, says: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        compose([override])
    for part in says:
        assert part in str(caught.value)
    assert "Traceback" not in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_a_text_is_no_list_of_overrides() -> None:
    with pytest.raises(ConfigError, match=r"give a list of overrides, \['pe=alibi'\]"):
        compose("pe=alibi")


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("+pe.bse=3", ["pe.bse=3", "Rotary", "Did you mean pe.base?"]),
        ("+task.fillrs=3", ["task.fillrs=3", "WordOrder"]),
        ("+attention.key_dim=3", ["attention.key_dim=3"]),
        ("+optimizer.momentum=3", ["optimizer.momentum=3", "adamw"]),
        ("pe._target_=lengthwise.nn.position.rotary.Rotery", ["pe._target_", "Rotery"]),
        ("pe._target_=nowhere.Mine", ["pe._target_", "nowhere"]),
        ("+norm.residual=false", ["norm.residual=False"]),
        ("pe=t5 pe.share=maybe", ["pe.share=maybe", "bool"]),
        ("optimizer.lr=true", ["optimizer.lr=True", "float"]),
        ("optimizer.lr=abc", ["optimizer.lr=abc", "float"]),
        ("optimizer.betas=[0.9,0.98,0.99]", ["optimizer.betas", "tuple[float, float]"]),
        ("schedule.steps=1.5", ["schedule.steps=1.5", "int"]),
        ("schedule.warmup_steps=null", ["schedule.warmup_steps=None"]),
        ("pe=learned pe.beyond=wrap", ["pe.beyond=wrap", "clamp"]),
        ("callbacks=early_stopping callbacks.early_stopping.patience=abc", ["patience=abc", "int"]),
    ],
)
def test_options_are_checked_against_the_component(override: str, says: list[str]) -> None:
    config = compose(override.split())
    with pytest.raises(ConfigError) as caught:
        check_components(config)
    for part in says:
        assert part in str(caught.value)


def test_a_right_configuration_passes() -> None:
    config = compose(["pe=learned", "norm=post", "model.heads=8"])
    check_components(config)
    assert config["pe"]["_target_"].endswith("Learned")
    assert config["model"]["heads"] == 8


def test_swapping_an_option_leaves_no_key_of_the_old_one() -> None:
    assert "base" in compose(["pe=rotary"])["pe"]
    assert "base" not in compose(["pe=alibi"])["pe"]
    assert "base" not in compose(["study=length_generalization", "pe=alibi"])["pe"]


def test_a_study_changes_the_configuration() -> None:
    plain, study = compose([]), compose(["study=length_generalization"])
    assert plain["study"] == {}
    assert study["study"]["grids"]
    assert study["evaluation"]["lengths"] != plain["evaluation"]["lengths"]


def test_debug_overrides_a_study() -> None:
    config = compose(["study=length_generalization", "debug=fast"])
    assert config["trainer"]["max_steps"] < 10
    assert config["run"]["label"] == "debug-fast"


def test_both_seeds_follow_seed_unless_set() -> None:
    config = compose(["seed=3"])
    assert (config["init_seed"], config["data_seed"]) == (3, 3)
    config = compose(["seed=3", "data_seed=5"])
    assert (config["init_seed"], config["data_seed"]) == (3, 5)
