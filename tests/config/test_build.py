"""Settings become a config: derived where left out, refused with every fault at once."""

import re

import pytest
from pydantic import ValidationError

from nanodyno.config import (
    IGNORED,
    ConfigError,
    RunConfig,
    build_config,
    is_ignored,
    padded_vocab_size,
)
from nanodyno.errors import NanodynoError


def faults_of(**settings: object) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        build_config(settings)
    return caught.value.faults


def only_fault_of(**settings: object) -> str:
    (fault,) = faults_of(**settings)
    return fault


def test_nothing_given_is_nanogpts_default_run():
    config = build_config({})
    assert (config.n_layer, config.n_head, config.n_embd, config.block_size) == (12, 12, 768, 1024)
    assert (config.batch_size, config.gradient_accumulation_steps) == (12, 40)
    assert config.tokens_per_iter == 491_520
    assert (config.learning_rate, config.min_lr) == (6e-4, 6e-5)
    assert (config.max_iters, config.lr_decay_iters, config.warmup_iters) == (600_000, 600_000, 2000)
    assert (config.eval_tokens, config.eval_iters) == (1_048_576, None)


def test_what_makes_a_run_faster_is_automatic_and_keeps_the_arithmetic():
    config = build_config({})
    assert (config.kernels, config.attention, config.recompute, config.loss_chunk_size) == ("auto",) * 3 + (
        None,
    )
    assert (config.residual_dtype, config.moments_dtype) == ("float32", "float32")
    assert (config.cuda_graph, config.offload_moments) == (True, False)


def test_a_backend_of_the_attention_that_nobody_knows_is_reported():
    fault = only_fault_of(attention="flash3")
    assert fault.startswith('attention: must be "auto", ')
    assert fault.endswith(", not 'flash3'")


def test_every_setting_has_a_line_of_description():
    for key, info in RunConfig.model_fields.items():
        assert info.description, key
        assert "\n" not in info.description


def test_a_config_is_frozen():
    with pytest.raises(ValidationError, match="frozen"):
        build_config({}).n_layer = 3  # pyright: ignore[reportAttributeAccessIssue]


def test_a_dumped_config_builds_itself_again():
    config = build_config({"n_embd": 128, "eval_iters": 3, "tokens_per_iter": 12 * 1024 * 7})
    assert build_config(config.model_dump()) == config
    assert RunConfig.model_validate_json(config.model_dump_json()) == config


def test_heads_follow_the_width_in_heads_of_64():
    assert build_config({"n_embd": 384}).n_head == 6
    assert build_config({"n_embd": 384, "n_head": 12}).n_head == 12
    assert build_config({"n_embd": 384, "n_head": None}).n_head == 6


def test_a_width_that_heads_of_64_do_not_divide_asks_for_n_head():
    fault = only_fault_of(n_embd=100)
    assert fault.startswith("n_head: ")
    assert "n_embd=100" in fault
    assert "n_embd=64 or 128" in fault


def test_heads_that_do_not_divide_the_width_are_refused_with_widths_that_fit():
    fault = only_fault_of(n_embd=100, n_head=3)
    assert fault == "n_head: 3 does not divide n_embd=100; use n_embd=99 or 102"


def test_a_width_below_the_heads_is_not_advised_to_become_zero():
    assert only_fault_of(n_embd=5, n_head=8).endswith("use n_embd=8")


def test_tokens_per_iter_derives_the_accumulation():
    config = build_config({"tokens_per_iter": 524_288, "batch_size": 16})
    assert config.gradient_accumulation_steps == 32  # 524288 / (16 * 1024)


def test_tokens_per_iter_that_does_not_divide_names_the_nearest_values_that_do():
    # 42 and 43 times 12288 lie around it; 524288 / 1024 = 512, whose divisors around 12 are 8 and 16
    assert only_fault_of(tokens_per_iter=524_288, batch_size=12) == (
        "tokens_per_iter: 524288 is not a multiple of batch_size * block_size = 12288; "
        "use 516096 or 528384, or keep it with batch_size=8 or 16"
    )


def test_no_batch_size_is_named_when_the_block_itself_does_not_divide():
    fault = only_fault_of(tokens_per_iter=100, batch_size=2, block_size=64)
    assert fault.endswith("= 128; use 128")


def test_a_batch_above_all_tokens_is_advised_down():
    # 8 sequences of 64 in micro-batches of 12: 8 divides, and nothing above 12 does
    fault = only_fault_of(tokens_per_iter=512, batch_size=12, block_size=64)
    assert fault.endswith("use 768, or keep it with batch_size=8")


def test_advice_for_an_enormous_batch_is_still_quick():
    fault = only_fault_of(tokens_per_iter=2**61 - 1, batch_size=10**15, block_size=1)
    assert "batch_size=" not in fault.split("; ")[1]


def test_tokens_per_iter_and_accumulation_must_agree():
    assert (
        build_config({"tokens_per_iter": 24_576, "gradient_accumulation_steps": 2}).tokens_per_iter == 24_576
    )
    fault = only_fault_of(tokens_per_iter=24_576, gradient_accumulation_steps=3)
    assert fault.startswith("tokens_per_iter: 24576 disagrees")
    assert "36864" in fault  # 12 * 1024 * 3


def test_sizes_whose_product_overflows_are_a_fault():
    assert only_fault_of(batch_size=2**62).startswith("tokens_per_iter: ")


def test_the_lowest_rate_and_the_decay_follow_the_run():
    config = build_config({"learning_rate": 3e-4, "max_iters": 100})
    assert (config.min_lr, config.lr_decay_iters) == (3e-5, 100)


def test_a_lowest_rate_above_the_peak_is_refused_only_where_the_rate_decays():
    assert only_fault_of(learning_rate=3e-5, min_lr=6e-5).startswith("min_lr: 6e-05 is above")
    assert build_config({"learning_rate": 3e-5, "min_lr": 6e-5, "decay_lr": False}).min_lr == 6e-5
    assert build_config({"learning_rate": 3e-5, "min_lr": 6e-5, "schedule": "constant"}).min_lr == 6e-5


def test_a_warm_up_longer_than_the_run_is_legal_as_in_nanogpt():
    assert build_config({"max_iters": 100}).warmup_iters == 2000


def test_eval_iters_gives_eval_tokens():
    config = build_config({"eval_iters": 200, "batch_size": 8, "block_size": 256})
    assert config.eval_tokens == 409_600
    assert only_fault_of(eval_iters=1, eval_tokens=5).startswith("eval_tokens: 5 disagrees")
    assert build_config({"eval_iters": 1, "eval_tokens": 12_288}).eval_tokens == 12_288


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("n_layer", "twelve", "must be a whole number of at least 1, not 'twelve'"),
        ("n_layer", "12", "must be a whole number of at least 1, not '12'"),
        ("n_layer", True, "must be a whole number of at least 1, not True"),
        ("n_layer", 0, "must be a whole number of at least 1, not 0"),
        ("n_layer", 1.5, "must be a whole number of at least 1, not 1.5"),
        ("n_layer", None, "must be a whole number of at least 1, not None"),
        ("n_layer", 2**63, "must be a whole number of at least 1, not a number that large"),
        ("vocab_size", -3, "must be a whole number of at least 1, not -3"),
        ("warmup_iters", -1, "must be a whole number of at least 0, not -1"),
        ("eval_interval", 0, "must be a whole number of at least 1, not 0"),
        ("learning_rate", 0, 'must be a number above 0, or "auto" in `train`, not 0'),
        ("learning_rate", "1e-3", "must be a number above 0, or \"auto\" in `train`, not '1e-3'"),
        ("learning_rate", float("nan"), 'must be a number above 0, or "auto" in `train`, not nan'),
        ("learning_rate", float("inf"), 'must be a number above 0, or "auto" in `train`, not inf'),
        ("weight_decay", False, "must be a number of at least 0, not False"),
        ("dropout", 1, "must be a number of at least 0 and below 1, not 1"),
        ("beta2", 1.0, "must be a number of at least 0 and below 1, not 1.0"),
        ("wsd_decay_fraction", 0, "must be a number above 0 and at most 1, not 0"),
        ("compile", 1, "must be true or false, not 1"),
        ("compile", "yes", "must be true or false, not 'yes'"),
        ("dtype", "fp16", 'must be "auto", "float32", "bfloat16" or "float16", not \'fp16\''),
        ("kernels", "triton", 'must be "auto", "fused" or "autograd", not \'triton\''),
        ("loss_chunk_size", 0, "must be a whole number of at least 1, not 0"),
        ("recompute", True, 'must be "auto", "none", "light", "mlp" or "full", not True'),
        ("cuda_graph", 1, "must be true or false, not 1"),
        ("residual_dtype", "float16", 'must be "float32" or "bfloat16", not \'float16\''),
        ("moments_dtype", "bf16", 'must be "float32" or "bfloat16", not \'bf16\''),
        ("offload_moments", "yes", "must be true or false, not 'yes'"),
        ("device", "gpu", 'must be "auto", "cpu", "cuda", "cuda:N" or "mps", not \'gpu\''),
        ("device", "cuda:0\n", 'must be "auto", "cpu", "cuda", "cuda:N" or "mps", not \'cuda:0\\n\''),
        ("dataset", "", "must be text that is not empty, not ''"),
        ("out_dir", 3, "must be text that is not empty, not 3"),
        ("out_dir", ["x" * 99], "must be text that is not empty, not ['" + "x" * 55 + "..."),
    ],
)
def test_a_wrong_value_is_reported_in_plain_words(key: str, value: object, words: str):
    assert only_fault_of(**{key: value}) == f"{key}: {words}"


def test_a_number_too_long_for_python_to_print_is_a_fault_like_any_other():
    assert only_fault_of(n_layer=16**9999).endswith("not a number that large")
    assert only_fault_of(learning_rate=-(16**9999)).endswith("not a number that large")


def test_integral_floats_are_whole_numbers_and_whole_numbers_are_floats():
    config = build_config({"max_iters": 1e3, "vocab_size": 320.0, "grad_clip": 0})
    assert (config.max_iters, config.vocab_size, config.grad_clip) == (1000, 320, 0.0)
    assert type(config.max_iters) is int
    assert type(config.vocab_size) is int
    assert type(config.grad_clip) is float


@pytest.mark.parametrize("device", ["auto", "cpu", "cuda", "cuda:0", "cuda:12", "mps"])
def test_devices_are_named_as_in_torch(device: str):
    assert build_config({"device": device}).device == device


def test_published_weights_are_refused_as_not_yet():
    assert only_fault_of(init_from="gpt2-xl") == (
        'init_from: must be "scratch" or "resume", not \'gpt2-xl\'; '
        "starting from published weights is not supported yet"
    )
    assert "yet" not in only_fault_of(init_from="nowhere")


def test_an_unknown_key_names_the_nearest_known_one():
    assert only_fault_of(n_layers=3) == "n_layers: unknown setting; did you mean n_layer?"
    assert only_fault_of(**{"Batch-Size": 3}).endswith("did you mean batch_size?")
    assert only_fault_of(zzz=3) == "zzz: unknown setting"


def test_all_faults_come_at_once_each_on_a_line_that_begins_with_its_key():
    with pytest.raises(ConfigError) as caught:
        build_config(
            {"n_layer": "x", "n_layr": 3, "compile": 2, "n_embd": 100, "eval_iters": 1, "eval_tokens": 5}
        )
    error = caught.value
    assert isinstance(error, NanodynoError)
    assert error.exit_code == 2
    keys = ["n_layer", "n_layr", "compile", "n_head", "eval_tokens"]
    assert [fault.split(":")[0] for fault in error.faults] == keys
    assert [line.split(":")[0] for line in error.message.splitlines()[1:]] == keys
    assert error.hint is not None
    assert not re.search("pydantic|Input should|http", error.message)


def test_a_faulty_value_is_not_blamed_on_what_depends_on_it():
    assert only_fault_of(n_embd="wide", n_head=5).startswith("n_embd: ")
    assert only_fault_of(batch_size=0, tokens_per_iter=7, eval_iters=3).startswith("batch_size: ")
    assert only_fault_of(tokens_per_iter="many").startswith("tokens_per_iter: ")
    assert only_fault_of(n_head="many", n_embd=100).startswith("n_head: must be")


def test_keys_that_only_nanogpt_needs_have_no_effect():
    given = {"wandb_log": True, "wandb_run_name": "x", "always_save_checkpoint": 3, "backend": "nccl"}
    assert build_config(given) == build_config({})
    assert all(map(is_ignored, {*given, *IGNORED}))
    assert not is_ignored("wandb")


def test_vocabularies_are_padded_to_a_multiple_of_64():
    assert [padded_vocab_size(n) for n in (1, 64, 257, 50257, 50304)] == [64, 64, 320, 50304, 50304]


def test_the_shape_of_a_model_takes_the_vocabulary_as_it_is():
    shape = build_config({"n_embd": 384, "n_layer": 2, "gelu": "tanh", "bias": True}).model_shape(257)
    assert (shape.n_layer, shape.n_head, shape.n_embd, shape.head_size) == (2, 6, 384, 64)
    assert (shape.vocab_size, shape.block_size, shape.bias, shape.gelu) == (257, 1024, True, "tanh")
