"""The facts of one run, a titled row each."""

from rich.table import Table

from nanodyno.analysis.machine_state import MachineState
from nanodyno.analysis.summary import Summary
from nanodyno.messages import quantities
from nanodyno.messages.language import ENGLISH, Language
from nanodyno.records.imported import ImportedRecord
from nanodyno.records.store import Run
from nanodyno.records.types import RunRecord, SplitRecord
from nanodyno.report.modern import modern_words
from nanodyno.report.noise import decay_words, noise_scale_words, serving_words, unmeasured_words
from nanodyno.report.prose import Prose
from nanodyno.report.run_facts import (
    MOST_NAMED,
    TOKENS_A_SECOND,
    FactRows,
    caution_rows,
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


def facts_table(rows: FactRows, summary: Summary, language: Language = ENGLISH) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    styles = {"state": STYLES[summary.state.kind]}
    for title, words in rows:
        table.add_row(language.say(title), Prose(words, style=styles.get(title, "")))
    return table


def fact_rows(run: Run, summary: Summary, language: Language = ENGLISH) -> FactRows:
    """What a reader wants first comes first. Titles are ids of texts."""
    if isinstance(run.record, ImportedRecord):
        return imported_rows(run, run.record, summary, language)
    record = run.record
    assert summary.tokens_seen is not None
    return [
        ("common.run", language.joined([run.name, str(run.folder)])),
        ("common.state", state_words(run, summary, language)),
        ("show.row.progress", progress_fact(summary, language)),
        *loss_facts(run, summary, language),
        *_speed(summary, language),
        *caution_rows(run, summary, language),
        ("common.model", _model(run.record, summary, language)),
        *(("common.beyond-gpt2", words) for words in [modern_words(record.config, language)] if words),
        ("common.batch", _batch(run, record, language)),
        ("show.row.data", _data(record, summary.tokens_seen, language)),
        (
            "common.machine",
            language.joined(
                [
                    device_words(record, language),
                    arithmetic_words(record.arithmetic, record.config, language),
                    f"torch {record.versions.torch}",
                ]
            ),
        ),
        *resumed_rows(record.resumed_at_iterations, language),
        *_split(run, language),
        *_skipped(summary, language),
        *_data_wait(summary, language),
        *_machine_state(summary, language),
        *_noise(run, summary, language),
        *_saves(summary, language),
        *(("show.row.note", note) for note in record.notes),
    ]


def _model(record: RunRecord, summary: Summary, language: Language) -> str:
    shape, sizes = record.config.model_shape(record.vocab_size), summary.parameters
    assert sizes is not None
    return language.say(
        "show.model.size",
        size=quantities.count(sizes.total, language),
        nanogpt=quantities.count(sizes.nanogpt, language),
        layers=quantities.layers(shape.n_layer, shape.n_embd, language),
        heads=quantities.heads(shape.n_head, language),
        context=str(shape.block_size),
        vocabulary=str(shape.vocab_size),
    )


def _data(record: RunRecord, tokens_seen: int, language: Language) -> str:
    return language.say(
        "show.data.seen",
        dataset=record.data.dataset,
        tokens=quantities.count(record.data.train_tokens, language),
        epochs=quantities.epochs(tokens_seen / max(1, record.data.train_tokens), language),
    )


def _batch(run: Run, record: RunRecord, language: Language) -> str:
    """Of one that grows, how far it has come."""
    words, now = batch_words(record, language), run.steps[-1].tokens if run.steps else None
    if record.config.batch_ramp is None or now in (None, record.config.tokens_per_iter):
        return words
    return language.clauses([words, language.say("show.batch.now", number=language.number(now, ","))])


def _split(run: Run, language: Language) -> FactRows:
    """A resume takes the micro-batch of the settings again."""
    splits = [entry for entry in run.history if isinstance(entry, SplitRecord)][-MOST_NAMED:]
    words = [
        language.say(
            "show.out-of-memory.split",
            iteration=language.number(split.iteration, ","),
            size=str(split.batch_size),
            before=str(split.batch_size_before),
        )
        for split in splits
    ]
    return [("show.row.out-of-memory", language.clauses(words))] if splits else []


def _skipped(summary: Summary, language: Language) -> FactRows:
    skipped = summary.skipped_updates
    if not skipped:
        return []
    kinds = [
        f"{language.number(number, ',')} ({language.say(SKIPPED[kind])})" for kind, number in skipped.items()
    ]
    words = language.say("show.skipped.updates", kinds=language.joined(kinds))
    return [("show.row.skipped", words)]


def _speed(summary: Summary, language: Language) -> FactRows:
    speed = summary.speed
    if speed.tokens_per_second is None or speed.achieved_flops_per_second is None:
        words = (
            language.say("show.speed.not-known-yet")
            if summary.state.kind in ("running", "not begun")
            else language.say("show.speed.too-few-times")
        )
        return [("common.speed", words)]
    rate = interval_words(speed.tokens_per_second, 1, TOKENS_A_SECOND, language)
    if summary.speed_from:
        since = language.number(summary.speed_from, ",")
        rate = language.say("show.speed.since-iteration", rate=rate, iteration=since)
    times = language.say(
        "show.time.training-and-evaluation",
        training=quantities.duration(summary.training_seconds, language),
        evaluation=quantities.duration(summary.evaluation_seconds, language),
    )
    return [
        ("common.speed", rate),
        ("common.work", work_words(speed, language)),
        ("common.time", language.clauses([iteration_time(speed, language), times])),
        ("common.memory", _memory(summary, language)),
    ]


def _data_wait(summary: Summary, language: Language) -> FactRows:
    if summary.data_wait_share is None or summary.data_wait_share < 0.01:
        return []
    share = quantities.percent(summary.data_wait_share, language)
    return [("show.row.data-wait", language.say("show.data-wait.share", share=share))]


def _machine_state(summary: Summary, language: Language) -> FactRows:
    """Who used the CPU and how the GPU ran, as far as it was measured."""
    state = summary.machine_state
    if state is None:
        return []
    rows: FactRows = []
    if state.others_cpu_share is not None and state.own_cpu_share is not None and state.cores is not None:
        words = language.say(
            "show.cpu-load.shares",
            own=quantities.percent(state.own_cpu_share, language),
            cores=language.number(state.cores, "g"),
            others=quantities.percent(state.others_cpu_share, language),
        )
        if state.load_average is not None:
            load = language.number(state.load_average, ".1f")
            words = language.joined([words, language.say("show.cpu-load.average", load=load)])
        rows.append(("show.row.cpu-load", words))
    if gpu := _gpu_state(state, language):
        rows.append(("show.row.gpu-state", language.joined(gpu)))
    return rows


def _gpu_state(state: MachineState, language: Language) -> list[str]:
    parts: list[str] = []
    if state.sm_mhz is not None:
        parts.append(quantities.of_unit(language.number(state.sm_mhz, ",.0f"), "MHz", language))
    if state.power_watts is not None:
        watts = quantities.of_unit(language.number(state.power_watts, ",.0f"), "W", language)
        if state.power_limit_watts is not None:
            limit = quantities.of_unit(language.number(state.power_limit_watts, ",.0f"), "W", language)
            watts = language.say("show.gpu-state.power-of-limit", watts=watts, limit=limit)
        parts.append(watts)
    if state.highest_celsius is not None:
        degrees = quantities.of_unit(language.number(state.highest_celsius, "d"), "°C", language)
        parts.append(language.say("show.gpu-state.highest-temperature", degrees=degrees))
    if state.power_limit_share:
        share = quantities.percent(state.power_limit_share, language)
        parts.append(language.say("show.gpu-state.at-power-limit", share=share))
    return parts


def _noise(run: Run, summary: Summary, language: Language) -> FactRows:
    """What the gradients say about the batch; that they were not asked is said where there are steps."""
    scale, config = summary.noise_scale, run.own.config
    if scale is not None:
        clauses = [noise_scale_words(scale, language), serving_words(scale, language)]
        if summary.noise_until is not None:
            clauses.append(decay_words(summary.noise_until, language))
        return [("common.noise-scale", language.clauses(clauses))]
    if config.gradient_accumulation_steps // summary.speed.reference.processes > 1 or not run.steps:
        return []
    return [("common.noise-scale", unmeasured_words(language))]


def _saves(summary: Summary, language: Language) -> FactRows:
    if summary.saved_bytes is None or summary.saving_share is None:
        return []
    words = language.say_plural(
        "show.saves.summary",
        summary.saves,
        size=quantities.gib(summary.saved_bytes, language),
        seconds=quantities.duration(summary.saving_seconds, language),
        share=quantities.percent(summary.saving_share, language),
    )
    if summary.state.saved_iteration is not None:
        newest = language.number(summary.state.saved_iteration, ",")
        words = language.clauses([words, language.say("show.saves.newest", iteration=newest)])
    return [("show.row.saves", words)]


def _memory(summary: Summary, language: Language) -> str:
    if summary.peak_allocated_bytes is not None and summary.peak_reserved_bytes is not None:
        return language.say(
            "show.memory.peak-gpu",
            allocated=quantities.gib(summary.peak_allocated_bytes, language),
            reserved=quantities.gib(summary.peak_reserved_bytes, language),
        )
    if summary.peak_host_bytes is None:
        return language.say("show.memory.peak", size="-")
    return language.say("show.memory.peak-host", size=quantities.gib(summary.peak_host_bytes, language))
