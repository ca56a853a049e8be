"""A tiny dataset, a tiny config and a trainer made of both."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from nanodyno.config import RunConfig, build_config
from nanodyno.data.corpus import CorpusDocument
from nanodyno.data.shards import Dataset, open_dataset
from nanodyno.data.tokenizers import BytesTokenizer
from nanodyno.data.writer import write_dataset
from nanodyno.records.types import EvalRecord, SaveRecord, SplitRecord, StepRecord
from nanodyno.train.device import choose
from nanodyno.train.stops import Stops
from nanodyno.train.trainer import SavePoint, Trainer

VOCAB_SIZE = 320  # 257 bytes and end-of-text, padded to a multiple of 64

TINY: dict[str, Any] = {
    "n_layer": 2,
    "n_head": 2,
    "n_embd": 32,
    "block_size": 16,
    "batch_size": 4,
    "gradient_accumulation_steps": 3,
    "learning_rate": 3e-3,
    "warmup_iters": 2,
    "max_iters": 8,
    "dataset": "tiny",
    "eval_interval": 4,
    "eval_tokens": 320,
    "device": "cpu",
    "dtype": "float32",
    "compile": False,
}


def text(first: int, last: int) -> CorpusDocument:
    return CorpusDocument(f"{first}", "".join(f"{n} times {n} is {n * n}.\n" for n in range(first, last)))


@pytest.fixture(scope="session")
def data_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder that holds the dataset `tiny`: 12 kB of train text in two documents, 2 kB of val."""
    folder = tmp_path_factory.mktemp("data")
    splits = {"train": [text(0, 300), text(400, 700)], "val": [text(300, 400)]}
    write_dataset(folder / "tiny", BytesTokenizer(), splits, {})
    return folder


@pytest.fixture(scope="session")
def dataset(data_folder: Path) -> Dataset:
    return open_dataset(data_folder / "tiny")


@pytest.fixture
def config() -> Callable[..., RunConfig]:
    return lambda **changes: build_config(TINY | changes)


@pytest.fixture
def trainer(dataset: Dataset, config: Callable[..., RunConfig]) -> Callable[..., Trainer]:
    """Builds a trainer from changes to the tiny config."""

    def build(**changes: Any) -> Trainer:
        settings = config(**changes)
        return Trainer(settings, dataset, VOCAB_SIZE, choose(settings))

    return build


Walk = Callable[..., Iterator[StepRecord | EvalRecord | SplitRecord | SaveRecord]]


@pytest.fixture
def walk() -> Walk:
    """A trainer's events, saved at every SavePoint into the folder given."""

    def walk(
        trainer: Trainer, checkpoints: Path, stops: Stops | None = None
    ) -> Iterator[StepRecord | EvalRecord | SplitRecord | SaveRecord]:
        for event in trainer.events(stops):
            yield trainer.save(checkpoints, event.reason) if isinstance(event, SavePoint) else event

    return walk


@pytest.fixture
def _deterministic() -> Iterator[None]:
    """For comparisons to the bit."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.fixture
def fused(trainer: Callable[..., Trainer]) -> Callable[..., Trainer]:
    return lambda **changes: trainer(**({"kernels": "fused"} | changes))


@pytest.fixture
def spoil(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Tensor], Tensor]], None]:
    """Lets a function change, or refuse, what torch's attention returns."""
    attention = F.scaled_dot_product_attention

    def spoil(change: Callable[[Tensor], Tensor]) -> None:
        def spoilt(*arguments: Any, **options: Any) -> Tensor:
            return change(attention(*arguments, **options))

        monkeypatch.setattr(F, "scaled_dot_product_attention", spoilt)

    return spoil
