"""What a checkup found, in words: what it is, and how to fix it."""

from collections.abc import Callable
from typing import Any

from nanodyno.analysis.findings import Code, Finding
from nanodyno.messages.language import ENGLISH, Language, Plural
from nanodyno.report import quantities

WORDS: dict[Code, tuple[str | Plural, str | None]] = {
    "torch-broken": (
        "finding.torch-broken",
        "finding.torch-broken.fix",
    ),
    "torch-not-for-gpu": (
        "finding.torch-not-for-gpu",
        "finding.torch-not-for-gpu.fix",
    ),
    "torch-for-cpu": (
        Plural(
            "finding.torch-for-cpu",
            by="gpus",
        ),
        "finding.torch-for-cpu.fix",
    ),
    "gpu-not-seen": (
        "finding.gpu-not-seen",
        "finding.gpu-not-seen.fix",
    ),
    "no-triton": (
        "finding.no-triton",
        "finding.no-triton.fix",
    ),
    "no-cudnn-front-end": (
        "finding.no-cudnn-front-end",
        "finding.no-cudnn-front-end.fix",
    ),
    "no-attention": (
        "finding.no-attention",
        "finding.no-attention.fix",
    ),
    "gpu-full": (
        "finding.gpu-full",
        "finding.gpu-full.fix",
    ),
    "memory-held": (
        "finding.memory-held",
        "finding.memory-held.fix",
    ),
    "hot-gpu": (
        "finding.hot-gpu",
        "finding.hot-gpu.fix",
    ),
    "compile-fails": (
        "finding.compile-fails",
        "finding.compile-fails.fix",
    ),
    "not-measured": (
        "finding.not-measured",
        "finding.not-measured.fix",
    ),
    "cache-refuses": (
        "finding.cache-refuses",
        "finding.cache-refuses.fix",
    ),
    "low-ceiling": (
        "finding.low-ceiling",
        "finding.low-ceiling.fix",
    ),
    "disk-refuses": (
        "finding.disk-refuses",
        "finding.disk-refuses.fix",
    ),
    "little-disk": (
        "finding.little-disk",
        "finding.little-disk.fix",
    ),
    "slow-disk": (
        "finding.slow-disk",
        "finding.slow-disk.fix",
    ),
    "little-memory": (
        "finding.little-memory",
        "finding.little-memory.fix",
    ),
    "gpu-pages": (
        "finding.gpu-pages",
        "finding.gpu-pages.fix",
    ),
    "no-gpu": (
        "finding.no-gpu",
        None,
    ),
    "nvml-silent": (
        "finding.nvml-silent",
        None,
    ),
    "different-gpus": (
        "finding.different-gpus",
        None,
    ),
    "unknown-gpu": (
        "finding.unknown-gpu",
        None,
    ),
    "no-bfloat16": (
        "finding.no-bfloat16",
        None,
    ),
    "few-lanes": (
        "finding.few-lanes",
        None,
    ),
    "not-remembered": (
        "finding.not-remembered",
        None,
    ),
}
"""By code: what it is and, where something is to be done, what."""

OUR_REASONS = {
    "no answer": "doctor.reason.no-answer",
    "NVIDIA's driver lists none": "doctor.reason.driver-lists-none",
    "no reason was given": "doctor.reason.none-given",
    "unknown": "common.unknown",
}
"""Where there is no reason in another program's words."""
_SHOWN: dict[str, Callable[[Any, Language], str]] = {
    "bytes": lambda value, language: quantities.gib(int(value), language),
    "celsius": lambda value, language: language.number(value, "g"),
    "rate": quantities.byte_rate,
    "share": quantities.percent,
}


def finding_words(finding: Finding, language: Language = ENGLISH) -> tuple[str, str | None]:
    what, how = WORDS[finding.code]
    shown = {
        key: _SHOWN[key](value, language) if key in _SHOWN else _reason(str(value), language)
        for key, value in finding.numbers.items()
    }
    return language.tell(what, shown, finding.numbers), None if how is None else language.say(how)


def _reason(words: str, language: Language) -> str:
    return language.say(OUR_REASONS[words]) if words in OUR_REASONS else words
