"""Ceilings that were measured on this machine, in the user's cache: the latest of each card and driver."""

from contextlib import suppress
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from nanodyno.hardware.ceilings import Ceilings, DeviceIdentity
from nanodyno.records.files import write_whole
from nanodyno.records.remembered import cache_file
from nanodyno.records.types import MachineRecord

_KNOWN: TypeAdapter[list[Ceilings]] = TypeAdapter(list[Ceilings])


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
