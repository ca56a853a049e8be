"""Every language has every message, whole: places, plural forms, nothing empty, no English left over."""

import ast
import re
from collections import Counter
from pathlib import Path
from typing import Any, get_args

import pytest
from babel.messages.plurals import get_plural

from nanodyno.analysis.findings import FINDINGS, Unit
from nanodyno.cli.options import Lang
from nanodyno.messages import numbers
from nanodyno.messages.findings import VARIANTS
from nanodyno.messages.language import ENGLISH, LANGUAGES, Language
from nanodyno.messages.texts import texts
from nanodyno.records.probe import DisturbanceCode
from nanodyno.report import disturbances

SOURCE = Path(__file__).parents[2] / "src" / "nanodyno"
OTHERS = [each for each in LANGUAGES.values() if each is not ENGLISH]
ENGLISH_ONLY = {"the", "of", "and", "is", "are", "with", "not", "that", "which", "per", "it", "was"}
STAYS = {
    "autograd", "eager", "fp8", "MFU",
    "GB", "GB/s", "PB/s", "TB/s", "MB/s", "kB/s", "B/s", "GiB", "KiB", "MiB", "ms", "s", "tok/s", "ms/iter",
    "ms/micro-batch", "tokens/s", "{time}/micro-batch", "swap {size}", "compute capability {number}",
    "{date} {time} UTC", "{kind} attention", "micro-batch", "loss", "val loss", "attention", "context",
    "matmul", "graph", "offload", "bf16 moments", "bfloat16 moments", "moments", "ReLU²", "run",
    "CUDA graph", "fused", "bf16 residual", "optimizer moments", "confirmation", "checkpoints",
}  # fmt: skip
"""What every community takes over from English as it is."""
STAYS_IN = {
    "fr": {
        "machine", "fragmentation", "activations", "tokens", "params", "gradients", "GPU",
        "{number} tokens", "copies", "batch", "exact", "minutes", "plan", "micro-batch x accumulation",
        "attribution", "Contradictions", "learning rate", "LR range test", "seeds", "kernels",
        "batch x steps", "{n} SMs", "matmul {size} x {size}, {dtype}",
        "{n} h", "{n} min", "{n} s", "{n} threads", "base", "verdict", "total",
        "cautious weight decay", "recompute", "tuning",
        "recompute {level}", "recompute light", "recompute mlp", "recompute full",
    },
    "hi": {
        "{n} head", "{n} heads", "{n} KV heads", "train loss", "loss spike", "learning rate",
        "{optimizer} (learning rate {rate})", "embeddings (learning rate {rate})",
        "attention window {window} ({pattern})", "recompute", "recompute {level}", "recompute light",
        "recompute mlp", "recompute full", "batch", "fragmentation", "micro-batch x accumulation",
        "{allocated} allocated, {reserved} reserved", "GPU", "GEMM autotuning", "cautious weight decay",
        "embedding init std {deviation}", "logit softcap {cap}", "zero-init projections", "{n} SMs",
    },
    "ja": {"GPU", "train loss", "logit softcap {cap}", "cautious weight decay", "{n} SMs"},
    "zh-Hant": {
        "optimizer", "bfloat16 residual stream", "GEMM autotuning", "cautious weight decay",
        "logit softcap {cap}", "batch", "profiling", "load average {load}", "loss spike", "GPU",
    },
}  # fmt: skip


def constants() -> Counter[str]:
    trees = (ast.parse(path.read_text("utf-8")) for path in SOURCE.rglob("*.py"))
    nodes = (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Constant))
    return Counter(node.value for node in nodes if isinstance(node.value, str))


def forms(language: Language) -> dict[str, tuple[str, ...]]:
    return dict(texts(language.locale).forms)


def places(text: str) -> set[str]:
    return set(re.findall(r"\{(\w+)\}", text))


def letters(text: str) -> str:
    return re.sub(r"[\W\d_]", "", re.sub(r"\{\w+\}", "", text))


each_language = pytest.mark.parametrize("language", OTHERS, ids=lambda each: each.code)


def test_the_languages_are_those_that_the_help_names() -> None:
    option: Any = get_args(Lang)[1]
    assert sorted(LANGUAGES) == ["ar", "en", "fr", "hi", "ja", "zh-Hant"]
    assert [code for code in LANGUAGES if not re.search(rf"\b{code}\b", option.help)] == []


def test_every_message_is_said_somewhere() -> None:
    known = constants()
    assert [
        message
        for message in forms(ENGLISH)
        if not message.startswith(("unit.", "finding.")) and message not in known
    ] == []


def test_whatever_is_said_has_a_text() -> None:
    """By the areas of the ids; an id is never part of a longer text."""
    areas = {message.partition(".")[0] for message in forms(ENGLISH)}
    ids = re.compile(rf"({'|'.join(sorted(areas))})(\.[a-z0-9-]+)+")
    files = re.compile(r".*\.(json|jsonl|csv|html|css|js|svg|md|py|toml|log|bin|lock|pt|po|txt|safetensors)")
    said = [each for each in constants() if ids.fullmatch(each) and not files.fullmatch(each)]
    assert [each for each in said if each not in forms(ENGLISH)] == []


@each_language
def test_it_has_every_message_and_none_that_is_gone(language: Language) -> None:
    assert forms(language).keys() == forms(ENGLISH).keys()


@pytest.mark.parametrize("language", LANGUAGES.values(), ids=lambda each: each.code)
def test_messages_are_in_order_each_once_and_none_is_empty(language: Language) -> None:
    source = (SOURCE / "messages" / f"{language.locale}.po").read_text("utf-8")
    ids = re.findall(r'^msgid "(.+)"$', source, re.MULTILINE)
    assert ids == sorted(set(ids))
    assert ids == list(forms(language))
    assert [message for message, found in forms(language).items() if not all(found)] == []


@each_language
def test_every_place_is_kept(language: Language) -> None:
    """A count may be a word: one, two."""
    for message, found in forms(language).items():
        english = forms(ENGLISH)[message]
        free = {"n"} if len(english) > 1 else set[str]()
        for form in found:
            assert places(form) | free == places(list(english)[-1]) | free, form


@each_language
def test_it_has_the_plural_forms_of_its_grammar(language: Language) -> None:
    number = get_plural(language.locale).num_plurals
    counted = [message for message, found in forms(ENGLISH).items() if len(found) > 1]
    assert {len(forms(language)[message]) for message in counted} == {number}
    assert {texts(language.locale).form_of(n) for n in range(200)} == set(range(number))


@each_language
def test_no_english_is_left_over(language: Language) -> None:
    english = forms(ENGLISH)
    same = {
        english[message][-1] for message, found in forms(language).items() if {*found} & {*english[message]}
    }
    assert {text for text in same if letters(text)} - STAYS - STAYS_IN.get(language.code, set()) == set()
    for found in forms(language).values():
        for form in found:
            plain = re.sub(r"`[^`]*`|\{\w+\}", "", form)
            assert ENGLISH_ONLY.isdisjoint(re.findall(r"\b[a-z]+\b", plain)), form


def texts_of(code: str) -> dict[str, tuple[str, ...]]:
    """Of a finding: its own, or those of its variants."""
    whole = f"finding.{code}"
    return {
        message: found
        for message, found in forms(ENGLISH).items()
        if (message == whole or message.startswith(f"{whole}.")) and not message.endswith(".fix")
    }


def test_every_code_of_a_finding_has_words() -> None:
    assert [code for code in FINDINGS if not texts_of(code)] == []
    assert [
        code for code in FINDINGS if code not in VARIANTS and list(texts_of(code)) != [f"finding.{code}"]
    ] == []
    said = {message for code in FINDINGS for message in texts_of(code)}
    fixes = {f"finding.{code}.fix" for code in FINDINGS}
    of_numbers = {
        message for message in forms(ENGLISH) if message.startswith(("finding.number.", "finding.noise-"))
    }
    known = {message for message in forms(ENGLISH) if message.startswith("finding.")}
    assert known - said - fixes - of_numbers == set()
    assert set(disturbances.WORDS) == set(get_args(DisturbanceCode))


@pytest.mark.parametrize("code", FINDINGS)
def test_a_finding_fills_every_place_of_its_texts_and_no_other(code: str) -> None:
    filled = {*FINDINGS[code].places, "run", "other", "runs", "n"}
    named = {place for found in texts_of(code).values() for text in found for place in places(text)}
    assert {re.sub("_[01]$", "", place) for place in named} - {
        re.sub("_[01]$", "", each) for each in filled
    } == set()
    assert {each for each in FINDINGS[code].places if each not in named and f"{each}_0" not in named} == set()
    plural = any(len(found) > 1 for found in texts_of(code).values())
    assert plural == (FINDINGS[code].counted is not None)


def test_every_unit_is_written() -> None:
    assert {*numbers._UNITS, *numbers._OF_SEVERAL} == {*get_args(Unit)}


def test_french_counts_none_as_one() -> None:
    assert [LANGUAGES["fr"].say_plural("common.thread-count", n) for n in (0, 1, 2)] == [
        "0 thread",
        "1 thread",
        "2 threads",
    ]


def test_french_marks_are_not_parted_from_their_words() -> None:
    """Before a colon an unbreakable space, before other double marks a narrow one."""
    found = [text for each in forms(LANGUAGES["fr"]).values() for text in each]
    assert [text for text in found if re.search(r"\S [:;?!%](\W|$)", text)] == []


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
    assert LANGUAGES["ar"].say_plural("common.thread-count", n) == words
