"""What a tuning's page says of candidates that failed, were too tight, or were disturbed."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from nanodyno.analysis.tune_findings import tune_findings
from nanodyno.analysis.tuning import Tuning
from nanodyno.experiments.tune import tune
from nanodyno.messages.language import ENGLISH
from nanodyno.records.probe import Disturbance, DisturbanceCode, ProbeResult
from nanodyno.report.disturbances import disturbance_words
from nanodyno.report.tune import tune_document, tune_page

GIB = 2**30
DIED = ENGLISH.say("probe.failed.died", stage=ENGLISH.say("probe.stage.measuring"), words="it is gone")


def page(tuning: Tuning) -> str:
    console = Console(width=100)
    with console.capture() as capture:
        console.print(tune_page(tuning, "gpt2", 100))
    return " ".join(capture.get().split())


def test_where_all_are_too_tight_the_smallest_need_is_reported_and_nobody_says_unmeasured(
    tunings: Any, tmp_path: Path
) -> None:
    """The smallest reserves 8 GiB of 9, of which 0.5 are the context, and 0.5 are to stay free."""
    bench = tunings.stopwatch(lambda config: tunings.repetition(config, 1.0, 8 * GIB)).bench(
        tmp_path, tunings.place(usable_gib=8.9)
    )
    tuning = tune(tunings.request(tunings.config(), 400.0), bench=bench)
    assert tuning.pick is None
    (numbers,) = (each.numbers for each in tune_findings(tuning) if each.code == "nothing-roomy")
    assert numbers["needs_bytes"] >= 8.5 * GIB  # type: ignore[operator]
    text = page(tuning)
    assert ENGLISH.say("tune.chosen.none-fits-run") in text
    assert ENGLISH.say("tune.chosen.none-measured") not in text
    assert "--n_layer" in text


def test_one_that_dies_in_the_final_is_reported_with_its_words(tunings: Any, tmp_path: Path) -> None:
    seen: list[int] = []

    def answer(config: Any) -> ProbeResult:
        seen.append(config.batch_size)
        died = config.batch_size == 8 and seen.count(8) > 1 and config.kernels == "auto"
        return tunings.failed(config, "died") if died else tunings.rising(config)

    held = frozenset({"kernels", "loss_chunk_size", "cuda_graph", "compile"})
    tuning = tune(
        tunings.request(tunings.config(), 400.0, held=held), bench=tunings.stopwatch(answer).bench(tmp_path)
    )
    assert tuning.pick is not None
    assert tuning.pick.chosen.startswith("4 x 4")
    assert f"8 x 2: {DIED}" in page(tuning)


def test_figures_that_something_else_had_a_part_in_say_so(tunings: Any, tmp_path: Path) -> None:
    def answer(config: Any) -> ProbeResult:
        measured = tunings.repetition(config, 1.0 / config.batch_size, GIB)
        if config.batch_size != 8:
            return measured
        contended = Disturbance(code="cpu-contention", numbers={"share": 0.41})
        usual = Disturbance(code="power-limit", numbers={"share": 1.0, "celsius": 60})
        repetition = measured.repetitions[0].model_copy(update={"disturbances": (contended, usual)})
        return measured.model_copy(update={"repetitions": (repetition,)})

    bench = tunings.stopwatch(answer).bench(tmp_path, tunings.host_place())
    tuning = tune(
        tunings.request(tunings.config(), 900.0, held=frozenset({"kernels", "compile"})), bench=bench
    )
    text = page(tuning)
    seen: dict[DisturbanceCode, float] = {"cpu-contention": 0.41, "power-limit": 1.0}
    contended, usual = (
        disturbance_words(Disturbance(code=code, numbers={"share": share, "celsius": 60}))
        for code, share in seen.items()
    )
    cause = ENGLISH.say("tune.note.disturbed-counted", cause=contended)
    assert ENGLISH.say("tune.note.reason-of-candidates", names="8 x 2", reason=cause) in text
    assert usual not in text
    document = tune_document(tuning, {})
    by_name = {each["name"]: each["disturbed"] for each in document["candidates"]}  # type: ignore[index,attr-defined]
    assert (by_name["8 x 2"], by_name["4 x 4"]) == (["cpu-contention"], [])


def test_one_that_died_is_reported_in_its_own_words(tunings: Any, tmp_path: Path) -> None:
    def answer(config: Any) -> ProbeResult:
        return tunings.failed(config, "died") if config.batch_size == 8 else tunings.rising(config)

    text = page(
        tune(tunings.request(tunings.config(), 400.0), bench=tunings.stopwatch(answer).bench(tmp_path))
    )
    assert f"8 x 2: {DIED}" in text


def test_why_small_micro_batches_were_not_tried_is_reported_as_a_prediction(
    tunings: Any, tmp_path: Path
) -> None:
    """Of width 384 on an H200: 276 kernels of 3.1 us at the least, in 2.36 ms of a micro-batch of 2."""

    def answer(config: Any) -> ProbeResult:
        return tunings.repetition(config, 0.38 * (1 + 1.2 / config.batch_size), config.batch_size * GIB // 4)

    config = tunings.config(n_layer=12, n_embd=384, n_head=6, batch_size=8, tokens_per_iter=2**19)
    tuning = tune(tunings.request(config, 900.0), bench=tunings.stopwatch(answer).bench(tmp_path))
    (numbers,) = (each.numbers for each in tune_findings(tuning) if each.code == "unfilled")
    assert numbers == {"size": 2, "share": pytest.approx(276 * 3.1e-6 / 2.36e-3, rel=0.02)}
    assert ENGLISH.say("finding.unfilled", size="2", share="36%") in page(tuning)


def test_other_arithmetic_that_was_chosen_is_called_so(tunings: Any, tmp_path: Path) -> None:
    def answer(config: Any) -> ProbeResult:
        other = config.residual_dtype == "bfloat16" and not config.fp8
        return tunings.repetition(config, (0.8 if other else 1.0) * (1 + 0.45 / config.batch_size), GIB)

    request = tunings.request(tunings.config(n_layer=12, n_embd=768, n_head=12), 900.0, allow_different=True)
    tuning = tune(request, bench=tunings.stopwatch(answer).bench(tmp_path))
    other = ENGLISH.say("tune.chosen.other-arithmetic", switches="residual_dtype=bfloat16")
    assert other in page(tuning)
    plain = tune(replace(request, allow_different=False), bench=tunings.stopwatch(answer).bench(tmp_path))
    assert other not in page(plain)
    document = tune_document(tuning, {})
    kinds = {each["name"]: each["arithmetic"] for each in document["candidates"]}  # type: ignore[index,attr-defined]
    assert tuning.pick is not None
    assert kinds[tuning.pick.chosen] == "different"
    assert "rounding" in kinds.values()
