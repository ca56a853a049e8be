"""The command as a person uses it: prepare, go on, verify, train on the result."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

Nanodyno = Callable[..., Any]


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    """Fifty small text files."""
    folder = tmp_path / "texts"
    folder.mkdir()
    for number in range(50):
        (folder / f"{number:02}.txt").write_text(f"file {number}: " + "some words " * number)
    return folder


PREPARE = ["prepare", "texts", "--tokenizer", "bytes", "--val", "0.2"]


def test_a_folder_of_texts_becomes_a_dataset_that_trains(
    nanodyno: Nanodyno, texts: Path, tiny: list[str]
) -> None:
    done = nanodyno(*PREPARE)
    assert done.exit_code == 0
    assert texts.name == "texts"
    assert "train tokens" in done.output
    assert "next: nanodyno train gpt2-768 --dataset=texts\n" in done.output
    assert (Path("data") / "texts" / "manifest.json").exists()
    assert nanodyno(*tiny, "--dataset=texts").exit_code == 0
    assert nanodyno(*tiny, "--dataset=data/texts", "--out_dir=other").exit_code == 0


@pytest.mark.usefixtures("texts")
def test_json_is_one_document_with_the_counts(nanodyno: Nanodyno) -> None:
    done = nanodyno(*PREPARE, "--json", "--out", "out")
    reported = json.loads(done.stdout)
    assert reported["folder"] == "out"
    assert reported["train_documents"] + reported["val_documents"] == 50
    manifest = json.loads(Path("out/manifest.json").read_text())
    assert reported["train_tokens"] == sum(shard["tokens"] for shard in manifest["splits"]["train"])


@pytest.mark.usefixtures("texts")
def test_verify_mends_and_says_what(nanodyno: Nanodyno) -> None:
    nanodyno(*PREPARE, "--out", "out")
    shard = Path("out/train-00000-000.bin")
    whole = shard.read_bytes()
    shard.write_bytes(whole[:-2])
    done = nanodyno("prepare", "--verify", "out")
    assert done.exit_code == 0
    assert "not as it was prepared: train-00000-000.bin" in done.output
    assert "parts made again" in done.output
    assert shard.read_bytes() == whole


@pytest.mark.usefixtures("texts")
@pytest.mark.parametrize(
    ("arguments", "reported"),
    [
        (["--tokens", "many"], "--tokens=many is not a number of tokens"),
        (["--tokens", "0"], "--tokens=0 is not a number of tokens"),
        (["--shard-tokens", "1.5x"], "--shard-tokens=1.5x is not a number of tokens"),
        (["--tokenizer", "nonsense"], "unknown tokenizer 'nonsense'"),
        (["--verify", "out", "--out", "out"], "--out and --verify"),
        (["--also", "nanogpt", "--val", "0"], "--also=nanogpt needs val tokens"),
        (["--verify", "nowhere"], "`nanodyno prepare` did not make it"),
    ],
)
def test_a_mistake_is_reported_with_exit_code_2(
    nanodyno: Nanodyno, arguments: list[str], reported: str
) -> None:
    done = nanodyno(*PREPARE, *arguments)
    assert done.exit_code == 2
    assert reported in done.output
    assert list(Path("data").rglob("*")) == []


def test_nothing_to_prepare_is_reported(nanodyno: Nanodyno) -> None:
    assert nanodyno("prepare", "").exit_code == 2
    done = nanodyno("prepare", "--json")
    assert done.exit_code == 2
    assert "there is nothing to prepare" in done.output


@pytest.mark.usefixtures("texts")
@pytest.mark.parametrize(("text", "number"), [("300", 300), ("0.3k", 300), ("1_000", 1000), ("1K", 1000)])
def test_tokens_are_counted_as_people_write_them(nanodyno: Nanodyno, text: str, number: int) -> None:
    reported = json.loads(nanodyno(*PREPARE, "--val", "0", "--tokens", text, "--json").stdout)
    assert number <= reported["train_tokens"] < number + 570


@pytest.mark.usefixtures("texts")
def test_the_tokens_come_in_the_formats_of_other_programs_too(nanodyno: Nanodyno, tiny: list[str]) -> None:
    assert nanodyno(*PREPARE, "--out", "out", "--also", "llm.c").exit_code == 0
    assert nanodyno(*PREPARE, "--out", "out", "--also", "nanogpt").exit_code == 0
    ours = np.fromfile("out/train-00000-000.bin", dtype="<u2")
    assert np.array_equal(np.fromfile("out/nanogpt/train.bin", dtype="<u2"), ours)
    assert np.array_equal(np.fromfile("out/llm.c/out_train_000001.bin", dtype="<u2", offset=1024), ours)
    for number, folder in enumerate(("out/llm.c", "out/nanogpt")):
        done = nanodyno(*tiny, f"--dataset={folder}", "--vocab_size=257", f"--out_dir=run{number}")
        assert done.exit_code == 0


def test_the_embedded_corpus_is_a_source_and_train_takes_it(nanodyno: Nanodyno, tiny: list[str]) -> None:
    done = nanodyno("prepare", "python", "--tokenizer", "bytes", "--tokens", "2M", "--json")
    assert json.loads(done.stdout)["source"].startswith("python 3.")
    assert nanodyno(*tiny, "--dataset=python").exit_code == 0
    assert sorted(path.name for path in Path("data").iterdir()) == ["python"]


@pytest.mark.skipif(os.name == "nt", reason="sends SIGINT")
def test_ctrl_c_says_how_to_go_on_and_the_same_command_does(nanodyno: Nanodyno, tmp_path: Path) -> None:
    Path("long.jsonl").write_text("".join(json.dumps({"text": f"{n} " * 2000}) + "\n" for n in range(2000)))
    command = ["prepare", "long.jsonl", "--tokenizer", "bytes", "--shard-tokens", "100k", "--out", "out"]
    process = subprocess.Popen(
        [sys.executable, "-m", "nanodyno", *command], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    first = tmp_path / "out" / "parts" / "00000-001.json"
    deadline = time.monotonic() + 300
    while not first.exists() and time.monotonic() < deadline:
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    _, reported = process.communicate(timeout=600)
    assert process.returncode == 130, reported
    assert "finished shards in out are kept" in reported
    assert not Path("out/manifest.json").exists()
    record = json.loads(nanodyno(*command, "--json").stdout)
    assert 0 < record["new_tokens"] < record["train_tokens"] + record["val_tokens"]


def test_a_run_on_a_trained_tokenizer_is_sampled_without_its_dataset(
    nanodyno: Nanodyno, tiny: list[str]
) -> None:
    lines = [json.dumps({"text": f"{n} times {n} is {n * n}. " * 20}) for n in range(200)]
    Path("sums.jsonl").write_text("\n".join(lines) + "\n")
    prepared = nanodyno("prepare", "sums.jsonl", "--train-bpe", "300", "--val", "0.2", "--out", "data/sums")
    assert prepared.exit_code == 0, prepared.output
    trained = nanodyno(*tiny, "--dataset=sums", "--name=sums")
    assert trained.exit_code == 0, trained.output
    shutil.rmtree("data/sums")
    sampled = nanodyno("sample", "sums", "--tokens", "20", "--prompt", "7 times", "--json")
    assert sampled.exit_code == 0, sampled.output
    assert len(json.loads(sampled.stdout)["text"]) > 5
