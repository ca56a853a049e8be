"""GPUs as people name them."""

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
        ("RTX4070Ti", "RTX 4070 Ti"),
        ("rtx3060 12gb", "RTX 3060 12GB"),
        ("4090 d", "RTX 4090 D"),
        ("RTX 3080 12GB", "RTX 3080 12GB"),
        ("3060 12gb", "RTX 3060 12GB"),
        ("NVIDIA GeForce RTX 5090", "RTX 5090"),
        ("a100-sxm4-80gb", "A100-SXM4-80GB"),
        ("h200", "H200"),
        ("mi300x", "AMD Instinct MI300X"),
        ("4070 laptop", "RTX 4070 Laptop GPU"),
        ("rtx 4070 mobile", "RTX 4070 Laptop GPU"),
        ("4070m", "RTX 4070 Laptop GPU"),
        ("NVIDIA GeForce RTX 4070 Laptop GPU", "RTX 4070 Laptop GPU"),
        ("3080 laptop 16 gb", "RTX 3080 Laptop GPU 16GB"),
        ("3070ti laptop", "RTX 3070 Ti Laptop GPU"),
        ("2070 super max-q", "RTX 2070 SUPER with Max-Q Design"),
        ("2080 laptop", "RTX 2080 Laptop GPU"),
        ("4050", "RTX 4050 Laptop GPU"),
        ("3060 8gb", "RTX 3060 8GB"),
        ("4060ti 16gb", "RTX 4060 Ti 16GB"),
        ("1060 6gb", "GTX 1060 6GB"),
        ("1650", "GTX 1650"),
        ("4000 ada", "RTX 4000 Ada Generation"),
        ("rtx pro 4500", "RTX PRO 4500 Blackwell"),
        ("quadro rtx 6000", "Quadro RTX 6000"),
        ("rx 7900 xtx", "AMD Radeon RX 7900 XTX"),
        ("7900 xtx", "AMD Radeon RX 7900 XTX"),
        ("9070 xt", "AMD Radeon RX 9070 XT"),
        ("w7900", "AMD Radeon PRO W7900"),
        ("m2 max", "Apple M2 Max 96GB"),
        ("m2 max 32gb", "Apple M2 Max 32GB"),
        ("Apple M1", "Apple M1 16GB"),
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
        ("RTX 3080 Laptop GPU", "RTX 3080 Laptop GPU 8GB, RTX 3080 Laptop GPU 16GB"),
        ("1060", "GTX 1060 3GB, GTX 1060 6GB"),
        ("9060 xt", "AMD Radeon RX 9060 XT 8GB, AMD Radeon RX 9060 XT 16GB"),
        ("rtx 6000", "Quadro RTX 6000, RTX 6000 Ada Generation, RTX PRO 6000 Blackwell"),
        ("RTX 4070 Ti Laptop GPU", "RTX 4070"),
        ("m2 max 128gb", "Apple M2 Max 96GB"),
        ("7900xtz", "AMD Radeon RX 7900"),
        ("A100-SXM4-40GB MIG 1g.5gb", "A100-SXM4-40GB"),
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
