"""Files that are no logs, names that are no names, folders that are taken."""

import bz2
import gzip
import lzma
import zipfile
from pathlib import Path
from typing import Any

import pytest

from nanodyno.errors import NanodynoError
from nanodyno.records.importers.joining import ImportRequest, import_run
from nanodyno.records.writer import RunWriter

LOG = "iter 0: loss 4.2000, time 12.00ms, mfu 1.00%\n"


def test_an_empty_file(imported: Any) -> None:
    with pytest.raises(NanodynoError, match=r"part0\.log is empty"):
        imported("")


def test_a_binary_file(imported: Any) -> None:
    with pytest.raises(NanodynoError, match="is a binary file"):
        imported(bytes(range(256)) * 100)


@pytest.mark.parametrize(
    ("pack", "tool"),
    [(gzip.compress, "gunzip"), (bz2.compress, "bunzip2"), (lzma.compress, "unxz")],
)
def test_a_compressed_log_is_to_be_unpacked(imported: Any, pack: Any, tool: str) -> None:
    with pytest.raises(NanodynoError, match="is compressed") as reported:
        imported(pack(LOG.encode()))
    assert tool in str(reported.value.hint)


def test_a_log_stored_in_an_archive_is_no_log(imported: Any, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "stored.zip", "w") as archive:
        archive.writestr("a.log", LOG)
    with pytest.raises(NanodynoError, match="is compressed"):
        imported((tmp_path / "stored.zip").read_bytes())


def lines(*steps: tuple[int, float], prefix: str = "") -> str:
    return "".join(f"{prefix}iter {at}: loss {loss:.4f}, time 12.00ms, mfu 1.00%\n" for at, loss in steps)


def test_the_first_of_several_processes_in_a_log_is_read(imported: Any, losses: Any) -> None:
    mixed = "".join(
        lines((at, 5.0 + rank / 10), prefix=f"[rank{rank}]: ") for at in range(20) for rank in (1, 0)
    )
    run = imported(mixed)
    assert losses(run) == dict.fromkeys(range(20), 5.0)
    assert (run.record.origin.restarts, run.record.origin.files[0].unread_lines) == (0, 20)


def test_a_log_of_a_later_process_alone_is_read(imported: Any, losses: Any) -> None:
    assert losses(imported(lines((0, 5.0), (1, 4.0), prefix="[rank3]: "))) == {0: 5.0, 1: 4.0}


@pytest.mark.parametrize("lag", [0, 3])
def test_mixed_output_without_a_rank_is_refused(imported: Any, lag: int) -> None:
    mixed = "".join(lines((at + lag, 5.0), (at, 5.1)) for at in range(20))
    with pytest.raises(NanodynoError, match="mixes the output"):
        imported(mixed)


def test_a_damaged_number_of_an_iteration_is_left_out(imported: Any, losses: Any) -> None:
    run = imported(lines((0, 5.0), (10, 4.0), (100_000_000_000, 3.0), (20, 2.0)))
    assert losses(run) == {0: 5.0, 10: 4.0, 20: 2.0}
    assert any("100,000,000,000" in note for note in run.record.notes)


def test_zeros_in_a_log_after_a_power_cut(imported: Any, losses: Any) -> None:
    assert losses(imported(LOG.encode() + b"\0" * 4096 + b"\n" + LOG.replace("0:", "1:").encode())) == {
        0: 4.2,
        1: 4.2,
    }


def test_the_log_of_another_program_names_what_was_looked_for(imported: Any) -> None:
    with pytest.raises(NanodynoError, match="not a log that nanodyno knows") as reported:
        imported("Epoch 1: accuracy 0.5\nEpoch 2: accuracy 0.6\n" * 100)
    assert reported.value.hint is not None
    programs = (
        "nanoGPT",
        "llm.c",
        "modded-nanogpt",
        "nanochat",
        "autoresearch",
        "build-nanogpt",
        "TensorBoard",
    )
    for word in (
        *programs,
        "log_history",
        "step,train_loss",
        "'loss': 3.2",
        "train_loss_step",
        "iter 10 step 1",
    ):
        assert word in reported.value.hint


def test_no_file_and_a_folder(tmp_path: Path) -> None:
    for path in (tmp_path / "none.log", tmp_path):
        with pytest.raises(NanodynoError, match="cannot be read"):
            import_run(ImportRequest((path,), tmp_path / "run"))
    assert not list(tmp_path.iterdir())


def test_logs_of_two_programs_are_no_run(imported: Any) -> None:
    with pytest.raises(
        NanodynoError, match=r"different programs: part0\.log \(nanoGPT\), part1\.log \(llm\.c\)"
    ):
        imported(LOG, "s:0 trl:4.2000\n")


def test_a_gpu_that_nobody_knows(imported: Any) -> None:
    with pytest.raises(NanodynoError, match="RTX 9999"):
        imported(LOG, gpu="RTX 9999")


def test_an_import_is_replaced_only_when_reported_to(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text(LOG)
    request = ImportRequest((log,), tmp_path / "runs" / "a")
    import_run(request)
    with pytest.raises(NanodynoError, match="already imported") as reported:
        import_run(request)
    assert "--replace" in str(reported.value.hint)
    import_run(ImportRequest((log,), tmp_path / "runs" / "a", replace=True))
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["a"]


def test_a_run_that_was_trained_is_never_replaced(tmp_path: Path, record: Any) -> None:
    log = tmp_path / "a.log"
    log.write_text(LOG)
    with RunWriter.create(tmp_path / "runs" / "a", record()):
        pass
    with pytest.raises(NanodynoError, match="was not imported"):
        import_run(ImportRequest((log,), tmp_path / "runs" / "a", replace=True))


def test_a_failed_import_leaves_nothing_and_keeps_the_old(imported: Any, tmp_path: Path) -> None:
    before = imported(LOG)
    with pytest.raises(NanodynoError, match="no complete line"):
        imported("iter 5: loss 4.2, time 12")
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["it"]
    assert before.steps


def test_a_thousand_settings_do_not_grow_without_end(imported: Any) -> None:
    many = "".join(f"Overriding: key{number} = {number}\n" for number in range(1000))
    assert len(imported(many + LOG).settings) == 500
