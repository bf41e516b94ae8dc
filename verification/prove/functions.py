"""Terms as functions of one element of another term, run on arrays of elements.

They serve to find inputs and not to prove anything: what floats give is computed by the reference implementation of
ONNX, which may round differently from an engine.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx.helper import make_graph, make_model, make_node, make_opsetid, make_tensor_value_info
from onnx.reference import ReferenceEvaluator
from onnx_ir import DataType

from castsmith.ir.ops.table import operators
from castsmith.ir.ops.traits import WHOLE, Moves
from castsmith.numerics.cast.codec import Array
from castsmith.numerics.cast.convert import bit_cast, cast
from castsmith.numerics.cast.settings import NEWEST_OPSET
from castsmith.numerics.errors import CastsmithError
from castsmith.numerics.status import Definedness, cast_status
from castsmith.verification import checker
from castsmith.verification.checker import Term, Terms
from castsmith.verification.evaluate.promotion import dtype_of

FAILURES = (CastsmithError, ValueError, TypeError, KeyError, IndexError)
"""The errors of a function of which nothing is known."""

_MOST_STEPS = 64

_IN_PLACE = operators(lambda row: row.moves in WHOLE and row.elements == (0,) and not row.computes)
"""Operators whose result holds each element of the first operand."""

_BY_ELEMENT = operators(lambda row: row.elementwise or row.moves is Moves.CHOOSE) - {"CastLike"} | {
    "Cast",
    "BitCast",
    "Table",
}
_GATHERS = ("Gather", "GatherElements")
_SETTINGS = {"@", "how", "table", "to", "saturate", "round_mode", "direction"}
"""Attributes of operators of which a function may have several."""

Mask = NDArray[np.bool_]
Run = tuple[Array, Mask | None]


def source_of_type(terms: Terms, dtype: int) -> Term:
    """Return the term that stands for the elements of which others are functions."""
    return terms.term("source", (), {}, (dtype, ()))


class Functions:
    """Reads terms as functions of the elements of others: the farthest away that determines each element."""

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self._functions: dict[Term, tuple[Term, Term, int]] = {}

    def of(self, term: Term) -> tuple[Term, Term]:
        """Return the source, and the function as a term of `source_of_type`: a function of many sources is one term.

        A term whose operator is no function of one element is its own source.
        """
        stack = [term]
        while stack:
            unread = [part for part in _operands(stack[-1]) if part not in self._functions]
            if unread and stack[-1] not in self._functions:
                stack += unread
            else:
                current = stack.pop()
                self._functions.setdefault(current, self._read(current))
        return self._functions[term][:2]

    def path(self, term: Term) -> set[Term]:
        """Return the terms from the source of the function, which is left out, to the term."""
        (source, _), stack, leaves = self.of(term), [term], set[Term]()
        while stack:
            current = stack.pop()
            if current is not source and current not in leaves:
                leaves.add(current)
                stack += _operands(current)
        return leaves

    def _read(self, term: Term) -> tuple[Term, Term, int]:
        operands = _operands(term)
        read = {operand: self._functions[operand] for operand in operands}
        sources, size = {source for source, _, _ in read.values()}, 1 + sum(size for _, _, size in read.values())
        if len(sources) != 1 or size > _MOST_STEPS:
            return term, source_of_type(self.terms, term.dtype), 1
        if term.op in _IN_PLACE:
            return self._functions[operands[0]]
        args = [read[arg][1] if arg in read else arg for arg in term.args]
        function = self.terms.term(term.op, args, term.attrs, (term.dtype, ()), term.out)
        if term in self.terms.tables:
            self.terms.tables[function] = self.terms.tables[term]
        return sources.pop(), function, size


def _operands(term: Term) -> list[Term]:
    """Return the operands of which each element of a term may be a function."""
    if term.op in _IN_PLACE:
        return [arg for arg in term.args[:1] if arg is not None and not arg.is_constant]
    varying = [arg for arg in term.args if arg is not None and not arg.is_constant]
    if term.op in _GATHERS:
        table = term.args[0]
        is_vector = table is not None and table.known is not None and table.known.ndim == 1
        return varying if is_vector and len(varying) == 1 else []
    constants = [arg.known for arg in term.args if arg is not None and arg.known is not None]
    fits = term.op in _BY_ELEMENT and term.attrs.keys() <= _SETTINGS
    return varying if fits and all(array.size == 1 for array in constants) else []


def run(terms: Terms, function: Term, elements: Array, done: dict[Term, Run]) -> Run:
    """Return the results of a function, and which of them the standard leaves undefined.

    Args:
        done: The results so far, of this and other functions of these elements.
    """
    if function not in done:
        done[function] = _run(terms, function, elements, done)
    return done[function]


def _run(terms: Terms, function: Term, elements: Array, done: dict[Term, Run]) -> Run:
    if function.op == "source":
        return elements, None
    if function.known is not None:
        is_table = function.known.ndim == 1 and function.known.size > 1
        return function.known if is_table else function.known.reshape(()), None
    runs = {place: run(terms, arg, elements, done) for place, arg in enumerate(function.args) if arg is not None}
    arrays: list[Any] = [array for array, _ in runs.values()]
    masks = [mask for _, mask in runs.values() if mask is not None]
    undefined, to = np.logical_or.reduce(masks) if masks else None, DataType(function.dtype)
    if function.op == "Table":
        result, defined = (part[_places(function, arrays[0])] for part in terms.tables[function])
        return result, _either(undefined, ~defined)
    if function.op == "Cast":
        how = _how(function)
        status = cast_status(arrays[0], to, **how)
        return cast(arrays[0], to, **how), _either(undefined, status == Definedness.UNDEFINED)
    if function.op == "Where":
        marks = [np.zeros(elements.shape, np.bool_) if mask is None else mask for _, mask in runs.values()]
        arrays = [np.where(*arrays)]
        return arrays[0], _either(None, marks[0] | np.where(runs[0][0], marks[1], marks[2]))
    if function.op in _GATHERS:
        return arrays[0][arrays[1].astype(np.int64)], undefined
    if function.op == "BitCast":
        return bit_cast(arrays[0], to), undefined
    with np.errstate(all="ignore"):
        results = _evaluator(function).run(None, {f"i{place}": array for place, (array, _) in runs.items()})
        return np.asarray(results[0]), undefined


def _either(a: Mask | None, b: Mask) -> Mask | None:
    mask = b if a is None else a | b
    return mask if mask.any() else None


def _how(function: Term) -> dict[str, Any]:
    """Return the settings of a cast."""
    how, attrs = function.attrs.get("how"), function.attrs
    if how is not None:
        return {"saturate": how.saturate, "opset": NEWEST_OPSET if how.latest else 23}
    return {"saturate": attrs.get("saturate", 1) != 0, "round_mode": attrs.get("round_mode", b"up").decode()}


def _places(function: Term, array: Array) -> Array:
    """Return where a table has the results for these elements."""
    (root,) = function.args
    values = None if root is None else checker.values_of(root.dtype)
    if values is None:
        bits = array.view(np.uint32)  # the cells of float: each number of an upper half alone, and all others of it
        return np.where(bits & 0xFFFF, (bits >> 16) + (1 << 16), bits >> 16)
    if array.dtype.kind == "b" or dtype_of(array).is_floating_point():
        return array.view(f"u{array.itemsize}").astype(np.int64)
    return array.astype(np.int64) - int(values[0])


@lru_cache(maxsize=4096)
def _evaluator(function: Term) -> Any:
    names = ["" if arg is None else f"i{place}" for place, arg in enumerate(function.args)]
    while not names[-1]:
        names.pop()
    attributes = {name: value for name, value in function.attrs.items() if name != "@"}
    node = make_node(function.op, names, ["o"], **attributes)
    # The evaluator asks for the types of operators that it computes by their definition, such as Gelu.
    operands = ((place, arg) for place, arg in enumerate(function.args) if arg is not None)
    inputs = [make_tensor_value_info(f"i{place}", arg.dtype, None) for place, arg in operands]
    graph = make_graph([node], function.op, inputs, [make_tensor_value_info("o", function.dtype, None)])
    return ReferenceEvaluator(make_model(graph, opset_imports=[make_opsetid("", function.attrs["@"])]))
