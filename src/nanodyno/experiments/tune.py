"""The fastest micro-batch and switches for one machine: the search of analysis/search.py, on a real bench."""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from nanodyno import __version__
from nanodyno.analysis.candidates import Candidate, TuneRequest, candidates_for
from nanodyno.analysis.tuning import Tuning, WatchTune
from nanodyno.config import RunConfig, changed, keys_where
from nanodyno.costs.advice import advise
from nanodyno.costs.calibration import calibration_for
from nanodyno.errors import NanodynoError
from nanodyno.experiments.ground import DeviceState, look_around
from nanodyno.experiments.stopwatch import BenchStopwatch, Redo, Stopwatch
from nanodyno.experiments.study import Study
from nanodyno.probe.repetition import ProbeJob
from nanodyno.records.probe import WatchProbe
from nanodyno.records.tuning import Journal, TuneQuestion, settings_of

GIB = 2**30
TUNED = keys_where(lambda each: each.tuned)
"""Settings that a search may change."""
REDO = {"cuda": Redo(1, 1), "mps": Redo(1, 1), "cpu": Redo(1, 0)}
"""A candidate is given up for one bad first look. Of the final, on a CPU, where most are disturbed, another
round tells more."""

MakeStopwatch = Callable[[Mapping[str, ProbeJob], WatchProbe, Redo], Stopwatch]
InspectDevice = Callable[[RunConfig, int | None], DeviceState]


@dataclass(frozen=True)
class TuneBench:
    """With what to measure; tests and clusters have their own."""

    make: MakeStopwatch = BenchStopwatch
    look: InspectDevice = look_around
    cache: Path | None = None
    clock: Callable[[], float] = time.monotonic


def tune(request: TuneRequest, watch: WatchTune = lambda _: None, bench: TuneBench | None = None) -> Tuning:
    """Searches until it knows or the time is up. Ctrl-C ends it with what is known by then."""
    bench = bench or TuneBench()
    began = bench.clock()
    place = bench.look(request.config, request.memory_limit_bytes)
    candidates = candidates_for(request, place.ground)
    limit = allocator_limit(request.memory_limit_bytes, place)
    _refuse_unless_one_fits(candidates, place, request.memory_limit_bytes)
    journal = Journal(question_of(request, place), request.again, bench.cache)
    jobs = {each.name: ProbeJob(config=each.config, memory_limit_bytes=limit) for each in candidates}
    try:
        with bench.make(jobs, watch, REDO[place.ground.device_type]) as stopwatch:
            study = Study(request, place, candidates, journal, stopwatch, watch, bench.clock)
            study.spent = bench.clock() - began
            tuning = study.run((*request.notes, *place.notes, *journal.notes))
    finally:
        journal.close()
    return tuning


def recall(request: TuneRequest, bench: TuneBench | None = None) -> RunConfig | None:
    """The config as an earlier search on this machine has tuned it; None where there was none."""
    bench = bench or TuneBench()
    place = bench.look(request.config, request.memory_limit_bytes)
    journal = Journal(question_of(request, place), folder=bench.cache)
    journal.close()
    found = journal.found()
    return None if found is None else applied(request.config, found.config)


def applied(config: RunConfig, tuned: RunConfig) -> RunConfig:
    """The run as it is, with the tuned settings."""
    return changed(config, **tuned_settings(config, tuned))


def tuned_settings(config: RunConfig, tuned: RunConfig) -> dict[str, object]:
    """What the search changed."""
    return {key: getattr(tuned, key) for key in TUNED if getattr(tuned, key) != getattr(config, key)}


def question_of(request: TuneRequest, place: DeviceState) -> TuneQuestion:
    machine = place.device.machine
    return TuneQuestion(
        device_name=machine.device_name,
        device_memory_bytes=machine.device_memory_bytes,
        driver=machine.driver,
        threads=machine.cpu_threads if machine.device_type == "cpu" else None,
        torch=place.device.torch,
        nanodyno=__version__,
        memory_limit_bytes=request.memory_limit_bytes,
        allow_different=request.allow_different,
        held=tuple(sorted(request.held & set(TUNED))),
        settings=settings_of(request.config),
    )


def allocator_limit(limit_bytes: int | None, place: DeviceState) -> int | None:
    """Of an emulated card what is left beside the context."""
    if limit_bytes is None or place.ground.device_type != "cuda":
        return limit_bytes
    left = limit_bytes - place.ground.context_bytes
    if left <= 0:
        context = place.ground.context_bytes / GIB
        raise NanodynoError(
            f"--memory-limit is too low: the CUDA context alone takes {context:.2f} GiB here", "raise it"
        )
    return left


def _refuse_unless_one_fits(
    candidates: tuple[Candidate, ...], place: DeviceState, limit_bytes: int | None
) -> None:
    if any(not each.hopeless for each in candidates):
        return
    smallest = min(candidates, key=lambda each: each.memory.total if each.memory else math.inf)
    usable = place.ground.usable_bytes
    assert smallest.memory is not None, "only what is predicted is hopeless"
    assert smallest.setup is not None
    assert usable is not None
    needs = smallest.memory.total
    words = (
        f"nothing fits: the smallest, {smallest.name}, needs about {needs / GIB:.1f} GiB (predicted), and "
    )
    words += f"{usable / GIB:.1f} GiB is usable"
    if needs <= min(usable + place.held_bytes, limit_bytes or math.inf):
        words += f"; other programs hold {place.held_bytes / GIB:.1f} GiB"
        words += f": {', '.join(place.holders)}" if place.holders else ""
        raise NanodynoError(words, "close them, or tune when they are done")
    from nanodyno.train.fitting import advice_words

    calibration = calibration_for(place.ground.gpu, place.ground.dtype)
    raise NanodynoError(words, advice_words(advise(smallest.setup, usable, calibration)))
