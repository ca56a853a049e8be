import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tests.plan_words import says

from nanodyno.errors import NanodynoError
from nanodyno.hardware.inventory import GpuState, Inventory
from nanodyno.messages.language import ENGLISH, LANGUAGES
from nanodyno.messages.quantities import about
from nanodyno.records.ceilings import remember_ceilings
from nanodyno.train.device import describe_machine

Run = Callable[..., Any]
COMPONENTS = {
    "weights", "grads", "optimizer", "casts", "activations", "logits_and_loss", "largest_temporary",
    "context", "fragmentation", "total",
}  # fmt: skip


def test_the_document_has_the_promised_keys(nanodyno: Run) -> None:
    done = nanodyno("plan", "gpt2-768", "--gpu", "RTX 3060 12GB", "--tokens", "10B", "--json")
    document = json.loads(done.stdout)
    assert document["parameters"] == 124_373_760
    assert document["flops_per_token"] == {"exact": 797_870_592, "nanogpt": 854_770_176}
    assert document["tokens_per_iter"] == 524_288
    memory = document["peak_memory_bytes"]
    assert set(memory) == COMPONENTS
    assert memory["total"] == sum(value for key, value in memory.items() if key != "total")
    assert document["fits"] is True
    speed = document["tokens_per_second"]
    assert document["hours"] == pytest.approx(
        {"value": 10e9 / speed["value"] / 3600, "low": 10e9 / speed["high"] / 3600}
        | {"high": 10e9 / speed["low"] / 3600}
    )
    assert speed["low"] < speed["value"] < speed["high"]
    assert (document["basis"], document["power_limit_watts"]) == ("public", None)
    assert [each["batch_size"] for each in document["candidates"]] == [1, 2, 4, 8, 16, 32, 64, 128]
    assert document["verified"] is False
    assert (document["config"], document["changed"]) == ("gpt2-768", {})
    assert document["vocab_size"] == {"model": 50304, "data": 50257}
    assert document["max_iters"] == 19_074


@pytest.mark.parametrize(
    ("gpu", "more", "verified"),
    [
        ("H200", [], True),
        ("H200", ["--memory-limit", "12GB"], True),
        ("H200", ["--dtype=float32"], False),
        ("H200", ["--dtype=float16"], False),
        ("H200 NVL", [], False),
        ("H100 PCIe", [], False),
    ],
)
def test_only_the_gpu_that_was_measured_is_verified(
    nanodyno: Run, gpu: str, more: list[str], verified: bool
) -> None:
    document = json.loads(nanodyno("plan", "gpt2-768", "--gpu", gpu, *more, "--json").stdout)
    assert document["verified"] is verified


@pytest.mark.parametrize("tokens", ["1e9", "1B", "1000M", "1_000_000_000", "1.0e+9", "1 B"])
def test_tokens_are_written_as_people_write_them(nanodyno: Run, tokens: str) -> None:
    done = nanodyno("plan", "gpt2-768", "--gpu", "H200", "--tokens", tokens, "--json")
    assert json.loads(done.stdout)["tokens"] == 10**9


@pytest.mark.parametrize(
    ("size", "gib"),
    [
        ("12GB", 0.97 * 12),
        ("12 GB", 0.97 * 12),
        ("12", 0.97 * 12),
        ("12GiB", 12),
        ("11.2GiB", 11.2),
        ("12000MB", 12000 / 1024),
        ("512MiB", 0.5),
    ],
)
def test_a_memory_limit_is_written_as_people_write_it(nanodyno: Run, size: str, gib: float) -> None:
    done = nanodyno("plan", "gpt2-768", "--gpu", "H200", "--memory-limit", size, "--json")
    assert json.loads(done.stdout)["memory_limit_bytes"] == int(gib * 2**30)


def test_the_power_limit_that_the_driver_enforces_counts_for_the_gpu_at_hand(
    nanodyno: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "NVIDIA GeForce RTX 3060"
    gpus(monkeypatch, name)
    plain = json.loads(nanodyno("plan", "gpt2-768", "--json").stdout)
    state = GpuState(0, name=name, power_limit_watts=100.0)
    monkeypatch.setattr(
        "nanodyno.hardware.inventory.take_inventory", lambda: Inventory(driver=None, gpus=(state,))
    )
    limited = json.loads(nanodyno("plan", "gpt2-768", "--json").stdout)
    assert (plain["power_limit_watts"], limited["power_limit_watts"]) == (None, 100.0)
    assert limited["tokens_per_second"]["value"] < plain["tokens_per_second"]["value"]
    given = json.loads(nanodyno("plan", "gpt2-768", "--power-limit", "150", "--json").stdout)
    assert given["power_limit_watts"] == 150.0


def test_energy_and_money_have_intervals_on_the_page(nanodyno: Run) -> None:
    arguments = ("plan", "gpt2-768", "--gpu", "RTX 4070", "--price-kwh", "0.3")
    document = json.loads(nanodyno(*arguments, "--json").stdout)
    cost = document["energy_cost"]
    shown = [about(cost[each], 2) for each in ("value", "low", "high")]
    amount = ENGLISH.say("plan.bill.interval", number=shown[0], low=shown[1], high=shown[2])
    assert says(nanodyno(*arguments).stdout, "plan.bill.energy-cost", amount=amount)


def test_hours_tell_the_tokens_and_the_tokens_the_hours(nanodyno: Run) -> None:
    in_hours = json.loads(nanodyno("plan", "gpt2-768", "--gpu", "RTX 4070", "--hours", "48", "--json").stdout)
    iteration_hours = 524_288 / in_hours["tokens_per_second"]["value"] / 3600
    assert in_hours["max_iters"] == int(48 / iteration_hours)
    assert in_hours["tokens"] == in_hours["max_iters"] * 524_288
    assert 48 - iteration_hours < in_hours["hours"]["value"] == in_hours["hours"]["high"] <= 48
    within = in_hours["tokens_within_hours"]
    assert within["low"] < within["value"] == in_hours["tokens"] < within["high"]
    tokens = str(in_hours["tokens"])
    back = json.loads(nanodyno("plan", "gpt2-768", "--gpu", "RTX 4070", "--tokens", tokens, "--json").stdout)
    assert back["max_iters"] == in_hours["max_iters"]
    assert back["hours"]["value"] == pytest.approx(in_hours["hours"]["value"])
    assert back["tokens_within_hours"] is None


def test_a_setting_without_effect_is_reported_beside_the_plan(nanodyno: Run) -> None:
    arguments = ("plan", "demo", "--gpu", "H200", "--kernels=autograd", "--cuda_graph=False")
    message, places = "option.note.without-effect", {"keys": "cuda_graph", "needs": "kernels=auto / fused"}
    assert says(nanodyno(*arguments).stdout, message, **places)
    assert not says(nanodyno(*arguments[:-1]).stdout, message)
    in_french = nanodyno(*arguments, "--lang", "fr").stdout
    assert says(in_french, message, LANGUAGES["fr"], **places)


def test_a_rate_to_be_found_and_a_batch_that_may_grow_are_reported(nanodyno: Run) -> None:
    """Of 4,000 iterations a short trial has 200 and a long one 800; 16 times 32,768 are 524,288."""
    arguments = ("plan", "gpt2-768", "--gpu", "RTX 4070", "--tokens_per_iter=32768", "--max_iters=4000")
    plain = json.loads(nanodyno(*arguments, "--json").stdout)
    assert (plain["range_test"], plain["grown"]) == (None, None)
    asked = (*arguments, "--learning_rate=auto", "--batch_ramp=noise")
    document = json.loads(nanodyno(*asked, "--json").stdout)
    hours = 10_200 * 32_768 / document["tokens_per_second"]["value"] / 3600
    assert document["range_test"]["iterations_at_least"] == 10_200
    assert document["range_test"]["hours_at_least"]["value"] == pytest.approx(hours)
    assert (document["grown"]["tokens_per_iter"], document["grown"]["tokens"]) == (524_288, 4000 * 524_288)
    page = " ".join(nanodyno(*asked).stdout.split())
    assert says(page, "plan.bill.range-test", n="10,200")
    assert says(page, "plan.bill.growing-batch", most="524,288", tokens="2.10B")
    assert not says(nanodyno(*arguments).stdout, "plan.bill.range-test")


def test_a_batch_that_grows_is_faster_on_the_whole_than_at_first(nanodyno: Run) -> None:
    document = json.loads(nanodyno("plan", "best-8h", "--gpu", "RTX 4070", "--json").stdout)
    mean, first = document["mean_tokens_per_second"], document["tokens_per_second"]
    assert 1.01 < mean["value"] / first["value"] < 1.1


def test_every_gpu_is_listed_without_a_config(nanodyno: Run) -> None:
    page = nanodyno("plan", "--gpus").stdout
    document = json.loads(nanodyno("plan", "--gpus", "--json").stdout)
    labels = [gpu["label"] for gpu in document["gpus"]]
    assert {"RTX 3060 12GB", "H200"} <= set(labels)
    assert [line.split("  ")[0] for line in page.splitlines()[1 : 1 + len(labels)]] == labels


def test_what_differs_from_the_recipe_is_in_the_title(nanodyno: Run) -> None:
    arguments = ["--n_layer=24", "--n_embd=768", "--wandb_log=True", "--gpu", "H200"]
    title = nanodyno("plan", "gpt2-768", *arguments).stdout.splitlines()[0]
    assert title.startswith("gpt2-768 with n_layer=24 on H200:")


def test_a_page_says_what_it_knows_and_how_sure_it_is(nanodyno: Run) -> None:
    page = nanodyno(
        "plan", "gpt2-768", "--gpu", "rtx 3060 12gb", "--price-kwh", "0.3", "--price-hour", "2"
    ).stdout
    assert says(page, "plan.title.public", title="gpt2-768", gpu="RTX 3060 12GB")
    assert says(page, "plan.basis.public")
    assert says(page, "plan.bill.energy", watts="150")
    assert says(page, "plan.bill.energy-cost")
    assert says(page, "plan.bill.rent")
    everything = nanodyno("plan", "gpt2-768", "--gpu", "H200", "--all").stdout
    assert says(everything, "plan.balance.tokens-per-parameter", balance="20")
    assert says(everything, "plan.title.training", gpu="H200")


def test_a_config_that_does_not_fit_is_reported_with_what_would(nanodyno: Run) -> None:
    done = nanodyno("plan", "gpt2-768", "--gpu", "RTX 3060 12GB", "--batch_size=64", "--recompute=none")
    assert done.exit_code == 0
    assert says(done.stdout, "plan.fits.no")
    assert "--batch_size=16" in done.stdout
    everything = nanodyno(
        "plan", "gpt2-768", "--gpu", "RTX 3060 12GB", "--batch_size=64", "--recompute=none", "--all"
    )
    assert says(everything.stdout, "plan.advice.fits-not-alone")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--gpu", "RTX 3061"], "unknown GPU 'RTX 3061'"),
        (["--gpu", "RTX 3080"], "'RTX 3080' matches more than one GPU"),
        (
            ["--gpu", "RTX 3060 12GB", "--memory-limit", "24GB"],
            "--memory-limit is 23.3 GiB, and RTX 3060 12GB has 11.6",
        ),
        (["--gpu", "H200", "--memory-limit", "lots"], "--memory-limit=lots is not a size"),
        (["--gpu", "H200", "--memory-limit", "-3GB"], "--memory-limit=-3GB is not a size"),
        (["--gpu", "H200", "--memory-limit", "0"], "--memory-limit=0 is not a size"),
        (["--gpu", "H200", "--memory-limit", "0.0MB"], "--memory-limit=0.0MB is not a size"),
        (["--gpu", "H200", "--memory-limit", "8KB"], "--memory-limit=8KB is not a size"),
        (["--gpu", "H200", "--power-limit", "much"], "--power-limit=much"),
        (["--gpu", "H200", "--power-limit", "0W"], "--power-limit=0W"),
        (["--gpu", "RTX 4070", "--power-limit", "300"], "RTX 4070 of 200 W"),
        (["--gpu", "RTX 4070", "--power-limit", "20W"], "RTX 4070 of 200 W"),
        (["--device=cpu", "--power-limit", "150"], "--power-limit"),
        (["--gpu", "RTX 4070 Ti Laptop"], "unknown GPU 'RTX 4070 Ti Laptop'"),
        (["--gpu", "RTX 4070 Ti Laptop"], "--memory-limit 8GB"),
        (["--gpu", "H200", "--tokens", "-5"], "--tokens=-5 is not a number of tokens"),
        (["--gpu", "H200", "--tokens", "1e9B"], "--tokens=1e9B is not a number of tokens"),
        (["--gpu", "H200", "--tokens", "1e30"], "--tokens=1e30 is not a number of tokens"),
        (["--gpu", "H200", "--tokens", "1B", "--hours", "2"], "--tokens and --hours"),
        (["--gpu", "H200", "--hours", "0"], "--hours=0"),
        (["--gpu", "H200", "--hours", "nan"], "--hours"),
        (["--gpu", "H200", "--hours", "-4"], "--hours"),
        (["--gpu", "H200", "--hours", "0.0001"], "is over before one iteration is"),
        (["--device=cpu", "--hours", "48"], "how far 48 hours go depends on the GPU"),
        (["--gpu", "H200", "--n_embd=-64"], "n_embd: must be a whole number of at least 1"),
        (["--gpu", "H200", "--batch_sise=4"], "did you mean batch_size"),
        (["--gpu", "H200", "--price-kwh", "-1"], "price-kwh"),
        (["--gpu", "H200", "--price-hour", "inf"], "--price-hour=inf"),
    ],
)
def test_bad_input_is_reported_and_exits_with_2(nanodyno: Run, arguments: list[str], words: str) -> None:
    done = nanodyno("plan", "gpt2-768", *arguments)
    assert done.exit_code == 2
    assert words in done.stderr


def test_a_config_comes_before_the_settings(nanodyno: Run) -> None:
    done = nanodyno("plan", "--batch_size=4", "gpt2-768")
    assert done.exit_code == 2
    assert "before --batch_size=4" in done.stderr


def test_an_absurd_size_is_a_plan_that_does_not_fit(nanodyno: Run) -> None:
    arguments = ["plan", "gpt2-768", "--gpu", "H200", "--n_layer=1000000000000"]
    document = json.loads(nanodyno(*arguments, "--json").stdout)
    assert document["fits"] is False
    assert not any(each["fits"] for each in document["what_would_fit"])
    page = nanodyno(*arguments).stdout
    assert max(map(len, page.splitlines())) <= 80
    assert says(page, "plan.advice.nothing-enough")


def test_without_a_gpu_the_page_says_so_and_predicts_the_memory(nanodyno: Run) -> None:
    done = nanodyno("plan", "demo", "--device=cpu")
    assert done.exit_code == 0
    assert says(done.stdout, "plan.title.no-gpu", title="demo")
    assert says(done.stdout, "plan.note.no-gpu-assumed")


def gpus(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """A machine with these cards of 12 GiB."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: len(names))
    monkeypatch.setattr(
        "torch.cuda.get_device_properties",
        lambda which: SimpleNamespace(
            name=names[getattr(which, "index", which)],
            total_memory=12 * 2**30,
            multi_processor_count=28,
            major=8,
            minor=6,
        ),
    )


def test_of_two_kinds_of_gpus_one_has_to_be_named(nanodyno: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    gpus(monkeypatch, "NVIDIA GeForce RTX 3060", "NVIDIA GeForce RTX 4070")
    done = nanodyno("plan", "gpt2-768")
    assert done.exit_code == 2
    assert "cuda:0 NVIDIA GeForce RTX 3060, cuda:1 NVIDIA GeForce RTX 4070" in done.stderr
    assert "RTX 4070" in nanodyno("plan", "gpt2-768", "--device=cuda:1").stdout
    assert "has 2 GPUs" in nanodyno("plan", "gpt2-768", "--device=cuda:2").stderr


@pytest.mark.parametrize("name", ["NVIDIA GeForce RTX 3060", "NVIDIA of next year"])
def test_the_gpu_at_hand_is_taken_as_doctor_measured_it(
    nanodyno: Run, monkeypatch: pytest.MonkeyPatch, ceilings: Callable[..., Any], name: str
) -> None:
    gpus(monkeypatch, name)
    before = json.loads(nanodyno("plan", "gpt2-768", "--json").stdout)
    machine = describe_machine(torch.device("cuda", 0))
    remember_ceilings(ceilings(machine))
    after = json.loads(nanodyno("plan", "gpt2-768", "--json").stdout)
    assert (after["basis"], after["verified"]) == ("ceilings", False)
    speed = before["tokens_per_second"]
    assert after["tokens_per_second"]["low"] > 1.5 * (speed["value"] if speed else 0)  # ceilings of an H200
    assert says(nanodyno("plan", "gpt2-768").stdout, "plan.title.ceilings")


def test_the_gpu_at_hand_is_planned_for(nanodyno: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    gpus(monkeypatch, "NVIDIA GeForce RTX 3060", "NVIDIA GeForce RTX 3060")
    assert "of 12.00 GiB" in nanodyno("plan", "gpt2-768").stdout
    everything = nanodyno("plan", "gpt2-768", "--all").stdout
    assert says(everything, "plan.limit.by-driver", limit="12.00 GiB")
    larger = nanodyno("plan", "gpt2-768", "--memory-limit", "24GiB")
    assert "--memory-limit is 24.0 GiB, and NVIDIA GeForce RTX 3060 has 12.0" in larger.stderr
    assert "--device=cpu" in larger.stderr
    assert nanodyno("plan", "gpt2-768", "--memory-limit", "24GB", "--device=cpu").exit_code == 0


def test_an_unknown_gpu_at_hand_has_no_speed(nanodyno: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    gpus(monkeypatch, "NVIDIA Something New")
    document = json.loads(nanodyno("plan", "gpt2-768", "--json").stdout)
    assert (document["fits"], document["tokens_per_second"], document["hours"]) == (True, None, None)


def test_a_dataset_that_is_not_here_is_reported(nanodyno: Run) -> None:
    page = nanodyno("plan", "gpt2-768", "--gpu", "H200", "--dataset=elsewhere").stdout
    assert says(page, "size.data.vocabulary-assumed", dataset="elsewhere", number="50,257")


def test_force_trains_what_is_predicted_not_to_fit(
    nanodyno: Run, tiny: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise NanodynoError("this needs more than there is", "make it smaller")

    monkeypatch.setattr("nanodyno.train.runner.refuse_what_cannot_fit", refuse)
    refused = nanodyno(*tiny)
    assert refused.exit_code == 2
    assert "this needs more than there is" in refused.stderr
    assert nanodyno(*tiny, "--force").exit_code == 0
