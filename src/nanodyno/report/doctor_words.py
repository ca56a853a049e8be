"""What a checkup found, in words: what it is, and how to fix it."""

from collections.abc import Callable
from typing import Any

from nanodyno.analysis.findings import Code, Finding
from nanodyno.report import quantities
from nanodyno.report.language import ENGLISH, Language, Plural, message

WORDS: dict[Code, tuple[str | Plural, str | None]] = {
    "torch-broken": (
        message("torch does not run: {words}"),
        message("install it anew: python -m pip install -c constraints.txt -e . (README.md)"),
    ),
    "torch-not-for-gpu": (
        message("this torch has no kernels for {gpu} (compute capability {sm})"),
        message("install a torch build that has them (2.11 or later), leaving out -c constraints.txt"),
    ),
    "torch-for-cpu": (
        Plural(
            "NVIDIA's driver lists {n} card, but this torch ({torch}) was built for the CPU",
            "NVIDIA's driver lists {n} cards, but this torch ({torch}) was built for the CPU",
            by="gpus",
        ),
        message("install a CUDA build of torch"),
    ),
    "gpu-not-seen": (
        message("NVIDIA's driver ({driver}) lists a card, but torch (CUDA {cuda}) sees none"),
        message(
            "a build for CUDA 13 wants driver 580 or later; see also that CUDA_VISIBLE_DEVICES is not empty"
        ),
    ),
    "no-triton": (
        message("the fused kernels cannot be had: {words}"),
        message(
            "python -m pip install triton (on Windows triton-windows); cards before Ampere train without them"
        ),
    ),
    "no-cudnn-front-end": (
        message("the fastest attention is not installed"),
        message("python -m pip install -e '.[gpu]'"),
    ),
    "no-attention": (
        message("no fast attention runs here: {words}"),
        message("a newer driver or torch may help; training falls back to the plain one, slower and larger"),
    ),
    "gpu-full": (
        message("only {bytes} of the card are free"),
        message("end the programs that hold the rest, listed above"),
    ),
    "memory-held": (
        message("other programs hold {bytes} of the card"),
        message("end those that are not needed, listed above; a display is better driven by another card"),
    ),
    "hot-gpu": (
        message("the card throttles for heat at {celsius} degrees"),
        message("clear its fans and filters, or lower its power limit: sudo nvidia-smi -pl WATTS"),
    ),
    "compile-fails": (
        message("torch.compile does not work: {words}"),
        message(
            "on a CPU it needs a C++ compiler and Python's headers, on a GPU Triton; without it "
            "training runs uncompiled, and kernels=autograd is slower for it, as is an optimizer's own step "
            "on a GPU"
        ),
    ),
    "not-measured": (
        message("the ceilings could not be measured: {words}"),
        message("free the card's memory and ask again: nanodyno doctor --again"),
    ),
    "cache-refuses": (
        message("the ceilings cannot be remembered in {words}"),
        message(
            "make that writable, or set XDG_CACHE_HOME to a folder of your own; until then `train` "
            "and `show` name no share of them"
        ),
    ),
    "low-ceiling": (
        message("large products reach only {share} of the datasheet"),
        message(
            "look for a lowered power limit, heat, or another program on the card; then nanodyno "
            "doctor --again"
        ),
    ),
    "disk-refuses": (
        message("nothing can be written to {folder}: {words}"),
        message("go to a folder of your own, or give train an --out_dir elsewhere"),
    ),
    "little-disk": (
        message("only {bytes} of disk are free"),
        message("make room: a checkpoint of 124M parameters has 1.4 GiB, and three are kept"),
    ),
    "slow-disk": (
        message("this disk takes only {rate}"),
        message("train in a folder on another disk (not a network one), or save less often with --autosave"),
    ),
    "little-memory": (
        message("only {bytes} of the host's memory are free"),
        message("end other programs: loading and saving a model needs some"),
    ),
    "gpu-pages": (
        message(
            "a full card borrows the host's memory here, and training becomes many times slower "
            "without a word"
        ),
        message(
            "NVIDIA Control Panel, Manage 3D settings, CUDA - Sysmem Fallback Policy: Prefer No "
            "Sysmem Fallback"
        ),
    ),
    "no-gpu": (
        message("no NVIDIA card is known here ({words}): training runs on the CPU, for trials"),
        None,
    ),
    "nvml-silent": (
        message(
            "NVIDIA's library does not answer ({words}): who holds the card's memory, its heat and "
            "its power are not known"
        ),
        None,
    ),
    "different-gpus": (
        message(
            "torch sees different cards ({gpus}); this page is about {meant}: --device=cuda:N chooses another"
        ),
        None,
    ),
    "unknown-gpu": (
        message(
            "{gpu} is not in the card table, so no datasheet peak is shown; shares are of what is measured"
        ),
        None,
    ),
    "no-bfloat16": (
        message("{gpu} has no bfloat16: training multiplies in float16 with a loss scaler"),
        None,
    ),
    "few-lanes": (
        message(
            "the card uses {lanes} of {most} PCI Express lanes: copies from the host are slower, "
            "which offload_moments feels"
        ),
        None,
    ),
    "not-remembered": (
        message(
            "the ceilings were disturbed, as told above, and are not remembered: nanodyno doctor "
            "measures them again when it is asked again"
        ),
        None,
    ),
}
"""By code: what it is and, where something is to be done, what."""

OUR_REASONS = frozenset(
    {
        message("no answer"),
        message("NVIDIA's driver lists none"),
        message("no reason was given"),
        message("unknown"),
    }
)
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
    return language.say(words) if words in OUR_REASONS else words
