"""What a driver's name of a GPU says, word by word: no name is part of another."""

import re
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile

# Drivers put these before the name, some versions of them and not others.
_MAKERS = frozenset({"nvidia", "geforce", "tesla", "amd", "instinct", "apple"})
# ROCm puts these behind it: a whole GPU in a virtual machine, and its module.
_AMD_ENDS = frozenset({"vf", "oam"})
_SERIES = frozenset({"rtx", "gtx", "quadro", "radeon", "rx", "pro", "ai"})
"""Which people leave out."""
_MOBILE = frozenset({"laptop", "mobile", "notebook"})
_NOT_SAID = frozenset({"gpu", "with", "design", "generation", "edition"})
_MEMORY = re.compile(r"(\d+)gb?")
_SPACED_MEMORY = re.compile(r"\b(\d+) +gi?b\b")
_SERIES_JOINED = re.compile(r"\b(rtx|gtx|rx)(\d{3,4})")
_JOINED = re.compile(r"\b(\d{4})(ti|super|xtx|xt|gre)\b")
_MOBILE_NUMBER = re.compile(r"(\d{3,4})m")


@dataclass(frozen=True)
class GpuName:
    words: tuple[str, ...]
    """All of them in lower case, but the maker's and the memory: `A100-SXM4-40GB` has `a100` and `sxm4`."""
    memory_gb: int | None
    """As the name has it, which need not be the GPU's own: the 480GB of a GH200 are its host's."""

    @cached_property
    def said(self) -> tuple[str, ...]:
        """Return the words that people say, of one spelling: `RTX 4070 Laptop GPU` and `rtx 4070m` alike."""
        spelt: list[str] = []
        for word in self.words:
            number = _MOBILE_NUMBER.fullmatch(word)
            spelt += [number[1], "laptop"] if number else ["laptop" if word in _MOBILE else word]
        said = tuple(word for word in spelt if word not in _NOT_SAID)
        return (*(word for word in said if word != "laptop"), *("laptop",)[: "laptop" in said])

    @cached_property
    def meanings(self) -> frozenset[tuple[str, ...]]:
        """Return each way to say the whole name: `rx 7900 xtx` and `7900 xtx` of a `Radeon RX 7900 XTX`.

        Nobody leaves Quadro out: three other GPUs are an `RTX 6000` too.
        """
        left_out = len(self.series) if "quadro" not in self.series else 0
        return frozenset(self.said[start:] for start in range(left_out + 1))

    @property
    def is_mobile(self) -> bool:
        """Return whether it is named as a laptop's; a `Max-Q Workstation Edition` is not."""
        return "laptop" in self.said or {"max", "q", "design"} <= set(self.words)

    @property
    def model(self) -> tuple[str, ...]:
        """Return the words without the series: `4070 Ti`."""
        return self.said[len(self.series) :]

    @cached_property
    def series(self) -> tuple[str, ...]:
        """Return the words before the model: `Radeon RX`."""
        return tuple(takewhile(_SERIES.__contains__, self.said))


def parse_name(name: str) -> GpuName:
    apart = _SERIES_JOINED.sub(r"\1 \2", name.casefold())
    spaced = _JOINED.sub(r"\1 \2", _SPACED_MEMORY.sub(r"\1gb", apart))
    words = re.findall(r"[^\s\-_]+", spaced)
    is_amd = words[:1] == ["amd"]
    while words and words[0] in _MAKERS:
        words.pop(0)
    while is_amd and len(words) > 1 and words[-1] in _AMD_ENDS:
        words.pop()
    sizes = [found for word in words if (found := _MEMORY.fullmatch(word))]
    kept = (word for word in words if not _MEMORY.fullmatch(word))
    return GpuName(tuple(kept), int(sizes[0][1]) if len(sizes) == 1 else None)
