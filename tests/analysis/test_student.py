import math
import subprocess
import sys

import pytest

from nanodyno.analysis.statistics import Interval
from nanodyno.analysis.student import exponential, t_interval, t_power, t_quantile


@pytest.mark.parametrize(
    ("degrees", "level", "t"), [(1, 0.95, 12.706), (4, 0.95, 2.776), (9, 0.9, 1.833), (7, 0.99, 3.499)]
)
def test_quantiles_are_those_of_the_printed_tables(degrees, level, t):
    assert t_quantile(degrees, level) == pytest.approx(t, abs=5e-4)


def test_three_values_have_the_interval_worked_out_by_hand():
    # Mean 2, deviation 1, t of 2 degrees 4.303: half-width 4.303 / sqrt(3) = 2.484.
    interval = t_interval([1.0, 2.0, 3.0])
    assert interval is not None
    assert interval.value == 2.0
    assert interval.low == pytest.approx(2 - 2.484, abs=1e-3)
    assert interval.high == pytest.approx(2 + 2.484, abs=1e-3)


def test_one_value_has_no_bounds_and_none_has_no_interval():
    assert t_interval([5.0]) == Interval(5.0, None, None, 0.95, 1)
    assert t_interval([]) is None


def test_an_interval_of_logarithms_becomes_one_of_values():
    interval = exponential(Interval(0.0, -math.log(2), math.log(3), 0.9, 4))
    assert (interval.value, interval.low, interval.high) == (1.0, pytest.approx(0.5), pytest.approx(3.0))
    assert (interval.level, interval.n) == (0.9, 4)
    assert exponential(Interval(0.0, None, None, 0.95, 1)) == Interval(1.0, None, None, 0.95, 1)


def test_the_power_of_the_textbook_case():
    # Ten pairs, an effect of one standard deviation: 80.3% (Cohen's tables).
    assert t_power(9, math.sqrt(10), 0.95) == pytest.approx(0.803, abs=1e-3)


def test_without_an_effect_the_power_is_the_error():
    assert t_power(7, 0.0, 0.95) == pytest.approx(0.05)


def test_importing_the_statistics_loads_neither_scipy_nor_torch():
    code = "import sys, nanodyno.analysis.budget; print({'scipy', 'torch', 'numpy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
