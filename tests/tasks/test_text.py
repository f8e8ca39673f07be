"""The text task against the text itself, read symbol by symbol."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pydoc_data.topics import topics

import numpy as np
import pytest
from scipy.stats import chisquare

from lengthwise.batch import IGNORE
from lengthwise.keyed import philox
from lengthwise.tasks import Layout, Text, validation_items
from lengthwise.tasks import test_items as items_of

DEFAULT = "\n".join(topics[name] for name in sorted(topics))
ALPHABETS = "abcdefghij" * 90, "klmno" * 10, "pqrst" * 10
"""Three parts of 900, 50 and 50 characters, none of which has a character of another."""


@pytest.fixture(scope="module")
def default():
    return Text()


@pytest.fixture
def text_of(tmp_path):
    """text_of(content, **options) -> the task on a file with that content."""

    def text_of(content, **options):
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.txt"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return Text(file=str(path), **options)

    return text_of


def character(name):
    """The character behind a symbol's name."""
    if name == "␣":
        return " "
    return name if len(name) == 1 else name.encode("ascii").decode("unicode_escape")


def spelled(task, ids):
    return "".join(character(task.symbols[i]) for i in ids)


def mistakes(task, part, examples):
    """Examples that are no stretch of `part`, whose answers are not what follows there, or that hold anything past
    their length."""
    wrong = 0
    for b in range(len(examples)):
        n = examples.lengths[b]
        seen, said = spelled(task, examples.inputs[b, :n]), spelled(task, examples.answers[b, :n])
        stretch = seen + said[-1]
        clean = not examples.inputs[b, n:].any() and not examples.answers[b, n:].any()
        right = said == stretch[1:] and stretch in part
        wrong += not (right and clean and examples.answer_lengths[b] == n and examples.evidence[b] == -1)
    return wrong


def test_windows_are_stretches_of_the_training_part(default):
    part = DEFAULT[: len(DEFAULT) - 2 * int(len(DEFAULT) * 0.05)]
    lengths = philox("lengths").integers(1, 65, size=10_000)
    examples = default.generate(lengths, philox("text"))
    assert (examples.lengths == lengths).all() and examples.inputs.dtype == np.int64
    assert mistakes(default, part, examples) == 0
    longer = default.generate(np.array([65, 128, 500] * 8), philox("longer"))
    assert mistakes(default, part, longer) == 0


def test_the_slow_reader_sees_a_wrong_answer(default):
    examples = default.generate(np.full(64, 9), philox("control"))
    assert mistakes(default, DEFAULT, examples) == 0
    shifted = default.generate(np.full(64, 9), philox("control"))
    shifted.answers[:] = np.roll(shifted.answers, 1, axis=1)
    assert mistakes(default, DEFAULT, shifted) > 60
    assert mistakes(default, DEFAULT[::-1], examples) > 55  # some are rulers and palindromes


def test_parts_follow_one_another_and_share_nothing(text_of):
    task = text_of("".join(ALPHABETS), unit="bytes")
    for split, alphabet in zip(("train", "val", "test"), ALPHABETS, strict=True):
        drawn = task.generate(np.full(3000, 7), philox("parts", split), split)
        letters = set(spelled(task, drawn.inputs.ravel())) | set(spelled(task, drawn.answers.ravel()))
        assert letters == set(alphabet)
    assert set(spelled(task, validation_items(task, 7, 200).answers.ravel())) == set(ALPHABETS[1])
    assert set(spelled(task, items_of(task, 7, 200).answers.ravel())) <= set(ALPHABETS[2])


@pytest.mark.parametrize("length", [1, 4])
def test_training_windows_start_anywhere_alike(text_of, length):
    content = "".join(map(chr, range(0x4E00, 0x4E00 + 200)))  # every character once
    task = text_of(content, held_out=0.1)
    first = task.generate(np.full(40_000, length), philox("starts")).inputs[:, 0]
    counts = np.bincount(first)
    assert len(counts) == 160 - length  # the last window's last answer is the training part's last character
    assert chisquare(counts).pvalue > 1e-4
    crowded = np.bincount(np.minimum(first, len(counts) - 2), minlength=len(counts))
    assert chisquare(crowded).pvalue < 1e-4  # control


def blocks(content, length, stride):
    """(inputs, answers, scored) of every test window, by walking through the text."""
    found, start = [], 0
    while start + length < len(content):
        window = content[start : start + length + 1]
        found.append((window[:-1], window[1:], range(length - stride, length)))
        start += stride
    return found


@pytest.mark.parametrize("length", [1, 2, 5, 10, 16, 49])
@pytest.mark.parametrize("stride", [None, 1, 3, 1000])
def test_the_test_covers_its_part_in_blocks_and_in_sliding_windows(text_of, length, stride):
    content = "".join(chr(0x4E00 + i) for i in range(1000))
    task = text_of(content, stride=stride, unit="bytes")  # 3 bytes a character
    part = content.encode()[-150:]
    length = min(length * 3, 149)
    step = {None: max(1, length // 2), 1: 1, 3: 3, 1000: length}[stride]
    whole = task.whole_test(length)
    assert list(whole) == ["all", "sliding_window"]
    for examples, by in ((whole["all"], length), (whole["sliding_window"], step)):
        expected = blocks(part, length, by)
        assert len(examples) == len(expected)
        for b, (inputs, answers, scored) in enumerate(expected):
            assert bytes(examples.inputs[b].tolist()) == inputs
            places = np.nonzero(examples.answers[b] != IGNORE)[0]
            assert places.tolist() == list(scored)
            assert examples.answers[b, places].tolist() == [answers[k] for k in scored]


def test_no_symbol_is_scored_twice_and_none_with_a_short_context(default):
    for length in (16, 65, 500):
        windows = default.whole_test(length)["sliding_window"]
        b, k = np.nonzero(windows.answers != IGNORE)
        places = b * (length // 2) + k + 1  # in the test part
        assert len(set(places)) == len(places) and np.ptp(places) == len(places) - 1
        assert (k + 1).min() > length / 2
        blocks = default.whole_test(length)["all"]
        assert (blocks.answers != IGNORE).all()
        assert blocks.answers.size > 0.97 * 23_000  # as many symbols at every length


def test_the_test_can_be_kept_short_alike_at_every_length(text_of):
    task = text_of(DEFAULT, test_symbols=1000)
    assert [task.whole_test(n)["all"].answers.size for n in (1, 10, 100, 1000)] == [1000] * 4
    with pytest.raises(ValueError, match="from 1 to 1000"):
        task.check_length(1001)


def test_items_are_the_blocks_and_fewer_are_the_first(default):
    assert np.array_equal(items_of(default, 64, 9).inputs, default.whole_test(64)["all"].inputs[:9])


def test_the_worked_examples():
    for text, (shown, answer) in zip(
        ("to be or not to be", "or not to", "begin\nThis"), Text.worked, strict=True
    ):
        stretch = "".join(map(character, shown.split()))
        start = text.index(stretch)
        assert [character(name) for name in answer.split()] == list(
            text[start + 1 : start + len(stretch) + 1]
        )


# -- symbols


def test_symbols_are_the_characters_of_the_training_part(text_of):
    task = text_of("".join(ALPHABETS))
    assert task.symbols == (*"abcdefghij", "<unknown>")
    drawn = task.generate(np.full(50, 5), philox("unknown"), "test")
    assert {task.symbols[i] for i in drawn.answers.ravel()} == {"<unknown>"}
    everything = text_of("".join(reversed(ALPHABETS)))  # other characters come first
    assert set("pqrst") <= set(everything.symbols)


def test_bytes_are_256_symbols_and_any_file_will_do(text_of):
    task = text_of(bytes(range(256)) * 8, unit="bytes")
    assert len(set(task.symbols)) == 256
    drawn = task.generate(np.full(4, 30), philox("bytes"))
    assert ((drawn.inputs + 1) % 256 == drawn.answers).all()
    with pytest.raises(ValueError, match=r"not UTF-8 \(byte 128\); use unit=bytes"):
        text_of(bytes(range(256)) * 8)


def test_names_are_printable_and_each_stands_for_one_character(text_of):
    odd = "␣ \\\n\t\x00\x7f\u00a0n\U0001f600x␤" + "\\u2423"
    task = text_of(odd * 30)
    names = task.symbols[:-1]
    assert sorted(map(character, names)) == sorted(set(odd))
    assert all(name.isprintable() and not set(name) & set(" \n\t") for name in task.symbols)


def test_another_text_is_another_task_and_its_place_does_not_matter(text_of, tmp_path):
    one, same, other = text_of("abc" * 99), text_of("abc" * 99), text_of("abd" * 99)
    assert one.file != same.file and one.identity == same.identity
    assert one.identity != other.identity and "file" not in one.identity
    assert Text(file=one.file, digest=one.digest).digest == one.digest
    with pytest.raises(ValueError, match="another text than digest=b2-00"):
        Text(file=one.file, digest="b2-00")
    with pytest.raises(ValueError, match="documentation topics of this Python"):
        Text(digest="b2-00")


# -- what is refused


@pytest.mark.parametrize(
    ("content", "options", "says"),
    [
        (None, {}, "No such file"),
        (b"", {}, "is empty"),
        (b"a" * 39, {}, "39 characters, too few"),
        (b"a" * 40, {"held_out": 0.04}, "too few"),
        (b"abc" * 99, {"unit": "words"}, "use one of characters, bytes"),
        (b"abc" * 99, {"held_out": 0.5}, "below 0.5"),
        (b"abc" * 99, {"held_out": True}, "below 0.5"),
        (b"abc" * 99, {"stride": 0}, "stride=0"),
        (b"abc" * 99, {"test_symbols": 0}, "test_symbols=0"),
    ],
)
def test_what_cannot_be_is_one_message(tmp_path, content, options, says):
    path = tmp_path / "text"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ValueError, match=says):
        Text(file=str(path), **options)


def test_a_folder_is_no_text_and_forty_characters_are_one(tmp_path, text_of):
    with pytest.raises(ValueError, match="cannot be read"):
        Text(file=str(tmp_path))
    assert text_of("a" * 40).max_length == 1
    with pytest.raises(ValueError, match=r"use length 1$"):
        text_of("a" * 40).check_length(2)


@pytest.mark.parametrize("shape", ["encoder", "encoder_decoder"])
def test_only_a_decoder_is_shown_a_text(default, shape):
    with pytest.raises(ValueError, match="use shape decoder"):
        Layout(default, shape)


# -- oracles and baselines


def test_a_decoder_s_targets_follow_in_the_text(default):
    batch = Layout(default, "decoder")(default.generate(np.array([3, 9, 64] * 30), philox("oracle")))
    for row in range(len(batch)):
        n = int(batch.lengths[row])
        tokens, targets = batch.tokens[row, 1 : n + 1].tolist(), batch.targets[row].tolist()
        assert targets[0] == IGNORE and targets[1:n] == tokens[1:]
        assert targets[n] < len(default.symbols) and set(targets[n + 1 :]) <= {IGNORE}


def test_baselines_are_what_counting_finds(text_of):
    task = text_of("the cat sat on the mat, that is that. " * 60 + "xyz that the " * 10, held_out=0.1)
    whole = (b"the cat sat on the mat, that is that. " * 60 + b"xyz that the " * 10).decode()
    size = int(len(whole) * 0.1)
    train, test = whole[: -2 * size], whole[-size:]
    usual = Counter(train).most_common(1)[0][0]
    after = {a: Counter(y for x, y in pairwise(train) if x == a) for a in set(train)}
    single = np.mean([c == usual for c in test[1:]])
    pairs = np.mean(
        [b == (after[a].most_common(1)[0][0] if a in after else usual) for a, b in pairwise(test)]
    )
    found = task.baselines(8)
    assert found["uniform"] == 1 / len(task.symbols)
    assert found["position_only"] == pytest.approx(single) and found["token_only"] == pytest.approx(pairs)
    assert found["token_only"] > found["position_only"] > found["uniform"]
