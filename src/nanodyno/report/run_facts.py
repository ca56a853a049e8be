"""Facts that every run has, trained here or imported, and those of an imported one."""

import math
from collections.abc import Iterator, Sequence

from nanodyno.analysis.metrics import Speed
from nanodyno.analysis.statistics import Interval
from nanodyno.analysis.summary import LAST_STEPS, Summary
from nanodyno.records.imported import ImportedRecord
from nanodyno.records.store import Run
from nanodyno.report import quantities
from nanodyno.report.language import Language, message
from nanodyno.report.state import state_words
from nanodyno.report.words import times

MOST_NAMED = 8
"""Of a list of iterations: a run that was resumed a hundred times is told by the latest."""
UNKNOWN = message("not known")
TOKENS_A_SECOND = message("tokens/s")
MILLISECONDS_AN_ITERATION = message("ms/iteration")

FactRows = list[tuple[str, str]]
"""A title, which is a message yet to be said, and words."""


def imported_rows(run: Run, record: ImportedRecord, summary: Summary, language: Language) -> FactRows:
    """What the log told and what follows from it; what it left open is named in one row."""
    unknown = language.say(UNKNOWN)
    tokens, device = record.tokens_per_iter, record.device_name
    settings = ", ".join(f"{key}={value}" for key, value in record.settings.items())
    batch = unknown
    if tokens is not None:
        batch = language.say("{tokens} tokens/iteration", tokens=language.number(tokens, ","))
    return [
        (message("run"), language.joined([run.name, str(run.folder)])),
        (message("state"), state_words(run, summary, language)),
        (message("model"), _size(summary, language)),
        (message("settings"), settings or unknown),
        (message("batch"), batch),
        (message("machine"), unknown if device is None else times(summary.speed.reference.processes, device)),
        (message("progress"), progress_fact(summary, language)),
        *resumed_rows(record.resumed_at_iterations, language),
        *_logged_speed(record, summary, language),
        *loss_facts(run, summary, language),
        *((message("note"), note) for note in record.notes),
    ]


def progress_fact(summary: Summary, language: Language) -> str:
    done, planned = language.number(summary.iterations_done, ","), summary.iterations_planned
    if planned is None or summary.iterations_done > planned > 0:
        parts = [language.say("{done} iterations", done=done)]
    else:
        of = language.number(planned, ",")
        parts = [language.say("{done} of {planned} iterations", done=done, planned=of)]
    if summary.tokens_seen is not None:
        parts.append(language.say("{number} tokens", number=quantities.count(summary.tokens_seen, language)))
    return language.joined(parts)


def _size(summary: Summary, language: Language) -> str:
    reported = summary.counted_parameters
    if summary.parameters is not None:
        return language.say(
            "{size} parameters ({nanogpt} by nanoGPT's count), by its settings",
            size=quantities.count(summary.parameters.total, language),
            nanogpt=quantities.count(summary.parameters.nanogpt, language),
        )
    if reported is None:
        return language.say(UNKNOWN)
    return language.say("{size} parameters by the log's own count", size=quantities.count(reported, language))


def _logged_speed(record: ImportedRecord, summary: Summary, language: Language) -> FactRows:
    seconds, speed = summary.speed.iteration_seconds, summary.speed.tokens_per_second
    if seconds is None:
        words = (
            message("not known: too few times to tell")
            if record.origin.timed_iterations
            else message("not known: the log tells no times")
        )
        return [(message("speed"), language.say(words))]
    rows = [(message("time"), iteration_time(summary.speed, language))]
    if speed is not None:
        rows.insert(0, (message("speed"), interval_words(speed, 1, TOKENS_A_SECOND, language)))
    if summary.speed.achieved_flops_per_second is not None:
        rows.append((message("work"), work_words(summary.speed, language)))
    return rows


def iteration_time(speed: Speed, language: Language) -> str:
    assert speed.iteration_seconds is not None
    parts = [interval_words(speed.iteration_seconds, 1000, MILLISECONDS_AN_ITERATION, language)]
    if speed.micro_step_seconds is not None:
        time = quantities.milliseconds(speed.micro_step_seconds.value, language)
        parts.append(language.say("{time}/micro-batch", time=time))
    return language.joined(parts)


def resumed_rows(iterations: Sequence[int], language: Language) -> FactRows:
    if not iterations:
        return []
    left_out = "... " if len(iterations) > MOST_NAMED else ""
    latest = language.joined([language.number(each, ",") for each in iterations[-MOST_NAMED:]])
    words = language.say_plural(
        "at iteration {iterations}",
        "{n} times, at iteration {iterations}",
        len(iterations),
        iterations=left_out + latest,
    )
    return [(message("resumed"), words)]


def work_words(speed: Speed, language: Language) -> str:
    reached, flops = speed.achieved_flops_per_second, speed.reference.flops_per_token
    assert reached is not None
    assert flops is not None
    words = language.say(
        "{rate} (exact causal FLOPs, {work} MFLOP/token)",
        rate=quantities.flop_rate(reached.value, language),
        work=language.number(flops / 1e6, ",.1f"),
    )
    if shares := list(_shares(speed, language)):
        words = f"{words} = {language.joined(shares)}"
    if speed.nanogpt_mfu is None:
        return words
    share = quantities.percent(speed.nanogpt_mfu.value, language)
    return language.clauses([words, language.say("nanoGPT's MFU (A100): {share}", share=share)])


def _shares(speed: Speed, language: Language) -> Iterator[str]:
    """Of what the speed is compared with, as far as it is known."""
    known = speed.reference
    if speed.mfu is not None and known.gpu_name and known.peak_flops_per_second is not None:
        yield language.say(
            "{share} of {gpu}'s datasheet peak of {peak} (dense)",
            share=quantities.percent(speed.mfu.value, language),
            gpu=times(known.processes, known.gpu_name),
            peak=quantities.flop_rate(known.peak_flops_per_second, language),
        )
    if speed.ceiling_fraction is not None and known.ceiling_flops_per_second is not None:
        yield language.say(
            "{share} of the measured ceiling of {ceiling}",
            share=quantities.percent(speed.ceiling_fraction.value, language),
            ceiling=quantities.flop_rate(known.ceiling_flops_per_second, language),
        )


def loss_facts(run: Run, summary: Summary, language: Language) -> FactRows:
    rows: FactRows = []
    if summary.last_train_loss is not None:
        rows.append((message("train loss"), _train_loss(run, summary.last_train_loss, language)))
    if summary.last_val is not None:
        rows.append((message("val loss"), _val_loss(run, summary, language)))
    if summary.eta_seconds:
        rows.append((message("to go"), quantities.duration(summary.eta_seconds, language)))
    return rows


def _train_loss(run: Run, mean: float, language: Language) -> str:
    last = [step.iteration for step in run.steps[-LAST_STEPS:] if step.loss is not None]
    loss = language.number(mean, ".4f")
    if last[-1] - last[0] < len(last) and (len(last) > 1 or last == [0]):
        return language.say_plural(
            "{loss} (of the only iteration)",
            "{loss} (mean of the last {n} iterations)",
            len(last),
            loss=loss,
        )
    return language.say_plural(
        "{loss} (of the only logged iteration)",
        "{loss} (mean of the last {n} logged iterations)",
        len(last),
        loss=loss,
    )


def _val_loss(run: Run, summary: Summary, language: Language) -> str:
    last, best = summary.last_val, summary.best_val
    assert last is not None
    loss, iteration = language.number(last.loss, ".4f"), language.number(last.iteration, "d")
    parts = [
        language.say(
            "{loss} at {iteration} (perplexity {perplexity})",
            loss=loss,
            iteration=iteration,
            perplexity=language.number(last.perplexity, ",.1f"),
        )
        if math.isfinite(last.loss)
        else language.say("{loss} at {iteration}", loss=loss, iteration=iteration)
    ]
    if (tokens := run.evals[-1].val_tokens) is not None:
        parts.append(language.say("evaluated on {tokens} tokens", tokens=language.number(tokens, ",")))
    words = language.joined(parts)
    if best is None or best.iteration == last.iteration:
        return words
    better = language.say(
        "best {loss} at {iteration}",
        loss=language.number(best.loss, ".4f"),
        iteration=language.number(best.iteration, "d"),
    )
    return language.clauses([words, better])


def interval_words(interval: Interval, scale: float, unit: str, language: Language) -> str:
    """Return the mean with its 95% CI, where there are iterations enough for one."""
    digits = 0 if interval.value * scale >= 1000 else 1 if interval.value * scale >= 10 else 2
    how = f",.{digits}f"
    value = quantities.of_unit(language.number(interval.value * scale, how), unit, language)
    if interval.low is None or interval.high is None:
        return language.say_plural("{value} (mean of {n})", "{value} (mean of {n})", interval.n, value=value)
    low, high = (language.number(bound * scale, how) for bound in (interval.low, interval.high))
    return language.say_plural(
        "{value} (mean of {n}, {level} interval {low} to {high})",
        "{value} (mean of {n}, {level} interval {low} to {high})",
        interval.n,
        value=value,
        level=quantities.share(interval.level, ".0f", language),
        low=low,
        high=high,
    )
