"""llm.c, modded-nanogpt and Hugging Face's trainer."""

import json
import math
from dataclasses import replace
from typing import Any

import pytest

from nanodyno.analysis.account_reading import account_of
from nanodyno.errors import NanodynoError

TABLE = """+-----------------------+----------------------------------------------------+
| Parameter             | Value                                              |
| micro batch size B    | 16                                                 |
| sequence length T     | 1024                                               |
| total batch size      | 524288                                             |
| LR scheduler          | cosine                                             |
| learning rate (LR)    | 6.000000e-04                                       |
| warmup iterations     | 700                                                |
| final LR fraction     | 1.000000e-01                                       |
| device                | NVIDIA A100-SXM4-80GB                              |
| precision             | BF16                                               |
| num_layers L          | 12                                                 |
| num_parameters        | 124475904                                          |
| train_num_batches     | 19560                                              |
| num_processes         | 8                                                  |
=> setting grad_accum_steps=4
val loss 11.009000
{}{}val loss 10.900000
""".format(
    "step    1/19560 | loss 11.009100 (+nanz)| norm 15.3700 (+nanz)| lr 8.57e-07 "
    "| 3000.50 ms | 10.0% bf16 MFU | 174733 tok/s\n",
    "step    2/19560 | loss 10.959800 (+nanz)| norm 15.2400 (+nanz)| lr 1.71e-06 "
    "| 1404.25 ms | -100.0% bf16 MFU | 373358 tok/s\n",
)


def test_llm_c_main_log(imported: Any) -> None:
    run = imported(
        "s:0 tel:11.0092\ns:0 trl:11.0091 lr:0.000001 norm:15.37\ns:1 trl:10.9598\ns:2 eval:0.2500\n"
    )
    first, second = run.steps
    assert (first.iteration, first.loss, first.learning_rate, first.grad_norm) == (0, 11.0091, 1e-6, 15.37)
    assert (second.iteration, second.loss, second.grad_norm) == (1, 10.9598, None)
    assert [(entry.iteration, entry.val_loss, entry.train_loss) for entry in run.evals] == [
        (0, 11.0092, None)
    ]
    assert run.record.origin.program == "llm.c"


def test_llm_c_stdout_counts_from_one_and_its_evaluations_name_no_step(imported: Any) -> None:
    run = imported(TABLE)
    assert [(step.iteration, step.loss, step.step_seconds) for step in run.steps] == [
        (0, 11.0091, 3.0005),
        (1, 10.9598, 1.40425),
    ]
    assert [step.printed_mfu for step in run.steps] == [0.1, None]
    assert [(entry.iteration, entry.val_loss) for entry in run.evals] == [(0, 11.009), (2, 10.9)]
    assert run.settings == {
        "batch_size": 16,
        "block_size": 1024,
        "schedule": "cosine",
        "learning_rate": 6e-4,
        "warmup_iters": 700,
        "min_lr": pytest.approx(6e-5),
        "dtype": "bfloat16",
        "n_layer": 12,
        "max_iters": 19560,
        "lr_decay_iters": 19560,
        "gradient_accumulation_steps": 32,
    }
    record = run.record
    assert (record.device_name, record.processes, record.parameters) == (
        "NVIDIA A100-SXM4-80GB",
        8,
        124_475_904,
    )
    assert run.tokens_per_iter == 524_288


@pytest.mark.parametrize(
    ("printed", "value"),
    [
        ("    nan", math.nan),
        ("   -nan", math.nan),
        ("-nan(ind)", math.nan),
        ("    inf", math.inf),
        ("   -inf", -math.inf),
        ("11.5", 11.5),
        (" 9.50000", 9.5),
    ],
)
def test_llm_cs_numbers_in_every_form_that_printf_gives_them(
    imported: Any, printed: str, value: float
) -> None:
    step = f"step    1/9 | loss {printed} (+nanz)| norm {printed} (+nanz)| lr 8.57e-07 | 30.50 ms | "
    run = imported(f"{step}1.0% bf16 MFU | 17 tok/s\nval loss {printed}\ns:4 trl:{printed.strip()}\n")
    found = [run.steps[0].loss, run.steps[0].grad_norm, run.evals[0].val_loss, run.steps[1].loss]
    assert [repr(each) for each in found] == [repr(value)] * 4


MODDED = """====================
import os
class Hyperparameters:
    # optimization hyperparams
    batch_size : int = 8*64 # batch size, in sequences, across all devices
    device_batch_size : int = 64 # batch size, in sequences, per device
    sequence_length : int = 1024 # sequence length, in tokens
    learning_rate : float = 0.0036
args = Hyperparameters()
print0(f"step:{step}/{args.num_iterations} val_loss:{val_loss:.4f} train_time:{t:.0f}ms step_avg:{t:.2f}ms")
|   0  NVIDIA H100 80GB HBM3          On  | 00000000:19:00.0 Off |                    0 |
step:0/6200 val_loss:10.9264 train_time:285ms step_avg:nanms
step:1/6200 train_loss:10.9184 train_time:74701ms step_avg:nanms
step:2/6200 train_loss:8.6834 train_time:75965ms step_avg:nanms
step:3/6200 train_loss:7.7596 train_time:500ms step_avg:nanms
step:4/6200 train_loss:7.5281 train_time:714ms step_avg:214.0ms
step:4/6200 val_loss:7.5000 train_time:714ms step_avg:214.0ms
"""


def test_modded_nanogpt_times_are_differences_of_its_clock(imported: Any) -> None:
    run = imported(MODDED)
    assert [step.iteration for step in run.steps] == [0, 1, 2, 3]
    assert [step.step_seconds for step in run.steps] == [74.701, 1.264, 0.5, 0.214]
    assert [(entry.iteration, entry.val_loss) for entry in run.evals] == [(0, 10.9264), (4, 7.5)]
    assert run.settings == {"batch_size": 64, "block_size": 1024, "learning_rate": 0.0036, "max_iters": 6200}
    assert (run.tokens_per_iter, run.record.device_name) == (524_288, "NVIDIA H100 80GB HBM3")


def test_modded_nanogpt_logs_without_train_losses_still_have_times(imported: Any) -> None:
    run = imported("step:1/9 train_time:73ms step_avg:73.23ms\nstep:2/9 train_time:94ms step_avg:47.16ms\n")
    assert [(step.loss, step.step_seconds) for step in run.steps] == [(None, 0.073), (None, 0.021)]


def test_llm_cs_processes_follow_from_its_batch_size(imported: Any) -> None:
    rows = [line for line in TABLE.splitlines() if "num_processes" not in line]
    run = imported("\n".join(rows) + "\n")
    assert (run.record.processes, run.settings["gradient_accumulation_steps"]) == (8, 32)


def test_an_accumulation_of_unknown_processes_is_not_that_of_all(imported: Any) -> None:
    rows = [line for line in TABLE.splitlines() if "num_processes" not in line and "sequence" not in line]
    run = imported("\n".join(rows) + "\n")
    assert (run.record.processes, "gradient_accumulation_steps" in run.settings) == (None, False)


def test_an_older_llm_c_prints_its_sizes_in_a_line(imported: Any) -> None:
    line = "batch_size B=16 * seq_len T=1024 * num_processes=8 and total_batch_size=1048576\n"
    run = imported("num_parameters: 1557686400 => bytes: 3115372800\n" + line + TABLE[TABLE.index("=>") :])
    record = run.record
    assert (record.processes, record.parameters, run.tokens_per_iter) == (8, 1_557_686_400, 1_048_576)
    assert run.settings["gradient_accumulation_steps"] == 32


def test_llm_cs_val_loss_before_a_resume_is_of_the_iteration_it_goes_on_from(imported: Any) -> None:
    row = "step {:4d}/9 | loss 5.0 (+nanz)| norm 1.0 (+nanz)| lr 8.57e-07 | 30.50 ms | 1.0% bf16 MFU | 17\n"
    first = "val loss 9.0\n" + "".join(map(row.format, range(1, 8)))
    again = "=> setting grad_accum_steps=4\nval loss 6.0\n" + row.format(5) + "val loss 5.5\n"
    run = imported(first + again)
    assert [(entry.iteration, entry.val_loss) for entry in run.evals] == [(0, 9.0), (4, 6.0), (5, 5.5)]
    assert [step.iteration for step in run.steps] == [0, 1, 2, 3, 4]


def test_llm_cs_second_training_has_its_own_table(imported: Any) -> None:
    second = TABLE.replace("| 8    ", "| 1    ").replace("A100-SXM4-80GB", "H100 80GB HBM3")
    run = imported(TABLE + second.replace("11.009000", "10.500000"))
    record = run.record
    assert (record.origin.trainings, record.processes, record.device_name) == (2, 1, "NVIDIA H100 80GB HBM3")
    assert [(entry.iteration, entry.val_loss) for entry in run.evals] == [(0, 10.5), (2, 10.9)]


def test_llm_cs_wsd_decays_over_the_last_fifth(imported: Any) -> None:
    settings = imported(TABLE.replace("cosine ", "wsd    ")).settings
    assert (settings["schedule"], settings["wsd_decay_fraction"]) == ("wsd", 0.2)


GPUS = "".join(
    f"|   {number}  NVIDIA H100 80GB HBM3          On  | 00000000:{number}9:00.0 Off |              0 |\n"
    f"| N/A   3{number}C    P0            117W /  700W |    1519MiB /  81559MiB |      0%      Default |\n"
    for number in range(8)
)
LINES = (
    "step:0/400 val_loss:10.8258 train_time:0ms step_avg:nanms\nstep:1/400 train_time:90ms step_avg:90ms\n"
)


def test_modded_nanogpts_gpu_table_counts_its_processes(imported: Any) -> None:
    record = imported(GPUS + LINES).record
    assert (record.processes, record.device_name) == (8, "NVIDIA H100 80GB HBM3")
    listed = "0   NVIDIA H200     35    117        6340            81559           0     %\n"
    record = imported(listed + listed.replace("0  ", "1  ", 1) + LINES).record
    assert (record.processes, record.device_name) == (2, "NVIDIA H200")
    assert imported(LINES).record.processes is None


WARMDOWN = """class GPTConfig:
    vocab_size : int = 50304
    n_layer : int = 12
    n_head : int = 6 # head dim 128
    n_embd : int = 768
class Hyperparameters:
    batch_size : int = 8 # batch size, in sequences, across all devices
    sequence_length : int = 64*1024
    num_iterations : int = 400
    warmup_iters : int = 0
    cooldown_iters : int = 100
args = Hyperparameters()
        decay_ratio = (args.num_iterations - it) / args.cooldown_iters
"""


def test_modded_nanogpts_cooldown_in_iterations_is_a_wsd(imported: Any) -> None:
    run = imported(WARMDOWN + LINES)
    assert run.settings == {
        "vocab_size": 50304,
        "n_layer": 12,
        "n_head": 6,
        "n_embd": 768,
        "block_size": 65536,
        "warmup_iters": 0,
        "max_iters": 400,
        "schedule": "wsd",
        "wsd_decay_fraction": 0.25,
        "lr_decay_iters": 400,
        "min_lr": 0.0,
    }
    assert run.tokens_per_iter == 524_288


FRACTION = """@dataclass
class Hyperparameters:
    train_seq_len = 48*1024 # FlexAttention sequence length
    num_iterations = 390
    cooldown_frac = 0.4 # fraction of training spent cooling down the learning rate
model = GPT(vocab_size=next_multiple_of_n(50257, n=128), num_layers=12, num_heads=6, model_dim=768).cuda()
    w = min((1 - x) / args.cooldown_frac, 1.0)
    return w * 1.0 + (1 - w) * 0.1
train_loader = distributed_data_generator(args.train_files, world_size * args.train_seq_len, rank, world_size)
"""


def test_modded_nanogpts_cooldown_as_a_fraction(imported: Any) -> None:
    run = imported(FRACTION + GPUS + LINES)
    assert run.settings == {
        "vocab_size": 50304,
        "n_layer": 12,
        "n_head": 6,
        "n_embd": 768,
        "block_size": 49152,
        "max_iters": 400,
        "schedule": "wsd",
        "wsd_decay_fraction": 0.4,
        "lr_decay_iters": 390,
        "warmup_iters": 0,
    }
    assert run.tokens_per_iter == 8 * 49152
    assert any("end at 0.1" in note for note in run.record.notes)  # of rates that it does not know


STAGES = """TRAINING_STAGES = [
    TrainingStage(duration=1/3, train_max_seq_len=896, batch_size=8 * 2048 * 8, lr_mul=1.0),
    TrainingStage(duration=1/3, train_max_seq_len=2048, batch_size=16 * 2048 * 8, lr_mul=1.52),
]
schedule = TrainingSchedule(TRAINING_STAGES, args.num_scheduled_iterations, cooldown_frac=0.60)
"""


def test_stages_have_no_one_batch_and_no_wsd(imported: Any) -> None:
    run = imported(STAGES + GPUS + LINES)
    assert run.tokens_per_iter is None
    assert "schedule" not in run.settings


TRACK_3 = """class CausalSelfAttention(nn.Module):
    def __init__(self, dim: int, head_dim=128):
def distributed_data_generator(filename_pattern: str, batch_size: int, seq_len=1024):
batch_size = 8 * 64 * 1024
mbs = 64
model = GPT(vocab_size=50304, num_layers=12, model_dim=768).cuda()
    train_steps = 3350
    optimizer2 = Muon(params, lr=0.035, weight_decay=0.025)
    def set_hparams(step, cooldown_frac=0.7):
            eta = (1 - progress) / cooldown_frac
====================================================================================================
Running PyTorch 2.11.0+cu128 compiled for CUDA 12.8 on NVIDIA H100 80GB HBM3 with world_size 8
====================================================================================================
"""
TRIAL = """step:0/3350 val_loss:10.82584 train_time:0.001s step_avg:nanms
step:125/3350 val_loss:4.66393 train_time:22.870s step_avg:182.95ms
step:250/3350 val_loss:4.12440 val_ema_loss:4.20000 train_time:41.370s step_avg:148.00ms ema_beta:0.3
"""


def test_track_3_has_times_of_its_evaluations_alone(imported: Any) -> None:
    run = imported(TRACK_3 + TRIAL)
    assert [(entry.iteration, entry.val_loss) for entry in run.evals] == [
        (0, 10.82584),
        (125, 4.66393),
        (250, 4.1244),
    ]
    assert [(step.iteration, step.loss) for step in run.steps] == [(124, None), (249, None)]
    assert [step.step_seconds for step in run.steps] == pytest.approx([22.870 / 125, 0.148])
    assert run.settings == {
        "vocab_size": 50304,
        "n_layer": 12,
        "n_embd": 768,
        "n_head": 6,
        "batch_size": 64,
        "block_size": 1024,
        "max_iters": 3350,
        "schedule": "wsd",
        "wsd_decay_fraction": 0.7,
        "lr_decay_iters": 3350,
        "warmup_iters": 0,
        "min_lr": 0.0,
    }
    record = run.record
    assert (record.tokens_per_iter, record.processes) == (524_288, 8)
    assert record.device_name == "NVIDIA H100 80GB HBM3"


def test_of_several_trials_in_a_file_the_last_counts(imported: Any) -> None:
    again = TRIAL.replace("4.66393", "4.7").replace("22.870", "18.500").replace("4.12440", "4.2")
    run = imported(TRACK_3 + TRIAL + again)
    assert [entry.val_loss for entry in run.evals] == [10.82584, 4.7, 4.2]
    assert run.steps[0].step_seconds == pytest.approx(0.148)
    origin = run.record.origin
    assert (origin.trainings, origin.restarts, run.record.resumed_at_iterations) == (2, 0, ())


@pytest.mark.parametrize(
    "other",
    [
        'cooldown_frac = 1.0 if group["schedule_type"] == "h" else 0.4',
        'group["cooldown_frac"] = 0.85\ngroup["cooldown_frac"] = 1.0',
    ],
)
def test_optimizers_with_schedules_of_their_own_have_no_one_schedule(imported: Any, other: str) -> None:
    assert "schedule" not in imported(f"{TRACK_3}{other}\n{TRIAL}").settings


def test_modded_nanogpts_last_evaluation_has_the_whole_time(imported: Any) -> None:
    run = imported(
        "step:1/2 train_time:90ms step_avg:90ms\nstep:1/2 val_loss:9.1 train_time:110ms step_avg:110ms\n"
        "step:2/2 train_time:190ms step_avg:95ms\nstep:2/2 val_loss:8.1 train_time:210ms step_avg:105ms\n"
    )
    assert [step.step_seconds for step in run.steps] == pytest.approx([0.09, 0.12])
    assert [step.elapsed_seconds for step in run.steps] == pytest.approx([0.09, 0.21])


STATE = {
    "best_metric": None,
    "epoch": 0.5,
    "global_step": 20,
    "log_history": [
        {"epoch": 0.25, "grad_norm": 1.5, "learning_rate": 5e-5, "loss": 4.0, "step": 10},
        {"epoch": 0.25, "eval_loss": 3.9, "eval_runtime": 3.0, "step": 10},
        {"epoch": 0.5, "loss": math.nan, "step": 20},
        {"epoch": 0.5, "train_runtime": 120.0, "train_loss": 3.7, "step": 20},
        "damaged",
    ],
    "logging_steps": 10,
    "max_steps": 20,
    "train_batch_size": 8,
}


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("last", [False, True])
def test_hugging_faces_state_is_read_wherever_its_logs_stand(
    imported: Any, indent: int | None, last: bool
) -> None:
    state = dict(STATE)
    if last:
        state["log_history"] = state.pop("log_history")
    run = imported(json.dumps(state, indent=indent), names=("trainer_state.json",))
    first, second = run.steps
    assert (first.iteration, first.loss, first.grad_norm, first.learning_rate) == (9, 4.0, 1.5, 5e-5)
    assert math.isnan(second.loss)
    assert [(entry.iteration, entry.val_loss) for entry in run.evals] == [(10, 3.9)]
    assert run.settings == {"max_iters": 20, "batch_size": 8, "log_interval": 10}
    assert "took 120 s" in run.record.notes[0]


def test_a_state_cut_in_its_logs_is_reported(imported: Any) -> None:
    with pytest.raises(NanodynoError, match="cut or damaged"):
        imported(json.dumps(STATE)[:200], names=("trainer_state.json",))


def modded_log(milliseconds: Any, count: int = 400) -> str:
    """modded-nanogpt's lines with its clock in whole milliseconds: 900 s of compilation come first."""
    clock, lines = 900_000.0, []
    for done in range(1, count + 1):
        clock += milliseconds(done)
        if done == 10:
            clock = 0.0  # it starts its clock anew after the warm-up
        lines.append(f"step:{done}/{count} train_loss:4.0000 train_time:{clock:.0f}ms step_avg:1.00ms")
        if done % 125 == 0:
            lines.append(f"step:{done}/{count} val_loss:4.0000 train_time:{clock:.0f}ms step_avg:1.00ms")
    return "\n".join(lines) + "\n"


def soap(done: int) -> float:
    """As its record of 2024-10-09: 254.6 ms, and 1,326 ms in every tenth."""
    return 1326.0 if done % 10 == 1 else 254.6


def test_the_speed_of_soap_explains_the_clock_of_its_log(imported: Any) -> None:
    account = account_of(imported(modded_log(soap)))
    seconds: Any = account.speed.iteration_seconds
    assert seconds.value == pytest.approx((0.9 * 254.6 + 0.1 * 1326) / 1000, rel=0.003)
    assert {type(each) for each in (seconds.value, seconds.low, seconds.high)} == {float}  # as JSON has them
    assert 0 < seconds.high - seconds.low < 0.03 * seconds.value
    assert (account.disturbed_iterations, account.elapsed_excess) == (0, None)
    assert account.pace_seconds == pytest.approx(seconds.value, rel=0.003)


def test_a_stop_of_a_minute_is_left_out_of_the_speed_and_reported(imported: Any) -> None:
    account = account_of(imported(modded_log(lambda done: 60_000.0 if done == 200 else soap(done))))
    seconds: Any = account.speed.iteration_seconds
    assert (seconds.value, seconds.high) == (pytest.approx(0.36174, rel=0.003), None)
    assert account.disturbed_iterations == 1
    assert account.elapsed_excess == pytest.approx(59.7454 / 398 / 0.36174, abs=0.01)


def test_what_an_older_import_called_unknown_is_judged_anew(imported: Any) -> None:
    run = imported(modded_log(soap))
    marked = [
        step.model_copy(update={"overhead": "unknown"})
        if not step.overhead and step.step_seconds and step.step_seconds > 1
        else step
        for step in run.steps
    ]
    assert account_of(replace(run, steps=tuple(marked))).speed == account_of(run).speed
