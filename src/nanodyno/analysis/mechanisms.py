"""By what mechanism a change moved the speed: what the probes saw of where the time and the memory went."""

import math
from collections.abc import Iterator, Mapping

from nanodyno.analysis.attribution import Attribution, Known
from nanodyno.analysis.findings import Code, Finding, Number
from nanodyno.analysis.probes import TimeShares
from nanodyno.analysis.shapley import Combination
from nanodyno.config import RunConfig
from nanodyno.costs.flops import flops_per_token
from nanodyno.records.probe import Measured

IDLE = 0.25
"""Of the time: from here on a device is bound by being given work."""
IDLE_MOVED = 0.05
RATE_MOVED = 0.1
OPTIMIZER_MOVED = 0.02
TOLD = 0.1
"""Of all that parts of the time moved, either way: what moved less is left out."""
GAPS = 0.1
"""Of what the allocator holds: from here on its gaps are worth telling."""


def mechanisms(found: Attribution) -> Iterator[Finding]:
    if found.metric == "val_loss":
        return
    seen = {
        combination: known for combination, known in found.combinations.items() if known.measured is not None
    }
    for combination, known in seen.items():
        yield from _of_combination(found, combination, known)
    for factor in range(len(found.design.factors)):
        step = _largest_step(found, factor)
        if step is not None:
            yield from _of_step(found, step, step | 1 << factor)


def _largest_step(found: Attribution, factor: int) -> Combination | None:
    """Where this change did most, if it did anything."""
    own = {
        combination: effect
        for (combination, each), effect in found.look.effects.steps.items()
        if each == factor and effect.call == "different"
    }
    return max(own, key=lambda combination: abs(own[combination].interval.value), default=None)


def _of_combination(found: Attribution, combination: Combination, known: Known) -> Iterator[Finding]:
    shares, measured = _shares(known), known.measured
    assert measured is not None
    where: dict[str, Number] = {"combination": found.design.settings(combination)}
    if shares is not None and shares.idle >= IDLE:
        on_gpu = found.machine.device_type == "cuda"
        launches = shares.launches_per_micro_step or shares.kernels_per_micro_step
        numbers: dict[str, Number] = {"idle": shares.idle, "launches": launches}
        yield _of(found, "combination-idles" if on_gpu else "combination-dispatches", where | numbers)
    level, asked = measured.setup.arithmetic.recompute, measured.config.recompute
    if level != "none" and asked == "auto":
        yield _of(found, "combination-recomputes", where | {"level": level})
    memory = measured.memory
    held, used = memory.peak_reserved_bytes, memory.peak_allocated_bytes
    if memory.alloc_retries:
        yield _of(found, "allocator-starts-over", where | {"times": memory.alloc_retries})
    elif held and used and (held - used) / held >= GAPS:
        yield _of(found, "fragmented", where | {"held_bytes": held, "used_bytes": used})


def _of_step(found: Attribution, before: Combination, after: Combination) -> Iterator[Finding]:
    ends = found.combinations[before], found.combinations[after]
    one, other = _shares(ends[0]), _shares(ends[1])
    if one is None or other is None:
        return
    where: dict[str, Number] = {"combinations": [found.design.settings(each) for each in (before, after)]}
    per_token = found.metric == "tokens_per_second"
    code: Code = "token-time-moved" if per_token else "work-time-moved"
    yield _of(found, code, where | _moved(found, before, after))
    if abs(other.idle - one.idle) >= IDLE_MOVED:
        yield _of(found, "idle-moved", where | {"shares": [one.idle, other.idle]})
    rates = _product_rate(ends[0]), _product_rate(ends[1])
    if rates[0] and rates[1] and abs(rates[1] / rates[0] - 1) >= RATE_MOVED:
        yield _of(
            found, "matmul-moved", where | {"rates": list(rates), "ceiling": _ceiling(found.combinations)}
        )
    updates = one.parts.get("optimizer", 0.0), other.parts.get("optimizer", 0.0)
    if abs(updates[1] - updates[0]) >= OPTIMIZER_MOVED:
        yield _of(found, "optimizer-moved", where | {"shares": list(updates)})


def _moved(found: Attribution, before: Combination, after: Combination) -> dict[str, Number]:
    """How much longer the same takes, and in which parts of the time, all as shares of the time before."""
    factor = (before ^ after).bit_length() - 1
    longer = math.exp(-found.look.effects.steps[before, factor].interval.value)
    parts = _every_part(found.combinations[before]), _every_part(found.combinations[after])
    moved = {name: longer * parts[1].get(name, 0.0) - parts[0].get(name, 0.0) for name in parts[0] | parts[1]}
    reported = sorted(moved, key=lambda name: -abs(moved[name]))
    least = TOLD * sum(map(abs, moved.values()))
    return {
        "moved": longer - 1,
        "parts": [{"part": name, "moved": moved[name]} for name in reported if abs(moved[name]) >= least],
    }


def _every_part(known: Known) -> dict[str, float]:
    shares = _shares(known)
    assert shares is not None
    return {**shares.parts, "data": shares.data, "idle": shares.idle}


def _shares(known: Known) -> TimeShares | None:
    summary = known.summary
    return None if summary is None else summary.time


def _product_rate(known: Known) -> float | None:
    """FLOP/s within the matrix products alone; None where some are made twice."""
    summary, measured = known.summary, known.measured
    if summary is None or measured is None or summary.time is None:
        return None
    share = summary.time.parts.get("matmul", 0.0)
    if not share or measured.setup.arithmetic.recompute not in ("none", "light"):
        return None
    return summary.tokens_per_second.times(_product_flops(measured)).value / share


def _product_flops(measured: Measured) -> float:
    """Of a token: all but the attention's own, which is 6 L C (T + 1)."""
    config: RunConfig = measured.config
    shape = config.model_shape(measured.setup.vocab_size)
    attention = 6 * config.n_layer * config.n_embd * (config.block_size + 1)
    return flops_per_token(shape, measured.setup.data_vocab_size) - attention


def _ceiling(combinations: Mapping[Combination, Known]) -> float | None:
    """The fastest large products that any of the processes saw."""
    rates = [each.measured.setup.matmul_flops_per_second for each in combinations.values() if each.measured]
    return max((rate for rate in rates if rate is not None), default=None)


def _of(found: Attribution, code: Code, numbers: Mapping[str, Number]) -> Finding:
    return Finding(code, "fact", found.names, numbers)
