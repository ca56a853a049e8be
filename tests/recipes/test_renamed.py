"""A setting with a new name is accepted by its former one wherever it may stand, and that is noted."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from nanodyno.config import ModelShape, RunConfig, build_config
from nanodyno.config.shape import Declared
from nanodyno.messages.language import ENGLISH
from nanodyno.recipes import former_names, load_settings, override, parse_overrides, parse_set
from nanodyno.records import attribution, tuning
from nanodyno.records.imported import LoggedSettings
from nanodyno.records.importers.reported import overriding
from nanodyno.records.types import RunRecord
from nanodyno.report.idle import renamed_notes

FORMER = {"chunk_rows": "loss_chunk_size", "with_bias": "bias"}


@pytest.fixture(autouse=True)
def _renamed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if these were aliases in the declarations."""
    monkeypatch.setattr(Declared, "present_names", classmethod(lambda _: FORMER))


def test_a_former_name_makes_the_same_config() -> None:
    assert build_config({"chunk_rows": 64}) == build_config({"loss_chunk_size": 64})
    assert build_config({"chunk_rows": 64, "loss_chunk_size": 32}).loss_chunk_size == 32


@pytest.mark.parametrize(
    ("name", "text"),
    [("own.toml", "chunk_rows = 64\nwith_bias = true\n"), ("own.py", "chunk_rows = 64\nwith_bias = True\n")],
)
def test_files_may_have_it(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    settings = load_settings(str(tmp_path / name))
    assert (settings.values["loss_chunk_size"], settings.values["bias"]) == (64, True)
    assert settings.renamed == ("chunk_rows", "with_bias")
    assert override(settings, {"chunk_rows": 32}).values["loss_chunk_size"] == 32


def test_a_file_that_python_would_have_to_run_is_refused_for_it_too(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("chunk_rows = open('rows').read()\n")
    with pytest.raises(Exception, match="chunk_rows"):
        load_settings(str(tmp_path / "own.py"))


def test_the_command_line_takes_it_as_it_takes_the_present_one() -> None:
    words = ["--chunk-rows=64", "--no_with_bias", "--n_layer=2"]
    assert parse_overrides(words) == {"loss_chunk_size": 64, "bias": False, "n_layer": 2}
    assert former_names(words) == ("chunk_rows", "with_bias")
    assert parse_set(["chunk_rows=64"]) == {"loss_chunk_size": 64}
    note = ENGLISH.say("option.note.renamed", old="chunk_rows", new="loss_chunk_size")
    assert list(renamed_notes(("chunk_rows", "chunk_rows"))) == [note]


def test_runs_and_checkpoints_that_were_written_with_it_are_read(record: Callable[..., RunRecord]) -> None:
    run = record({"loss_chunk_size": 64})
    written = run.model_dump(mode="json")
    written["config"]["chunk_rows"] = written["config"].pop("loss_chunk_size")
    assert RunRecord.model_validate_json(json.dumps(written)) == run
    shape = run.config.model_shape(64)
    dumped = shape.model_dump()
    dumped["with_bias"] = dumped.pop("bias")
    assert ModelShape.model_validate(dumped) == shape


def test_logs_that_have_it_are_of_the_present_name() -> None:
    reported = overriding("chunk_rows", "64")
    assert reported is not None
    assert (reported.key, reported.value) == ("loss_chunk_size", 64)
    read = TypeAdapter(LoggedSettings).validate_python({"chunk_rows": 64, "theirs": 1})
    assert read == {"loss_chunk_size": 64, "theirs": 1}


def test_what_is_found_by_its_settings_is_found_under_either_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """With chunk_rows as the only name there ever was, a journal lay where it lies now."""
    before, after = build_config({"loss_chunk_size": 64}), build_config({"loss_chunk_size": 32})
    place, asked = attribution.pair_folder(before, after, tmp_path), tuning.settings_of(before)
    assert asked["chunk_rows"] == 64
    monkeypatch.setattr(Declared, "present_names", classmethod(lambda _: {}))
    assert attribution.pair_folder(before, after, tmp_path) != place
    assert tuning.settings_of(before)["loss_chunk_size"] == 64


def test_an_attribution_names_factors_by_their_present_names() -> None:
    fields = attribution.AttributionQuestion.model_fields
    assert {"factors", "ignored", "held"} <= fields.keys()
    assert TypeAdapter(attribution.SettingKey).validate_python("chunk_rows") == "loss_chunk_size"


def test_no_former_name_is_the_present_name_of_another() -> None:
    names = [old for each in RunConfig.attributes().values() for old in each.aliases]
    assert len(set(names)) == len(names)
    assert not set(names) & RunConfig.model_fields.keys()
