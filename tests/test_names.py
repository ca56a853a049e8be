"""Names by GLOSSARY.md: no public type twice, no forbidden word in a name, and old names still accepted."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from nanodyno.cli.options import OLD_OPTIONS
from nanodyno.config import RunConfig, build_config
from nanodyno.records.types import ArithmeticRecord

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "nanodyno"
NEVER = {
    "foretold", "foretell", "untold", "corner", "corners", "schooling", "lesson", "lessons", "errand",
    "errands",
    "entrant", "entrants", "sentry", "wishes", "card", "cards", "optimiser",
}  # fmt: skip
"""GLOSSARY.md's words that no name has."""
NEVER_WHOLE = {"beyond_hand", "loss_rows", "card_share", "told_parameters"}
WORDS = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")
CODE = re.compile(r"[a-z][a-z0-9]*([_-][a-z0-9]+)+")


def modules() -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted(SOURCE.rglob("*.py")):
        yield path, ast.parse(path.read_text(encoding="utf-8"))


def public_types(module: ast.Module) -> Iterator[str]:
    """Classes and aliases; a type variable is neither."""
    for node in module.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield node.name
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            variable = isinstance(node.value, ast.Call) and ast.unparse(node.value.func) == "TypeVar"
            if re.fullmatch(r"[A-Z]\w*[a-z]\w*", name) and not variable:
                yield name


def test_no_public_type_name_is_defined_twice() -> None:
    found = Counter(name for _, module in modules() for name in public_types(module))
    assert len(found) > 100
    assert [name for name, times in found.items() if times > 1] == []


def names_in(module: ast.Module) -> Iterator[str]:
    """Identifiers, and strings that are keys or codes; but for where an old name is declared to be one."""
    old = {id(each) for node in ast.walk(module) if declares_old(node) for each in ast.walk(node)}
    for node in ast.walk(module):
        if id(node) in old:
            continue
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.arg | ast.keyword) and node.arg:
            yield node.arg
        elif isinstance(node, ast.ClassDef | ast.FunctionDef):
            yield node.name
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and CODE.fullmatch(node.value):
            yield node.value


def declares_old(node: ast.AST) -> bool:
    """`aliases=(...)`, `formerly("old", ...)` and tables named OLD_..."""
    if isinstance(node, ast.keyword):
        return node.arg == "aliases"
    if isinstance(node, ast.Call):
        return ast.unparse(node.func) == "formerly"
    target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
    return isinstance(target, ast.Name) and target.id.strip("_").startswith("OLD_")


def forbidden(name: str) -> bool:
    return name in NEVER_WHOLE or any(word.lower() in NEVER for word in WORDS.findall(name))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("last_corner", True),
        ("CornerLost", True),
        ("corner-failed", True),
        ("discard", False),
        ("mfu", False),
    ],
)
def test_a_forbidden_word_is_found_in_a_compound(name: str, expected: bool) -> None:
    assert forbidden(name) is expected


def test_no_name_has_a_forbidden_word() -> None:
    found = {
        f"{path.relative_to(SOURCE)}: {name}"
        for path, module in modules()
        if path.parent.name != "html"  # whose cards are those of a page
        for name in {*names_in(module), path.stem}
        if forbidden(name)
    }
    assert sorted(found) == []


def test_settings_and_options_have_no_forbidden_word() -> None:
    options = (ROOT / "tests" / "cli" / "options.txt").read_text(encoding="utf-8").split()
    assert [name for name in (*RunConfig.model_fields, *options) if forbidden(name)] == []


def test_a_renamed_setting_is_accepted_by_its_old_name() -> None:
    config = build_config({"loss_rows": 128, "products": "torch"})
    assert (config.loss_chunk_size, config.gemm_algorithm) == (128, "torch")
    stored = config.model_dump() | {"loss_rows": 64}
    del stored["loss_chunk_size"]
    assert RunConfig.model_validate(stored).loss_chunk_size == 64


def test_a_stored_record_is_read_by_its_old_keys() -> None:
    stored = {"device": "cuda", "dtype": "bfloat16", "compiled": False, "products": "measured"}
    assert ArithmeticRecord.model_validate(stored).gemm_algorithm == "measured"


def test_the_old_options_are_in_the_table() -> None:
    assert OLD_OPTIONS["plan"]["--cards"] == "--gpus"
    assert OLD_OPTIONS["tune"]["--effective-batch"] == "--critical-batch-size"
