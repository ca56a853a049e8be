"""Measured ceilings as a table and as a document."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from rich.table import Table

from nanodyno.hardware.cards import Card
from nanodyno.hardware.ceilings import Ceilings, Timing
from nanodyno.report import quantities

UNKNOWN = "-"


@dataclass(frozen=True)
class Row:
    title: str
    value: str
    spread: float | None
    share: float | None = None
    """Of the datasheet."""


def measured_words(ceilings: Ceilings, remembered: bool) -> str:
    when = datetime.fromtimestamp(ceilings.measured_at, UTC)
    took = quantities.duration(ceilings.seconds)
    again = "; --again measures anew" if remembered else ""
    return f"measured ceilings ({when:%Y-%m-%d %H:%M} UTC, torch {ceilings.torch}, in {took}{again})"


def ceilings_table(ceilings: Ceilings, card: Card | None) -> Table:
    """The spread is half of the middle half of the times."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("", no_wrap=True)
    for title in ("median", "spread", *(["of datasheet"] if card else [])):
        table.add_column(title, justify="right", no_wrap=True)
    for row in ceiling_rows(ceilings, card):
        cells = [row.value, UNKNOWN if row.spread is None else quantities.spread(row.spread / 2)]
        cells += [UNKNOWN if row.share is None else quantities.percent(row.share)] if card else []
        table.add_row(row.title, *cells)
    return table


def ceiling_rows(ceilings: Ceilings, card: Card | None) -> Iterator[Row]:
    for dtype, product in ceilings.large.items():
        peak = card.peak_flops(dtype) if card else None
        title = f"products {product.m} x {product.m}, {dtype}"
        yield _flops_row(title, product.timing.rate, product.timing.spread, peak)
    peak = card.peak_flops(ceilings.gpt_dtype) if card else None
    for width, products in ceilings.gpt.items():
        spreads = [each.timing.spread for each in products.values() if each.timing.spread is not None]
        rate = ceilings.gpt_flops(width)
        if rate is not None:
            yield _flops_row(f"a GPT's products, width {width}", rate, max(spreads, default=None), peak)
    if ceilings.copy is not None:
        rate, copy = ceilings.copy.rate, ceilings.copy
        share = rate / card.bandwidth_bytes_per_second if card else None
        yield Row("copy, read and written", quantities.byte_rate(rate), copy.spread, share)
    if ceilings.host_to_device is not None:
        upload = ceilings.host_to_device
        yield Row("host to device", quantities.byte_rate(upload.rate), upload.spread)
    yield from _launch_rows(ceilings)


def _flops_row(title: str, rate: float, spread: float | None, peak: float | None) -> Row:
    return Row(title, quantities.flop_rate(rate), spread, rate / peak if peak else None)


def _launch_rows(ceilings: Ceilings) -> Iterator[Row]:
    timings: dict[str, Timing | None] = {
        "one launch": ceilings.launch,
        "launching 12 layers, one by one": ceilings.micro_step.get("eager"),
        "launching 12 layers, as a graph": ceilings.micro_step.get("graph"),
    }
    for title, timing in timings.items():
        if timing is not None:
            yield Row(title, quantities.short_time(timing.each_seconds), timing.spread)


def ceilings_document(ceilings: Ceilings) -> dict[str, object]:
    copy, upload, launch = ceilings.copy, ceilings.host_to_device, ceilings.launch
    return {
        "matmul_flops_per_second": {dtype: ceilings.matmul_flops(dtype) for dtype in ceilings.large},
        "gpt_flops_per_second": {str(width): ceilings.gpt_flops(width) for width in ceilings.gpt},
        "copy_bytes_per_second": None if copy is None else copy.rate,
        "host_to_device_bytes_per_second": None if upload is None else upload.rate,
        "launch_seconds": None if launch is None else launch.each_seconds,
        "micro_step_launch_seconds": {way: each.each_seconds for way, each in ceilings.micro_step.items()},
    }
