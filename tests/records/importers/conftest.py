from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nanodyno.records.imported import ImportedRecord
from nanodyno.records.importers.joining import ImportRequest, import_run
from nanodyno.records.store import Run, read_run


@pytest.fixture
def imported(tmp_path: Path) -> Callable[..., Run]:
    """Texts as files, imported together and read back as any run is."""

    def build(*texts: str | bytes, names: tuple[str, ...] = (), **options: Any) -> Run:
        files: list[Path] = []
        for number, text in enumerate(texts):
            name = names[number] if number < len(names) else f"part{number}.log"
            files.append(tmp_path / name)
            files[-1].write_bytes(text if isinstance(text, bytes) else text.encode())
        folder = tmp_path / "runs" / "it"
        import_run(ImportRequest(tuple(files), folder, replace=True, **options))
        run = read_run(folder)
        assert isinstance(run.record, ImportedRecord)
        return run

    return build


@pytest.fixture
def losses() -> Callable[[Run], dict[int, float | None]]:
    return lambda run: {step.iteration: step.loss for step in run.steps}
