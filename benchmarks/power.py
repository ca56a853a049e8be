"""What a card draws and how fast its processors are clocked, while two programs take turns on it.

nvidia-smi asks the driver ten times a second, in a process of its own: a thread of ours would take turns with
the launches that are measured. It writes the time of each answer, by which a sample falls to a turn.
"""

import subprocess
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import torch

from measure import Span
from nanodyno.errors import NanodynoError

EVERY_MILLISECONDS = 100
POWER_FIELDS = ("power.draw.instant", "power.draw")
"""The second is a mean over the last second on most cards, which smears short turns; old drivers have it."""
STAMP = "%Y/%m/%d %H:%M:%S.%f"


@dataclass(frozen=True)
class Sample:
    at: float
    """By the clock of the turns."""
    watts: float
    megahertz: float


@dataclass(frozen=True)
class Draw:
    """Means over the samples within a program's turns."""

    watts: float
    megahertz: float
    samples: int


class PowerMeter:
    """`with PowerMeter(device) as meter: ...`, and then `meter.samples`."""

    def __init__(self, device: torch.device) -> None:
        if device.type != "cuda":
            raise NanodynoError("--power: only NVIDIA's cards tell what they draw")
        self.samples: list[Sample] = []
        uuid = str(torch.cuda.get_device_properties(device).uuid).removeprefix("GPU-")
        self._command = ["nvidia-smi", "-i", f"GPU-{uuid}"]
        self._field = next(filter(self._answers, POWER_FIELDS), None)
        if self._field is None:
            raise NanodynoError(
                "--power: nvidia-smi does not tell what the card draws", "leave --power out; or try it alone"
            )

    def __enter__(self) -> "PowerMeter":
        self._offset = time.time() - time.perf_counter()
        self._file = tempfile.NamedTemporaryFile(suffix=".csv")
        command = [*self._query(self._field), f"--loop-ms={EVERY_MILLISECONDS}"]
        self._process = subprocess.Popen(command, stdout=self._file)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()
        self.samples = read_samples(Path(self._file.name).read_text(), self._offset)
        self._file.close()

    def _answers(self, field: str) -> bool:
        try:
            done = subprocess.run(self._query(field), capture_output=True, text=True, check=False)
        except OSError:
            return False
        return done.returncode == 0 and bool(read_samples(done.stdout, 0.0))

    def _query(self, field: str | None) -> list[str]:
        return [*self._command, f"--query-gpu=timestamp,{field},clocks.sm", "--format=csv,noheader,nounits"]


def read_samples(text: str, offset: float) -> list[Sample]:
    """nvidia-smi's lines; `offset` is Unix time less the clock of the turns. Other lines are left out."""
    samples: list[Sample] = []
    whole = text[: text.rfind("\n") + 1]  # the last line may be cut short
    for line in whole.splitlines():
        try:
            stamp, watts, megahertz = line.split(", ")
            at = datetime.strptime(stamp, STAMP).astimezone().timestamp() - offset
            samples.append(Sample(at, float(watts), float(megahertz)))
        except ValueError:  # "[N/A]"
            continue
    return samples


def draw_of(letter: str, samples: Iterable[Sample], spans: Sequence[Span]) -> Draw | None:
    """Of the program of this letter; None where no sample fell into its turns."""
    turns = [(began, ended) for whose, began, ended in spans if whose == letter]
    inside = [each for each in samples if any(began <= each.at <= ended for began, ended in turns)]
    if not inside:
        return None
    watts = sum(each.watts for each in inside) / len(inside)
    return Draw(watts, sum(each.megahertz for each in inside) / len(inside), len(inside))
