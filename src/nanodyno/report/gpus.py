"""The table of GPUs, to choose from."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from nanodyno.hardware.gpus import GIGA, TERA, Gpu
from nanodyno.messages.language import ENGLISH, Language
from nanodyno.report.prose import Prose

UNKNOWN = "-"
LEFT_OUT = "plan.gpus.note"


def gpus_table(gpus: Sequence[Gpu], language: Language = ENGLISH) -> RenderableType:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("--gpu", no_wrap=True)
    for title in ("GB", "TFLOP/s", "GB/s", "W"):
        table.add_column(language.unit(title), justify="right", no_wrap=True)
    for gpu in gpus:
        table.add_row(
            gpu.label,
            f"{gpu.memory_gb}",
            UNKNOWN if gpu.tensor_flops is None else language.number(gpu.tensor_flops / TERA, ",.1f"),
            language.number(gpu.bandwidth_bytes_per_second / GIGA, ",.0f"),
            f"{gpu.tdp_watts:.0f}",
        )
    return Group(table, Text(), Prose(language.say(LEFT_OUT), style="dim"))


def gpus_document(gpus: Sequence[Gpu]) -> dict[str, object]:
    return {"gpus": [{"label": gpu.label, **vars(gpu)} for gpu in gpus]}
