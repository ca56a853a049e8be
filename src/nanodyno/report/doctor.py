"""A machine on one page: what it is, what works, what it reaches, what to fix."""

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from nanodyno.analysis.checkup import Finding, can_train, findings, free_memory, state_of_card
from nanodyno.analysis.peaks import card_of
from nanodyno.hardware.cards import Card
from nanodyno.hardware.inventory import CardState
from nanodyno.records.checkup import CheckupRecord, DeviceRecord, DiskRecord, HostRecord
from nanodyno.report import quantities
from nanodyno.report.ceilings import ceilings_document, ceilings_table, measured_words
from nanodyno.report.disturbances import disturbance_words, holder_words
from nanodyno.report.doctor_words import finding_words

MOST_HOLDERS = 6
UNKNOWN = "-"
PAGES = "yes: a full card takes the host's memory, and training becomes many times slower without a word"
REFUSES = "no: a full card refuses at once, and nothing becomes slower"

Rows = Iterator[tuple[str, str]]


def doctor_page(found: CheckupRecord) -> RenderableType:
    told = findings(found)
    pieces: list[RenderableType] = [_facts(found), Text()]
    if found.ceilings is not None:
        pieces += [Text(measured_words(found.ceilings, found.remembered), style="bold")]
        pieces += [Padding(ceilings_table(found.ceilings, _card(found)), (0, 0, 0, 2)), Text()]
    elif found.ceilings_fault is None and found.device is not None:
        pieces += [Text("ceilings not measured yet: nanodyno doctor without --quick does"), Text()]
    if found.disturbances:
        pieces += [*(Text(f"disturbed: {disturbance_words(each)}") for each in found.disturbances), Text()]
    pieces += [*_to_fix(told), *_notes(told)]
    return Group(*pieces)


def _facts(found: CheckupRecord) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for title, words in _rows(found):
        table.add_row(title, Text(words))
    return table


def _rows(found: CheckupRecord) -> Rows:
    yield "machine", _host_words(found.host)
    if found.device is not None:
        yield from _device_rows(found, found.device)
    if found.compiling is not None:
        seconds = quantities.duration(found.compiling.seconds)
        works = f"works: a small function took {seconds} with empty caches"
        yield "compile", works if found.compiling.works else f"does not work, known after {seconds}"
    yield "disk", _disk_words(found.disk)


def _host_words(host: HostRecord) -> str:
    memory = f"{quantities.gib(host.memory_bytes)} of memory, {quantities.gib(host.available_bytes)} free"
    swap = f"swap {quantities.gib(host.swap_bytes)}" if host.swap_bytes else "no swap"
    used = f" ({quantities.gib(host.swap_used_bytes)} in use)" if host.swap_used_bytes else ""
    return f"{host.platform}, Python {host.python}; {memory}, {swap}{used}"


def _device_rows(found: CheckupRecord, device: DeviceRecord) -> Rows:
    machine = device.machine
    if machine.device_type == "cuda":
        yield from _card_rows(found, device, state_of_card(found))
    else:
        threads = quantities.threads(machine.cpu_threads)
        yield "device", f"{machine.device_name}, {machine.cpu_count} cores, torch computes with {threads}"
    yield "precision", _precision_words(device)
    yield "torch", _torch_words(device)
    yield "attention", _attention_words(device)


def _card_rows(found: CheckupRecord, device: DeviceRecord, state: CardState | None) -> Rows:
    machine = device.machine
    limit = None if state is None else state.power_limit_watts
    parts = [
        machine.device_name,
        f"{machine.multiprocessors} multiprocessors",
        f"compute capability {machine.compute_capability}",
        f"driver {found.inventory.driver or machine.driver or 'unknown'}",
        *([f"power limit {limit:.0f} W"] if limit else []),
    ]
    yield "card", ", ".join(parts)
    yield "memory", _memory_words(device, state)
    card = card_of(machine)
    yield "datasheet", "not in the table" if card is None else _datasheet_words(card, device.dtype)
    yield "paging", PAGES if found.host.card_can_page else REFUSES


def _memory_words(device: DeviceRecord, state: CardState | None) -> str:
    total, free = device.machine.device_memory_bytes, free_memory(device, state)
    words = UNKNOWN if total is None else quantities.gib(total)
    words += "" if free is None else f", {quantities.gib(free)} free"
    if state is None:
        return f"{words}; who holds it is not known"
    if not state.holders:
        return f"{words}; no other program is known to use it"
    named = ", ".join(map(holder_words, state.holders[:MOST_HOLDERS]))
    more = len(state.holders) - MOST_HOLDERS
    return f"{words}; held by {named}" + (f" and {more} more" if more > 0 else "")


def _datasheet_words(card: Card, dtype: str) -> str:
    peaks = {each: card.peak_flops(each) for each in dict.fromkeys((dtype, "float32"))}
    rates = [f"{quantities.flop_rate(peak)} in {each}" for each, peak in peaks.items() if peak]
    bandwidth = quantities.byte_rate(card.bandwidth_bytes_per_second)
    by_rule = ", by the rule of docs/doctor.md" if card.basis == "rule" else ""
    words = f"{', '.join(rates)} (dense, summed in fp32), {bandwidth}, {card.tdp_watts:.0f} W"
    return f"{words} ({card.source}{by_rule})"


def _precision_words(device: DeviceRecord) -> str:
    had = {"bfloat16": device.bfloat16, "float16": device.float16, "fp8": device.fp8}
    if device.machine.device_type != "cuda":
        return f"training multiplies in {device.dtype}"
    yes = [name for name, has in had.items() if has]
    no = [name for name, has in had.items() if not has]
    words = f"in hardware: {', '.join(yes) or 'float32 only'}"
    words += f"; not: {', '.join(no)}" if no else ""
    return f"{words}; training multiplies in {device.dtype}"


def _torch_words(device: DeviceRecord) -> str:
    parts = [device.torch, f"CUDA {device.cuda}" if device.cuda else "built for the CPU"]
    parts += [f"cuDNN {_cudnn(device.cudnn)}"] if device.cudnn else []
    parts += [f"Triton {device.triton}" if device.triton else "no Triton"]
    return ", ".join(parts)


def _cudnn(number: int) -> str:
    """91900 is 9.19.0."""
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


def _attention_words(device: DeviceRecord) -> str:
    times = sorted(device.attention_seconds.items(), key=lambda each: each[1])
    runs = ", ".join(f"{name} {quantities.milliseconds(seconds)}" for name, seconds in times)
    shape = " x ".join(map(str, device.attention_shape))
    words = f"runs: {runs} (forward and backward, {shape})" if runs else "none runs"
    return words + (f"; not: {', '.join(device.attention_faults)}" if device.attention_faults else "")


def _disk_words(disk: DiskRecord) -> str:
    if disk.fault is not None:
        return f"{disk.folder}: {disk.fault}"
    words = UNKNOWN if disk.free_bytes is None else f"{quantities.gib(disk.free_bytes)} free here"
    if disk.bytes and disk.write_seconds:
        words += f", writes {quantities.byte_rate(disk.bytes / disk.write_seconds)} (flushed)"
    if disk.bytes and disk.read_seconds:
        words += f", reads {quantities.byte_rate(disk.bytes / disk.read_seconds)}"
    return words


def _card(found: CheckupRecord) -> Card | None:
    return None if found.device is None else card_of(found.device.machine)


def _to_fix(told: Sequence[Finding]) -> Iterator[RenderableType]:
    wrong = [each for each in told if each.severity != "note"]
    if not wrong:
        yield Text("nothing to fix", style="bold green")
        return
    yield Text("to fix", style="bold")
    table = Table.grid(padding=(0, 1))
    table.add_column(justify="right")
    table.add_column()
    for number, finding in enumerate(wrong, start=1):
        what, how = finding_words(finding)
        stops = finding.severity == "impossible"
        words = Text(f"{what}{' (training is impossible)' if stops else ''}", style="red" if stops else "")
        words.append(f"\n{how}", style="dim")
        table.add_row(f"{number}.", words)
    yield Padding(table, (0, 0, 0, 2))


def _notes(told: Sequence[Finding]) -> Iterator[RenderableType]:
    notes = [finding_words(each)[0] for each in told if each.severity == "note"]
    if notes:
        yield Text()
        yield Text("good to know", style="bold")
        table = Table.grid(padding=(0, 1))
        for words in notes:
            table.add_row("-", Text(words))
        yield Padding(table, (0, 0, 0, 2))


def doctor_document(found: CheckupRecord) -> dict[str, object]:
    """Raw facts and what is derived from them, under the names of the code."""
    told, card, ceilings = findings(found), _card(found), found.ceilings
    return {
        "checkup": found.model_dump(mode="json"),
        "card": None if card is None else {"label": card.label, **vars(card)},
        "ceilings": None if ceilings is None else ceilings_document(ceilings),
        "findings": [_finding_document(each) for each in told],
        "can_train": can_train(told),
    }


def _finding_document(finding: Finding) -> dict[str, object]:
    what, how = finding_words(finding)
    return {**vars(finding), "what": what, "how": how}
