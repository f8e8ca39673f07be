"""Symbols and their ids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

SPECIALS = ("pad", "bos", "sep", "eos", "slot", "patch")


class Vocabulary:
    """The task's symbols as ids 0…S-1, then the special ones, which are always all there.

    So V = S + 6 is the same for encoder, decoder and encoder-decoder, and so are their embedding tables.
    pad fills up, bos starts, sep ends the input, eos ends the answer, slot is a place to read an answer from,
    patch holds a feature vector.

    Raises ValueError for no, doubled or special names.
    """

    pad: int
    bos: int
    sep: int
    eos: int
    slot: int
    patch: int

    def __init__(self, symbols: Sequence[str]) -> None:
        symbols = tuple(symbols)
        names = symbols + tuple(f"<{special}>" for special in SPECIALS)
        doubled = sorted(name for name, count in Counter(names).items() if count > 1)
        if not symbols or doubled:
            reason = f"symbols {doubled} appear twice" if doubled else "there are no symbols"
            raise ValueError(
                f"vocabulary: {reason}; give different names, none of them {names[-len(SPECIALS) :]}"
            )
        self.symbols = symbols
        self.names = names
        for place, special in enumerate(SPECIALS):
            setattr(self, special, len(symbols) + place)

    def __len__(self) -> int:
        return len(self.names)

    def decode(self, ids: Iterable[int]) -> str:
        """Names with spaces between; ids that are no symbol (such as IGNORE) as a dot."""
        return " ".join(self.names[i] if 0 <= i < len(self) else "·" for i in map(int, ids))
