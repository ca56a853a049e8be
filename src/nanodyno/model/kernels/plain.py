"""Every kernel in plain torch: what the Triton ones are tested against, and what runs without them.

Shapes: N positions (B * T), C width, V vocabulary. Gradients of parameters are added to what is there.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.autograd.profiler import record_function
from torch.nn import functional as F

from nanodyno.model.kernels.fp8_slot import Fp8Slot as Fp8Slot
from nanodyno.model.kernels.fp8_slot import quantise as quantise
from nanodyno.model.kernels.plain_modern import apply_rope_ as apply_rope_
from nanodyno.model.kernels.plain_modern import apply_rope_backward_ as apply_rope_backward_
from nanodyno.model.kernels.plain_modern import mix_values_ as mix_values_
from nanodyno.model.kernels.plain_modern import mix_values_backward_ as mix_values_backward_
from nanodyno.model.kernels.plain_modern import relu2 as relu2
from nanodyno.model.kernels.plain_modern import relu2_backward_ as relu2_backward_

LOGIT_UNITS = 2.0**15
IGNORED = -100
"""A target that counts for nothing, as in torch's own cross-entropy."""


def partial_rows(device: torch.device, width: int, stream: torch.dtype) -> int:
    """How many rows of partial sums `norm_backward` adds a norm's gradient to."""
    del device, width, stream
    return 1


def embed(tokens: Tensor, positions: Tensor | None, inputs_BT: Tensor, dtype: torch.dtype) -> Tensor:
    """The residual stream before the first block, N x C; without positions where attention turns by them."""
    x_BTC = F.embedding(inputs_BT, tokens)
    if positions is not None:
        x_BTC = x_BTC + positions[: inputs_BT.shape[1]]
    return x_BTC.flatten(0, 1).to(dtype)


def embed_backward(
    dx_NC: Tensor, inputs_BT: Tensor, tokens_grad: Tensor, positions_grad: Tensor | None
) -> None:
    B, T = inputs_BT.shape
    dx_NC = dx_NC.to(tokens_grad.dtype)
    tokens_grad.index_add_(0, inputs_BT.flatten(), dx_NC)
    if positions_grad is not None:
        positions_grad[:T] += dx_NC.view(B, T, -1).sum(0)


def add_norm(
    x_NC: Tensor,
    y_NC: Tensor | None,
    weight: Tensor,
    bias: Tensor | None,
    half: torch.dtype,
    eps: float,
    centred: bool = True,
) -> tuple[Tensor, Tensor, Tensor | None, Tensor]:
    """x + y, its norm in the precision of the matrix products, and each row's mean and 1 / deviation.

    Not `centred` it is the RMS norm: there is no mean, and the deviation is from zero.
    """
    wide = weight.dtype
    if y_NC is not None:
        x_NC = (x_NC.to(wide) + y_NC.to(wide)).to(x_NC.dtype)
    x = x_NC.to(wide)
    mean = x.mean(-1) if centred else None
    rstd = (_centred(x, mean).square().mean(-1) + eps).rsqrt()
    return x_NC, _normed(x, mean, rstd, weight, bias).to(half), mean, rstd


def norm_backward(
    dn_NC: Tensor,
    x_NC: Tensor,
    mean: Tensor | None,
    rstd: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    dx_NC: Tensor | None,
    weight_partial: Tensor,
    bias_partial: Tensor | None,
    again: bool,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """The residual stream's gradient with this norm's share added to `dx_NC`; the same in dn's precision.

    With `again` also the norm's output, made from what it left behind. `dx_NC` may be overwritten. Without a
    mean it is the RMS norm's.
    """
    wide = weight.dtype
    dn, x = dn_NC.to(wide), x_NC.to(wide)
    x_hat = _centred(x, mean) * rstd[:, None]
    weight_partial[0] += (dn * x_hat).sum(0)
    if bias_partial is not None:
        bias_partial[0] += dn.sum(0)
    g = dn * weight
    own = _centred(g, None if mean is None else g.mean(-1))
    own = (own - x_hat * (g * x_hat).mean(-1, keepdim=True)) * rstd[:, None]
    dx = (own if dx_NC is None else own + dx_NC.to(wide)).to(x_NC.dtype)
    n = _normed(x, mean, rstd, weight, bias).to(dn_NC.dtype) if again else None
    return dx, dx.to(dn_NC.dtype), n


def gelu(u: Tensor, approximate: str, slot: Fp8Slot | None = None) -> Tensor:
    """With a slot, in fp8."""
    g = F.gelu(u, approximate=approximate)
    return g if slot is None else quantise(g, slot)


def gelu_backward_(
    u: Tensor, dg: Tensor, approximate: str, again: bool, slot: Fp8Slot | None = None
) -> Tensor | None:
    """dg becomes the gradient of u; with `again`, u becomes gelu(u) for the matrix product that needs it.

    With a slot, that gradient in fp8 besides.
    """
    du = torch.ops.aten.gelu_backward(dg, u, approximate=approximate)
    if again:
        u.copy_(gelu(u, approximate))
    dg.copy_(du)
    return None if slot is None else quantise(dg, slot)


def cross_entropy_(
    logits_NV: Tensor,
    targets_N: Tensor,
    scale: Tensor,
    losses_N: Tensor,
    fp8_NV: Tensor | None = None,
    cap: float | None = None,
) -> None:
    """Each row's loss; the logits become scale times its gradient. Ignored targets leave zeros.

    `fp8_NV` takes the gradient besides, in units of scale / LOGIT_UNITS, as none of it is above scale. With
    a `cap` the loss is of cap * tanh(logits / cap), whose slope is 1 - tanh^2.
    """
    with record_function("cross_entropy"):  # so that a profile knows the loss from other arithmetic
        _cross_entropy_(logits_NV, targets_N, scale, losses_N, fp8_NV, cap)


def _cross_entropy_(
    logits_NV: Tensor,
    targets_N: Tensor,
    scale: Tensor,
    losses_N: Tensor,
    fp8_NV: Tensor | None,
    cap: float | None,
) -> None:
    counts = targets_N != IGNORED
    goals = targets_N.where(counts, 0)[:, None]
    logits = logits_NV.to(losses_N.dtype)
    if cap is not None:
        logits = cap * torch.tanh(logits / cap)
    highest = logits.amax(-1, keepdim=True)
    log_sum = highest + (logits - highest).exp().sum(-1, keepdim=True).log()
    losses_N.copy_((log_sum - logits.gather(1, goals))[:, 0].where(counts, 0))
    gradient = (logits - log_sum).exp()
    gradient.scatter_add_(1, goals, torch.full_like(log_sum, -1))
    if cap is not None:
        gradient *= 1 - (logits / cap).square()
    logits_NV.copy_(gradient * (scale * counts[:, None]))
    if fp8_NV is not None:
        fp8_NV.copy_((gradient * counts[:, None] * LOGIT_UNITS).to(fp8_NV.dtype))


def _centred(x: Tensor, mean: Tensor | None) -> Tensor:
    return x if mean is None else x - mean[:, None]


def _normed(x: Tensor, mean: Tensor | None, rstd: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    n = _centred(x, mean) * rstd[:, None] * weight
    return n if bias is None else n + bias


ADAMW_CHUNK = 2**16
PHILOX_ROUNDS = 7
"""The fewest that pass BigCrush (Salmon and others, 2011)."""


@dataclass(frozen=True)
class Update:
    """The numbers of one AdamW step; `step` counts from 1."""

    step: int
    learning_rate: float
    beta1: float
    beta2: float
    eps: float
    weight_decay: float
    cautious: bool = False
    """Whether only those decay that the update shrinks too."""

    @property
    def step_size(self) -> float:
        return self.learning_rate / (1 - self.beta1**self.step)

    @property
    def scale(self) -> float:
        """What the second moment's root is multiplied with, so that it starts without bias."""
        return (1 - self.beta2**self.step) ** -0.5

    @property
    def shrink(self) -> float:
        return 1 - self.learning_rate * self.weight_decay


def adamw_(
    parameters: Tensor,
    gradients: Tensor,
    first: Tensor,
    second: Tensor,
    clip: Tensor,
    decayed: int,
    update: Update,
    keep_gradients: bool,
) -> None:
    """Updates a stretch of parameters and its two moments from gradients times `clip`.

    Only what lies before `decayed` decays. The update takes the moments as they are before they are rounded
    to bf16. Gradients become zero unless kept. In chunks, so that what is between stays in the cache.
    """
    for start in range(0, parameters.numel(), ADAMW_CHUNK):
        here = slice(start, start + ADAMW_CHUNK)
        p, g = parameters[here], gradients[here] * clip
        m, v = first[here].to(p), second[here].to(p)
        m.lerp_(g, 1 - update.beta1)
        v.mul_(update.beta2).addcmul_(g, g, value=1 - update.beta2)
        shrinking = p[: max(decayed - start, 0)]
        if update.cautious:
            shrinking -= (1 - update.shrink) * shrinking * (shrinking * m[: shrinking.numel()] > 0)
        else:
            shrinking.mul_(update.shrink)
        p.addcdiv_(m, v.sqrt().mul_(update.scale).add_(update.eps), value=-update.step_size)
        if first.dtype == torch.bfloat16:
            noise = philox(update.step, torch.arange(start, start + p.numel(), device=p.device))
            m, v = rounded(m, noise & 0xFFFF), rounded(v, noise >> 16)
        first[here], second[here] = m, v
        if not keep_gradients:
            gradients[here].zero_()


def rounded(x: Tensor, noise: Tensor) -> Tensor:
    """To bf16, up or down by chance, so that the expectation is x; `noise` is 16 random bits each.

    To the nearest, a moment would stand still: half a step of bf16 is at least 1/512 of a value, and with
    beta2 at 0.999 a second moment falls by 1/1000 of itself: one large gradient would hold it up for good.
    """
    bits = (x.float().view(torch.int32) + noise.int()) & ~0xFFFF
    return torch.where(x.isnan(), x.float(), bits.view(torch.float32)).bfloat16()


def philox(seed: int, positions: Tensor) -> Tensor:
    """32 random bits for each position, from nothing but it and the seed: the first word of Philox4x32.

    So a run that is resumed draws what it would have drawn.
    """
    word = 0xFFFFFFFF
    key0, key1 = seed & word, seed >> 32
    c0, c1 = positions & word, positions >> 32
    c2 = c3 = torch.zeros_like(positions)
    for _ in range(PHILOX_ROUNDS):
        # Products of 64 bits wrap around into the sign, which the mask takes off again.
        low, high = c0 * 0xD2511F53, c2 * 0xCD9E8D57
        c0, c1 = (high >> 32 & word) ^ c1 ^ key0, high & word
        c2, c3 = (low >> 32 & word) ^ c3 ^ key1, low & word
        key0, key1 = key0 + 0x9E3779B9 & word, key1 + 0xBB67AE85 & word
    return c0
