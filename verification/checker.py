"""An independent checker of certificates: one file, which uses nothing of Castsmith.

A certificate is a list of steps: each is an edit of the model, with the rewrites that made it. The checker

1. replays the edits on the input model, and requires that they give the output model exactly;
2. reads the model before and after each step as terms. A term stands for the value that a node computes of the model's
   inputs; two computations that are equal for all inputs by the rules of this file become one term;
3. certifies a step if all outputs are the same terms as before.

An operator without a rule is a term of its own, equal only to itself of equal operands. So a missing rule leaves a step
uncertified; only a wrong rule could certify what is not so.

Assumed: inputs, and results of operators that onnx does not define, have their declared types and shapes; dimensions of
one name are equal; products of dimensions fit int64. Elements that the standard leaves undefined, such as 3e9 as int32,
may be any value, and all NaNs are equal. Trusted: this file; of onnx its parser, schemas, shape inference and reference
implementation of the operators in `EVALUATED` and `MOVES`; numpy; ml_dtypes.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import sys
from collections import ChainMap, Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from graphlib import CycleError, TopologicalSorter
from math import prod
from typing import Any, cast

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


# Element types, and the conversions between them.

BOOL, STRING, INT64, DOUBLE = TensorProto.BOOL, TensorProto.STRING, TensorProto.INT64, TensorProto.DOUBLE
FNUZ = (TensorProto.FLOAT8E4M3FNUZ, TensorProto.FLOAT8E5M2FNUZ)
FLOAT8 = (TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E5M2, *FNUZ)
FLOATS = (TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.FLOAT, DOUBLE, *FLOAT8)
INTEGERS: dict[int, tuple[bool, int]] = {
    TensorProto.DataType.Value(f"{sign}INT{bits}"): (not sign, bits)
    for bits in (2, 4, 8, 16, 32, 64)
    for sign in ("", "U")
}
"""Whether the type is signed, and its bits."""
NUMBERS = {*FLOATS, *INTEGERS, BOOL}


@cache
def numpy_type(dtype: int) -> np.dtype[Any]:
    return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(dtype))


@cache
def row(dtype: int) -> tuple[int, int, float]:
    """The significant bits of a float type, the exponent of its least subnormal, and its largest finite number."""
    info = cast("Any", ml_dtypes.finfo(numpy_type(dtype)))
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
                return array != np.zeros((), array.dtype), defined
            if self.to in INTEGERS and source in FLOATS:
                (signed, bits), whole = INTEGERS[self.to], np.trunc(array.astype(np.float64))
                defined = (whole >= (-(2.0 ** (bits - 1)) if signed else 0.0)) & (whole < 2.0 ** (bits - signed))
                defined &= (np.abs(array - whole) < 0.5) | (bits >= 8)  # below 8 bits, some runtimes round
                array = np.where(defined, whole, 0.0).astype(np.int64 if signed else np.uint64)
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
            beyond = top if self.saturate else np.inf if self.to == TensorProto.FLOAT8E5M2 else np.nan
        if self.to in FNUZ:
            y = np.where(y == 0, 0.0, y)
            defined = ~np.isinf(x) | self.latest | (not self.saturate)
        y = np.where(np.abs(y) > top, np.copysign(beyond, x), y)
        return y.astype(numpy_type(self.to)), defined


def wrapped(array: Array, to: int) -> Array:
    """Return integers modulo the width of the type."""
    signed, bits = INTEGERS[to]
    wide = array if array.dtype in (np.int64, np.uint64) else array.astype(np.int64)
    if bits < 8:
        wide = wide.astype(np.int64) & ((1 << bits) - 1)
        wide = wide - ((wide >> (bits - 1)) << bits) if signed else wide
    return wide.astype(numpy_type(to))


@cache
def embeds(a: int, b: int) -> bool:
    """True if the type b holds every value of the type a, its infinities, NaN and zeros included."""
    if BOOL in (a, b) or a == b or not {a, b} <= NUMBERS:
        return a == b or (a == BOOL and b in NUMBERS)
    if a in INTEGERS:
        (signed, bits), width = INTEGERS[a], INTEGERS[a][1] - INTEGERS[a][0]
        if b in INTEGERS:
            return INTEGERS[b][1] - INTEGERS[b][0] >= width and (INTEGERS[b][0] or not signed)
        return b not in FLOAT8 and row(b)[0] >= width and row(b)[2] >= 2.0**bits
    if b not in FLOATS or b in FLOAT8:
        return False
    return row(a)[0] <= row(b)[0] and row(a)[1] >= row(b)[1] and row(a)[2] <= row(b)[2]


def common_type(dtypes: Iterable[int]) -> int | None:
    """Return the type of operands of several types: the narrowest that holds those of the highest kind; else float."""
    kinds = [[dtype for dtype in dtypes if dtype in kind] for kind in (FLOATS, INTEGERS)]
    if not {*dtypes} <= NUMBERS:
        return None
    kind, highest = (FLOATS, kinds[0]) if kinds[0] else (INTEGERS, kinds[1])
    holding = [dtype for dtype in kind if all(embeds(one, dtype) for one in highest)]
    return min(holding, key=lambda dtype: numpy_type(dtype).itemsize, default=TensorProto.FLOAT)


@cache
def values_of(dtype: int) -> Array | None:
    """Return all values of a type of at most 16 bits; None for any other."""
    if dtype == BOOL:
        return np.array([False, True])
    if dtype in INTEGERS and INTEGERS[dtype][1] <= 16:
        return np.unique(wrapped(np.arange(1 << INTEGERS[dtype][1]), dtype))
    size = numpy_type(dtype).itemsize
    return np.arange(1 << 8 * size).astype(f"u{size}").view(numpy_type(dtype)) if dtype in FLOATS and size < 3 else None


def agree(a: Array, b: Array) -> Array:
    """Where two arrays of one type have the same bits, or are both NaN."""
    if a.dtype.kind in "biu" or "int" in a.dtype.name:
        return a == b
    return (a.view(f"u{a.itemsize}") == b.view(f"u{b.itemsize}")) | ((a != a) & (b != b))


@cache
def collapses(a: int, first: Conversion, last: Conversion) -> bool:
    """True if the conversions of elements of type a, one after the other, give what the last alone gives."""
    b, c = first.to, last.to
    if not {a, b, c} <= NUMBERS:
        return False
    if embeds(a, b):  # but a float out of the range of integers is undefined, and an integer wraps
        return not (a in INTEGERS and b in FLOATS and c in INTEGERS) or embeds(a, c)
    if a in INTEGERS and b in INTEGERS and c in INTEGERS and INTEGERS[b][1] >= INTEGERS[c][1]:
        return True
    values = values_of(a)
    if values is None:
        return False
    (middle, one), (direct, other) = first.of(values, a), last.of(values, a)
    chain, also = last.of(middle, b)
    return bool((agree(chain, direct) & one & other & also).all())


# Integers that are not known as numbers: polynomials of named atoms. Arithmetic wraps, and so it keeps them equal.


@dataclass(frozen=True)
class Poly:
    """A polynomial that is not a number: pairs of the sorted atoms of a product, and its factor."""

    terms: tuple[tuple[tuple[str, ...], int], ...]

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
    kept = tuple(sorted((atoms, factor) for atoms, factor in terms.items() if factor))
    return Poly(kept) if any(atoms for atoms, _ in kept) else sum(factor for _, factor in kept)


def quotient(a: Dim, b: Dim) -> Dim | None:
    """Return a / b if b is one product that divides each part of a; else None."""
    divisor, total = terms_of(b), Counter[tuple[str, ...]]()
    if a == b or len(divisor) != 1 or not divisor[0][1]:
        return 1 if a == b != 0 else None
    for atoms, factor in terms_of(a):
        rest = Counter(atoms)
        rest.subtract(divisor[0][0])
        if min(rest.values(), default=0) < 0 or factor % divisor[0][1]:
            return None
        total[tuple(sorted(rest.elements()))] += factor // divisor[0][1]
    return polynomial(total)


def at_most(a: Dim, b: Dim) -> bool:
    """True if a is known to be at most b: dimensions, whose names begin with < or t, are not negative."""
    return all(factor >= 0 and all(name[0] in "<t" for name in atoms) for atoms, factor in terms_of(b - a))


JOINED: dict[Dim, set[Dim]] = {}
"""By the name of a dimension: those that were broadcast together to it."""


def broadcast(shapes: Sequence[Shape]) -> Shape:
    """Return the shape to which numpy broadcasts the shapes, if the operands fit."""
    result: list[Dim] = []
    for place in range(1, max(map(len, shapes), default=0) + 1):
        met = {shape[-place] for shape in shapes if place <= len(shape)}
        dims: set[Dim] = {part for dim in met for part in JOINED.get(dim, {dim})} - {1}
        numbers: set[Dim] = {dim for dim in dims if isinstance(dim, int)}
        dims = numbers if len(numbers) == 1 else dims  # the others are 1, or that number
        if len(dims) > 1:
            joined = atom(f"max{sorted(map(repr, dims))}")
            JOINED[joined] = dims
            dims = {joined}
        result.append(dims.pop() if dims else 1)
    return tuple(result[::-1])


def numbers_of(shape: Sequence[Dim] | None) -> tuple[int, ...] | None:
    """Return a shape whose dimensions are all numbers; else None."""
    numbers = tuple(dim for dim in shape or () if isinstance(dim, int))
    return None if shape is None or len(numbers) < len(shape) else numbers


# Terms.

RANDOM = ("RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli", "Multinomial")
MOVES: Mapping[str, Sequence[int] | None] = {
    **dict.fromkeys(("Transpose", "Slice", "Gather", "GatherElements", "GatherND", "Split", "Tile"), (0,)),
    **dict.fromkeys(("Reshape", "Expand", "DepthToSpace", "SpaceToDepth", "ReverseSequence", "Compress"), (0,)),
    "Concat": None,
    "Where": (1, 2),
    "If": (1, 2),
}
"""Operators that move elements, and the operands that hold them; None for all."""
COMPARISONS = ("Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual")
BINARY = {"Add", "Sub", "Mul", "Div", "Mod", "Pow", "And", "Or", "Xor", "Max", "Min", *COMPARISONS}
ELEMENTWISE = BINARY - {"Pow"} | {"Neg", "Abs", "Floor", "Ceil", "Sqrt", "Not", "Sign"}
EVALUATED = ELEMENTWISE | {"ReduceProd", "ReduceSum", "ReduceMax", "ReduceMin", "CumSum", "Trilu", "Range", "NonZero"}
"""Operators whose results onnx computes exactly, or rounded once, for the types in `EXACT`."""
EXACT = {TensorProto.FLOAT, DOUBLE, BOOL, TensorProto.INT32, INT64}
MOST = 4096
"""Elements up to which values computed from shapes are followed."""
DEEPEST = 200
"""Moves, one after the other, before which a cast is moved."""


@dataclass(eq=False, slots=True)
class Term:
    """A value as a function of the model's inputs: an operator of operands; equal terms are one object.

    Attributes:
        attrs: The attributes, and whatever else tells the value apart.
        out: The index of the output.
        dtype: The element type; 0 if it is unknown, or the value is no tensor.
        shape: The shape; None if the rank is unknown.
        array: The elements, if they are known: an array of the type, or of numbers and polynomials; else None.
    """

    op: str
    args: tuple[Term | None, ...]
    attrs: dict[str, Any]
    out: int
    dtype: int
    shape: Shape | None
    array: Array | None

    @property
    def is_constant(self) -> bool:
        return self.array is not None and self.array.dtype != object

    @property
    def elements(self) -> list[Any]:
        return [] if self.array is None else self.array.ravel().tolist()


Operands = Sequence[Term | None]


class Terms:
    """All terms of all models of a check."""

    def __init__(self, budget: int) -> None:
        self.table: dict[object, Term] = {}
        self.budget = budget  # of elements of constants that are computed

    def term(
        self,
        op: str,
        args: Operands = (),
        attrs: Mapping[str, Any] | None = None,
        kind: tuple[int, Shape | None] = (0, None),
        *,
        out: int = 0,
        key: object = None,
        array: Array | None = None,
    ) -> Term:
        """Return the term; its type and shape (`kind`) and its array follow from the rest of it."""
        whole = op, tuple(map(id, args)), tuple(sorted((attrs or {}).items())), out, key
        if whole not in self.table:
            self.table[whole] = Term(op, tuple(args), dict(attrs or {}), out, *kind, array)
        return self.table[whole]

    def constant(self, array: Array, dtype: int) -> Term:
        """Return the constant, or the value that is known in part: an array of numbers and polynomials."""
        key: object = (
            (dtype, array.shape, repr(array.ravel().tolist())) if array.dtype == object else (dtype, digest(array))
        )
        if (
            array.dtype == object
            and dtype != STRING
            and not any(isinstance(one, Poly) for one in array.ravel().tolist())
        ):
            return self.constant(typed(array, dtype), dtype)
        return self.term("const", (), {}, (dtype, array.shape), key=key, array=None if dtype == STRING else array)

    def integers(self, numbers: Sequence[Dim], *, scalar: bool = False) -> Term:
        return self.constant(objects(numbers, () if scalar else (len(numbers),)), INT64)

    def cast(self, x: Term, how: Conversion, depth: int = 0) -> Term:
        """Return x converted: the cast is before the moves of its elements."""
        if x.dtype == how.to:
            return x
        if not {x.dtype, how.to} <= NUMBERS:
            return self.term("Cast", [x], {"how": how}, (how.to, x.shape))
        if x.array is not None and x.is_constant:
            array, defined = how.of(x.array, x.dtype)
            if defined.all():
                return self.constant(array, how.to)
        elif x.array is not None:
            return self.constant(each(partial(cast_element, x.dtype, how), [x.array]), how.to)
        elif x.op == "Cast" and x.args[0] is not None and collapses(x.args[0].dtype, x.attrs["how"], how):
            return self.cast(x.args[0], how, depth)
        elif x.op in MOVES and depth < DEEPEST:
            places = MOVES[x.op] or range(len(x.args))
            cast = {place: self.cast(arg, how, depth + 1) for place in places if (arg := x.args[place]) is not None}
            args = [cast.get(place, arg) for place, arg in enumerate(x.args)]
            return self.move(x.op, args, x.attrs, (how.to, x.shape), x.out)
        how = replace(how, saturate=how.saturate or how.to not in FLOAT8, latest=how.latest or how.to not in FNUZ)
        return self.term("Cast", [x], {"how": how}, (how.to, x.shape))

    def move(
        self, op: str, args: Operands, attrs: Mapping[str, Any], kind: tuple[int, Shape | None], out: int = 0
    ) -> Term:
        """Return the move of elements, which is done if they are known."""
        first, shape = args[0], kind[1]
        if op in ("Reshape", "Expand") and first is not None and shape is not None:
            return self.shaped(op, first, shape)
        if op in ("If", "Where") and first is not None and args[1] is not None and args[2] is not None:
            chosen = args[1 if first.elements[0] else 2] if first.is_constant and len(first.elements) == 1 else None
            chosen = args[1] if args[1] is args[2] else chosen
            if chosen is not None and (op == "If" or (shape is not None and chosen.shape == shape)):
                return chosen
        if op != "If" and all(arg is None or arg.array is not None for arg in args):
            array = self.evaluated(op, args, attrs, shape, out)
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
        if x.op == op == "Reshape" and args[0] is not None:
            return self.shaped(op, args[0], shape)
        return self.term(op, [x], {"shape": repr(shape)}, (x.dtype, shape))

    def affords(self, size: int) -> bool:
        """True if a constant of that many elements may be made: a model may ask for more than fits memory."""
        if size > self.budget:
            return False
        self.budget -= size if size > MOST else 0
        return True

    def evaluated(
        self, op: str, args: Operands, attrs: Mapping[str, Any], shape: Shape | None, out: int
    ) -> Array | None:
        """Return the result for known elements, as onnx computes it: of moves, where each element comes from."""
        feeds = {f"i{place}": arg.array for place, arg in enumerate(args) if arg is not None and arg.array is not None}
        total, numbers = sum(array.size for array in feeds.values()), numbers_of(shape)
        size = prod(numbers) if numbers is not None else total if total <= MOST else self.budget + 1
        if not self.affords(size):
            return None
        data, parts = list[Array](), 0
        for place in (MOVES[op] or range(len(args))) if op in MOVES else ():
            if (array := feeds.get(f"i{place}")) is not None:
                feeds[f"i{place}"] = np.arange(parts, parts + array.size).reshape(array.shape)
                data, parts = [*data, array.ravel()], parts + array.size
        if any(array.dtype == object for array in feeds.values()):
            return None
        names = ["" if arg is None else f"i{place}" for place, arg in enumerate(args)]
        stated = {name: value for name, value in attrs.items() if name not in ("@", "outputs")}
        node = onnx.helper.make_node(op, names, [f"o{index}" for index in range(attrs.get("outputs", 1))], **stated)
        try:
            with np.errstate(all="ignore", divide="raise"):
                evaluator: Any = onnx.reference.ReferenceEvaluator(node, opsets={"": attrs["@"]})
                result = np.asarray(evaluator.run(None, feeds)[out])
        except Exception:  # foreign code: a node that fails, or that the reference does not know, stays a term
            return None
        if not data:
            return result
        kinds = {one.dtype for one in data}
        pool = np.concatenate(data if len(kinds) == 1 else [one.astype(object) for one in data])
        return pool[result.ravel()].reshape(result.shape)


def digest(array: Array) -> str:
    """Return the hash of an array: its type, shape and elements."""
    content = repr(array.tolist()).encode() if array.dtype == object else array.tobytes()
    return hashlib.sha256(f"{array.dtype} {array.shape} ".encode() + content).hexdigest()


def objects(elements: Sequence[Any], shape: tuple[int, ...]) -> Array:
    """Return an array of Python objects."""
    result = np.empty(len(elements), object)
    result[:] = elements
    return result.reshape(shape)


def typed(array: Array, dtype: int) -> Array:
    """Return an array of Python numbers as one of the type; integers wrap, as all arithmetic on them."""
    if dtype not in INTEGERS:
        return array.astype(numpy_type(dtype))
    wide = [int(element) & (2**64 - 1) for element in array.ravel().tolist()]
    return wrapped(np.array(wide, np.uint64).reshape(array.shape), dtype)


def each(function: Callable[..., Any], arrays: Sequence[Array]) -> Array:
    """Return the function of the elements at each place, as an array of Python objects."""
    wide = np.broadcast_arrays(*(array.astype(object) for array in arrays))
    rows = zip(*(one.ravel().tolist() for one in wide), strict=True)
    return objects([function(*elements) for elements in rows], wide[0].shape)


def cast_element(source: int, how: Conversion, element: Any) -> Any:
    if not isinstance(element, Poly):
        array, defined = how.of(np.array(element).astype(numpy_type(source)), source)
        if defined.all() and how.to not in FLOAT8:
            return array.item()
    elif embeds(source, how.to) and how.to in INTEGERS:
        return element
    return atom(f"cast{source}.{how}({element!r})")


def symbolic(op: str, dtype: int, elements: Sequence[Any]) -> Any:
    """Return what the operator gives for elements, of which one at least is no number."""
    a, b = elements[0], elements[-1]
    if dtype in INTEGERS and len(elements) == 2:
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
    return atom(f"{op}{dtype}({', '.join(map(repr, elements))})")


# Models as terms.


@dataclass(frozen=True)
class Scope:
    """What the nodes of a graph or function refer to.

    Attributes:
        parameters: The attributes of the call of the function.
        path: The calls and bodies around the nodes, which tell apart what differs from one to the next.
        depth: How many bodies with inputs are around the nodes.
    """

    opsets: Mapping[str, int]
    functions: Mapping[tuple[str, str, str], onnx.FunctionProto]
    parameters: Mapping[str, onnx.AttributeProto] = field(default_factory=dict[str, onnx.AttributeProto])
    path: tuple[str, ...] = ()
    depth: int = 0

    @property
    def opset(self) -> int:
        return self.opsets.get("", 0)


Env = ChainMap[str, Term]
Attributes = Mapping[str, onnx.AttributeProto]
_DEEPEST_CALL = 64
_MOST_NODES = 100_000


class Reader:
    """Reads nodes as terms."""

    def __init__(self, terms: Terms, declared: Mapping[str, onnx.TypeProto]) -> None:
        self.terms, self.declared = terms, declared
        self.read: dict[object, list[Term]] = {}
        self.count = 0

    def nodes(self, nodes: Iterable[onnx.NodeProto], env: Env, scope: Scope) -> None:
        """Add the results of nodes, which are in order, to the environment."""
        for node in nodes:
            for name, term in zip(node.output, self.node(node, env, scope), strict=False):
                if name and env.maps[0].setdefault(name, term) is not term:
                    raise RefusedError(f"{name} is made twice")

    def node(self, node: onnx.NodeProto, env: Env, scope: Scope) -> list[Term]:
        """Return the results of a node."""
        self.count += bool(scope.path)
        if self.count > _MOST_NODES:
            raise RefusedError("the functions of the model, written out, have too many nodes")
        args = [looked_up(env, name) if name else None for name in node.input]
        while args and args[-1] is None:
            args.pop()
        domain = "" if node.domain == "ai.onnx" else node.domain
        function = scope.functions.get((domain, node.op_type, node.overload))
        if function is not None:
            return self._call(function, node, args, scope)
        protos = {proto.name: stated for proto in node.attribute if (stated := resolved(proto, scope)) is not None}
        schema = schema_of(node.op_type, scope.opsets.get(domain, 0), domain)
        attrs: dict[str, Any] = {"@": schema.since_version if schema is not None else 0}
        bodies = list[Term]()
        for name, proto in sorted(protos.items()):
            if proto.type == onnx.AttributeProto.GRAPH:
                body = self._body(proto.g, node, args, env, scope)
                attrs[name], bodies = f"body of {len(body)}", [*bodies, *body]
            elif schema is None or name not in schema.attributes or proto != schema.attributes[name].default_value:
                attrs[name] = attribute(proto)
        if domain == "" and node.op_type == "Constant":
            return [self._constant(protos)]
        if domain == "" and node.op_type == "If" and args and args[0] is not None:
            pairs = zip(bodies[len(bodies) // 2 :], bodies, strict=False)  # else_branch is the first by name
            return [self._if(args[0], then, other) for then, other in pairs]
        if domain == "" and node.op_type == "ConstantOfShape":
            value = (
                protos["value"].t if "value" in protos else onnx.helper.make_tensor("", TensorProto.FLOAT, [1], [0.0])
            )
            args.append(self.terms.constant(elements_of(value), value.data_type))
        elif schema is not None and domain == "" and len({arg.dtype for arg in args if arg is not None}) > 1:
            args = self._promoted(args, schema)
        pure = schema is not None and domain in ("", "ai.onnx.ml") and node.op_type not in RANDOM
        pure = pure and not (node.op_type == "Dropout" and len(args) > 2)
        place = () if pure else (*scope.path, *node.output)
        key = (
            node.op_type,
            domain,
            tuple(map(id, (*args, None, *bodies))),
            tuple(sorted(attrs.items())),
            len(node.output),
        )
        whole = key, scope.opset >= 24, place
        if whole not in self.read:
            call = Call(self.terms, node.op_type, args, attrs, len(node.output), scope.opset)
            results = call.results() if domain == "" and not bodies else None
            self.read[whole] = results or self._other(node, call, bodies, protos, schema, whole)
        return self.read[whole]

    def _if(self, condition: Term, then: Term, other: Term) -> Term:
        kind = then.dtype if then.dtype == other.dtype else 0, then.shape if then.shape == other.shape else None
        return self.terms.move("If", [condition, then, other], {}, kind)

    def _promoted(self, args: list[Term | None], schema: onnx.defs.OpSchema) -> list[Term | None]:
        """Return the operands, those that the schema wants to have one type in their common type."""
        formals = [schema.inputs[min(place, len(schema.inputs) - 1)].type_str for place in range(len(args))]
        for formal in {formal for formal in formals if formal.startswith("T")}:
            places = [place for place, name in enumerate(formals) if name == formal and args[place] is not None]
            types = {arg.dtype for place in places if (arg := args[place]) is not None}
            common = common_type(types) if len(types) > 1 else None
            if common is not None:
                how = Conversion(common)
                args = [self.terms.cast(arg, how) if arg and place in places else arg for place, arg in enumerate(args)]
        return args

    def _call(self, function: onnx.FunctionProto, node: onnx.NodeProto, args: Operands, scope: Scope) -> list[Term]:
        """Return the results of a function: those of its nodes."""
        if len(scope.path) > _DEEPEST_CALL:
            raise RefusedError(f"calls of functions are nested too deeply at {node.op_type}")
        stated = {proto.name: resolved(proto, scope) for proto in node.attribute}
        parameters = {proto.name: proto for proto in function.attribute_proto}
        parameters |= {name: proto for name, proto in stated.items() if proto is not None}
        opsets = {**scope.opsets, **imports_of(function.opset_import)}
        path = (*scope.path, next(iter(node.output), ""))
        env: Env = ChainMap({})
        for place, name in enumerate(function.input):
            env[name] = (args[place] if place < len(args) else None) or self.terms.term("absent")
        self.nodes(function.node, env, Scope(opsets, scope.functions, parameters, path, scope.depth))
        return [looked_up(env, name) for name in function.output]

    def _body(self, graph: onnx.GraphProto, node: onnx.NodeProto, args: Operands, env: Env, scope: Scope) -> list[Term]:
        """Return the outputs of a body; its inputs are terms that only the body has."""
        inner = env.new_child()
        for place, value in enumerate(graph.input):
            source = args[place] if place < len(args) else None
            kind: tuple[int, Shape | None] = (0, None)
            if node.op_type == "Loop" and place < 2:
                kind = ((INT64, ()), (BOOL, ()))[place]
            elif node.op_type in ("Loop", "Scan") and source is not None and scope.opset >= 9:
                kind = source.dtype, None
            inner[value.name] = self.terms.term(f"bound {scope.depth} {place}", (), {}, kind, key=kind)
        for tensor in graph.initializer:
            inner[tensor.name] = self.terms.constant(elements_of(tensor), tensor.data_type)
        path = (*scope.path, next(iter(node.output), ""))
        self.nodes(graph.node, inner, replace(scope, path=path, depth=scope.depth + bool(graph.input)))
        return [looked_up(inner, value.name) for value in graph.output]

    def _constant(self, protos: Attributes) -> Term:
        ((name, proto),) = protos.items()
        if name == "value":
            return self.terms.constant(elements_of(proto.t), proto.t.data_type)
        kinds = {"value_int": (INT64, proto.i), "value_ints": (INT64, list(proto.ints))}
        kinds |= {"value_float": (TensorProto.FLOAT, proto.f), "value_floats": (TensorProto.FLOAT, list(proto.floats))}
        if name not in kinds:
            return self.terms.term("Constant", (), {name: attribute(proto)})
        dtype, elements = kinds[name]
        return self.terms.constant(np.array(elements, numpy_type(dtype)), dtype)

    def _other(
        self,
        node: onnx.NodeProto,
        call: Call,
        bodies: Sequence[Term],
        protos: Attributes,
        schema: onnx.defs.OpSchema | None,
        key: object,
    ) -> list[Term]:
        """Return the results of an operator that is no rule's: moves, what onnx evaluates, and terms of their own."""
        terms, args, attrs, op = self.terms, call.args, call.attrs, node.op_type
        unknown = f"t{len(terms.table)}"
        if schema is None:
            kinds = [declared(self.declared.get(name), f"{unknown}.{out}") for out, name in enumerate(node.output)]
        else:
            kinds = inferred(node, args, protos, schema, unknown)
        if op == "Loop" and len(args) > 2:  # a carried value keeps its type
            kinds = [(arg.dtype if arg is not None else 0, None) for arg in args[2:]] + kinds[len(args) - 2 :]
        shapes = [arg.shape for arg in args if arg is not None and arg.shape is not None]
        if op in BINARY and not node.domain and len(shapes) == len(args) and call.opset >= 7:
            kinds = [(kinds[0][0], broadcast(shapes))]
        if (
            op in ("Squeeze", "Unsqueeze")
            and args[0] is not None
            and unknown not in repr(kinds[0][1])
            and kinds[0][1] is not None
        ):
            return [terms.shaped("Reshape", args[0], kinds[0][1])]
        if op in MOVES and not node.domain:
            attrs = {**attrs, "outputs": len(node.output)}
            return [terms.move(op, args, attrs, kind, out) for out, kind in enumerate(kinds)]
        exact = all(arg is None or (arg.is_constant and arg.dtype in EXACT) for arg in args)
        if op in EVALUATED and not node.domain and exact and len(kinds) == 1:
            array = terms.evaluated(op, args, attrs, kinds[0][1], 0)
            if array is not None and kinds[0][0]:
                return [terms.constant(array, kinds[0][0])]
        everything = (*args, None, *bodies)
        return [terms.term(op, everything, attrs, kind, out=out, key=key) for out, kind in enumerate(kinds)]


def looked_up(env: Env, name: str) -> Term:
    if name not in env:
        raise RefusedError(f"{name} is used, and nothing makes it")
    return env[name]


def resolved(proto: onnx.AttributeProto, scope: Scope) -> onnx.AttributeProto | None:
    """Return the attribute, or that of the call which it refers to; None if the call does not state it."""
    if not proto.ref_attr_name:
        return proto
    stated = scope.parameters.get(proto.ref_attr_name)
    if stated is None:
        return None
    copy = onnx.AttributeProto()
    copy.CopyFrom(stated)
    copy.name = proto.name
    return copy


def attribute(proto: onnx.AttributeProto) -> Any:
    """Return the value of an attribute in a form that can be compared."""
    kinds = onnx.AttributeProto
    if proto.type == kinds.TENSOR:
        return "tensor", proto.t.data_type, digest(elements_of(proto.t))
    values = {kinds.INT: proto.i, kinds.INTS: tuple(proto.ints), kinds.STRING: proto.s}
    return values.get(proto.type, proto.SerializeToString(deterministic=True))


@cache
def schema_of(op_type: str, opset: int, domain: str) -> onnx.defs.OpSchema | None:
    known = opset > 0 and onnx.defs.has(op_type, opset, domain)
    return onnx.defs.get_schema(op_type, opset, domain) if known else None


def imports_of(entries: Iterable[onnx.OperatorSetIdProto]) -> dict[str, int]:
    return {"" if entry.domain == "ai.onnx" else entry.domain: entry.version for entry in entries}


def declared(kind: onnx.TypeProto | None, unknown: str) -> tuple[int, Shape | None]:
    """Return the element type and the shape that are declared; `unknown` begins the names of unknown dimensions."""
    if kind is None or not kind.HasField("tensor_type"):
        return 0, None
    dims = enumerate(kind.tensor_type.shape.dim)
    shape = tuple(
        dim.dim_value if dim.dim_value > 0 else atom(f"<{dim.dim_param or (unknown, axis)}>") for axis, dim in dims
    )
    return kind.tensor_type.elem_type, shape if kind.tensor_type.HasField("shape") else None


def inferred(
    node: onnx.NodeProto, args: Operands, protos: Attributes, schema: onnx.defs.OpSchema, unknown: str
) -> list[tuple[int, Shape | None]]:
    """Return type and shape of each output, as onnx infers them; an unknown dimension gets a name of its own."""
    nothing: list[tuple[int, Shape | None]] = [(0, None)] * len(node.output)
    proto = onnx.NodeProto(op_type=node.op_type, domain=schema.domain)
    proto.attribute.extend(protos.values())
    proto.input.extend("" if arg is None else f"i{place}" for place, arg in enumerate(args))
    proto.output.extend(f"o{out}" for out in range(len(node.output)))
    names: dict[str, Dim] = {}
    types, data = dict[str, onnx.TypeProto](), dict[str, onnx.TensorProto]()
    for place, arg in enumerate(args):
        if arg is not None and not arg.dtype:
            return nothing
        if arg is not None:
            names |= {repr(dim): dim for dim in arg.shape or ()}
            dims = None if arg.shape is None else [dim if isinstance(dim, int) else repr(dim) for dim in arg.shape]
            types[f"i{place}"] = onnx.helper.make_tensor_type_proto(arg.dtype, dims)
        if arg is not None and arg.array is not None and arg.is_constant and arg.array.size <= 64:
            data[f"i{place}"] = onnx.numpy_helper.from_array(arg.array, f"i{place}")
    graphs = any(proto.type == onnx.AttributeProto.GRAPH for proto in protos.values())
    if graphs or (node.op_type == "Split" and protos.get("num_outputs", node).ByteSize() != node.ByteSize()):
        return nothing  # an unfit num_outputs would end the process of onnx 1.23
    try:
        answers = onnx.shape_inference.infer_node_outputs(schema, proto, types, data)
    except Exception:  # foreign code: a node of which onnx infers nothing is left without a type
        return nothing
    kinds = [answers[name].tensor_type if name in answers else TensorProto() for name in proto.output]
    return [
        (0, None) if isinstance(kind, TensorProto) else named(kind, names, f"{unknown}.{out}")
        for out, kind in enumerate(kinds)
    ]


def named(kind: Any, names: Mapping[str, Dim], unknown: str) -> tuple[int, Shape | None]:
    if not kind.HasField("shape"):
        return kind.elem_type, None
    dims = enumerate(kind.shape.dim)
    shape = [
        dim.dim_value if dim.HasField("dim_value") else names.get(dim.dim_param) or atom(f"{unknown}.{axis}")
        for axis, dim in dims
    ]
    return kind.elem_type, tuple(shape)


@dataclass
class Call:
    """A node of the standard's main domain, with its operands as terms."""

    terms: Terms
    op: str
    args: list[Term | None]
    attrs: dict[str, Any]
    outputs: int
    opset: int

    def results(self) -> list[Term] | None:
        """Return the results, if a rule gives them."""
        first = self.args[0] if self.args else None
        rule = Call.arithmetic if self.op in ELEMENTWISE else RULES.get(self.op)
        result = None if rule is None or first is None or first.op == "absent" else rule(self, first)
        return None if result is None else [result]

    def numbers(self, place: int, name: str = "") -> list[Any] | None:
        """Return the elements of an operand, or of the attribute that older opsets have instead; None if unknown."""
        arg = self.args[place] if place < len(self.args) else None
        if arg is not None:
            return None if arg.array is None else arg.elements
        return list(self.attrs[name]) if name in self.attrs else None

    def arithmetic(self, x: Term) -> Term | None:
        """Arithmetic of integers of which some are known as polynomials only."""
        arrays = [arg.array for arg in self.args if arg is not None and arg.array is not None and arg.dtype == x.dtype]
        if len(arrays) < len(self.args) or x.dtype not in EXACT or self.opset < 7 or len(self.attrs) > 1:
            return None
        shape = broadcast([array.shape for array in arrays])
        if all(array.dtype != object for array in arrays) or prod(numbers_of(shape) or ()) > MOST:
            return None
        result = BOOL if self.op in COMPARISONS else x.dtype

        def element(*elements: Any) -> Any:
            if any(isinstance(one, Poly) for one in elements):
                return symbolic(self.op, x.dtype, elements)
            args = [self.terms.constant(np.array(one).astype(numpy_type(x.dtype)), x.dtype) for one in elements]
            array = self.terms.evaluated(self.op, args, self.attrs, (), 0)
            return symbolic(self.op, 0, elements) if array is None else array.item()

        try:
            return self.terms.constant(each(element, arrays), result)
        except ValueError:  # the operands do not fit
            return None

    def identity(self, x: Term) -> Term | None:
        drops = self.op == "Dropout" and (self.outputs > 1 or len(self.args) > 2 or self.opset < 7)
        return None if drops else x

    def cast(self, x: Term) -> Term | None:
        like = self.args[1] if self.op == "CastLike" else None
        to = self.attrs.get("to") if like is None else like.dtype
        if not isinstance(to, int) or not to or "round_mode" in self.attrs:
            return None
        return self.terms.cast(x, Conversion(to, self.attrs.get("saturate", 1) != 0, self.opset >= 24))

    def shape(self, x: Term) -> Term | None:
        if x.shape is None:
            return None
        if self.op == "Size":
            return self.terms.integers([prod(x.shape)], scalar=True)  # pyright: ignore[reportArgumentType, reportCallIssue]
        return self.terms.integers(x.shape[slice(self.attrs.get("start", 0), self.attrs.get("end"))])

    def reshape(self, x: Term) -> Term | None:
        """Reshape, with what 0 and -1 stand for."""
        wanted, dims = self.numbers(1, "shape"), list[Dim]()
        if wanted is None:
            return None
        for place, dim in enumerate(wanted):
            copied = dim == 0 and not self.attrs.get("allowzero")
            if copied and (x.shape is None or place >= len(x.shape)):
                return None
            dims.append(x.shape[place] if copied and x.shape else dim)
        if -1 in dims:
            if x.shape is None:
                return None
            whole, rest = Counter(x.shape), Counter(dim for dim in dims if dim != -1)
            left, others = (multiplied((one - other).elements()) for one, other in ((whole, rest), (rest, whole)))
            open_dim = quotient(left, others)
            if multiplied(rest.elements()) == 0:
                return None
            dims[dims.index(-1)] = open_dim if open_dim is not None else atom(f"Div({left!r}, {others!r})")
        return self.terms.shaped("Reshape", x, tuple(dims))

    def flatten(self, x: Term) -> Term | None:
        if x.shape is None:
            return None
        axis = (
            self.attrs.get("axis", 1) % max(len(x.shape), 1)
            if self.attrs.get("axis", 1) < 0
            else self.attrs.get("axis", 1)
        )
        return self.terms.shaped("Reshape", x, (multiplied(x.shape[:axis]), multiplied(x.shape[axis:])))

    def expand(self, x: Term) -> Term | None:
        if self.op == "ConstantOfShape":
            wanted, value = self.numbers(0), self.args[1]
            return (
                None
                if wanted is None or value is None
                else self.terms.shaped("Expand", self.terms.shaped("Reshape", value, ()), tuple(wanted))
            )
        wanted = self.numbers(1)
        return (
            None
            if wanted is None or x.shape is None
            else self.terms.shaped("Expand", x, broadcast([x.shape, tuple(wanted)]))
        )

    def range(self, x: Term) -> Term | None:
        """Range of integers that are not all known."""
        ends: list[Any] = [numbers[0] if (numbers := self.numbers(place)) else None for place in range(3)]
        start, limit, step = ends
        if x.dtype not in INTEGERS or start is None or not isinstance(limit, Poly) or step != 1:
            return None
        return self.terms.term("Range", self.args, {}, (x.dtype, (limit - start,))) if at_most(start, limit) else None

    def reduce(self, x: Term) -> Term | None:
        """The product or sum of a vector of integers that are not all known."""
        axes = self.numbers(1, "axes")
        if (
            x.array is None
            or x.is_constant
            or x.dtype not in INTEGERS
            or x.array.ndim != 1
            or axes not in (None, [0], [-1])
        ):
            return None
        if len(self.args) > 1 and axes is None:
            return None
        result = multiplied(x.elements) if self.op == "ReduceProd" else sum(x.elements, start=0)
        return self.terms.constant(objects([result], (1,) if self.attrs.get("keepdims", 1) else ()), x.dtype)

    def concat(self, x: Term) -> Term | None:
        """Concat whose result is as long as its operands together."""
        shapes = [arg.shape for arg in self.args if arg is not None and arg.shape and arg.dtype == x.dtype]
        if len(shapes) < len(self.args) or len({len(shape) for shape in shapes}) > 1 or not x.dtype:
            return None
        dims, axis = list(shapes[0]), self.attrs.get("axis", 1) % len(shapes[0])
        for shape in shapes[1:]:
            dims[axis] = shape[axis] + dims[axis]
        return self.terms.move("Concat", self.args, {"axis": axis, "@": self.attrs["@"]}, (x.dtype, tuple(dims)))

    def where(self, x: Term) -> Term | None:
        one, other = self.args[1:]
        if one is None or other is None or one.dtype != other.dtype:
            return None
        shapes = [arg.shape for arg in (x, one, other) if arg.shape is not None]
        shape = broadcast(shapes) if len(shapes) == 3 else None
        known = x.is_constant and one.array is not None and other.array is not None and shape is not None
        if known and one.array is not None and other.array is not None:  # moves follow operands of one shape
            args = [self.terms.shaped("Expand", arg, shape or ()) for arg in (x, one, other)]
            return self.terms.move("Where", args, {"@": self.attrs["@"]}, (one.dtype, shape))
        return self.terms.move("Where", [x, one, other], {"@": self.attrs["@"]}, (one.dtype, shape))


def multiplied(dims: Iterable[Dim]) -> Dim:
    result: Dim = 1
    for dim in dims:
        result = dim * result
    return result


RULES: Mapping[str, Callable[[Call, Term], Term | None]] = {
    "Identity": Call.identity,
    "Dropout": Call.identity,
    "Cast": Call.cast,
    "CastLike": Call.cast,
    "Shape": Call.shape,
    "Size": Call.shape,
    "Reshape": Call.reshape,
    "Flatten": Call.flatten,
    "Expand": Call.expand,
    "ConstantOfShape": Call.expand,
    "Range": Call.range,
    "Concat": Call.concat,
    "ReduceProd": Call.reduce,
    "ReduceSum": Call.reduce,
    "Where": Call.where,
}


# Certificates.

State = dict[str, str]
"""A model as texts by name: nodes, constants by their hash, inputs, outputs, functions."""


def elements_of(tensor: onnx.TensorProto) -> Array:
    """Return the elements of a tensor. Raises RefusedError if it has others than its shape says."""
    try:
        return onnx.numpy_helper.to_array(tensor)
    except (ValueError, TypeError) as error:
        raise RefusedError(f"the tensor {tensor.name} cannot be read: {error}") from None


def state_of(model: onnx.ModelProto, pool: dict[str, Array]) -> State:
    """Return the model as texts; its constants are added to the pool by their hash."""
    state = {f"opset {entry.domain}": str(entry.version) for entry in model.opset_import}
    state["IR version"] = str(model.ir_version)
    graph = model.graph
    if graph.sparse_initializer:
        raise RefusedError("sparse initializers are not supported")
    for kind, values in (("input", graph.input), ("output", graph.output)):
        state |= {f"{kind} {index}": f"{value.name} {_text(value.type)}" for index, value in enumerate(values)}
    for tensor in graph.initializer:
        array = elements_of(tensor)
        content = digest(array)
        pool[content] = array
        state[f"constant {tensor.name}"] = f"{tensor.data_type} {content}"
    for node in graph.node:
        key = f"node {next(filter(None, node.output), node.name)}"
        text = _text(_bare(node))
        if state.get(key, text) != text:
            raise RefusedError(f"two nodes make {key.removeprefix('node ')}")
        state[key] = text
    for function in model.functions:
        copy = onnx.FunctionProto()
        copy.CopyFrom(function)
        copy.ClearField("doc_string")
        copy.ClearField("value_info")
        del copy.node[:]
        copy.node.extend(map(_bare, function.node))
        state[f"function {function.domain} {function.name} {function.overload}"] = _text(copy)
    return state


def edit_between(before: State, after: State) -> dict[str, Any]:
    """Return the edit that makes the one model of the other."""
    put = {key: text for key, text in after.items() if before.get(key) != text}
    return {"drop": [key for key in before if key not in after], "put": put}


def sealed(certificate: Mapping[str, Any]) -> str:
    """Return the hash of all that a certificate says."""
    rest = {key: value for key, value in certificate.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def _parsed(kind: Any, text: str) -> Any:
    """Return what `_text` wrote. Raises RefusedError if the text is of another kind."""
    try:
        return kind.FromString(base64.b64decode(text))
    except Exception as error:  # foreign code: protobuf raises what its parser does
        raise RefusedError(f"a text of the certificate is no {kind.__name__}: {error}") from None


def _text(proto: Any) -> str:
    return base64.b64encode(proto.SerializeToString(deterministic=True)).decode()


def _bare(node: onnx.NodeProto) -> onnx.NodeProto:
    """Return the node without notes for readers."""
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    for name in (
        "doc_string",
        "metadata_props",
        *(name for name in ("name", "domain", "overload") if not getattr(copy, name)),
    ):
        copy.ClearField(name)
    for attribute in copy.attribute:
        attribute.ClearField("doc_string")
        for graph in [attribute.g] if attribute.HasField("g") else attribute.graphs:
            graph.ClearField("doc_string")
            graph.ClearField("value_info")
            graph.ClearField("metadata_props")
            nodes = list(map(_bare, graph.node))
            del graph.node[:]
            graph.node.extend(nodes)
    return copy


@dataclass
class Report:
    """What a check found.

    Attributes:
        steps: The number of steps.
        left: Those that are not certified: the pass, its rules, and the outputs whose equality is not shown.
    """

    steps: int
    left: list[tuple[str, list[str], list[str]]] = field(default_factory=list[tuple[str, list[str], list[str]]])

    @property
    def certified(self) -> bool:
        return not self.left


@dataclass(frozen=True)
class Model:
    """The declared inputs and outputs of a model, the terms of its outputs, and those of all values."""

    declared: Mapping[str, str]
    outputs: Mapping[str, Term]
    values: Env


class Checker:
    """Replays a certificate."""

    def __init__(self, constants: dict[str, Array], declared: Mapping[str, onnx.TypeProto]) -> None:
        self.constants = constants
        self.terms = Terms(2**22 + 16 * sum(array.size for array in constants.values()))
        self.reader = Reader(self.terms, declared)
        self.parsed: dict[str, Any] = {}

    def read(self, state: State) -> Model:
        """Return the model as terms."""
        opsets, functions, declared_texts = (
            dict[str, int](),
            dict[tuple[str, str, str], onnx.FunctionProto](),
            dict[str, str](),
        )
        nodes, env = list[onnx.NodeProto](), ChainMap[str, Term]({})
        outputs, inputs = list[str](), set[str]()
        for key, text in state.items():
            kind, _, name = key.partition(" ")
            if kind == "opset":
                opsets["" if name == "ai.onnx" else name] = int(text)
            elif kind in ("input", "output"):
                declared_texts[key], value = text, text.rpartition(" ")[0]
                if kind == "output":
                    outputs.append(value)
                else:
                    inputs.add(value)
                    env[value] = self._input(value, self._parse(onnx.TypeProto, text.rpartition(" ")[2]))
            elif kind == "node":
                nodes.append(self._parse(onnx.NodeProto, text))
            elif kind == "function":
                function = self._parse(onnx.FunctionProto, text)
                functions[function.domain, function.name, function.overload] = function
        for key, text in state.items():
            if key.startswith("constant "):
                name = key.removeprefix("constant ")
                if name in inputs:  # a default, which a caller may replace
                    declared_texts[f"default {name}"] = text
                else:
                    env[name] = self._constant(text)
        scope = Scope(opsets, functions)
        self.reader.count = 0
        self.reader.nodes(_in_order(nodes), env, scope)
        return Model(declared_texts, {name: looked_up(env, name) for name in outputs}, env)

    def _parse(self, kind: Any, text: str) -> Any:
        if text not in self.parsed:
            self.parsed[text] = _parsed(kind, text)
        return self.parsed[text]

    def _input(self, name: str, kind: onnx.TypeProto) -> Term:
        """Return the term of an input, of its declared type and shape; dimensions of one name are equal."""
        known = declared(kind, name)
        return self.terms.term("input", (), {}, known, key=(name, *known))

    def _constant(self, text: str) -> Term:
        dtype, _, content = text.partition(" ")
        if content not in self.constants:
            raise RefusedError(f"neither model nor the certificate has the constant {content}")
        return self.terms.constant(self.constants[content], int(dtype))

    def differing(self, before: Model, after: Model) -> list[str]:
        """Return the inputs and outputs that are not shown to be equal."""
        one, other = before.declared, after.declared
        changed = {key for key in one.keys() | other.keys() if one.get(key) != other.get(key)}
        changed -= {key for key in changed if self._repaired(one.get(key, ""), other.get(key, ""), after)}
        return sorted(changed) + [name for name, term in before.outputs.items() if after.outputs.get(name) is not term]

    def _repaired(self, old: str, new: str, after: Model) -> bool:
        """True if an output is declared as its value is, by another type or shape than before."""
        name, _, kind = new.rpartition(" ")
        if not name or name != old.rpartition(" ")[0] or name not in after.outputs:
            return False
        dtype, shape = declared(self._parse(onnx.TypeProto, kind), name)
        value = after.outputs[name]
        known = shape is None or (value.shape is not None and len(shape) == len(value.shape))
        return (
            known
            and dtype == value.dtype > 0
            and all(a in (b, name) for a, b in zip(shape or (), value.shape or (), strict=False) if isinstance(a, int))
        )


def _in_order(nodes: Sequence[onnx.NodeProto]) -> list[onnx.NodeProto]:
    """Return the nodes, each after those whose results it uses."""
    made = {name: index for index, node in enumerate(nodes) for name in node.output if name}
    uses = {index: {made[name] for name in _names(node) if name in made} for index, node in enumerate(nodes)}
    try:
        return [nodes[index] for index in TopologicalSorter(uses).static_order()]
    except CycleError:
        raise RefusedError("the nodes form a cycle") from None


def _names(node: onnx.NodeProto) -> Iterable[str]:
    yield from node.input
    for attribute in node.attribute:
        for graph in [attribute.g] if attribute.HasField("g") else attribute.graphs:
            yield from (value.name for value in graph.output)
            for inner in graph.node:
                yield from _names(inner)


def check(before: onnx.ModelProto, after: onnx.ModelProto, certificate: Mapping[str, Any]) -> Report:
    """Check that the certificate leads from the one model to the other, and which of its steps are certified.

    Raises:
        RefusedError: It does not, or says what is not so.
    """
    if not _is_well_formed(certificate):
        raise RefusedError(f"this is no certificate of the format {FORMAT}, or it was changed")
    pool: dict[str, Array] = {}
    first, last = state_of(before, pool), state_of(after, pool)
    for content, data in certificate["constants"].items():
        array = elements_of(_parsed(onnx.TensorProto, data))
        if digest(array) != content:  # the pool holds what the hash says
            raise RefusedError(f"the constant {content} has other elements")
        pool[content] = array
    declared = {value.name: value.type for value in (*before.graph.value_info, *before.graph.output)}
    return _checked(Checker(pool, declared), first, last, certificate["steps"])


def _is_well_formed(certificate: Any) -> bool:
    """True for what has the form of a certificate, and the hash that it states."""
    try:
        steps = certificate["steps"]
        edits = [(step["edit"]["drop"], step["edit"]["put"]) for step in steps]
        texts = [step["pass"] for step in steps] + [rewrite["rule"] for step in steps for rewrite in step["rewrites"]]
        texts += [text for drop, put in edits for text in (*drop, *put, *put.values())]
        texts += [*certificate["constants"].keys(), *certificate["constants"].values()]
    except (KeyError, TypeError, AttributeError):
        return False
    fits = all(isinstance(text, str) for text in texts) and all(isinstance(drop, list) for drop, _ in edits)
    return fits and certificate.get("format") == FORMAT and certificate.get("sha256") == sealed(certificate)


def _checked(checker: Checker, first: State, last: State, steps: Sequence[Mapping[str, Any]]) -> Report:
    """Replay the steps, and certify each."""
    states = [first]
    for step in steps:
        state = dict(states[-1])
        for key in step["edit"]["drop"]:
            if state.pop(key, None) is None:
                raise RefusedError(f"the step {step['pass']} drops {key}, which is not there")
        state |= step["edit"]["put"]
        states.append(state)
    if states[-1] != last:
        wrong = sorted(key for key in last.keys() | states[-1].keys() if last.get(key) != states[-1].get(key))
        raise RefusedError(f"the steps do not lead to the output model: {', '.join(wrong[:3])} differ")
    report, models, place = Report(len(states) - 1), list(map(checker.read, states)), 0
    while place < report.steps:
        wrong = [checker.differing(models[place], model) for model in models[place + 1 :]]
        if [] in wrong:  # several steps may be right together alone
            place += wrong.index([]) + 1
            continue
        step = steps[place]
        report.left.append((step["pass"], sorted({rewrite["rule"] for rewrite in step["rewrites"]}), wrong[0]))
        place += 1
    return report


def model_in(path: str | os.PathLike[str]) -> onnx.ModelProto:
    """Return the model in a file. Raises RefusedError if it cannot be read."""
    try:
        return onnx.load(path)
    except Exception as error:  # foreign code: onnx raises what its parsers do
        raise RefusedError(f"{os.fspath(path)} cannot be read as a model: {error}") from None


def check_files(before: str, after: str, certificate: str) -> Report:
    """Check the certificate in a file, as `check` does."""
    try:
        with open(certificate, encoding="utf-8") as file:
            content = json.load(file)
    except (ValueError, RecursionError) as error:
        raise RefusedError(f"{certificate} is no JSON: {error}") from None
    return check(model_in(before), model_in(after), content)


def lines(report: Report) -> list[str]:
    """Return what a check found, as text."""
    if report.certified:
        return [f"certified for all inputs: {report.steps} step{'' if report.steps == 1 else 's'}"]
    rows = [
        f"  {name}: {', '.join(rules) or 'no rule'}: {', '.join(places[:3])}" for name, rules, places in report.left
    ]
    return [f"certified in part: {report.steps - len(report.left)} of {report.steps} steps; not certified:", *rows]


if __name__ == "__main__":
    try:
        result = check_files(*sys.argv[1:4])
        sys.stdout.write("\n".join(lines(result)) + "\n")
        sys.exit(0 if result.certified else 3)
    except RefusedError as refusal:
        sys.stdout.write(f"refused: {refusal}\n")
        sys.exit(1)
