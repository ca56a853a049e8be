"""What a checkup found, in words: what it is, and how to fix it."""

from collections.abc import Callable

from nanodyno.analysis.checkup import Code, Finding
from nanodyno.report import quantities

WORDS: dict[Code, tuple[str, str | None]] = {
    "torch-broken": (
        "torch does not run: {words}",
        "install it anew: python -m pip install -c constraints.txt -e . (README.md)",
    ),
    "torch-not-for-card": (
        "this torch has no kernels for {card} (compute capability {sm})",
        "install a torch build that has them (2.11 or later), leaving out -c constraints.txt",
    ),
    "torch-for-cpu": (
        "NVIDIA's driver lists {cards} card(s), but this torch ({torch}) was built for the CPU",
        "install a CUDA build of torch",
    ),
    "card-not-seen": (
        "NVIDIA's driver ({driver}) lists a card, but torch (CUDA {cuda}) sees none",
        "a build for CUDA 13 wants driver 580 or later; see also that CUDA_VISIBLE_DEVICES is not empty",
    ),
    "no-triton": (
        "the fused kernels cannot be had: {words}",
        "python -m pip install triton (on Windows triton-windows); cards before Ampere train without them",
    ),
    "no-cudnn-front-end": (
        "the fastest attention is not installed",
        "python -m pip install -e '.[gpu]'",
    ),
    "no-attention": (
        "no fast attention runs here: {words}",
        "a newer driver or torch may help; training falls back to the plain one, slower and larger",
    ),
    "card-full": ("only {bytes} of the card are free", "end the programs that hold the rest, listed above"),
    "memory-held": (
        "other programs hold {bytes} of the card",
        "end those that are not needed, listed above; a display is better driven by another card",
    ),
    "hot-card": (
        "the card throttles for heat at {celsius} degrees",
        "clear its fans and filters, or lower its power limit: sudo nvidia-smi -pl WATTS",
    ),
    "compile-fails": (
        "torch.compile does not work: {words}",
        "on a CPU it needs a C++ compiler and Python's headers, on a card Triton; without it training runs "
        "uncompiled, and only kernels=autograd is slower for it",
    ),
    "not-measured": (
        "the ceilings could not be measured: {words}",
        "free the card's memory and ask again: nanodyno doctor --again",
    ),
    "cache-refuses": (
        "the ceilings cannot be remembered in {words}",
        "make that writable, or set XDG_CACHE_HOME to a folder of your own; until then `train` and `show` "
        "name no share of them",
    ),
    "low-ceiling": (
        "large products reach only {share} of the datasheet",
        "look for a lowered power limit, heat, or another program on the card; then nanodyno doctor --again",
    ),
    "disk-refuses": (
        "nothing can be written to {folder}: {words}",
        "go to a folder of your own, or give train an --out_dir elsewhere",
    ),
    "little-disk": (
        "only {bytes} of disk are free",
        "make room: a checkpoint of 124M parameters has 1.4 GiB, and three are kept",
    ),
    "slow-disk": (
        "this disk takes only {rate}",
        "train in a folder on another disk (not a network one), or save less often with --autosave",
    ),
    "little-memory": (
        "only {bytes} of the host's memory are free",
        "end other programs: loading and saving a model needs some",
    ),
    "card-pages": (
        "a full card borrows the host's memory here, and training becomes many times slower without a word",
        "NVIDIA Control Panel, Manage 3D settings, CUDA - Sysmem Fallback Policy: Prefer No Sysmem Fallback",
    ),
    "no-card": ("no NVIDIA card is known here ({words}): training runs on the CPU, for trials", None),
    "nvml-silent": (
        "NVIDIA's library does not answer ({words}): who holds the card's memory, its heat and its power are "
        "not known",
        None,
    ),
    "different-cards": (
        "torch sees different cards ({cards}); this page is about {meant}: --device=cuda:N chooses another",
        None,
    ),
    "unknown-card": (
        "{card} is not in the card table, so no datasheet peak is shown; shares are of what is measured",
        None,
    ),
    "no-bfloat16": (
        "{card} has no bfloat16: training multiplies in float16 with a loss scaler",
        None,
    ),
    "few-lanes": (
        "the card uses {lanes} of {most} PCI Express lanes: copies from the host are slower, which "
        "offload_moments feels",
        None,
    ),
    "not-remembered": (
        "the ceilings were disturbed, as told above, and are not remembered: nanodyno doctor measures them "
        "again when it is asked again",
        None,
    ),
}
"""By code: what it is and, where something is to be done, what."""

_SHOWN: dict[str, Callable[[float], str]] = {
    "bytes": lambda value: quantities.gib(int(value)),
    "rate": quantities.byte_rate,
    "share": quantities.percent,
}


def finding_words(finding: Finding) -> tuple[str, str | None]:
    what, how = WORDS[finding.code]
    shown = {
        key: _SHOWN[key](value) if key in _SHOWN and not isinstance(value, str) else value
        for key, value in finding.numbers.items()
    }
    return what.format(**shown), how
