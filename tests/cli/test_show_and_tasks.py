"""`lengthwise show` and `lengthwise tasks`: what a person reads of a task."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.commandline import QUICK


def lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines() if line.strip()]


def test_answers_stand_below_where_they_are_read(run) -> None:
    result = run("show", "task=reverse", "model=decoder", "length=4", "count=1")
    assert result.code == 0, result.err
    head, given, answer, sees, answers = lines(result.out)
    assert head == "task reverse, 4 input symbols, for a model of shape decoder"
    x, y = given.split()[1:], answer.split()[1:]
    assert y == x[::-1]
    assert sees.split() == ["sees", "<bos>", *x, "<sep>", *y]
    assert answers.split() == ["answers", *y, "<eos>"]
    # the first answer is read at the separator, the end at the last symbol
    assert answers.index(y[0]) == sees.index("<sep>") + len("<sep>") - 1
    assert len(answers) == len(sees)


def test_the_same_items_as_every_runs_test(run) -> None:
    one, again, other, longer = (
        run("show", "task=word_order", *more).out
        for more in (["length=6"], ["length=6", "model=decoder"], ["length=6", "split=train"], ["length=7"])
    )

    def inputs(text: str) -> list[str]:
        return [line for line in lines(text) if line.startswith("input")]

    assert inputs(one) == inputs(again)
    assert len(inputs(one)) == 5
    assert inputs(one) != inputs(other)
    assert len(inputs(longer)[0].split()) == 8


def test_position_numbers_are_shown(run) -> None:
    result = run(
        "show", "task=copy", "model=encoder_decoder", "length=3", "count=1", "pe=abacus", "positions=task"
    )
    assert result.code == 0, result.err
    assert [line.split() for line in lines(result.out) if "number" in line] == [
        ["number", "1", "2", "3"],
        ["number", "0", "1", "2", "3"],
    ]


def test_what_a_trained_model_answers(run, tmp_path: Path) -> None:
    assert run("train", *QUICK, "pe=none", "task=copy", "model=decoder").code == 0
    (trained,) = (tmp_path / "outputs" / "runs").iterdir()
    result = run("show", f"run={trained}", "length=4", "count=2")
    assert result.code == 0, result.err
    shown = [line.split() for line in lines(result.out)]
    assert sum(row[0] == "model" for row in shown) == 2
    for right, said in zip(
        *([row for row in shown if row[0] == name] for name in ("answers", "model")), strict=True
    ):
        assert len(said) == len(right) == 6
    refused = run("show", f"run={trained}", "pe=alibi")
    assert refused.code == 2 and "has a task and a model of its own" in refused.err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["task=word_order", "length=2"], "length 2 is not possible; use lengths of at least 3"),
        (["task=copy", "length=0"], "length=0: must be a whole number from 1 to 1048576"),
        (["task=copy", "length=1000000000"], "length=1000000000: must be a whole number from 1 to 1048576"),
        (["task=copy", "count=many"], "count=many: must be a whole number"),
        (["task=copy", "count=5000"], "count=5000: must be a whole number from 1 to 4096"),
        (["task=modular_arithmetic", "evaluation=chomsky"], "such as evaluation.lengths=1-499:2"),
        (["task=copy", "evaluation.lengths=[4,100000000]"], "100000000 is too long"),
        (["task=copy", "split=tset"], "split='tset' is unknown"),
        (["task=cpoy"], "task=cpoy: no such option"),
        (["copy"], "copy: arguments are written key=value"),
        (["run=nothing"], "nothing"),
    ],
)
def test_wrong_input_is_one_message(run, arguments: list[str], says: str) -> None:
    result = run("show", *arguments)
    assert result.code == 2
    assert says in result.err and len(result.err.strip().splitlines()) == 1


def test_the_card_of_a_task(run) -> None:
    result = run("tasks", "reverse", "lengths=[5]", "--json")
    assert result.code == 0, result.err
    (card,) = json.loads(result.out)
    assert card["answer_format"] == "sequence"
    assert card["symmetry"] == ["P", "JPJ"]
    assert card["baselines"]["5"]["uniform"] == 0.5
    assert len(card["worked"]) == 3
    text = run("tasks", "reverse", "lengths=[5]").out
    assert "Delétang" in text and "baselines at 5" in text
    listed = run("tasks").out
    assert all(name in listed for name in ("reverse", "word_order", "digits"))
    assert "Did you mean reverse?" in run("tasks", "revrse").err


def test_all_cards_on_one_page(run, tmp_path: Path) -> None:
    result = run("tasks", "reverse", "last", "lengths=[4]", f"markdown={tmp_path / 'cards.md'}")
    assert result.code == 0, result.err
    page = (tmp_path / "cards.md").read_text(encoding="utf-8")
    assert "## reverse" in page and "## last" in page
    assert "| 4 | 50.0 |" in page
