"""``lengthwise tasks``: what each task is, from the fields of its class, and what can be scored without doing it."""

from __future__ import annotations

import json
import shutil
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from rich.console import Console
from rich.table import Table

from lengthwise.build import build
from lengthwise.config import closest, parse_values
from lengthwise.errors import ConfigError
from lengthwise.outside import option_files
from lengthwise.runs.lengths import format_lengths, parse_lengths
from lengthwise.tasks import Task, best_blind
from lengthwise.tasks.estimated import BAG_LENGTH
from lengthwise.usage import comment

_BASELINES = {
    "uniform": "a random answer symbol",
    "position_only": "the best answer from the place alone",
    "token_only": "the best answer from the place and the token there",
    "bag_optimal": "the best answer from the bag of input tokens and the place",
    "remaining_bag": "the same, knowing the answer so far",
    "previous_only": "the best answer from the place and the answer symbol before",
    "window": "the answer from the nearest 21 tokens",
}

_OF_THE_FILE = ("symbols", "answer", "lengths", "options")
"""Lines of a card that differ between machines where the task reads a file."""


def tasks(arguments: Sequence[str]) -> int:
    """List the tasks; with a name, that task's card; ``markdown=FILE`` writes all cards.

    Raises ConfigError for a name or a key that there is not.
    """
    as_json = "--json" in arguments
    words = [word for word in arguments if word != "--json"]
    named = [word for word in words if "=" not in word]
    given = parse_values([word for word in words if word not in named], {"markdown": None, "lengths": None})
    lengths = parse_lengths(given["lengths"], "lengths") if given["lengths"] else None
    if lengths and not named and not given["markdown"]:
        raise ConfigError(
            f"lengths={given['lengths']}: say of which task, such as lengthwise tasks parity lengths=4,8"
        )
    known = option_files("task")
    for name in named:
        if name not in known:
            raise ConfigError(
                f"{name}: no such task; there are {', '.join(known)}.{closest(name, list(known))}"
            )
    cards = [card(name, lengths if named or given["markdown"] else []) for name in named or known]
    if given["markdown"]:
        Path(given["markdown"]).write_text(markdown(cards), encoding="utf-8")
        print(f"cards: {given['markdown']}")
    elif as_json:
        print(json.dumps(cards, indent=2, ensure_ascii=False))
    elif named:
        print("\n\n".join(_text(one) for one in cards))
    else:
        _print_list(cards)
    return 0


def card(option: str, lengths: Sequence[int] | None = None) -> dict[str, Any]:
    """What is known of the task that ``task=option`` chooses, in plain containers.

    lengths: at which baselines are given; None = the longest trained and the longest tested one of the option's file.
    """
    path = option_files("task")[option]
    config: Any = OmegaConf.to_container(OmegaConf.load(path), resolve=False)
    task: Task = build("task", config["task"])
    trained, tested = (parse_lengths(config[part]["lengths"]) for part in ("data", "evaluation"))
    if lengths is None:
        lengths = sorted({max(trained), max(tested)})
    baselines = {}
    for length in lengths:
        try:
            task.check_length(length)
        except ValueError as error:
            raise ConfigError(f"lengths={list(lengths)}: {error}") from error
        baselines[length] = task.baselines(length)
    return {
        "option": option,
        "summary": comment(path),
        "name": task.name,
        "definition": task.definition,
        "worked": [list(pair) for pair in task.worked],
        "answer_format": task.answer_format,
        "answer_symbols": list(task.answer_symbols),
        "symbols": list(task.symbols),
        "feature_dim": task.feature_dim,
        "symmetry": [task.symmetry.on_input, task.symmetry.on_answer],
        "evidence": task.evidence_meaning,
        "position_numbers": list(task.number_kinds),
        "source": task.source,
        "deviations": task.deviations,
        "prediction": task.prediction,
        "options": task.options,
        "of_this_machine": task.of_this_machine,
        "lengths": {"trained": trained, "tested": tested, "least": task.min_length, "most": task.max_length},
        "baselines": baselines,
    }


def markdown(cards: Sequence[dict[str, Any]]) -> str:
    """All cards as one page."""
    lines = [
        "# Tasks",
        "",
        "Made by `lengthwise tasks markdown=docs/tasks.md` from the classes themselves; `lengthwise tasks NAME` prints",
        "one card, `lengthwise show task=NAME length=N` its sequences. Lengths are input symbols. Baselines are token",
        "accuracies in % of rules that do not do the task, computed or measured, never guessed:",
        "",
        *(f"- `{name}`: {what}" for name, what in _BASELINES.items()),
        "",
        "What has a formula is exact. What is measured is fitted on one set of samples and scored on another, a lower",
        f"bound of the best rule of its kind; rules of the bag only up to {BAG_LENGTH} symbols, since longer bags",
        "hardly repeat. `window` is given where there is a formula. Best blind is the best of those that are given.",
        "",
        "| task | what | answer | source |",
        "|---|---|---|---|",
        *(
            f"| [{c['option']}](#{c['option']}) | {_cell(c['summary'])} | {c['answer_format']} | {_cell(c['source'])} |"
            for c in cards
        ),
    ]
    for one in cards:
        lines += ["", f"## {one['option']}", "", one["definition"], ""]
        facts, own = _facts(one), one["of_this_machine"]
        lines += [f"- {name}: {text}" for name, text in facts if not own or name not in _OF_THE_FILE]
        if own:
            figures = ", ".join((*_OF_THE_FILE, "baselines"))
            lines.append(f"- {figures}: those of the file, `lengthwise tasks {one['option']}`")
        if one["worked"]:
            lines += ["", "| input | answer |", "|---|---|"]
            lines += [f"| `{given}` | `{answer}` |" for given, answer in one["worked"]]
        if one["baselines"] and not own:
            names = [name for name in _BASELINES if any(name in row for row in one["baselines"].values())]
            lines += ["", f"| length | {' | '.join(names)} | best blind |", "|---" * (len(names) + 2) + "|"]
            for length, row in one["baselines"].items():
                cells = [_percent(row.get(name)) for name in names]
                lines.append(f"| {length} | {' | '.join(cells)} | {_percent(best_blind(row))} |")
    return "\n".join(lines) + "\n"


def _facts(one: dict[str, Any]) -> list[tuple[str, str]]:
    """What a card says in lines."""
    symbols = one["symbols"]
    inputs = f"vectors of {one['feature_dim']} numbers" if one["feature_dim"] else _some(symbols)
    least, most = one["lengths"]["least"], one["lengths"]["most"]
    trained, tested = format_lengths(one["lengths"]["trained"]), max(one["lengths"]["tested"])
    facts = [
        ("symbols", inputs),
        ("answer", f"{one['answer_format']}, of {_some(one['answer_symbols'])}"),
        ("lengths", f"from {least}{f' to {most}' if most else ''}; by default {trained}, tested to {tested}"),
        ("symmetry", f"({', '.join(one['symmetry'])}): the action on the input, that on the answer"),
        ("evidence", one["evidence"]),
        ("position numbers", ", ".join(one["position_numbers"])),
        ("options", ", ".join(f"{key}={value}" for key, value in one["options"].items())),
        ("generalises?", one["prediction"]),
        ("source", one["source"]),
        ("deviations", one["deviations"]),
    ]  # fmt: skip
    return [(name, text) for name, text in facts if text]


def _some(symbols: Sequence[str]) -> str:
    shown = " ".join(symbols) if len(symbols) <= 16 else f"{' '.join(symbols[:6])} … {symbols[-1]}"
    return f"{len(symbols)} ({shown})"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f}"


def _text(one: dict[str, Any]) -> str:
    width = min(shutil.get_terminal_size((100, 24)).columns, 110)

    def folded(label: str, text: str) -> str:
        return textwrap.fill(text, width, initial_indent=f"{label:<18}", subsequent_indent=" " * 18)

    lines = [one["option"], folded("", one["definition"])]
    lines += [folded(name, text) for name, text in _facts(one)]
    lines += [folded("example", f"{given}  →  {answer}") for given, answer in one["worked"]]
    for length, row in one["baselines"].items():
        known = ", ".join(f"{name} {_percent(value)}" for name, value in row.items())
        lines.append(folded(f"baselines at {length}", known))
    return "\n".join(lines)


def _print_list(cards: Sequence[dict[str, Any]]) -> None:
    console = Console(width=None if Console().is_terminal else 140, highlight=False)
    table = Table(box=None, pad_edge=False)
    for name in ("task", "answer", "what"):
        table.add_column(name, no_wrap=name != "what")
    for one in cards:
        table.add_row(one["option"], one["answer_format"], one["summary"])
    console.print(table)
    console.print("\nlengthwise tasks NAME: its card.  lengthwise show task=NAME length=N: its sequences.")
