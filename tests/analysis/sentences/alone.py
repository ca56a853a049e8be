"""What is said of one run: a log that makes each sentence true, and one as near as can be that does not."""

import math
from typing import Any

import pytest
from tests.analysis.sentences.logs import (
    EXACT_FLOPS,
    NANOGPT_FLOPS,
    PARAMETERS,
    TOKENS,
    Log,
    Sentence,
    alone,
    log,
    pair,
)
from tests.conftest import build_eval, build_record, build_run, build_sample, build_step

from nanodyno.records.store import Run

PRINTED = NANOGPT_FLOPS * TOKENS / 9.34 / 312e12
"""What nanoGPT prints as MFU at 9.34 s an iteration."""
FLOPS = EXACT_FLOPS * TOKENS
TORCHRUN = "torchrun --standalone --nproc_per_node={} train.py"
LLMC = "| num_processes         | 1                                                  |\n"


def llmc(rates: dict[int, float], resumed: dict[int, float]) -> Log:
    """llm.c's stdout, which prints the learning rate, resumed where it goes back."""
    lines = [
        f"step {at + 1:>4}/100 | loss 5.0 (+nanz)| norm 1.0 (+nanz)| lr {rate:.2e} "
        "| 100.00 ms | 50.0% bf16 MFU | 5242880 tok/s"
        for part in (rates, resumed)
        for at, rate in part.items()
    ]
    return Log(LLMC + "\n".join(lines) + "\n")


def bytes_run(val_loss: float) -> Run:
    """A run of our own on bytes, on a CPU, after four iterations."""
    record = build_record({"n_embd": 64, "max_iters": 4}, gpu=None, dtype="float32")
    data = record.data.model_copy(update={"vocab_size": 257})
    record = record.model_copy(update={"vocab_size": 257, "data": data})
    return build_run([build_step(at) for at in range(4)], [build_eval(4, val_loss=val_loss)], record)


def sampled(on_gpu: bool = False, **sample: Any) -> Run:
    """A run of our own with telemetry; of two cores its own processes use one."""
    device: dict[str, Any] = {} if on_gpu else {"gpu": None, "dtype": "float32"}
    steps = [build_step(at, step_seconds=1 + 0.001 * (at % 3)) for at in range(20)]
    record = build_record({"n_embd": 64}, **device)
    return build_run(steps, [], record, telemetry=[build_sample(10, **sample)])


CALM, BUSY = sampled(), sampled(busy_core_seconds=4.0)


def stamped(seconds: int) -> Log:
    """nanoGPT's lines, of every tenth iteration, with a logger's time before each."""
    lines = [
        f"2026-01-05 10:{at * seconds // 60:02d}:{at * seconds % 60:02d},000 - INFO - "
        f"iter {10 * at}: loss 5.0, time {1000 + at % 3}.00ms, mfu 15.40%"
        for at in range(60)
    ]
    return Log("\n".join(lines) + "\n")


def evaluated(at: int) -> dict[str, Any]:
    return {"mfu": PRINTED, "slow": {20: 280.2}, "evals": {at: (5.0, 5.1)}}


ALONE: dict[str, Sentence] = {
    "model-from-numbers": Sentence(
        alone(log(mfu=0.154, n_layer=None)),
        alone(log(mfu=0.154)),
        {
            "flops_per_token": pytest.approx(0.154 * 312e12 * 9.34 / TOKENS, rel=1e-3),
            "fits": [{"n_layer": 12, "n_embd": 768, "parameters": PARAMETERS}],
            "count": 1,
        },
    ),
    "model-from-count": Sentence(
        alone(log(n_layer=None, head="number of parameters: 123.59M")),
        alone(log(head="number of parameters: 123.59M")),
        {"fits": [{"n_layer": 12, "n_embd": 768, "parameters": PARAMETERS}], "count": 1},
    ),
    # Against an H100's 989 TFLOP/s; and an average that evaluations pull down by up to a third.
    "mfu-of-another-peak": Sentence(
        alone(log(mfu=PRINTED * 312 / 989)),
        alone(
            log(
                mfu=PRINTED,
                slow=dict.fromkeys((9, 12, 15, 18), 280.0),
                evals=dict.fromkeys((9, 12, 15, 18), (5.0, 5.1)),
            )
        ),
        {"peak": pytest.approx(989e12, rel=2e-3), "expected": NANOGPT_FLOPS, "processes": None},
    ),
    # Eight times as many as by the settings are those of eight processes.
    "tokens-contradict": Sentence(
        alone(log(head="tokens per iteration will be: 491,520")),
        alone(log(head=f"tokens per iteration will be: {8 * TOKENS:,}")),
        {"reported_tokens": 491_520, "computed_tokens": TOKENS},
    ),
    # nanoGPT's peak is an A100's: of a faster GPU more than all of it is possible.
    "mfu-above-one": Sentence(
        alone(log("A100-SXM4-80GB", mfu=1.4, seconds=1.0)),
        alone(log("H200", mfu=1.4, seconds=1.0)),
        {"mfu": pytest.approx(1.4, rel=1e-3)},
    ),
    "rate-impossible": Sentence(
        alone(log("RTX 4070", seconds=1.0, head=TORCHRUN.format(1))),
        alone(log("RTX 4070", seconds=1.0, head=TORCHRUN.format(8))),
        {"share": pytest.approx(FLOPS / 58.3e12, rel=1e-3), "most": 1.16, "peak": pytest.approx(58.3e12)},
    ),
    "more-than-one-gpu": Sentence(
        alone(log("RTX 4070", seconds=1.0)),
        alone(log("RTX 4070", seconds=1.0, head=TORCHRUN.format(1))),
        {"gpus": math.ceil(FLOPS / 58.3e12 / 1.16), "share": pytest.approx(FLOPS / 58.3e12, rel=1e-3)},
    ),
    # In a foreign float32 TF32 may have been allowed: of which peak it is a share is not known.
    "share-of-gpu": Sentence(
        alone(log("RTX 4070")),
        alone(log("RTX 4070", dtype="float32")),
        {"share": pytest.approx(FLOPS / 9.34 / 58.3e12, rel=1e-3), "taken_as_one": True},
    ),
    "gpus-by-rate": Sentence(
        alone(log()),
        alone(log(device="cpu")),
        {"achieved_flops_per_second": pytest.approx(FLOPS / 9.34, rel=1e-3), "most": 1.16, "trained": 0.81},
    ),
    "mfu-against-a100": Sentence(
        alone(log(mfu=PRINTED)),
        alone(log("A100-SXM4-80GB", mfu=PRINTED)),
        {"mfu": pytest.approx(PRINTED, abs=1e-4)},
    ),
    "mfus-against-a100": Sentence(
        pair(log(mfu=PRINTED), log(mfu=PRINTED)),
        pair(log(mfu=PRINTED), log()),
        {"mfus": pytest.approx([PRINTED, PRINTED], abs=1e-4)},
    ),
    # The slow iteration has an evaluation in its time, or something else.
    "mfu-poisoned": Sentence(
        alone(log(**evaluated(20))),
        alone(log(**evaluated(10))),
        {
            "iterations": 1,
            "longest_seconds": 280.2,
            "lowered_by": pytest.approx(0.1 * (1 - 9.34 / 280.2), rel=1e-3),
        },
    ),
    # One iteration of 40 was held up for ten minutes.
    "speed-without-disturbances": Sentence(alone(log(slow={20: 600.0})), alone(log())),
    # Every tenth iteration is printed and took a second; by the timestamps, ten take 14 s, or 10.
    "speed-not-elapsed": Sentence(
        alone(stamped(14)), alone(stamped(10)), {"excess": pytest.approx(0.4, abs=0.01)}
    ),
    "perplexity-as-loss": Sentence(
        alone(log(evals={500: (3.18, 24.1), 1000: (3.09, 22.3)})),
        alone(log(evals={500: (11.9, 12.1), 1000: (11.6, 11.8)})),
        {
            "loss": pytest.approx(math.log(22.3)),
            "guessing": pytest.approx(math.log(50257)),
            "reported_loss": 22.3,
        },
    ),
    "worse-than-guessing": Sentence(
        alone(bytes_run(5.58)),
        alone(bytes_run(5.54)),
        {"loss": 5.58, "iteration": 4, "guessing": pytest.approx(math.log(257)), "vocabulary": 257},
    ),
    "not-a-number": Sentence(
        alone(
            log(
                evals={10: (5.0, 5.1), 20: (math.nan, math.nan)},
                losses={at: math.nan if at > 20 else 5.0 for at in range(23)},
            )
        ),
        alone(log(evals={10: (5.0, 5.1), 20: (4.9, 5.0)})),
        {"count": 3, "iteration": 20},
    ),
    # Half the rate after a resume; and the tenfold from one logged iteration to the next of a warm-up.
    "another-schedule": Sentence(
        alone(llmc(dict.fromkeys(range(20), 0.0006), dict.fromkeys(range(10, 30), 0.0003))),
        alone(llmc({at: 1e-5 * at for at in range(1, 60, 2)}, {at: 1e-5 * at for at in range(3, 60, 2)})),
        {"iteration": 10, "before": 6e-4, "after": 3e-4},
    ),
    "hours-to-tokens": Sentence(
        alone(log()),
        alone(log(seconds=None, evals={500: (5.3, 5.4)})),
        {"hours": pytest.approx(math.ceil(10e9 / TOKENS) * 9.34 / 3600, rel=1e-3), "iterations": 19_074},
    ),
    # llm.c's run stood at 5.3743 after 500 iterations of so many tokens, on FineWeb.
    "beside-public-curve": Sentence(
        alone(log(evals={500: (5.5, 5.5194)})),
        alone(log(evals={500: (5.5, 5.5194)}, dataset="openwebtext")),
        {"public": 5.3743, "difference": pytest.approx(0.1451), "tokens": 500 * TOKENS},
    ),
    # Two seconds of two cores: a core and all of both, of which the run's own processes used one.
    "machine-busy": Sentence(alone(BUSY), alone(CALM), {"others_cpu_share": 0.5}),
    # Heat, and the power limit, which every GPU meets under full load.
    "gpu-throttled": Sentence(
        alone(sampled(on_gpu=True, throttle_reasons=0x20)), alone(sampled(on_gpu=True, throttle_reasons=0x4))
    ),
    "gpu-shared": Sentence(
        alone(sampled(on_gpu=True, other_gpu_processes=1, other_gpu_share=0.3)),
        alone(sampled(on_gpu=True, other_gpu_processes=1, other_gpu_share=0.01)),
    ),
}
