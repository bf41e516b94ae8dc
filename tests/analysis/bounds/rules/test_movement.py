"""Operators that move, join, choose or sum elements: the bounds of each place against results at corners of boxes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from onnx_ir import DataType

from castsmith.analysis.bounds.interval import ANYTHING, NONE, Interval, UnknownRangeError, collapsed, joined_along
from castsmith.ir.ops.attributes import MisfitError
from tests.analysis.bounds.rules.grids import Array, Operand, Reference, box, ruled, step_of, with_special
from tests.sampling import check_all


@dataclass(frozen=True)
class Case:
    """A node: a tuple stands for a box of that shape, a list for a constant of integers.

    Attributes:
        loose: The views (see `views`) in which the bounds are true, but not the least that hold.
        unknown: Those in which nothing is known.
    """

    op_type: str
    operands: Sequence[tuple[int, ...] | list[Any] | Array | None]
    attributes: dict[str, Any] = field(default_factory=dict[str, Any])
    opset: int = 25
    outputs: int = 1
    loose: str = ""
    unknown: str = ""

    def __str__(self) -> str:
        return f"{self.op_type} {self.operands} {self.attributes} {self.opset}"


def drawn(shape: tuple[int, ...], turn: int) -> Interval:
    """A box with other ends at each place, multiples of a quarter on both sides of 0."""
    rng = np.random.default_rng([turn, *shape])
    ends = np.sort(rng.integers(-8, 13, (2, *shape)), axis=0) / 4
    return box(*ends)


def views(x: Interval) -> Iterator[tuple[str, Interval]]:
    """The box; joined along each axis (j), of unknown length (s); one interval, of known (w) or unknown rank (r)."""
    yield "b", x
    rank = x.low.ndim
    for axis in range(rank):
        joint = joined_along(x, [axis])
        yield f"j{axis}", joint
        yield f"s{axis}", replace(joint, dims=tuple(None if i == axis else dim for i, dim in enumerate(x.dims or ())))
    yield "w", collapsed(x, x.dims)
    yield "r", collapsed(x, None)


_RISING = (
    "Transpose Reshape Flatten Squeeze Unsqueeze Expand Tile Trilu Slice Gather Concat Split Pad Max Mean TopK CumSum "
    "ScatterElements ScatterND MaxPool AveragePool GlobalAveragePool "
    "ReduceMax ReduceMin ReduceSum ReduceMean"
)
"""Operators of which no result falls where an element rises: the two ends of a box are enough."""


def corners(x: Interval, shape: tuple[int, ...], most: int) -> Iterator[Array]:
    """All corners of a box of few elements, and 0 where it is between; of others the two ends."""
    low, high = (np.broadcast_to(each, shape) for each in (x.low, x.high))
    size = low.size
    some = np.stack([low, high, np.clip(0.0, low, high)][: 3 if 3**size <= most else 2])
    if len(some) ** size <= most:
        choices = itertools.product(range(len(some)), repeat=size)
        yield from (np.choose(np.reshape(each, shape), some) for each in choices)
    else:
        yield from (low.copy(), high.copy())


def hulls(
    case: Case, operands: Sequence[Operand], shapes: Sequence[tuple[int, ...]], reference: Reference
) -> list[tuple[Array, Array]]:
    """The least and greatest of each element of the results at the corners."""
    boxes = sum(isinstance(each, Interval) for each in operands)
    most = 1 if case.op_type in _RISING.split() else 81 if boxes == 1 else 16
    choices = [
        list(corners(each, shape, most)) if isinstance(each, Interval) else [each]
        for each, shape in zip(operands, shapes, strict=True)
    ]
    runs = [reference(*arrays) for arrays in itertools.product(*choices)]
    return [(np.fmin.reduce(each), np.fmax.reduce(each)) for each in zip(*runs, strict=True)]


def operands_of(case: Case) -> list[Operand]:
    return [
        None if each is None
        else drawn(each, index) if isinstance(each, tuple)
        else np.asarray(each, np.int64) if isinstance(each, list) else each
        for index, each in enumerate(case.operands)
    ]  # fmt: skip


def judged(case: Case) -> tuple[str, str]:
    """The views in which the bounds are loose, and those in which nothing is known; fails where they are wrong."""
    plain = operands_of(case)
    shapes = [each.low.shape if isinstance(each, Interval) else () for each in plain]
    dims = (None,) * case.outputs
    reference = Reference(step_of(case.op_type, plain, case.attributes, opset=case.opset, dims=dims))
    loose, unknown = list[str](), list[str]()
    for index, x in enumerate(plain):
        if not isinstance(x, Interval):
            continue
        same_ends: dict[bytes, list[tuple[Array, Array]]] = {}  # of the views that differ in dimensions alone
        for name, view in views(x):
            if name == "b" and index:
                continue
            operands = [view if at == index else each for at, each in enumerate(plain)]
            ends = np.stack([np.broadcast_to(end, x.low.shape) for end in (view.low, view.high)])
            expected = same_ends.get(ends.tobytes()) or hulls(case, operands, shapes, reference)
            same_ends[ends.tobytes()] = expected
            label = f"{index or ''}{name}"
            try:
                results = ruled(step_of(case.op_type, operands, case.attributes, opset=case.opset, dims=dims))
            except (UnknownRangeError, MisfitError):
                unknown.append(label)
                continue
            assert len(results) == case.outputs
            if not all(result.bounded and result.size < 1e300 for result in results):
                unknown.append(label)
            for result, (low, high) in zip(results, expected, strict=True):
                compare(name, label, result, low, high, loose)
    return " ".join(dict.fromkeys(loose)), " ".join(dict.fromkeys(unknown))


def compare(name: str, label: str, result: Interval, low: Array, high: Array, loose: list[str]) -> None:
    """Compare the interval of each place with its least and greatest result."""
    if np.isnan(low).any():
        assert result.nan.any(), label
        low, high = (np.where(np.isnan(low), *pair) for pair in ((result.low, low), (result.high, high)))
    assert result.dims is None or len(result.dims) == low.ndim, label
    pairs = zip(result.dims or low.shape, low.shape, strict=True)
    assert all(dim in (None, size) for dim, size in pairs), (label, result.dims, low.shape)
    assert name != "b" or result.dims == low.shape, (label, result.dims, low.shape)
    assert (result.low <= low).all(), (label, result.low, low)
    assert (result.high >= high).all(), (label, result.high, high)
    ends = (result.low, result.high, low, high)
    if name in "rw":
        ends = np.asarray(result.least), np.asarray(result.greatest), low.min(), high.max()
    if not (np.allclose(ends[0], ends[2], 1e-4, 1e-4) and np.allclose(ends[1], ends[3], 1e-4, 1e-4)):
        loose.append(label)


_I = np.int64
_CASES = (
    Case("Transpose", [(2, 3)]),
    Case("Transpose", [(2, 1, 3)], {"perm": [1, 2, 0]}),
    Case("Reshape", [(2, 3), [3, 2]], loose="j0 s0 j1 s1"),
    Case("Reshape", [(2, 3), [-1]], loose="j0 s0 j1 s1"),
    Case("Reshape", [(2, 3), [0, -1, 1]]),
    Case("Reshape", [(2, 6), [2, 2, -1]], loose="j0 s0 s1"),
    Case("Reshape", [(2, 2, 3), [0, -1]], loose="j0 s0 j1 s1 j2 s2"),
    Case("Reshape", [(2, 2, 3), [-1, 3]], loose="j0 s0 j1 s1 j2 s2"),
    Case("Flatten", [(2, 2, 3)], loose="j0 s0 j1 s1 j2 s2"),
    Case("Flatten", [(2, 2, 3)], {"axis": 0}, loose="j0 s0 j1 s1 j2 s2"),
    Case("Flatten", [(2, 2, 3)], {"axis": -1}, loose="j0 s0 j1 s1 j2 s2"),
    Case("Squeeze", [(1, 3, 1)], loose="s0 s2"),
    Case("Squeeze", [(1, 3, 1), [-1]], loose="s2"),
    Case("Squeeze", [(1, 3, 1)], {"axes": [0]}, 11),
    Case("Unsqueeze", [(2, 3), [0, -1]]),
    Case("Unsqueeze", [(2, 3)], {"axes": [1]}, 11),
    Case("Expand", [(3, 1), [2, 1, 4]]),
    Case("Expand", [(3, 1), [1]]),
    Case("Tile", [(2, 3), [1, 2]], loose="b j0 s0"),
    Case("Shape", [(2, 3)], loose="s0 s1 r"),
    Case("Shape", [(2, 3, 4)], {"start": 1, "end": -1}, loose="s1 r"),
    Case("Shape", [(2, 3, 4)], {"start": -2}, loose="s1 s2 r"),
    Case("Size", [(2, 3)], loose="s0 s1 r"),
    Case("ConstantOfShape", [[2, 3]]),
    Case("Trilu", [(3, 3)], loose="b j0 s0 j1 s1"),
    Case("Trilu", [(3, 3)], {"upper": 0}, loose="b j0 s0 j1 s1"),
    Case("Slice", [(3, 4), [1], [3], [1]]),
    Case("Slice", [(3, 4), [-1, 0], [-4, 9], [1, 0], [-2, 2]]),
    Case("Slice", [(3, 4), [5], [-9], [1], [-1]]),
    Case("Slice", [(3, 4), [0, 1], [2, -1]]),
    Case("Slice", [(3, 4)], {"starts": [1], "ends": [3], "axes": [1]}, 9),
    Case("Slice", [(1, 4), [0], [1], [0]]),
    Case("Slice", [(1, 4), [-1], [-9], [0], [-1]]),
    Case("Gather", [(3, 4), [2, 0]]),
    Case("Gather", [(1, 4), [0, -1]]),
    Case("Gather", [(3, 4), np.array([[1, -1]])], {"axis": 1}),
    Case("Gather", [(3, 4), np.array(1)], {"axis": -1}),
    Case("Concat", [(2, 1), (2, 2)], {"axis": 1}, loose="s1 1s1"),
    Case("Concat", [(1, 2), (2, 2)], {"axis": -2}, loose="s0 1s0"),
    Case("Split", [(2, 3), [1, 2]], {"axis": 1}, outputs=2),
    Case("Split", [(4, 2)], {"num_outputs": 2}, outputs=2),
    Case("Split", [(3, 2)], {"num_outputs": 2}, outputs=2),
    Case("Split", [(2, 3)], {"axis": -1, "split": [2, 1]}, 11, 2),
    Case("Split", [(4, 2)], {}, 11, 2),
    Case("Pad", [(2, 3), [0, 1, 0, 2]], loose="b j0 s0 j1 s1"),
    Case("Pad", [(2, 3), [1, 0, 0, 0], np.array(7.0)], loose="b j0 s0 j1 s1"),
    Case("Pad", [(2, 3), [1, 1], np.array(-7.0), [-1]], loose="b j0 s0 j1 s1"),
    Case("Pad", [(2, 3), [0, 1, 0, 2]], {"mode": "edge"}, loose="b j0 s0"),
    Case("Pad", [(2, 3), [0, 0, 0, 0]]),
    Case("Pad", [(2, 3)], {"pads": [1, 0, 0, 0], "value": 7.0}, 10, loose="b j0 s0 j1 s1"),
    Case("ScatterElements", [(2, 3), np.array([[0, 1, 0]]), (1, 3)], loose="b j0 s0 j1 s1 2j0 2s0 2j1 2s1"),
    Case("ScatterND", [(2, 3), np.array([[1]]), (1, 3)], loose="b j0 s0 j1 s1 2j0 2s0 2j1 2s1 2w 2r"),
    Case("OneHot", [[0, 2], np.array(3), np.array([-1.0, 2.0])]),
    Case("TopK", [(2, 3), [2]], {}, outputs=2, loose="b j0 s0 j1 s1 w r", unknown="b j0 s0 j1 s1 w r"),
    Case("Where", [np.array([[True, False, True]]), (1, 3), (1, 3)], loose="2r"),
    Case("Clip", [(2, 2), np.array(-0.5), np.array(1.0)]),
    Case("Clip", [(2, 2), None, np.array(1.0)]),
    Case("Clip", [(2, 2), (), None]),
    Case("Clip", [(2, 2)], {"min": -0.5, "max": 1.0}, 10),
    Case("Range", [np.array(3), np.array(12), np.array(4)]),
    Case("Max", [(2, 2), (1, 2)]),
    Case("Mean", [(2, 2), (2,)]),
    Case("Mul", [(2, 2), (2,)]),
    Case("Sub", [(1, 2), (2, 1)]),
    Case("ReduceMax", [(2, 2), [1]]),
    Case("ReduceMax", [(1, 3), [-2]], {"keepdims": 0}),
    Case("ReduceMax", [(2, 2)], {"keepdims": 0}),
    Case("ReduceMax", [(2, 2)], {"axes": [0]}, 11),
    Case("ReduceMin", [(2, 2), [1]]),
    Case("ReduceMin", [(1, 3), [-2]], {"keepdims": 0}),
    Case("ReduceMin", [(2, 2)], {"keepdims": 0}),
    Case("ReduceMin", [(2, 2)], {"axes": [0]}, 11),
    Case("ReduceSum", [(2, 2), [1]], loose="s1 r", unknown="r"),
    Case("ReduceSum", [(1, 3), [-2]], {"keepdims": 0}, loose="s0 r", unknown="r"),
    Case("ReduceSum", [(2, 2)], {"keepdims": 0}, loose="s0 s1 r", unknown="r"),
    Case("ReduceSum", [(2, 2)], {"axes": [0]}, 11, loose="s0 r", unknown="r"),
    Case("ReduceL1", [(2, 2), [1]], loose="s1 r", unknown="r"),
    Case("ReduceL1", [(1, 3), [-2]], {"keepdims": 0}, loose="s0 r", unknown="r"),
    Case("ReduceL1", [(2, 2)], {"keepdims": 0}, loose="s0 s1 r", unknown="r"),
    Case("ReduceL1", [(2, 2)], {"axes": [0]}, 11, loose="s0 r", unknown="r"),
    Case("ReduceL2", [(2, 2), [1]], loose="s1 r", unknown="r"),
    Case("ReduceL2", [(1, 3), [-2]], {"keepdims": 0}, loose="s0 r", unknown="r"),
    Case("ReduceL2", [(2, 2)], {"keepdims": 0}, loose="s0 s1 r", unknown="r"),
    Case("ReduceL2", [(2, 2)], {"axes": [0]}, 11, loose="s0 r", unknown="r"),
    Case("ReduceSumSquare", [(2, 2), [1]], loose="s1 r", unknown="r"),
    Case("ReduceSumSquare", [(1, 3), [-2]], {"keepdims": 0}, loose="s0 r", unknown="r"),
    Case("ReduceSumSquare", [(2, 2)], {"keepdims": 0}, loose="s0 s1 r", unknown="r"),
    Case("ReduceSumSquare", [(2, 2)], {"axes": [0]}, 11, loose="s0 r", unknown="r"),
    Case("ReduceMean", [(2, 2), [1]], loose="b j0 s0"),
    Case("ReduceMean", [(1, 3), [-2]], {"keepdims": 0}),
    Case("ReduceMean", [(2, 2)], {"keepdims": 0}, loose="b j0 s0 j1 s1 r", unknown="r"),
    Case("ReduceMean", [(2, 2)], {"axes": [0]}, 11, loose="b j1 s1"),
    Case("ReduceSum", [(2, 2), np.array([], _I)], {"noop_with_empty_axes": 1}, unknown="b j0 s0 j1 s1 w r"),
    Case("ReduceMax", [(2, 2)], {"noop_with_empty_axes": 1}, unknown="b j0 s0 j1 s1 w r"),
    Case("CumSum", [(2, 3), np.array(1)], loose="b j0 s0 j1 s1 r", unknown="r"),
    Case("CumSum", [(2, 3), np.array(-2)], {"exclusive": 1}, loose="b j0 s0 j1 s1 w r", unknown="r"),
    Case("GlobalAveragePool", [(1, 2, 3)], loose="b j0 s0 j1 s1 r", unknown="r"),
    Case("MaxPool", [(1, 2, 3)], {"kernel_shape": [2]}, loose="b j0 s0 j1 s1"),
    Case("AveragePool", [(1, 2, 3)], {"kernel_shape": [2]}, loose="b j0 s0 j1 s1"),
    Case("AveragePool", [(1, 1, 3)], {"kernel_shape": [2], "pads": [1, 1], "count_include_pad": 1},
         loose="b j0 s0 j1 s1 j2 s2"),
    Case("MatMul", [(2, 2), np.array([[1.0, -2.0, 0.5], [3.0, 0.25, -1.0]])]),
    Case("MatMul", [np.array([[1.0, -2.0], [3.0, 0.25], [-1.0, 2.0]]), (2, 3)], loose="1j0 1s0 1j1 1s1 1w 1r",
         unknown="1r"),
    Case("MatMul", [(1, 2), (2, 2)], loose="b j0 s0 j1 s1 w r 1j0 1s0 1r", unknown="r 1r"),
    Case("MatMul", [(2,), (2, 2)], loose="b j0 s0 w r 1j0 1s0 1r", unknown="r 1r"),
    Case("MatMul", [(1, 2), (2,)], loose="r 1r", unknown="r 1r"),
    Case("MatMul", [(2,), (2,)], loose="r 1r", unknown="r 1r"),
    Case("MatMul", [(2, 1, 2), np.array([[1.0, -2.0], [3.0, 0.25]])]),
    Case("Gemm", [(2, 2), np.array([[1.0, -2.0], [3.0, 0.25]]), (2,)], {"alpha": -0.5, "beta": 2.0}),
    Case("Gemm", [(2, 1), np.array([[1.0, -2.0], [3.0, 0.25]])], {"transA": 1, "transB": 1}),
    Case("Gemm", [(1, 2), (2, 2)], {"transB": 1}, loose="b j0 s0 j1 s1 w r 1j1 1s1"),
    Case("Einsum", [(1, 2), (2,)], {"equation": "ij,j->i"}, loose="b j0 s0 j1 s1 w r 1j0 1s0 1w 1r", unknown="r 1r"),
    Case("Einsum", [(2,), (2,)], {"equation": "i, i"}, loose="b j0 s0 w r 1j0 1s0 1w 1r", unknown="r 1r"),
    Case("Conv", [(1, 2, 2), np.array([[[1.0], [-2.0]], [[0.5], [3.0]]])], loose="b j0 s0 j1 s1"),
    Case("Conv", [(1, 2, 2), np.array([[[1.0]], [[-2.0]]])], {"group": 2}, loose="b j0 s0 j1 s1"),
    Case("Conv", [(1, 1, 3), np.array([[[1.0, -2.0]]]), (1,)], {"pads": [1, 0]},
         loose="b j0 s0 j1 s1 j2 s2 2j0 2s0 2w 2r"),
    Case("Conv", [(1, 1, 2), (1, 1, 2)], loose="b j0 s0 j1 s1 j2 s2 w r 1j0 1s0 1j1 1s1 1j2 1s2 1w 1r",
         unknown="r 1s1 1s2 1r"),
    Case("ConvTranspose", [(1, 1, 2), np.array([[[1.0, -2.0, 4.0]]]), np.array([0.5])], {"strides": [2]},
         loose="b j0 s0 j1 s1 j2 s2 w r"),
    Case("ConvTranspose", [(1, 2, 2), np.array([[[1.0]], [[-2.0]]])], {"group": 2}, loose="b j0 s0 j1 s1"),
)  # fmt: skip


_HEARD = {"Shape": "", "Size": ""}
"""What of the operands reaches the result: n, i (it may be NaN or infinite), a, b (assumes, blame)."""


def facts_are_heard(case: Case) -> None:
    plain = operands_of(case)
    dims = (None,) * case.outputs
    if case.unknown.startswith("b"):
        return
    found = ruled(step_of(case.op_type, plain, case.attributes, opset=case.opset, dims=dims))[0]
    assert (found.dtype, found.assumes, found.blame) == (DataType.DOUBLE, frozenset(), frozenset())
    assert found.bits == NONE
    for index, x in enumerate(plain):
        if not isinstance(x, Interval):
            continue
        told = with_special(x, ANYTHING, assumes=frozenset({"a"}), blame=frozenset({"b"}))
        operands = [told if at == index else each for at, each in enumerate(plain)]
        found = ruled(step_of(case.op_type, operands, case.attributes, opset=case.opset, dims=dims))[0]
        special = "n" * bool(found.nan.any()) + "i" * bool(found.infinite.any())
        heard = "".join(sorted({*found.assumes, *found.blame, *special}))
        expected = _HEARD.get(case.op_type, "abin")
        assert heard in ((expected, "abn") if case.op_type == "Clip" else (expected,)), index


def dimensions_are_completed(case: Case) -> None:
    """By those that are declared."""
    plain = operands_of(case)
    results = Reference(step_of(case.op_type, plain, case.attributes, opset=case.opset, dims=(None,) * case.outputs))(
        *(each.low if isinstance(each, Interval) else each for each in plain)
    )
    declared = [each.shape for each in results]
    unknown = case.unknown.split()
    for name, view in views(plain[0]) if isinstance(plain[0], Interval) else ():
        if name[0] in "sr" and name not in unknown:
            step = step_of(case.op_type, [view, *plain[1:]], case.attributes, opset=case.opset, dims=declared)
            assert [each.dims for each in ruled(step)] == declared, name


def bounds_hold(case: Case) -> None:
    assert judged(case) == (case.loose, case.unknown)


def test_bounds_of_each_place() -> None:
    check_all(bounds_hold, _CASES)


def test_facts_of_the_operands_are_those_of_the_result() -> None:
    check_all(facts_are_heard, _CASES)


def test_declared_dimensions_complete_what_a_rule_finds() -> None:
    check_all(dimensions_are_completed, _CASES)
