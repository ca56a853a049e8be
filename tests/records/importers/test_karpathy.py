"""nanochat, autoresearch and build-nanogpt: numbers made up, lines as the programs print them."""

from typing import Any

import pytest

from nanodyno.records.importers.nanochat import fall_of, warmup_of

HEADER = """Vocab size: 65,536
num_layers: 20
model_dim: 1280
num_heads: 10
num_kv_heads: 10
Tokens / micro-batch / rank: 32 x 2048 = 65,536
Tokens / micro-batch: 524,288
Total batch size 1,048,576 => gradient accumulation steps: 2
Number of parameters: 560,988,160
Calculated number of iterations from target data:param ratio: 200
"""


def chat_line(step: int, planned: int = 200, multiplier: float = 1.0, more: str = "") -> str:
    return (
        f"step {step:05d}/{planned:05d} ({step / 2:.2f}%) | loss: {9 - step / 100:.6f} |{more}"
        f" lrm: {multiplier:.2f} | dt: {480 + step}.25ms | tok/sec: 1,092,000 | mfu: 48.25"
        " | total time: 0.00m\n"
    )


def test_nanochat_has_its_shape_batch_and_times(imported: Any) -> None:
    run = imported(HEADER + "Step 00000 | Validation bpb: 3.3013\n" + chat_line(0) + chat_line(1))
    assert run.record.origin.program == "nanochat"
    assert [(step.iteration, step.loss, step.step_seconds) for step in run.steps] == [
        (0, 9.0, 0.48025),
        (1, 8.99, 0.48125),
    ]
    assert [step.printed_mfu for step in run.steps] == [0.4825, 0.4825]
    assert run.settings == {
        "vocab_size": 65536,
        "n_layer": 20,
        "n_embd": 1280,
        "n_head": 10,
        "batch_size": 32,
        "block_size": 2048,
        "gradient_accumulation_steps": 16,  # of all eight processes
        "max_iters": 200,
    }
    record = run.record
    assert (record.tokens_per_iter, record.processes, record.parameters) == (1_048_576, 8, 560_988_160)


def test_a_second_nanochat_training_has_its_own_header(imported: Any) -> None:
    whole = "".join(map(chat_line, range(200)))
    second = HEADER.replace("layers: 20", "layers: 12")
    run = imported(HEADER + whole + second + "".join(map(chat_line, range(9))))
    assert (run.record.origin.trainings, run.settings["n_layer"], run.settings["max_iters"]) == (2, 12, 200)
    later = imported(HEADER + whole + second)
    assert (later.record.origin.trainings, later.settings["n_layer"]) == (1, 20)


def test_bits_per_byte_are_no_val_loss(imported: Any) -> None:
    run = imported(
        "Step 00000 | Validation bpb: 3.301300\n" + chat_line(0) + "Step 00001 | Validation bpb: 2.5\n"
    )
    assert run.evals == ()
    assert run.record.val_bits_per_byte == ((0, 3.3013), (1, 2.5))
    assert any("2.5 after 1 iterations" in note for note in run.record.notes)


def test_nanochats_second_generation(imported: Any) -> None:
    text = """GPU: NVIDIA H100 80GB HBM3 | Peak FLOPS (BF16): 9.89e+14
COMPUTE_DTYPE: torch.bfloat16 (auto-detected: CUDA SM 90 (bf16 supported))
Model config:
{
  "sequence_len": 512,
  "vocab_size": 32768,
  "n_layer": 8,
  "n_head": 2,
  "n_kv_head": 2,
  "n_embd": 256,
  "window_pattern": "L"
}
Parameter counts:
wte                     : 8,388,608
total                   : 56,623,312
^[[B^[[Bstep 00010/05000 (0.20%) | loss: 8.500000 | grad norm: 1.5000 | lrm: 1.00 | dt: 500.00ms \
| tok/sec: 32,768 | bf16_mfu: 0.50 | epoch: 1 pq: 0 rg: 1 | total time: 0.13m | eta: 40.1m
"""
    run = imported(text)
    (step,) = run.steps
    assert (step.iteration, step.grad_norm, step.learning_rate, step.printed_mfu) == (10, 1.5, None, 0.005)
    assert step.elapsed_seconds == pytest.approx(7.8)
    assert run.settings == {
        "dtype": "bfloat16",
        "block_size": 512,
        "vocab_size": 32768,
        "n_layer": 8,
        "n_head": 2,
        "n_embd": 256,
        "max_iters": 5000,
    }
    record = run.record
    assert (record.tokens_per_iter, record.parameters) == (16_384, 56_623_312)
    assert record.device_name == "NVIDIA H100 80GB HBM3"


def multiplier(step: int, planned: int, warmup: int, ratio: float, final: float) -> float:
    fall = round(ratio * planned)
    if step < warmup:
        return (step + 1) / warmup
    if step <= planned - fall:
        return 1.0
    left = (planned - step) / fall
    return left + (1 - left) * final


@pytest.mark.parametrize(
    ("planned", "warmup", "ratio", "final"),
    [(2000, 0, 0.2, 0.0), (2000, 40, 0.65, 0.05), (500, 20, 0.5, 0.0)],
)
def test_a_schedule_is_seen_in_its_multipliers(planned: int, warmup: int, ratio: float, final: float) -> None:
    printed = [(step, round(multiplier(step, planned, warmup, ratio, final), 2)) for step in range(planned)]
    assert fall_of(printed, planned) == (ratio, final)
    assert warmup_of(printed) == warmup
    assert fall_of(printed[: planned // 4], planned) is None  # it has not begun
    assert warmup_of(printed[planned // 4 :]) is None  # it lies before


def test_a_fall_that_is_no_line_is_not_called_one() -> None:
    bent = [(step, round(1.0 if step < 100 else 1 - ((step - 99) / 100) ** 0.5, 2)) for step in range(200)]
    assert fall_of(bent, 200) is None


def test_nanochats_schedule_by_its_lines_and_by_its_command(imported: Any) -> None:
    lines = "".join(chat_line(step, 200, multiplier(step, 200, 0, 0.4, 0.0)) for step in range(200))
    seen = imported(lines).settings
    assert (seen["schedule"], seen["wsd_decay_fraction"], seen["min_lr"]) == ("wsd", 0.4, 0.0)
    assert (seen["warmup_iters"], seen["lr_decay_iters"], seen["max_iters"]) == (0, 200, 200)
    command = "torchrun -m scripts.base_train -- --warmdown-ratio=0.3 --warmup-steps=40 --final-lr-frac=0.0\n"
    told = imported(command + chat_line(0)).settings
    assert (told["wsd_decay_fraction"], told["warmup_iters"], told["min_lr"]) == (0.3, 40, 0.0)
    assert "schedule" not in imported(chat_line(0)).settings
    changed = imported("warmdown_ratio = 0.2\n" + lines).settings  # a default in the source
    assert changed["wsd_decay_fraction"] == 0.4


def test_later_stages_of_nanochat_are_not_its_pretraining(imported: Any) -> None:
    later = (
        "Total batch size 16,384 => gradient accumulation steps: 1\nStep 00000 | Validation bpb: 0.6\n"
        "step 00001 (0.12%) | loss: 2.000000 | lrm: 1.00 | dt: 99.00ms | tok/sec: 9 | mfu: 1.00\n"
        "Step 00001 | Validation bpb: 0.5\n"
    )
    base = HEADER + "Step 00000 | Validation bpb: 3.3\n"
    run = imported(base + "".join(map(chat_line, range(200))) + "Step 00200 | Validation bpb: 0.9\n" + later)
    assert [step.iteration for step in run.steps] == list(range(200))
    assert run.record.val_bits_per_byte == ((0, 3.3), (200, 0.9))
    assert (run.tokens_per_iter, run.record.origin.restarts) == (1_048_576, 0)


def test_a_resumed_nanochat_goes_back(imported: Any) -> None:
    first = "".join(map(chat_line, range(4))) + "Step 00004 | Validation bpb: 2.0\n" + chat_line(4)
    again = "Resuming optimization from step 3\n" + chat_line(3, more=" grad norm: 0.5000 |")
    run = imported(first + again)
    assert [step.iteration for step in run.steps] == [0, 1, 2, 3]
    assert run.steps[-1].grad_norm == 0.5
    assert (run.record.val_bits_per_byte, run.record.resumed_at_iterations) == ((), (3,))


@pytest.mark.parametrize("cut", [" | dt: 48", " | lrm: 1.00", " | loss: 8.9"])
def test_a_cut_line_of_nanochat_is_left_out(imported: Any, cut: str) -> None:
    line = chat_line(1)
    assert [
        step.iteration for step in imported(chat_line(0) + line[: line.index(cut[:5]) + len(cut)]).steps
    ] == [0]


PROGRESS = "".join(
    f"\rstep {step:05d} ({step * 1.0:.1f}%) | loss: {9 - step / 100:.6f}"
    f" | lrm: {multiplier(step, 100, 0, 0.5, 0):.2f}"
    f" | dt: {325 + step % 7}ms | tok/sec: {int(524288 / (0.325 + step % 7 / 1000)):,} | mfu: 39.8%"
    f" | epoch: 1 | remaining: {300 - 3 * step}s    "
    for step in range(100)
)
SUMMARY = """
---
val_bpb:          0.997900
training_seconds: 300.1
total_seconds:    325.9
peak_vram_mb:     45060.2
mfu_percent:      39.80
total_tokens_M:   52.4
num_steps:        100
num_params_M:     50.3
depth:            8
"""
CONFIG = (
    "Model config: {'sequence_len': 2048, 'vocab_size': 8192, 'n_layer': 8, 'n_head': 4, 'n_embd': 512}\n"
)


def test_autoresearchs_progress_and_summary(imported: Any) -> None:
    run = imported(CONFIG + PROGRESS + SUMMARY)
    assert run.record.origin.program == "autoresearch"
    assert len(run.steps) == 100
    assert (run.steps[3].loss, run.steps[3].step_seconds, run.steps[3].printed_mfu) == (8.97, 0.328, 0.398)
    assert run.settings == {
        "block_size": 2048,
        "vocab_size": 8192,
        "n_layer": 8,
        "n_head": 4,
        "n_embd": 512,
        "max_iters": 100,
        "schedule": "wsd",
        "wsd_decay_fraction": 0.5,
        "lr_decay_iters": 100,
        "warmup_iters": 0,
        "min_lr": 0.0,
    }
    assert (run.tokens_per_iter, run.record.parameters) == (524_288, 50_300_000)
    assert (run.evals, run.record.val_bits_per_byte) == ((), ((100, 0.9979),))


def test_autoresearch_whose_carriage_returns_were_lost(imported: Any, losses: Any) -> None:
    lost = imported(PROGRESS.replace("\r", "") + SUMMARY)
    assert losses(lost) == losses(imported(PROGRESS + SUMMARY))
    assert [step.step_seconds for step in lost.steps[:3]] == [0.325, 0.326, 0.327]


def test_autoresearch_without_its_summary_has_no_end(imported: Any) -> None:
    run = imported(PROGRESS[: PROGRESS.index("step 00060")])
    assert len(run.steps) == 60
    assert not {"max_iters", "schedule"} & set(run.settings)


STDOUT = """total desired batch size: 524288
=> calculated gradient accumulation steps: 4
num decayed parameter tensors: 50, with 124,354,560 parameters
num non-decayed parameter tensors: 98, with 121,344 parameters
validation loss: 10.9511
HellaSwag accuracy: 2463/10042=0.2453
step     0 | loss: 10.955029 | lr 8.3916e-07 | norm: 15.3653 | dt: 9012.11ms | tok/sec: 58175.90
step     1 | loss: 10.907780 | lr 1.6783e-06 | norm: 14.7820 | dt: 340.25ms | tok/sec: 1540890.52
validation loss: 10.8000
step     2 | loss: 10.650000 | lr 2.5175e-06 | norm: 12.0000 | dt: 2340.25ms | tok/sec: 224030.77
validation loss: 10.7000
"""


def test_build_nanogpts_stdout(imported: Any) -> None:
    run = imported(STDOUT)
    assert run.record.origin.program == "build-nanogpt"
    assert [(step.iteration, step.loss, step.step_seconds) for step in run.steps] == [
        (0, 10.955029, 9.01211),
        (1, 10.90778, 0.34025),
        (2, 10.65, 2.34025),
    ]
    assert [step.overhead for step in run.steps] == ["start", None, "evaluation"]  # its clock runs through
    assert (run.steps[1].learning_rate, run.steps[1].grad_norm) == (1.6783e-06, 14.782)
    assert [(entry.iteration, entry.val_loss) for entry in run.evals] == [(0, 10.9511), (2, 10.8), (3, 10.7)]
    assert (run.tokens_per_iter, run.record.parameters) == (524_288, 124_475_904)


@pytest.mark.parametrize(
    "line",
    [
        "step {}, loss: 10.5, dt: 1000.00ms, tok/sec: 16384.00",
        "step {:4d} | loss: 10.500000 | norm: 28.5686 | dt: 1000.00ms | tok/sec: 16384.00",
        "step{} | loss: 10.500000 | dt: 1000.00ms | tok/sec: 16384.00",
        "[rank0]: step {} loss: 10.5 | time: 1000 ms | tok/sec: 16384.00",
    ],
)
def test_older_and_other_lines_of_its_kind(imported: Any, line: str) -> None:
    run = imported("".join(line.format(step) + "\n" for step in range(3)))
    assert [(step.iteration, step.loss, step.step_seconds) for step in run.steps] == [
        (step, 10.5, 1.0) for step in range(3)
    ]
    assert run.tokens_per_iter == 16_384  # by its times and rates


def test_a_batch_that_times_and_rates_leave_open_stays_unknown(imported: Any) -> None:
    assert imported("step 0, loss: 10.5, dt: 9ms, tok/sec: 60000000\n").tokens_per_iter is None


def test_build_nanogpts_log_txt(imported: Any, losses: Any) -> None:
    run = imported("0 val 10.9511\n0 hella 0.2463\n0 train 10.955029\n1 train 10.907780\n2 val 10.80")
    assert losses(run) == {0: 10.955029, 1: 10.90778}
    assert [(entry.iteration, entry.val_loss) for entry in run.evals] == [(0, 10.9511)]  # the last one is cut
