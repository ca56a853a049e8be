"""nanoGPT's config files are read as text: nothing in them ever runs."""

from pathlib import Path

import pytest

from nanodyno.config import ConfigError, build_config
from nanodyno.errors import NanodynoError
from nanodyno.recipes import Settings, load_settings, override


def read(folder: Path, text: str) -> Settings:
    path = folder / "mine.py"
    path.write_text(text, encoding="utf-8")
    return load_settings(str(path))


def set_by(folder: Path, text: str) -> dict[str, object]:
    """What the file itself sets, without nanoGPT's defaults underneath."""
    settings = read(folder, text)
    return {key: value for key, value in settings.values.items() if key not in settings.assumed}


def faults_of(folder: Path, text: str) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        read(folder, text)
    return caught.value.faults


# The kinds of line that nanoGPT's own config files hold, in our words.
PRETRAIN = """\
# half a million tokens an iteration
wandb_log = True
wandb_run_name='a run'
batch_size = 12
gradient_accumulation_steps = 5 * 8 # for eight cards
max_iters = 600000
eval_interval = 1000
weight_decay = 1e-1
"""
FINETUNE = """\
import time

out_dir = 'out-mine'
wandb_run_name = 'ft-' + str(time.time())
dataset = 'shakespeare'
init_from = 'gpt2-xl'
always_save_checkpoint = False
batch_size = 1
gradient_accumulation_steps = 32
learning_rate = 3e-5
decay_lr = False
"""


def test_a_pretraining_file_means_what_it_means_to_nanogpt(tmp_path: Path):
    settings = read(tmp_path, PRETRAIN)
    assert settings.name == "mine"
    assert settings.ignored == ("wandb_log", "wandb_run_name")
    config = build_config(settings.values)
    assert (config.gradient_accumulation_steps, config.tokens_per_iter) == (40, 491_520)
    assert (config.weight_decay, config.eval_interval) == (0.1, 1000)
    assert (config.dataset, config.device) == ("openwebtext", "auto")
    assert (config.eval_iters, config.eval_tokens) == (200, 2_457_600)


def test_a_finetuning_file_reads_and_only_its_start_is_refused(tmp_path: Path):
    settings = read(tmp_path, FINETUNE)
    assert settings.ignored == ("line 1: import time", "wandb_run_name", "always_save_checkpoint")
    with pytest.raises(ConfigError, match=r"^init_from: .* not supported yet$"):
        build_config(settings.values)


def test_nanogpts_defaults_lie_under_what_the_file_sets(tmp_path: Path):
    settings = read(tmp_path, "n_embd = 384\nlearning_rate = 1e-3\nmax_iters = 5000\n")
    config = build_config(settings.values)
    assert (config.n_head, config.min_lr, config.lr_decay_iters) == (12, 6e-5, 600_000)
    assert settings.assumed == {"n_head", "min_lr", "lr_decay_iters", "eval_iters", "dataset"}
    assert build_config(read(tmp_path, "n_head = 6\nmin_lr = 0\n").values).n_head == 6


def test_eval_tokens_in_a_file_is_not_at_odds_with_the_default_eval_iters(tmp_path: Path):
    assert build_config(read(tmp_path, "eval_tokens = 4096").values).eval_tokens == 4096


def test_overrides_win_over_the_file_and_over_the_defaults_under_it(tmp_path: Path):
    settings = override(read(tmp_path, PRETRAIN), {"tokens_per_iter": 24_576, "n_embd": 256, "max_iters": 10})
    config = build_config(settings.values)
    assert (config.gradient_accumulation_steps, config.n_head, config.lr_decay_iters) == (2, 4, 600_000)
    narrow = override(read(tmp_path, "n_embd = 384"), {"n_embd": 512})
    assert build_config(narrow.values).n_head == 8


def test_arithmetic_and_names_above_are_read(tmp_path: Path):
    text = """
'''a docstring'''
wandb_run_name = 'tiny'
tokens = 2 ** 19
batch_size: int = 16
batch_size //= 2
tokens_per_iter = tokens
max_iters = lr_decay_iters = -(-10_000_000 // tokens_per_iter)
learning_rate = 1e-3 * (4 / 2 - 1 % 2)
min_lr = learning_rate / 10
out_dir = 'out/' + wandb_run_name
compile = False
vocab_size = None
_private = 3
"""
    assert set_by(tmp_path, text) == {
        "batch_size": 8,
        "tokens_per_iter": 524_288,
        "max_iters": 20,  # 10,000,000 / 524,288 = 19.07
        "lr_decay_iters": 20,
        "learning_rate": 1e-3,
        "min_lr": 1e-4,
        "out_dir": "out/tiny",
        "compile": False,
        "vocab_size": None,
    }


def test_a_misspelt_key_is_kept_so_that_the_build_names_the_nearest(tmp_path: Path):
    with pytest.raises(ConfigError, match="n_layr: unknown setting; did you mean n_layer"):
        build_config(read(tmp_path, "n_layr = 3").values)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("max_iters = int(1e3)", "is neither a plain value nor simple arithmetic"),
        ("max_iters = steps", "uses steps, which has no plain value above it"),
        ("max_iters = 9 ** 9 ** 9", "is too large"),
        ("max_iters = 2 ** 200", "is too large"),
        ("max_iters = 10.0 ** 999", "is too large"),
        ("max_iters = 1e999", "is too large"),
        ("max_iters = 1 // 0", "divides by zero"),
        ("max_iters = (-8) ** 0.5", "is not a real number"),
        ("max_iters = 'a' * 10 ** 9", "calculates with something that is not a number"),
        ("max_iters = True + 1", "calculates with something that is not a number"),
        ("max_iters = 1 << 99999999999", "is neither a plain value nor simple arithmetic"),
        ("max_iters = [x for x in range(10 ** 12)]", "is neither a plain value nor simple arithmetic"),
        ("max_iters = (lambda: 5)()", "is neither a plain value nor simple arithmetic"),
        ("max_iters = f'{5}'", "is neither a plain value nor simple arithmetic"),
        ("max_iters = 1 if True else 2", "is neither a plain value nor simple arithmetic"),
        ("max_iters = 1j", "is neither a plain value nor simple arithmetic"),
        ("max_iters, n_layer = pair", "is not a plain assignment"),
        ("max_iters, n_layer = 1, 2, 3", "is not a plain assignment"),
        ("max_iters, n_layer = n_layer, max_iters", "is not a plain assignment"),
        ("if 1: max_iters = 5", "is not a plain assignment"),
        ("for max_iters in [1, 2]: pass", "is not a plain assignment"),
        ("del max_iters", "is not a plain assignment"),
        ("import time as max_iters", "is not a plain assignment"),
        ("print(max_iters := 5)", "is not a plain assignment"),
    ],
)
def test_what_cannot_be_read_is_reported_with_file_line_and_key(tmp_path: Path, line: str, reason: str):
    fault = faults_of(tmp_path, f"batch_size = 4\n{line}\n")[0]
    assert fault.startswith("max_iters: ")
    assert fault.endswith(f"mine.py, line 2: `{line}` {reason}")


def test_all_unreadable_keys_are_reported_at_once(tmp_path: Path):
    faults = faults_of(tmp_path, "max_iters = f()\nn_layer = 2\nn_embd = n_layer * g\n")
    assert [fault.split(":")[0] for fault in faults] == ["max_iters", "n_embd"]


def test_only_the_last_value_of_a_key_has_to_be_readable(tmp_path: Path):
    assert set_by(tmp_path, "max_iters = f()\nmax_iters = 5\n") == {"max_iters": 5}
    assert "uses steps" in faults_of(tmp_path, "steps = 5\nsteps = f()\nmax_iters = steps\n")[0]
    assert "uses steps" in faults_of(tmp_path, "steps = 5\nimport steps\nmax_iters = steps\n")[0]


def test_names_that_double_again_and_again_stop_at_a_bound(tmp_path: Path):
    text = "out_dir = 'xxxxxxxx'\n" + "out_dir = out_dir + out_dir\n" * 60
    assert faults_of(tmp_path, text)[0].startswith("out_dir: ")
    numbers = "seed = 2 ** 100\n" + "seed = seed * seed\n" * 60
    assert faults_of(tmp_path, numbers)[0].startswith("seed: ")


@pytest.mark.parametrize(
    "line", ["from base import *", "exec(open('base.py').read())", "globals()['n_layer'] = 3"]
)
def test_a_line_that_could_set_any_key_is_refused_rather_than_passed_over(tmp_path: Path, line: str):
    (fault,) = faults_of(tmp_path, f"n_layer = 2\n{line}\n")
    assert fault.endswith(f"mine.py, line 2: `{line}` may set any key, and is not run")


def test_a_hostile_file_is_read_and_nothing_of_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    text = """\
import os
os.system('touch ran-system')
__import__('os').system('touch ran-import')
open('ran-open', 'w').write('x')
print([open('ran-comprehension', 'w') for _ in range(3)])
(lambda: open('ran-lambda', 'w'))()
wandb_run_name = f"{open('ran-fstring', 'w')}"
bomb = [0] * 10 ** 12
power = 9 ** 9 ** 9
class Trap:
    open('ran-class', 'w')
def trap(x=open('ran-default', 'w')):
    pass
while True:
    pass
n_layer = 3
"""
    assert set_by(tmp_path, text) == {"n_layer": 3}
    assert [path.name for path in tmp_path.iterdir()] == ["mine.py"]
    ignored = read(tmp_path, text).ignored
    assert ignored[:2] == ("line 1: import os", "line 2: os.system('touch ran-system')")
    assert "wandb_run_name" in ignored
    assert len(ignored) == 12


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("n_layer = 2\nn_embd = = 3\n", "mine.py, line 2: not valid Python"),
        ("n_layer = " + "9" * 5000, "mine.py, line 1: not valid Python"),
        ("n_layer = " + "(" * 9000, "mine.py, line 1: not valid Python"),
        ("n_layer = " + "-" * 100_000 + "1", "mine.py"),
        ("n_layer = 2\0", "mine.py"),
    ],
    ids=["syntax", "digits", "parentheses", "signs", "null"],
)
def test_what_is_no_python_is_reported_with_its_line(tmp_path: Path, text: str, message: str):
    with pytest.raises(NanodynoError) as caught:
        read(tmp_path, text)
    assert message in caught.value.message


def test_a_sum_nested_deeper_than_any_setting_is_refused(tmp_path: Path):
    assert faults_of(tmp_path, "n_layer = " + "1+" * 200 + "1")[0].endswith("is nested too deeply")


# The order of nanoGPT's train.py, in our words: settings, their collection, then work.
SCRIPT = """\
'''
$ torchrun --standalone --nproc_per_node=4 train.py
'''
import os
import torch
from model import GPT

out_dir = 'out'
wandb_run_name = 'a' # 'run' + str(time.time())
gradient_accumulation_steps = 5 * 8 # to simulate larger batches
batch_size = 16 # micro-batch size
block_size = 12 * 1024
tokens = batch_size * block_size
beta1, beta2 = 0.9, 0.99
betas = (0.9, 0.99)
n_embd: int = 64 * 6
warmup_iters = int(1e3)
max_iters = 5000
lr_decay_iters = max_iters - 500
dtype = 'bfloat16' if torch.cuda.is_available() else 'float16'
def helper():
    batch_size = 3
{end}
max_iters = 7
n_layer = 99
while True:
    batch_size = 1
"""
COLLECTED = "config_keys = [k for k,v in globals().items() if not k.startswith('_')]"
EXECUTED = "exec(open('configurator.py').read())"


@pytest.mark.parametrize("end", [COLLECTED, EXECUTED, "torch.manual_seed(1337)", "for _ in range(3): pass"])
def test_the_top_of_a_training_script_is_its_settings(tmp_path: Path, end: str):
    (tmp_path / "train.py").write_text(SCRIPT.format(end=end), encoding="utf-8")
    settings = load_settings(str(tmp_path / "train.py"), lenient=True)
    known = {key: value for key, value in settings.values.items() if key not in settings.assumed}
    assert known == {
        "out_dir": "out",
        "gradient_accumulation_steps": 40,
        "batch_size": 16,
        "block_size": 12_288,
        "tokens": 196_608,
        "beta1": 0.9,
        "beta2": 0.99,
        "n_embd": 384,
        "max_iters": 5000,
        "lr_decay_iters": 4500,
    }


def test_a_training_script_is_trained_by_only_if_every_setting_is_known(tmp_path: Path):
    text = SCRIPT.format(end=COLLECTED)
    assert [fault.split(":")[0] for fault in faults_of(tmp_path, text)] == ["warmup_iters"]
    config = set_by(tmp_path, text.replace("int(1e3)", "1000"))
    assert (config["warmup_iters"], "dtype" in config) == (1000, False)


def test_an_if_that_may_set_a_key_leaves_it_unknown(tmp_path: Path):
    (tmp_path / "a.py").write_text("batch_size = 8\nn_layer = 2\nif n_layer > 1:\n    batch_size = 4\n")
    assert load_settings(str(tmp_path / "a.py"), lenient=True).values.keys() & {"batch_size", "n_layer"} == {
        "n_layer"
    }


def test_a_file_that_is_no_python_is_refused_with_a_hint(tmp_path: Path):
    with pytest.raises(NanodynoError, match="not valid Python") as caught:
        read(tmp_path, "batch_size: 8\n- a list")
    assert ".toml" in str(caught.value.hint)
