"""Every sentence about runs is true of one log and false of another, which both go through the importer.

A new code needs an entry in one of the tables of tests/analysis/sentences, and nothing else here.
"""

import re
from pathlib import Path

import pytest
from tests.analysis.sentences.alone import ALONE
from tests.analysis.sentences.forecasts import FORECASTS
from tests.analysis.sentences.logs import Sentence
from tests.analysis.sentences.pairs import PAIRS

from nanodyno.analysis.findings import FINDINGS, OF_ATTRIBUTIONS, OF_MACHINES, OF_SEARCHES
from nanodyno.messages.findings import words

TABLE: dict[str, Sentence] = {**ALONE, **PAIRS, **FORECASTS}
ELSEWHERE = {*OF_SEARCHES, *OF_ATTRIBUTIONS, *OF_MACHINES}
"""Of searches, attributions and machines, which have tests of their own."""


def test_every_code_that_is_said_of_runs_is_in_the_table() -> None:
    assert TABLE.keys() == {*FINDINGS} - ELSEWHERE


@pytest.mark.parametrize("code", TABLE)
def test_a_sentence_is_said_where_it_is_true_with_its_numbers_and_not_where_it_is_false(
    code: str, tmp_path: Path
) -> None:
    sentence = TABLE[code]
    found = [each for each in sentence.holds.findings(tmp_path / "holds") if each.code == code]
    assert found
    numbers = found[0].numbers
    assert {key: numbers[key] for key in sentence.numbers} == sentence.numbers
    said = words(found[0])
    assert said == said.strip()
    assert "{" not in said
    assert code not in [each.code for each in sentence.fails.findings(tmp_path / "fails")]


def test_the_documentation_lists_every_code_of_a_comparison_with_its_severity(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs" / "findings.md").read_text(encoding="utf-8")
    listed = dict(re.findall(r"^\| `([a-z0-9-]+)` \| (\w+) \|", text, re.MULTILINE))
    said = {
        each.code: each.severity
        for code, sentence in (ALONE | PAIRS).items()
        for each in sentence.holds.findings(tmp_path / code)
        if each.code not in FORECASTS
    }
    assert listed == said
