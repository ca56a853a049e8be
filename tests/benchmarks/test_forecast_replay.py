"""The replay in small: curves from the law itself, in tables, cut short and forecast."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from tests.analysis.losses import cosine, true_loss

from nanodyno.analysis.forecast_law import Schedule


@pytest.fixture(scope="module")
def replay(benchmark_module: Callable[[str], ModuleType]) -> Any:
    return benchmark_module("forecast_replay")


SCHEDULES = {
    "cosine": cosine(6000).rates,
    "wsd": 6e-4 * np.minimum(np.minimum(1, np.arange(1, 6001) / 100), np.arange(6000, 0, -1) / 1200),
    "constant": 6e-4 * np.minimum(1, np.arange(1, 6001) / 100),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two sizes that differ in their level, of three schedules each."""
    root = tmp_path_factory.mktemp("curves")
    for size, level in (("10M", 3.4), ("90M", 2.9)):
        (root / size).mkdir()
        for kind, rates in SCHEDULES.items():
            at = np.arange(120, 6001, 60)
            losses = true_loss(Schedule(rates), at.astype(float), level)
            rows = [f"{x},{rates[x - 1]},{y:.5f}" for x, y in zip(at, losses, strict=True)]
            (root / size / f"{kind}.csv").write_text("\n".join(["step,lr,loss", *rows]) + "\n")
    return root


@pytest.fixture(scope="module")
def trials(replay: Any, folder: Path) -> list[Any]:
    curves = replay.load(folder)
    return replay.replay(curves, replay.left_out(curves, "family", 1))


def test_tables_are_read_with_their_size_and_kind(replay: Any, folder: Path) -> None:
    curves = replay.load(folder)
    assert sorted((known.size, known.kind) for known in curves) == sorted(
        (size, kind) for size in ("10M", "90M") for kind in SCHEDULES
    )


def test_a_law_is_learned_from_the_other_size_and_beats_knowing_one_number(trials: list[Any]) -> None:
    for prefix in (0.3, 0.5, 0.8):
        some = [each for each in trials if each.prefix == prefix]
        assert len(some) == 6
        errors = {
            name: np.median([abs(getattr(each, name)) for each in some])
            for name in ("ours", "constant", "last", "power")
        }
        assert errors["ours"] < 0.005
        assert errors["ours"] < min(errors["constant"], errors["last"]) / 3


def test_the_constant_baseline_knows_nothing_of_the_size_left_out(trials: list[Any]) -> None:
    """The other size ends half a nat away: 15% of 3.4, or 17% of 2.9."""
    assert all(0.12 < abs(each.constant) < 0.2 for each in trials)


def test_a_table_names_every_kind_and_counts_intervals_by_curve(replay: Any, trials: list[Any]) -> None:
    table = replay.table(trials)
    assert all(f"| {kind} | 50% | 2 |" in table for kind in SCHEDULES)
    held = [replay.Trial("a", "wsd", "wsd", "x", 0.5, 3.0, off, 0.01, 0, 0, 0) for off in (0.0, 0.02)]
    other = replay.Trial("b", "wsd", "wsd", "x", 0.5, 3.0, 0.0, 0.01, 0, 0, 0)
    assert replay.by_curve([*held, other]) == pytest.approx(0.75)  # one of two, and one of one


def test_a_run_that_was_imported_is_a_curve_too(
    replay: Any, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from typer.testing import CliRunner

    from nanodyno.cli.main import app

    monkeypatch.chdir(tmp_path)
    table = str(folder / "90M" / "wsd.csv")
    assert CliRunner().invoke(app, ["import", table, "--name", "w"]).exit_code == 0
    (known,) = replay.load(tmp_path / "runs")
    assert known.kind == "wsd"
    assert known.final == pytest.approx(next(k for k in replay.load(folder) if k.name == "90M/wsd").final)


def test_losses_before_training_and_such_as_are_no_number_are_no_part_of_a_curve(
    replay: Any, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run of ours is evaluated before its first update, and a log may hold a NaN: the replay goes on."""
    from typer.testing import CliRunner

    from nanodyno.cli.main import app

    monkeypatch.chdir(tmp_path)
    head, *rows = (folder / "90M" / "cosine.csv").read_text().splitlines()
    Path("whole.csv").write_text("\n".join([head, "0,0.0,10.9", *rows[:50], "3150,3e-4,nan", *rows[50:]]))
    assert CliRunner().invoke(app, ["import", "whole.csv", "--name", "whole"]).exit_code == 0
    (known,) = replay.load(Path("runs"))
    assert len(known.curve.updates) == len(rows)
    trials = replay.replay([known], lambda _: (replay.shipped_prior(), 3.0))
    assert [each.prefix for each in trials] == list(replay.TRIED)[1:]  # 3% are a single loss
    assert all(np.isfinite([each.ours, each.power]).all() for each in trials)


def test_a_run_without_a_schedule_is_left_out_and_the_others_go_on(
    replay: Any, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    from typer.testing import CliRunner

    from nanodyno.cli.main import app

    monkeypatch.chdir(tmp_path)
    table = folder / "90M" / "cosine.csv"
    bare = [",".join((line.split(",")[0], line.split(",")[2])) for line in table.read_text().splitlines()]
    Path("bare.csv").write_text("\n".join(bare))
    for file, name in ((str(table), "whole"), ("bare.csv", "bare")):
        assert CliRunner().invoke(app, ["import", file, "--name", name]).exit_code == 0
    assert [known.name for known in replay.load(Path("runs"))] == ["whole"]
    assert "learning-rate schedule" in capsys.readouterr().err
