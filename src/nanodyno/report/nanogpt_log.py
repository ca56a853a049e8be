"""nanoGPT's own log lines, so that scripts which read them go on working."""

from nanodyno.analysis.metrics import Reference, recent_speed
from nanodyno.costs.parameters import parameters
from nanodyno.records.types import EvalRecord, RunRecord, StepRecord

SETTLING_ITERATIONS = 5


class NanogptLog:
    """Fed every step of one process in order: nanoGPT's mfu is a running mean over its logged iterations."""

    def __init__(self, record: RunRecord) -> None:
        self._log_interval = record.config.log_interval
        self._reference = Reference.of_run(record)
        self._local_iteration = 0
        self._mfu = -1.0  # nanoGPT's sign for "not yet": it prints -100.00%

    def step_line(self, step: StepRecord) -> str | None:
        """`iter 0: loss 10.9861, time 1234.56ms, mfu -100.00%`; None between two logged iterations."""
        local_iteration = self._local_iteration
        self._local_iteration += 1
        if step.iteration % self._log_interval:
            return None
        if local_iteration >= SETTLING_ITERATIONS:
            self._average(step)
        time, mfu = f"{step.step_seconds * 1000:.2f}ms", f"{self._mfu * 100:.2f}%"
        return f"iter {step.iteration}: loss {step.loss:.4f}, time {time}, mfu {mfu}"

    def _average(self, step: StepRecord) -> None:
        found = recent_speed([step], 1, self._reference).nanogpt_mfu
        assert found is not None, "the model of a run of ours is known"
        current = found.value
        self._mfu = current if self._mfu == -1.0 else 0.9 * self._mfu + 0.1 * current


def eval_line(entry: EvalRecord) -> str:
    """`step 0: train loss 10.9872, val loss 10.9881`."""
    return f"step {entry.iteration}: train loss {entry.train_loss:.4f}, val loss {entry.val_loss:.4f}"


def nanogpt_header(record: RunRecord) -> str:
    size = parameters(record.config.model_shape(record.vocab_size)).nanogpt
    tokens = f"tokens per iteration will be: {record.config.tokens_per_iter:,}"
    return "\n".join((tokens, f"number of parameters: {size / 1e6:.2f}M", *record.notes))
