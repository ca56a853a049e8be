"""Loss on the same tokens every time, without the model's dropout and without whole logits in memory."""

from collections.abc import Callable

import torch

from nanodyno.data.loader import Windows, evaluation_batches
from nanodyno.model.gpt import GPT

LOGITS_AT_ONCE = 2**25
"""128 MiB in float32: small beside what training itself needs, so that an evaluation sets no new peak."""


class Interrupted(Exception):
    """The evaluation was given up, since the run is asked to stop."""


def rows_at_once(model: GPT) -> int:
    return max(1, LOGITS_AT_ONCE // model.shape.vocab_size)


@torch.no_grad()
def summed_loss(
    model: GPT,
    windows: Windows,
    tokens: int,
    batch_size: int,
    part: tuple[int, int] = (0, 1),
    asked_to_stop: Callable[[], bool] = lambda: False,
) -> tuple[torch.Tensor, int]:
    """Cross-entropy in nats, summed over this part of evenly spread windows, and the tokens it is over."""
    device = model.tokens.weight.device
    rows = rows_at_once(model)
    total = torch.zeros((), dtype=torch.float32 if device.type == "mps" else torch.float64, device=device)
    count = 0
    was_training = model.training
    model.eval()
    try:
        for inputs, targets in evaluation_batches(windows, tokens, batch_size, part):
            if asked_to_stop():
                raise Interrupted
            total += model(torch.from_numpy(inputs).to(device), torch.from_numpy(targets).to(device), rows)
            count += targets.size
    finally:
        model.train(was_training)
    return total, count
