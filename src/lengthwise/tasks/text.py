"""Language modelling of a text, symbol by symbol."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from lengthwise.batch import IGNORE
from lengthwise.runs.lengths import SLIDING
from lengthwise.tasks.contract import SPLITS, Examples, Symmetry, Task, no_evidence, real_places
from lengthwise.texts import other_text, read_text, text_digest

UNITS = ("characters", "bytes")
UNKNOWN = "<unknown>"
"""Stands for every character that the training part does not have."""

_FITTED = 2**20
"""Training symbols, at most, that the baselines are fitted on."""


class Text(Task):
    """Task card: text."""

    name = "text"
    answer_format = "per_token"
    symmetry = Symmetry("none", "none")
    evidence_meaning = "none: all that stands before may count"
    causal = True
    causal_only = True
    of_this_machine = True
    partly_scored = True
    source = "a text of one's own; sliding windows as in Press et al. 2022, Train short, test long"
    deviations = (
        "not a published data set: the default text is CPython's documentation, which differs between Python versions; "
        "a character that the training part lacks is the symbol <unknown>, scored though training never shows it"
    )
    definition = (
        "A window of `length` consecutive symbols of a text -> at each place the symbol that follows it in the text. "
        "Symbols are the text's characters or its bytes. The text is cut into three parts, one after the other: "
        "training, validation and test, the latter two a share `held_out` of it each. Training windows start at any "
        "place of their part. The test covers its part with blocks of `length` symbols that follow one another, so "
        "that the k-th answer of a block has k symbols of context; and again with windows that start `stride` symbols "
        "apart (null: half a window), of which the last `stride` answers alone are scored: each has more than "
        "length - stride symbols."
    )
    worked: ClassVar[tuple[tuple[str, str], ...]] = (
        ("t o ␣ b e", "o ␣ b e ␣"),
        ("o r ␣ n o t ␣ t", "r ␣ n o t ␣ t o"),
        ("n \\n", "\\n T"),
    )
    prediction = (
        "Press et al. 2022 (Train short, test long): in blocks the loss falls with length already because a smaller "
        "share of the symbols has little context; in sliding windows, where none has, an encoding that only "
        "extrapolates stays level."
    )

    def __init__(
        self,
        *,
        file: str | None = None,
        digest: str | None = None,
        unit: str = "characters",
        held_out: float = 0.05,
        stride: int | None = None,
        test_symbols: int | None = 32768,
    ) -> None:
        if unit not in UNITS:
            raise ValueError(f"task text: unit={unit!r} is not possible; use one of {', '.join(UNITS)}")
        if isinstance(held_out, bool) or not isinstance(held_out, int | float) or not 0 < held_out < 0.5:
            raise ValueError(
                f"task text: held_out={held_out!r} is not possible; use a share above 0 and below 0.5"
            )
        self.file, self.unit, self.held_out = file, unit, float(held_out)
        self.stride = None if stride is None else self.integer_option("stride", stride, 1, 10**9)
        self.test_symbols = (
            None if test_symbols is None else self.integer_option("test_symbols", test_symbols, 1, 10**12)
        )
        try:
            data = read_text(file)
        except ValueError as error:
            raise ValueError(f"task text: {error}") from error
        self.digest = text_digest(data)
        if digest is not None and digest != self.digest:
            raise ValueError(f"task text: {other_text(file, digest)}")
        self._read(data)

    def _read(self, data: bytes) -> None:
        whole = _units(data, self.unit, self.file)
        size = int(len(whole) * self.held_out)
        cuts = [len(whole) - 2 * size, len(whole) - size]
        names, ids = (_bytes if self.unit == "bytes" else _characters)(whole, cuts[0])
        self.symbols = self.answer_symbols = names
        train, val, test = np.split(ids, cuts)
        if self.test_symbols is not None:
            test = test[: self.test_symbols + 1]
        self._parts = dict(zip(SPLITS, (train, val, test), strict=True))
        self.max_length = min(len(part) for part in self._parts.values()) - 1
        if self.max_length < 1:
            raise ValueError(
                f"task text: the text has {len(whole)} {self.unit}, too few for a test part of at least 2 at "
                f"held_out={self.held_out:g}; name a longer file, or a larger share"
            )

    @property
    def identity(self) -> dict[str, Any]:
        """By the text's digest, not by where it lies."""
        return {name: value for name, value in super().identity.items() if name != "file"}

    def sample(self, lengths: np.ndarray, generator: np.random.Generator, split: str) -> Examples:
        starts = generator.integers(0, len(self._parts[split]) - lengths)
        return self._windows(split, starts, lengths)

    def _windows(self, split: str, starts: np.ndarray, lengths: np.ndarray) -> Examples:
        part, real = self._parts[split], real_places(lengths)
        places = starts[:, None] + np.arange(real.shape[1] + 1)
        taken = part[np.minimum(places, len(part) - 1)].astype(np.int64)
        return Examples(taken[:, :-1] * real, lengths, taken[:, 1:] * real, lengths, no_evidence(lengths))

    def whole_test(self, length: int) -> dict[str, Examples]:
        stride = min(length, self.stride or max(1, length // 2))
        windows = self._test_windows(length, stride)
        windows.answers[:, : length - stride] = IGNORE
        return {"all": self._test_windows(length, length), SLIDING: windows}

    def _test_windows(self, length: int, step: int) -> Examples:
        starts = np.arange(0, len(self._parts["test"]) - length, step)
        return self._windows("test", starts, np.full_like(starts, length))

    def baselines(self, length: int) -> dict[str, float]:
        """As measured on the test part by what is most frequent in the training part (its first 2^20 symbols):
        position_only of all symbols, token_only of those that follow the same symbol."""
        if not hasattr(self, "_measured"):
            self._measured = _baselines(self._parts["train"][:_FITTED], self._parts["test"])
        return {"uniform": 1.0 / len(self.symbols), **self._measured}


def _units(data: bytes, unit: str, file: str | None) -> np.ndarray:
    """The text as numbers: bytes, or Unicode code points."""
    if unit == "bytes":
        return np.frombuffer(data, dtype=np.uint8)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"task text: file={file} is not UTF-8 (byte {error.start}); use unit=bytes, or convert it"
        ) from error
    return np.frombuffer(text.encode("utf-32-le"), dtype="<u4")


def _bytes(whole: np.ndarray, train: int) -> tuple[tuple[str, ...], np.ndarray]:
    return tuple(_name(code) if code < 128 else f"\\x{code:02x}" for code in range(256)), whole


def _characters(whole: np.ndarray, train: int) -> tuple[tuple[str, ...], np.ndarray]:
    """Names of the characters of the training part, by code point, and the whole text as their numbers."""
    known = np.unique(whole[:train])
    names = (*(_name(int(code)) for code in known), UNKNOWN)
    place = np.searchsorted(known, whole).clip(max=max(len(known) - 1, 0))
    ids = np.where(known[place] == whole, place, len(known)) if len(known) else np.zeros(len(whole))
    return names, ids.astype(np.min_scalar_type(len(names)))


def _name(code: int) -> str:
    """A printable name without a space; no two characters share one."""
    character = chr(code)
    if character == " ":
        return "␣"
    if character.isprintable() and character not in "␣\\":
        return character
    return character.encode("unicode_escape").decode() if character != "␣" else "\\u2423"


def _baselines(train: np.ndarray, test: np.ndarray) -> dict[str, float]:
    usual = np.bincount(train).argmax()
    names = int(max(train.max(), test.max())) + 1
    pairs, counts = np.unique(train[:-1].astype(np.int64) * names + train[1:], return_counts=True)
    order = np.lexsort((counts, pairs // names))
    follower = np.full(names, usual)
    follower[pairs[order] // names] = pairs[order] % names  # the last one written, the most frequent, stays
    before, right = test[:-1], test[1:]
    return {
        "position_only": float((right == usual).mean()),
        "token_only": float((right == follower[before]).mean()),
    }
