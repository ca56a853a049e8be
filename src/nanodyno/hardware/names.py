"""What a driver's name of a card says, word by word: no name is part of another."""

import re
from dataclasses import dataclass

# Drivers put these before the name, some versions of them and not others.
_MAKERS = frozenset({"nvidia", "geforce", "tesla", "amd", "instinct"})
_SERIES = frozenset({"rtx", "gtx", "quadro", "radeon"})
"""Which people leave out."""
_MOBILE = frozenset({"laptop", "mobile", "notebook", "design"})
"""`with Max-Q Design` is a laptop's; a `Max-Q Workstation Edition` is not."""
_MEMORY = re.compile(r"(\d+)gb?")


@dataclass(frozen=True)
class GpuName:
    words: tuple[str, ...]
    """All of them in lower case, but the maker's and the memory: `A100-SXM4-40GB` has `a100` and `sxm4`."""
    memory_gb: int | None
    """As the name has it, which need not be the card's own: the 480GB of a GH200 are its host's."""

    @property
    def is_mobile(self) -> bool:
        """Whether it is named as a laptop's; `4070m` is one too."""
        return any(word in _MOBILE or re.fullmatch(r"\d{3,4}m", word) for word in self.words)

    @property
    def model(self) -> tuple[str, ...]:
        """The words as people say them: `4070 Ti`."""
        first = next((n for n, word in enumerate(self.words) if word not in _SERIES), 0)
        return self.words[first:]


def parse_name(name: str) -> GpuName:
    words = re.findall(r"[^\s\-_]+", name.casefold())
    while words and words[0] in _MAKERS:
        words.pop(0)
    sizes = [found for word in words if (found := _MEMORY.fullmatch(word))]
    kept = (word for word in words if not _MEMORY.fullmatch(word))
    return GpuName(tuple(kept), int(sizes[0][1]) if len(sizes) == 1 else None)
