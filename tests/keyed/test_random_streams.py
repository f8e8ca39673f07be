"""Random streams are functions of their whole key, and never change."""

from __future__ import annotations

import numpy as np
import pytest

from lengthwise.keyed import digest, philox, seed63


def test_golden_streams() -> None:
    """A change here changes every draw of every run."""
    assert digest("batch", "train", 0, 1).hex() == "95bf0d47f9bc438e4918942d870ea854"
    assert philox("batch", "train", 0, 1).integers(0, 1000, 4).tolist() == [790, 744, 438, 564]
    assert seed63("dropout", 0, 1, 0, 0) == 9167145431393994407


def test_all_128_bits_of_a_key_reach_the_generator() -> None:
    for name in ("a", "b", "c"):
        low, high = philox(name).bit_generator.state["state"]["key"]
        assert int(low) | int(high) << 64 == int.from_bytes(digest(name), "little")
    tops = {int(philox(step).bit_generator.state["state"]["key"][1]) for step in range(50)}
    assert len(tops) == 50


def test_what_is_different_has_another_stream() -> None:
    keys = [
        ("a", 1),
        ("a", "1"),
        ("a", True),
        ("a", 1.5),
        ("a", None),
        ("a", [1]),
        ("a1",),
        (1, "a"),
        (["a", 1],),
        (),
    ]
    keys += [("a", 1 + 2**32), ("a", 1 + 2**64), ("a", {"x": 1, "y": 2}), ("a", {"x": 2, "y": 1})]
    assert len({digest(*key) for key in keys}) == len(keys)
    assert digest({"x": 1, "y": 2}) == digest({"y": 2, "x": 1})
    assert digest(("a", 1)) == digest(["a", 1])


def test_a_stream_does_not_depend_on_another_one() -> None:
    first = philox("a").random(5)
    philox("b").random(100)
    assert np.array_equal(philox("a").random(5), first)


def test_seeds_fill_63_bits() -> None:
    seeds = [seed63("any", step) for step in range(200)]
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert max(seeds) > 2**62 and len({seed % 2**31 for seed in seeds}) == 200


def test_what_json_does_not_hold_is_refused() -> None:
    with pytest.raises(TypeError):
        philox("a", object())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="float"):
        philox("a", float("nan"))
