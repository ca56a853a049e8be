"""Which program a sample of the card's power falls to."""

from collections.abc import Callable
from datetime import datetime
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def power(benchmark_module: Callable[[str], ModuleType]) -> ModuleType:
    return benchmark_module("power")


def test_samples_fall_to_the_program_whose_turn_it_was(power: ModuleType) -> None:
    spans = [("A", 0.0, 1.0), ("B", 1.5, 2.5), ("B", 3.0, 4.0), ("A", 4.5, 5.5)]
    reported = [(0.5, 600, 1500), (1.2, 100, 300), (2.0, 500, 1700), (3.5, 540, 1800), (5.0, 700, 1400)]
    samples = [power.Sample(*each) for each in reported]
    assert power.draw_of("A", samples, spans) == power.Draw(650, 1450, 2)
    assert power.draw_of("B", samples, spans) == power.Draw(520, 1750, 2)


def test_turns_between_two_samples_have_no_power(power: ModuleType) -> None:
    assert power.draw_of("A", [power.Sample(5.0, 700, 1400)], [("A", 1.0, 1.05)]) is None


def test_lines_of_nvidia_smi_become_samples_and_broken_ones_are_left_out(power: ModuleType) -> None:
    noon = datetime(2025, 1, 31, 12).astimezone().timestamp()
    text = (
        "2025/01/31 12:00:00.250, 689.12, 1755\n"
        "2025/01/31 12:00:00.350, [N/A], 1755\n"
        "2025/01/31 12:00:00.450, 700.00, 17"
    )
    (sample,) = power.read_samples(text, noon - 10)
    assert sample.at == pytest.approx(10.25)
    assert (sample.watts, sample.megahertz) == (689.12, 1755)
