"""The page and the document of a search on a made-up card."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
from rich.console import Console

from nanodyno.analysis.asking import SkipReason
from nanodyno.analysis.findings import Finding
from nanodyno.analysis.statistics import Interval
from nanodyno.analysis.tune_findings import tune_findings
from nanodyno.analysis.tuning import AskStarted, Heard, Tuning, curve_of, rows_of
from nanodyno.experiments.tune import tune
from nanodyno.messages.language import ENGLISH
from nanodyno.records.probe import ProbeProgress, ProbeResult
from nanodyno.report.document import to_json
from nanodyno.report.tune import tune_body, tune_document, tune_head, tune_page, verdict_lines
from nanodyno.report.tune_words import (
    REASONS,
    finding_words,
    fits_words,
    memory_words,
    rate_words,
    spread_words,
    switch_words,
)
from nanodyno.report.tuning import make_tune_display

GIB = 2**30


def page(tuning: Tuning, width: int = 100) -> str:
    console = Console(width=width, record=True, file=None, quiet=False)
    with console.capture() as capture:
        console.print(tune_page(tuning, "gpt2", width))
    return capture.get()


def verdict(tuning: Tuning) -> list[str]:
    return [line for line, _ in verdict_lines(tuning, rows_of(tuning))]


@pytest.fixture
def tuning(tunings: Any, tmp_path: Path) -> Tuning:
    return tune(tunings.request(tunings.config(), 400.0), bench=tunings.stopwatch().bench(tmp_path))


def found(tuning: Tuning) -> dict[str, Finding]:
    return {each.code: each for each in tune_findings(tuning)}


@pytest.mark.parametrize("width", [80, 120])
def test_the_page_has_a_row_a_micro_batch_the_winner_and_a_picture(tuning: Tuning, width: int) -> None:
    text = page(tuning, width)
    assert max(map(len, text.splitlines())) <= width
    assert "gpt2 on NVIDIA H200, bfloat16: 16,384 tokens per iteration" in text.replace("\n", " ")
    assert re.search(r"^\* +8 x 2 .* 8\.00 GiB +1,000\.0 +16,384 +±", text, re.M)
    assert re.search(r"^ +4 x 4 .* 4\.00 GiB +1,100\.0 +14,895 +±0\.0% .* yes", text, re.M)
    assert re.search(r"^ +2 x 8 .* 2\.00 GiB +1,500\.0 +10,923 +- .* yes", text, re.M)
    assert re.search(r"^ +16 x 1 .* no", text, re.M)
    assert text.index("16,384 tok/s") < text.index("+10.0%") < text.index("\n*")
    asked = next(line for line in verdict(tuning) if "+10.0%" in line)
    assert "4 x 4" in asked
    assert re.search(r"^ +8 │.*●", text, re.M)


def test_the_first_page_fits_a_screen_and_keeps_the_best_rows(tunings: Any, tmp_path: Path) -> None:
    """Of some twenty candidates: the chosen one, the one that was asked for, and the other finalists."""

    def answer(config: Any) -> ProbeResult:
        return tunings.repetition(config, 0.38 * (1 + 1.2 / config.batch_size), config.batch_size * GIB // 4)

    config = tunings.config(n_layer=12, n_embd=384, n_head=6, batch_size=8, tokens_per_iter=2**19)
    request = tunings.request(config, 900.0, allow_different=True)
    tuning = tune(request, bench=tunings.stopwatch(answer).bench(tmp_path, tunings.place(usable_gib=40.0)))
    console = Console(width=100)
    with console.capture() as capture:
        console.print(tune_head(tuning, "gpt2", ENGLISH, everything=False))
        console.print(tune_body(tuning, 100, ENGLISH, everything=False))
    lines = capture.get().rstrip().splitlines()
    assert len(lines) < 30  # and the command to train with
    assert len(page(tuning).splitlines()) > 40
    assert tuning.pick is not None
    (chosen,) = (line for line in lines if line.startswith("*"))
    assert "64 x 8" in chosen
    assert any(line.split()[:3] == ["8", "x", "64"] for line in lines)


def test_findings_say_why(tuning: Tuning) -> None:
    codes = found(tuning)
    assert codes["launch-bound"].numbers == {"size": 2, "idle": pytest.approx(0.4)}
    assert codes["busy"].numbers == {"size": 8, "idle": pytest.approx(0.05)}
    assert codes["rises"].numbers["to"] == 8
    assert codes["does-not-fit"].numbers["name"] == "16 x 1"
    assert "flat" not in codes
    assert finding_words(codes["launch-bound"]) == ENGLISH.say("finding.launch-bound", size="2", idle="40%")


def test_where_the_time_of_the_chosen_one_went_is_known_though_the_final_does_not_look(
    tuning: Tuning,
) -> None:
    (row,) = (row for row in rows_of(tuning) if tuning.pick is not None and row.name == tuning.pick.chosen)
    assert row.is_final
    assert row.summary is not None
    assert row.summary.time is not None
    assert row.summary.time.idle == pytest.approx(0.05)


def test_a_switch_that_was_measured_afresh_is_no_first_look(tunings: Any, tmp_path: Path) -> None:
    """Two threads are 25% faster: the final holds them against one."""

    def answer(config: Any) -> ProbeResult:
        return tunings.repetition(config, 0.8 if config.threads == 2 else 1.0, GIB)

    request = tunings.request(
        tunings.config(batch_size=1, tokens_per_iter=1024), 400.0, held=frozenset({"kernels", "compile"})
    )
    host = tunings.host_place()
    place = replace(host, ground=replace(host.ground, threads=(2,)))
    tuning = tune(request, bench=tunings.stopwatch(answer).bench(tmp_path, place))
    finding = found(tuning)["switch-afresh"]
    assert finding.numbers["gain"] == pytest.approx(0.25)
    said = {"setting": "threads=2", "size": "1", "change": "+25.0%", "saved": "+0 MiB"}
    assert finding_words(finding) == ENGLISH.say("finding.switch-afresh", **said)


def test_along_micro_batches_the_switches_of_the_chosen_one_are_named(tunings: Any, tmp_path: Path) -> None:
    def answer(config: Any) -> ProbeResult:
        return tunings.repetition(config, (0.8 if config.threads == 2 else 1.0) / config.batch_size, GIB)

    request = tunings.request(
        tunings.config(batch_size=1, tokens_per_iter=2048), 400.0, held=frozenset({"kernels", "compile"})
    )
    host = tunings.host_place()
    place = replace(host, ground=replace(host.ground, threads=(2,)))
    rises = found(tune(request, bench=tunings.stopwatch(answer).bench(tmp_path, place)))["rises"]
    said = ENGLISH.say("finding.rises", to="2", gain="100%", first="1")
    assert finding_words(rises) == ENGLISH.say(
        "tune.finding.with-switches", switches="threads=2", finding=said
    )


def test_what_the_rounds_leave_open_is_neither_a_rise_nor_a_fall(tunings: Any, tmp_path: Path) -> None:
    """8 takes 0.8 s and 1.3 s by turns: a tenth slower than 4 on the whole, give or take far more."""
    turns = iter([0.8, 1.3] * 20)

    def answer(config: Any) -> ProbeResult:
        seconds = next(turns) if config.batch_size == 8 else {4: 0.9}.get(config.batch_size, 9.0)
        return tunings.repetition(config, seconds, GIB)

    request = tunings.request(
        tunings.config(batch_size=4, tokens_per_iter=8 * 1024), 400.0, held=frozenset({"kernels", "compile"})
    )
    tuning = tune(request, bench=tunings.stopwatch(answer).bench(tmp_path, tunings.host_place()))
    seconds = {
        row.candidate.batch_size: row.summary.iteration_seconds.value
        for row in rows_of(tuning)
        if row.is_final and row.summary is not None
    }
    assert seconds[8] > 1.1 * seconds[4]
    assert "falls" not in found(tuning)


def test_a_plateau_and_a_fall_are_reported(tunings: Any, tmp_path: Path) -> None:
    def answer(config: Any) -> ProbeResult:
        seconds = {1: 2.0, 2: 1.01, 4: 1.0, 8: 1.005, 16: 1.2}[config.batch_size]
        return tunings.repetition(config, seconds, GIB)

    bench = tunings.stopwatch(answer).bench(
        tmp_path, tunings.host_place()
    )  # without predictions all are tried
    codes = found(tune(tunings.request(tunings.config(), 900.0), bench=bench))
    assert codes["flat"].numbers == {"from": 2, "to": 8, "within": 0.02}
    assert codes["falls"].numbers == {"from": 4, "to": 16, "loss": pytest.approx(1 - 1 / 1.2)}


def test_of_the_tied_the_smaller_is_chosen_and_reported(tunings: Any, tmp_path: Path) -> None:
    def answer(config: Any) -> ProbeResult:
        return tunings.repetition(config, 1.0 if config.batch_size == 8 else 1.004, config.batch_size * GIB)

    held = frozenset({"kernels", "compile"})
    request = tunings.request(tunings.config(batch_size=4, tokens_per_iter=8 * 1024), 900.0, held=held)
    tuning = tune(request, bench=tunings.stopwatch(answer).bench(tmp_path, tunings.host_place()))
    assert tuning.pick is not None
    assert tuning.pick.chosen.startswith("1 x 8")
    numbers = found(tuning)["smaller-for-free"].numbers
    assert numbers["saved_bytes"] == pytest.approx(7 * GIB, rel=0.01)
    assert ENGLISH.say("probe.comparison.tied", margin="1.0%") in page(tuning)


def test_what_is_too_tight_says_how_much_it_leaves(tunings: Any, tmp_path: Path) -> None:
    bench = tunings.stopwatch().bench(tmp_path, tunings.place(usable_gib=9.0))
    tuning = tune(tunings.request(tunings.config(), 400.0), bench=bench)
    assert found(tuning)["tight"].numbers["name"] == "8 x 2"
    assert found(tuning)["tight"].numbers["margin_bytes"] == GIB / 2
    assert re.search(rf"8 x 2 .* {ENGLISH.say('tune.fits.tightly')}", page(tuning, 120))


def test_a_switch_left_as_it_was_for_want_of_a_gain_is_not_called_smaller(
    tunings: Any, tmp_path: Path
) -> None:
    """With two threads it is 0.2% faster and takes 1% less: both are no reason to turn it."""

    def answer(config: Any) -> ProbeResult:
        turned = config.threads == 2
        return tunings.repetition(config, 0.998 if turned else 1.0, round((0.99 if turned else 1.0) * GIB))

    held = frozenset({"kernels", "compile"})
    host = tunings.host_place()
    place = replace(host, ground=replace(host.ground, threads=(2,)))
    request = tunings.request(tunings.config(batch_size=1, tokens_per_iter=1024), 900.0, held=held)
    tuning = tune(request, bench=tunings.stopwatch(answer).bench(tmp_path, place))
    assert tuning.pick is not None
    assert (tuning.pick.chosen, tuning.pick.fastest) == ("1 x 1", "1 x 1 threads=2")
    assert "smaller-for-free" not in found(tuning)


def test_a_stopped_search_says_so_and_shows_what_it_has(tunings: Any, tmp_path: Path) -> None:
    stopped = tune(
        tunings.request(tunings.config(), 400.0), bench=tunings.stopwatch(interrupt_at=3).bench(tmp_path)
    )
    text = page(stopped)
    assert ENGLISH.say("common.stopped-can-continue") in " ".join(text.split())
    row = next(row for row in rows_of(stopped) if stopped.pick and row.name == stopped.pick.chosen)
    said = {"name": row.name, "rate": rate_words(row), "memory": memory_words(row)}
    assert ENGLISH.say("tune.best-so-far.search-only", **said) in " ".join(text.split())
    assert "not-all-tried" not in found(stopped)
    assert ENGLISH.say("tune.reason.no-time") not in text
    assert {fits_words(row) for row in rows_of(stopped) if row.summary is None} <= {"-", "no"}
    nothing = tune(
        tunings.request(tunings.config(), 400.0),
        bench=tunings.stopwatch(interrupt_at=0).bench(tmp_path / "no"),
    )
    assert ENGLISH.say("common.stopped-can-continue") in " ".join(page(nothing).split())


def test_where_nothing_fits_what_would_help_is_reported(tunings: Any, tmp_path: Path) -> None:
    def answer(config: Any) -> ProbeResult:
        return tunings.rising(config.model_copy(update={"batch_size": 16}))

    text = page(
        tune(tunings.request(tunings.config(), 400.0), bench=tunings.stopwatch(answer).bench(tmp_path))
    )
    assert ENGLISH.say("tune.chosen.none-measured") in text
    assert "--n_layer" in text


def test_an_effective_batch_without_divisors_is_reported_with_one_that_has(
    tunings: Any, tmp_path: Path
) -> None:
    def answer(config: Any) -> ProbeResult:
        return tunings.repetition(config, 1.0, GIB)

    config = tunings.config(batch_size=1, tokens_per_iter=13 * 1024)
    tuning = tune(tunings.request(config, 400.0), bench=tunings.stopwatch(answer).bench(tmp_path))
    assert found(tuning)["few-divisors"].numbers == {"sequences": 13, "tokens": 16 * 1024}


def test_the_document_has_every_candidate_and_the_settings_to_train_with(tuning: Tuning) -> None:
    document = json.loads(to_json(tune_document(tuning, {"batch_size": 8})))
    assert document["chosen"].startswith("8 x 2")
    assert document["settings"] == {"batch_size": 8}
    assert document["confirmed"] is True
    speeds = {each["batch_size"]: each["speed"] for each in document["candidates"] if each["measured"]}
    assert speeds[4]["tokens_per_second"]["value"] == pytest.approx(16_384 / 1.1)
    assert {each["fits"] for each in document["candidates"]} >= {"yes", "no"}


def test_every_reason_has_words() -> None:
    reasons = {each for part in get_args(SkipReason) for each in (get_args(part) or (part,))}
    assert set(REASONS) == reasons


def test_the_chosen_one_stands_for_its_micro_batch(tuning: Tuning) -> None:
    rows = rows_of(tuning)
    curve = curve_of(rows, tuning.pick.chosen if tuning.pick else None)
    assert [row.candidate.batch_size for row in curve] == [2, 4, 8]
    assert curve[-1].name == tuning.pick.chosen  # type: ignore[union-attr]


def test_one_thread_is_no_threads(tuning: Tuning) -> None:
    row = next(iter(rows_of(tuning)))
    for number, words in (("1", "1 thread"), ("2", "2 threads")):
        turned = replace(row.candidate, switches=(("threads", number), ("cuda_graph", "False")))
        assert switch_words(turned) == f"{words}, {ENGLISH.say('tune.switch.no-cuda-graph')}"


def test_a_spread_is_half_of_the_interval() -> None:
    assert spread_words(Interval(100.0, 98.0, 102.0, 0.95, 4)) == "±2.0%"
    assert spread_words(Interval(100.0, None, None, 0.95, 1)) == "-"


def test_a_file_gets_a_line_for_each_repetition_and_a_terminal_also_the_time(
    tunings: Any, tmp_path: Path
) -> None:
    events: list[Any] = []
    request = tunings.request(tunings.config(), 400.0)
    tune(request, events.append, tunings.stopwatch().bench(tmp_path))
    heard = [event for event in events if isinstance(event, Heard)]
    plain, live = Console(width=100), Console(width=100, force_terminal=True)
    with plain.capture() as lines:
        display = make_tune_display(plain, 400.0)
        for event in events:
            display(event)
        display.close()
    assert len(lines.get().splitlines()) == len(heard)
    said = {"name": "8 x 2", "words": "16,384 tok/s, 8.00 GiB", "stage": ENGLISH.say("tune.stage.first-look")}
    assert ENGLISH.say("tune.progress.measured", **said) in lines.get()
    asked = next(event for event in events if isinstance(event, AskStarted))
    with live.capture() as shown:
        display = make_tune_display(live, 400.0, clock=lambda: 0.0)
        display(replace(asked, spent_seconds=65.0))
        display(ProbeProgress("8 x 2", 0, "warming up"))
        display.close()
    assert f"1 min 5 s of 6 min 40 s  {ENGLISH.say('tune.stage.first-look')}" in shown.get()


def test_a_micro_batch_that_fits_by_its_switches_says_which_and_what_it_spares(
    tunings: Any, tmp_path: Path
) -> None:
    """Of GPT-2 124M on 12 GiB, 32 needs recompute: what blocks keep is 36 bytes x 768 x 12 x 32,768 then."""

    def answer(config: Any) -> ProbeResult:
        return tunings.repetition(config, 1 + 1 / config.batch_size, 5 * GIB)

    config = tunings.config(n_layer=12, n_embd=768, n_head=12, batch_size=8, tokens_per_iter=2**19)
    tuning = tune(tunings.request(config, 900.0), bench=tunings.stopwatch(answer).bench(tmp_path))
    (numbers,) = [
        each.numbers
        for each in tune_findings(tuning)
        if each.code == "made-to-fit" and each.numbers["size"] == 32
    ]
    assert numbers["switches"] == "recompute=light"
    assert numbers["part"] == "activations"
    assert numbers["part_bytes"] == pytest.approx(36 * 768 * 12 * 32 * 1024, rel=0.05)
