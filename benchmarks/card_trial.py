"""One training of a few iterations in a process that may take only so much of the card's memory.

benchmarks/card_limit.py starts `python card_trial.py TRIAL`, where TRIAL is a Trial as JSON; the last line of
stdout is the Outcome. To run out of memory is an outcome; anything else that goes wrong ends in a traceback.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from nanodyno.config import RunConfig, build_config
from nanodyno.errors import NanodynoError
from nanodyno.records.store import Run
from nanodyno.records.types import SplitRecord
from nanodyno.train.device import choose, is_out_of_memory
from nanodyno.train.job import TrainingJob
from nanogpt_memory import Peak, our_peak, torch_peak, train_a_little
from nanogpt_program import VOCAB_SIZE, NanoGpt, load_checkout, random_batches

GIB = 2**30
UNSTEADY = 2
"""Iterations at the beginning that no rate is taken from."""


@dataclass(frozen=True)
class Trial:
    """`settings` are those of build_config; `nanogpt` is a checkout where that is the program, or None."""

    settings: dict[str, object]
    limit_gib: float
    iterations: int
    nanogpt: str | None = None


@dataclass(frozen=True)
class Outcome:
    """`refused` is what was said when memory ran out; else it fitted."""

    peak: Peak = Peak(None, None)  # noqa: RUF009 - frozen
    refused: str | None = None
    tokens_per_second: float | None = None
    """The median over steady iterations."""
    recompute: str | None = None
    attention: str | None = None
    micro_batch: int | None = None
    """At the end: a run that ran out of memory in the middle has halved it."""

    @property
    def fits(self) -> bool:
        return self.refused is None


class TrialFailed(Exception):
    """Neither fitted nor ran out of memory."""


def attempt(trial: Trial, limit_seconds: float) -> Outcome:
    """In a process of its own, which may take `limit_seconds`; what it says on stderr is shown."""
    command = [sys.executable, __file__, json.dumps(asdict(trial))]
    began = time.perf_counter()
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=limit_seconds)
    except subprocess.TimeoutExpired as error:
        raise TrialFailed(f"took longer than {limit_seconds:.0f} s: raise --limit-seconds") from error
    except subprocess.CalledProcessError as error:
        raise TrialFailed(f"ended with exit code {error.returncode}; see above") from error
    answer = json.loads(done.stdout.splitlines()[-1])
    outcome = Outcome(**{**answer, "peak": Peak(**answer["peak"])})
    rate = f", {outcome.tokens_per_second:,.0f} tokens/s" if outcome.tokens_per_second else ""
    fitted = f"fits, {in_gib(outcome.peak)} GiB{rate}"
    words = fitted if outcome.fits else f"does not fit: {outcome.refused}"
    print(f"    {words} ({time.perf_counter() - began:.0f} s)", file=sys.stderr, flush=True)
    return outcome


def in_gib(peak: Peak) -> str:
    if peak.allocated is None or peak.reserved is None:
        return "- / -"
    return f"{peak.allocated / GIB:.2f} / {peak.reserved / GIB:.2f}"


def train(trial: Trial, scratch: Path) -> Outcome:
    config = build_config(trial.settings)
    limit_memory(config, trial.limit_gib)
    try:
        if trial.nanogpt is not None:
            return train_nanogpt(config, Path(trial.nanogpt), trial.iterations)
        return outcome_of(
            train_a_little(TrainingJob(config, "trial", scratch / "run"), trial.iterations), config
        )
    except (MemoryError, RuntimeError, NanodynoError) as error:
        if not ran_out(error):
            raise
        return Outcome(refused=(str(error).splitlines() or [type(error).__name__])[0])


def limit_memory(config: RunConfig, limit_gib: float) -> None:
    """Of torch's allocator; the CUDA context comes on top. A CPU has no such limit: then none is set."""
    device = choose(config).device
    if device.type == "cuda":
        share = limit_gib * GIB / torch.cuda.get_device_properties(device).total_memory
        torch.cuda.set_per_process_memory_fraction(min(share, 1.0), device)


def ran_out(error: BaseException) -> bool:
    """Whether memory is at the bottom of it: torch.compile and the trainer wrap what they catch."""
    cause: BaseException | None = error
    while cause is not None:
        if is_out_of_memory(cause):
            return True
        cause = cause.__cause__ or cause.__context__
    return False


def train_nanogpt(config: RunConfig, checkout: Path, iterations: int) -> Outcome:
    choice = choose(config)
    batches = random_batches(Path(config.dataset, "train.bin"), config, choice.device)
    program = NanoGpt(load_checkout(checkout), config, VOCAB_SIZE, choice, batches)
    for _ in range(iterations):
        program.iteration()
    return Outcome(torch_peak(choice.device))


def outcome_of(run: Run, config: RunConfig) -> Outcome:
    rates = [step.tokens / step.step_seconds for step in run.own_steps[UNSTEADY:]]
    sizes = [entry.batch_size for entry in run.history if isinstance(entry, SplitRecord)]
    arithmetic = run.own.arithmetic
    return Outcome(
        our_peak(run),
        None,
        statistics.median(rates) if rates else None,
        arithmetic.recompute,
        arithmetic.attention,
        sizes[-1] if sizes else config.batch_size,
    )


def main() -> int:
    torch.backends.cuda.matmul.allow_tf32 = True  # as nanoGPT
    torch.backends.cudnn.allow_tf32 = True
    with tempfile.TemporaryDirectory() as scratch:
        print(json.dumps(asdict(train(Trial(**json.loads(sys.argv[1])), Path(scratch)))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
