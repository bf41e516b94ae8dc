"""An independent checker of certificates: one file, which uses nothing of Castsmith.

A certificate is a list of steps: each is an edit of the model, with the rewrites that made it. The checker

1. replays the edits on the input model, and requires that they give the output model exactly;
2. reads the model before and after each step as terms. A term stands for the value that a node computes of the model's
   inputs; two computations that are equal for all inputs by the rules of this file become one term;
3. certifies a step if all outputs are the same terms as before.

An operator without a rule is a term of its own, equal only to itself of equal operands. So a missing rule leaves a step
uncertified; only a wrong rule could certify what is not so.

Certified are the values, if both models run without an error. Assumed: inputs, and results of operators that onnx does
not define, have their declared types and shapes; dimensions of one name are equal, and positive; int32 and int64 that
are computed from dimensions do not overflow; arithmetic on floats is rounded once, to nearest, and Log errs by at most
`LOG_ERROR`. Elements that the standard leaves undefined, such as 3e9 as int32, may be any value; all NaNs are equal.
Trusted: this file; of onnx its parser, schemas, shape inference and reference implementation of the operators in
`EVALUATED`, `MOVES` and `CHAINED`; numpy; ml_dtypes.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import os
import sys
from collections import ChainMap, Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial, reduce
from graphlib import CycleError, TopologicalSorter
from math import prod
from typing import Any, NamedTuple, cast

import ml_dtypes
import numpy as np
import onnx
import onnx.defs
import onnx.helper
import onnx.numpy_helper
import onnx.reference
import onnx.shape_inference
from onnx import TensorProto

FORMAT = "castsmith-certificate-1"

Array = np.ndarray[Any, Any]


class RefusedError(Exception):
    """The certificate does not describe the change from the one model to the other; the text is the reason."""


MALFORMED = (ArithmeticError, LookupError, MemoryError, RecursionError, TypeError, ValueError, RefusedError)
"""What a malformed model may raise where nothing else finds that it is."""


# Element types, and the conversions between them.

BOOL, STRING, DOUBLE = TensorProto.BOOL, TensorProto.STRING, TensorProto.DOUBLE
INT32, INT64 = TensorProto.INT32, TensorProto.INT64
FNUZ = (TensorProto.FLOAT8E4M3FNUZ, TensorProto.FLOAT8E5M2FNUZ)
FLOAT8 = (TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E5M2, *FNUZ)
SCALE, FLOAT4 = TensorProto.FLOAT8E8M0, TensorProto.FLOAT4E2M1
CODED = (*FLOAT8, SCALE, FLOAT4)
"""Float types of at most 8 bits."""
FLOATS = (TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.FLOAT, DOUBLE, *CODED)
INTEGERS: dict[int, tuple[bool, int]] = {
    TensorProto.DataType.Value(f"{sign}INT{bits}"): (not sign, bits)
    for bits in (2, 4, 8, 16, 32, 64)
    for sign in ("", "U")
}
"""Whether the type is signed, and its bits."""
NUMBERS = {*FLOATS, *INTEGERS, BOOL}
STORED = (*CODED, *(dtype for dtype, (_, bits) in INTEGERS.items() if bits < 8))
"""Types of which a model may have the codes, in bytes."""


LATEST = {"": onnx.defs.onnx_opset_version(), "ai.onnx.ml": max(row[3] for row in onnx.helper.VERSION_TABLE)}
NAMES = {f"tensor({name.lower()})": number for name, number in TensorProto.DataType.items()}
NUMPY: dict[int, np.dtype[Any]] = {dtype: np.dtype(onnx.helper.tensor_dtype_to_np_dtype(dtype)) for dtype in NUMBERS}


@cache
def row(dtype: int) -> tuple[int, int, float]:
    """The significant bits of a float type, the exponent of its least subnormal, and its largest finite number."""
    info = cast("Any", ml_dtypes.finfo(NUMPY[dtype]))
    return info.nmant + 1, int(np.log2(np.float64(info.smallest_subnormal))), float(info.max)


@dataclass(frozen=True)
class Conversion:
    """What Cast does: `saturate` is used for float8; from opset 24 on (`latest`) infinities to fnuz are defined."""

    to: int
    saturate: bool = True
    latest: bool = True

    def of(self, array: Array, source: int) -> tuple[Array, Array]:
        """Return the converted elements, and where the standard defines them."""
        defined = np.ones(array.shape, bool)
        with np.errstate(all="ignore"):
            if self.to == BOOL:
                return array.astype(np.float64) != 0.0, defined
            if self.to in INTEGERS and source in FLOATS:
                (signed, bits), (least, end) = INTEGERS[self.to], span(self.to)
                integral = np.trunc(array.astype(np.float64))
                defined = (integral >= least) & (integral < end)
                defined &= (np.abs(array - integral) < 0.5) | (bits >= 8)  # below 8 bits, some runtimes round
                array = np.where(defined, integral, 0.0).astype(np.int64 if signed else np.uint64)
            if self.to in INTEGERS:
                return wrapped(array, self.to), defined
            exact = array.astype(np.float64)
            if self.to == DOUBLE:
                return exact, defined
            if source in (INT64, TensorProto.UINT64):  # above 53 bits rounded to odd, so that it is rounded once
                odd = np.ldexp(((array >> 11) | ((array & 0x7FF) != 0).astype(array.dtype)).astype(np.float64), 11)
                exact = np.where(np.abs(exact) > 2.0**53, odd, exact)
            return self._rounded(exact)

    def _rounded(self, x: Array) -> tuple[Array, Array]:
        bits, least, top = row(self.to)
        _, exponent = np.frexp(x)
        quantum = np.maximum(exponent - bits, least)
        y = np.where(np.isfinite(x), np.ldexp(np.rint(np.ldexp(x, -quantum)), quantum), x)
        defined, beyond = np.ones(x.shape, bool), np.inf
        if self.to in FLOAT8:
            beyond = top if self.saturate else np.inf  # NaN in the types that have no infinity
        if self.to == FLOAT4:  # which has neither NaN nor infinities
            beyond, defined = top, ~np.isnan(x)
            y = np.where(defined, y, 0.0)
        if self.to in FNUZ:
            y = np.where(y == 0, 0.0, y)
            defined = ~np.isinf(x) | self.latest | (not self.saturate)
        y = np.where(np.abs(y) > top, np.copysign(beyond, x), y)
        return y.astype(NUMPY[self.to]), defined


def span(to: int) -> tuple[float, float]:
    """Return the least integer of the type, and the first above its greatest."""
    signed, bits = INTEGERS[to]
    return (-(2.0 ** (bits - 1)), 2.0 ** (bits - 1)) if signed else (0.0, 2.0**bits)


def wrapped(array: Array, to: int) -> Array:
    """Return integers modulo the width of the type."""
    return array.astype(np.int64).astype(NUMPY[to])


@cache
def embeds(a: int, b: int) -> bool:
    """True if the type b holds every value of the type a, its infinities, NaN and zeros included."""
    if BOOL in (a, b) or a == b or not {a, b} <= NUMBERS:
        return a == b or (a == BOOL and b in NUMBERS - {SCALE})
    if a in INTEGERS:
        (signed, bits), width = INTEGERS[a], INTEGERS[a][1] - INTEGERS[a][0]
        if b in INTEGERS:
            return INTEGERS[b][1] - INTEGERS[b][0] >= width and (INTEGERS[b][0] or not signed)
        return b not in CODED and row(b)[0] >= width and row(b)[2] >= 2.0**bits
    if b not in FLOATS or b in CODED:
        return False
    return row(a)[0] <= row(b)[0] and row(a)[1] >= row(b)[1] and row(a)[2] <= row(b)[2]


def common_type(dtypes: Iterable[int]) -> int | None:
    """Return the type of operands of several types: the narrowest that holds those of the highest kind; else float."""
    kinds = [[dtype for dtype in dtypes if dtype in kind] for kind in (FLOATS, INTEGERS)]
    if not {*dtypes} <= NUMBERS:
        return None
    kind, highest = (FLOATS, kinds[0]) if kinds[0] else (INTEGERS, kinds[1])
    holding = [dtype for dtype in kind if all(embeds(operand, dtype) for operand in highest)]
    return min(holding, key=lambda dtype: NUMPY[dtype].itemsize, default=TensorProto.FLOAT)


@cache
def values_of(dtype: int) -> Array | None:
    """Return all values of a type of at most 16 bits; None for any other."""
    if dtype == BOOL:
        return np.array([False, True])
    if dtype in INTEGERS and INTEGERS[dtype][1] <= 16:
        return np.unique(wrapped(np.arange(1 << INTEGERS[dtype][1]), dtype))
    size = NUMPY[dtype].itemsize
    if dtype == FLOAT4:
        return np.arange(16).astype(np.uint8).view(NUMPY[dtype])
    return np.arange(1 << 8 * size).astype(f"u{size}").view(NUMPY[dtype]) if dtype in FLOATS and size < 3 else None


def agree(a: Array, b: Array) -> Array:
    """Where two arrays of one type have the same bits, or are both NaN."""
    if a.dtype.kind in "biu" or "int" in a.dtype.name:
        return a == b
    with np.errstate(invalid="ignore"):
        return (a.view(f"u{a.itemsize}") == b.view(f"u{b.itemsize}")) | ((a != a) & (b != b))


@cache
def collapses(a: int, first: Conversion, last: Conversion) -> bool:
    """True if the conversions of elements of type a, one after the other, give what the last alone gives."""
    b, c = first.to, last.to
    if not {a, b, c} <= NUMBERS or SCALE in (b, c):
        return False
    if embeds(a, b):  # but a float out of the range of integers is undefined, and an integer wraps
        return not (a in INTEGERS and b in FLOATS and c in INTEGERS) or embeds(a, c)
    if a in INTEGERS and b in FLOATS and b not in CODED and c == BOOL:
        return True  # no integer but 0 is rounded to 0
    if a in INTEGERS and b in INTEGERS and c in INTEGERS and INTEGERS[b][1] >= INTEGERS[c][1]:
        return True
    values = values_of(a)
    if values is None:
        return False
    (middle, middle_defined), (direct, direct_defined) = first.of(values, a), last.of(values, a)
    chain, chain_defined = last.of(middle, b)
    return bool((agree(chain, direct) & middle_defined & direct_defined & chain_defined).all())


# Integers that are not known as numbers: polynomials of named atoms. Arithmetic wraps, and so it keeps them equal.

SIZES = {INT32, INT64}
"""The types in which what is computed from dimensions is assumed not to overflow."""


@dataclass(frozen=True)
class Poly:
    """A polynomial that is not a number: pairs of the sorted atoms of a product, and its factor."""

    terms: tuple[tuple[tuple[str, ...], int], ...]
    joined: frozenset[Dim] = field(default=frozenset(), compare=False)
    """Of the name of a dimension: those that were broadcast together to it."""

    def __add__(self, other: Dim) -> Dim:
        total = Counter(dict(self.terms))
        total.update(dict(terms_of(other)))
        return polynomial(total)

    def __mul__(self, other: Dim) -> Dim:
        total: Counter[tuple[str, ...]] = Counter()
        for atoms, factor in self.terms:
            for more, times in terms_of(other):
                total[tuple(sorted((*atoms, *more)))] += factor * times
        return polynomial(total)

    def __sub__(self, other: Dim) -> Dim:
        return self + other * -1

    def __rsub__(self, other: Dim) -> Dim:
        return self * -1 + other

    __radd__, __rmul__ = __add__, __mul__

    def __repr__(self) -> str:
        return "+".join("*".join((str(factor), *atoms)) for atoms, factor in self.terms)


Dim = int | Poly
Shape = tuple[Dim, ...]


def atom(name: str) -> Poly:
    return Poly((((name,), 1),))


def terms_of(number: Dim) -> tuple[tuple[tuple[str, ...], int], ...]:
    return number.terms if isinstance(number, Poly) else (((), int(number)),)


def polynomial(terms: Mapping[tuple[str, ...], int]) -> Dim:
    nonzero = tuple(sorted((atoms, factor) for atoms, factor in terms.items() if factor))
    return Poly(nonzero) if any(atoms for atoms, _ in nonzero) else sum(factor for _, factor in nonzero)


def quotient(a: Dim, b: Dim) -> Dim | None:
    """Return a / b if b is one product that divides each part of a; else None."""
    divisor, total = terms_of(b), Counter[tuple[str, ...]]()
    if a == b or len(divisor) != 1 or not divisor[0][1]:
        return 1 if a == b != 0 else None
    for atoms, factor in terms_of(a):
        remaining = Counter(atoms)
        remaining.subtract(divisor[0][0])
        if min(remaining.values(), default=0) < 0 or factor % divisor[0][1]:
            return None
        total[tuple(sorted(remaining.elements()))] += factor // divisor[0][1]
    return polynomial(total)


def at_most(a: Dim, b: Dim) -> bool:
    """True if a is known to be at most b: names that begin with < are not negative, and dimensions are positive."""
    remaining = dict(terms_of(b - a))
    least = remaining.pop((), 0)
    for atoms, factor in remaining.items():  # a product of dimensions is at least 1
        least += factor if all(name.startswith("<dim") for name in atoms) else 0
    return least >= 0 and all(
        factor >= 0 and all(name.startswith("<") for name in atoms) for atoms, factor in remaining.items()
    )


def broadcast(shapes: Sequence[Shape]) -> Shape:
    """Return the shape to which numpy broadcasts the shapes, if the operands fit."""
    result: list[Dim] = []
    for place in range(1, max(map(len, shapes), default=0) + 1):
        sizes = {shape[-place] for shape in shapes if place <= len(shape)}
        dims: set[Dim] = {part for dim in sizes for part in (isinstance(dim, Poly) and dim.joined) or {dim}} - {1}
        numbers: set[Dim] = {dim for dim in dims if isinstance(dim, int)}
        dims = numbers if len(numbers) == 1 else dims  # the others are 1, or that number
        if len(dims) > 1:
            kind = "<dim" if all(at_most(1, dim) for dim in dims) else "<"
            dims = {replace(atom_of(sorted(map(repr, dims)), kind), joined=frozenset(dims))}
        result.append(dims.pop() if dims else 1)
    return tuple(result[::-1])


def numbers_of(shape: Sequence[Dim] | None) -> tuple[int, ...] | None:
    """Return a shape whose dimensions are all numbers; else None."""
    numbers = tuple(dim for dim in shape or () if isinstance(dim, int))
    return None if shape is None or len(numbers) < len(shape) else numbers


def product(dims: Iterable[Dim]) -> Dim:
    return reduce(lambda total, dim: dim * total, dims, 1)


def atom_of(name: object, kind: str = "<dim") -> Poly:
    """Return a dimension of this name, or at this place; a digest, since names may hold other names."""
    return atom(kind + hashlib.blake2b(repr(name).encode(), digest_size=16).hexdigest())


# Terms.

RANDOM = {"Dropout", "Bernoulli", "Multinomial"} | {
    f"Random{kind}{like}" for kind in ("Normal", "Uniform") for like in ("", "Like")
}
MOVES: Mapping[str, Sequence[int] | None] = {
    **dict.fromkeys(("Transpose", "Slice", "Gather", "GatherElements", "GatherND", "Split", "Tile"), (0,)),
    **dict.fromkeys(("Reshape", "Expand", "DepthToSpace", "SpaceToDepth", "ReverseSequence", "Compress"), (0,)),
    **dict.fromkeys(("Squeeze", "Unsqueeze", "Flatten"), (0,)),
    "Concat": None,
    "Where": (1, 2),
    "If": (1, 2),
}
"""Operators that move elements, and the operands that hold them; None for all."""
COMPARISONS = ("Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual")
BINARY = {"Add", "Sub", "Mul", "Div", "Mod", "Pow", "And", "Or", "Xor", "Max", "Min", *COMPARISONS}
ELEMENTWISE = BINARY - {"Pow"} | {"Neg", "Abs", "Floor", "Ceil", "Sqrt", "Not", "Sign"}
EVALUATED = {
    *(*ELEMENTWISE, "DequantizeLinear", "Round", "IsNaN", "IsInf", "Relu", "Clip"),
    *("ReduceProd", "ReduceSum", "ReduceMax", "ReduceMin", "CumSum", "Trilu", "Range", "NonZero"),
}
"""Operators whose results onnx computes exactly, or rounded once, for the types in `EXACT`."""
SAME = {("com.microsoft", "QuantizeLinear"), ("com.microsoft", "DequantizeLinear")}
"""Operators of ONNX Runtime that are those of onnx, if none of their operands is float16."""
CHOOSING = ("Max", "Min", "Clip", "Relu")
"""Operators that give the greater or the lesser of their operands."""
BITWISE = {"BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot", "BitShift"}
CHAINED = ELEMENTWISE | {
    "Round",
    "IsNaN",
    "Clip",
    "BitShift",
    "BitwiseAnd",
    "BitwiseOr",
    "BitCast",
    "Cast",
    "Where",
    "Log",
    "Table",
}
"""Operators that are followed on cells of a value."""
CODING = {"Log", "Mod", "BitCast"}
"""Operators by which codes of small types are computed: only where one is are casts followed on cells."""
EXACT = {TensorProto.FLOAT16, TensorProto.FLOAT, DOUBLE, BOOL, INT32, INT64}
ZEROS = (-0.0, 0.0)
LOG_ERROR = 2.0**-19
"""The most by which a runtime's Log is wrong, of 1 or of the logarithm, whichever is greater."""
MOST = 4096
"""Elements up to which values computed from shapes are followed."""
LONGEST = 100
"""Values, computed from each other element by element, that are followed on cells."""
DEEPEST = 200
"""Moves, one after the other, before which a cast is moved."""
MOST_NODES, MOST_CALLS = 100_000, 128
"""Nodes of functions, written out, and calls and bodies in each other."""


Kind = tuple[int, Shape | None]
"""An element type, 0 if it is unknown or the value is no tensor; and a shape, None if the rank is unknown."""


@dataclass(eq=False, slots=True)
class Term:
    """A value as a function of the model's inputs: output `out` of an operator; equal terms are one object.

    `array` has the elements, if they are known: an array of the type, or of numbers and polynomials; `codes` tells
    that they are computed by one of the operators in `CODING`.
    """

    op: str
    args: tuple[Term | None, ...]
    attrs: dict[str, Any]
    out: int
    dtype: int
    shape: Shape | None
    codes: bool
    array: Array | None = None

    @property
    def known(self) -> Array | None:
        """The elements, if all of them are numbers."""
        return None if self.array is None or self.array.dtype == object else self.array

    @property
    def is_constant(self) -> bool:
        return self.known is not None

    @property
    def is_scalar(self) -> bool:
        return self.is_constant and self.shape == ()

    @property
    def is_zero(self) -> bool:
        return self.is_constant and not np.any(cast("Array", self.array))

    @property
    def elements(self) -> list[Any]:
        return [] if self.array is None else self.array.ravel().tolist()


Operands = Sequence[Term | None]


def conversion_of(x: Term) -> Conversion | None:
    """Return the conversion that a Cast is; None for one in another rounding mode, and for other operators."""
    return x.attrs.get("how") if x.op == "Cast" else None


def arrays_of(args: Operands) -> list[Array | None]:
    return [None if arg is None else arg.array for arg in args]


Results = tuple[Array, Array]
"""Elements, and where they are defined."""


class Terms:
    """All terms of all models of a check."""

    def __init__(self, budget: int, meaning: Callable[[onnx.defs.OpSchema], int] | None = None) -> None:
        self.meaning = meaning or meaning_of  # the first version from which on an operator means the same
        self.table: dict[object, Term] = {}
        self.tables: dict[Term, Results] = {}
        self.casts: dict[tuple[Term, Conversion], Term] = {}
        self.budget = budget  # of elements of constants that are computed
        self.fails = False  # a node that was read last, as far as onnx sees
        self.is_first = False  # the model that is read is the input model
        self.quantized: dict[Term, Term] = {}  # what QuantizeLinear makes, as floats
        self.moved: dict[Term, tuple[Term, Term]] = {}  # sums of integers and a zero point, which are exact
        self.undefined: dict[object, Term] = {}  # what the input model leaves undefined in part, and its definition
        self.defined: set[Term] = set()  # what it computes

    def may_define(self, key: object, definition: Term) -> bool:
        """True if elements that are undefined may be given values: the input model gives them none either."""
        if definition in self.defined:
            return False
        if self.is_first:
            self.undefined[key] = definition
        return key in self.undefined

    def term(
        self, op: str, args: Operands, attrs: Mapping[str, Any], kind: Kind, out: int = 0, key: object = None
    ) -> Term:
        """Return the term; its type and shape follow from the rest of it."""
        identity = op, tuple(map(id, args)), tuple(sorted(attrs.items())), out, key
        if identity not in self.table:
            codes = op in CODING or (op in CHAINED - {"Table"} and any(arg.codes for arg in args if arg is not None))
            self.table[identity] = Term(op, tuple(args), dict(attrs), out, *kind, codes)
        return self.table[identity]

    def constant(self, array: Array, dtype: int) -> Term:
        """Return the constant, or the value that is known in part: an array of numbers and polynomials."""
        objects_only = array.dtype == object and dtype != STRING
        if objects_only and not any(isinstance(element, Poly) for element in array.ravel().tolist()):
            return self.constant(typed(array, dtype), dtype)
        term = self.term("const", (), {}, (dtype, array.shape), key=(dtype, digest(array)))
        term.array = None if dtype == STRING else array
        return term

    def cast(self, x: Term, how: Conversion, depth: int = 0) -> Term:
        """Return x converted: the cast is before the moves of its elements."""
        how = replace(how, saturate=how.saturate or how.to not in FLOAT8, latest=how.latest or how.to not in FNUZ)
        if (x, how) not in self.casts:  # of all paths to x, the first
            self.casts[x, how] = self._cast(x, how, depth)
        return self.casts[x, how]

    def _cast(self, x: Term, how: Conversion, depth: int) -> Term:
        if x.dtype == how.to:
            return x
        if x in self.quantized and how.to == TensorProto.FLOAT:
            return self.quantized[x]
        if not {x.dtype, how.to} <= NUMBERS or how.to == SCALE:
            return self.term("Cast", [x], {"how": how}, (how.to, x.shape))
        if x.known is not None:
            array, defined = how.of(x.known, x.dtype)
            if defined.all():
                return self.constant(array, how.to)
        elif x.array is not None:
            return self.constant(elementwise(partial(cast_element, x.dtype, how), [x.array]), how.to)
        elif x.op in MOVES and not (x.op == "Where" and x.codes) and depth < DEEPEST:
            places = MOVES[x.op] or range(len(x.args))
            cast = {place: self.cast(arg, how, depth + 1) for place in places if (arg := x.args[place]) is not None}
            args = [cast.get(place, arg) for place, arg in enumerate(x.args)]
            return self.move(x.op, args, x.attrs, (how.to, x.shape), x.out)
        elif (before := conversion_of(x)) and x.args[0] is not None and collapses(x.args[0].dtype, before, how):
            return self.cast(x.args[0], how, depth)
        elif x.op != "Table" and values_of(x.dtype) is not None:
            return self.tabled(x, how.to, *converted(x.dtype, how))
        else:
            result = self.pointwise([x], lambda arrays: how.of(arrays[0], x.dtype), how.to)
            if result is not None:
                return result
        result = self.term("Cast", [x], {"how": how}, (how.to, x.shape))
        return self.resolved(result) if how.to in STORED or (x.codes and how.to in INTEGERS) else result

    def narrower(self, x: Term) -> Term | None:
        """Return the value that x is in a wider type; None if there is none."""
        if x.op in MOVES and MOVES[x.op] == (0,) and x.args[0] is not None:
            inner = self.narrower(x.args[0])
            return inner and self.move(x.op, [inner, *x.args[1:]], x.attrs, (inner.dtype, x.shape), x.out)
        source = x.args[0] if x.op in ("Cast", "Table") else None
        fits = source is not None and embeds(source.dtype, x.dtype) and self.cast(source, Conversion(x.dtype)) is x
        return source if fits else None

    def pointwise(
        self,
        args: Sequence[Term],
        function: Callable[[list[Array]], Results | None],
        to: int,
        by_source: dict[Term, Term | None] | None = None,
        depth: int = 0,
    ) -> Term | None:
        """Return a function of the elements of one value, and of scalars, as a table; else None.

        The value has at most 16 bits, or the operands are tables of it.
        """
        varying = [arg for arg in args if not arg.is_scalar]
        first, by_source = varying[0] if varying else args[0], {} if by_source is None else by_source
        if first.op in MOVES and len(varying) == 1 and depth < DEEPEST:
            moved = dict(enumerate(first.args))
            for place in MOVES[first.op] or range(len(first.args)):
                source = first.args[place]
                if source is not None and source not in by_source:
                    parts = [source if arg is first else arg for arg in args]
                    by_source[source] = self.pointwise(parts, function, to, by_source, depth + 1)
                if source is None or by_source[source] is None:
                    return None
                moved[place] = by_source[source]
            return self.move(first.op, list(moved.values()), first.attrs, (to, first.shape), first.out)
        roots = {arg.args[0] if arg.op == "Table" else arg for arg in varying}
        root = roots.pop() if len(roots) == 1 else None
        if root is None:
            return None
        constant = root.is_constant and len(args) == 1
        if root.array is not None and not constant:
            return None
        values = root.array if constant else values_of(root.dtype)
        if values is None and not self.tables.keys() >= {*varying}:
            return None
        untabled = cast("Array", values), np.ones(np.shape(cast("Any", values)), bool)
        tables = {arg: self.tables.get(arg, untabled) for arg in varying}
        results = function([tables[arg][0] if arg in tables else cast("Array", arg.array) for arg in args])
        if results is None:
            return None
        array, defined = results
        for _, arg_defined in tables.values():
            defined = defined & arg_defined
        if constant:
            return self.constant(array, to) if defined.all() and array.shape == root.shape else None
        if to == root.dtype and values is not None and defined.all() and agree(array, values).all():
            return root
        return self.tabled(root, to, array, defined)

    def applied(self, op: str, attrs: Mapping[str, Any], arrays: Sequence[Array]) -> Results | None:
        """Return what an operator gives for elements, and where runtimes agree on it."""
        result = self.computed(op, arrays, attrs)
        return None if result is None else (result, ~ambiguous(op, arrays, result.shape))

    def resolved(self, x: Term) -> Term:
        """Return x as a table of a value before it, of the farthest of which it is one; else x."""
        chain, fails = list[Term](), self.fails
        gather(x, None, chain)
        for root in chain[:-1] if len(chain) <= LONGEST else ():
            between, cells = list[Term](), cells_of(root.dtype)
            gather(x, root, between)
            if cells is None or any(term.op not in CHAINED and term is not root for term in between):
                continue
            result, self.fails = Followed(self, root, cells).cells(x), fails
            if result is not None and (agree(result.low, result.high) | ~result.defined).all():
                return self.tabled(root, x.dtype, result.low, result.defined)
        return x

    def bits(self, x: Term, to: int) -> Term | None:
        """Return the bits of x as another type of the same width, or in the low bits of a byte; NaN has many."""
        bits = INTEGERS.get(x.dtype, (True, 8))[1]

        def viewed(arrays: list[Array]) -> Results | None:
            array = (
                arrays[0].view(NUMPY[to]) if bits >= 8 else arrays[0].astype(np.int8).view(np.uint8) & (1 << bits) - 1
            )
            with np.errstate(invalid="ignore"):
                has_exact_bits = x.op == "input" or (arrays[0] == arrays[0]).all()  # a constant may be computed
            return (array, np.ones(array.shape, bool)) if has_exact_bits else None

        return self.pointwise([x], viewed, to)

    def decoded(self, x: Term, to: int) -> Term | None:
        """Return the values of which integers hold the codes, in their low bits; their others are to be 0."""
        bits = 4 if to == FLOAT4 else INTEGERS.get(to, (True, 8 * NUMPY[to].itemsize))[1]
        if x.op == "BitCast" and x.args[0] is not None and x.args[0].dtype == to:
            return x.args[0]

        def decode(arrays: list[Array]) -> Results:
            return arrays[0].view(NUMPY[to]) if to in FLOATS else wrapped(arrays[0], to), arrays[0] >> bits == 0

        return self.pointwise([x], decode, to)

    def tabled(self, root: Term, to: int, array: Array, defined: Array) -> Term:
        """Return a function of all values of the root as a term; of floats that are a table, as one of their root.

        But it stays a function of the floats as long as it depends on the bits of NaN, which a table does not tell. Of
        values of a small type all NaN are equal.
        """
        if root.op == "Table" and root.dtype == TensorProto.FLOAT and root.args[0] is not None:
            values, root_defined = self.tables[root]
            nan = np.isnan(values)
            same = (defined[NAN_CELLS] & agree(array[NAN_CELLS], array[NAN_CELLS[:1]])).all()
            if same or to in STORED or not nan.any():
                bits = values.view(np.uint32)
                places = np.where(bits & 0xFFFF, (bits >> 16) + (1 << 16), bits >> 16)
                return self.tabled(root.args[0], to, array[places], root_defined & defined[places] & (same | ~nan))
        term = self.term("Table", [root], {"table": table_key(to, array, defined)}, (to, root.shape))
        return self.tables.setdefault(term, (array, defined)) and term

    def move(self, op: str, args: Operands, attrs: Mapping[str, Any], kind: Kind, out: int = 0) -> Term:
        """Return the move of elements, which is done if they are known."""
        first, shape = args[0], kind[1]
        if op in ("Reshape", "Expand") and first is not None and shape is not None:
            return self.shaped(op, first, shape)
        if op in ("If", "Where") and first is not None and args[1] is not None and args[2] is not None:
            chosen = args[1 if first.elements[0] else 2] if first.is_constant and len(first.elements) == 1 else None
            chosen = args[1] if args[1] is args[2] else chosen
            if chosen is not None and (op == "If" or (shape is not None and chosen.shape == shape)):
                return chosen
        if op != "If" and kind[0] and all(arg is None or arg.array is not None for arg in args):
            array = self.evaluated(op, arrays_of(args), attrs, shape, out)
            if array is not None:
                return self.constant(array, kind[0])
        return self.term(op, args, attrs, kind, out=out)

    def shaped(self, op: str, x: Term, shape: Shape) -> Term:
        """Return the elements of x in order in another shape (Reshape), or x broadcast to it (Expand)."""
        if x.shape == shape:
            return x
        numbers, args = numbers_of(shape), x.args
        if x.array is not None and numbers is not None and self.affords(prod(numbers)):
            if op == "Expand":
                return self.constant(np.broadcast_to(x.array, numbers).copy(), x.dtype)
            if x.array.size == prod(numbers):
                return self.constant(x.array.reshape(numbers), x.dtype)
        inner = args[0] if x.op == op == "Reshape" and x.shape is not None else None
        if inner is not None and inner.shape is not None and product(inner.shape) == product(x.shape or ()):
            return self.shaped(op, inner, shape)  # a Reshape of another size fails
        return self.term(op, [x], {"shape": repr(shape)}, (x.dtype, shape))

    def affords(self, size: int) -> bool:
        """True if a constant of that many elements may be made: a model may ask for more than fits memory."""
        if size > self.budget:
            return False
        self.budget -= size if size > MOST else 0
        return True

    def evaluated(
        self, op: str, arrays: Sequence[Array | None], attrs: Mapping[str, Any], shape: Shape | None, out: int = 0
    ) -> Array | None:
        """Return the result for known elements, as onnx computes it: of moves, where each element comes from."""
        present = [array for array in arrays if array is not None]
        total, numbers = sum(array.size for array in present), numbers_of(shape)
        size = prod(numbers) if numbers is not None else total if total <= MOST else self.budget + 1
        if not self.affords(size):
            return None
        feeds, data, offset = [*arrays], list[Array](), 0
        for place in (MOVES[op] or range(len(arrays))) if op in MOVES else ():
            if place < len(arrays) and (array := arrays[place]) is not None:
                feeds[place] = np.arange(offset, offset + array.size).reshape(array.shape)
                data, offset = [*data, array.ravel()], offset + array.size
        result = self.computed(op, feeds, attrs, out)
        if not data or result is None:
            return result
        kinds = {part.dtype for part in data}
        pool = np.concatenate(data if len(kinds) == 1 else [part.astype(object) for part in data])
        return pool[result.ravel()].reshape(result.shape)

    def computed(self, op: str, arrays: Sequence[Array | None], attrs: Mapping[str, Any], out: int = 0) -> Array | None:
        """Return the result that onnx computes; None if it does not know the operator, or if the node fails."""
        if any(array is not None and array.dtype == object for array in arrays):
            return None
        feeds = {f"i{place}": array for place, array in enumerate(arrays) if array is not None}
        names = ["" if array is None else f"i{place}" for place, array in enumerate(arrays)]
        attributes = {name: value for name, value in attrs.items() if name not in ("@", "outputs")}
        node = onnx.helper.make_node(op, names, [f"o{index}" for index in range(attrs.get("outputs", 1))], **attributes)
        has_integers = any(array.dtype.kind in "iu" for array in feeds.values())
        try:
            with np.errstate(all="ignore", divide="raise" if has_integers else "ignore"):
                evaluator: Any = onnx.reference.ReferenceEvaluator(node, opsets={"": attrs["@"]})
                return np.asarray(evaluator.run(None, feeds)[out])
        except Exception:  # foreign code
            self.fails = True
            return None


# What is computed of a float of which no more is known than its cell: two floats near each other, and all between.


class Cells(NamedTuple):
    """The least and the greatest value of a function on each cell, where it is defined: all values are NaN, or none.

    They are one array if the function is constant on each cell.
    """

    low: Array
    high: Array
    defined: Array


@cache
def cells_of(dtype: int) -> Cells | None:
    """Return cells that hold all values: each alone, or of float the first of each upper half, and the rest of them."""
    low = high = values_of(dtype)
    if dtype == TensorProto.FLOAT:
        upper = np.arange(1 << 16, dtype=np.uint32) << 16
        low, high = np.concatenate([upper, upper + 1]), np.concatenate([upper, upper + 0xFFFF])
        low, high = np.where(low >> 31, high, low).view(np.float32), np.where(low >> 31, low, high).view(np.float32)
    return None if low is None or high is None else Cells(low, high, np.ones(low.shape, bool))


NAN_CELLS = np.flatnonzero(np.isnan(cast("Cells", cells_of(TensorProto.FLOAT)).low))


def gather(x: Term, root: Term | None, chain: list[Term]) -> None:
    """Add to the chain x, and what it is computed from, operands first, but nothing before the root."""
    if x in chain or len(chain) > LONGEST:
        return
    for arg in x.args if x is not root and x.op in CHAINED else ():
        if arg is not None and not arg.is_scalar:
            gather(arg, root, chain)
    chain.append(x)


def order(array: Array) -> Array:
    """Return integers in the order of the elements, -0 before 0."""
    if array.dtype.kind in "biu":
        return array
    bits = array.view(f"i{array.itemsize}")
    return np.where(bits < 0, ~bits ^ np.iinfo(bits.dtype).min, bits)


def hull(ends: Sequence[Array], defined: Array) -> Cells | None:
    """Return cells from the least to the greatest of elements; None if some are NaN, and others not."""
    low = high = ends[0]
    for array in ends[1:]:
        if ((array != array) != (low != low)).any():
            return None
        low, high = np.where(order(array) < order(low), array, low), np.where(order(array) > order(high), array, high)
    return Cells(low, low if agree(low, high).all() else high, defined)


class Followed:
    """What terms are on cells of a value that they are computed from, the root."""

    def __init__(self, terms: Terms, root: Term, cells: Cells) -> None:
        self.terms, self.root = terms, root
        self.by_term: dict[Term, Cells | None] = {root: cells}

    def cells(self, x: Term) -> Cells | None:
        """Return the cells of a term; None if they are not known."""
        if x.known is not None and x.is_scalar:
            return Cells(x.known, x.known, np.ones((), bool))
        if x not in self.by_term:
            self.by_term[x] = self._cells(x)
        return self.by_term[x]

    def _cells(self, x: Term) -> Cells | None:
        args = [arg for arg in x.args if arg is not None]
        if x.op == "Table":
            array, defined = self.terms.tables[x]
            return Cells(array, array, defined) if args[0] is self.root else None
        operands = [cells for arg in args if (cells := self.cells(arg)) is not None] if x.op in CHAINED else []
        if not operands or len(operands) < len(args):
            return None
        if x.op == "Where":
            condition, then, otherwise = operands
            low, high, defined = (np.where(condition.low, *pair) for pair in zip(then, otherwise, strict=True))
            return hull([low, high], defined & condition.defined) if condition.low is condition.high else None
        result = self._between(x, args, operands)
        return result if result is None or x.op != "Sub" else self._split(result, args, operands)

    def _between(self, x: Term, args: Sequence[Term], operands: Sequence[Cells]) -> Cells | None:
        """Return what an operator gives that is monotone in each operand: it is least and greatest at their ends."""
        ends = [(operand.low,) if operand.low is operand.high else (operand.low, operand.high) for operand in operands]
        results = [self._elements(x, args, corner) for corner in itertools.product(*ends)]
        corners = [corner for corner in results if corner is not None]
        opened = reduce(np.logical_or, (~agree(operand.low, operand.high) for operand in operands))
        if len(corners) < len(results) or (opened & ~monotone(x, args, operands)).any():
            return None
        if any((opened & (corners[0][-1] != defined)).any() for *_, defined in corners):
            return None
        defined = reduce(np.logical_and, (operand.defined for operand in operands), corners[0][-1])
        result = hull([array for *arrays, _ in corners for array in arrays], defined)
        if result is None or x.op not in CHOOSING or x.dtype not in FLOATS:
            return result
        # of zeros any may be chosen
        zeros = sum(((operand.low <= 0) & (operand.high >= 0)).astype(int) for operand in operands)
        return hull(
            [np.where((zeros > 1) & (end == 0), zero, end) for end, zero in zip(result[:2], ZEROS, strict=True)],
            defined,
        )

    def _elements(self, x: Term, args: Sequence[Term], arrays: Sequence[Array]) -> tuple[Array, ...] | None:
        """Return the least and the greatest element that an operator may give, or one, and where it is defined."""
        source = args[0].dtype
        if x.op == "Cast":
            how = conversion_of(x)
            return how and how.of(arrays[0], source)
        if x.op == "BitCast":
            # what bits a computed NaN has is not said
            has_exact_bits = args[0] is self.root or (arrays[0] == arrays[0]).all()
            return (arrays[0].view(NUMPY[x.dtype]), np.ones(arrays[0].shape, bool)) if has_exact_bits else None
        if source not in EXACT | {*INTEGERS}:
            return None
        if x.op == "Log":
            with np.errstate(all="ignore"):
                exact = np.log(arrays[0].astype(np.float64))
                error = np.where(np.isinf(exact), 0.0, np.maximum(np.abs(exact), 1.0) * LOG_ERROR)
                ends = [(exact + sign * error).astype(NUMPY[source]) for sign in (-1, 1)]
            return *ends, np.ones(exact.shape, bool)
        if x.op not in CHOOSING:
            return self.terms.applied(x.op, x.attrs, arrays)
        result = self.terms.computed(x.op, arrays, x.attrs)
        return None if result is None else (result, ~reduce(np.logical_or, (array != array for array in arrays)))

    def _split(self, result: Cells, args: Sequence[Term], operands: Sequence[Cells]) -> Cells:
        """Return the cells of total - rest, if rest is total - part, or the lesser of that and of something."""
        (total, rest), same = args, np.ones((), bool)
        if rest.op == "Min" and rest.args[0] is not None and (inner := self.cells(rest.args[0])) is not None:
            rest, same = rest.args[0], agree(operands[1].high, inner.high)
        part = self.cells(rest.args[1]) if rest.op == "Sub" and rest.args[0] is total and rest.args[1] else None
        fits = part is not None and rest.dtype == TensorProto.FLOAT
        return split(result, operands[0], part, operands[1], same) if part is not None and fits else result


def monotone(x: Term, args: Sequence[Term], operands: Sequence[Cells]) -> Array:
    """Where an operator is monotone in each of its operands, on cells whose ends are not equal."""
    first, last, op, source = operands[0], operands[-1], x.op, args[0].dtype
    always, never, is_float = np.ones((), bool), np.zeros((), bool), source in FLOATS
    pure = [np.signbit(operand.low) == np.signbit(operand.high) for operand in operands] if is_float else [always]
    if op in ("Add", "Sub", "Mul", "Div") and is_float:
        finite = reduce(np.logical_and, (np.isfinite(end) for operand in operands for end in operand[:2]))
        return finite if op != "Div" else finite & pure[-1] & (last.low != 0) & (last.high != 0)
    if op == "Cast":
        return steady(x.dtype, source, first)
    if op == "BitwiseAnd" and source == TensorProto.UINT32:  # with the upper or the lower half
        mask = last.low & 0xFFFF
        return ((first.low ^ first.high) >> 16 == 0) & agree(last.low, last.high) & ((mask == 0) | (mask == 0xFFFF))
    if op == "BitShift" and x.attrs.get("direction") == b"RIGHT":
        return agree(last.low, last.high)
    if op in ("Abs", "BitCast"):
        return pure[0] if is_float else never
    floats = is_float and op in ("Neg", "Floor", "Ceil", "Round", "Sqrt", "Log")
    return always if floats or op in ("Max", "Min", "Clip", "IsNaN", *COMPARISONS[1:]) else never


def steady(to: int, source: int, cells: Cells) -> Array:
    """Where Cast is monotone on cells, and defined on the whole of one if it is at its ends, or undefined."""
    if to == BOOL or (to in INTEGERS and source in INTEGERS and not embeds(source, to)):
        return np.zeros((), bool)
    if to not in INTEGERS or source not in FLOATS:
        return np.ones((), bool)
    least, end = span(to)
    with np.errstate(all="ignore"):
        low, high = (np.clip(np.trunc(side.astype(np.float64)), least - 1, end) for side in cells[:2])
    pure = np.signbit(cells.low) == np.signbit(cells.high)
    if INTEGERS[to][1] < 8:  # defined only near integers
        return (pure & (low == high)) | ((cells.low == 0) & (cells.high == 0))
    return pure | ((low >= least) & (high < end))


def split(result: Cells, total: Cells, part: Cells, rest: Cells, fits: Array) -> Cells:
    """Return the cells of total - rest, where rest is total - part, rounded to a multiple of its unit u.

    If part is at least 0, and at most half of total, then rest is at least half of total, and total - rest is exact
    (Sterbenz). It is a multiple of u, as total is, and differs from part by at most u / 2, the error of rest.
    """
    with np.errstate(all="ignore"):
        low, high, least_total = (end.astype(np.float64) for end in (part.low, part.high, total.low))
        fits = fits & (low >= 0) & (least_total >= 2 * high) & (least_total >= 2.0**-100) & np.isfinite(total.high)
        units = [np.ldexp(1.0, np.frexp(np.where(fits, end, 1.0).astype(np.float64))[1] - 24) for end in rest[:2]]
        fits &= (units[1] <= 2 * units[0]) & ~agree(result.low, result.high)
        least = reduce(np.minimum, (unit * np.ceil(low / unit - 0.5) for unit in units)) + 0.0
        most = reduce(np.maximum, (unit * np.floor(high / unit + 0.5) for unit in units)) + 0.0
        low = np.where(fits, least, result.low).astype(np.float32)
        high = np.where(fits, most, result.high).astype(np.float32)
    return Cells(low, low if agree(low, high).all() else high, result.defined)


@cache
def converted(dtype: int, how: Conversion) -> Results:
    values = values_of(dtype)
    assert values is not None
    return how.of(values, dtype)


def ambiguous(op: str, arrays: Sequence[Array], shape: tuple[int, ...]) -> Array:
    """Where runtimes differ: a shift by the whole width; the greatest of NaN, or of zeros of two signs."""
    if op == "BitShift":
        return np.broadcast_to(arrays[1] >= 8 * arrays[0].itemsize, shape)
    if op not in CHOOSING or arrays[0].dtype.kind in "biu":
        return np.zeros(shape, bool)
    nans, plus, minus = np.zeros(shape, bool), np.full(shape, op == "Relu"), np.zeros(shape, bool)
    for array in arrays:
        nans = nans | (array != array)
        plus, minus = plus | ((array == 0) & ~np.signbit(array)), minus | ((array == 0) & np.signbit(array))
    return nans | (plus & minus)


def table_key(to: int, array: Array, defined: Array) -> object:
    """Return what equal tables share: all NaNs are equal, and so are elements that are not defined."""
    with np.errstate(invalid="ignore"):
        fixed = defined & (array == array)
    return to, digest(np.where(fixed, array, np.zeros((), array.dtype))), digest(defined), digest(fixed)


@cache
def name_of(dtype: np.dtype[Any]) -> str:
    return str(dtype)


def digest(array: Array) -> str:
    """Return the hash of an array: its type, shape and elements."""
    hasher = hashlib.sha256(f"{name_of(array.dtype)} {array.shape} ".encode())
    if array.dtype == object:
        hasher.update(repr(array.tolist()).encode())
    else:
        hasher.update(cast("Any", np.ascontiguousarray(array).reshape(-1).view(np.uint8)))
    return hasher.hexdigest()


def objects(elements: Sequence[Any], shape: tuple[int, ...]) -> Array:
    """Return an array of Python objects."""
    result = np.empty(len(elements), object)
    result[:] = elements
    return result.reshape(shape)


def typed(array: Array, dtype: int) -> Array:
    """Return an array of Python numbers as one of the type; integers wrap, as all arithmetic on them."""
    if dtype not in INTEGERS:
        return array.astype(NUMPY[dtype])
    wide = [int(element) & (2**64 - 1) for element in array.ravel().tolist()]
    return wrapped(np.array(wide, np.uint64).reshape(array.shape), dtype)


def elementwise(function: Callable[..., Any], arrays: Sequence[Array]) -> Array:
    """Return the function of the elements at each place, as an array of Python objects."""
    wide = np.broadcast_arrays(*(array.astype(object) for array in arrays))
    rows = zip(*(array.ravel().tolist() for array in wide), strict=True)
    return objects([function(*elements) for elements in rows], wide[0].shape)


def cast_element(source: int, how: Conversion, element: Any) -> Any:
    if not isinstance(element, Poly):
        array, defined = how.of(np.array(element).astype(NUMPY[source]), source)
        if defined.all() and how.to not in FLOAT8:
            return array.item()
    elif {source, how.to} <= SIZES:
        return element
    return atom_of((source, how, element), "cast")


def symbolic(op: str, dtype: int, elements: Sequence[Any]) -> Any:
    """Return what the operator gives for elements, of which one at least is no number."""
    a, b = elements[0], elements[-1]
    if dtype in SIZES and len(elements) == 2:
        if op in ("Add", "Sub", "Mul"):
            return a + b if op == "Add" else a - b if op == "Sub" else a * b
        if op == "Div" and (exact := quotient(a, b)) is not None:
            return exact
        if op in ("Max", "Min") and a == b:
            return a
        below, above = at_most(a + 1, b), at_most(b + 1, a)
        if op == "Equal" and (a == b or below or above):
            return a == b
        if op in ("Less", "GreaterOrEqual") and (below or at_most(b, a)):
            return below == (op == "Less")
        if op in ("Greater", "LessOrEqual") and (above or at_most(a, b)):
            return above == (op == "Greater")
    natural = dtype in SIZES and op in ("Div", "Mod", "Max", "Min") and at_most(1, b)
    natural = natural and all(at_most(0, element) for element in elements)
    return atom_of((op, dtype, elements), "<" if natural else "number")


# Models as terms.

Env = ChainMap[str, Term]
Functions = Mapping[tuple[str, str, str], onnx.FunctionProto]


@dataclass(frozen=True)
class Scope:
    """What the nodes of a graph or function refer to: `path` has the calls and bodies around them, outermost first."""

    opsets: Mapping[str, int]
    functions: Functions
    parameters: Mapping[str, onnx.AttributeProto]
    path: tuple[str, ...] = ()
    depth: int = 0  # of bodies that have inputs

    def inside(self, node: onnx.NodeProto, **changes: Any) -> Scope:
        return replace(self, path=(*self.path, *node.output), **changes)


def looked_up(env: Env, name: str) -> Term:
    if name not in env:
        raise RefusedError(f"{name} is used, and nothing makes it")
    return env[name]


def domain_of(proto: Any) -> str:
    """Return the domain of a node, function or import: that of onnx has two names."""
    return "" if proto.domain == "ai.onnx" else proto.domain


def resolved(proto: onnx.AttributeProto, scope: Scope) -> onnx.AttributeProto | None:
    """Return the attribute, or that of the call which it refers to; None if the call does not state it."""
    if not proto.ref_attr_name:
        return proto
    argument = scope.parameters.get(proto.ref_attr_name)
    if argument is not None and argument.HasField("g"):
        raise RefusedError("graphs as arguments of functions are not supported")
    if argument is not None:
        argument = type(proto).FromString(argument.SerializeToString())
        argument.name = proto.name
    return argument


def attribute(proto: onnx.AttributeProto) -> Any:
    """Return the value of an attribute in a form that can be compared."""
    kinds = onnx.AttributeProto
    if proto.type == kinds.GRAPHS:
        raise RefusedError(f"lists of graphs, as in the attribute {proto.name}, are not supported")
    if proto.type == kinds.TENSOR:
        return "tensor", proto.t.data_type, digest(elements_of(proto.t))
    values = {kinds.INT: proto.i, kinds.INTS: tuple(proto.ints), kinds.STRING: proto.s}
    return values.get(proto.type, proto.SerializeToString(deterministic=True))


@cache
def meaning_of(schema: onnx.defs.OpSchema) -> int:
    """Return the first version from which on an operator means the same: only its types were added to since."""

    def text(version: onnx.defs.OpSchema) -> object:
        attributes = {
            name: (kind.type, str(kind.default_value), kind.description) for name, kind in version.attributes.items()
        }
        ports = [(port.name, port.option, port.description) for port in (*version.inputs, *version.outputs)]
        return version.doc, attributes, ports

    while schema.since_version > 1 and (
        (earlier := schema_of(schema.name, schema.since_version - 1, schema.domain)) and text(earlier) == text(schema)
    ):
        schema = earlier
    return schema.since_version


@cache
def schema_of(op_type: str, opset: int, domain: str) -> onnx.defs.OpSchema | None:
    exists = 0 < opset <= LATEST.get(domain, 0) and onnx.defs.has(op_type, opset, domain)
    return onnx.defs.get_schema(op_type, opset, domain) if exists else None


def fits(node: onnx.NodeProto, attributes: Iterable[str], schema: onnx.defs.OpSchema) -> bool:
    """True if the node has as many operands and results as the schema allows, and attributes that the schema has."""
    operands = schema.min_input <= len(node.input) <= schema.max_input
    return operands and len(node.output) <= schema.max_output and schema.attributes.keys() >= {*attributes}


def port_at(ports: Sequence[Any], place: int) -> Any:
    """Return the declaration of an operand or result; of a variadic operator the last is for all others."""
    return ports[min(place, len(ports) - 1)]


@cache
def types_of(schema: onnx.defs.OpSchema) -> tuple[list[set[int]], list[set[int]]]:
    """Return the element types that the schema allows for each operand, and for each result."""
    operands, results = (
        [{NAMES.get(text, 0) for text in port.types} for port in ports] for ports in (schema.inputs, schema.outputs)
    )
    return operands, results


def allowed(formal_types: list[set[int]], values: Operands) -> bool:
    """True if values, as far as their types are known, are of the allowed ones."""
    known = ((place, value.dtype) for place, value in enumerate(values) if value is not None and value.dtype)
    return all(dtype in port_at(formal_types, place) for place, dtype in known)


def kind_of(proto: onnx.TypeProto | None, dim_of: Callable[[Any, int], Dim]) -> Kind:
    """Return the element type and the shape in a type; `dim_of` returns a dimension that has no number."""
    if proto is None:
        return 0, None
    tensor = proto.tensor_type
    dims = enumerate(tensor.shape.dim)
    shape = tuple(dim.dim_value if dim.dim_value > 0 else dim_of(dim, axis) for axis, dim in dims)
    return tensor.elem_type, shape if tensor.HasField("shape") else None


def declared(proto: onnx.TypeProto | None, place: object) -> Kind:
    """Return the kind that a type declares: dimensions of one name are one, others are those of their place."""

    def dim_of(dim: Any, axis: int) -> Dim:
        if dim.HasField("dim_value"):  # 0 or less, of which exporters mean that it is unknown
            return atom_of((place, axis), "<")
        return atom_of(dim.dim_param) if dim.dim_param else atom_of((place, axis))

    return kind_of(proto, dim_of)


@dataclass
class Call:
    """A node, with its operands as terms; `attrs` has under @ the version of the operator."""

    terms: Terms
    node: onnx.NodeProto
    domain: str
    schema: onnx.defs.OpSchema | None
    protos: Mapping[str, onnx.AttributeProto]
    args: list[Term | None]
    attrs: dict[str, Any]
    bodies: list[Term]
    opset: int
    place: tuple[str, ...]
    kinds: list[Kind]  # where the model declares them

    def key(self) -> object:
        operands = tuple(map(id, (*self.args, None, *self.bodies)))
        named_attrs = tuple(sorted(self.attrs.items()))
        pure = self.schema is not None and self.node.op_type not in RANDOM
        op, place = self.node.op_type, () if pure else self.place
        late = op in ("Cast", "CastLike", "QuantizeLinear") and self.opset >= 24  # what infinities become
        return op, self.domain, operands, named_attrs, len(self.node.output), late, place

    def results(self) -> list[Term]:
        first, op = self.args[0] if self.args else None, self.node.op_type
        if self.schema and self.domain == "" and first is not None and first.op != "absent":
            self.args = self.scalars() if op in BINARY else self.args
            rules = (RULES.get(op), ARITHMETIC.get(op), TABLED.get(op), Call.widened)
            result = next(
                (term for rule in rules if rule is not None and (term := rule(self, first)) is not None), None
            )
            if result is not None:
                return [result]
            index = self.args[1] if op in ("Gather", "GatherElements") and len(self.args) > 1 else None
            self.args[1:2] = [self.terms.narrower(index) or index] if index is not None else self.args[1:2]
        return self.without_rule()

    def scalars(self) -> list[Term | None]:
        """Return the operands, constants of one element without their axes if another operand has as many."""
        shapes = {arg: arg.shape for arg in self.args if arg is not None and arg.shape is not None}
        most = max((len(shape) for arg, shape in shapes.items() if not arg.is_constant), default=0)
        single = {
            arg for arg, shape in shapes.items() if arg.is_constant and product(shape) == 1 and len(shape) <= most
        }
        return [self.terms.shaped("Reshape", arg, ()) if arg and arg in single else arg for arg in self.args]

    def without_rule(self) -> list[Term]:
        """Return the results of an operator that is no rule's: moves, what onnx evaluates, and terms of their own."""
        terms, args, attrs, op = self.terms, self.args, self.attrs, self.node.op_type if not self.domain else ""
        kinds = self.kinds if self.schema is None else self.inferred(self.schema)
        if op == "Loop" and len(args) > 2:  # a carried value keeps its type
            kinds = [(arg.dtype if arg is not None else 0, None) for arg in args[2:]] + kinds[len(args) - 2 :]
        shapes = [arg.shape for arg in args if arg is not None and arg.shape is not None]
        if op in BINARY and len(shapes) == len(args) and self.opset >= 7:
            kinds = [(kinds[0][0], broadcast(shapes))]
        if op in MOVES:
            attrs = {**attrs, "outputs": len(self.node.output)}
            return [terms.move(op, args, attrs, kind, out) for out, kind in enumerate(kinds)]
        exact = EXACT & {*INTEGERS} if op.startswith(("Reduce", "CumSum", "Range")) else EXACT
        exact = exact | {*INTEGERS} if op == "DequantizeLinear" else exact
        computable = all(arg is None or (arg.is_constant and arg.dtype in exact) for arg in args)
        if op in EVALUATED and self.opset >= 7 and computable and kinds[0][0]:
            arrays = [array for array in arrays_of(args) if array is not None]
            size = np.broadcast_shapes(*(array.shape for array in arrays)) if op in CHOOSING else ()
            array = terms.evaluated(op, arrays_of(args), attrs, kinds[0][1])
            if array is not None and not ambiguous(op, arrays, size).any():
                return [terms.constant(array, kinds[0][0])]
        operands, name = (*args, None, *self.bodies), f"{self.domain}.{self.node.op_type}" if self.domain else op
        return [terms.term(name, operands, attrs, kind, out, self.key()) for out, kind in enumerate(kinds)]

    def inferred(self, schema: onnx.defs.OpSchema) -> list[Kind]:
        """Return type and shape of each output, as onnx infers them; an unknown dimension gets a name of its own."""
        count = len(self.node.output)
        constraints = {constraint.type_param_str: constraint for constraint in schema.type_constraints}
        by_schema = list[Kind]()  # of which onnx infers no more than that the schema has one type for it
        for out in range(count):
            port = port_at(schema.outputs, out)
            name = port.type_str
            of_inputs = {
                arg.dtype
                for place, arg in enumerate(self.args)
                if arg is not None and port_at(schema.inputs, place).type_str == name
                if port.is_homogeneous
            }
            type_texts = constraints[name].allowed_type_strs if name in constraints else [name]
            fixed = {NAMES.get(text, 0) for text in type_texts} if len(type_texts) == 1 else set[int]()
            kinds = {*of_inputs, *fixed} - {0}
            by_schema.append((kinds.pop() if len(kinds) == 1 else 0, None))
        names: dict[str, Dim] = {}
        types, data = dict[str, onnx.TypeProto](), dict[str, onnx.TensorProto]()
        for name, arg in ((f"i{place}", arg) for place, arg in enumerate(self.args) if arg is not None):
            if not arg.dtype:
                return by_schema
            names |= {repr(dim): dim for dim in arg.shape or ()}
            dims = None if arg.shape is None else [dim if isinstance(dim, int) else repr(dim) for dim in arg.shape]
            types[name] = onnx.helper.make_tensor_type_proto(arg.dtype, dims)
            if arg.known is not None and arg.known.size <= 64:
                data[name] = onnx.numpy_helper.from_array(arg.known, name)
        wrong = self.attrs.get("num_outputs", count) != count or self.attrs.get("batch_dims", 0) < 0
        if self.bodies or wrong:  # onnx 1.23 takes these sizes unchecked, and would crash
            return by_schema
        inputs = ["" if arg is None else f"i{place}" for place, arg in enumerate(self.args)]
        node = onnx.helper.make_node(schema.name, inputs, [f"o{out}" for out in range(count)])
        node.attribute.extend(self.protos.values())
        try:
            inferred_types = onnx.shape_inference.infer_node_outputs(schema, node, types, data)
        except Exception:  # foreign code: a node of which onnx infers nothing is left without a type
            self.terms.fails = True
            return by_schema
        key = self.key()

        def dim_of(out: int, dim: Any, axis: int) -> Dim:
            return names.get(dim.dim_param) or (0 if dim.HasField("dim_value") else atom_of((key, out, axis), "<"))

        return [kind_of(inferred_types.get(f"o{out}"), partial(dim_of, out)) for out in range(count)]

    def numbers(self, place: int, name: str = "") -> list[Any] | None:
        """Return the elements of an operand, or of the attribute that older opsets have instead; None if unknown."""
        arg = self.args[place] if place < len(self.args) else None
        if arg is not None:
            return None if arg.array is None or arg.array.ndim > 1 else arg.elements
        return list(self.attrs[name]) if name in self.attrs else None

    def arithmetic(self, x: Term) -> Term | None:
        """Arithmetic of small values of which some are known as polynomials only."""
        op = self.node.op_type
        arrays = [arg.array for arg in self.args if arg and arg.array is not None and arg.dtype == x.dtype]
        if len(arrays) < len(self.args) or x.dtype not in EXACT or self.opset < 7 or len(self.attrs) > 1:
            return None
        shape = numbers_of(broadcast([array.shape for array in arrays]))
        if all(array.dtype != object for array in arrays) or shape is None or prod(shape) > MOST:
            return None

        def element(*elements: Any) -> Any:
            if any(isinstance(value, Poly) for value in elements):
                return symbolic(op, x.dtype, elements)
            arrays = [np.array(value).astype(NUMPY[x.dtype]) for value in elements]
            array = self.terms.evaluated(op, arrays, self.attrs, ())
            return symbolic(op, 0, elements) if array is None else array.item()

        return self.terms.constant(elementwise(element, arrays), BOOL if op in COMPARISONS else x.dtype)

    def bits(self, x: Term) -> Term | None:
        """BitCast to a type of the same width."""
        to = self.attrs.get("to", 0)
        whole_bytes = {dtype for dtype in NUMBERS if dtype not in INTEGERS or INTEGERS[dtype][1] >= 8}
        fits = {to, x.dtype} <= whole_bytes and NUMPY[to].itemsize == NUMPY[x.dtype].itemsize
        return self.terms.bits(x, to) if fits else None

    def look_up(self, x: Term) -> Term | None:
        """Gather from a vector that is known, by a value of at most 16 bits."""
        data, places = x.known, self.args[1]
        if data is None or data.ndim != 1 or places is None or self.attrs.get("axis", 0):
            return None
        if places.dtype not in SIZES or (self.node.op_type == "GatherElements" and len(places.shape or ()) != 1):
            return None

        def looked_up(arrays: list[Array]) -> Results:
            inside = (arrays[0] >= -data.size) & (arrays[0] < data.size)
            return data[np.where(inside, arrays[0], 0).astype(np.int64)], inside

        return self.terms.pointwise([self.terms.resolved(places) if places.codes else places], looked_up, x.dtype)

    def tabled(self, x: Term) -> Term | None:
        """Arithmetic on a value of at most 16 bits."""
        args, op = [arg for arg in self.args if arg is not None and arg.dtype == x.dtype], self.node.op_type
        if len(args) < len(self.args) or x.dtype not in EXACT | {*INTEGERS} or self.opset < 7:
            return None
        to = BOOL if op in (*COMPARISONS, "IsNaN", "IsInf") else x.dtype
        return self.terms.pointwise(args, partial(self.terms.applied, op, self.attrs), to)

    def result_of(self, op: str, *args: Term | None, **attrs: Any) -> Term:
        """Return what a node of another operator would make."""
        schema = schema_of(op, self.opset, "")
        assert schema is not None
        node, attrs = onnx.helper.make_node(op, [], ["result"]), {"@": self.terms.meaning(schema), **attrs}
        call = Call(self.terms, node, "", schema, {}, list(args), attrs, [], self.opset, (), [])
        return call.results()[0]

    def widened(self, x: Term) -> Term | None:
        """Return arithmetic of 16 bits as that in float, rounded: rounding twice gives what rounding once does.

        But not where results of bfloat16 may be subnormal, which float rounds too.
        """
        ops = ("Add", "Sub", "Mul", "Div", "Sqrt") if x.dtype == TensorProto.FLOAT16 else ("Add", "Sub")
        if x.dtype not in (TensorProto.FLOAT16, TensorProto.BFLOAT16) or self.node.op_type not in ops or self.opset < 7:
            return None
        args = [self.terms.cast(arg, Conversion(TensorProto.FLOAT)) for arg in self.args if arg is not None]
        return self.terms.cast(self.result_of(self.node.op_type, *args), Conversion(x.dtype))

    def difference(self, x: Term) -> Term | None:
        """Return what was quantized, if its zero point is subtracted again: integers of which float holds the sum."""
        steps, shift = self.terms.moved.get(x, (None, None))
        return steps if shift is self.args[1] else None

    def sum(self, x: Term) -> Term | None:
        """Return the sum of one or two, or of integers, which exporters write; more floats are added in any order."""
        pairs = self.opset >= 8 and (len(self.args) < 3 or x.dtype in INTEGERS)
        return reduce(partial(self.result_of, "Add"), self.args) if pairs else None

    def ordered(self, x: Term) -> Term | None:
        """Return what sees only the order of values, or which they are, of the values before they were made wider."""
        if self.node.op_type == "Equal" and x.dtype == BOOL and self.opset >= 7:
            return self.result_of("Not", self.result_of("Xor", *self.args))
        sources: dict[Term, Term | None] = {arg: self.terms.narrower(arg) for arg in self.args if arg is not None}
        source = x.args[0] if x.op == "Cast" and self.node.op_type == "IsNaN" else None
        if source is not None and {x.dtype, source.dtype} <= {*FLOATS[:4]}:  # which keep NaN, rounded too
            sources[x] = source
        kinds = {source.dtype for source in sources.values() if source is not None}
        if not kinds:
            return None
        back = Conversion(kinds.pop())  # if there is another, the operands do not fit
        for arg in (arg for arg in self.args if arg is not None and arg.is_constant):
            narrow = sources[arg] = self.terms.cast(arg, back)
            if self.terms.cast(narrow, Conversion(arg.dtype)) is not arg:
                return None
        args = [sources.get(arg) for arg in self.args if arg is not None]
        fits = all(arg is not None and arg.dtype == back.to for arg in args)
        return self.result_of(self.node.op_type, *args, **self.attrs) if fits else None

    def dequantize(self, x: Term) -> Term | None:
        """DequantizeLinear as arithmetic, in float for integers: their differences and products are exact there."""
        scale, zero = (self.spread(x, arg) for arg in [*self.args, None][1:3])
        if scale is None or (zero is None) != (len(self.args) < 3):
            return None
        dtype = x.dtype or (0 if zero is None else zero.dtype)  # the schema wants them to be of one type
        wide = Conversion(scale.dtype if dtype in CODED else TensorProto.FLOAT)
        bits = INTEGERS.get(dtype, (True, 64))[1]
        if bits <= (16 if scale.dtype == TensorProto.FLOAT else 8) and scale.dtype in FLOATS[:3]:
            zero = None if zero is not None and zero.is_zero else zero
        elif dtype not in CODED or {*self.attrs} - {"@", "axis"}:
            return None
        if self.attrs.get("output_dtype", scale.dtype) != scale.dtype:
            return None
        y = self.terms.cast(x, wide)
        y = y if zero is None else self.result_of("Sub", y, self.terms.cast(zero, wide))
        return self.terms.cast(self.result_of("Mul", y, self.terms.cast(scale, wide)), Conversion(scale.dtype))

    def quantize(self, x: Term) -> Term | None:
        """QuantizeLinear as arithmetic."""
        scale, zero = (self.spread(x, arg) for arg in [*self.args, None][1:3])
        if scale is None or (zero is None) != (len(self.args) < 3):
            return None
        to = self.attrs.get("output_dtype", TensorProto.UINT8) if zero is None else zero.dtype
        if zero is not None and to in FLOAT8 and scale.dtype == x.dtype and {*self.attrs} <= {"@", "axis", "saturate"}:
            how = Conversion(to, self.attrs.get("saturate", 1) != 0, self.opset >= 24)
            moved = self.result_of("Add", self.result_of("Div", x, scale), self.terms.cast(zero, Conversion(x.dtype)))
            return self.terms.cast(moved, how)
        return self.rounded(x, scale, None if zero is not None and zero.is_zero else zero, to)

    def rounded(self, x: Term, scale: Term, zero: Term | None, to: int) -> Term | None:
        """Return what QuantizeLinear gives for integers; of NaN, which is undefined, the zero point."""
        precision, wide = self.attrs.get("precision") or scale.dtype, Conversion(TensorProto.FLOAT)
        _, bits = INTEGERS.get(to, (True, 64))
        fits = {precision, scale.dtype} <= {*FLOATS[:3]} and x.dtype in (*FLOATS[:3], INT32)
        if not fits or bits > 16 or self.opset < 11:
            return None
        least, end = map(int, span(to))
        ends = least, end - 1
        low, high, float_zero = (
            self.terms.constant(np.array(limit, np.float32), TensorProto.FLOAT) for limit in (*ends, 0)
        )
        shift = float_zero if zero is None else self.terms.cast(zero, wide)
        if shift.known is not None:  # what is clipped, before the zero point is added
            limits = [self.terms.constant(end.array - shift.known, TensorProto.FLOAT) for end in (low, high)]
        else:
            limits = [zero, low, high]
        operands = [self.terms.cast(self.terms.cast(arg, Conversion(precision)), wide) for arg in (x, scale)]
        quotient = self.terms.cast(self.result_of("Div", *operands), Conversion(precision))  # or 0 where subnormal
        integral = self.result_of("Round", self.terms.cast(quotient, wide))
        steps = self.result_of("Where", self.result_of("IsNaN", integral), float_zero, integral)
        if integral.known is None:
            is_defined = self.terms.may_define((x, scale, precision, *limits), steps)
        else:
            is_defined = not np.isnan(integral.known).any()
        if not is_defined:
            return None
        integral = steps if zero is None else self.result_of("Add", steps, shift)
        if integral.known is not None:  # of whose zeros the sign is lost
            return self.terms.constant(Conversion(to).of(np.clip(integral.known, *ends), TensorProto.FLOAT)[0], to)
        result = self.terms.cast(self.result_of("Max", self.result_of("Min", integral, high), low), Conversion(to))
        if result.op == "Cast" and len(limits) == 2:
            steps = self.result_of("Max", self.result_of("Min", steps, limits[1]), limits[0])
            steps = self.result_of("Add", steps, float_zero)
            self.terms.quantized[result] = steps if zero is None else self.result_of("Add", steps, shift)
            self.terms.moved[self.terms.quantized[result]] = steps, shift
        return result

    def spread(self, x: Term, scale: Term | None) -> Term | None:
        """Return a scale, or zero points, in the shape that broadcasts to x; None if it is not known."""
        axis: int = self.attrs.get("axis", 1)
        block: int = self.attrs.get("block_size", 0)
        if scale is None or scale.shape is None:
            return None
        shape = scale.shape
        if shape in ((), (1,)) and not block:
            return self.terms.shaped("Reshape", scale, ())
        if x.shape is None or not -len(x.shape) <= axis < len(x.shape) or len(shape) != (len(x.shape) if block else 1):
            return None
        axis %= len(x.shape)
        length = x.shape[axis]
        if not block:
            return self.terms.shaped("Reshape", scale, (*shape, *(1,) * (len(x.shape) - axis - 1)))
        if not isinstance(length, int) or block < 0:
            return None
        places = self.terms.constant(np.arange(length) // block, INT64)
        return self.result_of("Gather", scale, places, **({"axis": axis} if axis else {}))

    def identity(self, x: Term) -> Term | None:
        drops = self.node.op_type == "Dropout" and (len(self.node.output) > 1 or len(self.args) > 2 or self.opset < 7)
        return None if drops else x

    def cast(self, x: Term) -> Term | None:
        like = self.args[1] if self.node.op_type == "CastLike" else None
        to = self.attrs.get("to") if like is None else like.dtype
        to = TensorProto.DataType.Value(to.decode()) if isinstance(to, bytes) else to  # before opset 6
        if not isinstance(to, int) or not to or "round_mode" in self.attrs:
            return None
        x = self.unsigned(x) if to in INTEGERS else x
        return self.terms.cast(x, Conversion(to, self.attrs.get("saturate", 1) != 0, self.opset >= 24))

    def unsigned(self, x: Term) -> Term:
        """Return x, or what differs from it in the sign of zeros alone: x before a zero is added."""
        operands = [arg for arg in x.args if arg is not None]
        if len(operands) != 2 or operands[0].shape is None or operands[0].shape != x.shape:
            return x
        source, other = operands
        if x.op == "Add" and x.dtype in FLOATS and other.is_zero:
            return source
        return self.result_of(x.op, self.unsigned(source), other) if x.op in ("Max", "Min") else x

    def shape(self, x: Term) -> Term | None:
        if x.shape is None:
            return None
        part = x.shape[slice(self.attrs.get("start", 0), self.attrs.get("end"))]
        size = self.node.op_type == "Size"
        return self.terms.constant(objects([product(part)], ()) if size else objects(part, (len(part),)), INT64)

    def reshape(self, x: Term) -> Term | None:
        """Reshape, with what 0 and -1 stand for."""
        sizes, dims = self.numbers(1, "shape"), list[Dim]()
        for place, dim in enumerate(sizes or ()):
            copied = dim == 0 and not self.attrs.get("allowzero")
            if copied and (x.shape is None or place >= len(x.shape)):
                return None
            dims.append(x.shape[place] if copied and x.shape else dim)
        if sizes is None or any(isinstance(dim, int) and (dim < -1 or dim == 0) for dim in dims):
            return None
        unsure = [place for place, dim in enumerate(dims) if not at_most(1, dim)]
        kind = "<dim" if x.shape is not None and at_most(1, product(x.shape)) else "<"  # of no elements, it may be 0
        if x.shape is not None and len(unsure) == 1:  # also if it is 0 or -1, it is what the others leave
            dims.pop(unsure[0])
            before, after = Counter(x.shape), Counter(dims)
            dividend, divisor = (product(sizes.elements()) for sizes in (before - after, after - before))
            number = quotient(dividend, divisor)
            dims.insert(unsure.pop(), atom_of((dividend, divisor), kind) if number is None else number)
        if not unsure:
            return self.terms.shaped("Reshape", x, tuple(dims))
        shape = tuple(atom_of((x.shape, dims, place), kind) for place in range(len(dims)))
        return self.terms.term("Reshape", [x], {"shape": f"of {dims}"}, (x.dtype, shape))

    def reshaped(self, x: Term) -> Term | None:
        """Flatten, Squeeze and Unsqueeze as Reshape."""
        if self.node.op_type == "Flatten" and x.shape is not None:
            axis = self.attrs.get("axis", 1)
            if abs(axis) > len(x.shape):
                return None
            shape: Shape | None = (product(x.shape[:axis]), product(x.shape[axis:]))
        else:
            shape = self.inferred(self.schema)[0][1] if self.schema is not None else None
        if shape is None or (self.node.op_type != "Flatten" and not {*shape} - {1} <= {*(x.shape or ())}):
            return None
        return self.terms.shaped("Reshape", x, shape)

    def expand(self, x: Term) -> Term | None:
        filling = self.args[1] if self.node.op_type == "ConstantOfShape" else None
        sizes, x = self.numbers(0 if filling else 1), self.terms.shaped("Reshape", filling, ()) if filling else x
        if filling and sizes is None:
            return self.terms.term("ConstantOfShape", [self.args[0], x], {}, (x.dtype, None))
        is_known = sizes is not None and x.shape is not None
        return self.terms.shaped("Expand", x, broadcast([x.shape or (), tuple(sizes or ())])) if is_known else None

    def counted(self, x: Term) -> Term | None:
        """Range of integers that are not all known."""
        ends: list[Any] = [numbers[0] if (numbers := self.numbers(place)) else None for place in range(3)]
        start, limit, step = ends
        if x.dtype not in INTEGERS or start is None or not isinstance(limit, Poly) or step != 1:
            return None
        return self.terms.term("Range", self.args, {}, (x.dtype, (limit - start,))) if at_most(start, limit) else None

    def where(self, _: Term) -> Term | None:
        args = [arg for arg in self.args if arg is not None]
        shapes = [arg.shape for arg in args if arg.shape is not None]
        if len(shapes) < 3 or args[1].dtype != args[2].dtype:
            return None
        shape = broadcast(shapes)
        if all(arg.array is not None for arg in args):  # moves follow operands of one shape
            args = [self.terms.shaped("Expand", arg, shape) for arg in args]
        return self.terms.move("Where", args, {"@": self.attrs["@"]}, (args[1].dtype, shape))


RULES: Mapping[str, Callable[[Call, Term], Term | None]] = {
    "BitCast": Call.bits,
    "DequantizeLinear": Call.dequantize,
    "QuantizeLinear": Call.quantize,
    "Range": Call.counted,
    "Reshape": Call.reshape,
    "Sub": Call.difference,
    "Sum": Call.sum,
    "Where": Call.where,
    **dict.fromkeys(("Identity", "Dropout"), Call.identity),
    **dict.fromkeys(("Cast", "CastLike"), Call.cast),
    **dict.fromkeys(("Gather", "GatherElements"), Call.look_up),
    **dict.fromkeys(("Shape", "Size"), Call.shape),
    **dict.fromkeys(("Flatten", "Squeeze", "Unsqueeze"), Call.reshaped),
    **dict.fromkeys(("Expand", "ConstantOfShape"), Call.expand),
    **dict.fromkeys(("IsInf", "IsNaN", "ArgMax", "ArgMin", "NonZero", *COMPARISONS), Call.ordered),
}
ARITHMETIC = dict.fromkeys(ELEMENTWISE, Call.arithmetic)
TABLED = dict.fromkeys(ELEMENTWISE | BITWISE | {"IsNaN", "IsInf", "Round", "Relu", "Clip"}, Call.tabled)
"""Operators that are evaluated for all values of an operand of at most 16 bits."""


class Reader:
    """Reads nodes as terms."""

    def __init__(self, terms: Terms, types: Mapping[str, onnx.TypeProto]) -> None:
        self.terms, self.types = terms, types
        self.call_results: dict[object, list[Term]] = {}
        self.failing: set[object] = set()
        self.doubts: dict[object, str] = {}  # nodes of the present model that fail, or whose operands have mixed types
        self.count = 0

    def nodes(self, nodes: Sequence[onnx.NodeProto], env: Env, scope: Scope, ends: Iterable[str]) -> None:
        """Add the results of nodes, which are in order, to the environment."""
        names = [*map(names_in, nodes)]
        used, used_so_far = {*ends}.union(*names), set[str]()
        for node, operands in zip(nodes, names, strict=True):
            used_so_far |= operands
            terms = self.node(node, env, scope)
            for name, term in zip(node.output, terms, strict=False):
                if name and (name in env.maps[0] or name in used_so_far):
                    raise RefusedError(f"{name} is made twice, or used before it is made")
                env[name] = term
            if not used & {*node.output} and not all(term.is_constant for term in terms):  # but it may fail
                self.doubts["unused", tuple(terms)] = f"{node.op_type}, which nothing uses,"

    def node(self, node: onnx.NodeProto, env: Env, scope: Scope) -> list[Term]:
        """Return the results of a node."""
        self.count += bool(scope.path)
        if self.count > MOST_NODES or len(scope.path) > MOST_CALLS:
            raise RefusedError("the functions of the model, written out, have too many nodes")
        args = [looked_up(env, name) if name else None for name in node.input]
        while args and args[-1] is None:
            args.pop()
        domain = domain_of(node)
        function = scope.functions.get((domain, node.op_type, node.overload))
        protos = {proto.name: actual for proto in node.attribute if (actual := resolved(proto, scope)) is not None}
        if function is not None:
            return self._call(function, args, scope.inside(node, parameters=protos))
        opset = scope.opsets.get(domain, 0)
        if (domain, node.op_type) in SAME and all(arg is None or arg.dtype != TensorProto.FLOAT16 for arg in args):
            domain, opset = "", LATEST[""]
        schema = schema_of(node.op_type, opset, domain)
        if schema is not None and not fits(node, protos.keys(), schema):
            schema = None  # a runtime may honour what the version does not have, or not
        if domain == "" and node.op_type == "Constant" and schema is not None:
            return [self._constant(protos)]
        attrs: dict[str, Any] = {"@": -scope.opsets.get(domain, 0) if schema is None else self.terms.meaning(schema)}
        bodies = list[Term]()
        for name, proto in sorted(protos.items()):
            if proto.type == onnx.AttributeProto.GRAPH:
                body = self._body(proto.g, node, args, env, scope)
                attrs[name], bodies = f"body of {len(body)}", [*bodies, *body]
            elif schema is None or proto != schema.attributes[name].default_value:
                attrs[name] = attribute(proto)
        if domain == "" and node.op_type == "If" and args and args[0] is not None:
            if attrs.get("then_branch") != attrs.get("else_branch") or len(bodies) != 2 * len(node.output):
                raise RefusedError(f"the branches that make {node.output[0]} have other results than it")
            pairs = zip(bodies[len(node.output) :], bodies, strict=False)  # else_branch is the first by name
            return [self._if(args[0], then, otherwise) for then, otherwise in pairs]
        if domain == "" and node.op_type == "ConstantOfShape":
            zero = onnx.helper.make_tensor("", TensorProto.FLOAT, [1], [0.0])
            value = protos["value"].t if "value" in protos else zero
            args.append(self.terms.constant(elements_of(value), value.data_type))
        elif schema is not None and domain == "":
            args = self.promoted(args, schema)
        types = [] if scope.path else [self.types.get(name) for name in node.output]
        kinds = [declared(kind, (node.output[0], out)) for out, kind in enumerate(types or [None] * len(node.output))]
        place, opset = self.place(node, scope), scope.opsets.get("", 0)
        call = Call(self.terms, node, domain, schema, protos, args, attrs, bodies, opset, place, kinds)
        key = call.key()
        if (key, opset) not in self.call_results:
            self.terms.fails = False
            self.call_results[key, opset] = self.results(call)
            self.failing |= {key} if self.terms.fails else set()
        self.doubts |= {key: node.op_type} if key in self.failing else {}
        operands, results = args[: len(node.input)], self.call_results[key, opset]
        if schema and not all(map(allowed, types_of(schema), (operands, results))):
            self.doubts["types", key] = node.op_type
        self.terms.defined |= {*results} if self.terms.is_first else set()
        return results

    def _if(self, condition: Term, then: Term, otherwise: Term) -> Term:
        kind = then.dtype if then.dtype == otherwise.dtype else 0, then.shape if then.shape == otherwise.shape else None
        return self.terms.move("If", [condition, then, otherwise], {}, kind)

    def place(self, node: onnx.NodeProto, scope: Scope) -> tuple[str, ...]:
        """Return what tells the node from others that look the same, if its operator may draw random numbers."""
        return *scope.path, *node.output

    def results(self, call: Call) -> list[Term]:
        return call.results()

    def promoted(self, args: list[Term | None], schema: onnx.defs.OpSchema) -> list[Term | None]:
        """Return the operands, those that the schema wants to have one type in their common type."""
        formals = [port_at(schema.inputs, place).type_str for place in range(len(args))]
        for formal in {formal for formal in formals if formal.startswith("T")}:
            places = [place for place, name in enumerate(formals) if name == formal]
            types = {arg.dtype for place in places if (arg := args[place]) is not None}
            common = common_type(types) if len(types) > 1 else None
            if common is not None:
                how = Conversion(common)
                self.doubts[schema.name, tuple(map(id, args))] = schema.name
                args = [self.terms.cast(arg, how) if arg and place in places else arg for place, arg in enumerate(args)]
        return args

    def _call(self, function: onnx.FunctionProto, args: Operands, scope: Scope) -> list[Term]:
        """Return the results of a function: those of its nodes."""
        if len(args) > len(function.input):
            raise RefusedError(f"{function.name} is called with more operands than it has")
        defaults = {proto.name: proto for proto in function.attribute_proto}
        opsets = {domain_of(entry): entry.version for entry in function.opset_import}
        absent = self.terms.term("absent", (), {}, (0, None))
        env: Env = ChainMap(dict.fromkeys(function.input, absent))
        env.update({name: arg for name, arg in zip(function.input, args, strict=False) if arg is not None})
        inner = replace(scope, opsets={**scope.opsets, **opsets}, parameters={**defaults, **scope.parameters})
        self.nodes(function.node, env, inner, function.output)
        return [looked_up(env, name) for name in function.output]

    def _body(self, graph: onnx.GraphProto, node: onnx.NodeProto, args: Operands, env: Env, scope: Scope) -> list[Term]:
        """Return the outputs of a body; its inputs are terms that only the body has."""
        inner = env.new_child()
        for place, value in enumerate(graph.input):
            source = args[place] if place < len(args) and node.op_type in ("Loop", "Scan") else None
            kind: Kind = (source.dtype if source is not None and scope.opsets.get("", 0) >= 9 else 0, None)
            if schema_of(node.op_type, scope.opsets.get(node.domain, 0), node.domain) is None:
                kind = declared(value.type, (scope.depth, place))
            if node.op_type == "Loop" and place < 2:
                kind = ((INT64, ()), (BOOL, ()))[place]
            inner[value.name] = self.terms.term(f"bound {scope.depth} {place}", (), {}, kind, key=kind)
        for tensor in graph.initializer:
            if tensor.name in inner.maps[0]:
                raise RefusedError(f"{tensor.name} is made twice")
            inner[tensor.name] = self.terms.constant(elements_of(tensor), tensor.data_type)
        names = [value.name for value in graph.output]
        self.nodes(graph.node, inner, scope.inside(node, depth=scope.depth + bool(graph.input)), names)
        for name in (name for name in names if name not in inner.maps[0]):
            self.doubts[name, "a body"] = f"{name}, which the body does not make,"  # onnx wants it to, runtimes do not
        return [looked_up(inner, name) for name in names]

    def _constant(self, protos: Mapping[str, onnx.AttributeProto]) -> Term:
        ((name, proto),) = protos.items()
        if name == "value":
            return self.terms.constant(elements_of(proto.t), proto.t.data_type)
        kinds = {"value_int": (INT64, proto.i), "value_ints": (INT64, list(proto.ints))}
        kinds |= {"value_float": (TensorProto.FLOAT, proto.f), "value_floats": (TensorProto.FLOAT, list(proto.floats))}
        if name not in kinds:
            return self.terms.term("Constant", (), {name: attribute(proto)}, (0, None))
        return self.terms.constant(np.array(kinds[name][1], NUMPY[kinds[name][0]]), kinds[name][0])


# Certificates.

State = dict[str, str]
"""A model as texts by name: nodes, constants by their hash, inputs, outputs, functions."""


def elements_of(tensor: onnx.TensorProto) -> Array:
    """Return the elements of a tensor. Raises RefusedError if it has others than its shape says."""
    if tensor.data_location == TensorProto.EXTERNAL:  # its elements are not part of the model that was read
        raise RefusedError(f"the elements of {tensor.name} are in another file, which was not read")
    try:
        return onnx.numpy_helper.to_array(tensor)
    except (LookupError, TypeError, ValueError) as error:
        raise RefusedError(f"the tensor {tensor.name} cannot be read: {error}") from None


def state_of(model: onnx.ModelProto, pool: dict[str, Array], constant_texts: Mapping[str, str] | None = None) -> State:
    """Return the model as texts; its constants are added to the pool by their hash.

    constant_texts: The texts of constants that need not be read.
    """
    parts: list[tuple[str, str]] = [("IR version", str(model.ir_version))]
    if model.graph.sparse_initializer:
        raise RefusedError("sparse initializers are not supported")
    parts += [(f"opset {domain_of(entry)}", str(entry.version)) for entry in model.opset_import]
    for kind, values in (("input", model.graph.input), ("output", model.graph.output)):
        parts += [(f"{kind} {index}", f"{value.name} {text_of(value.type)}") for index, value in enumerate(values)]
    for tensor in model.graph.initializer:
        text = constant_texts.get(tensor.name) if constant_texts else None
        if text is None:
            array = elements_of(tensor)
            content = digest(array)
            pool[content] = array
            text = f"{tensor.data_type} {content}"
        parts.append((f"constant {tensor.name}", text))
    for node in model.graph.node:
        parts.append((f"node {next(filter(None, node.output), node.name)}", text_of(bare(node))))
    for function in model.functions:
        name = f"function {domain_of(function)} {function.name} {function.overload}"
        parts.append((name, text_of(bare(function))))
    state = dict(parts)
    if len(state) < len(parts):
        raise RefusedError(f"{Counter(key for key, _ in parts).most_common(1)[0][0]} is in the model twice")
    return state


def edit_between(before: State, after: State) -> dict[str, Any]:
    """Return the edit that makes the one model of the other."""
    put = {key: text for key, text in after.items() if before.get(key) != text}
    return {"drop": [key for key in before if key not in after], "put": put}


def sealed(certificate: Mapping[str, Any]) -> str:
    """Return the hash of all that a certificate says."""
    content = {key: value for key, value in certificate.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def parsed(kind: Any, text: str) -> Any:
    """Return what `text_of` wrote. Raises RefusedError if the text is of another kind."""
    try:
        return kind.FromString(base64.b64decode(text))
    except Exception as error:  # foreign code: protobuf raises what its parser does
        raise RefusedError(f"a text of the certificate is no {kind.__name__}: {error}") from None


def text_of(proto: Any) -> str:
    return base64.b64encode(proto.SerializeToString(deterministic=True)).decode()


def bare(proto: Any) -> Any:
    """Return a node, function or graph without notes for readers."""
    if isinstance(proto, onnx.GraphProto) and proto.sparse_initializer:
        raise RefusedError("sparse initializers are not supported")
    copy = cast("Any", type(proto))()
    copy.CopyFrom(proto)
    fields = {descriptor.name for descriptor in proto.DESCRIPTOR.fields}
    for name in fields & {"doc_string", "metadata_props", "value_info"}:
        copy.ClearField(name)
    for name in fields & {"name", "domain", "overload"}:
        if not getattr(copy, name):
            copy.ClearField(name)
    if "node" in fields:
        del copy.node[:]
        copy.node.extend(map(bare, proto.node))
    for inner in copy.attribute if "op_type" in fields else ():
        inner.ClearField("doc_string")
        if inner.HasField("g"):
            inner.g.CopyFrom(bare(inner.g))
    return copy


@dataclass(frozen=True)
class Model:
    """The declared inputs and outputs of a model, with defaults, the terms of its values, and nodes in doubt."""

    declared: Mapping[str, str]
    outputs: Mapping[str, Term]
    values: Mapping[str, Term]
    doubts: Mapping[object, str]


class Checker:
    """Reads models of one certificate as terms."""

    def __init__(self, constants: dict[str, Array], types: Mapping[str, onnx.TypeProto]) -> None:
        self.constants = constants
        self.terms = Terms(2**22 + 16 * sum(array.size for array in constants.values()))
        self.reader, self.types = Reader(self.terms, types), types
        self.parsed: dict[str, Any] = {}
        self.inputs: dict[str, Term] = {}

    def _coded(self, x: Term, dtype: int) -> Term | None:
        """Return the codes of x, if it is of a type that has codes, and dtype is that of codes."""
        return self.terms.bits(x, dtype) if x.dtype in STORED and dtype == TensorProto.UINT8 else None

    def read(self, state: State, *, is_first: bool = False) -> Model:
        model = self._read(state, is_first)
        while is_first and not self.terms.defined.isdisjoint(self.terms.undefined.values()):
            self.terms.undefined.clear()  # a node further on defined what had been read as undefined
            self.reader.call_results.clear()
            model = self._read(state, is_first)
        return model

    def _read(self, state: State, is_first: bool) -> Model:
        # only the input model may say what an unknown operator makes
        self.reader.types = self.types if is_first else {}
        self.terms.is_first = is_first
        parts: dict[str, dict[str, str]] = {}
        for key, text in state.items():
            kind, _, name = key.partition(" ")
            parts.setdefault(kind, {})[name] = text
        env: Env = ChainMap({})
        interface = {key: text for key, text in state.items() if key.startswith(("input ", "output ", "IR "))}
        for text in parts.get("input", {}).values():
            name, kind = self._port(text)
            env[name] = self.terms.term("input", (), {}, kind, key=(name, *kind))
            coded = self._coded(self.inputs.setdefault(name, env[name]), env[name].dtype)
            env[name] = env[name] if coded is None else coded
        for name, text in parts.get("constant", {}).items():
            dtype, _, content = text.partition(" ")
            if content not in self.constants:
                raise RefusedError(f"neither model nor the certificate has the constant {content}")
            if int(dtype) in NUMBERS and NUMPY[int(dtype)] != self.constants[content].dtype:
                raise RefusedError(f"the constant {name} is not of its type")
            if name in env:
                interface[f"default {name}"] = text  # which a caller may replace
            else:
                env[name] = self.terms.constant(self.constants[content], int(dtype))
        functions = [self._parse(onnx.FunctionProto, text) for text in parts.get("function", {}).values()]
        opsets = {domain: int(version) for domain, version in parts["opset"].items()}
        by_name = {(domain_of(function), function.name, function.overload): function for function in functions}
        self.reader.count, self.reader.doubts = 0, {}
        nodes = in_order([self._parse(onnx.NodeProto, text) for text in parts.get("node", {}).values()])
        names = [text.rpartition(" ")[0] for text in parts.get("output", {}).values()]
        self.reader.nodes(nodes, env, Scope(opsets, by_name, {}), names)
        return Model(interface, {name: looked_up(env, name) for name in names}, env, self.reader.doubts)

    def _parse(self, kind: Any, text: str) -> Any:
        if text not in self.parsed:
            self.parsed[text] = parsed(kind, text)
        return self.parsed[text]

    def _port(self, text: str) -> tuple[str, Kind]:
        """Return the name of an input or output, and the kind that it declares."""
        name, _, kind = text.rpartition(" ")
        return name, declared(self._parse(onnx.TypeProto, kind), name)

    def _ports(self, model: Model) -> Iterable[tuple[str, Kind]]:
        return (self._port(text) for key, text in model.declared.items() if key.startswith(("input ", "output ")))

    def differing(self, before: Model, after: Model) -> list[str]:
        """Return the inputs and outputs that are not shown to be equal."""
        old, new = before.declared, after.declared
        changed = {key for key in old.keys() | new.keys() if old.get(key) != new.get(key)}
        ports = {key for key in changed if not key.startswith("default ")}
        coded = self.codes(before, after)
        changed -= {key for key in ports if self._repaired(old.get(key, ""), new.get(key, ""), after)}
        for name, term in before.outputs.items():
            value = after.outputs.get(name)
            if value is not None and term.dtype in STORED and value.dtype == TensorProto.UINT8 and name in coded:
                value = self.terms.decoded(value, term.dtype)
            if value is not term and not (term.dtype in STORED and self._refines(term, value)):
                changed.add(name)
        return sorted(changed)

    def codes(self, before: Model, after: Model) -> set[str]:
        """Return the inputs and outputs that are declared to be of a small type before, and uint8 after."""
        old, new = ({name: kind[0] for name, kind in self._ports(model)} for model in (before, after))
        return {name for name, dtype in old.items() if dtype in STORED and new.get(name) == TensorProto.UINT8}

    def _refines(self, old: Term, new: Term | None) -> bool:
        """True if the terms are equal where the old one is defined: float4 has no NaN, for which any value may be."""
        if new is None or old.args != new.args or not {old, new} <= self.terms.tables.keys():
            return False
        (old_array, old_defined), (new_array, new_defined) = self.terms.tables[old], self.terms.tables[new]
        return old.dtype == new.dtype and bool(np.all(~old_defined | (new_defined & agree(old_array, new_array))))

    def _repaired(self, old: str, new: str, after: Model) -> bool:
        """True if an output is declared as its value is, or an input of a small type is now its code."""
        if new.isdecimal():  # the IR version, of which no later one is a restriction
            return int(old) <= int(new) <= onnx.IR_VERSION
        name = new.rpartition(" ")[0]
        if not name or name != old.rpartition(" ")[0]:
            return False
        was, now = (self._port(text)[1] for text in (old, new))
        if name not in after.outputs:
            return was[0] in STORED and now[0] == TensorProto.UINT8 and was[1] == now[1]
        value = after.outputs[name]
        if now[0] != value.dtype or not now[0] or now[1] is None or value.shape is None:
            return now[0] == value.dtype > 0 and now[1] == was[1]
        declared_shape = was[1] if was[1] and len(was[1]) == len(now[1]) else now[1]
        fits = (
            new == true if isinstance(new, int) else new == old or (isinstance(old, int) and old != true)
            for old, new, true in zip(declared_shape, now[1], value.shape, strict=False)
        )
        return len(now[1]) == len(value.shape) and all(fits)


def in_order(nodes: Sequence[onnx.NodeProto]) -> list[onnx.NodeProto]:
    """Return the nodes, each after those whose results it uses."""
    producers = {name: index for index, node in enumerate(nodes) for name in node.output if name}
    uses = {
        index: {producers[name] for name in names_in(node) if name in producers} for index, node in enumerate(nodes)
    }
    try:
        return [nodes[index] for index in TopologicalSorter(uses).static_order()]
    except CycleError:
        raise RefusedError("the nodes form a cycle") from None


def names_in(node: onnx.NodeProto) -> set[str]:
    """Return the names that a node, with its bodies, takes from around it."""
    names = {*node.input}
    for graph in (attribute.g for attribute in node.attribute if attribute.HasField("g")):
        defined = {name for inner in graph.node for name in inner.output}
        defined |= {value.name for value in (*graph.input, *graph.initializer)}
        names |= {value.name for value in graph.output}.union(*map(names_in, graph.node)) - defined
    return names


@dataclass
class Report:
    """What a check found.

    Attributes:
        left: The steps that are not certified: pass, rules, and the values in doubt.
        codes: The inputs and outputs of a small type that are bytes of its codes now.
    """

    steps: int
    left: list[tuple[str, list[str], list[str]]]
    codes: list[str]

    @property
    def certified(self) -> bool:
        return not self.left


def check(before: onnx.ModelProto, after: onnx.ModelProto, certificate: Any) -> Report:
    """Check that the certificate leads from the one model to the other, and which of its steps are certified.

    Raises:
        RefusedError: It does not, or says what is not so.
    """
    try:
        steps = [
            (step["pass"], [rewrite["rule"] for rewrite in step["rewrites"]], step["edit"])
            for step in certificate["steps"]
        ]
        texts = [
            text
            for name, rules, edit in steps
            for text in (name, *rules, *edit["drop"], *edit["put"], *edit["put"].values())
        ]
        constants = {content: str(data) for content, data in certificate["constants"].items()}
        fits = all(isinstance(text, str) for text in texts) and certificate["sha256"] == sealed(certificate)
    except (KeyError, TypeError, AttributeError):
        raise RefusedError("this is no certificate") from None
    if not fits or certificate["format"] != FORMAT:
        raise RefusedError(f"this is no certificate of the format {FORMAT}, or it was changed")
    pool: dict[str, Array] = {}
    states, last = [state_of(before, pool)], state_of(after, pool)
    for content, data in constants.items():
        array = elements_of(parsed(onnx.TensorProto, data))
        if digest(array) != content:  # the pool holds what the hash says
            raise RefusedError(f"the constant {content} has other elements")
        pool[content] = array
    for name, _, edit in steps:
        missing = [key for key in edit["drop"] if key not in states[-1]]
        if missing:
            raise RefusedError(f"the step {name} drops {missing[0]}, which is not there")
        dropped = set(edit["drop"])
        states.append({key: text for key, text in states[-1].items() if key not in dropped} | edit["put"])
    differing = sorted(key for key in last.keys() | states[-1].keys() if last.get(key) != states[-1].get(key))
    if differing:
        raise RefusedError(f"the steps do not lead to the output model: {', '.join(differing[:3])} differ")
    try:
        checker = checker_of(before, pool)
        first, last = checker.read(states[0], is_first=True), checker.read(states[-1])
        open_steps = list[tuple[str, list[str], list[str]]]()
        if checker.differing(first, last):
            open_steps = uncertified(checker, [first, *map(checker.read, states[1:-1]), last], steps)
        open_steps += [("output", [kind], names) for kind, names in doubts(before, after, first, last).items() if names]
        return Report(len(steps), open_steps, sorted(checker.codes(first, last)))
    except RefusedError:
        raise
    except MALFORMED as error:
        raise RefusedError(f"a model on the way is malformed: {error}") from error  # as no other check has found


def wrong_facts(before: onnx.ModelProto, after: onnx.ModelProto, first: Model, last: Model) -> list[str]:
    """Return the values of the output model whose types or shapes are neither as stated before nor known to be so."""
    old_types, claims = {value.name: value.type for value in before.graph.value_info}, dict[str, Dim]()
    for value in before.graph.input:
        claims |= {dim.dim_param: atom_of(dim.dim_param) for dim in value.type.tensor_type.shape.dim if dim.dim_param}

    def is_kept(value: onnx.ValueInfoProto) -> bool:
        return old_types.get(value.name) == value.type and first.values.get(value.name) is last.values.get(value.name)

    wrong = list[str]()
    for value in sorted(after.graph.value_info, key=is_kept, reverse=True):  # whose names of dimensions are claims too
        term = last.values.get(value.name)
        if term is None:
            continue
        new_type = value.type.tensor_type
        dims = new_type.shape.dim if new_type.HasField("shape") else None
        has_rank = dims is None or (term.shape is not None and len(dims) == len(term.shape))
        holds = new_type.elem_type in (0, term.dtype) and has_rank
        for dim, size in zip(dims or (), term.shape or (), strict=False):
            holds = holds and (not dim.HasField("dim_value") or dim.dim_value == size)
            holds = holds and (not dim.dim_param or claims.setdefault(dim.dim_param, size) == size)
        wrong += [] if holds or is_kept(value) else [value.name]
    return wrong


def checker_of(before: onnx.ModelProto, constants: dict[str, Array]) -> Checker:
    """Return what reads the models of a certificate that starts from this one."""
    types = {value.name: value.type for value in (*before.graph.value_info, *before.graph.output)}
    return Checker(constants, types)


def uncertified(
    checker: Checker, models: Sequence[Model], steps: Sequence[tuple[str, list[str], Any]]
) -> list[tuple[str, list[str], list[str]]]:
    """Return the steps from model to model that are not certified."""
    open_steps, place = list[tuple[str, list[str], list[str]]](), 0
    while place < len(steps):
        differences = [checker.differing(models[place], model) for model in models[place + 1 :]]
        if [] not in differences:
            open_steps.append((steps[place][0], sorted(set(steps[place][1])), differences[0]))
        # several steps may be right together alone
        place += len(differences) - differences[::-1].index([]) if [] in differences else 1
    return open_steps


def doubts(before: onnx.ModelProto, after: onnx.ModelProto, first: Model, last: Model) -> dict[str, list[str]]:
    """Return what may keep the output model from running as the input model does, by kind."""
    new = {name for key, name in last.doubts.items() if key not in first.doubts}
    return {
        "nodes that fail, that nothing uses, or whose operands have mixed types": sorted(new),
        "types and shapes that are stated of values, but not known": wrong_facts(before, after, first, last),
    }


def model_in(path: str | os.PathLike[str]) -> onnx.ModelProto:
    """Return the model in a file. Raises RefusedError if it cannot be read."""
    try:
        return onnx.load(path)
    except Exception as error:  # foreign code: onnx raises what its parsers do
        raise RefusedError(f"{os.fspath(path)} cannot be read as a model: {error}") from None


def check_files(before: str, after: str, certificate: str) -> Report:
    """Check the certificate in a file, as `check` does."""
    for file in (before, after, certificate):
        if os.path.exists(file) and not os.path.isfile(file):
            raise RefusedError(f"{file} is not an ordinary file")
    try:
        with open(certificate, encoding="utf-8") as file:
            content = json.load(file)
    except (ValueError, RecursionError) as error:
        raise RefusedError(f"{certificate} is no JSON: {error}") from None
    return check(model_in(before), model_in(after), content)


def lines(report: Report) -> list[str]:
    """Return what a check found, as text."""
    if report.certified:
        notes = [f"  {name} has become uint8: the codes of its type" for name in report.codes]
        return [f"certified for all inputs: {report.steps} step{'' if report.steps == 1 else 's'}", *notes]
    rows = [
        f"  {name}: {', '.join(rules) or 'no rule'}: {', '.join(places[:3])}" for name, rules, places in report.left
    ]
    return [f"certified in part: {report.steps - len(report.left)} of {report.steps} steps; not certified:", *rows]


def main(paths: Sequence[str]) -> int:
    """Print what a check of three files found. Returns 0: certified, 3: in part, 1: refused, 2: not three files."""
    if len(paths) != 3:
        sys.stdout.write("usage: python checker.py BEFORE AFTER CERTIFICATE\n")
        return 2
    before, after, certificate = paths
    try:
        report = check_files(before, after, certificate)
    except (RefusedError, OSError) as error:
        sys.stdout.write(f"refused: {error}\n")
        return 1
    sys.stdout.write("\n".join(lines(report)) + "\n")
    return 0 if report.certified else 3


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
