"""Samples of the machine on disk: cut by a kill, damaged, taken back by a resume, or never there."""

from collections.abc import Callable
from pathlib import Path

from nanodyno.records.store import TELEMETRY_FILE, read_run
from nanodyno.records.types import RunRecord, TelemetryRecord
from nanodyno.records.writer import RunWriter

Sample = Callable[..., TelemetryRecord]


def append(folder: Path, *samples: TelemetryRecord) -> None:
    with RunWriter(folder) as writer:
        for each in samples:
            writer.append(each)


def test_a_sample_comes_back_as_it_was(folder: Path, sample: Sample) -> None:
    of_gpu = sample(2, sm_mhz=1980, throttle_reasons=4, power_watts=345.6, other_gpu_processes=0)
    append(folder, sample(1), of_gpu)
    assert read_run(folder).telemetry == (sample(1), of_gpu)


def test_what_was_not_measured_takes_no_room(folder: Path, sample: Sample) -> None:
    append(folder, sample(1))
    assert "null" not in (folder / TELEMETRY_FILE).read_text()


def test_a_run_of_before_has_none(folder: Path) -> None:
    (folder / TELEMETRY_FILE).unlink()
    run = read_run(folder)
    assert (run.telemetry, len(run.steps)) == ((), 4)


def test_every_cut_reads_as_the_whole_lines_before_it(folder: Path, sample: Sample) -> None:
    append(folder, sample(1), sample(2))
    content = (folder / TELEMETRY_FILE).read_bytes()
    for length in range(len(content) + 1):
        (folder / TELEMETRY_FILE).write_bytes(content[:length])
        ended = content[:length].count(b"\n")
        assert read_run(folder).telemetry == (sample(1), sample(2))[:ended]


def test_a_field_of_a_newer_version_does_not_make_a_run_unreadable(folder: Path, sample: Sample) -> None:
    append(folder, sample(1))
    with (folder / TELEMETRY_FILE).open("a") as file:
        file.write('{"iteration": 2, "fan_speed": 3}\n')
    run = read_run(folder)
    assert (run.telemetry, len(run.steps)) == ((sample(1),), 4)


def test_a_resume_takes_back_the_samples_of_work_that_is_done_again(
    folder: Path, record: Callable[..., RunRecord], sample: Sample
) -> None:
    append(folder, *map(sample, (1, 2, 3, 4)))
    RunWriter.resume(folder, record(), 2, evaluated=True).close()
    assert [each.iteration for each in read_run(folder).telemetry] == [1, 2]
