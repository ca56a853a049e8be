"""Why a micro-batch is fast or slow, fits or not: conclusions from what the probes saw, as data."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from nanodyno.analysis.candidates import Candidate, micro_batches
from nanodyno.analysis.findings import Code, Finding, Number
from nanodyno.analysis.search_state import UNSURE
from nanodyno.analysis.tuning import TuneRow, Tuning, curve_of, rows_of
from nanodyno.costs.calibration import calibration_for
from nanodyno.costs.memory import memory_of
from nanodyno.costs.setup import rows_by_memory
from nanodyno.costs.time import unfilled_share

LAUNCH_BOUND = 0.25
"""Of the time a card idles between kernels."""
DISPATCH_BOUND = 0.25
"""Of the time a CPU spends between operators."""
BUSY = 0.1
"""A card that idles less is not held up by launches."""
FLAT = 0.02
FALLS = 0.03
RISES = 0.05
WORTH = 0.01


def tune_findings(tuning: Tuning) -> tuple[Finding, ...]:
    rows = rows_of(tuning)
    curve = _comparable(tuning, rows)
    return (
        *_of_ends(tuning, rows),
        *_of_choice(tuning, rows),
        *_of_curve(tuning, curve),
        *_of_idling(tuning, curve),
        *_of_switches(tuning, rows),
        *_of_memory(tuning, rows),
        *_of_divisors(tuning),
    )


def _comparable(tuning: Tuning, rows: Sequence[TuneRow]) -> list[TuneRow]:
    """By micro-batch, with switches as the chosen one has them: otherwise they would pass for its doing."""
    chosen = tuning.chosen
    alike = [
        row
        for row in rows
        if row.reason is None
        and (
            row.candidate.switches == chosen.switches
            if chosen and chosen.variant
            else not row.candidate.variant
        )
    ]
    return curve_of(alike, None if chosen is None else chosen.name)


def _of_ends(tuning: Tuning, rows: Sequence[TuneRow]) -> Iterator[Finding]:
    if tuning.interrupted:
        return
    if tuning.pick is None:
        yield _why_none(tuning, rows)
    elif tuning.pick.reading is None:
        yield Finding("no-fresh", numbers={"budget_seconds": tuning.budget_seconds})
    untried = [each for each in tuning.candidates if tuning.left_out.get(each.name) == "no-time"]
    if untried:
        yield Finding("not-all-tried", numbers={"number": len(untried), "first": untried[0].name})


def _why_none(tuning: Tuning, rows: Sequence[TuneRow]) -> Finding:
    tight = [row for row in rows if row.reason == "tight"]
    usable = tuning.ground.usable_bytes
    if tight and usable is not None:
        smallest = min(tight, key=lambda row: row.needs_bytes or 0)
        numbers: dict[str, Number] = {"name": smallest.name, "needs_bytes": smallest.needs_bytes}
        margin = tuning.ground.margin_bytes
        return Finding("nothing-roomy", numbers=numbers | {"usable_bytes": usable, "margin_bytes": margin})
    tried = [row for row in rows if row.result is not None]
    if tried and all(row.reason == "too-large" for row in tried):
        name = min(tried, key=lambda row: row.candidate.batch_size).name
        return Finding("nothing-fits", numbers={"name": name, "number": len(tried)})
    return Finding("nothing-measured", numbers={"candidates": len(tuning.candidates)})


def _of_choice(tuning: Tuning, rows: Sequence[TuneRow]) -> Iterator[Finding]:
    """What was taken instead of the fastest because it is as fast and smaller; a switch that stays as it was
    for want of a gain is no news."""
    pick = tuning.pick
    if pick is None or pick.chosen == pick.fastest:
        return
    by_name = {row.name: row for row in rows}
    chosen, fastest = by_name[pick.chosen], by_name[pick.fastest]
    saved = (fastest.peak_bytes or 0) - (chosen.peak_bytes or 0)
    if saved > 0 and chosen.tokens_per_second and fastest.tokens_per_second:
        slower = 1 - chosen.tokens_per_second.value / fastest.tokens_per_second.value
        yield Finding(
            "smaller-for-free", numbers={"fastest": pick.fastest, "slower": slower, "saved_bytes": saved}
        )


def _of_curve(tuning: Tuning, curve: Sequence[TuneRow]) -> Iterator[Finding]:
    """Along micro-batches, each by its fastest candidate; what noise could have made is not told."""
    if len(curve) < 2:
        return
    chosen = tuning.chosen
    words = " ".join(f"{key}={value}" for key, value in chosen.switches) if chosen and chosen.variant else ""
    switches: dict[str, Number] = {"switches": words} if words else {}
    rates = [_rate(row) for row in curve]
    sizes = [row.candidate.batch_size for row in curve]
    best = max(range(len(rates)), key=rates.__getitem__)
    first, last = rates[0], rates[-1]
    rise, fall = (_unsure(curve[best]) + _unsure(curve[end]) for end in (0, -1))
    if rates[best] > first * (1 + RISES + rise):
        numbers = {"from": sizes[0], "to": sizes[best], "gain": rates[best] / first - 1}
        yield Finding("rises", numbers=numbers | switches)
    flat = next(n for n in range(len(rates)) if min(rates[n : best + 1]) >= rates[best] * (1 - FLAT))
    ends = (n for n in range(best, len(rates)) if rates[n] < rates[best] * (1 - FLAT))
    end = next(ends, len(rates)) - 1
    if end > flat:
        numbers = {"from": sizes[flat], "to": sizes[end], "within": FLAT}
        yield Finding("flat", numbers=numbers | switches)
    if last < rates[best] * (1 - FALLS - fall):
        numbers = {"from": sizes[best], "to": sizes[-1], "loss": 1 - last / rates[best]}
        yield Finding("falls", numbers=numbers | switches)


def _unsure(row: TuneRow) -> float:
    """How far its rate may be off: by the interval of the final, else by what its one process knows."""
    rate = row.tokens_per_second
    if rate is not None and rate.low and rate.high:
        return math.sqrt(rate.high / rate.low) - 1
    known = None if row.summary is None else row.summary.own_precision
    return UNSURE if known is None else known


def _of_idling(tuning: Tuning, curve: Sequence[TuneRow]) -> Iterator[Finding]:
    """The largest micro-batch that waits, and how much it does."""
    on_gpu = tuning.machine.device_type == "cuda"
    limit = LAUNCH_BOUND if on_gpu else DISPATCH_BOUND
    idle = {
        row.candidate.batch_size: row.summary.time.idle for row in curve if row.summary and row.summary.time
    }
    waiting = [size for size, share in idle.items() if share >= limit]
    if waiting:
        size = max(waiting)
        code: Code = "launch-bound" if on_gpu else "dispatch-bound"
        yield Finding(code, numbers={"size": size, "idle": idle[size]})
    elif on_gpu:
        yield from _of_unfilled(tuning)
    chosen = None if tuning.chosen is None else tuning.chosen.batch_size
    if on_gpu and chosen in idle and idle[chosen] < BUSY:
        yield Finding("busy", numbers={"size": chosen, "idle": idle[chosen]})


def _of_unfilled(tuning: Tuning) -> Iterator[Finding]:
    """Of micro-batches that were predicted to be too slow to be tried: why, by prediction too."""
    gpu = tuning.ground.gpu
    shares = {
        each.batch_size: unfilled_share(each.setup, calibration_for(gpu, each.setup.dtype))
        for each in tuning.candidates
        if each.setup is not None and tuning.left_out.get(each.name) == "predicted-slow"
    }
    small = [size for size, share in shares.items() if share >= LAUNCH_BOUND]
    if small:
        yield Finding("unfilled", numbers={"size": max(small), "share": shares[max(small)]})


def _of_switches(tuning: Tuning, rows: Sequence[TuneRow]) -> Iterator[Finding]:
    """Each setting once: at the chosen micro-batch, else where it was tried first."""
    chosen = tuning.chosen
    order = sorted(rows, key=lambda row: chosen is None or row.candidate.batch_size != chosen.batch_size)
    reported = dict[str, Finding]()
    for row in order:
        base = next((each for each in rows if _lacks_one(each, row)), None)
        if base is None or base.summary is None or row.summary is None:
            continue
        setting = "=".join(row.candidate.switches[-1])
        gain = base.summary.iteration_seconds.value / row.summary.iteration_seconds.value - 1
        saved = (base.peak_bytes or 0) - (row.peak_bytes or 0)
        numbers: dict[str, Number] = {"size": row.candidate.batch_size, "setting": setting}
        code: Code = "switch-afresh" if base.is_final and row.is_final else "switch"
        if abs(gain) >= WORTH:
            reported.setdefault(
                setting, Finding(code, numbers=numbers | {"gain": gain, "saved_bytes": saved})
            )
    yield from reported.values()


def _lacks_one(base: TuneRow, row: TuneRow) -> bool:
    """Of the same micro-batch, and without the last switch of the other."""
    same = base.candidate.batch_size == row.candidate.batch_size and row.candidate.variant
    return same and base.summary is not None and base.candidate.switches == row.candidate.switches[:-1]


def _of_memory(tuning: Tuning, rows: Sequence[TuneRow]) -> Iterator[Finding]:
    usable = tuning.ground.usable_bytes
    for row in rows:
        if row.reason == "tight" and row.needs_bytes is not None and usable is not None:
            left = usable - row.needs_bytes
            yield Finding(
                "tight",
                numbers={"name": row.name, "left_bytes": left, "margin_bytes": tuning.ground.margin_bytes},
            )
    too_large = [row for row in rows if row.reason == "too-large" and row.candidate.memory is not None]
    for row in too_large[:1]:
        yield _does_not_fit(row.candidate, usable)
    fastest: dict[int, TuneRow] = {}
    for row in rows:
        if row.summary is not None and row.reason is None and not row.candidate.variant:
            fastest.setdefault(row.candidate.batch_size, row)
    for row in fastest.values():
        yield from _made_to_fit(tuning, row)


def _does_not_fit(candidate: Candidate, usable: int | None) -> Finding:
    memory = candidate.memory
    assert memory is not None
    parts = memory.components
    largest = max(parts, key=parts.__getitem__)
    numbers: dict[str, Number] = {"name": candidate.name, "needs_bytes": memory.total, "part": largest}
    numbers |= {"part_bytes": parts[largest]}
    return Finding("does-not-fit", numbers=numbers if usable is None else numbers | {"usable_bytes": usable})


def _made_to_fit(tuning: Tuning, row: TuneRow) -> Iterator[Finding]:
    """A micro-batch that fits by its switches alone, and what it would need without them."""
    setup, usable = row.candidate.setup, tuning.ground.usable_bytes
    switches = row.candidate.switches
    if setup is None or usable is None or not switches:
        return
    rows = rows_by_memory(usable, setup.shape, setup.dtype) if setup.kernels == "fused" else None
    graph = setup.cuda_graph or ("cuda_graph", "False") in switches
    bare = replace(setup, recompute="none", loss_chunk_size=rows, offload_moments=False, cuda_graph=graph)
    memory = memory_of(bare, calibration_for(tuning.ground.gpu, setup.dtype))
    if memory.total + tuning.ground.margin_bytes <= usable:
        return
    part = max(memory.components, key=memory.components.__getitem__)
    numbers: dict[str, Number] = {"size": row.candidate.batch_size, "needs_bytes": memory.total}
    numbers |= {"part": part, "part_bytes": memory.components[part]}
    numbers["switches"] = " ".join(f"{key}={value}" for key, value in switches)
    yield Finding("made-to-fit", numbers=numbers)


def _of_divisors(tuning: Tuning) -> Iterator[Finding]:
    asked = tuning.asked
    sequences = asked.tokens_per_iter // asked.block_size
    if sequences > 2 and len(micro_batches(sequences, 1)) <= 2:
        better = 2 ** max(1, round(sequences.bit_length() - 1))
        better = min((better, 2 * better), key=lambda each: abs(each - sequences))
        yield Finding("few-divisors", numbers={"sequences": sequences, "tokens": better * asked.block_size})


def _rate(row: TuneRow) -> float:
    assert row.tokens_per_second is not None
    return row.tokens_per_second.value
