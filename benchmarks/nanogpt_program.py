"""nanoGPT as a program to measure: model.py of a checkout, in a loop that does what its train.py does.

Nothing of it is copied: model.py is imported by path, and the loop is written anew from what train.py does
per iteration: learning rate, micro-steps under autocast with the next batch fetched between forward and
backward, a disabled GradScaler, clipping, fused AdamW by its configure_optimizers, gradients set to None, and
the last micro-step's loss fetched. What it prints per iteration is left out, in its favour.
"""

import argparse
import importlib.util
import sys
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from pathlib import Path
from types import MappingProxyType, ModuleType

import numpy as np
import torch
from torch import Tensor

from nanodyno.config import RunConfig, build_config
from nanodyno.errors import NanodynoError
from nanodyno.model.gpt import GPT
from nanodyno.recipes import Settings, override, parse_overrides
from nanodyno.schedule import learning_rate_at
from nanodyno.train.device import DTYPES, DeviceChoice

Batch = tuple[Tensor, Tensor]

VOCAB_SIZE = 50304
FOREVER = 10**6
NO_CHANGES: Mapping[str, object] = MappingProxyType({})

# Ours to nanoGPT's; in a block both begin with the block's own prefix.
OUTSIDE_BLOCKS = {
    "tokens.weight": "transformer.wte.weight",
    "positions.weight": "transformer.wpe.weight",
    "norm.weight": "transformer.ln_f.weight",
}
IN_A_BLOCK = {
    "norm_attention.weight": "ln_1.weight",
    "attention.qkv.weight": "attn.c_attn.weight",
    "attention.out.weight": "attn.c_proj.weight",
    "norm_mlp.weight": "ln_2.weight",
    "mlp.up.weight": "mlp.c_fc.weight",
    "mlp.down.weight": "mlp.c_proj.weight",
}


def load_checkout(folder: Path) -> ModuleType:
    """nanoGPT's model.py as a module of a name of its own."""
    path = folder / "model.py"
    if not path.is_file():
        raise NanodynoError(f"{path} is missing", "--nanogpt takes a checkout of nanoGPT")
    spec = importlib.util.spec_from_file_location("nanogpt_model", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


class NanoGpt:
    """One training of nanoGPT's, iteration by iteration."""

    def __init__(
        self,
        module: ModuleType,
        config: RunConfig,
        vocab_size: int,
        choice: DeviceChoice,
        next_batch: Callable[[], Batch],
    ) -> None:
        self.config = config
        self.done = 0
        with redirect_stdout(sys.stderr):  # it prints its size
            self.model = module.GPT(
                module.GPTConfig(
                    block_size=config.block_size,
                    vocab_size=vocab_size,
                    n_layer=config.n_layer,
                    n_head=config.n_head,
                    n_embd=config.n_embd,
                    dropout=config.dropout,
                    bias=config.bias,
                )
            ).to(choice.device)
            betas = (config.beta1, config.beta2)
            self.optimizer = self.model.configure_optimizers(
                config.weight_decay, config.learning_rate, betas, choice.device.type
            )
        self._scaler = torch.amp.GradScaler(choice.device.type, enabled=False)
        self._forward = torch.compile(self.model) if config.compile else self.model
        dtype = DTYPES[choice.dtype]
        self._context = torch.autocast(choice.device.type, dtype, enabled=dtype != torch.float32)
        self._next_batch = next_batch
        self._batch = next_batch()

    def iteration(self, micro_losses: list[Tensor] | None = None) -> float:
        """One update; the loss as nanoGPT logs it. micro_losses takes each micro-step's share of the mean."""
        config, steps = self.config, self.config.gradient_accumulation_steps
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate_at(config, self.done)
        loss = torch.zeros(())
        for _ in range(steps):
            with self._context:
                _, loss = self._forward(*self._batch)
                loss = loss / steps
            self._batch = self._next_batch()
            self._scaler.scale(loss).backward()
            if micro_losses is not None:
                micro_losses.append(loss.detach())
        self._scaler.unscale_(self.optimizer)
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), config.grad_clip)
        self._scaler.step(self.optimizer)
        self._scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        self.done += 1
        return loss.item() * steps

    def take_weights(self, ours: GPT) -> None:
        """Ours, by the names above; the tied head is the same tensor as the embedding."""
        state = {nanogpt_name(name): tensor for name, tensor in ours.state_dict().items()}
        state["lm_head.weight"] = state["transformer.wte.weight"]
        self.model.load_state_dict(state, strict=True)


def nanogpt_name(ours: str) -> str:
    if ours in OUTSIDE_BLOCKS:
        return OUTSIDE_BLOCKS[ours]
    _, index, inner = ours.split(".", 2)
    return f"transformer.h.{index}.{IN_A_BLOCK[inner]}"


def random_batches(tokens: Path, config: RunConfig, device: torch.device) -> Callable[[], Batch]:
    """Windows drawn with replacement, the file mapped anew for each batch, pinned on CUDA: as nanoGPT."""
    length = config.block_size

    def stacked(data: np.ndarray, starts: list[int]) -> Tensor:
        rows = torch.stack([torch.from_numpy(data[at : at + length].astype(np.int64)) for at in starts])
        return rows.pin_memory() if device.type == "cuda" else rows

    def next_batch() -> Batch:
        data = np.memmap(tokens, dtype=np.uint16, mode="r")
        starts = torch.randint(len(data) - length, (config.batch_size,)).tolist()
        inputs, targets = stacked(data, starts), stacked(data, [at + 1 for at in starts])
        return inputs.to(device, non_blocking=True), targets.to(device, non_blocking=True)

    return next_batch


def make_config(
    options: argparse.Namespace,
    width: int,
    micro_batch: int,
    tokens: int,
    data: Path,
    changes: Mapping[str, object] = NO_CHANGES,
) -> RunConfig:
    """The settings of a speed or memory measurement, without an end of its own; `changes` are for ours."""
    return configured(
        {
            "n_layer": options.layers,
            "n_embd": width,
            "block_size": options.block,
            "batch_size": micro_batch,
            "tokens_per_iter": tokens,
            "max_iters": FOREVER,
            "eval_interval": FOREVER,
            "eval_tokens": micro_batch * options.block,
            "vocab_size": VOCAB_SIZE,
            "dataset": str(data),
            "device": options.device,
            "dtype": options.dtype,
            "compile": options.compile,
        },
        changes,
    )


def configured(settings: dict[str, object], changes: Mapping[str, object]) -> RunConfig:
    return build_config(override(Settings("benchmark", settings), changes).values)


def our_changes(options: argparse.Namespace) -> dict[str, object]:
    """What --set says, read as `nanodyno train` would."""
    return parse_overrides([f"--{setting}" for setting in options.set])
