"""From examples to what a model of each shape is given.

    x = input symbols, y = answer symbols, _ = answer slot, . = pad; ^ marks the positions that are scored.

    encoder          label, front   _ x x x          label, end   x x x _        label, mean   x x x  (one answer)
                                    ^                                   ^
                     per_token      x x x            sequence     x x x _ _ _
                                    ^ ^ ^                               ^ ^ ^
    decoder          label          BOS x x x SEP    sequence     BOS x x x SEP y y y     (-> y y y EOS)
                                              ^                             ^   ^ ^ ^
                     per_token      BOS x x x        if causal, otherwise as a sequence
                                        ^ ^ ^
    encoder_decoder  label          BOS (-> y)       otherwise    BOS y y y (-> y y y EOS);   x x x is the source

Decoders are taught by forcing: the logits at a position predict the next symbol, except per_token, where they answer
for the input at that very position. Every sample's own symbols are packed without gaps; pads follow at the end.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from lengthwise.batch import IGNORE, Batch
from lengthwise.tasks.contract import ANSWER_FORMATS, Examples, Task
from lengthwise.tasks.vocabulary import Vocabulary

SHAPES = ("encoder", "decoder", "encoder_decoder")
READOUTS = ("front", "end", "mean")


class Layout:
    """Lays the examples of one task out for one model shape.

    readout says where a single answer is read. Only an encoder has the choice; a decoder reads at the end. "end" is
    accepted everywhere, as the default; `layout.readout` is None where nothing is read from one place.

    input_start:    position of the first input symbol (in `batch.source` for an encoder_decoder).
    autoregressive: earlier answer symbols are inputs, so that decoding has to go symbol by symbol.
    ends:           the answer closes with an end symbol, which is scored too.

    Raises ValueError for an unknown or impossible choice.
    """

    def __init__(self, task: Task, shape: str = "encoder", readout: str = "end") -> None:
        if shape not in SHAPES:
            raise ValueError(f"shape={shape!r} is unknown; use one of {', '.join(SHAPES)}")
        if readout not in READOUTS:
            raise ValueError(f"readout={readout!r} is unknown; use one of {', '.join(READOUTS)}")
        if task.answer_format not in ANSWER_FORMATS:
            raise ValueError(
                f"task {task.name}: answer_format={task.answer_format!r} is not one of {ANSWER_FORMATS}"
            )
        self.task, self.shape = task, shape
        self.readout = _resolve_readout(task, shape, readout)
        self.vocabulary = Vocabulary(task.symbols)
        single = task.answer_format == "label"
        aligned = task.answer_format == "per_token" and (
            shape == "encoder" or (shape == "decoder" and task.causal)
        )
        self.ends = shape != "encoder" and not single and not aligned
        self.autoregressive = self.ends
        self._aligned = aligned
        self._has_separator = shape == "decoder" and not aligned
        self._has_slots = shape == "encoder" and not aligned and self.readout in ("end", None)
        self._answer_follows = self._has_slots or self.autoregressive
        self.input_start = 1 if shape == "decoder" or self.readout == "front" else 0

    def positions(self, length: int) -> tuple[int, ...]:
        """Positions that a model sees for `length` input symbols; of an encoder_decoder (source, target)."""
        answer = self.task.answer_length(length)
        if self.shape == "encoder_decoder":
            return length, 1 + answer * self.autoregressive
        return (self._positions(length, answer),)

    def _positions(self, lengths: Any, counts: Any) -> Any:
        """Positions of an encoder or a decoder for `lengths` input and `counts` answer symbols."""
        return lengths + self.input_start + self._has_separator + counts * self._answer_follows

    def scored_start(self, lengths: np.ndarray) -> np.ndarray:
        """(B,) first scored position (0 for readout mean); the answer's k-th symbol is scored at start + k."""
        zeros = np.zeros_like(lengths)
        if self.shape == "encoder_decoder" or self.readout in ("front", "mean"):
            return zeros
        if self._aligned:
            return zeros + self.input_start
        return lengths + self.input_start  # the separator, or the slots right behind the input

    def __call__(self, examples: Examples) -> Batch:
        """The batch of `examples`, as wide as its longest sample needs."""
        lengths, counts = examples.lengths, examples.answer_lengths
        source = None
        if self.shape == "encoder_decoder":
            source = self._inputs(examples, start=0, total=lengths)
            tokens, features = self._decoder_tokens(examples), None
            total = 1 + counts * self.autoregressive
        else:
            total = self._positions(lengths, counts)
            batch = self._inputs(examples, start=self.input_start, total=total)
            tokens, features = batch.tokens.numpy(), batch.features
            self._fill_in(tokens, examples)
        return Batch(
            tokens=torch.from_numpy(tokens),
            key_mask=torch.from_numpy(_first(total, tokens.shape[1])),
            targets=torch.from_numpy(self._targets(examples, tokens.shape[1])),
            lengths=torch.from_numpy(lengths.copy()),
            features=features,
            source=source,
            evidence=torch.from_numpy(examples.evidence.copy()),
        )

    def _inputs(self, examples: Examples, start: int, total: np.ndarray) -> Batch:
        """The input symbols from position `start` in rows of `total` (B,) real positions; nothing scored."""
        lengths, width = examples.lengths, int(total.max())
        tokens = np.full((len(examples), width), self.vocabulary.pad, dtype=np.int64)
        starts = np.full_like(lengths, start)
        features = None
        if examples.features is None:
            _place(tokens, starts, examples.inputs, lengths)
        else:
            _place(tokens, starts, np.full_like(examples.inputs, self.vocabulary.patch), lengths)
            numbers = np.zeros((*tokens.shape, examples.features.shape[2]), dtype=np.float32)
            _place(numbers, starts, examples.features, lengths)
            features = torch.from_numpy(numbers)
        return Batch(
            tokens=torch.from_numpy(tokens),
            key_mask=torch.from_numpy(_first(total, width)),
            targets=torch.full(tokens.shape, IGNORE),
            lengths=torch.from_numpy(lengths.copy()),
            features=features,
        )

    def _fill_in(self, tokens: np.ndarray, examples: Examples) -> None:
        """Everything beside the input: BOS, SEP and the answer, or slots."""
        behind = examples.lengths + self.input_start
        if self.shape == "decoder":
            tokens[:, 0] = self.vocabulary.bos
        elif self.readout == "front":
            tokens[:, 0] = self.vocabulary.slot
        elif self._has_slots:
            _place(
                tokens, behind, np.full_like(examples.answers, self.vocabulary.slot), examples.answer_lengths
            )
        if self._has_separator:
            tokens[np.arange(len(tokens)), behind] = self.vocabulary.sep
        if self.autoregressive:
            _place(tokens, behind + 1, examples.answers, examples.answer_lengths)

    def _decoder_tokens(self, examples: Examples) -> np.ndarray:
        counts = examples.answer_lengths * self.autoregressive
        tokens = np.full((len(examples), 1 + int(counts.max())), self.vocabulary.pad, dtype=np.int64)
        tokens[:, 0] = self.vocabulary.bos
        _place(tokens, np.ones_like(counts), examples.answers, counts)
        return tokens

    def _targets(self, examples: Examples, width: int) -> np.ndarray:
        if self.readout == "mean":
            return examples.answers.copy()
        targets = np.full((len(examples), width), IGNORE, dtype=np.int64)
        starts = self.scored_start(examples.lengths)
        _place(targets, starts, examples.answers, examples.answer_lengths)
        if self.ends:
            targets[np.arange(len(targets)), starts + examples.answer_lengths] = self.vocabulary.eos
        return targets


def _resolve_readout(task: Task, shape: str, readout: str) -> str | None:
    choice = f"readout={readout} is not possible for task {task.name} with a model of shape {shape}"
    if task.answer_format != "label":
        if readout != "end":
            raise ValueError(
                f"{choice}: its answers are read at positions of their own; use readout=end (the default), "
                "or a task with a single answer"
            )
        return None
    if shape == "decoder" and readout != "end":
        reason = (
            "has seen nothing at the front" if readout == "front" else "has not seen all in most positions"
        )
        raise ValueError(f"{choice}: a causal model {reason}; use readout=end, or shape encoder")
    if shape == "encoder_decoder":
        if readout != "end":
            raise ValueError(
                f"{choice}: its decoder side gives the answer at BOS; use readout=end (the default), or shape encoder"
            )
        return None
    return readout


def _first(counts: np.ndarray, width: int) -> np.ndarray:
    """(B, width) bool, True at the first counts[b] places of row b."""
    return np.arange(width)[None, :] < counts[:, None]


def _place(rows: np.ndarray, starts: np.ndarray, values: np.ndarray, counts: np.ndarray) -> None:
    """rows[b, starts[b] + k] = values[b, k] for k < counts[b]."""
    b, k = np.nonzero(_first(counts, values.shape[1]))
    rows[b, starts[b] + k] = values[b, k]
