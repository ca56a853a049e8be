"""The choice that another Triton would make otherwise."""

import os
import subprocess
import sys

import pytest

ASK = "import nanodyno.model.kernels.launch, os; print(os.environ.get('TRITON_DEFAULT_FP_FUSION'))"


@pytest.mark.parametrize(("given", "fused"), [(None, "1"), ("0", "0")])
def test_products_and_sums_are_contracted_by_every_triton_unless_its_user_says_otherwise(
    given: str | None, fused: str
) -> None:
    settings = {key: value for key, value in os.environ.items() if key != "TRITON_DEFAULT_FP_FUSION"}
    settings |= {} if given is None else {"TRITON_DEFAULT_FP_FUSION": given}
    done = subprocess.run([sys.executable, "-c", ASK], env=settings, capture_output=True, text=True)
    assert done.stdout.strip() == fused, done.stderr
