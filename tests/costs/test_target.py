import pytest

from nanodyno.costs.target import GIB, Target, card_named, named_target, present_target
from nanodyno.errors import NanodynoError


def test_a_card_has_97_percent_of_its_nominal_memory() -> None:
    assert named_target("RTX 3060", None).memory_bytes == int(12 * GIB * 0.97)


def test_a_limit_takes_the_place_of_the_cards_memory() -> None:
    assert named_target("NVIDIA H200", 12 * GIB).memory_bytes == 12 * GIB


def test_a_limit_of_the_nominal_size_is_the_card_itself() -> None:
    assert named_target("RTX 3060", 12 * GIB).memory_bytes == int(12 * GIB * 0.97)


def test_a_limit_larger_than_the_card_is_refused_with_both_sizes() -> None:
    with pytest.raises(NanodynoError, match=r"16\.0 GiB, and RTX 3060 has 11\.6"):
        named_target("RTX 3060", 16 * GIB)


def test_a_name_of_two_cards_asks_which_and_takes_the_memory_after_it() -> None:
    with pytest.raises(NanodynoError) as caught:
        card_named("RTX 4060 Ti")
    assert caught.value.hint == "which one? 'RTX 4060 Ti 8GB' or 'RTX 4060 Ti 16GB'"
    assert card_named("RTX 4060 Ti 16GB").memory_bytes == 16 * GIB
    assert card_named("geforce rtx 4060 ti 8 gb").memory_bytes == 8 * GIB


def test_a_memory_that_is_part_of_the_name_stays_there() -> None:
    assert card_named("NVIDIA A100-SXM4-40GB").name == "A100-SXM4-40GB"


def test_an_unknown_card_is_never_another_one_but_near_names_are_told() -> None:
    with pytest.raises(NanodynoError) as caught:
        card_named("RTX 3061")
    assert caught.value.hint is not None
    assert "RTX 3060" in caught.value.hint
    assert "nanodyno probe" in caught.value.hint


@pytest.mark.parametrize("name", ["", "RTX 3060 9GB", "a100", "quantum 9000"])
def test_what_is_no_card_is_told(name: str) -> None:
    with pytest.raises(NanodynoError, match="no card"):
        card_named(name)


def test_the_card_at_hand_has_the_memory_that_its_driver_tells() -> None:
    target = present_target("NVIDIA GeForce RTX 3060", 12_500_000_000, None)
    assert (target.memory_bytes, target.card and target.card.name) == (12_500_000_000, "RTX 3060")
    assert present_target("some new card", 12_500_000_000, None).card is None


def test_the_precision_is_what_training_takes_on_such_a_card() -> None:
    old, new = card_named("RTX 2070"), card_named("RTX 3060")
    assert [Target("", card, None).dtype("auto") for card in (old, new, None)] == [
        "float16",
        "bfloat16",
        "bfloat16",
    ]
    assert Target("", old, None).dtype("bfloat16") == "float16"
    assert Target("", old, None).dtype("float32") == "float32"
