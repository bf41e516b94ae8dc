"""Each operator that has a rule, with random attributes, shapes and ranges, in the opsets and types of its schema."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import onnx.defs
from onnx import TensorProto

from tests.analysis.bounds import foreign, layers
from tests.analysis.bounds.cases import FLOATS, Case, Make, numpy_type

_OLDEST = 7
"""Runtimes support no opset before."""
_INTEGERS = (TensorProto.INT32, TensorProto.INT64, TensorProto.INT8, TensorProto.UINT8)
_MICROSOFT = "com.microsoft"


def unary(op_type: str, **choices: tuple[Any, ...]) -> Make:
    """An operator of one operand; choices: values of its attributes, of which None leaves it out."""

    def make(case: Case) -> None:
        given = {name: case.pick(*values) for name, values in choices.items()}
        x = case.x(*case.shape(int(case.rng.integers(0, 4))))
        case.node(op_type, x, **{name: value for name, value in given.items() if value is not None})

    return make


def binary(op_type: str, **choices: tuple[Any, ...]) -> Make:
    def make(case: Case) -> None:
        given = {name: case.pick(*values) for name, values in choices.items()}
        a, b = broadcast_pair(case)
        case.node(op_type, a, a if case.coin(0.1) else b, **given)

    return make


def broadcast_pair(case: Case) -> tuple[str, str]:
    shape = case.shape(int(case.rng.integers(1, 4)))
    other = [n if case.coin(0.7) else 1 for n in shape][int(case.rng.integers(0, len(shape))) :]
    return case.x(*shape), case.x(*other)


def variadic(op_type: str) -> Make:
    def make(case: Case) -> None:
        shape = case.shape(2)
        case.node(op_type, *(case.x(*shape) for _ in range(int(case.rng.integers(1, 5)))))

    return make


def reduction(op_type: str) -> Make:
    def make(case: Case) -> None:
        rank = int(case.rng.integers(1, 4))
        x = case.x(*case.shape(rank, 1, case.pick(5, 40)))
        drawn = case.rng.integers(-rank, rank, size=int(case.rng.integers(1, rank + 1)))
        axes = list({int(axis) % rank: int(axis) for axis in drawn}.values())
        given: dict[str, Any] = {"keepdims": case.pick(0, 1)}
        first = 13 if op_type == "ReduceSum" else 18
        if case.coin(0.2):
            case.node(op_type, x, **given, **({"noop_with_empty_axes": case.pick(0, 1)} if case.opset >= first else {}))
        elif case.opset < first:
            case.node(op_type, x, axes=axes, **given)
        else:
            case.node(op_type, x, case.ints(*axes), **given)

    return make


def clip(case: Case) -> None:
    x = case.x(*case.shape(2))
    if case.opset < 11:
        given = {name: float(case.rng.normal() * 3) for name in ("min", "max") if case.coin(0.7)}
        case.node("Clip", x, **given)
    else:
        ends = [(case.floats() if case.coin(0.7) else case.x()) if case.coin(0.7) else "" for _ in range(2)]
        case.node("Clip", x, *ends)


def modulo(case: Case) -> None:
    a, b = broadcast_pair(case)
    if numpy_type(case.dtype).kind not in "iu":
        case.node("Mod", a, b, fmod=1)
    else:
        shape = case.shape(2)
        low = case.pick(1, 1 if case.dtype == TensorProto.UINT8 else -9)
        case.node("Mod", case.x(*shape), case.x(*shape, low=low, high=low + 3), fmod=case.pick(0, 1))


def quotient(case: Case) -> None:
    if numpy_type(case.dtype).kind in "iu":
        low = case.pick(1, 1 if case.dtype == TensorProto.UINT8 else -9)
        case.node("Div", case.x(3, 2), case.x(3, 2, low=low, high=low + 3))
    elif case.coin(0.3):
        over_norm(case)
    elif case.coin(0.3):
        exponentials(case)
    else:
        binary("Div")(case)


def over_norm(case: Case) -> None:
    """A vector over its own norm, as exporters write it."""
    x = case.x(2, 6)
    square = case.node("Mul", x, x) if case.coin() else case.node("Pow", x, case.floats(low=2, high=2))
    mean = case.pick("ReduceMean", "ReduceSum")
    first = {"ReduceMean": 18, "ReduceSum": 13}[mean]
    total = case.node(mean, square, axes=[-1]) if case.opset < first else case.node(mean, square, case.ints(-1))
    if case.coin(0.7):
        total = case.node("Add", total, case.floats(low=1e-6, high=1e-3) if case.coin() else case.x(low=1e-12, high=1))
    root = case.node("Sqrt", total)
    if case.coin():
        case.node("Div", x, root)
    else:
        case.node("Mul", x, case.node("Reciprocal", root))


def exponentials(case: Case) -> None:
    """A softmax, as exporters write it."""
    x = case.x(3, 4)
    old = case.opset < 18
    if case.coin(0.7):
        greatest = case.node("ReduceMax", x, axes=[1]) if old else case.node("ReduceMax", x, case.ints(1))
        x = case.node("Sub", x, greatest)
    e = case.node("Exp", x)
    total = case.node("ReduceSum", e, axes=[1]) if case.opset < 13 else case.node("ReduceSum", e, case.ints(1))
    case.node("Div", e, total)


def product(case: Case) -> None:
    """A product, also of a value with its sigmoid, and of shares."""
    if numpy_type(case.dtype).kind in "iu" or case.coin(0.6):
        binary("Mul")(case)
    elif case.coin():
        over_norm(case)
    else:
        x = case.x(3, 4)
        case.node("Mul", x, case.node("Sigmoid", x))


def total(case: Case) -> None:
    """A sum, also one that ends a normalization as TensorFlow writes it."""
    if numpy_type(case.dtype).kind in "iu" or case.coin(0.7) or case.opset < 18:
        binary("Add")(case)
        return
    x, last = case.x(2, 4), case.ints(-1)
    mean = case.node("ReduceMean", x, last)
    difference = case.node("Sub", x, mean)
    square = case.node("ReduceMean", case.node("Mul", difference, difference), last)
    inverse = case.node("Reciprocal", case.node("Sqrt", case.node("Add", square, case.floats(low=1e-3, high=1e-2))))
    scale = case.node("Mul", inverse, case.floats(4))
    offset = case.node("Sub", case.floats(4), case.node("Mul", mean, scale))
    case.node("Add", case.node("Mul", x, scale), offset)


def power(case: Case) -> None:
    shape = case.shape(2)
    x = case.x(*shape)
    exponent = case.pick(2.0, 3.0, 0.5, 0.0, 1.0, -1.0, -2.0, 2.5, 7.0, -0.5)
    if case.coin(0.3):
        case.node("Pow", case.x(*shape, low=0.01, high=case.pick(1, 90)), case.x(*shape, low=-2, high=3))
    elif case.opset >= 12 and exponent == int(exponent) and case.coin():
        case.node("Pow", x, case.scalar(int(exponent)))
    else:
        case.node("Pow", x, case.floats(low=exponent, high=exponent))


def where(case: Case) -> None:
    shape = case.shape(2)
    a, b = case.x(*shape), case.x(*shape)
    match int(case.rng.integers(3)):
        case 0:
            test = case.x(*shape, low=0, high=1, dtype=TensorProto.BOOL)
        case 1 if numpy_type(case.dtype).kind not in "iu":
            test, b = case.node("IsNaN", a), a
            a = case.floats()
        case _:
            names = ("Less", "Greater", *(("LessOrEqual", "GreaterOrEqual") if case.opset >= 12 else ()))
            test = case.node(case.pick(*names), *case.pick((a, b), (b, a)))
    case.node("Where", test, a, case.pick(b, b, case.x(1)))


def cumulative(case: Case) -> None:
    rank = int(case.rng.integers(1, 4))
    given = {"exclusive": case.pick(0, 1), "reverse": case.pick(0, 1)}
    case.node("CumSum", case.x(*case.shape(rank)), case.scalar(int(case.rng.integers(-rank, rank))), **given)


def top_k(case: Case) -> None:
    x, axis = case.x(3, 4), case.pick(-1, 0, 1)
    given = {"largest": case.pick(0, 1)} if case.opset >= 11 else {}
    if case.opset < 10:
        case.node("TopK", x, k=2, axis=axis, count=2)
    else:
        case.node("TopK", x, case.ints(2), axis=axis, count=2, **given)


def scatter(op_type: str) -> Make:
    def make(case: Case) -> None:
        since = {"add": 16, "mul": 16, "max": 18, "min": 18}
        way = case.pick("none", *(each for each, first in since.items() if case.opset >= first))
        given: dict[str, Any] = {"reduction": way} if way != "none" else {}
        if op_type == "ScatterND":
            case.node(op_type, case.x(4, 3), case.constant(case.rng.integers(0, 4, (3, 1))), case.x(3, 3), **given)
        else:
            indices = case.constant(case.rng.integers(0, 3, (2, 3)))
            case.node(op_type, case.x(4, 3), indices, case.x(2, 3), axis=case.pick(0, 1, -1), **given)

    return make


def gather(case: Case) -> None:
    indices = case.constant(case.rng.integers(-3 if case.opset >= 11 else 0, 3, case.shape(2)))
    case.node("Gather", case.x(3, 3), indices, axis=case.pick(0, 1, -1))


def slices(case: Case) -> None:
    x = case.x(6, 5)
    starts, ends = [case.pick(0, 1, -4, 5, -10, 9)], [case.pick(3, -1, 2**31 - 1, -(2**31))]
    if case.opset < 10:
        case.node("Slice", x, starts=starts, ends=ends, axes=[case.pick(0, 1)])
    else:
        axis, by = case.ints(case.pick(0, 1, -1)), case.ints(case.pick(1, 2, -1))
        case.node("Slice", x, case.ints(*starts), case.ints(*ends), axis, by)


def pad(case: Case) -> None:
    x = case.x(3, 4)
    mode = case.pick("constant", "reflect", "edge", *(["wrap"] if case.opset >= 19 else []))
    pads = [int(each) for each in case.rng.integers(-1, 3, 4)]
    if case.opset < 11:
        case.node("Pad", x, mode=mode, pads=pads, **({"value": 3.5} if mode == "constant" else {}))
    else:
        filling = [case.floats() if case.coin() else case.x()] if mode == "constant" and case.coin(0.7) else []
        case.node("Pad", x, case.ints(*pads), *filling, mode=mode)


def concat(case: Case) -> None:
    case.node("Concat", *(case.x(n, 3) for n in case.shape(3)), axis=case.pick(0, -2) if case.opset >= 11 else 0)


def split(case: Case) -> None:
    x = case.x(5, 4)
    if case.opset < 13:
        case.node("Split", x, axis=0, split=[2, 3], count=2)
    elif case.opset >= 18 and case.coin():
        case.node("Split", x, axis=case.pick(0, 1), num_outputs=2, count=2)
    else:
        case.node("Split", x, case.ints(2, 3), axis=0, count=2)


def transpose(case: Case) -> None:
    x = case.x(2, 3, 4)
    case.node("Transpose", x, **({"perm": [int(each) for each in case.rng.permutation(3)]} if case.coin(0.8) else {}))


def reshape(case: Case) -> None:
    shape = case.pick([-1], [2, -1], [0, -1], [6, 4], [4, 6], [2, 2, 6], [0, 0, 2, 2])
    case.node("Reshape", case.x(2, 3, 4), case.ints(*shape))


def squeeze(case: Case) -> None:
    if case.opset < 13:
        case.node("Squeeze", case.x(1, 3, 1), **case.pick({}, {"axes": [0]}, {"axes": [2]}))
    else:
        case.node("Squeeze", case.x(1, 3, 1), *case.pick((), (case.ints(-1),), (case.ints(0, 2),)))


def unsqueeze(case: Case) -> None:
    axes = case.pick([0], [2], [1, 3], [-1] if case.opset >= 11 else [0])
    if case.opset < 13:
        case.node("Unsqueeze", case.x(2, 3), axes=axes)
    else:
        case.node("Unsqueeze", case.x(2, 3), case.ints(*axes))


def expand(case: Case) -> None:
    case.node(
        "Expand", case.x(*case.pick((2, 3, 1), (1, 3, 4), (3, 1))), case.ints(*case.pick((2, 1, 1, 4), (1,), (3, 4)))
    )


def tile(case: Case) -> None:
    case.node("Tile", case.x(2, 3), case.ints(*case.pick((1, 2), (3, 1), (2, 2))))


def shape(case: Case) -> None:
    ends = {"start": case.pick(0, 1, -2), "end": case.pick(1, 2, -1)} if case.opset >= 15 and case.coin() else {}
    case.node("Shape", case.x(2, 3, 4), **ends)


def filled(case: Case) -> None:
    kind = numpy_type(case.dtype)
    number = np.array([case.pick(0, 2, *((-np.inf, np.nan) if kind.kind not in "iu" else ()))]).astype(kind)
    value = onnx.numpy_helper.from_array(number)
    case.node("ConstantOfShape", case.ints(2, 3), **({"value": value} if case.coin(0.8) else {}))


def one_hot(case: Case) -> None:
    case.node("OneHot", case.ints(0, 3, 1), case.scalar(4), case.x(2), **({"axis": 0} if case.coin() else {}))


def cast(case: Case) -> None:
    kinds = [TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.INT32, TensorProto.INT8]
    kinds += [TensorProto.UINT8, TensorProto.INT64, TensorProto.BOOL, TensorProto.UINT16]
    if case.opset >= 19:
        kinds += [TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E5M2, TensorProto.FLOAT8E4M3FNUZ]
    if case.opset >= 13:
        kinds += [TensorProto.BFLOAT16]
    to = case.pick(*kinds)
    x = case.x(*case.shape(2))
    given = {"saturate": case.pick(0, 1)} if to in (17, 18, 19) else {}
    made = case.node("Cast", x, to=to, **given)
    if to in (17, 18, 19):
        case.node("Cast", made, to=1)


def cast_like(case: Case) -> None:
    case.node("CastLike", case.x(3, 2), case.x(1, dtype=case.pick(*FLOATS[:3], TensorProto.INT32)))


def range_of(case: Case) -> None:
    if numpy_type(case.dtype).kind in "iu":
        case.node(
            "Range",
            *(case.constant(np.array(each, numpy_type(case.dtype))) for each in case.pick((3, 12, 4), (5, 0, -2))),
        )
    else:
        case.node("Range", case.x(low=-2, high=1), case.x(low=2, high=5), case.floats(low=0.5, high=1.5))


def gelus(op_type: str, biased: bool = False) -> Make:
    def make(case: Case) -> None:
        case.node(op_type, case.x(2, 3, 4), *([case.x(4)] if biased else []), domain=_MICROSOFT)

    return make


def skip_norm(op_type: str) -> Make:
    def make(case: Case) -> None:
        parts = [case.floats(4)] + [case.floats(4) if case.coin() else ""] * (op_type == "SkipLayerNormalization")
        bias = [case.floats(4)] if case.coin() else []
        given = {"epsilon": case.pick(1e-5, 1e-12)} if case.coin(0.8) else {}
        shape = 2, 3, 4
        outputs = {"count": 4} if case.coin() else {}
        case.node(op_type, case.x(*shape), case.x(*shape), *parts, *bias, domain=_MICROSOFT, **given, **outputs)

    return make


_PLAIN = (
    "Abs", "Ceil", "Cos", "Erf", "Exp", "Floor", "HardSwish", "Identity", "Log", "Neg", "Reciprocal", "Relu", "Round",
    "Sigmoid", "Sign", "Sin", "Size", "Softplus", "Sqrt", "Tanh",
)  # fmt: skip
OPERATORS: dict[str, Make] = {
    **{name: unary(name) for name in _PLAIN},
    **{name: variadic(name) for name in ("Max", "Min", "Mean", "Sum")},
    **{f"Reduce{name}": reduction(f"Reduce{name}") for name in ("L1", "L2", "Max", "Mean", "Min", "Sum", "SumSquare")},
    "Elu": unary("Elu", alpha=(1.0, 0.3, 2.0, -1.0, None)),
    "Selu": unary("Selu", alpha=(1.5, None), gamma=(1.2, None)),
    "LeakyRelu": unary("LeakyRelu", alpha=(0.1, 1.5, -0.5, 0.0, None)),
    "HardSigmoid": unary("HardSigmoid", alpha=(0.1, 1.5, -0.5, 0.0, None), beta=(0.3, -1.0, None)),
    "Gelu": unary("Gelu", approximate=("none", "tanh")),
    "Swish": unary("Swish", alpha=(1.0, 0.5, 3.0, -1.0, None)),
    "PRelu": binary("PRelu"),
    "Add": total,
    "Sub": binary("Sub"),
    "Mul": product,
    "Div": quotient,
    "Mod": modulo,
    "Pow": power,
    "Clip": clip,
    "Where": where,
    "Cast": cast,
    "CastLike": cast_like,
    "Range": range_of,
    "CumSum": cumulative,
    "TopK": top_k,
    "ScatterND": scatter("ScatterND"),
    "ScatterElements": scatter("ScatterElements"),
    "Gather": gather,
    "Slice": slices,
    "Pad": pad,
    "Concat": concat,
    "Split": split,
    "Transpose": transpose,
    "Reshape": reshape,
    "Flatten": lambda case: case.node("Flatten", case.x(2, 3, 4), axis=case.pick(0, 1, 2, 3)),
    "Squeeze": squeeze,
    "Unsqueeze": unsqueeze,
    "Expand": expand,
    "Tile": tile,
    "Trilu": lambda case: case.node("Trilu", case.x(3, 4), upper=case.pick(0, 1)),
    "Shape": shape,
    "ConstantOfShape": filled,
    "OneHot": one_hot,
    **layers.OPERATORS,
}
"""By operator: what adds it to a case, with others that lead to it now and then."""

FOREIGN: dict[str, Make] = {
    "Gelu": gelus("Gelu"),
    "FastGelu": gelus("FastGelu", biased=True),
    "BiasGelu": gelus("BiasGelu", biased=True),
    "SkipLayerNormalization": skip_norm("SkipLayerNormalization"),
    "SkipSimplifiedLayerNormalization": skip_norm("SkipSimplifiedLayerNormalization"),
    **foreign.OPERATORS,
}
"""The same for operators of com.microsoft."""

_TYPED_BY = {"Where": 1, "OneHot": 2, "ConstantOfShape": None, "DequantizeLinear": 1}
"""The input whose types are those of the case, where it is not the first; None for the result."""
_LIMITED = {"DynamicQuantizeLinear": FLOATS[:1], "MatMulInteger": FLOATS[:1], "ConvInteger": FLOATS[:1]}
"""The types of the operands from which a case makes those of an operator of 8-bit integers."""


@cache
def _history() -> dict[str, set[int]]:
    """The opsets at which each operator changed."""
    found = defaultdict[str, set[int]](set)
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == "":
            found[schema.name].add(schema.since_version)
    return found


def versions(op_type: str) -> list[int]:
    """The first opset of each version of an operator that runtimes may support, and the newest opset but one."""
    found = _history()[op_type]
    opsets = {max(each, _OLDEST) for each in found if each <= onnx.defs.onnx_opset_version()}
    return sorted(opsets - ({_OLDEST} if any(each <= _OLDEST for each in found) is False else set()))


def types(op_type: str, opset: int) -> list[int]:
    """The element types of an operator's operands that the cases cover."""
    if op_type in _LIMITED:
        return list(_LIMITED[op_type])
    schema, index = onnx.defs.get_schema(op_type, opset), _TYPED_BY.get(op_type, 0)
    formal = schema.outputs[0] if index is None else schema.inputs[index]
    names = {f"tensor({name})": dtype for name, dtype in _NAMES.items()}
    return [dtype for name, dtype in names.items() if name in formal.types]


_NAMES = {TensorProto.DataType.Name(dtype).lower(): dtype for dtype in (*FLOATS, *_INTEGERS)}


def every() -> Iterator[tuple[str, str, int, int]]:
    """Yield each operator with a rule, by its domain, for each of its versions and each type."""
    for op_type in sorted(OPERATORS):
        for opset in versions(op_type):
            for dtype in types(op_type, opset):
                yield "", op_type, opset, dtype
    for op_type in sorted(FOREIGN):
        for dtype in (TensorProto.FLOAT, TensorProto.FLOAT16):
            yield _MICROSOFT, op_type, 17, dtype


def case_of(domain: str, op_type: str, opset: int, dtype: int, seed: int) -> Case:
    """Return the case of an operator that a seed gives."""
    made = Case(np.random.default_rng([seed, opset, dtype, *map(ord, op_type)]), opset, dtype)
    (FOREIGN if domain else OPERATORS)[op_type](made)
    return made
