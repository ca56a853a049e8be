import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.analysis.losses import cosine, true_loss
from tests.report.html.static import Checked

from nanodyno.analysis.findings import Finding
from nanodyno.messages.findings import words
from nanodyno.messages.language import LANGUAGES

Nanodyno = Callable[..., Any]
TOLD = [
    f"--set={each}"
    for each in (
        "learning_rate=6e-4", "min_lr=6e-5", "warmup_iters=100", "lr_decay_iters=10000", "max_iters=10000",
        "tokens_per_iter=524288", "eval_interval=200",
    )
]  # fmt: skip


def log(path: Path, until: int, lower: float = 0.0) -> Path:
    """nanoGPT's own lines: an evaluation every 200 iterations and a step a hundred."""
    at = np.arange(200, until + 1, 200)
    losses = true_loss(cosine(10_000), at.astype(float)) - lower
    lines: list[str] = []
    for iteration, loss in zip(at, losses, strict=True):
        lines.append(f"step {iteration}: train loss {loss:.4f}, val loss {loss:.4f}")
        lines += [f"iter {iteration + k}: loss {loss:.4f}, time 500.00ms, mfu 20.00%" for k in (1, 50, 100)]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def imported(nanodyno: Nanodyno, tmp_path: Path) -> Nanodyno:
    assert nanodyno("import", str(log(tmp_path / "a.log", 5000)), *TOLD).exit_code == 0
    assert nanodyno("import", str(log(tmp_path / "b.log", 5000, lower=0.2)), *TOLD).exit_code == 0
    return nanodyno


def flat(text: str) -> str:
    return " ".join(text.split())


def test_a_run_is_forecast_on_a_page_and_as_a_document(imported: Nanodyno) -> None:
    page = imported("forecast", "a")
    assert page.exit_code == 0
    assert len(page.output.splitlines()) <= 30
    for number in ("3.2", "10,000", "5.24B", "40 min"):  # 4,900 iterations of half a second
        assert number in page.output
    document = json.loads(imported("forecast", "a", "--json").output)
    assert "forecast-end" in [each["code"] for each in document["findings"]]
    assert document["final_val_loss"]["low"] < document["final_val_loss"]["value"]
    assert document["tokens"] == 10_000 * 524_288
    assert document["eta_seconds"] == pytest.approx(4900 * 0.5, rel=0.01)


def test_a_target_another_schedule_and_two_runs(imported: Nanodyno) -> None:
    def found(*arguments: str) -> dict[str, Any]:
        document = json.loads(imported("forecast", *arguments, "--json").output)
        return {each["code"]: each for each in document["findings"]}

    assert found("a", "--until-loss", "2.9")["target-not-reached"]["numbers"]["target"] == 2.9
    changed = found("a", "--set", "lr_decay_iters=20000", "--set", "max_iters=20000")
    assert changed["forecast-end"]["numbers"]["iterations"] == 20_000
    assert changed["forecast-changed"]["numbers"]["iterations"] == 10_000
    both = found("a", "b", "--hours", "1")
    assert both["ends-lower"]["runs"] == ["b", "a"]
    assert both["ends-lower"]["numbers"]["probability"] > 0.99
    assert "ends-rough" in both
    assert ">99%" in imported("forecast", "a", "b", "--hours", "1").output


def test_compare_says_which_of_two_unfinished_runs_ends_lower(imported: Nanodyno) -> None:
    document = json.loads(imported("compare", "a", "b", "--json").output)
    (found,) = (each for each in document["findings"] if each["code"] == "ends-lower")
    finding = Finding("ends-lower", found["severity"], tuple(found["runs"]), found["numbers"])
    for code in ("en", "fr"):
        page = flat(imported("compare", "a", "b", "--format", "markdown", "--lang", code).output)
        assert flat(words(finding, LANGUAGES[code])).partition(" (")[0] in page


def test_a_page_to_open_has_the_band_and_the_target(imported: Nanodyno, tmp_path: Path) -> None:
    result = imported("forecast", "a", "--until-loss", "3.3", "--html", "a.html")
    assert "report: a.html" in result.stderr
    page = Checked((tmp_path / "a.html").read_text(encoding="utf-8"))
    assert page.faults == []
    say = LANGUAGES["en"].say
    for shown in (
        say("forecast.picture.target", loss="3.300"),
        say("forecast.picture.interval", level="80"),
        say("forecast.tile.time-left"),
    ):
        assert shown in page.text


def test_a_forecast_is_reported_in_the_language_that_is_asked_for(imported: Nanodyno) -> None:
    (found,) = (
        each
        for each in json.loads(imported("forecast", "a", "--json").output)["findings"]
        if each["code"] == "forecast-end"
    )
    finding = Finding("forecast-end", "fact", tuple(found["runs"]), found["numbers"])
    for code in ("fr", "zh-Hant", "ja", "hi", "ar"):
        shown = "".join(imported("forecast", "a", "--lang", code).output.split())
        assert "".join(words(finding, LANGUAGES[code]).split()) in shown
    document = ("forecast", "a", "--json")
    assert imported(*document, "--lang", "fr").stdout == imported(*document).stdout


@pytest.mark.parametrize(
    ("arguments", "reported"),
    [
        (["a", "--tokens", "1B", "--iters", "9"], "--tokens and --iters"),
        (["a", "--hours", "0"], "--hours=0"),
        (["a", "--tokens", "many"], "not a number of tokens"),
        (["a", "--set", "n_embd=3"], "--set n_embd"),
        (["a", "--set", "nonsense"], "not a setting"),
        (["a", "b", "a"], "one or two runs"),
        (["nobody"], "no run 'nobody'"),
    ],
)
def test_a_mistake_is_reported_with_exit_code_2(
    imported: Nanodyno, arguments: list[str], reported: str
) -> None:
    result = imported("forecast", *arguments)
    assert result.exit_code == 2
    assert reported in flat(result.output)


def test_a_log_that_tells_no_schedule_is_asked_for_it(nanodyno: Nanodyno, tmp_path: Path) -> None:
    nanodyno("import", str(log(tmp_path / "a.log", 5000)))
    refused = nanodyno("forecast", "a")
    assert refused.exit_code == 2
    assert "--set lr_decay_iters" in flat(refused.output)
    answered = json.loads(nanodyno("forecast", "a", "--iters", "10000", "--json").output)
    assert "forecast-schedule-unknown" in [each["code"] for each in answered["findings"]]


def test_a_run_of_our_own_that_is_done_has_been_there(nanodyno: Nanodyno, tiny: list[str]) -> None:
    assert nanodyno(*tiny, "--name=own").exit_code == 0
    assert nanodyno("forecast", "own").exit_code == 0
    found = json.loads(nanodyno("forecast", "own", "--json").output)["findings"]
    assert "forecast-over" in [each["code"] for each in found]


def test_what_the_hint_proposes_answers(nanodyno: Nanodyno, tmp_path: Path) -> None:
    """A log that tells neither schedule nor end: the settings of the hint are all that it takes."""
    assert nanodyno("import", str(log(tmp_path / "c.log", 5000))).exit_code == 0
    refused = nanodyno("forecast", "c")
    assert refused.exit_code == 2
    reported = [each for each in flat(refused.stderr).split() if "=" in each]
    assert len(reported) == 2
    answered = nanodyno("forecast", "c", *(f"--set={each}" for each in reported), "--json")
    assert answered.exit_code == 0
    codes = {each["code"] for each in json.loads(answered.stdout)["findings"]}
    assert "forecast-end" in codes
    assert "forecast-changed" not in codes


def test_losses_of_different_text_are_not_held_against_each_other(nanodyno: Nanodyno, tmp_path: Path) -> None:
    for name, data in (("a", "fineweb"), ("b", "code")):
        file = str(log(tmp_path / f"{name}.log", 5000))
        assert nanodyno("import", file, *TOLD, f"--set=dataset={data}").exit_code == 0
    found = json.loads(nanodyno("forecast", "a", "b", "--json").output)["findings"]
    assert ["a", "b"] in [each["runs"] for each in found if each["code"] == "ends-on-other-data"]
    assert not {each["code"] for each in found} & {"ends-lower", "ends-alike"}


def test_a_finished_run_of_the_same_recipe_sharpens_and_is_named(imported: Nanodyno, tmp_path: Path) -> None:
    shape = ("--set=dataset=fineweb", "--set=n_layer=12", "--set=n_embd=768")
    for name, until in (("now", 5000), ("before", 10_000)):
        file = str(log(tmp_path / f"{name}.log", until))
        assert imported("import", file, *TOLD, *shape).exit_code == 0
    document = json.loads(imported("forecast", "now", "--json").output)
    assert document["siblings"] == ["before"]
    assert document["basis"] == "siblings"
    alone = json.loads(imported("forecast", "now", "--no-siblings", "--json").output)
    assert (alone["siblings"], alone["basis"]) == ([], "curve")
    chances = [
        next(each for each in json.loads(output)["findings"] if each["code"].startswith("ends-"))["numbers"]
        for output in (
            imported(command, "now", "before", "--json").output for command in ("forecast", "compare")
        )
    ]
    assert chances[0] == chances[1]  # each of the two is the other's sibling
