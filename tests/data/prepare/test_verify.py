"""What verify finds and mends, from the source and from nothing else."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nanodyno.data.prepare.request import Destination, run_verification
from nanodyno.errors import NanodynoError, RunFailed
from nanodyno.records.events import Message
from nanodyno.records.preparation import PreparationRecord

Prepare = Callable[..., PreparationRecord]
Digests = Callable[[Path], dict[str, str]]


def verified(out: Path, source: str | None = None) -> tuple[PreparationRecord, list[Any]]:
    events: list[Any] = []
    return run_verification(source, Destination(out, 2, events.append)), events


def test_verify_finds_a_whole_folder_whole_without_its_source(
    corpus: Path, tmp_path: Path, prepared: Prepare
) -> None:
    prepared(corpus, tmp_path / "out")
    shutil.rmtree(corpus)
    record, events = verified(tmp_path / "out")
    assert (record.repaired_parts, record.new_tokens) == (0, 0)
    assert events == [Message(f"all {record.shards} shards are as they were prepared, to the byte")]


def damage_tokens(out: Path) -> None:
    path = sorted(out.glob("train-00001-*.bin"))[1]
    content = bytearray(path.read_bytes())
    content[7] ^= 1
    path.write_bytes(content)


def lose_shards(out: Path) -> None:
    for path in [*out.glob("val-00000-*.bin"), *out.glob("train-00003-*.bin")]:
        path.unlink()


def lose_a_record(out: Path) -> None:
    (out / "parts" / "00003-000.json").unlink()


def damage_a_record(out: Path) -> None:
    (out / "parts" / "00003-001.json").write_text('{"input": 5}')


def lose_the_manifest(out: Path) -> None:
    (out / "manifest.json").unlink()


def lose_an_input(out: Path) -> None:
    for path in [*out.glob("*-00003-*.bin"), *out.glob("parts/00003-*.json")]:
        path.unlink()


@pytest.mark.parametrize(
    "damage", [damage_tokens, lose_shards, lose_a_record, damage_a_record, lose_the_manifest, lose_an_input]
)
def test_verify_makes_only_the_broken_again(
    corpus: Path, tmp_path: Path, damage: Any, prepared: Prepare, digests: Digests
) -> None:
    out = tmp_path / "out"
    prepared(corpus, out)
    before = digests(out)
    kept = (out / "train-00002-000.bin").stat().st_mtime_ns
    damage(out)
    assert digests(out) != before
    verified(out)
    assert digests(out) == before
    assert (out / "train-00002-000.bin").stat().st_mtime_ns == kept


def test_verify_leaves_the_other_parts_of_the_same_input_alone(
    corpus: Path, tmp_path: Path, prepared: Prepare, digests: Digests
) -> None:
    out = tmp_path / "out"
    prepared(corpus, out, shard_tokens=1000)
    before = digests(out)
    damage_tokens(out)
    kept = {path: path.stat().st_mtime_ns for path in out.glob("*-00001-*.bin") if "-001." not in path.name}
    assert len(kept) > 4
    verified(out)
    assert digests(out) == before
    assert kept == {path: path.stat().st_mtime_ns for path in kept}


def test_verify_names_the_broken_file(corpus: Path, tmp_path: Path, prepared: Prepare) -> None:
    prepared(corpus, tmp_path / "out")
    damage_tokens(tmp_path / "out")
    record, events = verified(tmp_path / "out")
    assert Message("not as it was prepared: train-00001-001.bin") in events
    assert not any(isinstance(event, Message) and event.text.startswith("all ") for event in events)
    assert record.repaired_parts == 1


def test_verify_makes_the_last_part_again_when_tokens_were_counted(
    corpus: Path, tmp_path: Path, prepared: Prepare, digests: Digests
) -> None:
    out = tmp_path / "out"
    prepared(corpus, out, tokens=9000)
    before = digests(out)
    for number in (0, 1):
        for path in out.glob(f"*-{number:05d}-*.bin"):
            path.unlink()
        verified(out)
        assert digests(out) == before


def test_verify_says_when_the_source_is_gone_or_has_other_files(
    corpus: Path, tmp_path: Path, prepared: Prepare
) -> None:
    prepared(corpus, tmp_path / "out")
    damage_tokens(tmp_path / "out")
    (corpus / "0.parquet").unlink()
    with pytest.raises(NanodynoError, match="was prepared from: that had 4 input files, not 3"):
        verified(tmp_path / "out")
    shutil.rmtree(corpus)
    with pytest.raises(NanodynoError, match="no file or folder"):
        verified(tmp_path / "out")


def test_a_source_that_changed_under_the_same_name_and_size_is_reported_however_often_it_is_tried(
    tmp_path: Path, prepared: Prepare, texts: list[str]
) -> None:
    source, out = tmp_path / "a.jsonl", tmp_path / "out"
    source.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts[:50]))
    prepared(source, out)
    manifest = (out / "manifest.json").read_bytes()
    (out / "train-00000-000.bin").write_bytes(b"")
    source.write_text(source.read_text().replace("word", "WORD"))
    for _ in range(2):
        with pytest.raises(RunFailed, match=r"a\.jsonl has changed since"):
            verified(out)
    assert (out / "manifest.json").read_bytes() == manifest


def test_verify_takes_the_source_from_where_it_is_now(
    corpus: Path, tmp_path: Path, prepared: Prepare, digests: Digests
) -> None:
    out = tmp_path / "out"
    prepared(corpus, out)
    before = digests(out)
    damage_tokens(out)
    corpus.rename(tmp_path / "moved")
    verified(out, str(tmp_path / "moved"))
    assert digests(out) == before


def test_verify_of_a_folder_that_was_not_prepared_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NanodynoError, match="`nanodyno prepare` did not make it"):
        verified(tmp_path)


def test_verify_writes_a_damaged_manifest_again_and_says_so(
    corpus: Path, tmp_path: Path, prepared: Prepare, digests: Digests
) -> None:
    prepared(corpus, tmp_path / "out")
    before = digests(tmp_path / "out")
    (tmp_path / "out" / "manifest.json").write_text("{}")
    _, events = verified(tmp_path / "out")
    assert events == [Message("manifest.json was not as it should be and has been written again")]
    assert digests(tmp_path / "out") == before


def test_verify_passes_over_what_was_passed_over_when_reported_so(
    tmp_path: Path, prepared: Prepare, digests: Digests
) -> None:
    source, out = tmp_path / "a.jsonl", tmp_path / "out"
    source.write_text('{"text": "good"}\nno json\n{"text": "better"}\n')
    prepared(source, out, val=0.0, skip_bad=True)
    prepared(source, out, val=0.0)  # all is there: whether bad lines are passed over no longer matters
    before = digests(out)
    (out / "train-00000-000.bin").unlink()
    with pytest.raises(NanodynoError, match="line 2") as caught:
        verified(out)
    assert "--skip-bad" in (caught.value.hint or "")
    run_verification(None, Destination(out, 1, lambda _: None), skip_bad=True)
    assert digests(out) == before
