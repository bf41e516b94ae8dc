"""Values of every class of a type."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx.parser
import onnx_ir
import pytest
from onnx_ir import DataType

from castsmith.numerics.critical import critical_values, every_value
from castsmith.verification.inputs.drawn import MILD_SETS
from castsmith.verification.inputs.reach import Needs
from castsmith.verification.inputs.values import (
    classes_of_values,
    conversion_targets,
    neighbourhood,
    texts_in,
    within,
)
from tests.verification.inputs.test_drawn import made, maker


def test_kinds_of_sets() -> None:
    finite = made("float[640] x", "finite", 1)
    assert np.isfinite(finite).all()
    assert np.abs(finite).max() < 30
    sparse = made("float[640] x", "sparse", 1)
    assert 0 < (np.abs(sparse) > 30).sum() + np.isnan(sparse).sum() <= 640 // 32
    mild = made("int32[640] x", "mild", 1, output="int32[N] y")
    assert set(mild.tolist()) == {0, 1}
    last = made("int32[640] x", "mild", MILD_SETS, output="int32[N] y")
    assert set(last.tolist()) == {1, 2}
    whole = made("int32[640] x", "finite", 1, output="int32[N] y")
    assert set(whole.tolist()) == set(range(17))
    uniform = made("float[5] x", "uniform", 1)
    assert len(set(uniform.tolist())) == 1


def test_a_wanted_number_and_its_neighbours_come_first() -> None:
    inputs = maker("float[64] x")
    inputs.needs["x"].wanted[0.3] = None
    fed = np.asarray(inputs.make("adversarial", 1)["x"])
    near = np.float32(0.3)
    assert {float(near), float(np.nextafter(near, np.float32(1))), float(np.nextafter(near, np.float32(0)))} <= set(
        fed.tolist()
    )


def _codes(array: Any) -> set[int]:
    return {*np.asarray(array).view(f"u{array.itemsize}").tolist()}


@pytest.mark.parametrize(
    ("dtype", "targets", "expected"),
    [
        (DataType.INT16, (DataType.INT8,),
         {*range(-16, 17), -32768, -32767, 32766, 32767, 127, 128, -128, -129}),
        (DataType.UINT16, (DataType.INT8, DataType.FLOAT), {*range(17), 65534, 65535, 127, 128}),
        (DataType.INT64, (DataType.INT32,),
         {*range(-16, 17), -(2**63), 1 - 2**63, 2**63 - 2, 2**63 - 1, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1}),
        (DataType.INT16, (DataType.INT32,), {*range(-16, 17), -32768, -32767, 32766, 32767}),
    ],
)  # fmt: skip
def test_an_integer_of_every_class(dtype: DataType, targets: tuple[DataType, ...], expected: set[int]) -> None:
    required, critical = classes_of_values(dtype, targets)
    assert len(required) == len(expected)
    assert {*required.tolist()} == expected
    assert required.dtype == critical.dtype == dtype.numpy()
    every = critical_values(dtype, *targets).tolist()
    assert {*critical.tolist()} <= {*every}
    assert len(critical) == min(len(every), 4096)


_FIRST = (0.5, 1.5, 2.5, 3.5, 0.1, 1e-9, 100.0, 255.5, 1e5, 1e10, 448.0, 464.0, 480.0, 61440.0)


def test_a_float_of_every_class() -> None:
    """Its ends, small numbers, and where a narrower type rounds up or down, ends, or begins."""
    whole = [*range(17), *_FIRST, math.inf, math.nan]
    own = [2.0**-149, 2.0**-126 - 2.0**-149, 2.0**-126, float(np.finfo(np.float32).max)]
    half = [1 + 2.0**-11, 1 + 1.5 * 2.0**-10, 65504 * (1 + 2.0**-12), 2.0**-25, 65504.0]
    half += [1 + 2.0**-11 + 2.0**-23, 1.5 * 2.0**-24]
    for targets, more in (((DataType.FLOAT16,), half), ((DataType.INT8,), [127, 128, 127.5]), ((DataType.DOUBLE,), [])):
        numbers = np.array([*whole, *own, *more], np.float32)
        required, pool = classes_of_values(DataType.FLOAT, targets)
        expected = _codes(np.concatenate([numbers, -numbers[~np.isnan(numbers)]]))
        assert _codes(required) == expected
        assert len(pool) == min(len(critical_values(DataType.FLOAT, *targets)), 4096) + 256
    wide, _ = classes_of_values(DataType.DOUBLE, (DataType.INT8,))
    least = [float(np.nextafter(0, 1)), 2.0**-1022, float(np.finfo(np.float64).max)]
    assert {*least, 127.5, math.inf, 16.0} <= {*wide.tolist()}
    assert any(0 < number < 2.0**-1022 and number > 1e-309 for number in wide.tolist())
    spread = np.abs(classes_of_values(DataType.FLOAT, (DataType.DOUBLE,))[1][-256:].astype(np.float64))
    assert ((spread >= 2.0**-149) & (spread <= float(np.finfo(np.float32).max))).all()
    assert (np.histogram(np.log2(spread), bins=4, range=(-149, 128))[0] > 30).all()


def test_every_value_of_a_byte() -> None:
    for dtype in (DataType.INT8, DataType.FLOAT8E4M3FN, DataType.INT4):
        required, pool = classes_of_values(dtype, ())
        assert _codes(required) == _codes(every_value(dtype))
        assert required is pool


def test_numbers_with_their_neighbours() -> None:
    assert neighbourhood([5, 127, -128, math.inf, math.nan, "text"], DataType.INT8).tolist() == [
        *(5, 6, 4, 127, 126, -128, -127)
    ]
    one = np.float32(1)
    near = {1.0, float(np.nextafter(one, 2)), float(np.nextafter(one, 0)), math.inf, float(np.finfo(np.float32).max)}
    assert {*neighbourhood([1.0, math.inf, "text"], DataType.FLOAT).tolist()} == near  # after infinity comes NaN
    assert neighbourhood([], DataType.FLOAT).size == neighbourhood(["a"], DataType.INT8).size == 0


def test_integers_within_bounds() -> None:
    few = within(np.array([9], np.int64), Needs(low=-2, high=3), DataType.INT64)
    assert sorted(few.tolist()) == [-2, -1, 0, 1, 2, 3]
    assert sorted(within(np.array([], np.int8), Needs(low=125), DataType.INT8).tolist()) == [125, 126, 127]
    assert sorted(within(np.array([], np.uint8), Needs(high=2), DataType.UINT8).tolist()) == [0, 1, 2]
    assert len(within(np.array([], np.int32), Needs(low=0, high=2047), DataType.INT32)) == 2048
    many = within(np.array([-1, 7, 5000, 2048], np.int32), Needs(low=0, high=2048), DataType.INT32)
    assert {*many.tolist()} == {7, *range(0, 2049, 8)}
    assert within(np.array([], np.uint64), Needs(2.0**63, 2.0**63), DataType.UINT64).tolist() == [2**63]
    wide = within(np.array([3], np.uint64), Needs(low=2.0**63), DataType.UINT64)
    assert (wide.dtype, int(wide.min()), int(wide.max())) == (np.uint64, 2**63, 2**64 - 1)


_MODEL = """<ir_version: 10, opset_import: ["" : 21]> g (float[2] x, string[2] s)
    => (float16[2] y, bool[2] b, int32[2] v) <int8 z = {1}, string[2] t = {"one", "two"}> { y = Cast <to = 10> (x)
    q = QuantizeLinear (x, k, z)
    k = Constant <value_float = 1.0> () b = Equal (s, t) c = Cast <to = 17> (x) i = Cast <to = 8> (x)
    v = Cast <to = 6> (c) w = Sequence (x) r = TopK <to = 1.5> (x, z) }"""


def test_types_that_a_model_converts_to_and_texts_in_it() -> None:
    proto = onnx.parser.parse_model(_MODEL)
    for value in proto.graph.input:
        assert value.name in ("x", "s")
    model = onnx_ir.from_proto(proto)
    kinds = [DataType.INT8, DataType.INT32, DataType.FLOAT16, DataType.FLOAT8E4M3FN]
    assert {*conversion_targets([model])} >= {*kinds}
    assert DataType.BOOL not in conversion_targets([model])
    assert DataType.STRING not in conversion_targets([model])
    assert DataType.DOUBLE not in conversion_targets([model])
    assert list(conversion_targets([model])) == sorted(conversion_targets([model]), key=int)
    assert conversion_targets([]) == (DataType.INT32, DataType.FLOAT16)
    assert list(texts_in([model, model])) == ["one", "two"] * 2
