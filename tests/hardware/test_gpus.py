import pytest

from nanodyno.hardware.gpus import GIB, Gpu, all_gpus, find_gpu, read_gpus
from nanodyno.hardware.names import parse_name


def find(name: str, gib: float | None = None, multiprocessors: int | None = None):
    return find_gpu(name, None if gib is None else int(gib * GIB), multiprocessors)


# As torch.cuda.get_device_name(), total memory in GiB and multi_processor_count have it; the row's label.
SEEN = [
    ("NVIDIA GeForce GTX 1060 3GB", 2.9, 9, "GTX 1060 3GB"),
    ("NVIDIA GeForce GTX 1060 6GB", 5.93, 10, "GTX 1060 6GB"),
    ("NVIDIA GeForce GTX 1080 Ti", 10.9, 28, "GTX 1080 Ti"),
    ("NVIDIA TITAN Xp", 11.91, 30, "TITAN Xp"),
    ("NVIDIA TITAN X (Pascal)", 11.91, 28, "TITAN X (Pascal)"),
    ("NVIDIA GeForce GTX 1650", 3.81, 14, "GTX 1650"),
    ("NVIDIA GeForce GTX 1660 Ti", 5.8, 24, "GTX 1660 Ti"),
    ("NVIDIA GeForce RTX 2050", 4.0, 16, "RTX 2050"),
    ("NVIDIA GeForce RTX 2060 with Max-Q Design", 5.8, 30, "RTX 2060 with Max-Q Design"),
    ("NVIDIA GeForce RTX 2080 Super with Max-Q Design", 7.8, 48, "RTX 2080 SUPER with Max-Q Design"),
    ("NVIDIA GeForce RTX 3050 Laptop GPU", 3.81, 16, "RTX 3050 Laptop GPU 4GB"),
    ("NVIDIA GeForce RTX 3050 4GB Laptop GPU", 3.81, 16, "RTX 3050 Laptop GPU 4GB"),
    ("NVIDIA GeForce RTX 3050 6GB Laptop GPU", 5.8, 20, "RTX 3050 Laptop GPU 6GB"),
    ("NVIDIA GeForce RTX 3050Ti Laptop GPU", 4.0, 20, "RTX 3050 Ti Laptop GPU"),
    ("NVIDIA GeForce RTX 3060 Laptop GPU", 5.8, 30, "RTX 3060 Laptop GPU"),
    ("NVIDIA GeForce RTX 3080 Laptop GPU", 15.9, 48, "RTX 3080 Laptop GPU 16GB"),
    ("NVIDIA GeForce RTX 3080 Laptop GPU", 8.0, 48, "RTX 3080 Laptop GPU 8GB"),
    ("NVIDIA GeForce RTX 4070 Laptop GPU", 7.74, 36, "RTX 4070 Laptop GPU"),
    ("NVIDIA GeForce RTX 4090 Laptop GPU", 15.7, 76, "RTX 4090 Laptop GPU"),
    ("NVIDIA GeForce RTX 5070 Ti Laptop GPU", 11.5, 46, "RTX 5070 Ti Laptop GPU"),
    ("NVIDIA GeForce RTX 5090 Laptop GPU", 23.5, 82, "RTX 5090 Laptop GPU"),
    ("NVIDIA GeForce RTX 5090 D", 31.4, 170, "RTX 5090 D"),
    ("NVIDIA GeForce RTX 5090 D v2", 23.5, 170, "RTX 5090 D v2"),
    ("NVIDIA GeForce RTX 2060", 5.79, 30, "RTX 2060 6GB"),
    ("NVIDIA GeForce RTX 2060", 11.76, 34, "RTX 2060 12GB"),
    ("NVIDIA GeForce RTX 2060 SUPER", 7.79, 34, "RTX 2060 SUPER"),
    ("GeForce RTX 2070", 7.79, 36, "RTX 2070"),
    ("NVIDIA GeForce RTX 2080 Ti", 10.75, 68, "RTX 2080 Ti"),
    ("NVIDIA GeForce RTX 3050", 7.79, 20, "RTX 3050 8GB"),
    ("NVIDIA GeForce RTX 3050 6GB", 5.8, 18, "RTX 3050 6GB"),
    ("NVIDIA GeForce RTX 3060", 11.76, 28, "RTX 3060 12GB"),
    ("NVIDIA GeForce RTX 3060", 7.79, 28, "RTX 3060 8GB"),
    ("NVIDIA GeForce RTX 3060 Ti", 7.79, 38, "RTX 3060 Ti"),
    ("NVIDIA GeForce RTX 3070 Ti", 7.79, 48, "RTX 3070 Ti"),
    ("NVIDIA GeForce RTX 3080", 9.77, 68, "RTX 3080 10GB"),
    ("NVIDIA GeForce RTX 3080", 11.76, 70, "RTX 3080 12GB"),
    ("NVIDIA GeForce RTX 3080 Ti", 11.76, 80, "RTX 3080 Ti"),
    ("NVIDIA GeForce RTX 3090", 23.69, 82, "RTX 3090"),
    ("NVIDIA GeForce RTX 3090 Ti", 23.99, 84, "RTX 3090 Ti"),
    ("NVIDIA GeForce RTX 4060", 7.62, 24, "RTX 4060"),
    ("NVIDIA GeForce RTX 4060 Ti", 15.7, 34, "RTX 4060 Ti 16GB"),
    ("NVIDIA GeForce RTX 4070", 11.99, 46, "RTX 4070"),
    ("GeForce RTX 4070", 11.6, None, "RTX 4070"),
    ("nvidia geforce rtx 4070 ti super", 15.99, 66, "RTX 4070 Ti SUPER"),
    ("NVIDIA GeForce RTX 4080 SUPER", 15.7, 80, "RTX 4080 SUPER"),
    ("NVIDIA GeForce RTX 4090", 23.64, 128, "RTX 4090"),
    ("NVIDIA GeForce RTX 4090 D", 23.64, 114, "RTX 4090 D"),
    ("NVIDIA GeForce RTX 5060 Ti", 15.48, 36, "RTX 5060 Ti 16GB"),
    ("NVIDIA GeForce RTX 5070 Ti", 15.47, 70, "RTX 5070 Ti"),
    ("NVIDIA GeForce RTX 5090", 31.36, 170, "RTX 5090"),
    ("TITAN V", 11.78, 80, "TITAN V"),
    ("NVIDIA TITAN RTX", 23.65, 72, "TITAN RTX"),
    ("Quadro RTX 6000", 23.65, 72, "Quadro RTX 6000"),
    ("NVIDIA Quadro RTX 8000", 47.46, 72, "Quadro RTX 8000"),
    ("NVIDIA RTX A2000", 5.8, 26, "RTX A2000 6GB"),
    ("NVIDIA RTX A2000 12GB", 11.76, 26, "RTX A2000 12GB"),
    ("NVIDIA RTX A4000", 15.73, 48, "RTX A4000"),
    ("NVIDIA RTX A6000", 47.54, 84, "RTX A6000"),
    ("NVIDIA RTX 5000 Ada Generation", 31.5, 100, "RTX 5000 Ada Generation"),
    ("NVIDIA RTX 6000 Ada Generation", 47.5, 142, "RTX 6000 Ada Generation"),
    (
        "NVIDIA RTX PRO 6000 Blackwell Workstation Edition",
        94.97,
        188,
        "RTX PRO 6000 Blackwell Workstation Edition",
    ),
    (
        "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition",
        94.97,
        188,
        "RTX PRO 6000 Blackwell Max-Q Workstation Edition",
    ),
    ("NVIDIA RTX PRO 6000 Blackwell Server Edition", 95, 188, "RTX PRO 6000 Blackwell Server Edition"),
    ("NVIDIA RTX PRO 5000 Blackwell", 47.4, 110, "RTX PRO 5000 Blackwell 48GB"),
    ("NVIDIA RTX PRO 5000 72GB Blackwell", 71.2, 110, "RTX PRO 5000 72GB Blackwell"),
    ("NVIDIA RTX PRO 4000 Blackwell", 23.5, 70, "RTX PRO 4000 Blackwell"),
    ("Tesla P100-PCIE-16GB", 15.89, 56, "P100-PCIE-16GB"),
    ("Tesla V100-SXM2-16GB", 15.77, 80, "V100-SXM2-16GB"),
    ("Tesla V100-SXM2-32GB", 31.73, 80, "V100-SXM2-32GB"),
    ("Tesla V100-PCIE-32GB", 31.73, 80, "V100-PCIE-32GB"),
    ("Tesla V100S-PCIE-32GB", 31.73, 80, "V100S-PCIE-32GB"),
    ("Tesla T4", 14.58, 40, "T4"),
    ("NVIDIA T4", 14.58, None, "T4"),
    ("NVIDIA A2", 14.62, 10, "A2"),
    ("NVIDIA A10", 22.0, 72, "A10"),
    ("NVIDIA A10G", 21.99, 80, "A10G"),
    ("NVIDIA A30", 23.6, 56, "A30"),
    ("NVIDIA A40", 44.4, 84, "A40"),
    ("NVIDIA A100-PCIE-40GB", 39.39, 108, "A100-PCIE-40GB"),
    ("NVIDIA A100 80GB PCIe", 79.15, 108, "A100 80GB PCIe"),
    ("NVIDIA A100-SXM4-40GB", 39.39, 108, "A100-SXM4-40GB"),
    ("NVIDIA A100-SXM4-80GB", 79.15, 108, "A100-SXM4-80GB"),
    ("NVIDIA L4", 22.03, 58, "L4"),
    ("NVIDIA L40", 44.39, 142, "L40"),
    ("NVIDIA L40S", 44.4, 142, "L40S"),
    ("NVIDIA H100 PCIe", 79.1, 114, "H100 PCIe"),
    ("NVIDIA H100 80GB HBM3", 79.1, 132, "H100 80GB HBM3"),
    ("NVIDIA H100 NVL", 93.1, 132, "H100 NVL"),
    ("NVIDIA H200", 139.8, 132, "H200"),
    ("NVIDIA H200 NVL", 139.8, 132, "H200 NVL"),
    ("NVIDIA GH200 120GB", 94.5, 132, "GH200 120GB"),
    ("NVIDIA GH200 480GB", 94.5, 132, "GH200 480GB"),
    ("NVIDIA L20", 44.4, 92, "L20"),
    ("NVIDIA A16", 14.5, 10, "A16"),
    ("NVIDIA A800-SXM4-80GB", 79.3, 108, "A800-SXM4-80GB"),
    ("NVIDIA A800 80GB PCIe", 79.3, 108, "A800 80GB PCIe"),
    ("NVIDIA H20", 95.1, 78, "H20"),
    ("NVIDIA H800", 79.2, 132, "H800"),
    ("NVIDIA H800 PCIe", 79.2, 114, "H800 PCIe"),
    ("NVIDIA B200", 178.4, 148, "B200"),
    ("NVIDIA GB200", 184.9, 152, "GB200"),
    ("AMD Instinct MI100", 31.98, 120, "AMD Instinct MI100"),
    ("AMD Instinct MI250X", 63.98, 110, "AMD Instinct MI250X"),
    ("AMD Instinct MI300X", 191.7, 304, "AMD Instinct MI300X"),
    ("AMD Instinct MI300X VF", 191.7, 304, "AMD Instinct MI300X"),
    ("AMD Instinct MI300X OAM", 191.7, 304, "AMD Instinct MI300X"),
    ("AMD Instinct MI355X", 287.98, 256, "AMD Instinct MI355X"),
    ("AMD Radeon RX 7900 XTX", 23.98, 48, "AMD Radeon RX 7900 XTX"),
    ("Radeon RX 7900 XTX", 23.98, 96, "AMD Radeon RX 7900 XTX"),
    ("AMD Radeon RX 7900 XT", 19.98, 42, "AMD Radeon RX 7900 XT"),
    ("AMD Radeon PRO W7900", 44.98, 48, "AMD Radeon PRO W7900"),
    ("AMD Radeon RX 9060 XT", 15.9, 16, "AMD Radeon RX 9060 XT 16GB"),
    ("AMD Radeon RX 9070 XT", 15.9, 32, "AMD Radeon RX 9070 XT"),
    ("Apple M2 Max", 96, None, "Apple M2 Max 96GB"),
    ("Apple M4", 16, None, "Apple M4 16GB"),
]


@pytest.mark.parametrize(("device_name", "gib", "multiprocessors", "label"), SEEN)
def test_a_gpu_is_found_by_the_name_memory_and_multiprocessors_that_its_driver_shows(
    device_name, gib, multiprocessors, label
):
    gpu = find(device_name, gib, multiprocessors)
    assert gpu is not None
    assert gpu.label == label


@pytest.mark.parametrize(
    ("device_name", "gib"),
    [
        ("NVIDIA RTX A1000", 8),  # contains A100
        ("NVIDIA RTX A1000 6GB Laptop GPU", 6),
        ("NVIDIA RTX A400", 4),  # contains A40
        ("NVIDIA RTX A3000 Laptop GPU", 6),
        ("NVIDIA H100 64GB HBM2", 63.5),
        ("NVIDIA A100-SXM-64GB", 63.4),
        ("NVIDIA A100-PG509-200", 39.4),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", 4.75),
        ("NVIDIA A100-SXM4-80GB MIG 7g.80gb", 79.1),
        ("NVIDIA H100 80GB HBM3 MIG 3g.40gb", 39.5),
        ("GRID A100-10C", 10),
        ("GRID T4-16Q", 16),
        ("NVIDIA A10-24Q", 24),
        ("NVIDIA GeForce RTX 4070 Ti Laptop GPU", 8),  # there is none
        ("NVIDIA H20-3e", 140),
        ("NVIDIA H20 NVL16", 95.1),
        ("NVIDIA L2", 22.0),
        ("NVIDIA L20-48Q", 44.4),
        ("Quadro RTX 6000 with Max-Q Design", 24),
        ("NVIDIA RTX 5000 Ada Generation Laptop GPU", 16),
        ("NVIDIA RTX 6000", 24),
        ("NVIDIA GeForce GTX 1660 Ti with Max-Q Design", 6),
        ("NVIDIA RTX PRO 5000 Blackwell Generation Laptop GPU", 23.5),
        ("NVIDIA GB10", 119),
        ("Tesla V100-SXM3-32GB", 31.7),
        ("Tesla K80", 11.2),
        ("AMD Instinct MI250X / MI250", 63.98),
        ("AMD Radeon Graphics", 16),
        ("AMD Radeon RX 7900M", 16),
        ("Apple M5", 16),
        ("Apple M2 Max Pro", 32),
        ("NVIDIA Graphics Device", 24),
        ("NVIDIA", 24),
        ("80GB", 80),
        ("", 24),
    ],
)
def test_a_name_that_only_resembles_a_gpu_finds_nothing(device_name, gib):
    assert find(device_name, gib) is None
    assert find(device_name) is None


@pytest.mark.parametrize(
    ("device_name", "gib", "tflops"),
    [
        ("NVIDIA RTX A4000", 15.7, 76.7),
        ("NVIDIA A40", 44.4, 149.7),
        ("NVIDIA L4", 22.0, 121),
        ("NVIDIA L40", 44.4, 181),
        ("NVIDIA L40S", 44.4, 362),
        ("NVIDIA L20", 44.4, 119.5),
        ("NVIDIA GeForce RTX 4070", 11.7, 58.3),
        ("NVIDIA GeForce RTX 4070 Laptop GPU", 7.74, 40.1),
        ("NVIDIA GeForce RTX 3090", 23.7, 71.2),
        ("NVIDIA GeForce RTX 3090 Ti", 23.7, 80.0),
        ("NVIDIA H200", 139.8, 989),
        ("NVIDIA H200 NVL", 139.8, 835),
    ],
)
def test_names_that_contain_one_another_keep_their_own_peaks(device_name, gib, tflops):
    gpu = find(device_name, gib)
    assert gpu is not None
    assert gpu.peak_flops_per_second("bfloat16") == pytest.approx(tflops * 1e12)


def test_without_a_memory_one_name_with_two_peaks_finds_nothing():
    assert find("NVIDIA GeForce RTX 3080") is None


def test_without_a_memory_one_name_with_one_peak_is_found():
    gpu = find("NVIDIA GeForce RTX 4060 Ti")
    assert gpu is not None
    assert gpu.tensor_flops == 44.1e12


def test_without_a_memory_the_multiprocessors_tell_two_gpus_of_one_name_apart():
    gpu = find("NVIDIA GeForce RTX 3080", multiprocessors=70)
    assert gpu is not None
    assert gpu.memory_bytes == 12 * GIB


@pytest.mark.parametrize(
    ("device_name", "gib", "multiprocessors"),
    [
        ("NVIDIA GeForce RTX 3060", 5.8, None),
        ("NVIDIA GeForce RTX 2080 Ti", 21.7, None),
        ("NVIDIA RTX A2000 12GB", 5.8, None),
        ("NVIDIA A100-SXM4-40GB", 79.2, None),
        ("NVIDIA GeForce RTX 4090", 23.64, 114),
        ("NVIDIA A100-SXM4-80GB", 79.1, 98),  # a partition that keeps the whole name and memory
        ("AMD Instinct MI300X VF", 191.7, 38),
        ("AMD Instinct MI300X VF", 23.9, 304),
        ("AMD Radeon RX 7900 XTX", 23.98, 42),
        ("Apple M2", 96, None),
    ],
)
def test_a_memory_or_a_size_unlike_the_tables_is_another_gpu(device_name, gib, multiprocessors):
    assert find(device_name, gib, multiprocessors) is None


def test_a_gpu_without_bfloat16_has_no_peak_for_it():
    gpu = find("Tesla T4", 14.6)
    assert gpu is not None
    assert gpu.peak_flops_per_second("bfloat16") is None
    assert gpu.peak_flops_per_second("float16") == 65e12


def test_a_gpu_without_tensor_cores_has_a_peak_for_float32_only():
    gpu = find("Tesla P100-PCIE-16GB", 15.9)
    assert gpu is not None
    assert (gpu.peak_flops_per_second("bfloat16"), gpu.peak_flops_per_second("float16")) == (None, None)
    assert gpu.peak_flops_per_second("float32") == 9.3e12


def test_a_gpu_in_unified_memory_has_the_memory_that_the_machine_reports():
    gpu = find("Apple M2 Max", 32)
    assert gpu is not None
    assert (gpu.memory_bytes, gpu.bandwidth_bytes_per_second, gpu.tensor_flops) == (32 * GIB, 400e9, None)
    assert gpu.peak_flops_per_second("float32") == 13.6e12


def test_a_gpu_whose_float16_has_another_rate_than_bfloat16_has_no_peak_for_it():
    gpu = find("AMD Instinct MI100", 32)
    assert gpu is not None
    assert (gpu.peak_flops_per_second("bfloat16"), gpu.peak_flops_per_second("float16")) == (92.3e12, None)


def test_a_gpu_with_bfloat16_does_float16_as_fast_and_float32_at_its_plain_rate():
    gpu = find("NVIDIA H200", 139.8)
    assert gpu is not None
    assert gpu.peak_flops_per_second("bfloat16") == gpu.peak_flops_per_second("float16") == 989e12
    assert gpu.peak_flops_per_second("float32") == 67e12
    assert gpu.peak_flops_per_second("float64") is None


FLOP_PER_CLOCK = {"GeForce": 512, "GeForce Laptop": 512, "Professional": 1024, "Instinct": 1024}
BY_ARCHITECTURE = {"RDNA3": 512, "RDNA4": 1024}
BY_CHIP = {("A100", "A30", "A800", "AMD Instinct MI3"): 2048, ("AMD Instinct MI35",): 4096}
BY_CHIP |= {("L40", "L20", "AMD Instinct MI100"): 512}
"""Of a multiprocessor in the tensor cores: dense, fp32 accumulate."""


def flop_per_clock(gpu: Gpu) -> int:
    by_chip = [rate for names, rate in BY_CHIP.items() if gpu.name.startswith(names)]
    return by_chip[-1] if by_chip else BY_ARCHITECTURE.get(gpu.architecture) or FLOP_PER_CLOCK[gpu.family]


BY_RULE = [gpu for gpu in all_gpus() if gpu.boost_mhz and gpu.tensor_flops]


@pytest.mark.parametrize("gpu", BY_RULE, ids=lambda gpu: gpu.label)
def test_a_tensor_peak_is_flop_per_clock_times_multiprocessors_times_clock(gpu):
    expected = flop_per_clock(gpu) * gpu.multiprocessors * gpu.boost_mhz * 1e6
    assert gpu.tensor_flops == pytest.approx(expected, rel=0.01 if gpu.basis == "datasheet" else 0.003)


def test_every_row_that_claims_the_rule_is_checked_against_it():
    claimed = {gpu.label for gpu in all_gpus() if gpu.basis == "rule"}
    assert claimed
    assert claimed <= {gpu.label for gpu in BY_RULE}


ARCHITECTURES = {"Pascal", "Volta", "Turing", "Ampere", "Ada", "Hopper", "Blackwell"}
OTHER_MAKERS = {"Instinct": {"CDNA"}, "Radeon": {"RDNA3", "RDNA4"}, "Apple": {"Apple"}}


@pytest.mark.parametrize("gpu", all_gpus(), ids=lambda gpu: gpu.label)
def test_a_row_is_of_a_known_architecture_family_and_memory(gpu):
    assert gpu.family in {"GeForce", "GeForce Laptop", "Professional", *OTHER_MAKERS}
    assert gpu.architecture in OTHER_MAKERS.get(gpu.family, ARCHITECTURES)
    assert gpu.memory in {"GDDR", "HBM", "LPDDR"}
    assert (gpu.family == "GeForce Laptop") == (parse_name(gpu.name).is_mobile or gpu.name == "RTX 2050")
    assert gpu.is_unified == (gpu.family == "Apple")


LANES = {"Pascal": 128, "Volta": 64, "Turing": 64}


@pytest.mark.parametrize(
    "gpu",
    [gpu for gpu in all_gpus() if gpu.boost_mhz and gpu.memory == "GDDR"],
    ids=lambda gpu: gpu.label,
)
def test_a_float32_peak_is_two_flop_per_lane_times_multiprocessors_times_clock(gpu):
    expected = 2 * LANES.get(gpu.architecture, 128) * gpu.multiprocessors * gpu.boost_mhz * 1e6
    assert gpu.fp32_flops == pytest.approx(expected, rel=0.01, abs=0.06e12)


def test_every_gpu_is_found_by_its_own_row():
    assert all(find_gpu(gpu.name, gpu.memory_bytes, gpu.multiprocessors) is gpu for gpu in all_gpus())


HEAD = (
    "name,architecture,family,memory,memory_gb,multiprocessors,boost_mhz,tensor_tflops,tensor_dtype,"
    "fp32_tflops,bandwidth_gb_s,tdp_w,basis,source"
)
GOOD = "X1,Ada,GeForce,GDDR,8,10,1000,5.1,float16,2.5,300,100,rule,a datasheet"


def test_a_table_in_order_is_read():
    (gpu,) = read_gpus(f"{HEAD}\n{GOOD}\n")
    assert (gpu.name, gpu.memory_bytes, gpu.tensor_flops) == ("X1", 8 * GIB, 5.1e12)


@pytest.mark.parametrize(
    "row",
    [
        GOOD.replace(",8,", ",-8,"),
        GOOD.replace("Ada", ""),
        GOOD.replace("5.1", "nan"),
        GOOD.replace("float16", "int8"),
        GOOD.replace("float16", ""),
        GOOD.replace("rule", "hearsay"),
        GOOD.replace("a datasheet", ""),
        GOOD.replace("10,1000", "ten,1000"),
        GOOD.rsplit(",", 2)[0],
        f"{GOOD}\nNVIDIA x1,Ada,GeForce,GDDR,8,12,1000,5.1,float16,2.5,300,100,rule,another datasheet",
    ],
)
def test_a_row_that_cannot_be_right_is_refused_with_its_line(row):
    with pytest.raises(ValueError, match=r"line [23] of the GPU table"):
        read_gpus(f"{HEAD}\n{row}\n")
