"""What is said of where runs end: a log that makes each sentence true, and one that does not."""

import math
from typing import Any

import numpy as np
import pytest
from tests.analysis.sentences.logs import (
    SCHEDULE,
    SETTINGS,
    TOKENS,
    Asked,
    Sentence,
    at_law,
    forecast,
    law,
    training,
)
from tests.conftest import build_eval, build_record, build_run, build_step

from nanodyno.records.store import Run

END = at_law(10_000)
NO_SCHEDULE = dict.fromkeys(("learning_rate", "min_lr", "warmup_iters", "lr_decay_iters", "decay_lr"), None)
HALF_WAY = 5000
SECONDS: dict[str, Any] = {"seconds": 9.34}
EVALUATED: dict[str, Any] = {**SECONDS, "slow": {200 * at: 109.34 for at in range(1, 26)}}
GROWING = f"{2000 * TOKENS}:{2 * TOKENS}"


def raised(above: dict[int, float]) -> dict[int, tuple[float, float]]:
    """The law's evaluations, some of them higher by so much, on train text as well."""
    found = law(HALF_WAY).items()
    return {at: (train + above.get(at, 0.0), val + above.get(at, 0.0)) for at, (train, val) in found}


def flat(until: int) -> dict[int, tuple[float, float]]:
    return {at: (train, val) if at < 2000 else (3.58, 3.6) for at, (train, val) in law(until).items()}


def batches(leaps: int) -> dict[int, float]:
    """Losses of 400 iterations, some of which leap by a nat."""
    scattered = 3.5 + 0.02 * np.random.default_rng(4).normal(size=400)
    scattered[50 : 50 + 7 * leaps : 7] += 1.0
    return dict(enumerate(scattered.tolist()))


def parting(by: float) -> dict[int, tuple[float, float]]:
    return {at: (val - 0.02 - by * at / HALF_WAY, val) for at, (_, val) in law(HALF_WAY).items()}


def overfitting(train: float) -> dict[int, tuple[float, float]]:
    """By the square root of two e-folds after iteration 2,000 val rises by a nat, and train by so much."""
    found = law(HALF_WAY)
    late = {at: max(0.0, math.log(at / 2000)) for at in found}
    low = found[2000]
    return {at: (low[0] + train * late[at], low[1] + late[at]) if late[at] else found[at] for at in found}


def own(train_tokens: int = 10**11, **settings: Any) -> Run:
    """A run of our own half way, whose record has its data and what an evaluation takes."""
    planned = {key: value for key, value in {**SETTINGS, **SCHEDULE, **settings}.items() if key != "bias"}
    record = build_record(planned)
    data = record.data.model_copy(update={"train_tokens": train_tokens})
    evals = [build_eval(at, val_loss=val, train_loss=train) for at, (train, val) in law(HALF_WAY).items()]
    steps = [build_step(at, step_seconds=2.0) for at in range(HALF_WAY - 40, HALF_WAY)]
    return build_run(steps, evals, record.model_copy(update={"data": data}))


def two(one: Any, other: Any, **question: Any) -> Asked:
    return forecast(one, other, **question)


TRAINING, OVER, FEW = training(), training(10_000), training(400)
SIGNS: dict[str, Sentence] = {
    "warning-diverging": Sentence(
        forecast(training(evals=raised({4600: 0.5, 4800: 0.7, 5000: 0.9}))),
        forecast(training(evals=raised({4600: 0.5}))),
        {"rise": pytest.approx(0.9 + at_law(5000) - at_law(4400), abs=2e-4)},
    ),
    # Flat at a full rate, and by intention at the end of a decay.
    "warning-plateau": Sentence(
        forecast(training(evals=flat(4800))), forecast(training(evals=flat(9800))), {"loss": 3.6}
    ),
    "warning-spikes": Sentence(
        forecast(training(seconds=1.0, losses=batches(10))),
        forecast(training(seconds=1.0, losses=batches(1))),
        {"count": 10, "of": 400},
    ),
    "warning-parting": Sentence(
        forecast(training(evals=parting(0.3))),
        forecast(training(evals=parting(0.05))),
        {"gap": pytest.approx(0.32, abs=2e-4), "smallest": pytest.approx(0.02 + 0.3 * 200 / 5000, abs=2e-4)},
    ),
    "warning-repeating": Sentence(
        forecast(own(10**9)), forecast(own(10**10)), {"epochs": pytest.approx(10_000 * TOKENS / 1e9)}
    ),
    "warning-not-finite": Sentence(
        forecast(training(evals=raised({4800: math.nan}))), forecast(TRAINING), {"count": 1}
    ),
    "warning-uneven-evaluations": Sentence(
        forecast(training(evals=raised({at: 0.3 * math.sin((at / 200) ** 2) for at in law(HALF_WAY)}))),
        forecast(training(evals=raised({at: 0.003 * math.sin((at / 200) ** 2) for at in law(HALF_WAY)}))),
    ),
}
ENDS: dict[str, Sentence] = {
    "forecast-end": Sentence(
        forecast(TRAINING), forecast(OVER), {"loss": pytest.approx(END, abs=0.03), "iterations": 10_000}
    ),
    "forecast-by-size": Sentence(forecast(FEW), forecast(TRAINING), {"iterations": 10_000}),
    # At a place that lies behind, or where the run has come to its own end.
    "forecast-ended": Sentence(
        forecast(TRAINING, iterations=3000),
        forecast(TRAINING),
        {"loss": pytest.approx(at_law(3000), abs=1e-4)},
    ),
    "forecast-over": Sentence(forecast(OVER), forecast(TRAINING), {"loss": pytest.approx(END, abs=1e-4)}),
    "forecast-changed": Sentence(
        forecast(TRAINING, changes={"schedule": "constant"}),
        forecast(TRAINING, changes={"max_iters": 10_000}),
    ),
    # The evaluations are in the log's times (100 s more every 200 iterations), or not known.
    "forecast-time": Sentence(
        forecast(training(**EVALUATED)),
        forecast(training(**SECONDS)),
        {"seconds": pytest.approx(5000 * 9.34 + 25 * 100, rel=2e-3)},
    ),
    "forecast-time-training-only": Sentence(
        forecast(training(**SECONDS)),
        forecast(training(**EVALUATED)),
        {"seconds": pytest.approx(5000 * 9.34, rel=2e-3)},
    ),
    "forecast-few-points": Sentence(forecast(FEW), forecast(TRAINING), {"points": 2}),
    "forecast-schedule-unknown": Sentence(forecast(training(**NO_SCHEDULE)), forecast(TRAINING)),
    "forecast-of-train-loss": Sentence(
        forecast(training(evals={}, seconds=1.0, losses={at: at_law(at) for at in range(100, 5000, 20)})),
        forecast(TRAINING),
    ),
    "forecast-beyond-schedule": Sentence(
        forecast(TRAINING, iterations=20_000),
        forecast(TRAINING, iterations=10_000),
        {"lr_decay_iters": 10_000, "min_lr": 6e-5, "iterations": 20_000},
    ),
    # A loss every 200 iterations: the next one would be that of 1,000. Without tokens no size is known.
    "forecast-far": Sentence(
        forecast(training(800, batch_size=None), iterations=8800),
        forecast(training(800, batch_size=None), iterations=5000),
        {"times": 11.0},
    ),
    "forecast-far-by-size": Sentence(
        forecast(training(800), iterations=8800), forecast(training(800), iterations=5000), {"times": 11.0}
    ),
    "forecast-spikes-left-out": Sentence(
        forecast(training(evals=raised({3000: 1.5}))), forecast(TRAINING), {"count": 1}
    ),
    "forecast-without-biases": Sentence(
        forecast(training(200, bias=None)),
        forecast(training(200)),
        {"more": pytest.approx((12 * 9 * 768 + 25 * 768) / (12 * 12 * 768**2 + 50304 * 768 + 25 * 768))},
    ),
    "forecast-batch-grows": Sentence(
        forecast(own(batch_ramp=GROWING)), forecast(own()), {"tokens_per_iter": TOKENS, "tokens": 2 * TOKENS}
    ),
    "forecast-batch-by-noise": Sentence(
        forecast(own(batch_ramp=f"noise:{2 * TOKENS}")), forecast(own(batch_ramp=GROWING))
    ),
}
SHAPES: dict[str, Sentence] = {
    # The val loss rises from its lowest at 2,000 on; the train loss goes on falling, or rises with it.
    "forecast-overfitting": Sentence(
        forecast(training(evals=overfitting(-0.4))),
        forecast(training(evals=overfitting(0.4))),
        {"iteration": 2000, "best": pytest.approx(at_law(2000), abs=1e-4)},
    ),
    "forecast-dead": Sentence(
        forecast(training(evals=raised(dict.fromkeys(range(3000, 5001, 200), math.nan)))),
        forecast(training(evals=raised({3000: math.nan}))),
        {"iteration": 3000, "good_iteration": 2800, "best": pytest.approx(at_law(2800), abs=1e-4)},
    ),
    "forecast-dead-from-start": Sentence(
        forecast(training(evals=dict.fromkeys(law(HALF_WAY), (math.nan, math.nan)))), forecast(TRAINING)
    ),
    # Above what it was untrained for three evaluations, and for one.
    "forecast-stuck": Sentence(
        forecast(
            training(evals={0: (10.9, 10.9), 200: (7.0, 7.0), **dict.fromkeys((400, 600, 800), (11.0, 11.0))})
        ),
        forecast(training(evals={0: (10.9, 10.9), 200: (7.0, 7.0), 400: (11.0, 11.0), 600: (6.5, 6.5)})),
        {"iteration": 400, "untrained": 10.9},
    ),
    "forecast-siblings": Sentence(
        forecast(TRAINING, others=(OVER,)), forecast(TRAINING, others=(training(9000),)), {"count": 1}
    ),
}
TARGETS: dict[str, Sentence] = {
    "target-reached": Sentence(
        forecast(TRAINING, until_loss=at_law(8000)),
        forecast(TRAINING, until_loss=at_law(1000)),
        {"iterations": pytest.approx(8000, rel=0.08)},
    ),
    "target-reached-perhaps": Sentence(
        forecast(TRAINING, until_loss=END), forecast(TRAINING, until_loss=END + 0.1)
    ),
    "target-behind": Sentence(
        forecast(TRAINING, until_loss=at_law(1000) + 1e-4),
        forecast(TRAINING, until_loss=at_law(8000)),
        {"iterations": 1000, "tokens": 1000 * TOKENS},
    ),
    "target-not-reached": Sentence(
        forecast(TRAINING, until_loss=2.5), forecast(OVER, until_loss=2.5), {"target": 2.5}
    ),
    "target-missed": Sentence(
        forecast(OVER, until_loss=2.5),
        forecast(TRAINING, until_loss=2.5),
        {"loss": pytest.approx(END, abs=1e-4), "iterations": 10_000},
    ),
}
TWO: dict[str, Sentence] = {
    "ends-lower": Sentence(
        two(TRAINING, training(lower=0.3)),
        two(TRAINING, TRAINING),
        {"losses": pytest.approx([END - 0.3, END], abs=0.03)},
    ),
    "ends-alike": Sentence(two(TRAINING, TRAINING), two(TRAINING, training(lower=0.3))),
    "measured-lower": Sentence(
        two(OVER, training(10_000, lower=0.3)),
        two(OVER, training(lower=0.3)),
        {"losses": pytest.approx([END - 0.3, END], abs=1e-4)},
    ),
    "measured-alike": Sentence(two(OVER, OVER), two(OVER, training(10_000, lower=0.3))),
    "ends-on-other-data": Sentence(two(TRAINING, training(dataset="openwebtext")), two(TRAINING, TRAINING)),
    "ends-rough": Sentence(two(TRAINING, TRAINING, iterations=8000), two(TRAINING, TRAINING)),
}
FORECASTS: dict[str, Sentence] = {**ENDS, **SHAPES, **TARGETS, **SIGNS, **TWO}
