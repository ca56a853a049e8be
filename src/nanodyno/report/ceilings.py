"""Measured ceilings as a table and as a document."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from rich.table import Table

from nanodyno.hardware.ceilings import Ceilings, Timing
from nanodyno.hardware.gpus import Gpu
from nanodyno.messages import quantities
from nanodyno.messages.language import ENGLISH, Language

UNKNOWN = "-"


@dataclass(frozen=True)
class CeilingRow:
    title: str
    value: str
    spread: float | None
    share: float | None = None
    """Of the datasheet."""


def measured_words(ceilings: Ceilings, remembered: bool, language: Language = ENGLISH) -> str:
    words = "doctor.ceilings.title-remembered" if remembered else "doctor.ceilings.title"
    return language.say(
        words,
        when=language.moment(datetime.fromtimestamp(ceilings.measured_at, UTC)),
        torch=ceilings.torch,
        seconds=quantities.duration(ceilings.seconds, language),
    )


def ceilings_table(ceilings: Ceilings, gpu: Gpu | None, language: Language = ENGLISH) -> Table:
    """The spread is half of the middle half of the times."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("", no_wrap=True)
    titles = [language.say("doctor.ceilings.median"), language.say("doctor.ceilings.spread")]
    for title in [*titles, language.say("doctor.ceilings.share-of-datasheet")] if gpu else titles:
        table.add_column(title, justify="right", no_wrap=True)
    for row in ceiling_rows(ceilings, gpu, language):
        cells = [row.value, UNKNOWN if row.spread is None else quantities.spread(row.spread / 2, language)]
        cells += [UNKNOWN if row.share is None else quantities.percent(row.share, language)] if gpu else []
        table.add_row(row.title, *cells)
    return table


def ceiling_rows(ceilings: Ceilings, gpu: Gpu | None, language: Language = ENGLISH) -> Iterator[CeilingRow]:
    for dtype, product in ceilings.large.items():
        peak = gpu.peak_flops_per_second(dtype) if gpu else None
        title = language.say("doctor.ceilings.large-matmul", size=str(product.m), dtype=dtype)
        yield _flops_row(title, product.timing, peak, language)
    peak = gpu.peak_flops_per_second(ceilings.gpt_dtype) if gpu else None
    for width, products in ceilings.gpt.items():
        spreads = [each.timing.spread for each in products.values() if each.timing.spread is not None]
        rate = ceilings.gpt_flops(width)
        if rate is not None:
            title = language.say("doctor.ceilings.gpt-matmuls", width=str(width))
            value = quantities.flop_rate(rate, language)
            yield CeilingRow(title, value, max(spreads, default=None), rate / peak if peak else None)
    if ceilings.copy is not None:
        rate, copy = ceilings.copy.rate, ceilings.copy
        share = rate / gpu.bandwidth_bytes_per_second if gpu else None
        value = quantities.byte_rate(rate, language)
        yield CeilingRow(language.say("doctor.ceilings.memory-copy"), value, copy.spread, share)
    if ceilings.host_to_device is not None:
        upload = ceilings.host_to_device
        value = quantities.byte_rate(upload.rate, language)
        yield CeilingRow(language.say("doctor.ceilings.host-to-device"), value, upload.spread)
    yield from _launch_rows(ceilings, language)


def _flops_row(title: str, timing: Timing, peak: float | None, language: Language) -> CeilingRow:
    value = quantities.flop_rate(timing.rate, language)
    return CeilingRow(title, value, timing.spread, timing.rate / peak if peak else None)


def _launch_rows(ceilings: Ceilings, language: Language) -> Iterator[CeilingRow]:
    timings: dict[str, Timing | None] = {
        "doctor.ceilings.single-launch": ceilings.launch,
        "doctor.ceilings.layer-launches": ceilings.micro_step.get("eager"),
        "doctor.ceilings.layer-launches-graph": ceilings.micro_step.get("graph"),
    }
    for title, timing in timings.items():
        if timing is not None:
            value = quantities.short_time(timing.each_seconds, language)
            yield CeilingRow(language.say(title), value, timing.spread)


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
