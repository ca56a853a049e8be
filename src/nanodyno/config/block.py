# pyright: strict
"""What the settings of the modern block and of its optimiser must agree on."""

from collections.abc import Iterator, Mapping
from typing import Any

from nanodyno.config.attributes import ABSENT
from nanodyno.config.fields import SETTINGS, RunConfig

SettingFault = tuple[str, str]
_WINDOWED = ("auto", "flex", "flash", "fa3", "math")
_SHARING = ("auto", "cudnn", "flex", "flash", "fa3", "math")
"""Backends of the attention that have a window, and that take fewer heads of keys and values."""


def faults_of_the_block(values: Mapping[str, Any]) -> Iterator[SettingFault]:
    """Each as a key and words; a key that is missing was faulty by itself, and is not blamed again."""
    for key, each in SETTINGS.items():
        if each.requires is not None and _is_set(values, key) and not _is_met(each.requires, values):
            without = f"{key}={RunConfig.model_fields[key].default}"
            yield (
                key,
                f"{values[key]} has no effect without {each.requires}; add that, or leave it out "
                f"({without} where a recipe sets it)",
            )
    yield from _of_attention(values)
    yield from _of_value_embeddings(values)
    yield from _of_kernels(values)


def _is_met(required: str, values: Mapping[str, Any]) -> bool:
    """Whether a setting (key=value, or a key that must be there at all) is as another requires it."""
    key, equals, value = required.partition("=")
    if key not in values:
        return True
    return str(values[key]) == value if equals else values[key] not in ABSENT


def _of_attention(values: Mapping[str, Any]) -> Iterator[SettingFault]:
    n_head, shared, window = values.get("n_head"), values.get("n_kv_head"), values.get("window")
    block_size, n_embd = values.get("block_size"), values.get("n_embd")
    if n_head and shared and n_head % shared:
        fitting = [each for each in range(1, min(n_head, 1024) + 1) if n_head % each == 0]
        yield "n_kv_head", f"{shared} does not divide n_head={n_head}; use {_listed(fitting)}"
    if window and block_size and window > block_size:
        yield (
            "window",
            f"{window} is larger than block_size={block_size}; leave it out to attend to all positions",
        )
    yield from _of_backend(values)
    if values.get("positions") == "rope" and n_head and n_embd and (n_embd // n_head) % 2:
        yield (
            "positions",
            f"rope needs an even head size, and n_embd / n_head is {n_embd // n_head}",
        )


def _of_backend(values: Mapping[str, Any]) -> Iterator[SettingFault]:
    backend = values.get("attention", "auto")
    if values.get("window") and backend not in _WINDOWED:
        yield "attention", f"{backend} does not support a window; {', '.join(_WINDOWED)} do"
    shared = values.get("n_kv_head") not in (None, values.get("n_head"))
    if shared and backend not in _SHARING:
        yield "attention", f"{backend} does not support n_kv_head; {', '.join(_SHARING)} do"


def _of_value_embeddings(values: Mapping[str, Any]) -> Iterator[SettingFault]:
    tables, n_layer = values.get("value_embeddings"), values.get("n_layer")
    if tables and n_layer and 2 * tables > n_layer:
        most = f"{n_layer // 2} is the most"
        yield "value_embeddings", f"{tables} tables need {2 * tables} blocks, but n_layer={n_layer}; {most}"


def _of_kernels(values: Mapping[str, Any]) -> Iterator[SettingFault]:
    if values.get("kernels") != "fused":
        return
    beyond = RunConfig.fused_unsupported_of(values)
    if beyond:
        yield "kernels", f"fused does not support {beyond}; leave one of them out"


def _is_set(values: Mapping[str, Any], key: str) -> bool:
    return key in values and values[key] != RunConfig.model_fields[key].default


def _listed(numbers: list[int]) -> str:
    *first, last = map(str, numbers)
    return f"{', '.join(first)} or {last}" if first else last
