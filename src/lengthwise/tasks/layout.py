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

    An encoder has as many slots as the longest answer to its input's length needs. Where answers vary, that and one
    more: the targets are then the answer, EOS, and the first answer symbol in every slot behind.

Decoders are taught by forcing: the logits at a position predict the next symbol, except per_token, where they answer
for the input at that very position. Every sample's own symbols are packed without gaps; pads follow at the end.

Positions are numbered by a rule of the slot `positions`. A batch that carries numbers is as wide as the longest answer
to its inputs could make it, so that decoding never runs out of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from lengthwise.batch import IGNORE, Batch
from lengthwise.keyed import Key
from lengthwise.positions import Positions, Sequential
from lengthwise.tasks.contract import ANSWER_FORMATS, Examples, Task
from lengthwise.tasks.numbering import numbered
from lengthwise.tasks.rows import first, place
from lengthwise.tasks.vocabulary import Vocabulary

SHAPES = ("encoder", "decoder", "encoder_decoder")
READOUTS = ("front", "end", "mean")


class Layout:
    """Lays the examples of one task out for one model shape.

    readout says where a single answer is read. Only an encoder has the choice; a decoder reads at the end. "end" is
    accepted everywhere, as the default; `layout.readout` is None where nothing is read from one place.

    rule: numbers the positions in training; test_rule: in the test, ``rule.in_test()`` unless another is given.

    input_start:    position of the first input symbol (in `batch.source` for an encoder_decoder).
    autoregressive: earlier answer symbols are inputs, so that decoding has to go symbol by symbol.
    ends:           the answer closes with an end symbol, which is scored too.

    Raises ValueError for an unknown or impossible choice.
    """

    def __init__(
        self,
        task: Task,
        shape: str = "encoder",
        readout: str = "end",
        rule: Positions | None = None,
        test_rule: Positions | None = None,
    ) -> None:
        if shape not in SHAPES:
            raise ValueError(f"shape={shape!r} is unknown; use one of {', '.join(SHAPES)}")
        if readout not in READOUTS:
            raise ValueError(f"readout={readout!r} is unknown; use one of {', '.join(READOUTS)}")
        if task.answer_format not in ANSWER_FORMATS:
            raise ValueError(
                f"task {task.name}: answer_format={task.answer_format!r} is not one of {ANSWER_FORMATS}"
            )
        self.task, self.shape = task, shape
        self.rule = rule or Sequential()
        self.test_rule = (test_rule or self.rule).in_test()
        for one in (self.rule, self.test_rule):
            _check_supplied(task, one)
        self.readout = _resolve_readout(task, shape, readout)
        self.vocabulary = Vocabulary(task.symbols)
        single = task.answer_format == "label"
        aligned = task.answer_format == "per_token" and (
            shape == "encoder" or (shape == "decoder" and task.causal)
        )
        self.ends = shape != "encoder" and not single and not aligned
        self.autoregressive = self.ends
        self._aligned = aligned
        if task.causal_only and shape != "decoder":
            raise ValueError(
                f"task {task.name} has its answers among the inputs that follow, which a model of shape {shape} sees: "
                f"use shape decoder"
            )
        if task.partly_scored and not aligned:
            raise ValueError(
                f"task {task.name} scores some places only, which a model of shape {shape} would have to answer in "
                f"turn: use shape encoder" + (" or decoder" if task.causal else "")
            )
        self._has_separator = shape == "decoder" and not aligned
        self._has_slots = shape == "encoder" and not aligned and self.readout in ("end", None)
        self._answer_follows = self._has_slots or self.autoregressive
        self._closes_slots = self._has_slots and task.variable_answers
        self.input_start = 1 if shape == "decoder" or self.readout == "front" else 0

    def positions(self, length: int) -> tuple[int, ...]:
        """Positions that a model sees for `length` input symbols; of an encoder_decoder (source, target)."""
        answer = self.task.answer_length(length)
        if self.shape == "encoder_decoder":
            return length, 1 + answer * self.autoregressive
        return (self._positions(length, answer),)

    def spans(self, length: int, *, training: bool = False) -> tuple[int, ...]:
        """As `positions`, the numbers that these positions may have: all lie below."""
        rule = self.rule if training else self.test_rule
        highest = self.task.highest_number(length, rule.kind) if rule.supplied else None
        return tuple(rule.span(count, highest) for count in self.positions(length))

    def check_numbers(self, length: int, *, training: bool = False) -> None:
        """Raises ValueError where there are too few numbers for sequences of `length` input symbols."""
        rule = self.rule if training else self.test_rule
        for count in self.positions(length):
            rule.check(count)

    def _positions(self, lengths: Any, counts: Any) -> Any:
        """Positions of an encoder or a decoder for `lengths` input and `counts` answer symbols."""
        answer = counts * self._answer_follows + self._closes_slots
        return lengths + self.input_start + self._has_separator + answer

    def answer_start(self, lengths: np.ndarray) -> np.ndarray | None:
        """(B,) position of the answer's first symbol or slot, of an encoder_decoder in the target; None where there is
        none."""
        if not self._answer_follows:
            return None
        if self.shape == "encoder_decoder":
            return np.ones_like(lengths)
        return self.input_start + lengths + self._has_separator

    def scored_start(self, lengths: np.ndarray) -> np.ndarray:
        """(B,) first scored position (0 for readout mean); the answer's k-th symbol is scored at start + k."""
        zeros = np.zeros_like(lengths)
        if self.shape == "encoder_decoder" or self.readout in ("front", "mean"):
            return zeros
        if self._aligned:
            return zeros + self.input_start
        return lengths + self.input_start  # the separator, or the slots right behind the input

    def __call__(self, examples: Examples, *key: Key) -> Batch:
        """The batch of `examples` as the test sees it; numbers that the rule draws are named by `key` (and by the task)
        alone."""
        return numbered(self, self._laid_out(examples), examples, self.test_rule, key)

    def training_batch(self, examples: Examples, *key: Key) -> Batch:
        """The batch of `examples` as training sees it; `key` names what is drawn, and so must be new at each step."""
        return numbered(self, self._laid_out(examples), examples, self.rule, key)

    def _laid_out(self, examples: Examples) -> Batch:
        """As wide as the longest sample needs, positions not numbered."""
        lengths, counts = examples.lengths, self._slots(examples)
        source = None
        if self.shape == "encoder_decoder":
            source = self._source(examples)
            tokens, features = self._decoder_tokens(examples), None
            total = 1 + counts * self.autoregressive
        else:
            total = self._positions(lengths, counts)
            tokens, features = self._inputs(examples, self.input_start, int(total.max()))
            self._fill_in(tokens, examples, counts)
        return Batch(
            tokens=torch.from_numpy(tokens),
            key_mask=torch.from_numpy(first(total, tokens.shape[1])),
            targets=torch.from_numpy(self._targets(examples, tokens.shape[1])),
            lengths=torch.from_numpy(lengths.copy()),
            features=features,
            source=source,
            evidence=torch.from_numpy(examples.evidence.copy()),
        )

    def _source(self, examples: Examples) -> Batch:
        """The input symbols alone, nothing scored."""
        width = int(examples.lengths.max())
        tokens, features = self._inputs(examples, 0, width)
        return Batch(
            tokens=torch.from_numpy(tokens),
            key_mask=torch.from_numpy(first(examples.lengths, width)),
            targets=torch.full(tokens.shape, IGNORE),
            lengths=torch.from_numpy(examples.lengths.copy()),
            features=features,
        )

    def _inputs(self, examples: Examples, start: int, width: int) -> tuple[np.ndarray, torch.Tensor | None]:
        """(B, width) tokens, the input symbols from position `start` and pads, and the inputs' features likewise."""
        longest = int(examples.lengths.max())
        real, here = first(examples.lengths, longest), slice(start, start + longest)
        tokens = np.full((len(examples), width), self.vocabulary.pad, dtype=np.int64)
        features = None
        symbols: Any = examples.inputs[:, :longest]
        if examples.features is not None:
            symbols = self.vocabulary.patch
            numbers = np.zeros((*tokens.shape, examples.features.shape[2]), dtype=np.float32)
            numbers[:, here] = examples.features[:, :longest] * real[..., None]
            features = torch.from_numpy(numbers)
        tokens[:, here] = np.where(real, symbols, self.vocabulary.pad)
        return tokens, features

    def _slots(self, examples: Examples) -> np.ndarray:
        """(B,) answer symbols that there is room for."""
        if not self._closes_slots:
            return examples.answer_lengths
        lengths, which = np.unique(examples.lengths, return_inverse=True)
        return np.array([self.task.answer_length(int(length)) for length in lengths])[which]

    def _fill_in(self, tokens: np.ndarray, examples: Examples, counts: np.ndarray) -> None:
        """Everything beside the input: BOS, SEP and the answer, or slots for `counts` (B,) symbols."""
        behind = examples.lengths + self.input_start
        if self.shape == "decoder":
            tokens[:, 0] = self.vocabulary.bos
        elif self.readout == "front":
            tokens[:, 0] = self.vocabulary.slot
        elif self._has_slots:
            slots = counts + self._closes_slots
            place(tokens, behind, np.full((len(tokens), slots.max()), self.vocabulary.slot), slots)
        if self._has_separator:
            tokens[np.arange(len(tokens)), behind] = self.vocabulary.sep
        if self.autoregressive:
            place(tokens, behind + 1, examples.answers, examples.answer_lengths)

    def _decoder_tokens(self, examples: Examples) -> np.ndarray:
        counts = examples.answer_lengths * self.autoregressive
        tokens = np.full((len(examples), 1 + int(counts.max())), self.vocabulary.pad, dtype=np.int64)
        tokens[:, 0] = self.vocabulary.bos
        place(tokens, np.ones_like(counts), examples.answers, counts)
        return tokens

    def _targets(self, examples: Examples, width: int) -> np.ndarray:
        if self.readout == "mean":
            return examples.answers.copy()
        targets = np.full((len(examples), width), IGNORE, dtype=np.int64)
        starts = self.scored_start(examples.lengths)
        if self._closes_slots:
            slots = self._slots(examples) + 1
            place(targets, starts, np.full((len(targets), slots.max()), self.task.answer_ids[0]), slots)
        place(targets, starts, examples.answers, examples.answer_lengths)
        if self.ends or self._closes_slots:
            targets[np.arange(len(targets)), starts + examples.answer_lengths] = self.vocabulary.eos
        return targets


def _check_supplied(task: Task, rule: Positions) -> None:
    """Raises ValueError where `rule` wants numbers that the task does not have."""
    if rule.supplied and rule.kind not in task.number_kinds:
        has = ", ".join(task.number_kinds)
        raise ValueError(
            f"task {task.name} gives no position numbers of the kind {rule.kind!r}"
            + (f"; it has {has}" if has else " at all; use another option of the slot positions")
        )


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
