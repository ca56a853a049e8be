"""Every language has every message, whole: places, plural forms, nothing fuzzy, no English left over."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any, get_args

import pytest
from babel.messages.catalog import Catalog
from babel.messages.plurals import get_plural
from babel.messages.pofile import read_po

from nanodyno.analysis.findings import Code
from nanodyno.cli.options import Lang
from nanodyno.records.probe import DisturbanceCode
from nanodyno.report import (
    attribute_words,
    disturbances,
    doctor_words,
    finding_words,
    forecast_words,
    tune_words,
)
from nanodyno.report.catalogue import translations
from nanodyno.report.language import ENGLISH, LANGUAGES, Language, Plural

SOURCE = Path(__file__).parents[2] / "src" / "nanodyno"
OTHERS = [each for each in LANGUAGES.values() if each is not ENGLISH]
ENGLISH_ONLY = {"the", "of", "and", "is", "are", "with", "not", "that", "which", "per", "it", "was"}
STAYS = {
    "GB", "GB/s", "PB/s", "TB/s", "MB/s", "kB/s", "B/s", "GiB", "KiB", "MiB", "ms", "s", "tok/s", "ms/iter",
    "ms/micro-batch", "tokens/s", "{time}/micro-batch", "swap {size}", "compute capability {number}",
    "{date} {time} UTC", "{kind} attention", "micro-batch", "loss", "val loss", "attention", "context",
    "matmul", "graph", "offload", "bf16 moments", "bfloat16 moments", "moments",
    # the same word in French
    "machine", "fragmentation", "activations", "tokens", "params", "{number} tokens", "copies",
    "batch", "exact", "minutes", "plan", "micro-batch x accumulation",
    "{big} h {small} min", "{big} min {small} s", "{n} threads",
    # the same in Hindi
    "{n} head", "{n} heads",
}  # fmt: skip
"""What a community takes over from English as it is."""

Ids = set[tuple[str | None, str | tuple[str, str]]]


@cache
def messages() -> Ids:
    """Read off the syntax tree, and not by the extraction that makes the catalogues."""
    return {found for path in SOURCE.rglob("*.py") for found in _in(ast.parse(path.read_text("utf-8")))}


def _in(tree: ast.AST) -> Iterator[tuple[str | None, str | tuple[str, str]]]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        function = node.func
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        texts = [each.value for each in node.args if isinstance(each, ast.Constant)]
        if not texts or not isinstance(node.args[0], ast.Constant):
            continue
        first = str(texts[0])
        if name in ("say", "message"):
            yield None, first
        elif name in ("say_plural", "Plural"):
            yield None, (first, str(texts[1]))
        elif name == "say_in":
            yield first, str(texts[1])


@cache
def catalogue(language: Language) -> Catalog:
    source = SOURCE / "report" / "catalogues" / f"{language.locale}.po"
    return read_po(BytesIO(source.read_bytes()), locale=language.locale, abort_invalid=True)


def entries(language: Language) -> list[Any]:
    return [each for each in catalogue(language) if each.id]


def forms(entry: Any) -> tuple[str, ...]:
    return (entry.string,) if isinstance(entry.string, str) else tuple(entry.string)


def english(entry: Any) -> tuple[str, ...]:
    return (entry.id,) if isinstance(entry.id, str) else tuple(entry.id)


def places(text: str) -> set[str]:
    return set(re.findall(r"\{(\w+)\}", text))


def letters(text: str) -> str:
    return re.sub(r"[\W\d_]", "", re.sub(r"\{\w+\}", "", text))


each_language = pytest.mark.parametrize("language", OTHERS, ids=lambda each: each.code)


def test_the_languages_are_those_that_the_help_names() -> None:
    option: Any = get_args(Lang)[1]
    assert sorted(LANGUAGES) == ["ar", "en", "fr", "hi", "ja", "zh-Hant"]
    assert [code for code in LANGUAGES if not re.search(rf"\b{code}\b", option.help)] == []


@each_language
def test_it_has_every_message_and_none_that_is_gone(language: Language) -> None:
    assert {(each.context, each.id) for each in entries(language)} == messages()


@each_language
def test_nothing_is_empty_or_fuzzy(language: Language) -> None:
    assert [each.id for each in entries(language) if each.fuzzy or not all(forms(each))] == []


@each_language
def test_every_place_is_kept(language: Language) -> None:
    """A count may be a word: one, two."""
    for each in entries(language):
        plural = len(english(each)) == 2
        wanted = places(english(each)[-1])
        for form in forms(each):
            found = places(form) | ({"n"} if plural else set())
            assert found == wanted | ({"n"} if plural else set()), form


@each_language
def test_it_has_the_plural_forms_of_its_grammar(language: Language) -> None:
    number = get_plural(language.locale).num_plurals
    assert catalogue(language).num_plurals == number
    assert {len(forms(each)) for each in entries(language) if len(english(each)) == 2} == {number}


@each_language
def test_no_english_is_left_over(language: Language) -> None:
    same = {english(each)[-1] for each in entries(language) if set(forms(each)) & set(english(each))}
    assert {text for text in same if letters(text)} - STAYS == set()
    for each in entries(language):
        for form in forms(each):
            plain = re.sub(r"`[^`]*`|\{\w+\}", "", form)
            assert ENGLISH_ONLY.isdisjoint(re.findall(r"\b[a-z]+\b", plain)), form


def test_every_code_of_a_finding_has_words() -> None:
    worded = [*finding_words.WORDS, *finding_words.COMPOSED, *forecast_words.WORDS, *attribute_words.WORDS]
    worded += [*tune_words.WORDS, *doctor_words.WORDS]
    assert sorted(worded) == sorted(get_args(Code))
    assert set(disturbances.WORDS) == set(get_args(DisturbanceCode))


@each_language
def test_every_code_is_worded_in_it(language: Language) -> None:
    tables = (finding_words.WORDS, forecast_words.WORDS, tune_words.WORDS, attribute_words.WORDS)
    reported = [words for table in (*tables, disturbances.WORDS) for words in table.values()]
    reported += [words for what, how in doctor_words.WORDS.values() for words in (what, how) if words]
    catalogue = translations(language.locale)
    for words in reported:
        if isinstance(words, Plural):
            assert catalogue.ngettext(words.one, words.many, 5) != words.many
        else:
            assert catalogue.gettext(words) != words


@pytest.mark.parametrize(
    ("n", "words"),
    [
        (0, "0 خيط"),
        (1, "خيط واحد"),
        (2, "خيطان"),
        (3, "3 خيوط"),
        (11, "11 خيطًا"),
        (100, "100 خيط"),
        (103, "103 خيوط"),
    ],
)
def test_arabic_counts_in_six_forms(n: int, words: str) -> None:
    assert LANGUAGES["ar"].say_plural("{n} thread", "{n} threads", n) == words


def test_french_counts_none_as_one() -> None:
    assert [LANGUAGES["fr"].say_plural("{n} core", "{n} cores", n)[:1] for n in (0, 1)] == ["0", "1"]
    assert LANGUAGES["fr"].say_plural("{n} thread", "{n} threads", 0) == "0 thread"
    assert LANGUAGES["fr"].say_plural("{n} thread", "{n} threads", 2) == "2 threads"


def test_french_marks_are_not_parted_from_their_words() -> None:
    """Before a colon an unbreakable space, before other double marks a narrow one."""
    found = [text for entry in entries(LANGUAGES["fr"]) for text in forms(entry)]
    assert [text for text in found if re.search(r"\S [:;?!%](\W|$)", text)] == []
