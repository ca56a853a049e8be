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
from nanodyno.messages import quantities
from nanodyno.messages.findings import fix
from nanodyno.messages.findings import words as finding_words
from nanodyno.messages.language import ENGLISH, Language
from nanodyno.records.checkup import CheckupRecord, DeviceRecord, DiskRecord, HostRecord
from nanodyno.report.ceilings import ceilings_document, ceilings_table, measured_words
from nanodyno.report.disturbances import disturbance_words, holder_words
from nanodyno.report.prose import Prose

MOST_HOLDERS = 6
UNKNOWN = "-"
PAGES = "doctor.paging.possible"
REFUSES = "doctor.paging.impossible"

DoctorRows = Iterator[tuple[str, str]]


def doctor_page(found: CheckupRecord, language: Language = ENGLISH) -> RenderableType:
    reported = findings(found)
    pieces: list[RenderableType] = [_facts(found, language), Text()]
    if found.ceilings is not None:
        pieces += [Prose(measured_words(found.ceilings, found.remembered, language), style="bold")]
        pieces += [Padding(ceilings_table(found.ceilings, _gpu(found), language), (0, 0, 0, 2)), Text()]
    elif found.ceilings_fault is None and found.device is not None:
        words = language.say("doctor.ceilings.not-measured-yet")
        pieces += [Prose(words), Text()]
    if found.disturbances:
        every = (disturbance_words(each, language) for each in found.disturbances)
        pieces += [*(Prose(language.say("doctor.ceilings.disturbed", cause=each)) for each in every), Text()]
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
    yield language.say("common.machine"), _host_words(found.host, language)
    if found.device is not None:
        yield from _device_rows(found, found.device, language)
    if found.compiling is not None:
        seconds = quantities.duration(found.compiling.seconds, language)
        words = "doctor.compile.works" if found.compiling.works else "doctor.compile.fails"
        yield language.say("doctor.row.compile"), language.say(words, seconds=seconds)
    yield language.say("doctor.row.disk"), _disk_words(found.disk, language)


def _host_words(host: HostRecord, language: Language) -> str:
    memory = language.say(
        "doctor.host.memory",
        size=quantities.gib(host.memory_bytes, language),
        free=quantities.gib(host.available_bytes, language),
    )
    swap = quantities.gib(host.swap_bytes, language)
    if not host.swap_bytes:
        swap_words = language.say("doctor.host.no-swap")
    elif host.swap_used_bytes:
        used = quantities.gib(host.swap_used_bytes, language)
        swap_words = language.say("doctor.host.swap-in-use", size=swap, used=used)
    else:
        swap_words = language.say("doctor.host.swap", size=swap)
    program = language.joined([host.platform, f"Python {host.python}"])
    return language.clauses([program, language.joined([memory, swap_words])])


def _device_rows(found: CheckupRecord, device: DeviceRecord, language: Language) -> DoctorRows:
    machine = device.machine
    if machine.device_type == "cuda":
        yield from _gpu_rows(found, device, language)
    elif machine.device_type == "mps":
        yield from _apple_rows(device, language)
    else:
        words = language.say_plural(
            "doctor.device.cpu",
            machine.cpu_count,
            device=machine.device_name,
            threads=quantities.threads(machine.cpu_threads, language),
        )
        yield language.say("doctor.row.device"), words
    yield language.say("doctor.row.precision"), _precision_words(device, language)
    yield "torch", _torch_words(device, language)
    yield language.say("common.attention"), _attention_words(device, language)


def _gpu_rows(found: CheckupRecord, device: DeviceRecord, language: Language) -> DoctorRows:
    machine, state = device.machine, state_of_gpu(found)
    limit = None if state is None else state.power_limit_watts
    driver = found.inventory.driver or machine.driver or language.say("common.unknown")
    parts = [
        machine.device_name,
        language.say_plural("doctor.device.multiprocessors", machine.multiprocessors or 0),
        language.say("doctor.device.compute-capability", number=str(machine.compute_capability)),
        language.say("doctor.device.driver", number=driver),
    ]
    if limit:
        parts.append(language.say("doctor.device.power-limit", watts=language.number(limit, ".0f")))
    yield language.say("doctor.row.gpu"), language.joined(parts)
    yield language.say("common.memory"), _memory_words(device, state, language)
    yield _datasheet_row(device, language)
    yield language.say("doctor.row.paging"), language.say(PAGES if found.host.gpu_can_page else REFUSES)


def _apple_rows(device: DeviceRecord, language: Language) -> DoctorRows:
    total = device.machine.device_memory_bytes
    yield language.say("doctor.row.gpu"), device.machine.device_name
    yield language.say("common.memory"), UNKNOWN if total is None else quantities.gib(total, language)
    yield _datasheet_row(device, language)


def _datasheet_row(device: DeviceRecord, language: Language) -> tuple[str, str]:
    gpu = gpu_of(device.machine)
    if gpu is None:
        return language.say("doctor.row.datasheet"), language.say("doctor.datasheet.not-in-table")
    return language.say("doctor.row.datasheet"), _datasheet_words(gpu, device.dtype, language)


def _memory_words(device: DeviceRecord, state: GpuState | None, language: Language) -> str:
    total, free = device.machine.device_memory_bytes, free_memory(device, state)
    parts = [UNKNOWN if total is None else quantities.gib(total, language)]
    parts += [] if free is None else [language.say("doctor.memory.free", size=quantities.gib(free, language))]
    return language.clauses([language.joined(parts), _holders_words(state, language)])


def _holders_words(state: GpuState | None, language: Language) -> str:
    if state is None:
        return language.say("doctor.memory.holders-unknown")
    if not state.holders:
        return language.say("doctor.memory.no-holders")
    named = language.joined([holder_words(each, language) for each in state.holders[:MOST_HOLDERS]])
    more = len(state.holders) - MOST_HOLDERS
    if more <= 0:
        return language.say("doctor.memory.held-by", holders=named)
    return language.say_plural("doctor.memory.held-by-and-more", more, holders=named)


def _datasheet_words(gpu: Gpu, dtype: str, language: Language) -> str:
    peaks = {each: gpu.peak_flops_per_second(each) for each in dict.fromkeys((dtype, "float32"))}
    rates = language.joined(
        [
            language.say("doctor.datasheet.rate", rate=quantities.flop_rate(peak, language), dtype=each)
            for each, peak in peaks.items()
            if peak
        ]
    )
    source = gpu.source
    if gpu.basis == "rule":
        source = language.say("doctor.datasheet.source-by-rule", source=source)
    return language.say(
        "doctor.datasheet.summary",
        rates=rates,
        bandwidth=quantities.byte_rate(gpu.bandwidth_bytes_per_second, language),
        watts=language.number(gpu.tdp_watts, ".0f"),
        source=source,
    )


def _precision_words(device: DeviceRecord, language: Language) -> str:
    training = language.say("doctor.precision.training", dtype=device.dtype)
    if device.machine.device_type != "cuda":
        return training
    had = {"bfloat16": device.bfloat16, "float16": device.float16, "fp8": device.fp8}
    yes = [name for name, has in had.items() if has]
    no = [name for name, has in had.items() if not has]
    in_hardware = language.joined(yes) if yes else language.say("doctor.precision.float32-only")
    parts = [language.say("doctor.precision.in-hardware", dtypes=in_hardware)]
    parts += [language.say("doctor.unsupported", names=language.joined(no))] if no else []
    return language.clauses([*parts, training])


def _torch_words(device: DeviceRecord, language: Language) -> str:
    parts = [device.torch, _build_words(device, language)]
    parts += [f"cuDNN {_cudnn(device.cudnn)}"] if device.cudnn and not device.rocm else []
    parts += [f"Triton {device.triton}" if device.triton else language.say("doctor.torch.no-triton")]
    return language.joined(parts)


def _build_words(device: DeviceRecord, language: Language) -> str:
    if device.cuda:
        return f"{'ROCm' if device.rocm else 'CUDA'} {device.cuda}"
    return "MPS" if device.machine.device_type == "mps" else language.say("doctor.torch.cpu-build")


def _cudnn(number: int) -> str:
    """91900 is 9.19.0."""
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


def _attention_words(device: DeviceRecord, language: Language) -> str:
    times = sorted(device.attention_seconds.items(), key=lambda each: each[1])
    runs = [f"{name} {quantities.milliseconds(seconds, language)}" for name, seconds in times]
    shape = " x ".join(map(str, device.attention_shape))
    words = language.say("doctor.attention.none")
    if runs:
        words = language.say("doctor.attention.times", times=language.joined(runs), shape=shape)
    if not device.attention_faults:
        return words
    names = language.joined(list(device.attention_faults))
    return language.clauses([words, language.say("doctor.unsupported", names=names)])


def _disk_words(disk: DiskRecord, language: Language) -> str:
    if disk.fault is not None:
        return f"{disk.folder}: {disk.fault}"
    free = disk.free_bytes
    parts = [
        UNKNOWN if free is None else language.say("doctor.disk.free", size=quantities.gib(free, language))
    ]
    if disk.bytes and disk.write_seconds:
        rate = quantities.byte_rate(disk.bytes / disk.write_seconds, language)
        parts.append(language.say("doctor.disk.write-rate", rate=rate))
    if disk.bytes and disk.read_seconds:
        rate = quantities.byte_rate(disk.bytes / disk.read_seconds, language)
        parts.append(language.say("doctor.disk.read-rate", rate=rate))
    return language.joined(parts)


def exported_words(found: CheckupRecord, path: str, size_bytes: int, language: Language) -> str:
    """Return what was written to a file for others, and what they do with it."""
    assert found.ceilings is not None
    return language.say(
        "doctor.export.written",
        path=path,
        size=language.number(size_bytes / 1000, ",.0f"),
        device=found.ceilings.device.name,
    )


def _gpu(found: CheckupRecord) -> Gpu | None:
    return None if found.device is None else gpu_of(found.device.machine)


def _to_fix(reported: Sequence[Finding], language: Language) -> Iterator[RenderableType]:
    wrong = [each for each in reported if each.severity != "note"]
    if not wrong:
        yield Text(language.say("doctor.section.nothing-to-fix"), style="bold green")
        return
    yield Text(language.say("doctor.section.to-fix"), style="bold")
    table = Table.grid(padding=(0, 1))
    table.add_column(justify="right")
    table.add_column(overflow="fold")
    for number, finding in enumerate(wrong, start=1):
        what, how = finding_words(finding, language), fix(finding, language)
        stops = finding.severity == "impossible"
        if stops:
            what = language.say("doctor.finding.training-impossible", what=what)
        words = Prose(what, style="red" if stops else "")
        words.append(f"\n{how}", style="dim")
        table.add_row(f"{number}.", words)
    yield Padding(table, (0, 0, 0, 2))


def _notes(reported: Sequence[Finding], language: Language) -> Iterator[RenderableType]:
    notes = [finding_words(each, language) for each in reported if each.severity == "note"]
    if notes:
        yield Text()
        yield Text(language.say("doctor.section.notes"), style="bold")
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
    what, how = finding_words(finding), fix(finding)
    return {
        "code": finding.code,
        "severity": finding.severity,
        "numbers": finding.numbers,
        "what": what,
        "how": how,
    }
