"""The facts of one run, a titled row each."""

from collections.abc import Iterator, Sequence

from rich.table import Table
from rich.text import Text

from nanodyno.analysis.statistics import Interval
from nanodyno.analysis.summary import LAST_STEPS, Summary
from nanodyno.records.imported import ImportedRecord
from nanodyno.records.store import Run
from nanodyno.records.types import SplitRecord
from nanodyno.report import quantities
from nanodyno.report.noise import noise_scale_words, serving_words
from nanodyno.report.state import STYLES, state_words
from nanodyno.report.words import SKIPPED, arithmetic_words, batch_words, device_words, times

MOST_NAMED = 8
"""Of a list of iterations: a run that was resumed a hundred times is told by the latest."""

UNKNOWN = "not known"

Rows = list[tuple[str, str]]


def facts_table(run: Run, summary: Summary) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    styles = {"state": STYLES[summary.state.kind]}
    for title, words in fact_rows(run, summary):
        table.add_row(title, Text(words, style=styles.get(title, "")))
    return table


def fact_rows(run: Run, summary: Summary) -> Rows:
    if isinstance(run.record, ImportedRecord):
        return _imported(run, run.record, summary)
    record = run.record
    shape, sizes = record.config.model_shape(record.vocab_size), summary.parameters
    assert sizes is not None
    assert summary.tokens_seen is not None
    size, nanogpt = quantities.count(sizes.total), quantities.count(sizes.nanogpt)
    return [
        ("run", f"{run.name}, {run.folder}"),
        ("state", state_words(run, summary)),
        (
            "model",
            f"{size} parameters ({nanogpt} by nanoGPT's count): {shape.n_layer} layers of {shape.n_embd}, "
            f"{shape.n_head} heads, "
            f"context {shape.block_size}, vocabulary {shape.vocab_size}",
        ),
        ("batch", batch_words(record)),
        (
            "data",
            f"{record.data.dataset}, {quantities.count(record.data.train_tokens)} train tokens, "
            f"{quantities.epochs(summary.tokens_seen / max(1, record.data.train_tokens))} epochs seen",
        ),
        (
            "machine",
            f"{device_words(record)}, {arithmetic_words(record.arithmetic, record.config)}, "
            f"torch {record.versions.torch}",
        ),
        (
            "progress",
            f"{summary.iterations_done:,} of {summary.iterations_planned:,} iterations, "
            f"{quantities.count(summary.tokens_seen)} tokens",
        ),
        *_resumed(record.resumed_at_iterations),
        *_split(run),
        *_skipped(summary),
        *_speed(summary),
        *_noise(run, summary),
        *_saves(summary),
        *_losses(run, summary),
        *(("note", note) for note in record.notes),
    ]


def _imported(run: Run, record: ImportedRecord, summary: Summary) -> Rows:
    """What the log told and what follows from it; what it left open is named in one row."""
    planned = "" if summary.iterations_planned is None else f" of {summary.iterations_planned:,}"
    seen = "" if summary.tokens_seen is None else f", {quantities.count(summary.tokens_seen)} tokens"
    rows = [
        ("run", f"{run.name}, {run.folder}"),
        ("state", state_words(run, summary)),
        ("model", _size(summary)),
        ("settings", ", ".join(f"{key}={value}" for key, value in record.settings.items()) or UNKNOWN),
        (
            "batch",
            UNKNOWN if record.tokens_per_iter is None else f"{record.tokens_per_iter:,} tokens/iteration",
        ),
        ("machine", UNKNOWN if record.device_name is None else times(summary.processes, record.device_name)),
        ("progress", f"{summary.iterations_done:,}{planned} iterations{seen}"),
        *_resumed(record.resumed_at_iterations),
        *_logged_speed(record, summary),
        *_losses(run, summary),
    ]
    return [*rows, *(("note", note) for note in record.notes)]


def _size(summary: Summary) -> str:
    told = summary.counted_parameters
    if summary.parameters is not None:
        size, nanogpt = quantities.count(summary.parameters.total), summary.parameters.nanogpt
        return f"{size} parameters ({quantities.count(nanogpt)} by nanoGPT's count), by its settings"
    return UNKNOWN if told is None else f"{quantities.count(told)} parameters by the log's own count"


def _logged_speed(record: ImportedRecord, summary: Summary) -> Rows:
    seconds, speed = summary.step_seconds, summary.tokens_per_second
    if seconds is None:
        words = "the log tells no times" if not record.origin.timed_iterations else "too few times to tell"
        return [("speed", f"{UNKNOWN}: {words}")]
    micro = summary.micro_step_seconds
    per_micro = "" if micro is None else f", {quantities.milliseconds(micro)}/micro-batch"
    rows = [("time", _interval(seconds, 1000, "ms/iteration") + per_micro)]
    if speed is not None:
        rows.insert(0, ("speed", _interval(speed, 1, "tokens/s")))
    if summary.flops_per_second is not None:
        rows.append(("work", _work(summary)))
    return rows


def _resumed(iterations: Sequence[int]) -> Rows:
    if not iterations:
        return []
    often = "" if len(iterations) == 1 else f"{len(iterations)} times, "
    left_out = "... " if len(iterations) > MOST_NAMED else ""
    latest = ", ".join(f"{each:,}" for each in iterations[-MOST_NAMED:])
    return [("resumed", f"{often}at iteration {left_out}{latest}")]


def _split(run: Run) -> Rows:
    """A resume takes the micro-batch of the settings again."""
    splits = [entry for entry in run.history if isinstance(entry, SplitRecord)][-MOST_NAMED:]
    words = (
        f"at iteration {split.iteration:,}: micro-batches of {split.batch_size} until it is resumed "
        f"(before: {split.batch_size_before})"
        for split in splits
    )
    return [("out of memory", "; ".join(words))] if splits else []


def _skipped(summary: Summary) -> Rows:
    skipped = summary.skipped_updates
    if not skipped:
        return []
    kinds = ", ".join(f"{number:,} ({SKIPPED[kind]})" for kind, number in skipped.items())
    return [("skipped", f"updates left out: {kinds}")]


def _speed(summary: Summary) -> Rows:
    speed, seconds = summary.tokens_per_second, summary.step_seconds
    if (
        speed is None
        or seconds is None
        or summary.micro_step_seconds is None
        or summary.flops_per_second is None
    ):
        return [("speed", "not known yet: it takes a few iterations after the first ones")]
    since = f" since iteration {summary.rated_from:,}" if summary.rated_from else ""
    rows = [
        ("speed", _interval(speed, 1, "tokens/s") + since),
        (
            "time",
            f"{_interval(seconds, 1000, 'ms/iteration')}, "
            f"{quantities.milliseconds(summary.micro_step_seconds)}/micro-batch; "
            f"training {quantities.duration(summary.training_seconds)}, "
            f"evaluation {quantities.duration(summary.evaluation_seconds)}",
        ),
        ("work", _work(summary)),
        ("memory", f"peak {_memory(summary)}"),
    ]
    if summary.data_wait_share is not None and summary.data_wait_share >= 0.01:
        rows.append(("data wait", f"{quantities.percent(summary.data_wait_share)} of the time"))
    return rows


def _noise(run: Run, summary: Summary) -> Rows:
    """What the gradients say about the batch; that they were not asked is said where there are steps."""
    scale, config = summary.noise, run.own.config
    if scale is None:
        alone = config.gradient_accumulation_steps // summary.processes == 1
        words = "not measured: there is one micro-step per iteration; half the --batch_size at the same "
        words += "--tokens_per_iter would tell"
        return [("noise scale", words)] if alone and run.steps else []
    return [("noise scale", f"{noise_scale_words(scale)}; {serving_words(scale)}")]


def _work(summary: Summary) -> str:
    assert summary.flops_per_second is not None
    assert summary.flops_per_token is not None
    words = f"{quantities.flop_rate(summary.flops_per_second)} (exact causal FLOPs, "
    words += f"{summary.flops_per_token / 1e6:,.1f} MFLOP/token)"
    words += f" = {', '.join(shares)}" if (shares := list(_shares(summary))) else ""
    if summary.nanogpt_mfu is not None:
        words += f"; nanoGPT's MFU (A100): {quantities.percent(summary.nanogpt_mfu)}"
    return words


def _shares(summary: Summary) -> Iterator[str]:
    """Of what the work is held against, as far as it is known."""
    if summary.card_share is not None and summary.card_name and summary.peak_flops is not None:
        cards, peak = times(summary.processes, summary.card_name), quantities.flop_rate(summary.peak_flops)
        yield f"{quantities.percent(summary.card_share)} of {cards}'s datasheet peak of {peak} (dense)"
    if summary.ceiling_share is not None and summary.ceiling_flops is not None:
        ceiling = quantities.flop_rate(summary.ceiling_flops)
        yield f"{quantities.percent(summary.ceiling_share)} of the measured ceiling of {ceiling}"


def _saves(summary: Summary) -> Rows:
    if summary.saved_bytes is None or summary.saving_share is None:
        return []
    size, each = quantities.gib(summary.saved_bytes), " each" if summary.saves > 1 else ""
    number = "1 save" if summary.saves == 1 else f"{summary.saves:,} saves"
    seconds = quantities.duration(summary.saving_seconds)
    share = quantities.percent(summary.saving_share)
    at = "" if summary.state.saved_iteration is None else f"; newest at {summary.state.saved_iteration:,}"
    return [("saves", f"{number}, {size}{each}, {seconds} in all, {share} of the time{at}")]


def _losses(run: Run, summary: Summary) -> Rows:
    rows: Rows = []
    if summary.last_train_loss is not None:
        n = sum(step.loss is not None for step in run.steps[-LAST_STEPS:])
        over = "of the only iteration" if n == 1 else f"mean of the last {n} iterations"
        rows.append(("train loss", f"{summary.last_train_loss:.4f} ({over})"))
    last, best = summary.last_val, summary.best_val
    if last is not None:
        words = f"{last.loss:.4f} at {last.iteration} (perplexity {last.perplexity:,.1f})"
        if (tokens := run.evals[-1].val_tokens) is not None:
            words += f", evaluated on {tokens:,} tokens"
        if best is not None and best.iteration != last.iteration:
            words += f"; best {best.loss:.4f} at {best.iteration}"
        rows.append(("val loss", words))
    if summary.eta_seconds:
        rows.append(("to go", quantities.duration(summary.eta_seconds)))
    return rows


def _interval(interval: Interval, scale: float, unit: str) -> str:
    """The median with its 95% interval, where there are samples enough for one."""
    digits = 0 if interval.estimate * scale >= 1000 else 1 if interval.estimate * scale >= 10 else 2
    value = f"{interval.estimate * scale:,.{digits}f} {unit}"
    if interval.low is None or interval.high is None:
        return f"{value} (median of {interval.n})"
    low, high = (f"{bound * scale:,.{digits}f}" for bound in (interval.low, interval.high))
    return f"{value} (median of {interval.n}, {interval.level:.0%} interval {low} to {high})"


def _memory(summary: Summary) -> str:
    if summary.peak_allocated_bytes is not None and summary.peak_reserved_bytes is not None:
        reserved = quantities.gib(summary.peak_reserved_bytes)
        return f"{quantities.gib(summary.peak_allocated_bytes)} ({reserved} reserved)"
    return "-" if summary.peak_host_bytes is None else f"{quantities.gib(summary.peak_host_bytes)} (host)"
