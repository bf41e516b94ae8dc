"""Arithmetic of numbers and symbols: true for all sizes, and as much is known of it as `arithmetic.txt` says.

A line has an operator, its first operand, and the results for each second operand: those of the first line of a block.
`python -m tests.passes.shapes.test_arithmetic` writes it again, to be read.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir
from onnx_ir import DataType

from castsmith.analysis.shapes.arithmetic import BY_ELEMENT, cast_content, elementwise, wrapped
from castsmith.analysis.shapes.elements import MOST, Content, Derived, Operation, array_of
from castsmith.numerics.symbols import UNKNOWN, Element, Poly, Unknown, symbol
from castsmith.numerics.types import ELEMENT_TYPES

FILE = Path(__file__).with_name("arithmetic.txt")
N, P, Z = symbol("N"), symbol("P", 2, 5), symbol("Z", None, None)
SIZES = ({"N": 0, "P": 2, "Z": -4}, {"N": 1, "P": 3, "Z": 0}, {"N": 6, "P": 5, "Z": 7}, {"N": 3, "P": 4, "Z": 3})
INTEGERS = (-3, 0, 1, 4, 1 << 33, N, P, N + 1, -N, P - 3, P * 2, Z, UNKNOWN)
FLOATS = (Fraction(-1, 2), 0, 1, Fraction(9, 4), -4, N, UNKNOWN)
TRUTHS = (0, 1, UNKNOWN)
OPERANDS: Mapping[DataType, Sequence[Element]] = {
    DataType.INT64: INTEGERS,
    DataType.FLOAT: FLOATS,
    DataType.BOOL: TRUTHS,
}
_ONE = ("Abs", "Ceil", "Floor", "Neg", "Not", "Round", "Sign", "Sqrt")
_TRUTHS = ("And", "Not", "Or", "Xor")
_FLOATS = ("Ceil", "Floor", "Round", "Sqrt")


def _sign(a: Any) -> int:
    return (a > 0) - (a < 0)


def _chosen(condition: Any, a: Any, b: Any) -> Any:
    return a if condition else b


def _quotient(a: Any, b: Any) -> Any:
    return Fraction(a) / b


def _whole_quotient(a: Any, b: Any) -> int:
    return int(Fraction(a) / b)


DEFINITIONS: Mapping[str, Callable[..., Any]] = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mul": operator.mul,
    "Sum": operator.add,
    "Div": _whole_quotient,
    "Quotient": _quotient,
    "Mod": operator.mod,
    "Pow": operator.pow,
    "Max": max,
    "Min": min,
    "Equal": operator.eq,
    "Less": operator.lt,
    "LessOrEqual": operator.le,
    "Greater": operator.gt,
    "GreaterOrEqual": operator.ge,
    "And": operator.and_,
    "Or": operator.or_,
    "Xor": operator.xor,
    "Abs": abs,
    "Ceil": math.ceil,
    "Floor": math.floor,
    "Neg": operator.neg,
    "Not": operator.not_,
    "Round": round,
    "Sign": _sign,
    "Sqrt": math.sqrt,
    "Where": _chosen,
}


def computed(op_type: str, dtype: DataType, *operands: Content) -> Content:
    node = onnx_ir.Node("", op_type, [None] * len(operands))
    types = [dtype] * len(operands)
    result = elementwise(Operation(node, 21, types, dtype, [None] * len(operands), list(operands), Derived()))
    assert result is not None
    return result


def blocks() -> Iterator[tuple[str, DataType, list[Element], list[list[Element]]]]:
    """Yield each operator with a type: the first operands, and the results of each with all second operands."""
    for op_type, dtype in product(sorted(BY_ELEMENT), OPERANDS):
        of_truths, of_floats = op_type in _TRUTHS, op_type in _FLOATS
        if (dtype is DataType.BOOL) != of_truths or (of_floats and dtype is not DataType.FLOAT):
            continue
        elements = OPERANDS[dtype]
        row, column = array_of(elements, (1, len(elements))), array_of(elements, (len(elements), 1))
        if op_type == "Where":
            conditions = array_of(TRUTHS, (len(TRUTHS), 1, 1))
            results = computed(op_type, dtype, conditions, column, row).reshape(-1, len(elements)).tolist()
            yield op_type, dtype, [*elements] * len(TRUTHS), results
        elif op_type in _ONE:
            yield op_type, dtype, [*elements], computed(op_type, dtype, column).tolist()
        else:
            yield op_type, dtype, [*elements], computed(op_type, dtype, column, row).tolist()


def text(element: Element) -> str:
    """Return an element; a symbol without a name by its bounds."""
    if isinstance(element, Poly) and len(element.terms) == 1:
        ((monomial, factor),) = element.terms.items()
        if factor == 1 and len(monomial) == 1 and not monomial[0].name:
            return f"{element.low}..{element.high}"
    factors = re.sub(r"\w+(\*\w+)+", lambda one: "*".join(sorted(one[0].split("*"))), str(element))
    return "?" if isinstance(element, Unknown) else factors


def lines() -> Iterator[str]:
    for op_type, dtype, firsts, results in blocks():
        yield f"{op_type} {dtype.name} | {' '.join(map(text, OPERANDS[dtype] if len(results[0]) > 1 else ()))}"
        yield from (f"{text(a)} | {' '.join(map(text, row))}" for a, row in zip(firsts, results, strict=True))
    for source, to in product((DataType.INT64, DataType.FLOAT), ELEMENT_TYPES):
        elements, types = OPERANDS[source], [source]
        node = onnx_ir.Node("", "Cast", [None])
        content = array_of(elements, (len(elements),))
        result = cast_content(Operation(node, 21, types, to, [None], [content], Derived()))
        yield f"Cast {source.name} {to.name} | {'-' if result is None else ' '.join(map(text, result.tolist()))}"


def test_as_much_is_known_as_before() -> None:
    assert [*lines()] == FILE.read_text(encoding="utf-8").splitlines()


def number(element: Element, sizes: Mapping[str, int]) -> Any:
    """Return the number that an element is for some sizes."""
    if not isinstance(element, Poly):
        return element
    return sum(factor * math.prod(sizes[one.name] for one in monomial) for monomial, factor in element.terms.items())


def require_true(op_type: str, dtype: DataType, operands: list[Element], result: Element) -> bool:
    """Compare what is known with what the operator gives for some sizes; False if nothing can be compared."""
    if isinstance(result, Unknown) or any(isinstance(operand, Unknown) for operand in operands):
        assert isinstance(result, Unknown) or op_type in ("And", "Or", "Where")
        return False
    definition = DEFINITIONS["Quotient" if (op_type, dtype) == ("Div", DataType.FLOAT) else op_type]
    for sizes in SIZES:
        numbers = [number(operand, sizes) for operand in operands]
        if op_type == "Div" and numbers[1] == 0:
            continue  # which gives no number
        expected, case = definition(*numbers), f"{op_type} {dtype.name} {numbers}: {text(result)}"
        if ".." in text(result):
            assert isinstance(result, Poly)
            assert result.low is None or result.low <= expected, case
            assert result.high is None or expected <= result.high, case
        else:
            assert number(result, sizes) == expected, case
    return True


def test_what_is_known_is_true_for_all_sizes() -> None:
    compared = 0
    for op_type, dtype, firsts, results in blocks():
        elements = OPERANDS[dtype]
        conditions = [[truth] for truth in TRUTHS for _ in elements] if op_type == "Where" else [[] for _ in firsts]
        for condition, a, row in zip(conditions, firsts, results, strict=True):
            rest = [[]] if op_type in _ONE else [[b] for b in elements]
            for b, result in zip(rest, row, strict=True):
                compared += require_true(op_type, dtype, [*condition, a, *b], result)
    assert compared > 1000


WHOLE, REAL = DataType.INT64, DataType.FLOAT
SHAPES: list[tuple[str, DataType, int, list[Any], Any]] = [
    # An operator, its type and opset, its operands (None: unknown), and the result.
    ("Sum", WHOLE, 8, [[1, 2], [10], [[100], [200]]], [[111, 112], [211, 212]]),
    ("Max", WHOLE, 8, [[1, 2], [0, 3], [2, 0]], [2, 3]),
    ("Min", WHOLE, 8, [[1, 2], [0, 3], [2, 0]], [0, 0]),
    ("Max", WHOLE, 8, [[1, 2]], [1, 2]),
    ("Max", WHOLE, 8, [], None),
    ("Max", WHOLE, 8, [[1, 2], None], None),
    ("Add", WHOLE, 7, [[1, 2], None], None),
    ("Add", WHOLE, 7, [[1, 2], [1]], [2, 3]),
    ("Add", WHOLE, 6, [[1, 2], [1]], None),
    ("Add", WHOLE, 6, [[1, 2], [1, 1]], [2, 3]),
    ("Add", WHOLE, 7, [[1, 2], [1, 2, 3]], None),
    ("Neg", WHOLE, 13, [[1] * MOST], [-1] * MOST),
    ("Neg", WHOLE, 13, [[1] * (MOST + 1)], None),
    ("Erf", WHOLE, 13, [[1]], None),
    ("Mod", WHOLE, 13, [[7], [4]], [3]),
    ("Mod fmod", WHOLE, 13, [[-7], [4]], None),
    ("Sqrt", REAL, 13, [[Fraction(9, 4), 2, Fraction(4, 3)]], [Fraction(3, 2), UNKNOWN, UNKNOWN]),
    ("Pow", WHOLE, 13, [[2, 2, 2, 2, 1], [-1, 0, 53, 54, 64]], [UNKNOWN, 1, 1 << 53, UNKNOWN, 1]),
    ("Pow", WHOLE, 13, [[1], [65]], [UNKNOWN]),
]


def operation(name: str, dtype: DataType | None, opset: int, operands: list[Any], to: DataType | None) -> Operation:
    op_type, *flags = name.split()
    node = onnx_ir.Node("", op_type, [None] * len(operands), [onnx_ir.AttrInt64(flag, 1) for flag in flags])
    contents = [None if each is None else np.array(each, object) for each in operands]
    return Operation(node, opset, [dtype] * len(operands), to, [None] * len(operands), contents, Derived())


def test_operands_that_broadcast_are_known_and_few() -> None:
    for name, dtype, opset, operands, expected in SHAPES:
        result = elementwise(operation(name, dtype, opset, operands, dtype))
        assert (None if result is None else result.tolist()) == expected, (name, opset, operands)


def test_a_cast_of_what_is_unknown_or_to_what_is_no_number() -> None:
    for operand, source, to, expected in (
        ([300, -1], WHOLE, DataType.UINT8, [44, 255]),
        (None, WHOLE, DataType.UINT8, None),
        ([300], None, DataType.UINT8, None),
        ([300], WHOLE, None, None),
        ([300], WHOLE, DataType.STRING, None),
        ([300], WHOLE, DataType.FLOAT, [300]),
    ):
        result = cast_content(operation("Cast", source, 21, [operand], to))
        assert (None if result is None else result.tolist()) == expected, (source, to)


def test_numbers_wrap_as_their_type_does() -> None:
    numbers = (-129, -128, -1, 127, 128, 256, 300)
    assert [wrapped(n, DataType.INT8) for n in numbers] == [127, -128, -1, 127, -128, 0, 44]
    assert [wrapped(n, DataType.UINT8) for n in numbers] == [127, 128, 255, 127, 128, 0, 44]


if __name__ == "__main__":
    FILE.write_text("\n".join(lines()) + "\n", encoding="utf-8")
