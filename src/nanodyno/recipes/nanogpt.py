"""nanoGPT's config files: Python read as text, never run."""

import ast
from collections.abc import Iterator

from nanodyno.config import SETTINGS, ConfigError, RunConfig, is_ignored, present_name
from nanodyno.errors import NanodynoError
from nanodyno.recipes.arithmetic import ConfigValue, Unreadable, evaluate
from nanodyno.recipes.settings import Settings

NANOGPT_DEFAULTS = {
    key: each.nanogpt_default for key, each in SETTINGS.items() if each.nanogpt_default is not None
}
"""What a nanoGPT file means by leaving a key out, where our own default or derivation would differ."""

HINT = "the file is read, never run: write a plain value or simple arithmetic there"


def read_nanogpt(name: str, text: str, where: str) -> Settings:
    """A config file's settings with nanoGPT's defaults underneath; `where` names the file in errors."""
    reader = _Reader(text, where)
    for statement in _parse(text, where).body:
        reader.read(statement)
    if reader.faults:
        raise ConfigError(reader.faults.values(), HINT)
    given = reader.settings()
    values = RunConfig.renamed(given)
    assumed = {key: value for key, value in NANOGPT_DEFAULTS.items() if key not in values}
    if "eval_tokens" in values:
        assumed.pop("eval_iters", None)
    former = tuple(key for key in given if present_name(key) != key)
    return Settings(name, assumed | values, tuple(reader.ignored), frozenset(assumed), renamed=former)


def _parse(text: str, where: str) -> ast.Module:
    try:
        return ast.parse(text, filename=where)
    except SyntaxError as error:
        raise NanodynoError(f"{where}, line {error.lineno}: not valid Python: {error.msg}") from None
    except (ValueError, MemoryError, RecursionError):
        raise NanodynoError(f"{where}: not a config file: Python's parser gives up on it") from None


class _Reader:
    """Goes through a file's statements in order and keeps what its names stand for."""

    def __init__(self, text: str, where: str) -> None:
        self.lines = text.split("\n")
        self.where = where
        self.names: dict[str, ConfigValue] = {}
        self.helpers: set[str] = set()  # names that other values were made from
        self.ignored: dict[str, None] = {}  # a dict because it keeps the order and no doubles
        self.faults: dict[str, str] = {}

    def settings(self) -> dict[str, object]:
        """Our keys, and names that nothing uses: those may be misspelt keys, and building tells."""
        return {
            name: value
            for name, value in self.names.items()
            if present_name(name) in RunConfig.model_fields
            or not (name in self.helpers or name.startswith("_") or is_ignored(name))
        }

    def read(self, statement: ast.stmt) -> None:
        match statement:
            case ast.Assign(targets=targets, value=value) if all(isinstance(t, ast.Name) for t in targets):
                self._assign(statement, [t.id for t in targets if isinstance(t, ast.Name)], value)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                self._assign(statement, [name], value)
            case ast.AugAssign(target=ast.Name(id=name), op=op, value=value):
                self._assign(statement, [name], ast.BinOp(ast.Name(name, ast.Load()), op, value))
            case ast.Expr(value=ast.Constant()) | ast.Pass():
                pass  # a docstring
            case _:
                self._pass_over(statement)

    def _assign(self, statement: ast.stmt, names: list[str], expression: ast.expr) -> None:
        self.ignored.update(dict.fromkeys(filter(is_ignored, names)))
        try:
            value = evaluate(expression, self.names)
        except Unreadable as reason:
            if not all(map(is_ignored, names)):
                self._pass_over(statement, str(reason))
            for name in names:
                self.names.pop(name, None)
            return
        self.helpers |= {node.id for node in ast.walk(expression) if isinstance(node, ast.Name)} - {*names}
        for name in names:
            self.names[name] = value
            self.faults.pop(name, None)

    def _pass_over(self, statement: ast.stmt, reason: str = "is not a plain assignment") -> None:
        """Note what has no value for us; a fault when one of our keys may hang on it."""
        line = self.lines[statement.lineno - 1].strip()
        place = f"{self.where}, line {statement.lineno}"
        bound = set(_bound_names(statement))
        settings = {name for name in bound if present_name(name) in RunConfig.model_fields}
        for key in sorted(settings):
            self.faults[key] = f"{key}: {place}: `{line}` {reason}"
        if not settings and _may_set_anything(statement):
            self.faults[place] = f"{place}: `{line}` may set any key, and is not run"
        elif not settings:
            self.ignored[f"line {statement.lineno}: {line}"] = None
        for name in bound:
            self.names.pop(name, None)


def _bound_names(statement: ast.stmt) -> Iterator[str]:
    """Every name that running the statement could set or delete."""
    for node in ast.walk(statement):
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                yield name
            case ast.alias(name=name, asname=asname):
                yield asname or name.split(".")[0]
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name


def _may_set_anything(statement: ast.stmt) -> bool:
    """Whether other settings hide behind a statement, such as a base file that it would execute."""
    return any(
        (isinstance(node, ast.alias) and node.name == "*")
        or (isinstance(node, ast.Name) and node.id in {"exec", "globals"})
        for node in ast.walk(statement)
    )
