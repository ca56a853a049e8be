"""Facts that every run has, trained here or imported, and those of an imported one."""

import math
from collections.abc import Iterator, Sequence

from nanodyno.analysis.account_reading import account_of
from nanodyno.analysis.audit import IMPOSSIBLE, audit, with_found_shape
from nanodyno.analysis.findings import Finding
from nanodyno.analysis.machine_state import machine_findings
from nanodyno.analysis.metrics import Speed
from nanodyno.analysis.statistics import Interval
from nanodyno.analysis.summary import LAST_STEPS, Summary
from nanodyno.messages import quantities
from nanodyno.messages.findings import words as finding_words
from nanodyno.messages.language import Language
from nanodyno.records.imported import ImportedRecord
from nanodyno.records.store import Run
from nanodyno.report.state import state_words
from nanodyno.report.words import times

MOST_NAMED = 8
"""Of a list of iterations: of a run that was resumed a hundred times, the latest are named."""
UNKNOWN = "common.not-known"
TOKENS_A_SECOND = "tokens/s"
MILLISECONDS_AN_ITERATION = "ms/iteration"

FactRows = list[tuple[str, str]]
"""The id of a title, and words."""


def imported_rows(run: Run, record: ImportedRecord, summary: Summary, language: Language) -> FactRows:
    """What the log reports and what follows from it."""
    unknown = language.say(UNKNOWN)
    tokens, device = record.tokens_per_iter, record.device_name
    settings = ", ".join(f"{key}={value}" for key, value in record.settings.items())
    batch = unknown
    if tokens is not None:
        batch = language.say("show.batch.tokens-per-iteration", tokens=language.number(tokens, ","))
    return [
        ("common.run", language.joined([run.name, str(run.folder)])),
        ("common.state", state_words(run, summary, language)),
        ("show.row.progress", progress_fact(summary, language)),
        *loss_facts(run, summary, language),
        *_logged_speed(record, summary, language),
        *caution_rows(run, summary, language),
        ("common.model", _size(summary, language)),
        ("common.batch", batch),
        ("common.machine", unknown if device is None else times(summary.speed.reference.processes, device)),
        ("show.row.settings", settings or unknown),
        *resumed_rows(record.resumed_at_iterations, language),
        *(("show.row.note", note) for note in record.notes),
    ]


def cautions(run: Run, summary: Summary) -> list[Finding]:
    """Findings that put the speed in doubt: more than the named GPU can do, or a machine that was busy."""
    if summary.speed.iteration_seconds is None:
        return []
    account = with_found_shape(account_of(run))
    impossible = [each for each in audit(account) if each.code in IMPOSSIBLE]
    state = summary.machine_state
    return impossible if state is None else [*impossible, *machine_findings(summary.name, state)]


def caution_rows(run: Run, summary: Summary, language: Language) -> FactRows:
    return [("show.row.caution", finding_words(each, language)) for each in cautions(run, summary)]


def progress_fact(summary: Summary, language: Language) -> str:
    done, planned = language.number(summary.iterations_done, ","), summary.iterations_planned
    if planned is None or summary.iterations_done > planned > 0:
        parts = [language.say("show.progress.done", done=done)]
    else:
        of = language.number(planned, ",")
        parts = [language.say("show.progress.done-of-planned", done=done, planned=of)]
    if summary.tokens_seen is not None:
        parts.append(
            language.say("common.token-count", number=quantities.count(summary.tokens_seen, language))
        )
    return language.joined(parts)


def _size(summary: Summary, language: Language) -> str:
    reported = summary.counted_parameters
    if summary.parameters is not None:
        return language.say(
            "show.model.size-by-settings",
            size=quantities.count(summary.parameters.total, language),
            nanogpt=quantities.count(summary.parameters.nanogpt, language),
        )
    if reported is None:
        return language.say(UNKNOWN)
    return language.say("show.model.size-by-log", size=quantities.count(reported, language))


def _logged_speed(record: ImportedRecord, summary: Summary, language: Language) -> FactRows:
    seconds, speed = summary.speed.iteration_seconds, summary.speed.tokens_per_second
    if seconds is None:
        words = "show.speed.too-few-times" if record.origin.timed_iterations else "show.speed.no-times"
        return [("common.speed", language.say(words))]
    rows: FactRows = []
    if speed is not None:
        rows.append(("common.speed", interval_words(speed, 1, TOKENS_A_SECOND, language)))
    if summary.speed.achieved_flops_per_second is not None:
        rows.append(("common.work", work_words(summary.speed, language)))
    return [*rows, ("common.time", iteration_time(summary.speed, language))]


def iteration_time(speed: Speed, language: Language) -> str:
    assert speed.iteration_seconds is not None
    parts = [_value_words(speed.iteration_seconds, 1000, MILLISECONDS_AN_ITERATION, language)]
    if speed.micro_step_seconds is not None:
        time = quantities.milliseconds(speed.micro_step_seconds.value, language)
        parts.append(language.say("show.time.per-micro-batch", time=time))
    return language.joined(parts)


def resumed_rows(iterations: Sequence[int], language: Language) -> FactRows:
    if not iterations:
        return []
    left_out = "... " if len(iterations) > MOST_NAMED else ""
    latest = language.joined([language.number(each, ",") for each in iterations[-MOST_NAMED:]])
    words = language.say_plural(
        "show.resumed.iterations",
        len(iterations),
        iterations=left_out + latest,
    )
    return [("show.row.resumed", words)]


def work_words(speed: Speed, language: Language) -> str:
    reached, flops = speed.achieved_flops_per_second, speed.reference.flops_per_token
    assert reached is not None
    assert flops is not None
    words = language.say(
        "show.work.rate",
        rate=quantities.flop_rate(reached.value, language),
        work=language.number(flops / 1e6, ",.1f"),
    )
    parts = [*_shares(speed, language), words]
    if speed.nanogpt_mfu is not None:
        share = quantities.percent(speed.nanogpt_mfu.value, language)
        parts.append(language.say("show.work.nanogpt-mfu", share=share))
    return language.clauses(parts)


def _shares(speed: Speed, language: Language) -> Iterator[str]:
    """Of what the speed is compared with, as far as it is known."""
    known = speed.reference
    if speed.mfu is not None and known.gpu_name and known.peak_flops_per_second is not None:
        yield language.say(
            "show.work.share-of-peak",
            share=quantities.percent(speed.mfu.value, language),
            gpu=times(known.processes, known.gpu_name),
            peak=quantities.flop_rate(known.peak_flops_per_second, language),
        )
    if speed.ceiling_fraction is not None and known.ceiling_flops_per_second is not None:
        yield language.say(
            "show.work.share-of-ceiling",
            share=quantities.percent(speed.ceiling_fraction.value, language),
            ceiling=quantities.flop_rate(known.ceiling_flops_per_second, language),
        )


def loss_facts(run: Run, summary: Summary, language: Language) -> FactRows:
    rows: FactRows = []
    if summary.last_train_loss is not None:
        rows.append(("common.train-loss", _train_loss(run, summary.last_train_loss, language)))
    if summary.last_val is not None:
        rows.append(("common.val-loss", _val_loss(run, summary, language)))
    if summary.eta_seconds:
        time = quantities.duration(summary.eta_seconds, language)
        if summary.state.kind != "running":
            time = language.say("show.time.once-resumed", time=time)
        rows.append(("show.row.time-left", time))
    return rows


def _train_loss(run: Run, mean: float, language: Language) -> str:
    last = [step.iteration for step in run.steps[-LAST_STEPS:] if step.loss is not None]
    loss = language.number(mean, ".4f")
    if last[-1] - last[0] < len(last) and (len(last) > 1 or last == [0]):
        return language.say_plural(
            "show.loss.train-mean",
            len(last),
            loss=loss,
        )
    return language.say_plural(
        "show.loss.train-mean-logged",
        len(last),
        loss=loss,
    )


def _val_loss(run: Run, summary: Summary, language: Language) -> str:
    last, best = summary.last_val, summary.best_val
    assert last is not None
    loss, iteration = language.number(last.loss, ".4f"), language.number(last.iteration, "d")
    parts = [
        language.say(
            "show.loss.val-at",
            loss=loss,
            iteration=iteration,
            perplexity=language.number(last.perplexity, ",.1f"),
        )
        if math.isfinite(last.loss)
        else language.say("show.loss.val-not-finite", loss=loss, iteration=iteration)
    ]
    if (tokens := run.evals[-1].val_tokens) is not None:
        parts.append(language.say("show.loss.val-tokens", tokens=language.number(tokens, ",")))
    words = language.joined(parts)
    if best is None or best.iteration == last.iteration:
        return words
    better = language.say(
        "show.loss.best",
        loss=language.number(best.loss, ".4f"),
        iteration=language.number(best.iteration, "d"),
    )
    return language.clauses([words, better])


def interval_words(interval: Interval, scale: float, unit: str, language: Language) -> str:
    """Return the mean with its 95% CI, where there are iterations enough for one."""
    value = _value_words(interval, scale, unit, language)
    if interval.low is None or interval.high is None:
        return language.say_plural("show.speed.mean", interval.n, value=value)
    how = _digits(interval, scale)
    low, high = (language.number(bound * scale, how) for bound in (interval.low, interval.high))
    return language.say_plural(
        "show.speed.mean-with-interval",
        interval.n,
        value=value,
        level=quantities.share(interval.level, ".0f", language),
        low=low,
        high=high,
    )


def _value_words(interval: Interval, scale: float, unit: str, language: Language) -> str:
    return quantities.of_unit(
        language.number(interval.value * scale, _digits(interval, scale)), unit, language
    )


def _digits(interval: Interval, scale: float) -> str:
    return f",.{0 if interval.value * scale >= 1000 else 1 if interval.value * scale >= 10 else 2}f"
