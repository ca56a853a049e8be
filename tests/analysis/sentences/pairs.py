"""What is said of two runs side by side: two logs that make each sentence true, and two that do not."""

from typing import Any

import pytest
from tests.analysis.sentences.alone import BUSY, CALM, TORCHRUN
from tests.analysis.sentences.logs import (
    EXACT_FLOPS,
    SETTINGS,
    TOKENS,
    Asked,
    Log,
    Sentence,
    curve,
    log,
    pair,
)

NARROW_FLOPS = 6 * (12 * 12 * 384**2 + 50304 * 384) + 6 * 12 * 384 * 1025
WIDE, NARROW = log(), log(seconds=3.91, n_embd=384)
SPLIT: dict[str, Any] = {"batch_size": 16, "gradient_accumulation_steps": 32}
BARE = dict.fromkeys(SETTINGS, None)


def losses(
    one: dict[int, tuple[float, float]],
    other: dict[int, tuple[float, float]],
    changed: dict[str, Any] | None = None,
    **both: Any,
) -> Asked:
    return pair(log(evals=one, **both), log(evals=other, **(both | (changed or {}))))


def ends(iterations: int) -> dict[str, Any]:
    """nanoGPT's cosine over so many."""
    return {"warmup_iters": 0, "min_lr": 0.0, "lr_decay_iters": iterations, "max_iters": iterations}


RATE: dict[str, Any] = {"learning_rate": 1e-3}


NOISY = curve(6.0, 0.1), curve(6.01, 0.1)
APART = curve(6.0, 0.01), curve(5.8, 0.01)
FEW = {500: (5.0, 5.0)}, {500: (4.9, 4.9)}

EARLY, LATE = {100: (5.0, 5.0)}, {500: (4.0, 4.0)}

PAIRS: dict[str, Sentence] = {
    "same-effective-batch": Sentence(
        pair(log(), log(**SPLIT)),
        pair(log(), log(batch_size=16)),
        {"tokens_per_iter": TOKENS, "split_changed": True},
    ),
    "steps-unchanged": Sentence(
        pair(log(), log(**SPLIT)), pair(log(), log()), {"steps_per_billion": pytest.approx(1e9 / TOKENS)}
    ),
    "effective-batch-changed": Sentence(
        pair(log(), log(batch_size=16)),
        pair(log(), log(**SPLIT)),
        {"tokens_before": TOKENS, "tokens_after": 2 * TOKENS},
    ),
    # 5% between runs where the GPU is not reported: a ratio of 1.05 lies within 2.09 * 7%, one of 1.2 not.
    "speed-within-noise": Sentence(
        pair(log(), log(seconds=9.34 / 1.05, compile=False)),
        pair(log(), log(seconds=9.34 / 1.2, compile=False)),
        {"run_noise": 0.05, "degrees_of_freedom": None, "level": 0.95},
    ),
    "speed-of-few-iterations": Sentence(
        pair(log(), log(losses=dict.fromkeys(range(4), 6.0))), pair(log(), log()), {}
    ),
    "speed-uncertain": Sentence(pair(log(), log(slow={20: 600.0})), pair(log(), log()), {}),
    "speed-of-contradicting-tokens": Sentence(
        pair(log(), log(head="tokens per iteration will be: 491,520")),
        pair(log(), log(head=f"tokens per iteration will be: {TOKENS:,}")),
    ),
    "speed-impossible": Sentence(
        pair(log("RTX 4070", head=TORCHRUN.format(1)), log("RTX 4070", seconds=1.0, head=TORCHRUN.format(1))),
        pair(log("RTX 4070", head=TORCHRUN.format(1)), log("RTX 4070", seconds=9.0, head=TORCHRUN.format(1))),
        {"throughput_ratio": pytest.approx(9.34, rel=1e-3)},
    ),
    "speed-on-busy-machine": Sentence(pair(CALM, BUSY), pair(CALM, CALM), {"reason": "machine-busy"}),
    "speed-unrecorded-difference": Sentence(
        pair(log(), log(seconds=3.91)),
        pair(log(), log(seconds=3.91, compile=False)),
        {"throughput_ratio": pytest.approx(9.34 / 3.91, rel=1e-3)},
    ),
    # The wider model does more FLOPs a token than it is slower by.
    "throughput-fell-rate-rose": Sentence(
        pair(NARROW, WIDE),
        pair(log(), log(seconds=18.0)),
        {
            "throughput_ratio": pytest.approx(3.91 / 9.34, rel=1e-3),
            "work_ratio": pytest.approx(EXACT_FLOPS / NARROW_FLOPS),
            "rate_ratio": pytest.approx(3.91 / 9.34 * EXACT_FLOPS / NARROW_FLOPS, rel=1e-3),
        },
    ),
    "throughput-rose-rate-fell": Sentence(
        pair(WIDE, NARROW),
        pair(WIDE, log(seconds=3.91)),
        {"rate_ratio": pytest.approx(9.34 / 3.91 * NARROW_FLOPS / EXACT_FLOPS, rel=1e-3)},
    ),
    "throughput-changed": Sentence(
        pair(log(), log(seconds=3.91, compile=False)),
        pair(log(), log(seconds=9.36, compile=False)),
        {"throughput_ratio": pytest.approx(9.34 / 3.91, rel=1e-3)},
    ),
    # llm.c's main.log with train losses alone, and with a val loss at the same iteration.
    "nothing-in-common": Sentence(
        pair(log(seconds=None, evals=FEW[0], **BARE), Log("s:500 trl:5.0\n")),
        pair(log(seconds=None, evals=FEW[0], **BARE), Log("s:500 tel:5.0\n")),
    ),
    "no-change": Sentence(pair(log(), log(seconds=3.91)), pair(log(), log(learning_rate=1e-3))),
    "confounded": Sentence(
        pair(log(), log(n_embd=384, learning_rate=1e-3, **SPLIT)),
        pair(log(), log(**SPLIT)),
        {"speed": ["n_embd", "batch_size"], "loss_keys": ["n_embd", "learning_rate"]},
    ),
    "one-change": Sentence(
        pair(log(), log(**SPLIT)),
        pair(log(), log(learning_rate=1e-3, n_layer=6)),
        {"changed": ["batch_size", "gradient_accumulation_steps"]},
    ),
    # A rate moves the loss alone and compile the speed alone; a width moves both.
    "one-change-each": Sentence(
        pair(log(), log(compile=False, learning_rate=1e-3)),
        pair(log(), log(compile=False, n_embd=384)),
        {"speed": ["compile"], "loss_keys": ["learning_rate"]},
    ),
    "one-known-change": Sentence(
        pair(log(dtype=None), log(dtype=None, learning_rate=1e-3)),
        pair(log(), log(learning_rate=1e-3)),
        {"changed": ["learning_rate"], "count": 1},
    ),
    "settings-unknown": Sentence(
        pair(log("RTX 4070", dtype=None), log()),
        pair(log("RTX 4070"), log("RTX 4070")),
        {"keys": ["dtype", "device_name"]},
    ),
    "no-common-loss": Sentence(
        losses({100: (5.0, 5.0)}, {500: (4.0, 4.0)}), losses({100: (5.0, 5.0)}, {100: (4.0, 4.0)})
    ),
    "losses-on-other-data": Sentence(
        losses(*APART, changed={"dataset": "openwebtext"}),
        losses(*APART),
        {"at": 1000 * TOKENS, "axis": "tokens"},
    ),
    # Another model and another rate; the same model. Models of one size are other models too.
    "losses-of-different-models": Sentence(
        losses(*APART, changed={"n_layer": 6, **RATE}),
        losses(*APART, changed=RATE),
        {"difference": pytest.approx(-0.2)},
    ),
    "no-evidence-for-learning-rate": Sentence(
        losses(*APART, changed={"n_layer": 6, **RATE}),
        losses(*APART, changed=RATE),
        {"before": 6e-4, "after": 1e-3},
    ),
    # A run that has ended, and one at a tenth of its schedule.
    "losses-at-other-stages": Sentence(
        losses(*APART, **ends(1000), changed=ends(10_000)),
        losses(*APART, **ends(1000), changed=ends(1050)),
        {"difference": pytest.approx(-0.2)},
    ),
    "losses-of-contradicting-tokens": Sentence(
        losses(*APART, changed={"head": "tokens per iteration will be: 491,520", **RATE}),
        losses(*APART, changed=RATE),
        {"difference": pytest.approx(-0.2)},
    ),
    "losses-unrecorded-difference": Sentence(
        losses(*APART), losses(*APART, changed={"learning_rate": 1e-3}), {"difference": pytest.approx(-0.2)}
    ),
    "losses-within-noise": Sentence(
        losses(*NOISY, changed=RATE), losses(*APART, changed=RATE), {"difference": pytest.approx(0.01)}
    ),
    "losses-apart": Sentence(
        losses(*APART, changed=RATE), losses(*NOISY, changed=RATE), {"difference": pytest.approx(-0.2)}
    ),
    # Nine losses in the last fifth of 40 iterations that are one nat apart; and a log of five iterations.
    "losses-at-equal-time": Sentence(
        pair(log(losses=dict.fromkeys(range(40), 6.0)), log(losses=dict.fromkeys(range(40), 5.0), **RATE)),
        pair(log(), log(losses=dict.fromkeys(range(5), 6.0), **RATE)),
        {"kind": "train", "call": "better", "difference": pytest.approx(-1.0)},
    ),
    "next-measure-apart": Sentence(
        pair(log(), log(n_embd=384, learning_rate=1e-3, **SPLIT)),
        pair(log(), log(**SPLIT)),
        {"apart": ["n_embd=384", "batch_size=16"]},
    ),
    "next-name-the-gpu": Sentence(pair(log(), log("RTX 4070")), pair(log("RTX 4070"), log(device="cpu"))),
    # Of three, two were evaluated after 100 iterations and two after 500.
    "next-compare-alone": Sentence(
        Asked(tuple(log(evals=evals) for evals in (EARLY | LATE, EARLY, LATE))),
        Asked(tuple(log(evals=evals) for evals in (EARLY, EARLY, EARLY))),
    ),
    "next-evaluate-more": Sentence(losses({100: (5.0, 5.0)}, {500: (4.0, 4.0)}), losses(*APART)),
}
