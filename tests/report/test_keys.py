import io

import pytest
from rich.console import Console

from nanodyno.report.keys import keys_table


@pytest.fixture
def rows() -> dict[str, str]:
    """Each setting's row, its blanks made single."""
    console = Console(file=io.StringIO(), width=250, color_system=None)
    console.print(keys_table())
    assert isinstance(console.file, io.StringIO)
    lines = [line.split() for line in console.file.getvalue().splitlines()[1:]]
    return {line[0]: " ".join(line[1:]) for line in lines}


def test_a_choice_shows_its_values_after_the_description(rows: dict[str, str]) -> None:
    assert rows["--schedule"].startswith("cosine shape after the warm-up")
    assert rows["--schedule"].endswith("(cosine | linear | constant | wsd)")
    assert rows["--n_layer"] == "12 transformer blocks"


@pytest.mark.parametrize(
    ("key", "default"),
    [
        ("--n_head", "derived"),
        ("--vocab_size", "dataset's"),
        ("--out_dir", "runs/NAME"),
        ("--eval_iters", "eval_tokens"),
        ("--window", "none"),
    ],
)
def test_a_default_that_is_no_value_says_where_it_comes_from(
    rows: dict[str, str], key: str, default: str
) -> None:
    assert rows[key].startswith(f"{default} ")


def test_what_only_recipes_have_is_listed_too(rows: dict[str, str]) -> None:
    assert rows["--hours"].startswith("recipe's ")
    assert rows["auto_batch_size"].startswith("False only in a TOML file")
