import pytest

from nanodyno.costs.target import GIB, Target, named_target, present_target
from nanodyno.errors import NanodynoError
from nanodyno.hardware.gpus import gpu_named


def test_a_gpu_has_97_percent_of_its_nominal_memory() -> None:
    assert named_target("RTX 3060 12GB", None).memory_bytes == int(12 * GIB * 0.97)


def test_a_limit_takes_the_place_of_the_gpus_memory() -> None:
    target = named_target("NVIDIA H200", 12 * GIB)
    assert (target.memory_bytes, target.limited) == (12 * GIB, True)


def test_a_limit_of_the_nominal_size_is_the_gpu_itself() -> None:
    assert named_target("RTX 3060 12GB", 12 * GIB) == named_target("RTX 3060 12GB", None)


def test_a_limit_larger_than_the_gpu_is_refused_with_both_sizes() -> None:
    with pytest.raises(NanodynoError, match=r"16\.0 GiB, and RTX 3060 12GB has 11\.6"):
        named_target("RTX 3060 12GB", 16 * GIB)


def test_the_gpu_at_hand_has_the_memory_that_its_driver_tells() -> None:
    target = present_target("NVIDIA GeForce RTX 3060", 12_500_000_000, None)
    assert (target.memory_bytes, target.gpu and target.gpu.label) == (12_500_000_000, "RTX 3060 12GB")
    assert present_target("some new card", 12_500_000_000, None).gpu is None


def test_a_gpu_leaves_room_for_others_and_a_limit_for_errors_alone() -> None:
    assert Target("", None, 1000).room_bytes == 900
    assert Target("", None, 1000, limited=True).room_bytes == 950
    assert Target("", None, None).room_bytes is None


def test_the_precision_is_what_training_takes_on_such_a_gpu() -> None:
    oldest, old, new = (gpu_named(name) for name in ("GTX 1080 Ti", "RTX 2070", "RTX 3060 12GB"))
    assert [Target("", gpu, None).dtype("auto") for gpu in (oldest, old, new, None)] == [
        "float16",
        "float16",
        "bfloat16",
        "bfloat16",
    ]
    assert Target("", old, None).dtype("bfloat16") == "float16"
    assert Target("", old, None).dtype("float32") == "float32"
