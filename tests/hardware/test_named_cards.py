"""Cards as people name them."""

import pytest

from nanodyno.errors import NanodynoError
from nanodyno.hardware.gpus import all_gpus, gpu_named


def test_every_gpu_is_meant_by_its_own_label():
    assert all(gpu_named(gpu.label) is gpu for gpu in all_gpus())


@pytest.mark.parametrize(
    ("typed", "label"),
    [
        ("4070", "RTX 4070"),
        ("rtx 4070 ti", "RTX 4070 Ti"),
        ("4090 d", "RTX 4090 D"),
        ("RTX 3080 12GB", "RTX 3080 12GB"),
        ("3060 12gb", "RTX 3060 12GB"),
        ("NVIDIA GeForce RTX 5090", "RTX 5090"),
        ("a100-sxm4-80gb", "A100-SXM4-80GB"),
        ("h200", "H200"),
        ("mi300x", "AMD Instinct MI300X"),
    ],
)
def test_people_name_a_gpu_in_fewer_words_than_drivers(typed, label):
    assert gpu_named(typed).label == label


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        ("RTX 3080", "RTX 3080 10GB, RTX 3080 12GB"),
        ("a100", "A100-PCIE-40GB, A100 80GB PCIe, A100-SXM4-40GB, A100-SXM4-80GB"),
        ("RTX 4077", "RTX 407"),
        ("RTX A1000", "RTX A"),
        ("3080 16GB", "RTX 3080"),
        ("RTX 4070 Ti Laptop GPU", "(RTX 4070 Ti is a desktop card)"),
        ("Quadro RTX 5000 with Max-Q Design", "laptop parts are not in the table"),
        ("4070m", "laptop parts are not in the table"),
        ("RTX 4077", "--memory-limit 8GB"),
        ("RTX 4077", "`nanodyno plan --gpus` lists"),
        ("zzz", "`nanodyno doctor` measures"),
        ("", "`nanodyno doctor` measures"),
    ],
)
def test_a_name_that_is_no_gpu_or_several_is_refused_with_the_nearest(typed, hint):
    with pytest.raises(NanodynoError) as refused:
        gpu_named(typed)
    assert refused.value.hint is not None
    assert hint in refused.value.hint
