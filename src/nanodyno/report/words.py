"""What happens in a run, in words: one line each."""

from collections.abc import Mapping

from nanodyno.analysis.metrics import Reference, Speed
from nanodyno.analysis.summary import perplexity
from nanodyno.config import RunConfig
from nanodyno.config.ramp import Ramp
from nanodyno.costs.parameters import parameters
from nanodyno.hardware.ceilings import Ceilings
from nanodyno.messages import quantities
from nanodyno.messages.language import ENGLISH, Language
from nanodyno.noise import NoiseScale
from nanodyno.records.events import Started
from nanodyno.records.types import (
    ArithmeticRecord,
    EvalRecord,
    RunRecord,
    SaveRecord,
    Skipped,
    SplitRecord,
    StepRecord,
    StopReason,
    StopRecord,
)
from nanodyno.report.meter import Meter, Progress
from nanodyno.report.modern import modern_words

SKIPPED: Mapping[Skipped, str] = {
    "overflow": "show.skipped.overflow",
    "not-finite": "show.skipped.not-finite",
    "loss-spike": "show.skipped.loss-spike",
    "norm-spike": "show.skipped.gradient-spike",
}
STOPPED: Mapping[StopReason, str] = {
    "interrupted": "by Ctrl-C",
    "terminated": "by SIGTERM",
    "max-hours": "by --max-hours",
    "stop-at": "by --stop-at",
}


SEPARATOR, LINE_WIDTH = " | ", 120


def header(started: Started, ceilings: Ceilings | None = None) -> list[str]:
    """What is trained, on what, in which arithmetic."""
    record, config = started.record, started.record.config
    shape = config.model_shape(record.vocab_size)
    size = quantities.count(parameters(shape).total)
    resumed = f", resumed at iteration {started.iteration}" if started.iteration else ""
    return [
        f"run {started.folder}: {size} parameters, {quantities.layers(shape.n_layer, shape.n_embd)}, "
        f"{quantities.heads(shape.n_head)}, context {shape.block_size}{resumed}",
        *(f"modern block: {words}" for words in [modern_words(config)] if words),
        f"on {device_words(record)}: {arithmetic_words(record.arithmetic, config)}; "
        f"{known_words(record, ceilings)}",
        f"data {record.data.dataset}: {quantities.count(record.data.train_tokens)} train tokens; "
        f"{batch_words(record)}; {evaluation_words(record)}",
        *record.notes,
    ]


def known_words(record: RunRecord, ceilings: Ceilings | None) -> str:
    """What the speed will be compared with."""
    reference = Reference.of_run(record, ceilings)
    peak, ceiling = reference.peak_flops_per_second, reference.ceiling_flops_per_second
    known = f"datasheet peak {quantities.flop_rate(peak)} dense" if peak else "no datasheet peak known"
    return known if ceiling is None else f"{known}, measured ceiling {quantities.flop_rate(ceiling)}"


def arithmetic_words(arithmetic: ArithmeticRecord, config: RunConfig, language: Language = ENGLISH) -> str:
    """`bfloat16, fused kernels, cudnn attention, one CUDA graph, prepared in 4 s`; other arithmetic first."""
    seconds = arithmetic.compile_seconds
    took = None if seconds is None else quantities.duration(seconds, language)
    attention = []
    if arithmetic.attention:
        attention = [language.say("kernel.attention", kind=arithmetic.attention)]
    other = _other_arithmetic(config, language)
    if arithmetic.kernels == "autograd":
        compiled = _compiled(arithmetic.compiled, took, language)
        return language.joined([arithmetic.dtype, *other, *attention, compiled])
    plain = not arithmetic.triton and took is not None
    kernels = language.say("kernel.fused-without-triton") if plain else language.say("kernel.fused")
    parts = [arithmetic.dtype, *other, kernels, *attention]
    parts += [language.say("kernel.measured-matmuls")] if arithmetic.gemm_algorithm == "measured" else []
    if arithmetic.recompute != "none":
        parts.append(language.say("kernel.recompute", level=arithmetic.recompute))
    parts += [language.say("kernel.cuda-graph")] if arithmetic.cuda_graph else []
    parts += [language.say("kernel.offloaded-moments")] if config.offload_moments else []
    parts += [language.say("kernel.prepared-in", seconds=took)] if took is not None else []
    return language.joined(parts)


def _compiled(compiled: bool, took: str | None, language: Language) -> str:
    if not compiled:
        return language.say("kernel.not-compiled")
    return (
        language.say("kernel.compiled") if took is None else language.say("kernel.compiled-in", seconds=took)
    )


def _other_arithmetic(config: RunConfig, language: Language) -> list[str]:
    """The switches of the class *different* that were on."""
    switches = {
        "kernel.fp8-matmuls": config.fp8,
        "kernel.bf16-residual": config.residual_dtype != "float32",
        "kernel.bf16-moments": config.moments_dtype != "float32",
    }
    words = [language.say(words) for words, on in switches.items() if on]
    if not words:
        return []
    return [language.say("kernel.other-arithmetic", switches=language.joined(words))]


def device_words(record: RunRecord, language: Language = ENGLISH) -> str:
    """`NVIDIA H200`, `2 x NVIDIA H200`, or a CPU with its threads."""
    machine, processes = record.machine, record.arithmetic.processes
    if machine.device_type != "cpu":
        return times(processes, machine.device_name)
    threads = quantities.threads(machine.cpu_threads, language)
    if processes > 1:
        threads = language.say_plural("common.processes-with-threads", processes, threads=threads)
    return language.joined([machine.device_name, threads])


def times(processes: int, name: str) -> str:
    return name if processes == 1 else f"{processes} x {name}"


def batch_words(record: RunRecord, language: Language = ENGLISH) -> str:
    config, processes = record.config, record.arithmetic.processes
    words = language.say_plural(
        "batch.product.of-one-process",
        config.gradient_accumulation_steps // processes,
        tokens=language.number(config.tokens_per_iter, ","),
        batch=str(config.batch_size),
        block=str(config.block_size),
    )
    if processes > 1:
        words = language.say_plural("batch.product.of-processes", processes, product=words)
    return with_ramp(words, config.ramp, language)


def with_ramp(batch: str, ramp: Ramp, language: Language = ENGLISH) -> str:
    """How large the batch is, and how it grows."""
    if ramp.most is not None:
        most = language.number(ramp.most, ",")
        return language.say("batch.ramp.by-noise", batch=batch, most=most)
    if not ramp.steps:
        return batch
    steps = [
        language.say(
            "batch.ramp.step",
            size=language.number(size, ","),
            since=quantities.count(since, language),
        )
        for since, size in ramp.steps
    ]
    return language.say("batch.ramp.growing", batch=batch, steps=language.joined(steps))


def evaluation_words(record: RunRecord) -> str:
    """What an evaluation reads of each split: whole sequences, and no more than there are."""
    size = record.config.block_size
    val, train = (
        max(size, min(record.config.eval_tokens, tokens - 1) // size * size)
        for tokens in (record.data.val_tokens, record.data.train_tokens)
    )
    if val == train:
        return f"evaluated on {val:,} tokens of each split"
    return f"evaluated on {val:,} val and {train:,} train tokens"


def step_parts(step: StepRecord, progress: Progress, meter: Meter) -> list[str]:
    """Everything about one iteration, the most wanted first."""
    now = progress.speed
    assert now.iteration_seconds is not None
    width = len(str(meter.config.max_iters))
    return [
        f"iter {step.iteration + 1:>{width}}/{meter.config.max_iters}",
        f"loss {step.loss:.4f}",
        f"lr {step.learning_rate:.2e}",
        *([] if meter.config.batch_ramp is None else [f"{step.tokens:,} tokens/iter"]),
        f"{quantities.milliseconds(now.iteration_seconds.value)}/iter",
        *(
            []
            if not (each := now.micro_step_seconds)
            else [f"{quantities.milliseconds(each.value)}/micro-batch"]
        ),
        *([] if not (each := now.tokens_per_second) else [f"{quantities.rate(each.value)} tok/s"]),
        *speed_words(now),
        *noise_words(progress.noise),
        *memory_words(step),
        *([f"update not applied ({ENGLISH.say(SKIPPED[step.skipped])})"] if step.skipped else []),
        f"ETA {quantities.clock(progress.eta_seconds)}",
    ]


def short_step_parts(step: StepRecord, progress: Progress, meter: Meter) -> list[str]:
    """One iteration in a line of at most 120 characters; what matters least goes where it is too long."""
    now, width = progress.speed, len(str(meter.config.max_iters))
    rate = now.tokens_per_second
    parts = {
        "iteration": f"iter {step.iteration + 1:>{width}}/{meter.config.max_iters}",
        "loss": f"loss {step.loss:.4f}",
        "learning rate": f"lr {step.learning_rate:.1e}",
        "speed": "" if rate is None else f"{quantities.rate(rate.value)} tok/s",
        "mfu": mfu_words(now),
        "memory": _peak_words(step),
        "skipped": f"update not applied ({ENGLISH.say(SKIPPED[step.skipped])})" if step.skipped else "",
        "eta": f"ETA {quantities.clock(progress.eta_seconds)}",
    }
    without_name = "" if now.mfu is None else f"MFU {quantities.percent(now.mfu.value)}"
    for name, shorter in (
        ("mfu", without_name),
        ("memory", ""),
        ("learning rate", ""),
        ("speed", ""),
        ("mfu", ""),
    ):
        if len(SEPARATOR.join(filter(None, parts.values()))) <= LINE_WIDTH:
            break
        parts[name] = shorter
    return [each for each in parts.values() if each]


def mfu_words(now: Speed) -> str:
    """`MFU 76.8% of RTX 4070`; where no peak is known, the achieved FLOP/s."""
    if now.mfu is not None and now.reference.gpu_name is not None:
        gpu = times(now.reference.processes, now.reference.gpu_name)
        return f"MFU {quantities.percent(now.mfu.value)} of {gpu}"
    achieved = now.achieved_flops_per_second
    return "" if achieved is None else quantities.flop_rate(achieved.value)


def _peak_words(step: StepRecord) -> str:
    """`7.1 GiB` of the GPU, else of the host."""
    peak = step.peak_allocated_bytes or step.peak_host_bytes
    if peak is None:
        return ""
    return f"{peak / quantities.GIB:.1f} GiB" if peak >= quantities.GIB else quantities.gib(peak)


def noise_words(scale: NoiseScale | None) -> list[str]:
    """`noise scale 41.2k tokens`; nothing where it is not measured."""
    if scale is None:
        return []
    if not scale.settled or scale.tokens is None:
        return ["noise scale settling"]
    return [f"noise scale {quantities.count(scale.tokens)}"]


def speed_words(now: Speed) -> list[str]:
    """MFU, or the achieved FLOP/s, its share of the measured ceiling, and nanoGPT's MFU."""
    words = [each] if (each := mfu_words(now)) else []
    if now.ceiling_fraction is not None:
        words.append(f"{quantities.percent(now.ceiling_fraction.value)} of the measured ceiling")
    if now.nanogpt_mfu is not None:
        words.append(f"MFU by nanoGPT's formula (A100) {quantities.percent(now.nanogpt_mfu.value)}")
    return words


def memory_words(step: StepRecord) -> list[str]:
    if step.peak_allocated_bytes is not None and step.peak_reserved_bytes is not None:
        allocated, reserved = (
            quantities.gib(step.peak_allocated_bytes),
            quantities.gib(step.peak_reserved_bytes),
        )
        return [f"peak {allocated} allocated, {reserved} reserved"]
    return [f"peak {quantities.gib(step.peak_host_bytes)} of host memory"] if step.peak_host_bytes else []


def eval_words(entry: EvalRecord) -> str:
    val = f"val loss {entry.val_loss:.4f} (perplexity {perplexity(entry.val_loss):,.1f})"
    seconds = quantities.duration(entry.eval_seconds)
    return f"eval at {entry.iteration}: {val}, train loss {entry.train_loss:.4f}, {seconds}"


def save_words(save: SaveRecord) -> str:
    size, seconds = quantities.gib(save.saved_bytes), quantities.duration(save.save_seconds)
    return f"saved iteration {save.iteration} ({save.reason}): {size} in {seconds}"


def skip_words(step: StepRecord) -> str | None:
    """Why the update was not applied; None for an overflow of fp16, which is normal."""
    if step.skipped is None or step.skipped == "overflow":
        return None
    norm = "" if step.grad_norm is None else f", gradient norm {step.grad_norm:.4g}"
    why = ENGLISH.say(SKIPPED[step.skipped])
    return f"update not applied in iteration {step.iteration + 1} ({why}): loss {step.loss:.4f}{norm}"


def grown_words(step: StepRecord, grew_from: int | None) -> str | None:
    if grew_from is None:
        return None
    since = step.iteration + 1
    return f"batch size grows from {grew_from:,} to {step.tokens:,} tokens per iteration at iteration {since}"


def split_words(split: SplitRecord) -> str:
    return (
        f"out of memory at iteration {split.iteration}: micro-batch cut from {split.batch_size_before} to "
        f"{split.batch_size}, at the same tokens per iteration"
        + (f", with recompute {split.recompute}" if split.recompute not in (None, "none") else "")
    )


def stop_words(stop: StopRecord, meter: Meter) -> str | None:
    """Where it stands and how to resume; None at its end, and after a failure, which is shown as an error."""
    how = STOPPED.get(stop.reason)
    if how is None:
        return None
    where = f"stopped {how} at iteration {stop.iteration} of {meter.config.max_iters}"
    if meter.saved_iteration is None:
        return f"{where}; nothing was saved; the same command starts over"
    if meter.saved_iteration == stop.iteration:
        return f"{where}, saved; the same command resumes"
    return f"{where}; the same command resumes from iteration {meter.saved_iteration}"
