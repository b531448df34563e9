"""Templates of scripted models: text with ``{{ expression }}``, computed and never executed.

An expression is arithmetic, comparison and a few functions over the names of one call. It is
parsed by Python's own parser and walked node by node; whatever is not listed here is refused
when the file is read.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal, DivisionByZero, InvalidOperation, getcontext
from typing import Any

MAX_EXPONENT = 64
MAX_TEXT_CHARS = 100_000
MARK = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
NUMBER = re.compile(r"[+-]?(\d{1,40})(\.\d{1,40})?")

BINARY: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
COMPARE: Mapping[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda item, box: item in box,
    ast.NotIn: lambda item, box: item not in box,
}
FUNCTIONS = ("abs", "round", "min", "max", "int", "str", "len", "lower", "upper", "random")


class TemplateError(Exception):
    """The expression cannot be read, or cannot be computed for this call."""


@dataclass(frozen=True)
class Template:
    """``parts`` alternate between literal text and expressions."""

    source: str
    parts: tuple[str | ast.expr, ...]

    @classmethod
    def parse(cls, source: str) -> Template:
        parts: list[str | ast.expr] = []
        for index, piece in enumerate(MARK.split(source)):
            if index % 2 == 0:
                if piece:
                    parts.append(piece)
                continue
            try:
                tree = ast.parse(piece.strip(), mode="eval")
            except (SyntaxError, ValueError) as error:
                raise TemplateError(f"'{{{{{piece}}}}}' is not an expression: {error}") from None
            _check(tree.body, piece.strip())
            parts.append(tree.body)
        return cls(source, tuple(parts))

    def names(self) -> set[str]:
        """The names that the expressions read."""
        trees = [part for part in self.parts if isinstance(part, ast.expr)]
        return {
            node.id
            for tree in trees
            for node in ast.walk(tree)
            if isinstance(node, ast.Name) and node.id not in FUNCTIONS
        }

    def render(self, names: Mapping[str, Any], randoms: Callable[[int, int], int]) -> str:
        return "".join(
            part if isinstance(part, str) else text_of_value(_value(part, names, randoms))
            for part in self.parts
        )

    def value(self, names: Mapping[str, Any], randoms: Callable[[int, int], int]) -> Any:
        """One lone expression keeps its type; anything else is text."""
        if len(self.parts) == 1 and isinstance(self.parts[0], ast.expr):
            found = _value(self.parts[0], names, randoms)
            return float(found) if isinstance(found, Decimal) else found
        return self.render(names, randoms)


def number_or_text(text: str) -> int | Decimal | str:
    """Text that reads as a number is one."""
    stripped = text.strip().replace(",", "") if re.search(r"\d", text) else text
    match = NUMBER.fullmatch(stripped)
    if match is None:
        return text
    return Decimal(stripped) if match[2] else int(stripped)


def text_of_value(value: Any) -> str:
    """Numbers as people write them: 3, not 3.0; 0.1, not 1E-1."""
    if isinstance(value, Decimal):
        if value == value.to_integral_value():
            return str(int(value))
        return format(value.normalize(), "f")
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _check(node: ast.AST, source: str) -> None:
    """Refuse every construct that is not listed."""
    match node:
        case ast.Constant(value=value) if isinstance(value, str | int | float | bool):
            return
        case ast.Name() | ast.UnaryOp(op=ast.USub() | ast.UAdd() | ast.Not()):
            pass
        case ast.BinOp(op=op) if type(op) in BINARY or isinstance(op, ast.Div | ast.Pow):
            pass
        case ast.Compare(ops=ops) if all(type(op) in COMPARE for op in ops):
            pass
        case ast.Call(func=ast.Name(id=name), keywords=[]) if name in FUNCTIONS:
            for argument in node.args:
                _check(argument, source)
            return
        case ast.BoolOp() | ast.IfExp() | ast.Subscript():
            pass
        case _:
            known = ", ".join(FUNCTIONS)
            raise TemplateError(
                f"'{source}' uses what expressions do not have. They have names, numbers, text, "
                f"+ - * / // % **, comparisons, and/or/not, 'a if c else b', x[\"key\"] and the "
                f"functions {known}."
            )
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.operator | ast.unaryop | ast.boolop | ast.cmpop | ast.Load):
            _check(child, source)


def _value(  # noqa: PLR0912  # one case per kind of node reads best in one place
    node: ast.expr, names: Mapping[str, Any], randoms: Callable[[int, int], int]
) -> Any:
    def inner(child: ast.expr) -> Any:
        return _value(child, names, randoms)

    try:
        match node:
            case ast.Constant(value=value):
                return Decimal(str(value)) if isinstance(value, float) else value
            case ast.Name(id=name):
                if name not in names:
                    known = ", ".join(sorted(names))
                    raise TemplateError(f"There is no '{name}' here; there is: {known}.")
                return names[name]
            case ast.UnaryOp(op=op, operand=operand):
                value = inner(operand)
                if isinstance(op, ast.Not):
                    return not value
                return -value if isinstance(op, ast.USub) else +value
            case ast.BinOp(left=left, op=op, right=right):
                return _bounded(_binary(op, inner(left), inner(right)))
            case ast.Compare(left=left, ops=ops, comparators=rest):
                value = inner(left)
                for op, other in zip(ops, rest, strict=True):
                    following = inner(other)
                    if not COMPARE[type(op)](value, following):
                        return False
                    value = following
                return True
            case ast.BoolOp(op=op, values=values):
                value = inner(values[0])
                for other in values[1:]:
                    if bool(value) == isinstance(op, ast.Or):
                        return value
                    value = inner(other)
                return value
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return inner(body) if inner(test) else inner(orelse)
            case ast.Subscript(value=box, slice=key):
                return _plain(inner(box)[inner(key)])
            case ast.Call(func=ast.Name(id=name), args=arguments):
                return _call(name, [inner(argument) for argument in arguments], randoms)
            case _:
                raise TypeError("not an expression")
    except (ArithmeticError, TypeError, ValueError, KeyError, IndexError) as error:
        text = str(error) or type(error).__name__
        if isinstance(error, DivisionByZero | ZeroDivisionError | InvalidOperation):
            text = "division by zero"
        raise TemplateError(f"'{ast.unparse(node)}' cannot be computed: {text}") from None


def _binary(op: ast.operator, left: Any, right: Any) -> Any:
    if isinstance(op, ast.Div):
        quotient = Decimal(left) / Decimal(right)
        return int(quotient) if quotient == quotient.to_integral_value() else quotient
    if isinstance(op, ast.Pow):
        if not isinstance(right, int) or abs(right) > MAX_EXPONENT:
            raise ValueError(f"an exponent must be a whole number up to {MAX_EXPONENT}")
        return Decimal(left) ** right if right < 0 else left**right
    if isinstance(op, ast.Mult) and (isinstance(left, str) or isinstance(right, str)):
        raise TypeError("text cannot be multiplied")
    if isinstance(op, ast.Mod) and isinstance(left, str):
        raise TypeError("text has no remainder")
    if isinstance(op, ast.Add) and isinstance(left, str) != isinstance(right, str):
        left, right = text_of_value(left), text_of_value(right)
    return BINARY[type(op)](left, right)


def _bounded(value: Any) -> Any:
    if isinstance(value, int) and value.bit_length() > 4096:
        raise ValueError("the number is too large")
    if isinstance(value, str) and len(value) > MAX_TEXT_CHARS:
        raise ValueError("the text is too long")
    return value


def _call(  # noqa: PLR0912  # one case per function
    name: str, arguments: list[Any], randoms: Callable[[int, int], int]
) -> Any:
    match name, arguments:
        case "random", [int() as low, int() as high] if low <= high:
            return randoms(low, high)
        case "random", _:
            raise ValueError("random takes two whole numbers, the lower first")
        case "str", [value]:
            return text_of_value(value)
        case "int", [value]:
            return int(number_or_text(value) if isinstance(value, str) else value)
        case "lower", [str() as value]:
            return value.lower()
        case "upper", [str() as value]:
            return value.upper()
        case "len", [value]:
            return len(value)
        case "abs", [value]:
            return abs(value)
        case "round", [value]:
            return round(value)
        case "round", [value, int() as digits] if abs(digits) <= getcontext().prec:
            return round(Decimal(value), digits)
        case "min", [_, _, *_]:
            return min(arguments)
        case "max", [_, _, *_]:
            return max(arguments)
        case _:
            raise ValueError(f"{name} does not take these arguments")


def _plain(value: Any) -> Any:
    """A value out of a tool's JSON, in the kinds that expressions compute with."""
    return Decimal(str(value)) if isinstance(value, float) else value
