"""nanochat as a program to measure: its model and optimiser out of a checkout, in a loop that does what its
scripts/base_train.py does.

Nothing of it is copied: nanochat.gpt is imported from the checkout and the defaults are read from the
arguments of base_train.py. The rules that make rates, decay and momentum of them are written anew, as is the
loop: micro-steps with the next batch fetched between forward and backward, then the optimiser. base_train.py
fetches the loss of every step and prints; that is left out, in its favour.
"""

import ast
import gc
import importlib
import math
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

VOCAB_SIZE = 50304
LENGTH = 1024
ROWS = 32
"""base_train.py's --device-batch-size."""
EVALUATED_ROWS = 8
"""So few that several processes find room on a card."""
REFERENCE_DEPTH, REFERENCE_BATCH = 12, 2**19
MOMENTUM_STEPS = 400


@dataclass(frozen=True)
class Rules:
    """What base_train.py makes of its defaults, for one model, batch and number of steps."""

    defaults: dict[str, Any]
    tokens_per_step: int
    scaling_parameters: int
    reference_parameters: int
    """Of the depth at which nanochat's values were tuned."""
    steps: int

    @property
    def rate_scale(self) -> float:
        return (self.tokens_per_step / REFERENCE_BATCH) ** 0.5

    @property
    def weight_decay(self) -> float:
        """By the length that base_train.py would choose, also where it is told another one."""
        return (
            self.defaults["weight-decay"]
            * math.sqrt(self.tokens_per_step / REFERENCE_BATCH)
            * (self.reference_parameters / self.scaling_parameters)
        )

    @property
    def cooldown(self) -> int:
        return round(self.defaults["warmdown-ratio"] * self.steps)

    def rate_at(self, step: int) -> float:
        if step < self.defaults["warmup-steps"]:
            return (step + 1) / self.defaults["warmup-steps"]
        if step <= self.steps - self.cooldown:
            return 1.0
        left = (self.steps - step) / self.cooldown
        return left + (1 - left) * self.defaults["final-lr-frac"]

    def momentum_at(self, step: int) -> float:
        if step < MOMENTUM_STEPS:
            return 0.85 + step / MOMENTUM_STEPS * (0.97 - 0.85)
        past = step - (self.steps - self.cooldown)
        return 0.97 if past < 0 else 0.97 + past / self.cooldown * (0.90 - 0.97)

    def weight_decay_at(self, step: int) -> float:
        return self.weight_decay * 0.5 * (1 + math.cos(math.pi * step / self.steps))


def read_defaults(script: str) -> dict[str, Any]:
    """Of the options of base_train.py, by name."""
    found: dict[str, Any] = {}
    for node in ast.walk(ast.parse(script)):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "add_argument":
            name = ast.literal_eval(node.args[0]).lstrip("-")
            for keyword in node.keywords:
                if keyword.arg == "default" and isinstance(keyword.value, ast.Constant | ast.UnaryOp):
                    found[name] = ast.literal_eval(keyword.value)
    return found


class Epochs:
    """Windows of the train set, each once in an epoch, in an order that the seed gives."""

    def __init__(self, tokens: np.ndarray, rows: int, length: int, device: torch.device) -> None:
        self.tokens = torch.from_numpy(tokens.astype(np.int32)).to(device)
        self.windows, self.rows, self.length = (len(tokens) - 1) // length, rows, length
        self.restart(0)

    def restart(self, seed: int) -> None:
        self._generator = torch.Generator().manual_seed(seed)
        self._order = torch.empty(0, dtype=torch.int64, device=self.tokens.device)

    def next_batch(self) -> tuple[Tensor, Tensor]:
        while len(self._order) < self.rows:
            another = torch.randperm(self.windows, generator=self._generator).to(self.tokens.device)
            self._order = torch.cat([self._order, another])
        chosen, self._order = self._order[: self.rows], self._order[self.rows :]
        at = chosen[:, None] * self.length + torch.arange(self.length, device=chosen.device)
        return self.tokens[at].long(), self.tokens[at + 1].long()


@dataclass(frozen=True)
class Trained:
    seconds: float
    losses: list[tuple[int, float, dict[str, float]]]
    """Step, seconds of training so far, and val loss by the name of the val set; the last is the end."""
    peak_bytes: int | None


class Nanochat:
    """One depth of it, with micro-batches of one size; it can be trained anew any number of times."""

    def __init__(
        self, checkout: Path, shape: tuple[int, int], train: Path, device: torch.device, compiled: bool
    ) -> None:
        self.depth, self.rows = shape
        self.device = device
        self.defaults = read_defaults((checkout / "scripts" / "base_train.py").read_text())
        sys.path.insert(0, str(checkout))
        with redirect_stdout(sys.stderr):
            self._gpt = importlib.import_module("nanochat.gpt")
            common = importlib.import_module("nanochat.common")
            common.compute_init(self.device.type)  # precision of products in float32
            self.model = self._built(self.depth)
        self.attention = "fa3" if importlib.import_module("nanochat.flash_attention").USE_FA3 else "sdpa"
        self.dtype = str(common.COMPUTE_DTYPE).removeprefix("torch.")
        self.model.to_empty(device=self.device)
        self.model.init_weights()
        self._forward = torch.compile(self.model, dynamic=False) if compiled else self.model
        self.batches = Epochs(np.fromfile(train, np.uint16), self.rows, LENGTH, self.device)

    def _built(self, depth: int) -> Any:
        """Without tensors, as base_train.py's build_model_meta with full windows."""
        head = self.defaults["head-dim"]
        heads = -(-depth * self.defaults["aspect-ratio"] // head)
        shape = {"n_layer": depth, "n_head": heads, "n_kv_head": heads, "n_embd": heads * head}
        config = self._gpt.GPTConfig(sequence_len=LENGTH, vocab_size=VOCAB_SIZE, window_pattern="L", **shape)
        with torch.device("meta"):
            return self._gpt.GPT(config)

    @property
    def parameters(self) -> dict[str, int]:
        return self.model.num_scaling_params()

    def begin(self, tokens_per_step: int, steps: int, seed: int) -> None:
        """New weights and a new optimiser; the compiled model stays."""
        torch.manual_seed(seed)
        with redirect_stdout(sys.stderr):
            fresh = self._built(self.depth)
            reference = self._built(REFERENCE_DEPTH).num_scaling_params()
        fresh.to_empty(device=self.device)
        fresh.init_weights()
        self.model.load_state_dict(fresh.state_dict())
        self.model.zero_grad(set_to_none=True)
        self.rules = Rules(
            self.defaults,
            tokens_per_step,
            self.parameters["transformer_matrices"] + self.parameters["lm_head"],
            reference["transformer_matrices"] + reference["lm_head"],
            steps,
        )
        scale = self.rules.rate_scale
        with redirect_stdout(sys.stderr):
            self.optimizer = self.model.setup_optimizer(
                unembedding_lr=self.defaults["unembedding-lr"] * scale,
                embedding_lr=self.defaults["embedding-lr"] * scale,
                scalar_lr=self.defaults["scalar-lr"] * scale,
                matrix_lr=self.defaults["matrix-lr"] * scale,
                weight_decay=self.rules.weight_decay,
            )
        self.batches.restart(seed)
        self._batch = self.batches.next_batch()

    def step(self, number: int) -> None:
        micro_steps = self.rules.tokens_per_step // (self.rows * LENGTH)
        for _ in range(micro_steps):
            loss = self._forward(*self._batch) / micro_steps
            loss.backward()
            self._batch = self.batches.next_batch()
        for group in self.optimizer.param_groups:
            group["lr"] = group["initial_lr"] * self.rules.rate_at(number)
            if group["kind"] == "muon":
                group["momentum"] = self.rules.momentum_at(number)
                group["weight_decay"] = self.rules.weight_decay_at(number)
        self.optimizer.step()
        self.model.zero_grad(set_to_none=True)

    def step_seconds(self, at_least: float) -> float:
        """Of one step, over a measurement of so many seconds."""
        number, began = 0, self.now()
        while True:
            for _ in range(10):
                self.step(number)
                number += 1
            taken = self.now() - began
            if taken >= at_least:
                return taken / number

    def train(self, steps: int, looks: int, evaluate: Callable[[], dict[str, float]]) -> Trained:
        stops = [round(steps * (look + 1) / (looks + 1)) for look in range(looks + 1)]
        done, seconds, peak = 0, 0.0, 0
        losses: list[tuple[int, float, dict[str, float]]] = []
        for stop in stops:
            gc.collect()
            gc.disable()  # as base_train.py
            self.reset_peak()
            began = self.now()
            for number in range(done, stop):
                self.step(number)
            seconds += self.now() - began
            peak = max(peak, self.peak_bytes())
            gc.enable()
            done = stop
            losses.append((done, seconds, evaluate()))
        return Trained(seconds, losses, peak or None)

    @torch.no_grad()
    def val_loss(self, tokens: np.ndarray) -> float:
        """Mean over windows side by side, in float32 from the logits on, by the uncompiled model."""
        windows = (len(tokens) - 1) // LENGTH
        whole = torch.from_numpy(tokens[: windows * LENGTH + 1].astype(np.int64)).to(self.device)
        inputs, targets = whole[:-1].view(windows, LENGTH), whole[1:].view(windows, LENGTH)
        total = torch.zeros((), dtype=torch.float64, device=self.device)
        for at in range(0, windows, EVALUATED_ROWS):
            some = slice(at, at + EVALUATED_ROWS)
            losses = self.model(inputs[some], targets[some], loss_reduction="none")
            total += losses.double().sum()
        return total.item() / (windows * LENGTH)

    def now(self) -> float:
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()

    def reset_peak(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats()

    def peak_bytes(self) -> int:
        return torch.cuda.max_memory_allocated() if self.device.type == "cuda" else 0
