"""The first rows of a plan: model, batch, memory, speed, and what it takes to train it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from nanodyno.analysis.rates import Begun
from nanodyno.analysis.sizing import SizeChoice
from nanodyno.config import RunConfig
from nanodyno.config.ramp import Ramp
from nanodyno.costs.plan import CHINCHILLA_TOKENS_PER_PARAMETER, MicroBatchPlan, Plan
from nanodyno.costs.setup import Setup
from nanodyno.messages import quantities
from nanodyno.messages.language import ENGLISH, Language
from nanodyno.report.modern import modern_words
from nanodyno.report.plan_bill import bill_words, growth_words, iterations_words, range_test_words
from nanodyno.report.sizing import chosen_words, expected_words
from nanodyno.report.words import with_ramp

WORTH_TELLING = 0.01
"""By which another micro-batch has to be faster: smaller differences are not known."""

PlanRows = Iterator[tuple[str, str]]


@dataclass(frozen=True)
class PlanSource:
    """Where a config is from, and what is to be said about it."""

    name: str
    changed: Mapping[str, object] = field(default_factory=dict[str, object])
    warmup_iters: int = 0
    notes: tuple[str, ...] = ()
    ramp: Ramp | None = None
    """How its batch grows."""
    choice: SizeChoice | None = None
    """Where it was made for so many hours."""
    config: RunConfig | None = None
    range_test: Begun | None = None
    """Where the config's learning rate is still to be found."""

    def title(self, language: Language) -> str:
        """The recipe's name, and in what it is another config; the GPU is named beside it."""
        changes = ", ".join(f"{key}={value}" for key, value in self.changed.items() if key != "device")
        if not changes:
            return self.name
        return language.say("plan.title.changed-config", config=self.name, changes=changes)


def fact_rows(plan: Plan, source: PlanSource, language: Language = ENGLISH) -> PlanRows:
    """All rows, those of the answer first."""
    yield from answer_rows(plan, source, language)
    yield from _detail_rows(plan, source, language)


def answer_rows(plan: Plan, source: PlanSource, language: Language = ENGLISH) -> PlanRows:
    """Whether it fits, how fast it is, how long it takes and what it costs, and of which model and batch."""
    if source.choice is not None:
        yield language.say("plan.row.chosen"), chosen_words(source.choice, language)
    yield language.say("common.fits"), fits_words(plan, language)
    if plan.asked.time is not None:
        yield language.say("common.speed"), _speed_words(plan.asked, plan, source.ramp, language)
    if source.choice is None and (best := _better(plan, language)):
        yield language.say("plan.row.fastest"), best
    tokens = quantities.count(plan.bill.tokens, language)
    yield language.say("common.token-count", number=tokens), bill_words(plan.bill, plan, language)
    if grown := growth_words(plan, language):
        yield "", grown
    if source.choice is not None:
        yield language.say("plan.row.expected-loss"), expected_words(source.choice, language)
    yield language.say("common.iterations"), iterations_words(plan, source.warmup_iters, language)
    if source.range_test is not None:
        yield language.say("plan.row.range-test"), range_test_words(source.range_test, plan, language)
    yield language.say("common.model"), _model_words(plan, language)
    batch = _batch_words(plan.asked.setup, language)
    yield (
        language.say("common.batch"),
        batch if source.ramp is None else with_ramp(batch, source.ramp, language),
    )


def _detail_rows(plan: Plan, source: PlanSource, language: Language) -> PlanRows:
    config, has_rate = source.config, source.range_test is None
    if config is not None and (beyond := modern_words(config, language, has_rate)):
        yield language.say("common.beyond-gpt2"), beyond
    if source.choice is not None and config is not None and has_rate:
        yield language.say("plan.row.learning-rate"), _rate_words(config, language)
    yield language.say("plan.row.switches"), _kernel_words(plan.asked.setup, plan.offloaded_bytes, language)
    if plan.target.memory_bytes is not None:
        yield language.say("plan.row.limit"), _limit_words(plan, language)
    yield language.say("plan.row.flops"), _flops_words(plan, language)
    yield language.say("plan.row.data"), _balance_words(plan, language)


def _flops_words(plan: Plan, language: Language) -> str:
    return language.say(
        "plan.model.flops",
        exact=language.number(plan.flops_exact / 1e6, ",.1f"),
        vocabulary=language.number(plan.data_vocab_size, ","),
        nanogpt=language.number(plan.flops_nanogpt / 1e6, ",.1f"),
        padded=language.number(plan.asked.setup.shape.vocab_size, ","),
    )


def _model_words(plan: Plan, language: Language) -> str:
    shape = plan.asked.setup.shape
    words = language.say(
        "plan.model.size",
        size=quantities.count(plan.params.total, language),
        layers=quantities.layers(shape.n_layer, shape.n_embd, language),
    )
    if not (tables := plan.params.value_embeddings):
        return words
    size = quantities.count(tables, language)
    return language.clauses([words, language.say("plan.model.value-embeddings", size=size)])


def _balance_words(plan: Plan, language: Language) -> str:
    words = "plan.balance.tokens-per-parameter"
    if plan.params.value_embeddings:
        words = "plan.balance.without-value-embeddings"
    return language.say(
        words,
        number=language.number(plan.tokens_per_parameter, ",.1f"),
        size=quantities.count(plan.counted_params, language),
        balance=str(CHINCHILLA_TOKENS_PER_PARAMETER),
    )


def _batch_words(setup: Setup, language: Language) -> str:
    return language.say_plural(
        "plan.batch.product",
        setup.micro_steps,
        batch=str(setup.batch_size),
        block=str(setup.shape.block_size),
        tokens=language.number(setup.tokens_per_iter, ","),
    )


def _rate_words(config: RunConfig, language: Language) -> str:
    rate = language.number(config.learning_rate, ".2e")
    if config.batch_ramp is None:
        return rate
    return language.say("plan.learning-rate.growing", rate=rate)


def _kernel_words(setup: Setup, offloaded_bytes: int, language: Language) -> str:
    if setup.kernels == "autograd":
        compiled = language.say("kernel.compiled") if setup.compiled else "eager"
        rows = [] if setup.loss_chunk_size is None else [_rows_words(setup.loss_chunk_size, language)]
        return language.joined(["autograd", compiled, setup.dtype, *rows])
    switches = [
        language.say("kernel.fused"),
        setup.dtype,
        language.say("kernel.recompute", level=setup.recompute),
        _rows_words(setup.rows, language),
    ]
    switches += ["fp8"] if setup.fp8 else []
    switches += [language.say("kernel.bf16-residual")] if setup.residual_dtype == "bfloat16" else []
    switches += [language.say("kernel.bf16-moments")] if setup.moments_dtype == "bfloat16" else []
    if setup.offload_moments:
        size = quantities.gib(offloaded_bytes, language)
        switches.append(language.say("kernel.offloaded-moments-size", size=size))
    switches += [] if setup.cuda_graph else [language.say("kernel.no-cuda-graph")]
    return language.joined(switches)


def _rows_words(rows: int, language: Language) -> str:
    return language.say_plural("kernel.logit-rows", rows)


def fits_words(plan: Plan, language: Language) -> str:
    total, limit, room = plan.asked.memory.total, plan.target.memory_bytes, plan.target.room_bytes
    needs = quantities.gib(total, language)
    if limit is None or room is None:
        return language.say("plan.fits.unknown", size=needs)
    left = limit - total
    if total <= room:
        words = "plan.fits.yes"
    elif left >= 0:
        words = "plan.fits.tightly"
    else:
        words = "plan.fits.no"
    size, spare = quantities.gib(limit, language), quantities.gib(abs(left), language)
    return language.say(words, size=needs, limit=size, left=spare)


def _limit_words(plan: Plan, language: Language) -> str:
    """What the memory is that a plan is held against."""
    target = plan.target
    assert target.memory_bytes is not None
    limit = quantities.gib(target.memory_bytes, language)
    if target.limited:
        return language.say(
            "plan.limit.by-option",
            limit=limit,
            shown=quantities.of_unit(language.number(11.6, ".1f"), "GiB", language),
        )
    if target.gpu is None or target.host_bytes is not None:
        return language.say(
            "plan.limit.by-driver",
            limit=limit,
        )
    if target.gpu.is_unified:
        return language.say("plan.limit.unified", limit=limit, gigabytes=str(target.gpu.memory_gb))
    return language.say(
        "plan.limit.by-datasheet",
        limit=limit,
        gigabytes=str(target.gpu.memory_gb),
        share=quantities.share(target.memory_bytes / target.gpu.memory_bytes, ".0f", language),
    )


def _speed_words(asked: MicroBatchPlan, plan: Plan, ramp: Ramp | None, language: Language) -> str:
    assert asked.time is not None and asked.tokens_per_second is not None  # noqa: PT018
    speed = asked.tokens_per_second
    parts = [
        language.say(
            "plan.speed.expected",
            rate=quantities.about(speed.value, language=language),
            low=quantities.about(speed.low, language=language),
            high=quantities.about(speed.high, language=language),
            milliseconds=quantities.about(asked.time.seconds * 1000, language=language),
        )
    ]
    gpu = plan.target.gpu
    if asked.mfu is not None and gpu is not None:
        peak = quantities.flop_rate(gpu.peak_flops_per_second(asked.setup.dtype) or 0, language)
        share = quantities.about_percent(asked.mfu, language)
        parts.append(language.say("plan.speed.share-of-peak", share=share, peak=peak))
    parts += [language.say("plan.speed.launch-bound")] if asked.time.launch_bound else []
    parts += [language.say("plan.if-it-fitted")] if asked.fits is False else []
    clauses = [language.joined(parts)]
    if ramp is not None and ramp.grows:
        clauses.append(first_size_words(ramp, language))
        rate = plan.bill.tokens_per_second
        if ramp.steps and rate is not None:  # a larger batch is faster: its updates are rarer
            mean = quantities.about(rate.value, language=language)
            clauses.append(language.say("plan.speed.whole-run", rate=mean))
    return language.clauses(clauses)


def first_size_words(ramp: Ramp, language: Language) -> str:
    first = language.number(ramp.first, ",")
    return language.say("plan.speed.at-first-size", number=first)


def _better(plan: Plan, language: Language) -> str | None:
    """The fastest micro-batch that fits, if possible not tightly, where it is another and clearly faster."""
    fitting = [each for each in plan.candidates if each.fits]
    easily = [each for each in fitting if each.memory.total <= (plan.target.room_bytes or 0)]
    rates = {
        each.setup.batch_size: each.time.tokens_per_second
        for each in easily or fitting
        if each.time is not None
    }
    if not rates or plan.asked.time is None:
        return None
    size = max(rates, key=lambda each: rates[each])
    gain = rates[size] / plan.asked.time.tokens_per_second - 1
    if plan.asked.fits and gain < WORTH_TELLING:
        return None
    return language.say_plural(
        "plan.fastest.micro-batch",
        plan.asked.setup.batch_size * plan.asked.setup.micro_steps // size,
        size=str(size),
        rate=quantities.about(rates[size], language=language),
    )
