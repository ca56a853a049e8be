"""nanoGPT's config files and its train.py: Python read as text, never run."""

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
NO_PYTHON = "a nanoGPT config file or train.py is expected; settings in TOML go into a .toml file"
CONFIGURATOR = "configurator"
"""What nanoGPT's train.py executes after its settings: a name assigned below it is no setting."""


def read_nanogpt(name: str, text: str, where: str, lenient: bool = False) -> Settings:
    """Return a file's settings with nanoGPT's defaults underneath; `where` names the file in errors.

    A setting whose value only Python could make is an error. If `lenient`, it is left out instead: a run that
    is over had some value, and it stays unknown.
    """
    reader = _Reader(text, where)
    for statement in _settings_block(_parse(text, where)):
        reader.read(statement)
    if reader.faults and not lenient:
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
        raise NanodynoError(
            f"{where}, line {error.lineno}: not valid Python: {error.msg}", NO_PYTHON
        ) from None
    except (ValueError, MemoryError, RecursionError):
        raise NanodynoError(
            f"{where}: not a config file: Python's parser gives up on it", NO_PYTHON
        ) from None


def _settings_block(module: ast.Module) -> list[ast.stmt]:
    """Return the statements that may set something: all of a config file, the top of a training script.

    A script is told by what it imports. Its settings end where it collects them for its configurator, or, if
    that was taken out, where it begins to work: at the first loop, `with` or call.
    """
    body = module.body
    for place, statement in enumerate(body):
        if _collects_settings(statement):
            return body[:place]
    if not any(_imports_torch(statement) for statement in body):
        return body
    works = (ast.For, ast.While, ast.With, ast.Try)
    for place, statement in enumerate(body):
        calls = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)
        if isinstance(statement, works) or calls:
            return body[:place]
    return body


def _collects_settings(statement: ast.stmt) -> bool:
    match statement:
        case ast.Assign(targets=[ast.Name(id="config_keys")]):
            return True
        case ast.Expr(value=ast.Call(func=ast.Name(id="exec"))):
            texts = (node.value for node in ast.walk(statement) if isinstance(node, ast.Constant))
            return any(isinstance(text, str) and CONFIGURATOR in text for text in texts)
        case _:
            return False


def _imports_torch(statement: ast.stmt) -> bool:
    names = [alias.name for alias in statement.names] if isinstance(statement, ast.Import) else []
    if isinstance(statement, ast.ImportFrom):
        names = [statement.module or ""]
    return any(name.split(".")[0] == "torch" for name in names)


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
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)) if len(
                targets
            ) == len(values) and all(isinstance(t, ast.Name) for t in targets):
                self._unpack(statement, [t.id for t in targets if isinstance(t, ast.Name)], values)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                self._assign(statement, [name], value)
            case ast.AugAssign(target=ast.Name(id=name), op=op, value=value):
                self._assign(statement, [name], ast.BinOp(ast.Name(name, ast.Load()), op, value))
            case ast.Expr(value=ast.Constant()) | ast.Pass():
                pass  # a docstring
            case _:
                self._pass_over(statement)

    def _unpack(self, statement: ast.stmt, names: list[str], expressions: list[ast.expr]) -> None:
        """Read `beta1, beta2 = 0.9, 0.95`, whose right side is made before anything is assigned."""
        used = {node.id for each in expressions for node in ast.walk(each) if isinstance(node, ast.Name)}
        if used & {*names}:
            self._pass_over(statement)
            return
        for name, expression in zip(names, expressions, strict=True):
            self._assign(statement, [name], expression)

    def _assign(self, statement: ast.stmt, names: list[str], expression: ast.expr) -> None:
        self.ignored.update(dict.fromkeys(filter(is_ignored, names)))
        try:
            value = evaluate(expression, self.names)
        except Unreadable as reason:
            if _asks_the_machine(names, expression):
                self.ignored[f"line {statement.lineno}: {self.lines[statement.lineno - 1].strip()}"] = None
            elif not all(map(is_ignored, names)):
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


def _asks_the_machine(names: list[str], expression: ast.expr) -> bool:
    """Return whether a value is left to the GPU, as nanoGPT's own dtype is, where our default is too."""
    asks = any(isinstance(node, ast.Name) and node.id == "torch" for node in ast.walk(expression))
    fields = RunConfig.model_fields
    return asks and all(name in fields and fields[name].default == "auto" for name in names)


def _bound_names(statement: ast.stmt) -> Iterator[str]:
    """Every name that running the statement could set or delete."""
    definitions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    if isinstance(statement, definitions) and not any(isinstance(n, ast.Global) for n in ast.walk(statement)):
        yield statement.name  # what it assigns inside is its own
        return
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
