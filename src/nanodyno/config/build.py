# pyright: strict
"""From what a user gave to a run: each setting judged, the rest derived, all faults told at once."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import Any, get_type_hints

from pydantic import TypeAdapter, ValidationError

from nanodyno.config.block import faults_of_the_block
from nanodyno.config.fields import (
    DEFAULT_ACCUMULATION,
    DEFAULT_EVAL_TOKENS,
    HEAD_SIZE,
    MICRO_BATCH,
    SETTINGS,
    RunConfig,
    accepted,
    is_ignored,
)
from nanodyno.config.kinds import LARGEST
from nanodyno.config.ramp import NoRamp, Ramp, read_ramp
from nanodyno.config.shape import STRICT
from nanodyno.errors import NanodynoError, did_you_mean, nearest_names

# A divisor further from the wished-for batch_size than this is no advice, and finding it could take forever.
FARTHEST_ADVICE = 4096


class ConfigError(NanodynoError):
    """Settings that make no run; each of `faults` begins with its key."""

    def __init__(
        self, faults: Iterable[str], hint: str = "`nanodyno train --keys` lists every setting"
    ) -> None:
        self.faults = tuple(faults)
        heading = f"the settings have {len(self.faults)} faults:\n" if len(self.faults) > 1 else ""
        super().__init__(heading + "\n".join(self.faults), hint)


def build_config(settings: Mapping[str, object] = MappingProxyType({}), /, **more: object) -> RunConfig:
    """The run that these settings describe, or one ConfigError that tells everything wrong with them.

    A derived key set to None counts as left out. The dumped values of a config build that config again.
    """
    draft = _Draft()
    for key, value in RunConfig.renamed({**settings, **more}).items():
        draft.take(key, value)
    for key, info in RunConfig.model_fields.items():
        if not info.is_required() and key not in draft.faulty:
            draft.values.setdefault(key, info.default)
    for settle in (_settle_heads, _settle_batch, _settle_ramp, _settle_learning_rate, _settle_evaluation):
        settle(draft)
    for key, words in faults_of_the_block(draft.values):
        draft.blame(key, words)
    if draft.faults:
        raise ConfigError(draft.faults)
    return RunConfig(**draft.values)


def changed(config: RunConfig, **changes: object) -> RunConfig:
    """The config with other settings. Where a micro-batch has another size, tokens stay, and what counts
    micro-batches follows."""
    stale = {
        key for key, each in SETTINGS.items() if each.pair and changes.keys() & {each.pair, *MICRO_BATCH}
    }
    return build_config({key: value for key, value in config if key not in stale} | changes)


def derived_value(config: RunConfig, key: str) -> object:
    """What a derived setting of this config would be if it were left out; None where that makes no config."""
    try:
        return getattr(build_config({**dict(config), key: None}), key)
    except ConfigError:
        return None


ALIASES = {
    alias: key
    for key, aliases in {
        "learning_rate": "lr max_lr peak_lr",
        "min_lr": "lr_min final_lr",
        "batch_size": "bs micro_batch micro_batch_size mbs device_batch_size per_device_train_batch_size",
        "tokens_per_iter": "total_batch_size batch_tokens tokens_per_step global_batch_size",
        "gradient_accumulation_steps": "accum grad_accum grad_accum_steps accumulation accumulation_steps",
        "block_size": "seq_len seqlen sequence_length context context_length ctx max_seq_len",
        "n_layer": "layers depth num_layers num_hidden_layers",
        "n_head": "heads num_heads num_attention_heads",
        "n_kv_head": "kv_heads num_kv_heads num_key_value_heads",
        "n_embd": "width d_model dim hidden_size embed_dim",
        "max_iters": "steps max_steps iters iterations num_iterations num_steps",
        "warmup_iters": "warmup warmup_steps",
        "weight_decay": "wd",
        "grad_clip": "clip max_grad_norm grad_norm_clip",
        "eval_interval": "eval_every val_every val_interval",
        "optimizer": "opt optim",
        "dtype": "precision amp",
        "recompute": "gradient_checkpointing activation_checkpointing",
        "dataset": "data data_dir",
        "out_dir": "output_dir outdir",
    }.items()
    for alias in aliases.split()
}
"""What other programs call a setting."""


@dataclass
class _Draft:
    """Settings on their way to a config: the sound values, and what is wrong with the others.

    A faulty key has no value, so that a rule which needs it is skipped instead of blaming another key.
    """

    values: dict[str, Any] = field(default_factory=dict[str, Any])
    faults: list[str] = field(default_factory=list[str])
    faulty: set[str] = field(default_factory=set[str])

    def take(self, key: str, value: object) -> None:
        """Judge one setting by itself."""
        if is_ignored(key):
            return
        info = RunConfig.model_fields.get(key)
        if info is None:
            near = nearest_setting(key)
            self.blame(key, f"unknown setting{did_you_mean([near] if near else [])}")
        elif value is not None or not info.is_required():
            try:
                self.values[key] = _kind(key).validate_python(value)
            except ValidationError:
                self.blame(key, f"must be {accepted(key)}, not {_shown(value)}{_not_yet(key, value)}")

    def derive(self, key: str, value: int) -> None:
        self.values[key] = value
        if value > LARGEST:
            self.blame(key, "is too large")

    def blame(self, key: str, words: str) -> None:
        self.faulty.add(key)
        self.faults.append(f"{key}: {words}")

    def sound(self, *keys: str) -> bool:
        return all(key in self.values for key in keys)

    def lacks(self, key: str, *needed: str) -> bool:
        """Whether `key` was left out while all that it is derived from is sound."""
        return key not in self.values and key not in self.faulty and self.sound(*needed)


@cache
def _kind(key: str) -> TypeAdapter[Any]:
    """What judges a value of this field alone, by the same type that the field has in RunConfig."""
    return TypeAdapter(get_type_hints(RunConfig, include_extras=True)[key], config=STRICT)


def accepts(key: str, value: object) -> bool:
    """Whether a setting takes this value, by its type and range alone."""
    try:
        _kind(key).validate_python(value)
    except ValidationError:
        return False
    return True


def nearest_setting(key: str) -> str | None:
    """The one that was probably meant; a setting's own name is nearest to itself."""
    return next(iter(nearest_names(key.replace("-", "_"), RunConfig.model_fields, ALIASES)), None)


def _shown(value: object) -> str:
    if isinstance(value, int) and abs(value) > LARGEST:
        return "a number that large"  # Python refuses to print very long ones
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _not_yet(key: str, value: object) -> str:
    published = key == "init_from" and isinstance(value, str) and value.startswith("gpt2")
    return "; starting from published weights is not supported yet" if published else ""


def _settle_heads(draft: _Draft) -> None:
    values = draft.values
    if draft.lacks("n_head", "n_embd"):
        n_embd = values["n_embd"]
        values["n_head"] = n_embd // HEAD_SIZE
        if n_embd % HEAD_SIZE:
            near = _either(_multiples_around(n_embd, HEAD_SIZE))
            draft.blame(
                "n_head",
                f"n_embd={n_embd} is not a multiple of {HEAD_SIZE}, the default head size; "
                f"give n_head, or n_embd={near}",
            )
    elif draft.sound("n_head", "n_embd") and values["n_embd"] % values["n_head"]:
        n_head, n_embd = values["n_head"], values["n_embd"]
        near = _either(_multiples_around(n_embd, n_head))
        draft.blame("n_head", f"{n_head} does not divide n_embd={n_embd}; use n_embd={near}")


def _settle_batch(draft: _Draft) -> None:
    """Accumulation and tokens per iteration: one gives the other, and both given must agree."""
    values = draft.values
    if draft.lacks("tokens_per_iter") and draft.lacks("gradient_accumulation_steps"):
        values["gradient_accumulation_steps"] = DEFAULT_ACCUMULATION
    if not draft.sound("batch_size", "block_size"):
        return
    micro = values["batch_size"] * values["block_size"]
    if draft.lacks("tokens_per_iter", "gradient_accumulation_steps"):
        draft.derive("tokens_per_iter", micro * values["gradient_accumulation_steps"])
    elif draft.lacks("gradient_accumulation_steps", "tokens_per_iter"):
        values["gradient_accumulation_steps"], rest = divmod(values["tokens_per_iter"], micro)
        if rest:
            draft.blame("tokens_per_iter", _indivisible(values))
    elif draft.sound("tokens_per_iter", "gradient_accumulation_steps"):
        total = micro * values["gradient_accumulation_steps"]
        if total != values["tokens_per_iter"]:
            draft.blame(
                "tokens_per_iter",
                f"{values['tokens_per_iter']} disagrees with batch_size * block_size * "
                f"gradient_accumulation_steps = {total}; give tokens_per_iter or "
                "gradient_accumulation_steps, not both",
            )


def _settle_ramp(draft: _Draft) -> None:
    """Every size of a ramp is made of the same micro-batches; noise needs two of them to be seen."""
    values = draft.values
    if values.get("batch_ramp") is None or not draft.sound("batch_size", "block_size", "tokens_per_iter"):
        return
    try:
        ramp = read_ramp(values["batch_ramp"], values["tokens_per_iter"])
    except NoRamp as fault:
        draft.blame("batch_ramp", str(fault))
        return
    for words in (*_parts_of_micro_batches(ramp, values), *_unseen_noise(ramp, values)):
        draft.blame("batch_ramp", words)


def _parts_of_micro_batches(ramp: Ramp, values: Mapping[str, Any]) -> Iterator[str]:
    batch_size, block_size = values["batch_size"], values["block_size"]
    micro, shared = batch_size * block_size, math.gcd(*ramp.sizes)
    whole = f"batch_size * block_size = {micro}" if batch_size > 1 else f"block_size = {micro}"
    others = _divisors_around(shared // block_size, batch_size) if shared % block_size == 0 else []
    kept = f", or keep it with batch_size={_either(others)}" if others else ""
    parts = [part.strip() for part in values["batch_ramp"].split(",")]
    for number, size in enumerate(ramp.sizes[1:], 1):
        if size % micro:
            yield (
                f"step {number} ({parts[number - 1]}) has {size} tokens per iteration, not a multiple of "
                f"{whole}; use {_either(_multiples_around(size, micro))}{kept}"
            )


def _unseen_noise(ramp: Ramp, values: Mapping[str, Any]) -> Iterator[str]:
    if values.get("gradient_accumulation_steps", ramp.fewest_steps) >= ramp.fewest_steps:
        return
    batch_size, tokens = values["batch_size"], values["tokens_per_iter"]
    smaller = _divisors_around(batch_size, batch_size)
    advice = f"use batch_size={smaller[0]}, or " if smaller else ""
    yield (
        f"noise is measured between micro-steps, and batch_size={batch_size} makes one of "
        f"tokens_per_iter={tokens}; {advice}make tokens_per_iter larger"
    )


def _indivisible(values: Mapping[str, int]) -> str:
    """Why tokens_per_iter cannot be made of micro-batches, and the nearest settings that can."""
    tokens, batch_size, block_size = values["tokens_per_iter"], values["batch_size"], values["block_size"]
    micro = batch_size * block_size
    advice = f"use {_either(_multiples_around(tokens, micro))}"
    sizes = _divisors_around(tokens // block_size, batch_size) if tokens % block_size == 0 else []
    if sizes:
        advice += f", or keep it with batch_size={_either(sizes)}"
    return f"{tokens} is not a multiple of batch_size * block_size = {micro}; {advice}"


def _multiples_around(n: int, step: int) -> list[int]:
    """The multiples of `step` next to `n`, which is none: the one below (unless that is 0) and above."""
    below = n - n % step
    return [each for each in (below, below + step) if each > 0]


def _divisors_around(n: int, request: int) -> list[int]:
    """The divisors of `n` next to `request`, which is none: the one below and the one above."""
    down = range(min(request - 1, n), max(0, request - FARTHEST_ADVICE), -1)
    up = range(request + 1, min(n, request + FARTHEST_ADVICE) + 1)
    return [each for side in (down, up) for each in [next((d for d in side if n % d == 0), None)] if each]


def _either(numbers: Iterable[int]) -> str:
    return " or ".join(map(str, numbers))


def _settle_learning_rate(draft: _Draft) -> None:
    values = draft.values
    if draft.lacks("lr_decay_iters", "max_iters"):
        values["lr_decay_iters"] = values["max_iters"]
    if draft.lacks("min_lr", "learning_rate"):
        values["min_lr"] = tenth(values["learning_rate"])
    if not draft.sound("min_lr", "learning_rate", "decay_lr", "schedule"):
        return
    decays = values["decay_lr"] and values["schedule"] != "constant"
    if decays and values["min_lr"] > values["learning_rate"]:
        draft.blame(
            "min_lr",
            f"{values['min_lr']} is above learning_rate={values['learning_rate']}; "
            "lower it, or set decay_lr to false",
        )


def tenth(learning_rate: Any) -> float:
    """Rounded to what a float64 holds for sure, so that 6e-4 gives 6e-5 and not 5.9999999999999995e-05."""
    return float(f"{learning_rate / 10:.15g}")


def _settle_evaluation(draft: _Draft) -> None:
    """nanoGPT's eval_iters gives eval_tokens when that was left out; both given must agree."""
    values = draft.values
    if not draft.sound("eval_iters", "batch_size", "block_size"):
        return
    eval_iters = values["eval_iters"]
    if eval_iters is None:
        if draft.lacks("eval_tokens"):
            values["eval_tokens"] = DEFAULT_EVAL_TOKENS
        return
    total = eval_iters * values["batch_size"] * values["block_size"]
    if draft.lacks("eval_tokens"):
        draft.derive("eval_tokens", total)
    elif draft.sound("eval_tokens") and values["eval_tokens"] != total:
        draft.blame(
            "eval_tokens",
            f"{values['eval_tokens']} disagrees with eval_iters * batch_size * block_size = {total}; "
            "give eval_tokens or eval_iters, not both",
        )
