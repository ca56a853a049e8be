"""Whatever a file holds: a run that can be read, shown and compared, or an error. `make nightly`: 100,000."""

import io
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.console import Console

from nanodyno.analysis.account_reading import account_of
from nanodyno.analysis.conclusions import compared_runs
from nanodyno.analysis.leaderboard import leaderboard, standing_of
from nanodyno.analysis.result import result_of
from nanodyno.analysis.summary import summarise
from nanodyno.errors import NanodynoError
from nanodyno.records.importers.joining import ImportRequest, import_run
from nanodyno.records.result import result_text
from nanodyno.records.store import read_run
from nanodyno.report.compare import comparison_page
from nanodyno.report.importing import import_page
from nanodyno.report.leaderboard import leaderboard_page
from nanodyno.report.page import to_terminal
from nanodyno.report.runs import run_page

HERE = Path(__file__).parent
CASE = HERE.parents[2] / "examples"
LLMC = (
    b"s:0 tel:11.0092\ns:0 trl:11.0091 lr:0.000001 norm:15.37\n| device | NVIDIA L4 |\n=> setting grad_accum"
)
PRINTED = (
    b"val loss 9.1\n=> setting grad_accum_steps=4\n"
    b"step    1/9 | loss 11.0 (+nanz)| norm 15.3 (+nanz)| lr 8.5e-07 | 30.5 ms | 1.0% bf16 MFU | 7 tok/s\n"
)
MODDED = b"class Hyperparameters:\n    batch_size : int = 8*64\nstep:1/9 train_loss:9.1 train_time:73ms \n"
TRACK_3 = (
    b"batch_size = 8 * 64 * 1024\ndef f(step, cooldown_frac=0.7): return (1 - x) / cooldown_frac\n"
    b"GPT(vocab_size=50304, num_layers=12, model_dim=768)\nhead_dim = 128\n"
    b"Running on device_name=NVIDIA L4 with world_size=2\nstep:9/9 val_loss:9.1 train_time:7.3s step_avg:1\n"
)
NANOCHAT = (
    b"Tokens / micro-batch / rank: 32 x 2048 = 65,536\nTokens / micro-batch: 524,288\n--warmdown-ratio=0.2\n"
    b"Step 00000 | Validation bpb: 3.3013\nstep 00000/00009 (0.00%) | loss: 9.1 | lrm: 1.00 | dt: 480.25ms "
    b"| tok/sec: 1,092,000 | mfu: 48.25 | epoch: 1 | total time: 0.00m\n"
)
AUTORESEARCH = (
    b"\rstep 00000 (0.0%) | loss: 9.0 | lrm: 1.00 | dt: 325ms | tok/sec: 1,613,193 | mfu: 39.8% | epoch: 1 "
    b"| remaining: 300s\n---\nval_bpb:    0.9979\nnum_steps:   1\ntotal_tokens_M:   0.5\ndepth:   8\n"
)
BUILD = (
    b"total desired batch size: 524288\nvalidation loss: 10.9511\n0 val 10.9511\n0 train 10.955029\n"
    b"step     1 | loss: 10.9 | lr 1.6e-06 | norm: 14.7 | dt: 340.25ms | tok/sec: 1540890.52\n"
)
STATE = (
    b'{"epoch": 1, "log_history": [{"loss": 4.0, "step": 10}, {"eval_loss": 3.9, "step": 9}], "max_steps": 2}'
)
RESULT = (
    b'{"format": "nanodyno-result", "version": 1, "name": "a", "program": "b", "settings": {"n_embd": 64, '
    b'"dataset": "c"}, "tokens_per_iter": 512, "logged_iterations": 9, "logged_evaluations": 1, "summary": '
    b'{}, "resumed_at_iterations": [3], "steps": [{"iteration": 0, "loss": 4.0, "step_seconds": 0.5, '
    b'"overhead": "start"}, {"iteration": 7, "loss": "NaN", "tokens": 512}], "evals": [{"iteration": 8, '
    b'"val_loss": 3.9}]}'
)
TABLE = b'step,train_loss,val_loss,lr,seconds\n0,10.9,11.0,1e-6,0.5\n"10",9.4,,2e-6,0.25\n'
COMMAND = b"$ torchrun --nproc_per_node=2 train.py config/x.py --batch_size=8 --a='b c' | tee x\n"
CONFIG = b"Overriding config with c.py:\nbatch_size = 2 ** 3\nx = 'y' * 9\nblock_size = 1024\n"
TRAINER = (
    b"***** Running training *****\n  Num examples = 80\n  Total train batch size (x) = 4\n"
    b"  Total optimization steps = 20\n{'loss': '4.5', 'epoch': '0.5'}\n"
    b"\r 50%|##  | 10/20 [00:01<00:01, 9it/s]\n{'eval_loss': 4.4, 'epoch': 0.5}\n"
    b"\r 50%|##  | 10/20 [00:01<00:01, 9it/s]{'train_runtime': 9.5, 'epoch': 1.0}\n"
    b"***** eval metrics *****\n  eval_loss = 4.25\nlogging_steps=10,\n"
)
LIGHTNING = b"epoch,lr-Adam,step,train_loss_step,val_loss\n0,1e-3,9,,\n0,,9,4.5,\n0,,9,,4.4\n0,,19,4.0,\n"
LITGPT = (
    b"Epoch 1 | iter 10 step 1 | loss train: 10.9, val: n/a | iter time: 340.04 ms (step) remaining time: 1\n"
    b"iter 10: val loss 10.5, val time: 120.00 ms\n"
)
LITGPT_TABLE = (
    b"iter,iter_time,loss,remaining_time,step,total_tokens,val_loss\n4,0.3,9.5,9,3,4096,\n,,,,3,,9.25\n"
)
SEEDS = [
    (CASE / "train1.log").read_bytes()[:1500],
    (HERE / "events.out.tfevents.1").read_bytes(),
    LLMC,
    PRINTED,
    MODDED,
    TRACK_3,
    NANOCHAT,
    AUTORESEARCH,
    BUILD,
    STATE,
    RESULT,
    TABLE,
    COMMAND,
    CONFIG,
    TRAINER,
    LIGHTNING,
    LITGPT,
    LITGPT_TABLE,
]
WORDS = [
    b"iter 5: loss 3.1234, time 9340.12ms, mfu 15.40%",
    b"iter 99999999999: loss -inf, time 1e999ms, mfu nan%",
    b"step 7: train loss nan, val loss 1e308",
    b"Overriding: batch_size = ",
    b"tokens per iteration will be: 0",
    b"number of parameters: 0.00M",
    b"s:3 trl:1e400",
    b"step:0/0 train_time:-5ms",
    b'"log_history": [',
    b"9" * 400,
    b"nan",
    b"\x1b[31m",
    b"\x1b]0;",
    b"\r",
    b"\n",
    b"\0",
    b"\xff\xfe",
    b"{",
    b"]",
    b'"',
    b",",
    b"=",
]

UNASKED = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]

bits = st.one_of(st.sampled_from(WORDS), st.sampled_from(SEEDS), st.binary(max_size=12), st.just(b" "))


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A log with pieces taken out, put in and repeated."""
    data = draw(st.sampled_from(SEEDS))
    for _ in range(draw(st.integers(0, 5))):
        place = draw(st.integers(0, len(data)))
        end = draw(st.integers(place, min(len(data), place + 60)))
        data = data[:place] + draw(bits) + data[draw(st.sampled_from([place, end])) :]
    return data


files = st.one_of(damaged(), st.lists(bits, max_size=12).map(b"".join), st.binary(max_size=400))


def try_to_import(folder: Path, texts: list[bytes]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    paths = tuple(folder / f"{number}.log" for number in range(len(texts)))
    for path, text in zip(paths, texts, strict=True):
        path.write_bytes(text)
    try:
        imported = import_run(ImportRequest(paths, folder / "run"))
    except NanodynoError:
        assert not (folder / "run").exists()
        return
    run = read_run(folder / "run")
    for records in (run.steps, run.evals):
        iterations = [record.iteration for record in records]
        assert iterations == sorted(set(iterations))
    assert imported.record.origin.iterations == len(run.steps)
    assert len(run.steps) + len(run.evals) > 0
    console = Console(file=io.StringIO(), width=100, force_terminal=False)
    console.print(import_page(imported))
    console.print(run_page(run, summarise(run), 100))
    console.print(to_terminal(comparison_page(*compared_runs([run, run]))))
    console.print(to_terminal(leaderboard_page(leaderboard([standing_of(account_of(run))] * 2))))
    assert result_text(result_of(run, summarise(run))).endswith("}\n")
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert not set(shown) & {"\x1b", "\0", "\x07", "\r"}


def fuzz(examples: int, folder: Path) -> None:
    @settings(max_examples=examples, deadline=None, database=None, suppress_health_check=UNASKED)
    @given(st.lists(files, min_size=1, max_size=2))
    def trial(texts: list[bytes]) -> None:
        try_to_import(folder / "trial", texts)

    trial()


def test_any_file_is_a_run_or_a_clear_error(tmp_path: Path) -> None:
    fuzz(300, tmp_path)


@pytest.mark.nightly
@pytest.mark.timeout(7200)
def test_a_hundred_thousand_files_are_runs_or_clear_errors(tmp_path: Path) -> None:
    fuzz(100_000, tmp_path)
