import pytest

from nanodyno.hardware.cards import GIB, all_cards, find_card


def find(name: str, gib: float | None = None):
    return find_card(name, None if gib is None else int(gib * GIB))


@pytest.mark.parametrize(
    ("device_name", "gib", "name"),
    [
        ("NVIDIA GeForce RTX 4070", 11.99, "RTX 4070"),
        ("GeForce RTX 4070", 11.6, "RTX 4070"),
        ("nvidia geforce rtx 4070 ti super", 15.99, "RTX 4070 Ti SUPER"),
        ("NVIDIA GeForce RTX 3090 Ti", 23.99, "RTX 3090 Ti"),
        ("NVIDIA A100-SXM4-40GB", 39.39, "A100-SXM4-40GB"),
        ("NVIDIA A100 80GB PCIe", 79.15, "A100 80GB PCIe"),
        ("Tesla T4", 14.58, "T4"),
        ("NVIDIA T4", 14.58, "T4"),
        ("Tesla V100-SXM2-16GB", 15.77, "V100-SXM2-16GB"),
        ("NVIDIA A10G", 21.99, "A10G"),
        ("NVIDIA L40S", 44.4, "L40S"),
        ("NVIDIA H200", 139.8, "H200"),
        ("NVIDIA GH200 480GB", 94.5, "GH200 480GB"),
        ("AMD Instinct MI250X", 63.98, "AMD Instinct MI250X"),
    ],
)
def test_a_card_is_found_by_the_name_and_memory_that_its_driver_shows(device_name, gib, name):
    card = find(device_name, gib)
    assert card is not None
    assert card.name == name


@pytest.mark.parametrize(
    ("device_name", "gib"),
    [
        ("NVIDIA RTX A1000", 8),  # contains A100
        ("NVIDIA RTX A400", 4),  # contains A40
        ("NVIDIA A40", 44.4),
        ("NVIDIA GeForce RTX 4090 D", 24),
        ("NVIDIA GeForce RTX 4070 Laptop GPU", 8),
        ("NVIDIA GeForce RTX 3080 Ti Laptop GPU", 16),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", 4.75),
        ("NVIDIA", 24),
        ("", 24),
    ],
)
def test_a_name_that_only_resembles_a_card_finds_nothing(device_name, gib):
    assert find(device_name, gib) is None
    assert find(device_name) is None


@pytest.mark.parametrize(
    ("device_name", "gib", "tflops"),
    [
        ("NVIDIA RTX A4000", 15.7, 76.7),
        ("NVIDIA L4", 22.0, 121),
        ("NVIDIA L40", 44.4, 181),
        ("NVIDIA GeForce RTX 3090", 23.7, 71.2),
    ],
)
def test_names_that_contain_one_another_keep_their_own_peaks(device_name, gib, tflops):
    card = find(device_name, gib)
    assert card is not None
    assert card.peak_flops("bfloat16") == pytest.approx(tflops * 1e12)


def test_the_memory_tells_two_cards_of_one_name_apart():
    small, large = find("NVIDIA GeForce RTX 3080", 9.78), find("NVIDIA GeForce RTX 3080", 11.77)
    assert small is not None
    assert large is not None
    assert (small.tensor_flops, large.tensor_flops) == (59.5e12, 61.3e12)
    sixteen = find("NVIDIA GeForce RTX 4060 Ti", 15.7)
    assert sixteen is not None
    assert sixteen.memory_bytes == 16 * GIB


def test_without_a_memory_one_name_with_two_peaks_finds_nothing():
    assert find("NVIDIA GeForce RTX 3080") is None


def test_without_a_memory_one_name_with_one_peak_is_found():
    card = find("NVIDIA GeForce RTX 4060 Ti")
    assert card is not None
    assert card.tensor_flops == 44.1e12


@pytest.mark.parametrize(
    ("device_name", "gib"), [("NVIDIA GeForce RTX 3060", 8), ("NVIDIA GeForce RTX 2080 Ti", 21.7)]
)
def test_a_memory_far_from_the_table_is_another_card(device_name, gib):
    assert find(device_name, gib) is None


def test_a_card_without_bfloat16_has_no_peak_for_it():
    card = find("Tesla T4", 14.6)
    assert card is not None
    assert card.peak_flops("bfloat16") is None
    assert card.peak_flops("float16") == 65e12


def test_a_card_with_bfloat16_does_float16_as_fast_and_float32_at_its_plain_rate():
    card = find("NVIDIA H200", 139.8)
    assert card is not None
    assert card.peak_flops("bfloat16") == card.peak_flops("float16") == 989e12
    assert card.peak_flops("float32") == 67e12
    assert card.peak_flops("float64") is None


# FLOP per clock and multiprocessor in the tensor cores (dense, fp32 accumulate), multiprocessors, boost MHz.
BY_RULE = [
    ("RTX 2060", 6, 512, 30, 1680),
    ("RTX 2060", 12, 512, 34, 1650),
    ("RTX 2070", 8, 512, 36, 1620),
    ("RTX 2070 SUPER", 8, 512, 40, 1770),
    ("RTX 2080", 8, 512, 46, 1710),
    ("RTX 2080 SUPER", 8, 512, 48, 1815),
    ("RTX 2080 Ti", 11, 512, 68, 1545),
    ("RTX 3050", 8, 512, 20, 1777),
    ("RTX 3060", 12, 512, 28, 1777),
    ("RTX 3060 Ti", 8, 512, 38, 1665),
    ("RTX 3070", 8, 512, 46, 1725),
    ("RTX 3070 Ti", 8, 512, 48, 1770),
    ("RTX 3080", 10, 512, 68, 1710),
    ("RTX 3080", 12, 512, 70, 1710),
    ("RTX 3080 Ti", 12, 512, 80, 1665),
    ("RTX 3090", 24, 512, 82, 1695),
    ("RTX 3090 Ti", 24, 512, 84, 1860),
    ("RTX 4060", 8, 512, 24, 2460),
    ("RTX 4060 Ti", 8, 512, 34, 2535),
    ("RTX 4060 Ti", 16, 512, 34, 2535),
    ("RTX 4070", 12, 512, 46, 2475),
    ("RTX 4070 SUPER", 12, 512, 56, 2475),
    ("RTX 4070 Ti", 12, 512, 60, 2610),
    ("RTX 4070 Ti SUPER", 16, 512, 66, 2610),
    ("RTX 4080", 16, 512, 76, 2505),
    ("RTX 4080 SUPER", 16, 512, 80, 2550),
    ("RTX 4090", 24, 512, 128, 2520),
    ("RTX 5060", 8, 512, 30, 2497),
    ("RTX 5060 Ti", 8, 512, 36, 2572),
    ("RTX 5060 Ti", 16, 512, 36, 2572),
    ("RTX 5070", 12, 512, 48, 2512),
    ("RTX 5070 Ti", 16, 512, 70, 2452),
    ("RTX 5080", 16, 512, 84, 2617),
    ("RTX 5090", 32, 512, 170, 2407),
    ("TITAN RTX", 24, 1024, 72, 1770),
    ("RTX A2000 12GB", 12, 1024, 26, 1200),
    ("RTX A4000", 16, 1024, 48, 1560),
    ("RTX A5000", 24, 1024, 64, 1695),
    ("RTX A6000", 48, 1024, 84, 1800),
    ("RTX 6000 Ada Generation", 48, 1024, 142, 2505),
    ("L4", 24, 1024, 58, 2040),
    ("T4", 16, 1024, 40, 1590),
    ("V100-SXM2-16GB", 16, 1024, 80, 1530),
    ("A10", 24, 1024, 72, 1695),
    ("A10G", 24, 512, 80, 1710),
    ("A100-SXM4-40GB", 40, 2048, 108, 1410),
    ("A100-SXM4-80GB", 80, 2048, 108, 1410),
    ("A100-PCIE-40GB", 40, 2048, 108, 1410),
    ("A100 80GB PCIe", 80, 2048, 108, 1410),
    ("H100 80GB HBM3", 80, 4096, 132, 1830),
    ("H100 PCIe", 80, 4096, 114, 1620),
]


@pytest.mark.parametrize(("name", "gb", "flop_per_clock", "multiprocessors", "boost_mhz"), BY_RULE)
def test_a_tensor_peak_is_flop_per_clock_times_multiprocessors_times_clock(
    name, gb, flop_per_clock, multiprocessors, boost_mhz
):
    card = find(name, gb)
    assert card is not None
    expected = flop_per_clock * multiprocessors * boost_mhz * 1e6
    assert card.tensor_flops == pytest.approx(expected, rel=0.003)


def test_every_row_that_claims_the_rule_is_checked_against_it():
    checked = {(name, gb * GIB) for name, gb, *_ in BY_RULE}
    claimed = {(card.name, card.memory_bytes) for card in all_cards() if card.source == "rule"}
    assert claimed <= checked


def test_no_card_with_its_memory_is_in_the_table_twice():
    rows = [(card.name, card.memory_bytes) for card in all_cards()]
    assert len(rows) == len(set(rows))


def test_every_card_is_found_by_its_own_row():
    assert all(find_card(card.name, card.memory_bytes) is card for card in all_cards())
