"""Expressions as functions of one element of another expression, run on arrays of elements.

They serve to find inputs and not to prove anything: what floats give is computed by numpy, which may round differently
from an engine.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from castsmith.ir.ops.table import CASTS, operators
from castsmith.ir.ops.traits import WHOLE, Answer
from castsmith.numerics.cast.codec import Array
from castsmith.verification.prove.normal import Normal
from castsmith.verification.prove.programs import ELEMENTWISE, EXACT, SOURCE, Operators, Program, constant, step

_MOST_STEPS = 64

_IN_PLACE = operators(lambda row: row.moves in WHOLE and row.elements == (0,) and not row.computes)
"""Operators whose result holds each element of the first operand."""

_FUNCTIONS = CASTS | {"BitCast", "Where", "Clip"}
"""Operators of one element besides `OPERATORS`."""


@dataclass(frozen=True)
class Function:
    """An expression as a function of the elements of `source`, an expression too."""

    source: int
    program: Program


class Functions:
    """Reads expressions of a book as functions, of the expression farthest away that determines each element."""

    def __init__(self, book: Normal) -> None:
        self.book = book
        self._functions: dict[int, Function] = {}
        self._programs: dict[tuple[Any, ...], Program] = {}

    def of(self, number: int) -> Function:
        """Return the expression as a function; of itself, by no step, if its operator is no function of one element."""
        stack = [number]
        while stack:
            current = stack[-1]
            unread = [part for part in self._operands(current) if part not in self._functions]
            if unread and current not in self._functions:
                stack += unread
                continue
            if current not in self._functions:
                self._functions[current] = self._read(current)
            stack.pop()
        return self._functions[number]

    def path(self, number: int) -> set[int]:
        """Return the expressions from the source of the function, which is left out, to the expression."""
        source, stack, leaves = self.of(number).source, [number], set[int]()
        while stack:
            current = stack.pop()
            if current != source and current not in leaves:
                leaves.add(current)
                stack += self._operands(current)
        return leaves

    def _operands(self, number: int) -> list[int]:
        """Return the operands of which the expression may be a function."""
        key = self.book.keys[number]
        if key[0] == "function":
            return [key[1]]
        if key[0] != "operator" or key[1][0]:
            return []
        if key[1][1] in _IN_PLACE:
            return list(key[3][:1])
        if key[1][1] not in _FUNCTIONS and key[1][1] not in OPERATORS:
            return []
        operands = key[3][:1] if key[1][1] == "CastLike" else key[3]
        return [n for n in operands if n is not None and n not in self.book.constants]

    def _read(self, number: int) -> Function:
        itself, key = Function(number, SOURCE), self.book.keys[number]
        operands = self._operands(number)
        sources = {self._functions[operand].source for operand in operands}
        if len(sources) != 1:
            return itself
        (source,) = sources
        if key[0] == "function":
            program = self._after(self.book.views[number][key[1]], self._functions[key[1]].program, {})
        elif key[1][1] in _IN_PLACE:
            return self._functions[operands[0]]
        else:
            program = self._step(key)
        return itself if program is None or program.size > _MOST_STEPS else Function(source, program)

    def _step(self, key: tuple[Any, ...]) -> Program | None:
        _, op, attributes, inputs, _, count = key
        how = self.book.step_of(op, attributes, inputs)
        if how is None and op[1] not in ELEMENTWISE | CASTS and not attributes:
            how = op[1], ()
        if how is None or count != 1 or None in inputs[:1]:
            return None
        parts: list[Program | None] = []
        for number in inputs[:1] if how[0] == "Cast" else inputs:
            tensor = self.book.constants.get(number)
            if tensor is None:
                parts.append(None if number is None else self._functions[number].program)
            elif tensor.size == 1 or how[0] in ("Gather", "GatherElements"):
                table = constant(tensor.numpy().reshape(() if tensor.size == 1 else -1), tensor.dtype)
                parts.append(self._interned(("constant", table.settings, table.constant), lambda table=table: table))
            else:
                return None
        present = [part for part in parts if part is not None]
        if how[0] == "Clip":
            result = present[0]
            for name, bound in zip(("Max", "Min"), parts[1:], strict=False):
                result = result if bound is None else self._stepped(name, (), [result, bound])
            return result
        return None if None in parts else self._stepped(*how, present)

    def _after(self, outer: Program, inner: Program, done: dict[Program, Program]) -> Program:
        """Return the program that runs `outer` on the results of `inner`."""
        if outer not in done:
            if outer.op == "source":
                done[outer] = inner
            elif outer.op == "constant":
                done[outer] = self._interned(("constant", outer.settings, outer.constant), lambda: outer)
            else:
                parts = [self._after(argument, inner, done) for argument in outer.arguments]
                done[outer] = self._stepped(outer.op, outer.settings, parts)
        return done[outer]

    def _stepped(self, name: str, settings: tuple[Any, ...], parts: list[Program]) -> Program:
        return self._interned((name, settings, *parts), lambda: step(name, settings, parts))

    def _interned(self, key: tuple[Any, ...], make: Callable[[], Program]) -> Program:
        """Return the one program of this key, so that equal programs are one object."""
        if key not in self._programs:
            self._programs[key] = make()
        return self._programs[key]


def _divided(a: Array, b: Array) -> Array:
    """Divide; integers toward zero."""
    if a.dtype.kind not in "iu":
        return a / b
    return (np.sign(a) * np.sign(b) * (np.abs(a) // np.where(b == 0, 1, np.abs(b)))).astype(a.dtype)


def _relu(x: Array) -> Array:
    return np.maximum(x, np.zeros_like(x))


def _reciprocal(x: Array) -> Array:
    return np.ones_like(x) / x


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def _loose(function: Callable[..., Any]) -> Callable[..., Array]:
    """Run the function on operands of any type, folding several into one, with a result of their type."""

    def run(_: tuple[Any, ...], first: Array, *further: Array) -> Array:
        result = functools.reduce(function, further, first) if further else function(first)
        return np.asarray(result).astype(first.dtype)

    return run


def _compared(function: Callable[..., Any]) -> Callable[..., Array]:
    def run(_: tuple[Any, ...], *arrays: Array) -> Array:
        return np.asarray(function(*arrays))

    return run


_LOOSE: dict[str, Callable[..., Any]] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": _divided,
    "Min": np.minimum,
    "Max": np.maximum,
    "Neg": np.negative,
    "Abs": np.abs,
    "Sign": np.sign,
    "Sqrt": np.sqrt,
    "Floor": np.floor,
    "Ceil": np.ceil,
    "Round": np.rint,
    "Exp": np.exp,
    "Log": np.log,
    "Tanh": np.tanh,
    "Relu": _relu,
    "Reciprocal": _reciprocal,
    "Sigmoid": _sigmoid,
}
_COMPARED: dict[str, Callable[..., Any]] = {
    "Equal": np.equal,
    "Less": np.less,
    "LessOrEqual": np.less_equal,
    "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal,
    "IsNaN": np.isnan,
    "IsInf": np.isinf,
}

OPERATORS: Operators = {
    **EXACT,
    **{name: _loose(function) for name, function in _LOOSE.items()},
    **{name: _compared(function) for name, function in _COMPARED.items()},
}
"""Operators that functions are made of: those of proofs, and others in the precision of numpy."""

COMPARING = operators(lambda row: row.answer is Answer.COMPARISON) | {"Min", "Max"}
