"""The table of cards, to choose from."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from nanodyno.hardware.gpus import GIGA, TERA, Gpu
from nanodyno.report.language import ENGLISH, Language, message
from nanodyno.report.prose import Prose

UNKNOWN = "-"
LEFT_OUT = message(
    "TFLOP/s are of tensor cores by the datasheet, dense with sums in fp32, in bfloat16 (float16 on cards "
    "that have none). Laptop parts are left out, since their makers choose the clocks: --memory-limit 8GB in "
    "place of --gpu tells whether a config fits one."
)


def gpus_table(gpus: Sequence[Gpu], language: Language = ENGLISH) -> RenderableType:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("--gpu", no_wrap=True)
    for title in (message("GB"), "TFLOP/s", message("GB/s"), "W"):
        table.add_column(language.say(title), justify="right", no_wrap=True)
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
