"""A machine on one page: what it is, what works, what it reaches, what to fix."""

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from nanodyno.analysis.checkup import can_train, findings, free_memory, state_of_gpu
from nanodyno.analysis.findings import Finding
from nanodyno.analysis.metrics import gpu_of
from nanodyno.hardware.gpus import Gpu
from nanodyno.hardware.inventory import GpuState
from nanodyno.records.checkup import CheckupRecord, DeviceRecord, DiskRecord, HostRecord
from nanodyno.report import quantities
from nanodyno.report.ceilings import ceilings_document, ceilings_table, measured_words
from nanodyno.report.disturbances import disturbance_words, holder_words
from nanodyno.report.doctor_words import finding_words
from nanodyno.report.language import ENGLISH, Language, message
from nanodyno.report.prose import Prose

MOST_HOLDERS = 6
UNKNOWN = "-"
PAGES = message(
    "yes: a full card takes the host's memory, and training becomes many times slower without a word"
)
REFUSES = message("no: a full card refuses at once, and nothing becomes slower")

DoctorRows = Iterator[tuple[str, str]]


def doctor_page(found: CheckupRecord, language: Language = ENGLISH) -> RenderableType:
    reported = findings(found)
    pieces: list[RenderableType] = [_facts(found, language), Text()]
    if found.ceilings is not None:
        pieces += [Prose(measured_words(found.ceilings, found.remembered, language), style="bold")]
        pieces += [Padding(ceilings_table(found.ceilings, _gpu(found), language), (0, 0, 0, 2)), Text()]
    elif found.ceilings_fault is None and found.device is not None:
        words = language.say("ceilings not measured yet: nanodyno doctor without --quick does")
        pieces += [Prose(words), Text()]
    if found.disturbances:
        every = (disturbance_words(each, language) for each in found.disturbances)
        pieces += [*(Prose(language.say("disturbed: {cause}", cause=each)) for each in every), Text()]
    pieces += [*_to_fix(reported, language), *_notes(reported, language)]
    return Group(*pieces)


def _facts(found: CheckupRecord, language: Language) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for title, words in _rows(found, language):
        table.add_row(title, Prose(words))
    return table


def _rows(found: CheckupRecord, language: Language) -> DoctorRows:
    yield language.say("machine"), _host_words(found.host, language)
    if found.device is not None:
        yield from _device_rows(found, found.device, language)
    if found.compiling is not None:
        seconds = quantities.duration(found.compiling.seconds, language)
        words = (
            message("works: a small function took {seconds} with empty caches")
            if found.compiling.works
            else message("does not work, known after {seconds}")
        )
        yield language.say("compile"), language.say(words, seconds=seconds)
    yield language.say("disk"), _disk_words(found.disk, language)


def _host_words(host: HostRecord, language: Language) -> str:
    memory = language.say(
        "{size} of memory, {free} free",
        size=quantities.gib(host.memory_bytes, language),
        free=quantities.gib(host.available_bytes, language),
    )
    swap = quantities.gib(host.swap_bytes, language)
    if not host.swap_bytes:
        swap_words = language.say("no swap")
    elif host.swap_used_bytes:
        used = quantities.gib(host.swap_used_bytes, language)
        swap_words = language.say("swap {size} ({used} in use)", size=swap, used=used)
    else:
        swap_words = language.say("swap {size}", size=swap)
    program = language.joined([host.platform, f"Python {host.python}"])
    return language.clauses([program, language.joined([memory, swap_words])])


def _device_rows(found: CheckupRecord, device: DeviceRecord, language: Language) -> DoctorRows:
    machine = device.machine
    if machine.device_type == "cuda":
        yield from _gpu_rows(found, device, language)
    else:
        words = language.say_plural(
            "{device}, {n} core, torch computes with {threads}",
            "{device}, {n} cores, torch computes with {threads}",
            machine.cpu_count,
            device=machine.device_name,
            threads=quantities.threads(machine.cpu_threads, language),
        )
        yield language.say("device"), words
    yield language.say("precision"), _precision_words(device, language)
    yield "torch", _torch_words(device, language)
    yield language.say("attention"), _attention_words(device, language)


def _gpu_rows(found: CheckupRecord, device: DeviceRecord, language: Language) -> DoctorRows:
    machine, state = device.machine, state_of_gpu(found)
    limit = None if state is None else state.power_limit_watts
    driver = found.inventory.driver or machine.driver or language.say("unknown")
    parts = [
        machine.device_name,
        language.say_plural("{n} multiprocessor", "{n} multiprocessors", machine.multiprocessors or 0),
        language.say("compute capability {number}", number=str(machine.compute_capability)),
        language.say("driver {number}", number=driver),
    ]
    if limit:
        parts.append(language.say("power limit {watts} W", watts=language.number(limit, ".0f")))
    yield language.say("card"), language.joined(parts)
    yield language.say("memory"), _memory_words(device, state, language)
    gpu = gpu_of(machine)
    words = language.say("not in the table") if gpu is None else _datasheet_words(gpu, device.dtype, language)
    yield language.say("datasheet"), words
    yield language.say("paging"), language.say(PAGES if found.host.gpu_can_page else REFUSES)


def _memory_words(device: DeviceRecord, state: GpuState | None, language: Language) -> str:
    total, free = device.machine.device_memory_bytes, free_memory(device, state)
    parts = [UNKNOWN if total is None else quantities.gib(total, language)]
    parts += [] if free is None else [language.say("{size} free", size=quantities.gib(free, language))]
    return language.clauses([language.joined(parts), _holders_words(state, language)])


def _holders_words(state: GpuState | None, language: Language) -> str:
    if state is None:
        return language.say("who holds it is not known")
    if not state.holders:
        return language.say("no other program is known to use it")
    named = language.joined([holder_words(each, language) for each in state.holders[:MOST_HOLDERS]])
    more = len(state.holders) - MOST_HOLDERS
    if more <= 0:
        return language.say("held by {holders}", holders=named)
    return language.say_plural(
        "held by {holders} and {n} more", "held by {holders} and {n} more", more, holders=named
    )


def _datasheet_words(gpu: Gpu, dtype: str, language: Language) -> str:
    peaks = {each: gpu.peak_flops_per_second(each) for each in dict.fromkeys((dtype, "float32"))}
    rates = language.joined(
        [
            language.say("{rate} in {dtype}", rate=quantities.flop_rate(peak, language), dtype=each)
            for each, peak in peaks.items()
            if peak
        ]
    )
    source = gpu.source
    if gpu.basis == "rule":
        source = language.say("{source}, by the rule of docs/doctor.md", source=source)
    return language.say(
        "{rates} (dense, summed in fp32), {bandwidth}, {watts} W ({source})",
        rates=rates,
        bandwidth=quantities.byte_rate(gpu.bandwidth_bytes_per_second, language),
        watts=language.number(gpu.tdp_watts, ".0f"),
        source=source,
    )


def _precision_words(device: DeviceRecord, language: Language) -> str:
    training = language.say("training multiplies in {dtype}", dtype=device.dtype)
    if device.machine.device_type != "cuda":
        return training
    had = {"bfloat16": device.bfloat16, "float16": device.float16, "fp8": device.fp8}
    yes = [name for name, has in had.items() if has]
    no = [name for name, has in had.items() if not has]
    in_hardware = language.joined(yes) if yes else language.say("float32 only")
    parts = [language.say("in hardware: {dtypes}", dtypes=in_hardware)]
    parts += [language.say("not: {names}", names=language.joined(no))] if no else []
    return language.clauses([*parts, training])


def _torch_words(device: DeviceRecord, language: Language) -> str:
    parts = [device.torch, f"CUDA {device.cuda}" if device.cuda else language.say("built for the CPU")]
    parts += [f"cuDNN {_cudnn(device.cudnn)}"] if device.cudnn else []
    parts += [f"Triton {device.triton}" if device.triton else language.say("no Triton")]
    return language.joined(parts)


def _cudnn(number: int) -> str:
    """91900 is 9.19.0."""
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


def _attention_words(device: DeviceRecord, language: Language) -> str:
    times = sorted(device.attention_seconds.items(), key=lambda each: each[1])
    runs = [f"{name} {quantities.milliseconds(seconds, language)}" for name, seconds in times]
    shape = " x ".join(map(str, device.attention_shape))
    words = language.say("none runs")
    if runs:
        words = language.say(
            "runs: {times} (forward and backward, {shape})", times=language.joined(runs), shape=shape
        )
    if not device.attention_faults:
        return words
    names = language.joined(list(device.attention_faults))
    return language.clauses([words, language.say("not: {names}", names=names)])


def _disk_words(disk: DiskRecord, language: Language) -> str:
    if disk.fault is not None:
        return f"{disk.folder}: {disk.fault}"
    free = disk.free_bytes
    parts = [
        UNKNOWN if free is None else language.say("{size} free here", size=quantities.gib(free, language))
    ]
    if disk.bytes and disk.write_seconds:
        rate = quantities.byte_rate(disk.bytes / disk.write_seconds, language)
        parts.append(language.say("writes {rate} (flushed)", rate=rate))
    if disk.bytes and disk.read_seconds:
        rate = quantities.byte_rate(disk.bytes / disk.read_seconds, language)
        parts.append(language.say("reads {rate}", rate=rate))
    return language.joined(parts)


def _gpu(found: CheckupRecord) -> Gpu | None:
    return None if found.device is None else gpu_of(found.device.machine)


def _to_fix(reported: Sequence[Finding], language: Language) -> Iterator[RenderableType]:
    wrong = [each for each in reported if each.severity != "note"]
    if not wrong:
        yield Text(language.say("nothing to fix"), style="bold green")
        return
    yield Text(language.say("to fix"), style="bold")
    table = Table.grid(padding=(0, 1))
    table.add_column(justify="right")
    table.add_column(overflow="fold")
    for number, finding in enumerate(wrong, start=1):
        what, how = finding_words(finding, language)
        stops = finding.severity == "impossible"
        if stops:
            what = language.say("{what} (training is impossible)", what=what)
        words = Prose(what, style="red" if stops else "")
        words.append(f"\n{how}", style="dim")
        table.add_row(f"{number}.", words)
    yield Padding(table, (0, 0, 0, 2))


def _notes(reported: Sequence[Finding], language: Language) -> Iterator[RenderableType]:
    notes = [finding_words(each, language)[0] for each in reported if each.severity == "note"]
    if notes:
        yield Text()
        yield Text(language.say("good to know"), style="bold")
        table = Table.grid(padding=(0, 1))
        table.add_column(width=1)
        table.add_column(overflow="fold")
        for words in notes:
            table.add_row("-", Prose(words))
        yield Padding(table, (0, 0, 0, 2))


def doctor_document(found: CheckupRecord) -> dict[str, object]:
    """Raw facts and what is derived from them, under the names of the code."""
    reported, gpu, ceilings = findings(found), _gpu(found), found.ceilings
    return {
        "checkup": found.model_dump(mode="json"),
        "gpu": None if gpu is None else {"label": gpu.label, **vars(gpu)},
        "ceilings": None if ceilings is None else ceilings_document(ceilings),
        "findings": [_finding_document(each) for each in reported],
        "can_train": can_train(reported),
    }


def _finding_document(finding: Finding) -> dict[str, object]:
    what, how = finding_words(finding)
    return {
        "code": finding.code,
        "severity": finding.severity,
        "numbers": finding.numbers,
        "what": what,
        "how": how,
    }
