"""Operators with random attributes, shapes and ranges: functions, arithmetic, moves; and the table of all of them."""

from __future__ import annotations

from typing import Any

from onnx import TensorProto

from tests.ir.bounds import layers, signals
from tests.ir.bounds.cases import Case, Make


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
        axes = sorted({int(each) for each in case.rng.integers(-rank, rank, size=int(case.rng.integers(1, rank + 1)))})
        axes = list({axis % rank: axis for axis in axes}.values())
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
    if case.coin(0.6):
        a, b = broadcast_pair(case)
        case.node("Mod", a, b, fmod=1)
    else:
        shape, kind = case.shape(2), case.pick(TensorProto.INT32, TensorProto.INT64)
        low = case.pick(1, -5, -9)
        a, b = case.x(*shape, low=-20, high=30, dtype=kind), case.x(*shape, low=low, high=low + 3, dtype=kind)
        case.node("Cast", case.node("Mod", a, b, fmod=case.pick(0, 1)), to=1)


def integer_division(case: Case) -> None:
    shape, kind = case.shape(2), case.pick(TensorProto.INT32, TensorProto.INT64)
    low = case.pick(1, -9, -4)
    a, b = case.x(*shape, low=-20, high=30, dtype=kind), case.x(*shape, low=low, high=low + 3, dtype=kind)
    case.node("Cast", case.node(case.pick("Div", "Mul", "Sub", "Add"), a, b), to=1)


def power(case: Case) -> None:
    shape = case.shape(2)
    x = case.x(*shape)
    exponent = case.pick(2.0, 3.0, 0.5, 0.0, 1.0, -1.0, -2.0, 2.5, 7.0)
    if case.coin(0.3):
        case.node("Pow", x, case.x(*shape, low=-2, high=3))
    elif case.opset >= 12 and exponent == int(exponent) and case.coin():
        case.node("Pow", x, case.scalar(int(exponent)))
    else:
        case.node("Pow", x, case.floats(low=exponent, high=exponent))


def where(case: Case) -> None:
    shape = case.shape(2)
    a, b = case.x(*shape), case.x(*shape)
    test = case.node(case.pick("Less", "Greater", "LessOrEqual", "GreaterOrEqual"), a, b) if case.opset >= 12 else ""
    case.node("Where", test or case.x(*shape, low=0, high=1, dtype=TensorProto.BOOL), a, case.pick(b, case.x(1)))


def cumulative(op_type: str) -> Make:
    def make(case: Case) -> None:
        rank = int(case.rng.integers(1, 4))
        given = {"exclusive": case.pick(0, 1), "reverse": case.pick(0, 1)}
        case.node(op_type, case.x(*case.shape(rank)), case.scalar(int(case.rng.integers(-rank, rank))), **given)

    return make


def top_k(case: Case) -> None:
    x = case.x(3, 4)
    axis = case.pick(-1, 0, 1)
    given = {"largest": case.pick(0, 1)} if case.opset >= 11 else {}
    if case.opset < 10:
        case.node("TopK", x, k=2, axis=axis, count=2)
    else:
        case.node("TopK", x, case.ints(2), axis=axis, count=2, **given)


def scatter_nd(case: Case) -> None:
    x, indices = case.x(4, 3), case.constant(case.rng.integers(0, 4, (3, 1)))
    since = {"add": 16, "mul": 16, "max": 18, "min": 18}
    reduction = case.pick("none", *(each for each, first in since.items() if case.opset >= first))
    given = {"reduction": reduction} if reduction != "none" else {}
    case.node("ScatterND", x, indices, case.x(3, 3), **given)


def scatter_elements(case: Case) -> None:
    x, indices = case.x(4, 3), case.constant(case.rng.integers(0, 3, (2, 3)))
    since = {"add": 16, "mul": 16, "max": 18, "min": 18}
    reduction = case.pick("none", *(each for each, first in since.items() if case.opset >= first))
    given = {"reduction": reduction} if reduction != "none" else {}
    axis = case.pick(0, 1, -1)
    op_type = "ScatterElements" if case.opset >= 11 else "Scatter"
    case.node(op_type, x, indices, case.x(2, 3), axis=axis % 2, **given)


def tensor_scatter(case: Case) -> None:
    case.node("TensorScatter", case.x(2, 1, 4, 3), case.x(2, 1, 2, 3), case.ints(0, 1))


def gather(case: Case) -> None:
    indices = case.constant(case.rng.integers(-3, 3, case.shape(2)))
    case.node("Gather", case.x(3, 3), indices, axis=case.pick(0, 1, -1) % 2 if case.opset < 11 else case.pick(0, 1, -1))


def gather_elements(case: Case) -> None:
    case.node("GatherElements", case.x(3, 4), case.constant(case.rng.integers(-3, 3, (2, 4))), axis=0)


def gather_nd(case: Case) -> None:
    case.node("GatherND", case.x(3, 4), case.constant(case.rng.integers(0, 3, (2, 2))))


def slices(case: Case) -> None:
    x = case.x(6, 5)
    starts, ends = [case.pick(0, 1, -4, 5, -10, 9)], [case.pick(3, -1, 2**31 - 1, -(2**31))]
    if case.opset < 10:
        case.node("Slice", x, starts=starts, ends=ends, axes=[case.pick(0, 1)])
    else:
        case.node(
            "Slice",
            x,
            case.ints(*starts),
            case.ints(*ends),
            case.ints(case.pick(0, 1, -1)),
            case.ints(case.pick(1, 2, -1)),
        )


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
    rows = case.shape(3)
    case.node("Concat", *(case.x(n, 3) for n in rows), axis=case.pick(0, -2) if case.opset >= 11 else 0)


def split(case: Case) -> None:
    x = case.x(5, 4)
    if case.opset < 13:
        case.node("Split", x, axis=0, split=[2, 3], count=2)
    elif case.opset >= 18 and case.coin():
        case.node("Split", x, axis=case.pick(0, 1), num_outputs=2, count=2)
    else:
        case.node("Split", x, case.ints(2, 3), axis=0, count=2)


def moved(case: Case) -> None:
    """Transpose, Reshape, Squeeze, Expand, Tile and their like, one after another, so that bounds follow places."""
    x = case.x(2, 3, 4)
    kind = int(case.rng.integers(8))
    dims = [2, 3, 4]
    if kind in (0, 1):
        perm = [int(each) for each in case.rng.permutation(3)]
        x, dims = case.node("Transpose", x, perm=perm), [dims[each] for each in perm]
    match kind:
        case 0 | 2:
            case.node("Reshape", x, case.ints(*case.pick([-1], [dims[0], -1], [0, -1], [6, 4], [4, 6], [2, 2, 6])))
        case 1 | 3:
            case.node("Flatten", x, axis=case.pick(0, 1, 2))
        case 4:
            axes = [case.pick(0, 2)]
            wide = (
                case.node("Unsqueeze", x, axes=axes) if case.opset < 13 else case.node("Unsqueeze", x, case.ints(*axes))
            )
            case.node("Squeeze", wide)
        case 5:
            case.node("Expand", x, case.ints(2, 1, 1, 4))
        case 6:
            case.node("Tile", x, case.ints(1, 2, 3))
        case _:
            case.node("Trilu", x, upper=case.pick(0, 1)) if case.opset >= 14 else case.node("Identity", x)


def depth(op_type: str) -> Make:
    def make(case: Case) -> None:
        case.node(op_type, case.x(1, 4, 2, 4), blocksize=2)

    return make


def cast(case: Case) -> None:
    kinds = [TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.INT32, TensorProto.INT8]
    kinds += [TensorProto.UINT8, TensorProto.INT64, TensorProto.BOOL, TensorProto.UINT16]
    if case.opset >= 19:
        kinds += [TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E5M2, TensorProto.FLOAT8E4M3FNUZ]
    if case.opset >= 13:
        kinds += [TensorProto.BFLOAT16]
    to = case.pick(*kinds)
    x = case.x(*case.shape(2))
    if case.coin(0.4):
        x = case.x(*case.shape(2), low=case.pick(-300, -5, 0), high=case.pick(3, 300, 70000), dtype=TensorProto.INT32)
    given = {"saturate": case.pick(0, 1)} if to >= 17 else {}
    case.node("Cast", case.node("Cast", x, to=to, **given), to=1)


def celu(case: Case) -> None:
    case.dtype = TensorProto.FLOAT
    case.node("Celu", case.x(*case.shape(2)), alpha=case.pick(1.0, 0.3, 2.0))


OPERATORS: dict[str, tuple[int, int, Make]] = {}
"""By name: the first and last opset, and the function that adds the operator to a case."""


def _add(make: Make, first: int = 7, last: int = 25, *names: str) -> None:
    for name in names:
        OPERATORS[name] = first, last, make


_PLAIN = (
    "Abs", "Acos", "Asin", "Atan", "Ceil", "Cos", "Erf", "Exp", "Floor", "HardSwish", "Identity", "Log", "Mish", "Neg",
    "Reciprocal", "Relu", "Round", "Sigmoid", "Sign", "Sin", "Softplus", "Softsign", "Sqrt", "Tan", "Tanh", "Acosh",
    "Asinh", "Atanh", "Cosh", "Sinh",
)  # fmt: skip
_SINCE = {"Erf": 9, "HardSwish": 14, "Mish": 18, "Round": 11, "Sign": 9}
for _name in _PLAIN:
    _add(unary(_name), _SINCE.get(_name, 9 if _name[-1] == "h" else 7), 25, _name)
_add(unary("Elu", alpha=(1.0, 0.3, 2.0, -1.0, None)), 7, 25, "Elu")
_add(unary("Selu", alpha=(1.5, None), gamma=(1.2, None)), 7, 25, "Selu")
_add(celu, 12, 25, "Celu")
_add(unary("LeakyRelu", alpha=(0.1, 1.5, -0.5, None)), 7, 25, "LeakyRelu")
_add(unary("ThresholdedRelu", alpha=(0.1, 1.5, -0.5, None)), 10, 25, "ThresholdedRelu")
_add(unary("HardSigmoid", alpha=(0.1, 1.5, -0.5, None), beta=(0.3, -1.0, None)), 7, 25, "HardSigmoid")
_add(unary("Shrink", lambd=(0.5, 2.0, -0.5), bias=(0.0, 0.4, 3.0, -1.0)), 9, 25, "Shrink")
_add(unary("Gelu", approximate=("none", "tanh")), 20, 25, "Gelu")
_add(unary("Swish", alpha=(1.0, 0.5, 3.0, -1.0)), 24, 25, "Swish")
_add(unary("Hardmax", axis=(0,)), 13, 25, "Hardmax")
for _name in ("Add", "Sub", "Mul", "Div", "PRelu"):
    _add(binary(_name), 7, 25, _name)
for _name in ("Max", "Min", "Mean", "Sum"):
    _add(variadic(_name), 8, 25, _name)
for _name in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare"):
    _add(reduction(f"Reduce{_name}"), 7, 25, f"Reduce{_name}")
for _name in ("MaxPool", "AveragePool", "LpPool"):
    _add(layers.pool(_name), 7, 25, _name)
for _name in ("GlobalMaxPool", "GlobalAveragePool", "GlobalLpPool"):
    _add(layers.global_pool(_name), 7, 25, _name)
for _name in ("LSTM", "GRU", "RNN"):
    _add(layers.recurrent(_name), 7, 21, _name)
for _name in ("Softmax", "LogSoftmax"):
    _add(layers.softmax(_name), 7, 25, _name)
for _name in ("DepthToSpace", "SpaceToDepth"):
    _add(depth(_name), 7, 25, _name)
for _name in ("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"):
    _add(signals.random(_name), 7, 25, _name)
for _name in ("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"):
    _add(layers.losses(_name), 13, 25, _name)
for _first, _last, _make in (
    (7, 25, clip), (10, 25, modulo), (7, 25, integer_division), (7, 25, power), (9, 25, where), (7, 25, top_k),
    (11, 25, scatter_nd), (9, 25, scatter_elements), (24, 25, tensor_scatter), (7, 25, gather),
    (11, 25, gather_elements), (12, 25, gather_nd), (7, 25, slices), (7, 25, pad), (7, 25, concat), (7, 25, split),
    (8, 25, moved), (7, 25, cast),
    (7, 25, layers.convolution), (7, 25, layers.transposed_convolution), (7, 25, layers.matmul), (7, 25, layers.gemm),
    (12, 25, layers.einsum), (17, 25, layers.layer_norm), (23, 25, layers.rms_norm), (7, 25, layers.instance_norm),
    (18, 25, layers.group_norm), (9, 25, layers.batch_norm), (7, 25, layers.lp_norm), (9, 25, layers.mean_variance),
    (7, 25, layers.local_response), (10, 25, layers.resize), (7, 9, layers.upsample), (16, 25, layers.grid_sample),
    (10, 25, layers.roi_align), (7, 21, layers.max_roi_pool), (9, 25, layers.max_unpool), (18, 25, layers.col2im),
    (19, 25, layers.deform_conv), (23, 25, layers.attention), (23, 25, layers.rotary), (10, 25, layers.quantize),
    (11, 25, layers.dynamic_quantize), (11, 25, layers.integer_product), (28, 28, layers.swiglu),
    (10, 25, layers.dropout),
    (17, 25, signals.signal), (11, 25, signals.shaped), (11, 25, signals.range_of), (20, 25, signals.affine_grid),
    (11, 25, signals.determinant), (15, 22, signals.learned), (17, 22, signals.contributed),
):  # fmt: skip
    _add(_make, _first, _last, _make.__name__)
_add(cumulative("CumSum"), 11, 25, "CumSum")
_add(cumulative("CumProd"), 26, 26, "CumProd")
