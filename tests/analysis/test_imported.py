# pyright: reportOptionalMemberAccess=false
"""What follows from an imported log, and what does not."""

from pathlib import Path
from typing import Any

import pytest

from nanodyno.analysis.imported import known_shape, tokens_up_to
from nanodyno.analysis.summary import Summary, summarise
from nanodyno.records.imported import ImportedStep
from nanodyno.records.importers.joining import ImportRequest, import_run
from nanodyno.records.store import read_run

CASE = Path(__file__).parents[2] / "examples"
SHAPE = {"n_layer": 12, "n_embd": 768, "block_size": 1024, "vocab_size": 50304, "bias": False}


def summary_of(name: str, folder: Path, **options: Any) -> Summary:
    import_run(ImportRequest((CASE / name,), folder / "run", **options))
    return summarise(read_run(folder / "run"))


def test_the_cases_logs_tell_speed_and_size_without_a_gpu(tmp_path: Path) -> None:
    wide, narrow = summary_of("train1.log", tmp_path / "w"), summary_of("train2.log", tmp_path / "n")
    assert wide.speed.tokens_per_second
    assert narrow.speed.tokens_per_second
    assert wide.speed.tokens_per_second.value == pytest.approx(524_288 / 9.34, rel=1e-3)
    assert narrow.speed.tokens_per_second.value == pytest.approx(524_288 / 3.91, rel=1e-3)
    assert wide.speed.micro_step_seconds.value == pytest.approx(9.34 / 64, rel=1e-3)
    assert (wide.counted_parameters, narrow.counted_parameters) == (123_590_000, 40_560_000)
    assert (wide.iterations_done, wide.tokens_seen) == (841, 841 * 524_288)
    assert (wide.parameters, wide.speed.mfu) == (None, None)
    assert wide.speed.nanogpt_mfu.value == pytest.approx(0.154, abs=5e-4), "of the only model that fits"
    assert wide.last_val
    assert (wide.last_val.iteration, wide.last_val.loss) == (500, 5.5194)


def test_with_its_shape_and_gpu_the_share_of_the_peak_is_known(tmp_path: Path) -> None:
    settings = {"n_layer": 12, "bias": False}
    wide = summary_of("train1.log", tmp_path, gpu="RTX 4070", settings=settings)
    assert wide.parameters
    assert wide.parameters.nanogpt == 123_587_328
    assert wide.speed.nanogpt_mfu.value == pytest.approx(0.154, abs=5e-4)
    assert wide.speed.mfu.value == pytest.approx(0.77, abs=5e-3)
    assert wide.state.kind == "imported"


def test_evaluations_in_the_logs_times_are_in_no_rate(tmp_path: Path) -> None:
    wide = summary_of("train1.log", tmp_path)
    assert wide.speed.iteration_seconds
    assert wide.speed.iteration_seconds.high is not None
    assert 9.33 < wide.speed.iteration_seconds.value < wide.speed.iteration_seconds.high < 9.35
    logged = 841 // 5 + 1
    assert wide.speed.iteration_seconds.n == logged - 2, "without two evaluations, the first at the start"


@pytest.mark.parametrize("missing", SHAPE)
def test_a_shape_is_known_whole_or_not_at_all(missing: str) -> None:
    assert known_shape(SHAPE) is not None
    assert known_shape({key: value for key, value in SHAPE.items() if key != missing}) is None
    assert known_shape(SHAPE | {missing: "twelve"}) is None


def test_iterations_between_two_logged_ones_count() -> None:
    steps = [ImportedStep(iteration=number, tokens=100) for number in (0, 10, 20)]
    assert tokens_up_to(steps, 21, 100) == 2_100
    assert tokens_up_to(steps, 31, 100) == 3_100
    assert tokens_up_to([*steps, ImportedStep(iteration=30, tokens=200)], 31, 200) == 2_100 + 10 * 200


def test_tokens_are_unknown_where_an_iterations_are() -> None:
    assert tokens_up_to([ImportedStep(iteration=5)], 6, None) is None
    assert tokens_up_to([], 500, None) is None
    assert tokens_up_to([], 500, 10) == 5_000


def test_the_shape_of_a_result_of_ours_knows_what_is_beyond_gpt2() -> None:
    reported: dict[str, Any] = {"n_head": 6, "positions": "rope", "n_kv_head": 2, "untied_head": True}
    shape = known_shape(SHAPE | reported)
    assert shape is not None
    assert (shape.positions, shape.kv_heads, shape.untied_head, shape.norm) == ("rope", 2, True, "layer")
    assert known_shape(SHAPE | reported | {"n_kv_head": 4}) is None
    assert known_shape(SHAPE | reported | {"positions": "none"}) is None
