"""Command lines as nanoGPT's users type them."""

import pytest

from nanodyno.errors import NanodynoError
from nanodyno.recipes import parse_overrides


def test_both_ways_of_writing_a_setting():
    args = ["--batch_size=8", "--n_layer", "4", "--learning-rate=1e-3", "--max-iters", "10_000"]
    assert parse_overrides(args) == {
        "batch_size": 8,
        "n_layer": 4,
        "learning_rate": 1e-3,
        "max_iters": 10_000,
    }


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("True", True),
        ("true", True),
        ("false", False),
        ("None", None),
        ("5*8", 40),
        ("2**10 * (3 - 1)", 2048),
        ("-1", -1),
        (" 7", 7),
        ("1e3", 1000.0),
        ("twelve", "twelve"),
        ("", ""),
        ("08", "08"),
        ("9**9**9", "9**9**9"),
        ("__import__('os').getcwd()", "__import__('os').getcwd()"),
    ],
)
def test_a_value_is_what_python_would_read_or_else_the_text(text: str, value: object):
    result = parse_overrides([f"--n_layer={text}"])["n_layer"]
    assert (result, type(result)) == (value, type(value))


@pytest.mark.parametrize(
    "text", ["-" * 100_000 + "1", "1\0", "0x" + "f" * 9999], ids=["signs", "null", "hex"]
)
def test_text_that_breaks_the_parser_stays_text(text: str):
    assert parse_overrides([f"--n_layer={text}"]) == {"n_layer": text}


def test_text_stays_text_where_text_is_wanted():
    args = ["--out_dir=2024-10-11", "--dataset=5*8", "--device=true", "--dtype", "16"]
    assert parse_overrides(args) == {
        "out_dir": "2024-10-11",
        "dataset": "5*8",
        "device": "true",
        "dtype": "16",
    }
    assert parse_overrides(["--dataset='my data'", "--out_dir=None"]) == {
        "dataset": "my data",
        "out_dir": None,
    }


def test_a_value_may_hold_an_equals_sign_and_a_negative_number_is_a_value():
    assert parse_overrides(["--out_dir=a=b", "--seed", "-1"]) == {"out_dir": "a=b", "seed": -1}


def test_a_switch_needs_no_value():
    assert parse_overrides(["--compile"]) == {"compile": True}
    assert parse_overrides(["--compile", "--n_layer=2"]) == {"compile": True, "n_layer": 2}
    assert parse_overrides(["--no-compile", "--no_bias"]) == {"compile": False, "bias": False}
    assert parse_overrides(["--compile", "false"]) == {"compile": False}


def test_the_last_of_two_wins():
    assert parse_overrides(["--n_layer=2", "--n_layer=3"]) == {"n_layer": 3}


def test_unknown_keys_are_left_to_be_reported_with_all_other_faults():
    assert parse_overrides(["--n_layrs=3", "--fast", "--no-n-layer=1"]) == {
        "n_layrs": 3,
        "fast": True,
        "no_n_layer": 1,
    }


@pytest.mark.parametrize("word", ["n_layer=3", "stray", "-n_layer=3", "--", "--=3", ""])
def test_a_stray_word_is_refused_by_name(word: str):
    with pytest.raises(NanodynoError, match="not a setting") as caught:
        parse_overrides(["--compile", "false", word])
    assert caught.value.message.startswith(f"{word}:")


def test_the_hint_for_a_setting_without_dashes_writes_it_with_them():
    with pytest.raises(NanodynoError) as caught:
        parse_overrides(["n_layer=3"])
    assert caught.value.hint is not None
    assert caught.value.hint.endswith("such as --n_layer=3")


def test_a_setting_that_is_no_switch_needs_a_value():
    for args in (["--n_layer"], ["--n_layer", "--compile"]):
        with pytest.raises(NanodynoError, match="n_layer: "):
            parse_overrides(args)
