# pyright: strict
"""What the settings of the modern block and of its optimiser must agree on."""

from collections.abc import Iterator, Mapping
from typing import Any

from nanodyno.config.fields import RunConfig

Fault = tuple[str, str]
_NEEDS: dict[str, tuple[str, object]] = {
    "rope_base": ("positions", "rope"),
    "muon_lr": ("optimizer", "muon"),
    "muon_momentum": ("optimizer", "muon"),
    "wsd_decay_fraction": ("schedule", "wsd"),
}
"""Settings that say nothing without another one."""
_WINDOWED = ("auto", "flex", "flash", "fa3", "math")
_SHARING = ("auto", "cudnn", "flex", "flash", "fa3", "math")
"""Backends of the attention that have a window, and that take fewer heads of keys and values."""
_ONLY_ADAMW = {"moments_dtype": "float32", "offload_moments": False}


def faults_of_the_block(values: Mapping[str, Any]) -> Iterator[Fault]:
    """Each as a key and words; a key that is missing was faulty by itself, and is not blamed again."""
    for key, (needed, value) in _NEEDS.items():
        if _is_set(values, key) and needed in values and values[needed] != value:
            without = f"{key}={RunConfig.model_fields[key].default}"
            yield (
                key,
                f"{values[key]} says nothing without {needed}={value}; leave it out ({without} where a "
                "recipe sets it), or add that",
            )
    yield from _of_attention(values)
    yield from _of_other_parts(values)
    if values.get("cautious_decay") and values.get("weight_decay") == 0:
        yield "cautious_decay", "says nothing with weight_decay=0; leave it out, or give a weight_decay"
    yield from _of_muon(values)
    yield from _of_kernels(values)


def _of_attention(values: Mapping[str, Any]) -> Iterator[Fault]:
    n_head, shared, window = values.get("n_head"), values.get("n_kv_head"), values.get("window")
    block_size, n_embd = values.get("block_size"), values.get("n_embd")
    if n_head and shared and n_head % shared:
        fitting = [each for each in range(1, min(n_head, 1024) + 1) if n_head % each == 0]
        yield "n_kv_head", f"{shared} does not divide n_head={n_head}; {_listed(fitting)} would do"
    if window and block_size and window > block_size:
        yield (
            "window",
            f"{window} is larger than block_size={block_size}: all there is; leave it out for that",
        )
    if window is None and _is_set(values, "window_pattern"):
        yield "window_pattern", f"{values['window_pattern']} says nothing without a window; leave it out"
    yield from _of_backend(values)
    if values.get("positions") == "rope" and n_head and n_embd and (n_embd // n_head) % 2:
        yield (
            "positions",
            f"rope turns pairs, and heads of {n_embd // n_head} (n_embd / n_head) have an odd one",
        )


def _of_backend(values: Mapping[str, Any]) -> Iterator[Fault]:
    backend = values.get("attention", "auto")
    if values.get("window") and backend not in _WINDOWED:
        yield "attention", f"{backend} has no window; {', '.join(_WINDOWED)} have"
    shared = values.get("n_kv_head") not in (None, values.get("n_head"))
    if shared and backend not in _SHARING:
        yield "attention", f"{backend} shares no heads of keys (n_kv_head); {', '.join(_SHARING)} do"


def _of_other_parts(values: Mapping[str, Any]) -> Iterator[Fault]:
    if values.get("activation") == "relu2" and values.get("gelu") == "tanh":
        yield "gelu", "tanh says nothing with activation=relu2; leave one of them out"
    tables, n_layer = values.get("value_embeddings"), values.get("n_layer")
    if tables and n_layer and 2 * tables > n_layer:
        most = f"{n_layer // 2} is the most"
        yield "value_embeddings", f"{tables} tables need {2 * tables} blocks, and n_layer={n_layer}; {most}"


def _of_muon(values: Mapping[str, Any]) -> Iterator[Fault]:
    """Muon has one moment of its own kind: what is done to AdamW's is not done to it."""
    if values.get("optimizer") != "muon":
        return
    for key, default in _ONLY_ADAMW.items():
        if values.get(key, default) != default:
            yield key, f"{values[key]} is for AdamW's moments, and optimizer=muon has others; leave it out"


def _of_kernels(values: Mapping[str, Any]) -> Iterator[Fault]:
    if values.get("kernels") != "fused":
        return
    beyond = RunConfig.beyond_hand_of(values)
    if beyond:
        yield "kernels", f"fused does not know {beyond}; leave one of them out"


def _is_set(values: Mapping[str, Any], key: str) -> bool:
    return key in values and values[key] != RunConfig.model_fields[key].default


def _listed(numbers: list[int]) -> str:
    *first, last = map(str, numbers)
    return f"{', '.join(first)} or {last}" if first else last
