"""The facts of one run, a titled row each."""

from rich.table import Table

from nanodyno.analysis.machine_state import MachineState, machine_findings
from nanodyno.analysis.summary import Summary
from nanodyno.records.imported import ImportedRecord
from nanodyno.records.store import Run
from nanodyno.records.types import RunRecord, SplitRecord
from nanodyno.report import quantities
from nanodyno.report.finding_words import words as finding_words
from nanodyno.report.language import ENGLISH, Language, message
from nanodyno.report.modern import modern_words
from nanodyno.report.noise import decay_words, noise_scale_words, serving_words, unmeasured_words
from nanodyno.report.prose import Prose
from nanodyno.report.run_facts import (
    MOST_NAMED,
    TOKENS_A_SECOND,
    FactRows,
    imported_rows,
    interval_words,
    iteration_time,
    loss_facts,
    progress_fact,
    resumed_rows,
    work_words,
)
from nanodyno.report.state import STYLES, state_words
from nanodyno.report.words import SKIPPED, arithmetic_words, batch_words, device_words


def facts_table(run: Run, summary: Summary, language: Language = ENGLISH) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    styles = {"state": STYLES[summary.state.kind]}
    for title, words in fact_rows(run, summary, language):
        table.add_row(language.say(title), Prose(words, style=styles.get(title, "")))
    return table


def fact_rows(run: Run, summary: Summary, language: Language = ENGLISH) -> FactRows:
    """Titles are messages yet to be said."""
    if isinstance(run.record, ImportedRecord):
        return imported_rows(run, run.record, summary, language)
    record = run.record
    assert summary.tokens_seen is not None
    return [
        (message("run"), language.joined([run.name, str(run.folder)])),
        (message("state"), state_words(run, summary, language)),
        (message("model"), _model(run.record, summary, language)),
        *((message("beyond GPT-2"), words) for words in [modern_words(record.config, language)] if words),
        (message("batch"), _batch(run, record, language)),
        (message("data"), _data(record, summary.tokens_seen, language)),
        (
            message("machine"),
            language.joined(
                [
                    device_words(record, language),
                    arithmetic_words(record.arithmetic, record.config, language),
                    f"torch {record.versions.torch}",
                ]
            ),
        ),
        (message("progress"), progress_fact(summary, language)),
        *resumed_rows(record.resumed_at_iterations, language),
        *_split(run, language),
        *_skipped(summary, language),
        *_speed(summary, language),
        *_machine_state(summary, language),
        *_noise(run, summary, language),
        *_saves(summary, language),
        *loss_facts(run, summary, language),
        *((message("note"), note) for note in record.notes),
    ]


def _model(record: RunRecord, summary: Summary, language: Language) -> str:
    shape, sizes = record.config.model_shape(record.vocab_size), summary.parameters
    assert sizes is not None
    return language.say(
        "{size} parameters ({nanogpt} by nanoGPT's count): {layers}, {heads}, context {context}, "
        "vocabulary {vocabulary}",
        size=quantities.count(sizes.total, language),
        nanogpt=quantities.count(sizes.nanogpt, language),
        layers=quantities.layers(shape.n_layer, shape.n_embd, language),
        heads=quantities.heads(shape.n_head, language),
        context=str(shape.block_size),
        vocabulary=str(shape.vocab_size),
    )


def _data(record: RunRecord, tokens_seen: int, language: Language) -> str:
    return language.say(
        "{dataset}, {tokens} train tokens, {epochs} epochs seen",
        dataset=record.data.dataset,
        tokens=quantities.count(record.data.train_tokens, language),
        epochs=quantities.epochs(tokens_seen / max(1, record.data.train_tokens), language),
    )


def _batch(run: Run, record: RunRecord, language: Language) -> str:
    """Of one that grows, how far it has come."""
    words, now = batch_words(record, language), run.steps[-1].tokens if run.steps else None
    if record.config.batch_ramp is None or now in (None, record.config.tokens_per_iter):
        return words
    return language.clauses([words, language.say("now {number}", number=language.number(now, ","))])


def _split(run: Run, language: Language) -> FactRows:
    """A resume takes the micro-batch of the settings again."""
    splits = [entry for entry in run.history if isinstance(entry, SplitRecord)][-MOST_NAMED:]
    words = [
        language.say(
            "at iteration {iteration}: micro-batches of {size} until it is resumed (before: {before})",
            iteration=language.number(split.iteration, ","),
            size=str(split.batch_size),
            before=str(split.batch_size_before),
        )
        for split in splits
    ]
    return [(message("out of memory"), language.clauses(words))] if splits else []


def _skipped(summary: Summary, language: Language) -> FactRows:
    skipped = summary.skipped_updates
    if not skipped:
        return []
    kinds = [
        f"{language.number(number, ',')} ({language.say(SKIPPED[kind])})" for kind, number in skipped.items()
    ]
    words = language.say("updates left out: {kinds}", kinds=language.joined(kinds))
    return [(message("skipped"), words)]


def _speed(summary: Summary, language: Language) -> FactRows:
    speed = summary.speed
    if speed.tokens_per_second is None or speed.achieved_flops_per_second is None:
        words = (
            language.say("not known yet: it takes a few iterations after the first ones")
            if summary.state.kind in ("running", "not begun")
            else language.say("not known: too few times to tell")
        )
        return [(message("speed"), words)]
    rate = interval_words(speed.tokens_per_second, 1, TOKENS_A_SECOND, language)
    if summary.speed_from:
        since = language.number(summary.speed_from, ",")
        rate = language.say("{rate} since iteration {iteration}", rate=rate, iteration=since)
    times = language.say(
        "training {training}, evaluation {evaluation}",
        training=quantities.duration(summary.training_seconds, language),
        evaluation=quantities.duration(summary.evaluation_seconds, language),
    )
    rows = [
        (message("speed"), rate),
        (message("time"), language.clauses([iteration_time(speed, language), times])),
        (message("work"), work_words(speed, language)),
        (message("memory"), _memory(summary, language)),
    ]
    if summary.data_wait_share is not None and summary.data_wait_share >= 0.01:
        share = quantities.percent(summary.data_wait_share, language)
        rows.append((message("data wait"), language.say("{share} of the time", share=share)))
    return rows


def _machine_state(summary: Summary, language: Language) -> FactRows:
    """Who used the CPU and how the GPU ran, as far as it was measured; then what that did to the speed."""
    state = summary.machine_state
    if state is None:
        return []
    rows: FactRows = []
    if state.others_cpu_share is not None and state.own_cpu_share is not None and state.cores is not None:
        words = language.say(
            "{own} used by this training, {others} by other programs (cores: {cores})",
            own=quantities.percent(state.own_cpu_share, language),
            cores=language.number(state.cores, "g"),
            others=quantities.percent(state.others_cpu_share, language),
        )
        if state.load_average is not None:
            load = language.number(state.load_average, ".1f")
            words = language.joined([words, language.say("load average {load}", load=load)])
        rows.append((message("CPU load"), words))
    if gpu := _gpu_state(state, language):
        rows.append((message("GPU state"), language.joined(gpu)))
    rows += [
        (message("caution"), finding_words(each, language))
        for each in machine_findings(summary.name, state)
        if summary.speed.iteration_seconds is not None
    ]
    return rows


def _gpu_state(state: MachineState, language: Language) -> list[str]:
    parts: list[str] = []
    if state.sm_mhz is not None:
        parts.append(quantities.of_unit(language.number(state.sm_mhz, ",.0f"), "MHz", language))
    if state.power_watts is not None:
        watts = quantities.of_unit(language.number(state.power_watts, ",.0f"), "W", language)
        if state.power_limit_watts is not None:
            limit = quantities.of_unit(language.number(state.power_limit_watts, ",.0f"), "W", language)
            watts = language.say("{watts} of {limit}", watts=watts, limit=limit)
        parts.append(watts)
    if state.highest_celsius is not None:
        degrees = quantities.of_unit(language.number(state.highest_celsius, "d"), "°C", language)
        parts.append(language.say("up to {degrees}", degrees=degrees))
    if state.power_limit_share:
        share = quantities.percent(state.power_limit_share, language)
        parts.append(language.say("at its power limit {share} of the time", share=share))
    return parts


def _noise(run: Run, summary: Summary, language: Language) -> FactRows:
    """What the gradients say about the batch; that they were not asked is said where there are steps."""
    scale, config = summary.noise_scale, run.own.config
    if scale is not None:
        clauses = [noise_scale_words(scale, language), serving_words(scale, language)]
        if summary.noise_until is not None:
            clauses.append(decay_words(summary.noise_until, language))
        return [(message("noise scale"), language.clauses(clauses))]
    if config.gradient_accumulation_steps // summary.speed.reference.processes > 1 or not run.steps:
        return []
    return [(message("noise scale"), unmeasured_words(language))]


def _saves(summary: Summary, language: Language) -> FactRows:
    if summary.saved_bytes is None or summary.saving_share is None:
        return []
    words = language.say_plural(
        "{n} save, {size}, {seconds} in all, {share} of the time",
        "{n} saves, {size} each, {seconds} in all, {share} of the time",
        summary.saves,
        size=quantities.gib(summary.saved_bytes, language),
        seconds=quantities.duration(summary.saving_seconds, language),
        share=quantities.percent(summary.saving_share, language),
    )
    if summary.state.saved_iteration is not None:
        newest = language.number(summary.state.saved_iteration, ",")
        words = language.clauses([words, language.say("newest at {iteration}", iteration=newest)])
    return [(message("saves"), words)]


def _memory(summary: Summary, language: Language) -> str:
    if summary.peak_allocated_bytes is not None and summary.peak_reserved_bytes is not None:
        return language.say(
            "peak {allocated} ({reserved} reserved)",
            allocated=quantities.gib(summary.peak_allocated_bytes, language),
            reserved=quantities.gib(summary.peak_reserved_bytes, language),
        )
    if summary.peak_host_bytes is None:
        return language.say("peak {size}", size="-")
    return language.say("peak {size} (host)", size=quantities.gib(summary.peak_host_bytes, language))
