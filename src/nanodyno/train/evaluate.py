"""Loss on the same tokens every time, without the model's dropout and without whole logits in memory."""

import torch
from torch.nn import functional as F

from nanodyno.data.loader import Windows, evaluation_batches
from nanodyno.model.gpt import GPT

LOGITS_AT_ONCE = 2**25
"""128 MiB in float32: small beside what training itself needs, so that an evaluation sets no new peak."""


@torch.no_grad()
def mean_loss(model: GPT, windows: Windows, tokens: int, batch_size: int) -> tuple[float, int]:
    """Mean cross-entropy in nats over evenly spread windows, and the number of tokens it is over."""
    device = model.tokens.weight.device
    rows_at_once = max(1, LOGITS_AT_ONCE // model.shape.vocab_size)
    total = torch.zeros((), dtype=torch.float32 if device.type == "mps" else torch.float64, device=device)
    count = 0
    was_training = model.training
    model.eval()
    for inputs, targets in evaluation_batches(windows, tokens, batch_size):
        hidden = model.hidden(torch.from_numpy(inputs).to(device)).flatten(0, 1)
        wanted = torch.from_numpy(targets).to(device).flatten()
        for rows, goal in zip(hidden.split(rows_at_once), wanted.split(rows_at_once), strict=True):
            total += F.cross_entropy(model.logits(rows).float(), goal, reduction="sum")
        count += targets.size
    model.train(was_training)
    return total.item() / count, count
