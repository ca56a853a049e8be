"""The table of cards, to choose from."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from nanodyno.hardware.cards import GIGA, TERA, Card
from nanodyno.report.language import ENGLISH, Language, message
from nanodyno.report.prose import Prose

UNKNOWN = "-"
LEFT_OUT = message(
    "TFLOP/s are of tensor cores by the datasheet, dense with sums in fp32, in bfloat16 (float16 on cards "
    "that have none). Laptop parts are left out, since their makers choose the clocks: --memory-limit 8GB in "
    "place of --gpu tells whether a config fits one."
)


def cards_table(cards: Sequence[Card], language: Language = ENGLISH) -> RenderableType:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("--gpu", no_wrap=True)
    for title in (message("GB"), "TFLOP/s", message("GB/s"), "W"):
        table.add_column(language.say(title), justify="right", no_wrap=True)
    for card in cards:
        table.add_row(
            card.label,
            f"{card.memory_gb}",
            UNKNOWN if card.tensor_flops is None else language.number(card.tensor_flops / TERA, ",.1f"),
            language.number(card.bandwidth_bytes_per_second / GIGA, ",.0f"),
            f"{card.tdp_watts:.0f}",
        )
    return Group(table, Text(), Prose(language.say(LEFT_OUT), style="dim"))


def cards_document(cards: Sequence[Card]) -> dict[str, object]:
    return {"cards": [{"label": card.label, **vars(card)} for card in cards]}
