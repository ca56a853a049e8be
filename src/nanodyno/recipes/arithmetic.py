"""Plain values and simple arithmetic read from Python's syntax tree, which never runs any of it."""

import ast
import math
import operator
from collections.abc import Callable, Mapping

ConfigValue = bool | int | float | str | None

DEEPEST = 100
LONGEST_TEXT = 4096
LARGEST_BITS = 128

OPERATORS: dict[type[ast.operator], Callable[[int | float, int | float], object]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}


class Unreadable(Exception):
    """Why an expression has no value without running it, in words that follow "it"."""


def evaluate(node: ast.expr, names: Mapping[str, ConfigValue], depth: int = 0) -> ConfigValue:
    """The value of a literal, a known name, or arithmetic on them; anything else is Unreadable."""
    if depth > DEEPEST:
        raise Unreadable("is nested too deeply")
    match node:
        case ast.Constant(value=bool() | int() | float() | str() | None as value):
            return _bounded(value)
        case ast.Name(id=name):
            if name not in names:
                raise Unreadable(f"uses {name}, which has no plain value above it")
            return names[name]
        case ast.UnaryOp(op=ast.UAdd() | ast.USub() as sign, operand=operand):
            value = _number(evaluate(operand, names, depth + 1))
            return -value if isinstance(sign, ast.USub) else value
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
            return _combine(op, evaluate(left, names, depth + 1), evaluate(right, names, depth + 1))
        case _:
            raise Unreadable("is neither a plain value nor simple arithmetic")


def parse_value(text: str) -> ConfigValue:
    """The value that a text spells in Python's syntax; Unreadable when it spells none."""
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise Unreadable("is not an expression") from None
    return evaluate(tree.body, {})


def _combine(op: ast.operator, left: ConfigValue, right: ConfigValue) -> ConfigValue:
    if isinstance(op, ast.Add) and isinstance(left, str) and isinstance(right, str):
        return _bounded(left + right)
    a, b = _number(left), _number(right)
    if isinstance(op, ast.Pow) and isinstance(a, int) and isinstance(b, int):
        _check_power(a, b)
    try:
        result = OPERATORS[type(op)](a, b)
    except ZeroDivisionError:
        raise Unreadable("divides by zero") from None
    except OverflowError:
        raise Unreadable("is too large") from None
    if not isinstance(result, int | float):
        raise Unreadable("is not a real number")
    return _bounded(result)


def _check_power(base: int, exponent: int) -> None:
    """Refuse before computing: a power is the one operation that can take all time and memory."""
    if abs(base) > 1 and base.bit_length() * abs(exponent) > 2 * LARGEST_BITS:
        raise Unreadable("is too large")


def _number(value: ConfigValue) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Unreadable("calculates with something that is not a number")
    return value


def _bounded(value: ConfigValue) -> ConfigValue:
    """The value, unless it grew beyond any setting: repeated doubling must not fill the memory."""
    too_large = (
        (isinstance(value, int) and value.bit_length() > LARGEST_BITS)
        or (isinstance(value, float) and not math.isfinite(value))
        or (isinstance(value, str) and len(value) > LONGEST_TEXT)
    )
    if too_large:
        raise Unreadable("is too large")
    return value
