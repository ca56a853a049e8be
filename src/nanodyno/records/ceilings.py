"""Measured ceilings: the latest of each GPU and driver in the user's cache, and as a file to send."""

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from nanodyno.hardware.ceilings import Ceilings, DeviceIdentity, Timing
from nanodyno.records.exported import damaged, read_export
from nanodyno.records.files import write_whole
from nanodyno.records.remembered import cache_file
from nanodyno.records.types import MachineRecord, Record

CEILINGS_VERSION = 1
KIND = "file of ceilings"
DAY_SECONDS = 86_400
_KNOWN: TypeAdapter[list[Ceilings]] = TypeAdapter(list[Ceilings])


class CeilingsRecord(Record):
    """What `nanodyno doctor --export` writes; docs/result.md describes it."""

    format: Literal["nanodyno-ceilings"] = "nanodyno-ceilings"
    version: int = CEILINGS_VERSION
    ceilings: Ceilings


def device_of(machine: MachineRecord) -> DeviceIdentity:
    on_cpu = machine.device_type == "cpu"
    return DeviceIdentity(
        name=machine.device_name,
        memory_bytes=machine.device_memory_bytes,
        multiprocessors=machine.multiprocessors,
        driver=machine.driver,
        threads=machine.cpu_threads if on_cpu else None,
    )


def recall_ceilings(machine: MachineRecord | None, cache: Path | None = None) -> Ceilings | None:
    """None where there are none. A cache that is damaged or of another version is as good as none."""
    if machine is None:
        return None
    device = device_of(machine)
    return next((each for each in _recall(cache or _cache()) if each.device == device), None)


def remember_ceilings(ceilings: Ceilings, cache: Path | None = None) -> str | None:
    """None, or why they cannot be written: who cannot write there measures every time."""
    path = cache or _cache()
    others = [each for each in _recall(path) if each.device != ceilings.device]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, _KNOWN.dump_json([*others, ceilings], indent=1).decode())
    except OSError as error:
        return f"{path}: {error.strerror or error}"
    return None


def _recall(path: Path) -> list[Ceilings]:
    with suppress(OSError, ValidationError, UnicodeDecodeError):
        return _KNOWN.validate_json(path.read_text(encoding="utf-8"))
    return []


def _cache() -> Path:
    return cache_file("ceilings.json")


def ceilings_text(ceilings: Ceilings) -> str:
    """Return ceilings as JSON to send to others. The time is that of the day's beginning, in UTC."""
    day = ceilings.measured_at // DAY_SECONDS * DAY_SECONDS
    record = CeilingsRecord(ceilings=replace(ceilings, measured_at=day))
    return record.model_dump_json(indent=1, exclude_none=True) + "\n"


def read_ceilings(path: Path) -> Ceilings:
    """Return the ceilings of such a file, which may come from anybody. Raises NanodynoError for any other."""
    _, raw = read_export(path, KIND, CEILINGS_VERSION)
    try:
        record = CeilingsRecord.model_validate(raw)
    except ValidationError as error:
        raise damaged(path, KIND, error) from None
    why = next(_unknown_keys(raw, record.model_dump(mode="json")), None) or _impossible(record.ceilings)
    if why is not None:
        raise damaged(path, KIND, why)
    return record.ceilings


def _unknown_keys(raw: dict[str, Any], known: dict[str, Any]) -> Iterator[str]:
    """Yield what a dataclass would leave out in silence: a key that we do not know may be private."""
    for key, value in raw.items():
        if key not in known:
            yield f"the key {key} is unknown"
        elif isinstance(value, dict):
            yield from _unknown_keys(value, known[key])


def _impossible(ceilings: Ceilings) -> str | None:
    """Return why nothing can be derived from a timing, or None."""
    timings: dict[str, Timing | None] = {
        **{dtype: each.timing for dtype, each in ceilings.large.items()},
        **{f"{w} {name}": m.timing for w, each in ceilings.gpt.items() for name, m in each.items()},
        "copy": ceilings.copy,
        "host_to_device": ceilings.host_to_device,
        "launch": ceilings.launch,
        **ceilings.micro_step,
    }
    for name, timing in timings.items():
        if timing is not None and not (timing.seconds and all(map(_is_positive, _rates(timing)))):
            return f"the times of {name} are none"
    return None


def _rates(timing: Timing) -> Iterator[float]:
    """Yield every number of a timing, then what is derived of them where that is possible."""
    yield timing.work
    yield from timing.seconds
    yield timing.rate
    yield timing.each_seconds


def _is_positive(value: float) -> bool:
    return 0 < value < math.inf
