"""An attribution from what is kept of it: the question, and a line for each corner and round."""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from nanodyno.analysis.attributing import LOSS_PRECISION, PRECISION, loss_rules, speed_rules
from nanodyno.analysis.attribution import Attribution, Known, combinations_from, observed_of
from nanodyno.analysis.effects import EffectEstimates, EffectRules, Observed, look_cut_short, looks
from nanodyno.analysis.factors import (
    SPLIT,
    AttributionMetric,
    Design,
    Factor,
    FactorChange,
    on_one_schedule,
    unmeasured,
)
from nanodyno.config import PLACES, RunConfig
from nanodyno.costs.calibration import calibration_for
from nanodyno.costs.memory import memory_of
from nanodyno.costs.setup import settle
from nanodyno.costs.target import present_target
from nanodyno.records.attribution import AttributionLine, AttributionQuestion


def read_attribution(
    question: AttributionQuestion,
    lines: Sequence[AttributionLine],
    names: tuple[str, str],
    metric: AttributionMetric,
    precision: float | None = None,
) -> Attribution:
    """Without the paces of trainings, which are in a round before the first."""
    spent = math.fsum(line.cost_seconds for line in lines if line.round >= 0)
    lines = [*{(line.round, line.combination): line for line in lines if line.round >= 0}.values()]
    design = design_from(question)
    rules = rules_for(metric, len(design.factors), precision)
    combinations = combinations_from(design, lines, lambda config: predicted_bytes(config, question))
    possible = [combination for combination, known in combinations.items() if known.config is not None]
    look = look_at(observed_of(lines, metric, possible), rules)
    return Attribution(
        names=names,
        metric=metric,
        design=design,
        rules=rules,
        look=look,
        combinations={combination: _as_counted(known, look) for combination, known in combinations.items()},
        machine=question.machine,
        spent_seconds=spent,
        memory_limit_bytes=question.memory_limit_bytes,
        equal=question.equal,
        steps=question.steps,
    )


def _as_counted(known: Known, look: EffectEstimates) -> Known:
    """Without visits of rounds that were cut off or set aside, so that every figure is of the same ones."""
    if known.measured is None:
        return known
    repetitions = tuple(
        repetition for repetition in known.measured.repetitions if repetition.round in look.kept
    )
    if not repetitions:
        return known
    return replace(known, measured=known.measured.model_copy(update={"repetitions": repetitions}))


def rules_for(metric: AttributionMetric, factors: int, precision: float | None) -> EffectRules:
    if metric == "val_loss":
        return loss_rules(factors, precision or LOSS_PRECISION)
    return speed_rules(factors, precision or PRECISION)


def look_at(observed: Sequence[Observed], rules: EffectRules) -> EffectEstimates:
    """As it was when the measuring ended: at the look that was enough, or cut short before it."""
    rounds = [list(group) for _, group in groupby(observed, key=lambda each: each.round)]
    found = list(looks(rounds, rules))
    return found[-1] if found and found[-1].finished else look_cut_short(observed, rules)


def design_from(question: AttributionQuestion) -> Design:
    before, after = question.before, question.after
    if question.metric == "val_loss":
        after = on_one_schedule(before, after)
    keys = [key for group in question.factors for key in group]
    factors = tuple(
        Factor({key: getattr(before, key) for key in group}, {key: getattr(after, key) for key in group})
        for group in question.factors
    )
    rest = tuple(
        FactorChange(key, getattr(before, key), getattr(after, key))
        for key in RunConfig.model_fields
        if key not in PLACES and key != SPLIT and key not in keys
        if getattr(before, key) != getattr(after, key)
    )
    ignored = tuple(each for each in rest if each.key in question.ignored)
    others = unmeasured([each for each in rest if each not in ignored], question.metric, question.equal)
    return Design(before, after, factors, **others, ignored=ignored, held=question.held)


def predicted_bytes(config: RunConfig, question: AttributionQuestion) -> int | None:
    """What a training takes of the card, context included; None where there is none."""
    machine = question.machine
    if machine.device_type != "cuda" or machine.device_memory_bytes is None:
        return None
    target = present_target(machine.device_name, machine.device_memory_bytes, question.memory_limit_bytes)
    dtype = target.dtype(config.dtype)
    shape = config.model_shape(config.vocab_size or question.vocab_size)
    setup = settle(config, shape, dtype, target.memory_bytes)
    return memory_of(setup, calibration_for(target.gpu, dtype)).total
