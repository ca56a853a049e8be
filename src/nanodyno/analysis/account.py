"""What is known of a run, whoever trained it: the one thing that audits and comparisons read.

A foreign log tells little. What it does not tell is None, or missing from `settings`, and never assumed.
"""

import math
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from nanodyno.analysis.growth import Growth, growth_of
from nanodyno.analysis.imported import imported_card, known_shape, whole
from nanodyno.analysis.peaks import card_of
from nanodyno.analysis.statistics import Interval, median_interval
from nanodyno.analysis.throughput import mfu, steady_steps
from nanodyno.config import SETTINGS, ModelShape, RunConfig
from nanodyno.costs.flops import NANOGPT_PEAK_FLOPS, flops_per_token, nanogpt_flops_per_token
from nanodyno.costs.parameters import parameters
from nanodyno.hardware.cards import Card
from nanodyno.records.imported import AnyStep, ImportedRecord, ImportedStep, Setting
from nanodyno.records.store import Run
from nanodyno.records.types import DataRecord

NANOGPT = "nanoGPT"
"""As an imported run names its program."""
GPT2_VOCABULARY = 50257
NANOGPT_VOCABULARY = 50304
OF_GPT2 = (GPT2_VOCABULARY, NANOGPT_VOCABULARY)
"""Its tokenizer's, and what nanoGPT makes of it, which is what a user gives for a folder of its files."""
"""GPT-2's as nanoGPT pads it."""


@dataclass(frozen=True, slots=True)
class Step:
    """One iteration as it was told."""

    iteration: int
    loss: float | None = None
    seconds: float | None = None
    """Of an iteration of tokens_per_iter: those of a batch that grew are told in proportion."""
    steady: bool = True
    """Whether its time is training's alone: no evaluation, checkpoint or compilation in it."""
    printed_mfu: float | None = None
    """A fraction, as the program itself gave it."""
    learning_rate: float | None = None
    tokens: int | None = None
    """Of a log only where it tells of a batch that grows: a wrong tokens_per_iter would look like one."""


@dataclass(frozen=True)
class Eval:
    iteration: int
    """Updates made before it."""
    val_loss: float
    train_loss: float | None = None


@dataclass(frozen=True)
class Account:
    name: str
    settings: Mapping[str, Setting]
    """nanoGPT's keys, those that are known."""
    steps: tuple[Step, ...] = ()
    evals: tuple[Eval, ...] = ()
    shape: ModelShape | None = None
    """None where a part of it is not known. Heads count for nothing that is derived here."""
    shape_found: bool = False
    """Whether the shape was worked out from the numbers and not told."""
    data_vocab_size: int | None = None
    """Of the tokenizer; the shape's is padded."""
    data: DataRecord | None = None
    """What our own programs note of it."""
    told_parameters: float | None = None
    card: Card | None = None
    processes: int = 1
    """Each on a card of its own; a log that tells of none is held against one."""
    dtype: str = "bfloat16"
    peak_allocated_bytes: int | None = None
    peak_reserved_bytes: int | None = None
    told_tokens_per_iter: int | None = None
    """As printed; `tokens_per_iter` follows from the settings."""
    restarts: tuple[int, ...] = ()
    """Iterations at which it was taken up again."""
    foreign: bool = False
    """By another program, whose times and losses are taken as it printed them."""
    mfu_is_nanogpts: bool = True
    """Whether what it printed is of an A100's peak; of other programs' MFU the peak is not known."""

    @property
    def tokens_per_iter(self) -> int | None:
        by_settings = self._product("batch_size", "gradient_accumulation_steps", "block_size")
        return whole(self.settings.get("tokens_per_iter")) or by_settings or self.told_tokens_per_iter

    @cached_property
    def growth(self) -> Growth | None:
        """None where tokens_per_iter is not known."""
        if self.tokens_per_iter is None:
            return None
        recorded = ((step.iteration, step.tokens) for step in self.steps if step.tokens is not None)
        return growth_of(self.tokens_per_iter, recorded, self.settings.get("batch_ramp"))

    @property
    def even_evals(self) -> tuple[Eval, ...]:
        """By iterations of tokens_per_iter, where the batch grew."""
        growth = self.growth
        if growth is None or not growth.stages:
            return self.evals
        return tuple(replace(each, iteration=int(growth.even(each.iteration))) for each in self.evals)

    @property
    def tokens_per_micro_step(self) -> int | None:
        return self._product("batch_size", "block_size")

    @cached_property
    def iteration_seconds(self) -> Interval | None:
        """Median over the iterations that hold training only."""
        return median_interval([step.seconds for step in self.steps if step.steady and step.seconds])

    @property
    def micro_step_seconds(self) -> float | None:
        tokens, micro, seconds = self.tokens_per_iter, self.tokens_per_micro_step, self.iteration_seconds
        return None if not (tokens and micro and seconds) else seconds.estimate * micro / tokens

    @property
    def tokens_per_second(self) -> Interval | None:
        seconds, tokens = self.iteration_seconds, self.tokens_per_iter
        if seconds is None or tokens is None:
            return None
        return seconds.inverse(tokens)

    @property
    def parameters(self) -> int | None:
        """As nanoGPT counts them: without the position embedding."""
        return None if self.shape is None else parameters(self.shape).nanogpt

    @property
    def flops_per_token(self) -> int | None:
        return None if self.shape is None else flops_per_token(self.shape, self.data_vocab_size)

    @property
    def nanogpt_flops_per_token(self) -> int | None:
        return None if self.shape is None else nanogpt_flops_per_token(self.shape)

    @property
    def vocabulary(self) -> int | None:
        """Of the tokenizer, as far as it is known; a model of 50,304 rows is nanoGPT's for GPT-2's."""
        told = self.data_vocab_size or whole(self.settings.get("vocab_size"))
        return GPT2_VOCABULARY if told in OF_GPT2 else told

    @property
    def tells_perplexity(self) -> bool:
        """Whether what it calls val losses are all worse than guessing, once it was trained."""
        trained = [
            each.val_loss for each in self.evals if each.iteration > 0 and math.isfinite(each.val_loss)
        ]
        return bool(trained) and min(trained) > math.log(self.vocabulary or GPT2_VOCABULARY)

    @property
    def peak_flops(self) -> float | None:
        """Of all its cards."""
        peak = None if self.card is None else self.card.peak_flops(self.dtype)
        return None if peak is None else peak * self.processes

    @property
    def nanogpt_mfu(self) -> float | None:
        """What nanoGPT prints for such a rate: each process its own, against an A100 whatever the card."""
        rate, work = self.tokens_per_second, self.nanogpt_flops_per_token
        if rate is None or work is None:
            return None
        return mfu(rate.estimate / self.processes, work, NANOGPT_PEAK_FLOPS)

    @property
    def printed_mfu(self) -> float | None:
        """The median of what the program printed; nanoGPT prints -100% before it knows any."""
        printed = [step.printed_mfu for step in self.steps if step.printed_mfu and step.printed_mfu > 0]
        return statistics.median(printed) if printed else None

    @property
    def iterations(self) -> int:
        return max(
            (*(step.iteration + 1 for step in self.steps), *(e.iteration for e in self.evals)), default=0
        )

    def _product(self, *keys: str) -> int | None:
        product = 1
        for key in keys:
            value = whole(self.settings.get(key))
            if value is None:
                return None
            product *= value
        return product


def account_of(run: Run) -> Account:
    """What its record tells: of our own runs everything, of a log what it says."""
    return _imported(run, run.record) if isinstance(run.record, ImportedRecord) else _own(run)


def _own(run: Run) -> Account:
    record = run.own
    resumed = record.resumed_at_iterations
    steady = {step.iteration for step in steady_steps(run.steps, resumed)}
    steps = run.own_steps
    return Account(
        name=run.name,
        settings=_known_settings(record.config),
        steps=tuple(
            Step(
                step.iteration, step.loss, _even_seconds(step, record.config.tokens_per_iter),
                step.iteration in steady, learning_rate=step.learning_rate, tokens=step.tokens,
            )
            for step in steps
        ),
        evals=tuple(Eval(each.iteration, each.val_loss, each.train_loss) for each in run.own_evals),
        shape=record.config.model_shape(record.vocab_size),
        data_vocab_size=record.data.vocab_size,
        data=record.data,
        card=card_of(record.machine),
        processes=record.arithmetic.processes,
        dtype=record.arithmetic.dtype,
        peak_allocated_bytes=_highest(step.peak_allocated_bytes for step in steps),
        peak_reserved_bytes=_highest(step.peak_reserved_bytes for step in steps),
        restarts=resumed,
    )  # fmt: skip


def _known_settings(config: RunConfig) -> dict[str, Setting]:
    """With what a setting that was left out means, where that is another setting or a part left out."""
    means: dict[str, Setting] = {
        key: each.none_means
        for key, each in SETTINGS.items()
        if each.none_means == "none" or (each.none_means in SETTINGS and not each.pair)
    }
    given = {key: value for key, value in config.model_dump().items() if value is not None}
    return means | given


def _even_seconds(step: AnyStep, tokens_per_iter: int | None) -> float | None:
    if step.step_seconds is None or step.tokens is None or tokens_per_iter is None:
        return step.step_seconds
    return step.step_seconds * tokens_per_iter / step.tokens


def _imported(run: Run, record: ImportedRecord) -> Account:
    dtype = record.arithmetic.dtype if record.arithmetic else record.settings.get("dtype")
    logged = [step for step in run.steps if isinstance(step, ImportedStep)]
    grows = record.settings.get("batch_ramp") is not None
    steady = {step.iteration for step in steady_steps(logged, record.resumed_at_iterations)}
    return Account(
        name=run.name,
        settings=record.settings,
        steps=tuple(
            Step(
                step.iteration, step.loss, _even_seconds(step, run.tokens_per_iter if grows else None),
                step.iteration in steady, step.printed_mfu, step.learning_rate,
                step.tokens if grows else None,
            )
            for step in logged
        ),
        evals=tuple(Eval(each.iteration, each.val_loss, each.train_loss) for each in run.evals),
        shape=known_shape(record.settings),
        data_vocab_size=record.data.vocab_size if record.data else None,
        data=record.data,
        told_parameters=record.parameters,
        card=imported_card(record),
        processes=record.processes or 1,
        dtype=dtype if isinstance(dtype, str) else "float16",
        peak_allocated_bytes=record.peak_allocated_bytes,
        peak_reserved_bytes=record.peak_reserved_bytes,
        told_tokens_per_iter=record.tokens_per_iter,
        restarts=record.resumed_at_iterations,
        foreign=record.machine is None,
        mfu_is_nanogpts=record.origin.program == NANOGPT,
    )  # fmt: skip


def _highest(values: Iterable[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)
