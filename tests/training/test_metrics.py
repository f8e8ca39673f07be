"""Figures are sums and counts: micro-averaged, and the same however the set is split."""

from __future__ import annotations

import os
import socket

import numpy as np
import pytest
import torch
from torch import multiprocessing

from lengthwise.batch import IGNORE
from lengthwise.evaluation.scores import score
from lengthwise.training.metrics import AnswerMetrics, summed_loss

EOS = 3


def logits_for(predictions: list[list[int]], vocabulary: int = 4) -> torch.Tensor:
    return 5.0 * torch.nn.functional.one_hot(torch.tensor(predictions), vocabulary).float()


def figures(predictions, targets, eos=EOS) -> dict[str, float]:
    metrics = AnswerMetrics(eos)
    metrics.update(logits_for(predictions), torch.tensor(targets))
    return {name: float(value) for name, value in metrics.compute().items()}


def test_token_accuracy_is_micro_averaged():
    found = figures([[0], [0], [0], [0]], [[0], [0], [0], [1]])
    assert found["token_accuracy"] == 0.75, "the mean over classes would be 0.5"


def test_the_end_symbol_counts_for_exact_match_and_not_for_accuracy():
    targets = [[0, 1, EOS], [0, EOS, IGNORE]]
    assert figures([[0, 1, EOS], [0, 1, 0]], targets) == {
        "loss": pytest.approx(figures([[0, 1, EOS], [0, 1, 0]], targets)["loss"]),
        "token_accuracy": 1.0,
        "exact_match": 0.5,
    }
    assert figures([[0, 1, EOS], [0, 1, 0]], targets, eos=None)["token_accuracy"] == 4 / 5


def test_places_without_a_target_and_sequences_without_any_count_nowhere():
    found = figures([[2, 1], [0, 0]], [[IGNORE, 1], [IGNORE, IGNORE]])
    assert found["token_accuracy"] == found["exact_match"] == 1.0


def test_loss_is_the_mean_over_scored_targets_in_float64():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(5, 3, 4, generator=generator)
    targets = torch.randint(0, 4, (5, 3), generator=generator)
    targets[1:3, 1] = IGNORE
    metrics = AnswerMetrics()
    metrics.update(logits, targets)
    expected = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORE)
    assert float(metrics.compute()["loss"]) == pytest.approx(float(expected), rel=1e-6)


def uneven_set() -> tuple[torch.Tensor, torch.Tensor]:
    """Seven sequences, the first of them wrong, with 1 to 7 answer symbols."""
    targets = torch.full((7, 7), IGNORE)
    for row in range(7):
        targets[row, : row + 1] = torch.arange(row + 1) % 3
    predictions = targets.clamp(min=0)
    predictions[0, 0] = 2
    return logits_for(predictions.tolist()), targets


def test_splitting_the_set_changes_nothing():
    logits, targets = uneven_set()
    whole, parts = AnswerMetrics(EOS), AnswerMetrics(EOS)
    whole.update(logits, targets)
    for index in ([0, 1], [2], [3, 4, 5, 6]):
        parts.update(logits[index], targets[index])
    expected = {name: pytest.approx(float(value), rel=1e-12) for name, value in whole.compute().items()}
    assert {name: float(value) for name, value in parts.compute().items()} == expected
    assert float(whole.compute()["exact_match"]) == pytest.approx(6 / 7)
    assert float(whole.compute()["token_accuracy"]) == pytest.approx(27 / 28)


def _rank(rank: int, port: int, results) -> None:
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.distributed.init_process_group("gloo", rank=rank, world_size=2)
    logits, targets = uneven_set()
    metrics = AnswerMetrics(EOS)
    shares = list(range(rank, 7, 2))
    for row in shares:
        metrics.update(logits[[row]], targets[[row]])
    if rank == 1:  # no sequence of its own here
        metrics.update(logits[[0]], torch.full_like(targets[[0]], IGNORE))
    results.put((rank, {name: float(value) for name, value in metrics.compute().items()}))
    torch.distributed.destroy_process_group()


def test_two_processes_give_the_figures_of_one_on_an_odd_sized_set():
    logits, targets = uneven_set()
    alone = AnswerMetrics(EOS)
    alone.update(logits, targets)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    context = multiprocessing.get_context("fork")  # starts at once: everything is imported already
    results = context.Queue()
    ranks = [context.Process(target=_rank, args=(rank, port, results)) for rank in range(2)]
    for process in ranks:
        process.start()
    found = dict(results.get(timeout=60) for _ in ranks)
    for process in ranks:
        process.join(60)
    expected = {name: float(value) for name, value in alone.compute().items()}
    assert found[0] == found[1]
    assert found[0]["token_accuracy"] == expected["token_accuracy"]
    assert found[0]["exact_match"] == expected["exact_match"]
    assert found[0]["loss"] == pytest.approx(expected["loss"], rel=1e-12)


def test_control_a_mean_of_the_ranks_means_would_be_wrong():
    logits, targets = uneven_set()
    means = [
        figures(logits[r::2].argmax(-1).tolist(), targets[r::2].tolist())["exact_match"] for r in range(2)
    ]
    assert sum(means) / 2 != pytest.approx(6 / 7)


def test_validation_and_test_count_alike():
    """The same definitions of an answer's symbols and of an exact match, the same loss."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(40, 3, 4, generator=generator)
    targets = torch.randint(0, 4, (40, 3), generator=generator)
    targets[::3, 2] = IGNORE
    metrics = AnswerMetrics(EOS)
    metrics.update(logits, targets)
    tested = score(logits, targets, EOS).figures(np.ones(40, dtype=bool))
    for name, value in metrics.compute().items():
        assert 0 < float(value) == pytest.approx(tested[name], rel=1e-12)


def test_summed_loss_in_half_precision_is_summed_in_float32():
    logits = torch.zeros(1, 3000, 4, dtype=torch.bfloat16)
    loss = summed_loss(logits, torch.zeros(1, 3000, dtype=torch.int64))
    assert loss.dtype == torch.float32
    assert float(loss) == pytest.approx(3000 * 1.3862944, rel=1e-5)
