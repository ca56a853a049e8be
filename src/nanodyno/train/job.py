"""What to train, where, and how long."""

from dataclasses import dataclass, field
from pathlib import Path

from nanodyno.config import RunConfig
from nanodyno.data.resolve import DATA_FOLDER
from nanodyno.train.stops import Limits


@dataclass(frozen=True)
class TrainingJob:
    """Of several processes the first one's folder counts."""

    config: RunConfig
    name: str
    folder: Path
    command: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    data_folder: Path = DATA_FOLDER
    limits: Limits = field(default_factory=Limits)
    force: bool = False
    """To try what is predicted not to fit."""
    keeps: bool = True
    """False where nobody will go on with it: records alone are written, and no checkpoint."""
