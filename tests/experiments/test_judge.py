"""Judging with made-up trainings: what is trained, kept, reused, stopped and refused."""

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nanodyno.analysis.judging import JudgeRules
from nanodyno.config import RunConfig, build_config, changed
from nanodyno.errors import NanodynoError, RunFailed
from nanodyno.experiments.judge import (
    JudgeBench,
    JudgeRequest,
    JudgeResult,
    TrainingReached,
    WarmChild,
    at_size,
    judge,
)
from nanodyno.experiments.short_training import ShortTraining, Trained, shortened
from nanodyno.probe.process import Failure
from nanodyno.records.judging import verdicts
from nanodyno.report.judge import JudgePage, exit_code, judge_document, source_of
from tunings import build_host_place

BASE = build_config(
    {
        "n_layer": 1, "n_head": 1, "n_embd": 16, "block_size": 16, "batch_size": 4, "tokens_per_iter": 64,
        "max_iters": 1000, "learning_rate": 1e-3, "device": "cpu", "compile": False, "dataset": "python",
        "tokenizer": "bytes", "eval_tokens": 64,
    }
)  # fmt: skip
NOISE = [0.0, 0.01, -0.01, 0.005, -0.005]
"""Of the loss by seed, so that the noise floor is 0.014."""
SPEED = 64_000.0
"""tokens/s: a minute is 60,000 iterations."""


class Trainings:
    """Losses by learning rate: the base's 1e-3 is at 4, and each percent above it is worth 0.001."""

    def __init__(self, worth: Callable[[RunConfig], float] | None = None) -> None:
        self.made: list[RunConfig] = []
        self.worth = worth or (lambda config: (config.learning_rate - 1e-3) / 1e-3)

    def __call__(self, request: ShortTraining, watch: Any) -> Trained | Failure:
        config = request.config
        self.made.append(config)
        watch(None, None)
        watch(None, config.max_iters // 2)
        if config.weight_decay == 9.0:
            return Failure(reason="error", words="the loss became NaN")
        loss = 4.0 + NOISE[config.seed - BASE.seed] - self.worth(config)
        return Trained(val_loss=loss, training_seconds=1.0, tokens_per_second=SPEED, train_loss=loss)


def judged(tmp_path: Path, trainings: Trainings, **asked: Any) -> JudgeResult:
    candidates = asked.pop("candidates", {"better": changed(BASE, learning_rate=1.5e-3)})
    clock = itertools.count().__next__
    bench = JudgeBench(
        look=lambda *_: build_host_place(),
        train=trainings,
        clock=lambda: float(clock()),
        now=lambda: 0.0,
        cache=tmp_path,
    )
    request = JudgeRequest(BASE, "base", candidates, minutes=0.05, **asked)
    return judge(request, bench=bench)


def calls(result: JudgeResult) -> dict[str, tuple[str, str]]:
    return {each.name: (each.call, each.reason) for each in result.judged}


def test_a_clear_improvement_is_kept_after_one_pair_and_three_trainings_of_the_base(tmp_path: Path) -> None:
    trainings = Trainings()
    found = judged(tmp_path, trainings)
    assert calls(found) == {"better": ("keep", "shown")}
    (verdict,) = found.judged
    assert verdict.improvement is not None
    assert verdict.improvement.value == pytest.approx(0.5)
    assert found.iterations == {"base": 3000, "better": 3000}
    seeds = [config.seed - BASE.seed for config in trainings.made if config.max_iters == 3000]
    assert seeds == [0, 1, 2, 0]


def test_what_is_no_better_is_discarded_and_what_lies_between_takes_more_pairs(tmp_path: Path) -> None:
    some = {
        "same": changed(BASE, weight_decay=0.3),
        "worse": changed(BASE, learning_rate=0.5e-3),
        "little": changed(BASE, learning_rate=1.022e-3),
    }
    found = judged(tmp_path, Trainings(), candidates=some, rules=JudgeRules(candidates=3))
    assert calls(found)["same"] == ("discard", "shown")
    assert calls(found)["worse"] == ("discard", "shown")
    assert {each.name: each.pairs for each in found.judged}["little"] > 1


def test_the_same_command_trains_nothing_twice_and_adds_no_verdict(tmp_path: Path) -> None:
    first = judged(tmp_path, Trainings())
    trainings = Trainings()
    again = judged(tmp_path, trainings)
    assert trainings.made == []
    assert calls(again) == calls(first)
    assert len(verdicts(tmp_path)) == 1
    anew = Trainings()
    judged(tmp_path, anew, again=True)
    assert len(anew.made) == 5


def test_another_candidate_of_the_base_uses_the_trainings_of_the_base(tmp_path: Path) -> None:
    judged(tmp_path, Trainings())
    trainings = Trainings()
    judged(tmp_path, trainings, candidates={"other": changed(BASE, learning_rate=1.6e-3)})
    assert [config.learning_rate for config in trainings.made] == [1.6e-3]


def test_a_candidate_that_fails_is_a_result_and_a_base_that_fails_an_error(tmp_path: Path) -> None:
    broken = changed(BASE, weight_decay=9.0)
    found = judged(tmp_path, Trainings(), candidates={"broken": broken})
    assert calls(found) == {"broken": ("discard", "failed")}
    assert found.judged[0].failure == "the loss became NaN"
    (verdict,) = verdicts(tmp_path)
    assert (verdict.call, verdict.improvement, verdict.pairs) == ("discard", None, 0)
    assert verdict.cost_seconds > 0
    request = JudgeRequest(broken, "base", {"better": BASE}, minutes=0.05)
    bench = JudgeBench(look=lambda *_: build_host_place(), train=Trainings(), cache=tmp_path)
    with pytest.raises(RunFailed, match="the loss became NaN"):
        judge(request, bench=bench)


def test_ctrl_c_keeps_what_was_trained(tmp_path: Path) -> None:
    class Stopped(Trainings):
        def __call__(self, request: ShortTraining, watch: Any) -> Trained | Failure:
            if len(self.made) == 4:
                raise KeyboardInterrupt
            return super().__call__(request, watch)

    found = judged(tmp_path, Stopped())
    assert found.interrupted
    assert calls(found) == {"better": ("undecided", "interrupted")}
    trainings = Trainings()
    assert calls(judged(tmp_path, trainings)) == {"better": ("keep", "shown")}
    assert len(trainings.made) == 1


def test_killed_before_its_verdict_was_written_it_is_written_by_the_next(tmp_path: Path) -> None:
    judged(tmp_path, Trainings())
    (file,) = tmp_path.glob("*.jsonl")
    lines = file.read_bytes().splitlines(keepends=True)
    assert b'"kind":"verdict"' in lines[-1]
    file.write_bytes(b"".join(lines[:-1]))
    trainings = Trainings()
    for _ in range(2):
        judged(tmp_path, trainings)
        assert [each.call for each in verdicts(tmp_path)] == ["keep"]
    assert trainings.made == []


def test_a_line_that_a_kill_cut_short_is_trained_again(tmp_path: Path) -> None:
    judged(tmp_path, Trainings())
    (file,) = tmp_path.glob("*.jsonl")
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:3]) + lines[3][:40])
    trainings = Trainings()
    assert calls(judged(tmp_path, trainings)) == {"better": ("keep", "shown")}
    assert len(trainings.made) == 3
    assert all(json.loads(line) for line in file.read_text().splitlines() if line.endswith("}"))


def test_a_clear_loser_is_stopped_by_its_forecast_and_not_trained_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a minute is 30,000 iterations. Progress comes at every 4,000th, which moves no look."""
    looks: list[int] = []

    def is_lost(_court: Any, _folder: Path, look: int, *_: object) -> bool:
        looks.append(look)
        return look == 19_500

    monkeypatch.setattr("nanodyno.experiments.judge._Judging._is_lost", is_lost)
    events: list[Any] = []

    class Reporting(Trainings):
        def __call__(self, request: ShortTraining, watch: Any) -> Trained | Failure:
            for iteration in range(0, request.config.max_iters, 4000):
                watch(None, iteration)
            return super().__call__(request, watch)

    def once(base: RunConfig = BASE, minutes: float = 0.5) -> tuple[JudgeResult, int]:
        trainings = Reporting()
        bench = JudgeBench(look=lambda *_: build_host_place(), train=trainings, cache=tmp_path)
        worse = {"worse": changed(BASE, learning_rate=0.5e-3)}
        request = JudgeRequest(base, "base", worse, minutes=minutes, equal="tokens")
        return judge(request, events.append, bench), len(trainings.made)

    found, _ = once()
    assert calls(found) == {"worse": ("discard", "clear-loser")}
    assert (found.judged[0].stopped_at_iteration, looks) == (19_500, [15_000, 19_500])
    assert max(each.iteration for each in events if isinstance(each, TrainingReached)) == 28_001
    again, made = once()
    assert (calls(again), made) == (calls(found), 0)
    better, made = once(changed(BASE, learning_rate=1.5e-3))
    assert (calls(better), made) == (calls(found), 4)  # a speed and three of the base
    weaker, _ = once(changed(BASE, learning_rate=0.9e-3))
    assert len(looks) == 4
    assert calls(weaker) == calls(found)
    short, _ = once(minutes=0.1)
    assert calls(short) == {"worse": ("discard", "shown")}


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"candidates": {}}, "there is no candidate"),
        ({"candidates": {"same": BASE}}, "is the base itself"),
        ({"candidates": {"other": changed(BASE, eval_tokens=128)}}, "eval_tokens"),
    ],
)
def test_what_cannot_be_judged_is_refused(tmp_path: Path, asked: dict[str, Any], words: str) -> None:
    with pytest.raises(NanodynoError, match=words):
        judged(tmp_path, Trainings(), **asked)


def test_a_budget_too_short_for_a_training_names_one_that_is_enough(tmp_path: Path) -> None:
    bench = JudgeBench(look=lambda *_: build_host_place(), train=Trainings(), cache=tmp_path)
    request = JudgeRequest(BASE, "base", {"better": changed(BASE, learning_rate=2e-3)}, minutes=0.0001)
    with pytest.raises(NanodynoError, match="iterations") as refused:
        judge(request, bench=bench)
    assert "--minutes" in str(refused.value.hint)


@pytest.mark.parametrize(("equal", "iterations"), [("tokens", 3000), ("time", 1500), ("flops", 1200)])
def test_what_trainings_have_in_common(tmp_path: Path, equal: str, iterations: int) -> None:
    """A larger model at half the speed makes half the iterations in the time."""

    class Slow(Trainings):
        def __call__(self, request: ShortTraining, watch: Any) -> Trained | Failure:
            found = super().__call__(request, watch)
            if request.config.n_layer == 4 and isinstance(found, Trained):
                return found.model_copy(update={"tokens_per_second": SPEED / 2})
            return found

    found = judged(tmp_path, Slow(), candidates={"large": changed(BASE, n_layer=4)}, equal=equal)
    assert found.iterations["large"] == pytest.approx(iterations, rel=0.1 if equal == "flops" else 0)


def test_a_speed_is_measured_beside_the_bases_own(tmp_path: Path) -> None:
    trainings = Trainings()
    found = judged(tmp_path, trainings, metric="tokens_per_second")
    assert calls(found) == {"better": ("discard", "shown")}
    rates = [config.learning_rate for config in trainings.made[-2:]]
    assert rates == [1e-3, 1.5e-3]


def test_what_cannot_change_the_speed_trains_as_long_as_the_base_by_a_machine_that_was_busy(
    tmp_path: Path,
) -> None:
    """A base whose speed was taken beside other work gives all the same iterations."""

    class Busy(Trainings):
        def __call__(self, request: ShortTraining, watch: Any) -> Trained | Failure:
            found = super().__call__(request, watch)
            if len(self.made) == 1 and isinstance(found, Trained):
                return found.model_copy(update={"tokens_per_second": SPEED / 2})
            return found

    found = judged(tmp_path, Busy())
    assert found.iterations == {"base": 1500, "better": 1500}


def test_speeds_are_compared_by_turns(tmp_path: Path) -> None:
    trainings = Trainings()
    judged(tmp_path, trainings, candidates={"deep": changed(BASE, n_layer=2)})
    paces = [config.n_layer for config in trainings.made if config.max_iters < 100]
    assert paces == [1, 1, 2, 1, 2, 1, 2]


def test_a_candidate_too_slow_for_the_minutes_is_a_result(tmp_path: Path) -> None:
    class Crawling(Trainings):
        def __call__(self, request: ShortTraining, watch: Any) -> Trained | Failure:
            found = super().__call__(request, watch)
            if request.config.n_layer == 9 and isinstance(found, Trained):
                return found.model_copy(update={"tokens_per_second": SPEED / 10_000})
            return found

    some = {"slow": changed(BASE, n_layer=9), "better": changed(BASE, learning_rate=1.5e-3)}
    found = judged(tmp_path, Crawling(), candidates=some, rules=JudgeRules(candidates=2))
    assert calls(found) == {"slow": ("discard", "failed"), "better": ("keep", "shown")}


def test_another_device_has_trainings_of_its_own(tmp_path: Path) -> None:
    judged(tmp_path, Trainings())
    trainings = Trainings()
    judged(tmp_path, trainings, candidates={"there": BASE.model_copy(update={"device": "mps"})})
    assert [config.device for config in trainings.made].count(
        "mps"
    ) == 4  # three for the speed, one in a pair


def test_a_speed_has_a_floor_of_neighbours_and_turns(tmp_path: Path) -> None:
    """Six trainings of the base make three differences. The base begins a pair, then the candidate."""

    class Drifting(Trainings):
        def __call__(self, request: ShortTraining, watch: Any) -> Trained | Failure:
            found = super().__call__(request, watch)
            faster = 1.02 if request.config.learning_rate > 1e-3 else 1.0
            wobble = 1 + 0.01 * (len(self.made) % 2)
            if isinstance(found, Trained):
                return found.model_copy(update={"tokens_per_second": SPEED * faster * wobble})
            return found

    trainings = Drifting()
    found = judged(tmp_path, trainings, metric="tokens_per_second")
    assert found.floor is not None
    assert found.floor.degrees == 3
    assert found.floor.sd == pytest.approx(0.00995, rel=0.01)
    pairs = [config.learning_rate for config in trainings.made if config.max_iters > 100][6:]
    assert pairs[:4] == [1e-3, 1.5e-3, 1.5e-3, 1e-3][: len(pairs)]
    again = Drifting()
    judged(tmp_path, again, metric="tokens_per_second")
    assert again.made == []


def test_a_candidate_that_is_ahead_or_drops_weights_is_not_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that is ahead is so after its first pair, and the forecasts of later pairs call it lost."""
    monkeypatch.setattr("nanodyno.experiments.judge.WORTH_STOPPING_SECONDS", 0.0)
    asked: list[bool] = []
    forecasts = itertools.chain([False], itertools.repeat(True))
    monkeypatch.setattr(
        "nanodyno.experiments.judge._Judging._is_lost", lambda *_: asked.append(True) or next(forecasts)
    )
    ahead = judged(tmp_path, Trainings(), candidates={"little": changed(BASE, learning_rate=1.022e-3)})
    assert ahead.judged[0].pairs > 1
    assert ahead.judged[0].reason != "clear-loser"
    assert len(asked) == 1
    dropping = judged(tmp_path, Trainings(), candidates={"dropout": changed(BASE, dropout=0.1)})
    assert all(each.reason != "clear-loser" for each in dropping.judged)
    plain = judged(tmp_path, Trainings(), candidates={"worse": changed(BASE, learning_rate=0.5e-3)})
    assert calls(plain) == {"worse": ("discard", "clear-loser")}


@pytest.mark.parametrize(
    ("shape", "depth", "width"),
    [((12, 12, 768), 10, 640), ((12, 8, 768), 4, 288), ((6, 3, 288), 6, 288), ((6, 3, 288), 8, 384)],
)
def test_any_depth_has_whole_heads(shape: tuple[int, int, int], depth: int, width: int) -> None:
    layers, heads, embd = shape
    config = build_config({"n_layer": layers, "n_head": heads, "n_embd": embd})
    sized = at_size(config, depth)
    assert (sized.n_layer, sized.n_embd, sized.n_embd // sized.n_head) == (depth, width, embd // heads)
    grouped = at_size(build_config({"n_layer": 12, "n_head": 12, "n_embd": 768, "n_kv_head": 4}), 10)
    assert grouped.n_head % (grouped.n_kv_head or 1) == 0


def test_a_size_keeps_the_proportion_and_the_size_of_heads() -> None:
    wide = build_config({"n_layer": 12, "n_embd": 768, "n_head": 6})
    assert [(each.n_embd, each.n_head) for each in (at_size(wide, 8), at_size(wide, 4))] == [
        (512, 4),
        (256, 2),
    ]


@pytest.mark.parametrize(
    ("typed", "source"),
    [
        ("learning_rate=2e-3", "base,learning_rate=2e-3"),
        ("demo", "demo"),
        ("demo,n_embd=64", "demo,n_embd=64"),
    ],
)
def test_settings_alone_change_the_base(typed: str, source: str) -> None:
    assert source_of("base", typed) == source


def test_the_document_and_the_exit_code(tmp_path: Path) -> None:
    found = judged(tmp_path, Trainings())
    page = JudgePage(
        "base", found.judged, found.floor, found.request.rules, "val_loss", "time", 0.05, found.iterations,
        found.spent_seconds, found.reused,
    )  # fmt: skip
    document = judge_document([page])
    (candidate,) = document["candidates"]  # pyright: ignore[reportGeneralTypeIssues]
    assert {"name", "verdict", "effect", "pairs", "cost_seconds"} <= candidate.keys()
    assert (candidate["verdict"], candidate["effect"]["value"]) == ("keep", pytest.approx(0.5))
    assert exit_code([page]) == 0
    assert document["next"] == "nanodyno judge better CANDIDATE"


def test_a_process_of_many_trainings_has_the_losses_of_one_for_each(tmp_path: Path) -> None:
    short = shortened(BASE, 64 * 12)
    requests = [
        ShortTraining(config=short, data_folder=tmp_path),
        ShortTraining(config=changed(short, seed=5), data_folder=tmp_path),
    ]
    with WarmChild() as warm:
        together = [warm.train(each, lambda *_: None) for each in (*requests, requests[0])]
    apart = []
    for each in requests:
        with WarmChild() as alone:
            apart.append(alone.train(each, lambda *_: None))
    losses = [each.val_loss for each in (*together, *apart) if isinstance(each, Trained)]
    assert losses[0] == losses[2] == losses[3]
    assert losses[1] == losses[4] != losses[0]
