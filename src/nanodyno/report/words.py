"""What happens in a run, in words: one line each."""

from collections.abc import Mapping

from nanodyno.analysis.summary import perplexity
from nanodyno.analysis.throughput import Rates, Yardstick
from nanodyno.config import RunConfig
from nanodyno.costs.parameters import parameters
from nanodyno.hardware.ceilings import Ceilings
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
from nanodyno.report import quantities
from nanodyno.report.meter import Meter, Speed

SKIPPED: Mapping[Skipped, str] = {
    "overflow": "fp16 overflow",
    "not-finite": "loss or gradient not a number",
    "loss-spike": "loss spike",
    "norm-spike": "gradient spike",
}
STOPPED: Mapping[StopReason, str] = {
    "interrupted": "by Ctrl-C",
    "terminated": "by SIGTERM",
    "max-hours": "by --max-hours",
    "stop-at": "by --stop-at",
}


def header(started: Started, ceilings: Ceilings | None = None) -> list[str]:
    """What is trained, on what, in which arithmetic."""
    record, config = started.record, started.record.config
    shape = config.model_shape(record.vocab_size)
    size = quantities.count(parameters(shape).total)
    resumed = f", resumed at iteration {started.iteration}" if started.iteration else ""
    return [
        f"run {started.folder}: {size} parameters, {shape.n_layer} layers of {shape.n_embd}, "
        f"{shape.n_head} heads, context {shape.block_size}{resumed}",
        f"on {device_words(record)}: {arithmetic_words(record.arithmetic, config)}; "
        f"{known_words(record, ceilings)}",
        f"data {record.data.dataset}: {quantities.count(record.data.train_tokens)} train tokens; "
        f"{batch_words(record)}; {evaluation_words(record)}",
        *record.notes,
    ]


def known_words(record: RunRecord, ceilings: Ceilings | None) -> str:
    """What the speed will be held against."""
    yardstick = Yardstick.of(record, ceilings)
    peak, ceiling = yardstick.peak_flops, yardstick.ceiling_flops
    known = f"datasheet peak {quantities.flop_rate(peak)} dense" if peak else "no datasheet peak known"
    return known if ceiling is None else f"{known}, measured ceiling {quantities.flop_rate(ceiling)}"


def arithmetic_words(arithmetic: ArithmeticRecord, config: RunConfig) -> str:
    """`bfloat16, fused kernels, cudnn attention, one CUDA graph, prepared in 4 s`; other arithmetic first."""
    took = arithmetic.compile_seconds
    took_words = "" if took is None else f" in {quantities.duration(took)}"
    attention = [f"{arithmetic.attention} attention"] if arithmetic.attention else []
    if arithmetic.kernels == "autograd":
        compiled = f"compiled{took_words}" if arithmetic.compiled else "not compiled"
        return ", ".join([arithmetic.dtype, *attention, compiled])
    kernels = "fused kernels" if arithmetic.triton or took is None else "fused kernels in plain torch"
    recompute = [] if arithmetic.recompute == "none" else [f"recompute {arithmetic.recompute}"]
    products = ["measured products"] if arithmetic.products == "measured" else []
    graph = ["one CUDA graph"] if arithmetic.cuda_graph else []
    graph += ["moments in host memory"] if config.offload_moments else []
    prepared = [f"prepared{took_words}"] if took is not None else []
    other = (
        [f"other arithmetic than the default's: {', '.join(words)}"] if (words := _different(config)) else []
    )
    return ", ".join(
        [arithmetic.dtype, *other, kernels, *attention, *products, *recompute, *graph, *prepared]
    )


def _different(config: RunConfig) -> list[str]:
    """The switches of the class *different* that were on."""
    switches = {
        "fp8 products": config.fp8,
        "bfloat16 residual stream": config.residual_dtype != "float32",
        "bfloat16 moments": config.moments_dtype != "float32",
    }
    return [words for words, on in switches.items() if on]


def device_words(record: RunRecord) -> str:
    """`NVIDIA H200`, `2 x NVIDIA H200`, or a CPU with its threads."""
    machine, processes = record.machine, record.arithmetic.processes
    if machine.device_type != "cpu":
        return times(processes, machine.device_name)
    threads = quantities.threads(machine.cpu_threads)
    each = f", {processes} processes of {threads}" if processes > 1 else f", {threads}"
    return machine.device_name + each


def times(processes: int, name: str) -> str:
    return name if processes == 1 else f"{processes} x {name}"


def batch_words(record: RunRecord) -> str:
    config, processes = record.config, record.arithmetic.processes
    words = f"{config.tokens_per_iter:,} tokens/iteration = {config.batch_size} x {config.block_size} "
    words += f"x {config.gradient_accumulation_steps // processes} micro-steps"
    return words + (f" x {processes} processes" if processes > 1 else "") + ramp_words(config)


def ramp_words(config: RunConfig) -> str:
    ramp = config.ramp
    if ramp.most is not None:
        return f", doubling with the measured noise up to {ramp.most:,}"
    steps = (f"{size:,} from {quantities.count(since)} tokens on" for since, size in ramp.steps)
    return f", growing to {', '.join(steps)}" if ramp.steps else ""


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


def step_parts(step: StepRecord, speed: Speed, meter: Meter) -> list[str]:
    """One iteration in words, the most wanted first."""
    now = speed.rates
    width = len(str(meter.config.max_iters))
    return [
        f"iter {step.iteration + 1:>{width}}/{meter.config.max_iters}",
        f"loss {step.loss:.4f}",
        f"lr {step.learning_rate:.2e}",
        *([] if meter.config.batch_ramp is None else [f"{step.tokens:,} tokens/iter"]),
        f"{quantities.milliseconds(now.step_seconds)}/iter",
        f"{quantities.milliseconds(now.micro_step_seconds)}/micro-batch",
        f"{quantities.rate(now.tokens_per_second)} tok/s",
        peak_words(now),
        *ceiling_words(now),
        f"nanoGPT's MFU (A100) {quantities.percent(now.nanogpt_mfu)}",
        *noise_words(speed.noise),
        *memory_words(step),
        *([f"update not applied ({SKIPPED[step.skipped]})"] if step.skipped else []),
        f"ETA {quantities.clock(speed.eta_seconds)}",
    ]


def noise_words(scale: NoiseScale | None) -> list[str]:
    """`noise scale 41.2k tokens`; nothing where it is not measured."""
    if scale is None:
        return []
    if not scale.settled or scale.tokens is None:
        return ["noise scale settling"]
    return [f"noise scale {quantities.count(scale.tokens)}"]


def peak_words(now: Rates) -> str:
    if now.card_share is None or now.card_name is None:
        return quantities.flop_rate(now.flops_per_second)
    return f"{quantities.percent(now.card_share)} of {times(now.processes, now.card_name)}'s peak"


def ceiling_words(now: Rates) -> list[str]:
    share = now.ceiling_share
    return [] if share is None else [f"{quantities.percent(share)} of the measured ceiling"]


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
    """What the update was left out for; None for an overflow of fp16, which comes in order."""
    if step.skipped is None or step.skipped == "overflow":
        return None
    norm = "" if step.grad_norm is None else f", gradient norm {step.grad_norm:.4g}"
    why = SKIPPED[step.skipped]
    return f"update not applied in iteration {step.iteration + 1} ({why}): loss {step.loss:.4f}{norm}"


def split_words(split: SplitRecord) -> str:
    return (
        f"out of memory at iteration {split.iteration}: micro-batches of {split.batch_size} from here on "
        f"(before: {split.batch_size_before}), at the same tokens per iteration"
        + (f", with recompute {split.recompute}" if split.recompute not in (None, "none") else "")
    )


def stop_words(stop: StopRecord, meter: Meter) -> str | None:
    """Where it stands and how it goes on; None at its end, and after a failure, which is told as an error."""
    how = STOPPED.get(stop.reason)
    if how is None:
        return None
    where = f"stopped {how} at iteration {stop.iteration} of {meter.config.max_iters}"
    if meter.saved_iteration is None:
        return f"{where}; nothing was saved yet: the same command begins anew"
    if meter.saved_iteration == stop.iteration:
        return f"{where}, saved; the same command goes on"
    return f"{where}; the same command goes on from iteration {meter.saved_iteration}"
