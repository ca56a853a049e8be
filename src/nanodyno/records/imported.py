"""What happened in a run of another program, as far as its log tells: None, or no entry, is what it does not.

Nothing is filled in from any program's defaults.
"""

from typing import Annotated, Literal

from pydantic import AfterValidator

from nanodyno.config import RunConfig
from nanodyno.records.types import (
    AnyRunRecord,
    ArithmeticRecord,
    DataRecord,
    EvalRecord,
    MachineRecord,
    Record,
    RunRecord,
    Setting,
    StepRecord,
    VersionsRecord,
)

Overhead = Literal["start", "evaluation", "unknown"]
"""start: the first iteration of a process, where compiling happens; unknown: imports of before judged it slow
by its neighbours' times, and it is judged anew."""
LoggedSettings = Annotated[dict[str, Setting], AfterValidator(RunConfig.renamed)]
"""By present names: an older nanodyno wrote its own."""


def within_plan(done: int, planned: Setting) -> int:
    """Return the iterations done without the one that nanoGPT makes after its last evaluation.

    Its loop ends behind iteration number max_iters, counted from 0: it makes one more than planned.
    """
    return done - 1 if isinstance(planned, int) and done == planned + 1 else done


class ImportedStep(Record):
    """One iteration that was logged; those between two logged ones have no record."""

    iteration: int
    """Counted from 0, as in a StepRecord, whatever the log counts from."""
    loss: float | None = None
    grad_norm: float | None = None
    learning_rate: float | None = None
    tokens: int | None = None
    step_seconds: float | None = None
    overhead: Overhead | None = None
    """What step_seconds hold besides training: such a step is in no rate."""
    printed_mfu: float | None = None
    """A fraction, of whatever peak the program takes for the card's."""
    micro_steps: int | None = None
    """Of each process, where a result of ours has it."""
    wall_time: float | None = None
    elapsed_seconds: float | None = None
    """By the log's own clock at the end of the iteration, where it prints one."""


class ImportedEval(Record):
    iteration: int
    """Updates made before it."""
    val_loss: float
    train_loss: float | None = None
    val_tokens: None = None
    eval_seconds: None = None
    wall_time: float | None = None


class SourceRecord(Record):
    """A file that a run was imported from."""

    name: str
    kind: str
    """The importer that read it, such as nanogpt-log; config for settings alone."""
    size_bytes: int
    sha256: str
    unread_lines: int = 0
    """That the importer made nothing of."""


class OriginRecord(Record):
    program: str
    """What wrote the log, as far as its lines tell: nanoGPT, llm.c, ..."""
    files: tuple[SourceRecord, ...]
    iterations: int
    evaluations: int
    timed_iterations: int
    restarts: int
    trainings: int = 1
    """That the log holds, each from its beginning: the last is the run."""


class ImportedRecord(AnyRunRecord):
    """A run of another program: what its log and its user told; None, or no entry, is what they did not.

    What nanodyno itself notes of a run (machine, versions, data, arithmetic, peaks of memory) is known only
    where it was imported from a result that nanodyno wrote.
    """

    origin: OriginRecord
    settings: LoggedSettings
    """Under nanoGPT's names where there is one. No default of any program is filled in."""
    tokens_per_iter: int | None = None
    """Told, or the product of settings that were."""
    parameters: int | None = None
    """As the log counts them: nanoGPT leaves the position embedding out, and rounds to 10,000."""
    device_name: str | None = None
    device_memory_bytes: int | None = None
    processes: int | None = None
    val_bits_per_byte: tuple[tuple[int, float], ...] = ()
    """Validations that the log has in bits per byte, after so many updates: no losses in nats per token."""
    config: None = None
    vocab_size: None = None
    machine: MachineRecord | None = None
    versions: VersionsRecord | None = None
    data: DataRecord | None = None
    arithmetic: ArithmeticRecord | None = None
    peak_allocated_bytes: int | None = None
    peak_reserved_bytes: int | None = None
    peak_host_bytes: int | None = None


AnyStep = StepRecord | ImportedStep
AnyEval = EvalRecord | ImportedEval
AnyRecord = RunRecord | ImportedRecord
