"""Evaluation: the same tokens every time, and the exact mean over them."""

import copy
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from nanodyno.data.shards import Dataset
from nanodyno.model.gpt import GPT
from nanodyno.train import evaluate
from nanodyno.train.evaluate import summed_loss
from nanodyno.train.trainer import Trainer

Trainers = Callable[..., Trainer]


def direct_mean(model: GPT, dataset: Dataset, split: str, sequences: int) -> float:
    """Window i of n starts at token 16 * (i * count // n) of the file; the mean in float64."""
    (tokens,) = dataset.split(split)
    count = (len(tokens) - 1) // 16
    starts = [16 * (i * count // sequences) for i in range(sequences)]
    rows = torch.from_numpy(np.stack([tokens[start : start + 17] for start in starts]).astype(np.int64))
    exact = copy.deepcopy(model).double().eval()
    logits = exact.logits(exact.hidden(rows[:, :-1]))
    return F.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten()).item()


def test_the_losses_are_the_means_over_evenly_spread_windows(trainer: Trainers, dataset: Dataset) -> None:
    ours = trainer(eval_tokens=500)
    record = ours.evaluate()
    # 500 tokens hold 31 windows of 16.
    assert (record.val_tokens, record.train_tokens) == (496, 496)
    assert record.val_loss == pytest.approx(direct_mean(ours.engine.model, dataset, "val", 31), rel=1e-6)
    assert record.train_loss == pytest.approx(direct_mean(ours.engine.model, dataset, "train", 31), rel=1e-6)
    assert record.iteration == 0


def test_an_evaluation_of_more_than_there_is_reads_every_window_once(
    trainer: Trainers, dataset: Dataset
) -> None:
    ours = trainer(eval_tokens=10**9)
    count = (dataset.tokens("val") - 1) // 16
    record = ours.evaluate()
    assert record.val_tokens == 16 * count
    assert record.val_loss == pytest.approx(direct_mean(ours.engine.model, dataset, "val", count), rel=1e-6)


def test_an_evaluation_gives_the_same_number_twice_whatever_the_dropout(trainer: Trainers) -> None:
    ours = trainer(dropout=0.5)
    assert ours.evaluate().val_loss == ours.evaluate().val_loss
    assert ours.evaluate().val_loss == trainer(dropout=0.0).evaluate().val_loss
    assert ours.engine.model.training


def test_the_batch_size_does_not_change_the_number(trainer: Trainers) -> None:
    losses = [trainer(batch_size=size).evaluate().val_loss for size in (1, 3, 4, 64)]
    assert losses == pytest.approx([losses[0]] * 4, rel=1e-6)


def test_logits_in_pieces_give_the_same_number(trainer: Trainers, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = trainer()
    whole = ours.evaluate().val_loss
    monkeypatch.setattr(evaluate, "LOGITS_AT_ONCE", 320 * 5)  # 5 rows of 64 at once, and 4 at the end
    assert ours.evaluate().val_loss == pytest.approx(whole, rel=1e-6)


def test_an_evaluation_leaves_generator_and_gradients_alone(trainer: Trainers) -> None:
    ours = trainer(dropout=0.5)
    state = torch.get_rng_state()
    ours.evaluate()
    assert torch.get_rng_state().equal(state)
    assert all(p.grad is None for p in ours.engine.model.parameters())


def test_a_model_in_evaluation_mode_stays_so(trainer: Trainers) -> None:
    ours = trainer()
    ours.engine.model.eval()
    summed_loss(ours.engine.model, ours.val_windows, 64, 2)
    assert not ours.engine.model.training


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_evaluation_computes_as_training_does(trainer: Trainers, dtype: str) -> None:
    exact, rounded = trainer().evaluate().val_loss, trainer(dtype=dtype).evaluate().val_loss
    assert rounded != exact
    assert rounded == pytest.approx(exact, rel=1e-3)
