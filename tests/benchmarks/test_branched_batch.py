"""From one checkpoint, several effective batches."""

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

SMALL = ("n_layer=1", "n_head=1", "n_embd=8", "block_size=8", "batch_size=2", "tokens_per_iter=32",
         "warmup_iters=1", "eval_tokens=64", "compile=False")  # fmt: skip


def test_a_batch_that_cannot_be_had_leaves_the_others_alone(
    benchmark_module: Callable[[str], ModuleType],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    branched = benchmark_module("branched_batch")
    words = ["--trunk", "4", "--branch", "64", "--seeds", "1", "--batches", "16", "24", "32"]
    sets = [word for each in SMALL for word in ("--set", each)]
    monkeypatch.setattr("sys.argv", ["branched_batch.py", *words, *sets, "--out", str(tmp_path / "out.json")])
    monkeypatch.chdir(tmp_path)
    branched.main()
    assert "24 tokens/iter, rate x 1: failed" in capsys.readouterr().out  # no micro-batches of 16 tokens
    kept = json.loads((tmp_path / "out.json").read_text())
    assert [branch["tokens_per_iter"] for branch in kept["0"]["branches"]] == [16, 32]
