"""Commands into actions, split by how many actions they ask for."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np

from lengthwise.keyed import philox
from lengthwise.tasks.contract import Examples, Symmetry, Task, no_evidence
from lengthwise.tasks.scan_grammar import ACTIONS, WORDS, commands

HELD_OUT = 0.1
"""Share of the short commands that is kept from training, to validate on and to test."""

SHORT = "short"
"""The stratum of held-out commands of the trained numbers of actions."""


class Scan(Task):
    """Task card: scan."""

    name = "scan"
    answer_format = "sequence"
    variable_answers = True
    definition = (
        "The 20910 commands of SCAN, of 1 to 9 words, each with its 1 to 48 actions (the grammar: "
        "tasks/scan_grammar.py). Trained are commands of at most `longest` actions, but for a tenth of them "
        "(by a fixed draw): half of that is validated on, half is tested as short; tested besides are those of "
        "more actions, each once. With longest=25: 15997, 889, 888 and 3136 commands. A length here is a number "
        "of *words*, as of any task; what is short or long in the split is the number of actions. Only commands "
        "of 7 or more words have more than 25 actions: there all that is tested is longer than what was trained, "
        "and the stratum `short` has the held-out commands of up to 25; at fewer words the test takes the "
        "held-out commands, or where there are none the trained ones (the column train_overlap shows it). Over "
        "all long commands exact match is the mean over 7, 8 and 9 words, weighted by their numbers."
    )
    worked = (
        ("jump", "I_JUMP"),
        ("walk opposite left twice", "I_TURN_LEFT I_TURN_LEFT I_WALK I_TURN_LEFT I_TURN_LEFT I_WALK"),
        ("run after turn right", "I_TURN_RIGHT I_RUN"),
    )
    symmetry = Symmetry(
        "exchange of left and right, or of two of walk, look, run, jump", "exchange of their actions"
    )
    evidence_meaning = "none: spread over the command"
    source = (
        "Lake & Baroni 2018, Generalization without systematicity; split at 25 actions: Kazemnejad et al. "
        "2023, The impact of positional encoding on length generalization in transformers"
    )
    deviations = (
        "longest=22 has the commands of the original length split (16990 and 3920), whose training set holds "
        "nothing out: here a tenth of it is validated on. Which tenth is ours. Commands are spread evenly "
        "over their numbers of words in training, not over all of them"
    )
    prediction = "Measured: sequence models trained on short commands fail at long ones (Lake & Baroni 2018)"
    min_length, max_length = 1, 9

    def __init__(self, *, longest: int = 25) -> None:
        self.longest = self.integer_option("longest", longest, 8, 47)
        self.answer_symbols = ACTIONS
        self.symbols = (*ACTIONS, *WORDS)

    def answer_length(self, length: int) -> int:
        return int(_tables().answer_lengths[_tables().lengths == length].max())

    def sample(self, lengths: np.ndarray, generator: np.random.Generator, split: str) -> Examples:
        pool, starts = _pool(self.longest, split)
        counts = np.diff(starts)[lengths]
        index = pool[starts[lengths] + generator.integers(0, counts)]
        drawn = _tables().rows(index)
        width = max(self.answer_length(int(length)) for length in np.unique(lengths))
        return replace(drawn, inputs=drawn.inputs[:, : lengths.max()], answers=drawn.answers[:, :width])

    def whole_test(self, length: int) -> dict[str, Examples]:
        """All commands of `length` words, each once; under SHORT those held out that are as short as the trained."""
        tested, held_out = self._commands("test", length), self._commands(SHORT, length)
        is_long = not self.tests_what_is_trained(length)
        return {"all": tested, SHORT: held_out} if is_long and len(held_out) else {"all": tested}

    def tests_what_is_trained(self, length: int) -> bool:
        return not (self._commands("test", length).answer_lengths > self.longest).any()

    def _commands(self, split: str, length: int) -> Examples:
        pool, starts = _pool(self.longest, split)
        return _tables().rows(pool[starts[length] : starts[length + 1]])

    def baselines(self, length: int) -> dict[str, float]:
        """The best rules for the commands that are tested at this number of words."""
        items = self._commands("test", length)
        place = np.broadcast_to(np.arange(items.answers.shape[1]), items.answers.shape)
        there = place < items.answer_lengths[:, None]
        before = np.concatenate([np.zeros((len(items), 1), np.int64), 1 + items.answers[:, :-1]], axis=1)
        return {
            "uniform": 1.0 / len(ACTIONS),
            "position_only": _best(place[there], items.answers[there]),
            "previous_only": _best((place * 7 + before)[there], items.answers[there]),
        }


def _best(cues: np.ndarray, answers: np.ndarray) -> float:
    """Share of the answers that are the commonest one of their cue."""
    counts = np.zeros((cues.max() + 1, len(ACTIONS)))
    np.add.at(counts, (cues, answers), 1)
    return float(counts.max(axis=1).sum() / len(answers))


@lru_cache(maxsize=1)
def _tables() -> Examples:
    """All commands, in the grammar's order."""
    ids = {symbol: i for i, symbol in enumerate((*ACTIONS, *WORDS))}
    pairs = commands()
    lengths = np.array([len(words) for words in pairs])
    counts = np.array([len(actions) for actions in pairs.values()])
    inputs = np.zeros((len(pairs), lengths.max()), dtype=np.int64)
    answers = np.zeros((len(pairs), counts.max()), dtype=np.int64)
    for row, (words, actions) in enumerate(pairs.items()):
        inputs[row, : len(words)] = [ids[word] for word in words]
        answers[row, : len(actions)] = [ids[action] for action in actions]
    return Examples(inputs, lengths, answers, counts, no_evidence(lengths))


def split_commands(longest: int) -> dict[str, np.ndarray]:
    """Which commands are trained, validated on and tested (SHORT: of up to `longest` actions; test: of more), as places
    in the grammar's order: no command in two."""
    actions = _tables().answer_lengths
    short = philox("scan", "split", longest).permutation(np.flatnonzero(actions <= longest))
    held_out = round(HELD_OUT * len(short))
    half = (held_out + 1) // 2
    return {
        "train": short[held_out:],
        "val": short[:half],
        SHORT: short[half:held_out],
        "test": np.flatnonzero(actions > longest),
    }


@lru_cache(maxsize=16)
def _pool(longest: int, split: str) -> tuple[np.ndarray, np.ndarray]:
    """(places of the commands that `split` draws from, ordered by words; where each number of words begins, 0…10)."""
    parts = split_commands(longest)
    lengths = _tables().lengths
    order = {"train": ("train",), "val": ("val", "train"), "test": ("test", SHORT, "train"), SHORT: (SHORT,)}[
        split
    ]
    chosen, starts = [], [0, 0]
    for words in range(1, 10):
        pools = [parts[part][lengths[parts[part]] == words] for part in order]
        found = next((pool for pool in pools if len(pool)), pools[-1])
        chosen.append(philox("scan", "order", longest, split, words).permutation(found))
        starts.append(starts[-1] + len(found))
    return np.concatenate(chosen), np.array(starts)
