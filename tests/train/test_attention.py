"""What was measured is remembered. Here no backend runs inside a CUDA graph: a measurement finds none."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from nanodyno.train.attention import FastestAttention, fastest_attention

SHAPE = (2, 2, 8, 16)
NOTHING_RUNS = FastestAttention("math", ())
Seek = Callable[..., FastestAttention]


@pytest.fixture
def seek(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Seek:
    """The fastest attention of a card of this name, remembered under tmp_path."""

    def no_gpu(*_: object) -> None:
        raise RuntimeError("there is no CUDA here")

    monkeypatch.setattr(torch.cuda, "Stream", no_gpu)

    def seek(
        name: str = "Some Card",
        shape: tuple[int, int, int, int] = SHAPE,
        dtype: torch.dtype = torch.float32,
        cache: Path | None = tmp_path / "attention.json",
    ) -> FastestAttention:
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: name)
        return fastest_attention(shape, dtype, torch.device("cpu"), cache)

    return seek


@pytest.fixture
def remembered(seek: Seek, tmp_path: Path) -> Path:
    """A cache that knows this card's."""
    assert seek() == NOTHING_RUNS
    path = tmp_path / "attention.json"
    (key,) = json.loads(path.read_text())
    assert key.startswith(f"Some Card; {torch.__version__}; ")
    path.write_text(json.dumps({key: {"flash": 2e-3, "cudnn": 1e-3, "efficient": 3e-3}}))
    return path


KNOWN = FastestAttention("cudnn", (("cudnn", 1e-3), ("flash", 2e-3), ("efficient", 3e-3)))


def test_what_was_measured_once_is_remembered_with_the_fastest_first(seek: Seek, remembered: Path) -> None:
    before = remembered.read_text()
    assert seek() == KNOWN
    assert remembered.read_text() == before


@pytest.mark.parametrize(
    "change", [{"name": "Other Card"}, {"shape": (4, 2, 8, 16)}, {"dtype": torch.bfloat16}]
)
def test_another_gpu_shape_or_precision_is_measured_and_added(
    seek: Seek, remembered: Path, change: dict[str, object]
) -> None:
    assert seek(**change) == NOTHING_RUNS
    assert len(json.loads(remembered.read_text())) == 2
    assert seek() == KNOWN


def test_a_package_that_is_installed_later_is_measured_too(
    seek: Seek, remembered: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "flash_attn_interface.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    assert seek() == NOTHING_RUNS
    assert len(json.loads(remembered.read_text())) == 2


@pytest.mark.parametrize(
    "spoilt",
    [
        "",
        "{",
        "[]",
        '{"Some Card": 3}',
        '{"Some Card": {"no-such-backend": 0.001}}',
        '{"Some Card": {"flash": "fast"}}',
    ],
)
def test_a_damaged_or_foreign_cache_is_measured_anew(seek: Seek, remembered: Path, spoilt: str) -> None:
    remembered.write_text(spoilt)
    assert seek() == NOTHING_RUNS
    (entry,) = json.loads(remembered.read_text()).values()
    assert entry == {}


def test_bytes_that_are_no_text_are_measured_anew(seek: Seek, remembered: Path) -> None:
    remembered.write_bytes(b"\xff\xfe\x00")
    assert seek() == NOTHING_RUNS
    assert len(json.loads(remembered.read_text())) == 1


def test_a_cache_that_cannot_be_written_is_done_without(seek: Seek, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert seek(cache=tmp_path / "file" / "attention.json") == NOTHING_RUNS
    assert (tmp_path / "file").read_text() == ""


def test_the_cache_is_the_users(seek: Seek, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert seek(cache=None) == NOTHING_RUNS
    assert (tmp_path / "xdg" / "nanodyno" / "attention.json").exists()


def test_memory_that_runs_out_is_not_remembered_as_what_does_not_run(
    seek: Seek, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr(torch.cuda, "Stream", refuse)
    with pytest.raises(torch.OutOfMemoryError):
        seek()
    assert not (tmp_path / "attention.json").exists()
