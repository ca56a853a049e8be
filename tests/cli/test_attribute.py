"""The command with a made-up stopwatch, and once in earnest on a CPU with the tiniest of models."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nanodyno.experiments.tune import TuneBench
from nanodyno.messages.language import ENGLISH, LANGUAGES
from nanodyno.messages.numbers import turn_words

Run = Callable[..., Any]
CASE = Path(__file__).parents[2] / "examples"
TINY = [
    "--n_layer=1", "--n_head=1", "--n_embd=16", "--block_size=16", "--device=cpu",
    "--tokens_per_iter=64", "--compile=False", "--kernels=auto", "--threads=1", "--eval_tokens=64",
]  # fmt: skip


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is measured here is kept, and other tests compare the same pair."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def faked(tunings: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Wider is slower by its square root, and a micro-batch of 8 by a tenth."""

    def answer(config: Any) -> Any:
        seconds = (config.n_embd / 384) ** 0.5 * (1.1 if config.batch_size == 8 else 1.0)
        return tunings.repetition(config, seconds, config.n_embd * 2**20)

    stopwatch = tunings.stopwatch(answer)
    place = tunings.place(usable_gib=140.0)

    def bench() -> Any:
        made = stopwatch.bench(None, place)
        stopwatch.now = 0.0
        return made

    monkeypatch.setattr("nanodyno.cli.attribute.bench", bench)
    return stopwatch


def test_the_two_recipes_of_the_case_on_a_page_and_as_a_document(faked: Any, nanodyno: Run) -> None:
    page = nanodyno("attribute", "gpt2-384", "gpt2-768", "--all")
    assert page.exit_code == 0, page.output
    reported = " ".join(page.stdout.split())
    changes = [("n_embd", 384, 768), ("batch_size", 16, 8), ("learning_rate", 0.001, 0.0003)]
    assert [each for each in changes if turn_words(*each) not in reported] == []
    first = nanodyno("attribute", "gpt2-384", "gpt2-768").stdout
    assert len(first.splitlines()) < len(page.stdout.splitlines())
    document = json.loads(nanodyno("attribute", "gpt2-384", "gpt2-768", "--json").stdout)
    assert len(faked.asked) == 4  # the second time all is remembered
    sizes = {name: part["value"] for name, part in document["contributions"].items()}
    assert sizes == pytest.approx({"n_embd": -0.34657, "batch_size": -0.09531}, abs=1e-4)
    assert sum(sizes.values()) == pytest.approx(document["difference"]["value"])
    assert [len(path) for path in document["paths"]] == [2, 2]
    assert len(document["combinations"]) == 4


def test_a_page_to_open_in_another_language_beside_the_terminals(
    faked: Any, nanodyno: Run, tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    command = ("attribute", "gpt2-384", "gpt2-768", "--lang", "fr")
    shown = nanodyno(*command, "--html", str(page))
    assert shown.exit_code == 0, shown.output
    french = LANGUAGES["fr"]
    assert '<html lang="fr"' in page.read_text("utf-8")
    assert french.say("attribute.parts.title") in page.read_text("utf-8").lower()
    reported = " ".join(shown.stdout.split())
    assert turn_words("n_embd", 384, 768, french) in reported
    assert french.say("attribute.section.findings") in reported
    markdown = nanodyno(*command, "--format", "markdown").stdout
    assert markdown.startswith("## ")
    faked.asked.clear()
    refused = nanodyno(*command, "--again", "--html", str(tmp_path / "nowhere" / "page.html"))
    assert (refused.exit_code, faked.asked) == (2, [])


def test_logs_of_another_gpu_are_measured_here_and_compare_shows_it(faked: Any, nanodyno: Run) -> None:
    for name in ("train2", "train1"):
        log = str(CASE / f"{name}.log")
        assert nanodyno("import", log, "--name", name, "--gpu", "RTX 4070").exit_code == 0
    before = " ".join(nanodyno("compare", "train2", "train1").stdout.split())
    assert "nanodyno attribute train2 train1" in before
    page = nanodyno("attribute", "train2", "train1", "--all")
    assert page.exit_code == 0, page.output
    reported = " ".join(page.stdout.split())
    said = {"run": "train2", "other": "train1", "there": "RTX 4070", "here": "NVIDIA H200"}
    elsewhere = ENGLISH.say("finding.measured-here.both-elsewhere", **said)
    assert elsewhere in reported
    assert ENGLISH.say("finding.taken-by-default") in reported
    jobs = {(job.config.n_embd, job.config.batch_size) for job in faked.jobs.values()}
    assert jobs == {(384, 16), (768, 16), (384, 8), (768, 8)}
    assert {job.config.n_layer for job in faked.jobs.values()} == {12}
    after = " ".join(nanodyno("compare", "train2", "train1", "--all").stdout.split())
    assert ENGLISH.say("attribute.parts.title") in after
    assert turn_words("n_embd", 384, 768) in after
    assert elsewhere in after
    assert "nanodyno attribute train2 train1" not in after
    document = json.loads(nanodyno("compare", "train2", "train1", "--json").stdout)
    assert document["attributions"][0]["contributions"].keys() == {"n_embd", "batch_size"}


def test_a_run_of_our_own_can_be_one_of_the_two(nanodyno: Run, tiny: list[str]) -> None:
    """They differ in a learning rate and what follows it, which move no speed: nothing is measured."""
    assert nanodyno(*tiny, "--name=a", "--learning_rate=0.01").exit_code == 0
    refused = nanodyno("attribute", "a", "a,learning_rate=0.02")
    assert refused.exit_code == 2
    assert "differ in learning_rate, min_lr" in refused.output
    assert "--metric val_loss" in refused.output


@pytest.mark.parametrize(
    ("arguments", "reported"),
    [
        (["demo", "demo"], "the same in every setting"),
        (["demo", "nobody"], "nobody: no such recipe"),
        (["demo", "demo,n_embd=65"], "4 does not divide n_embd=65"),
        (["demo", "demo,n_layer=2", "--budget=off"], "--budget=off"),
        (["demo", "--n_layer=2"], "before --n_layer=2"),
        (["demo", "demo,n_layer=2", "--ignore=n_lyer"], "n_lyer: unknown setting"),
        (["demo", "demo,n_layer=2", "--ignore=n_layer"], "--ignore leaves out n_layer"),
        (["demo", "demo,dataset=edu", "--metric=val_loss"], "not comparable"),
        (["demo", "demo,n_layer=2", "--dataset=edu", "--metric=val_loss"], "no dataset 'edu' in data"),
        (["demo", "demo,learning_rate=auto", "--metric=val_loss"], "only `nanodyno train`"),
    ],
)
def test_what_has_no_answer_is_refused(
    arguments: list[str], reported: str, faked: Any, nanodyno: Run
) -> None:
    result = nanodyno("attribute", *arguments)
    assert (result.exit_code, faked.asked) == (2, [])
    assert reported in " ".join(result.output.split())


def test_a_loss_is_attributed_by_training_every_combination(
    nanodyno: Run, tunings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One round, since its time is up then: two corners of three iterations each."""
    here = TuneBench(look=lambda *_: tunings.host_place())
    monkeypatch.setattr("nanodyno.cli.attribute.bench", lambda: here)
    words = ["attribute", "demo,batch_size=2", "demo,learning_rate=0.02,batch_size=4", *TINY]
    result = nanodyno(*words, "--metric=val_loss", "--steps=3", "--budget=0.1s", "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    losses = [combination["val_losses"] for combination in document["combinations"]]
    assert [len(each) for each in losses] == [1, 1]
    difference = losses[1][0] - losses[0][0]
    assert document["contributions"]["learning_rate"]["value"] == pytest.approx(difference)
    assert difference != 0
    found = {each["code"]: each["numbers"] for each in document["findings"]}
    assert found["short-training"]["steps"] == 3
    assert [each["key"] for each in found["inert"]["changes"]] == ["batch_size"]
    assert "one-round" in found
