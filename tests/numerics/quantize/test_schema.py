"""What QuantizeLinear and DequantizeLinear take at each opset, and what is said of anything else."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import onnx.defs
import pytest
from onnx_ir import DataType

from castsmith.numerics.cast.convert import cast
from castsmith.numerics.errors import CastsmithError
from castsmith.numerics.quantize.linear import dequantize_linear, quantize_linear
from castsmith.numerics.quantize.schema import (
    Settings,
    dequantize_operands,
    division_type,
    quantize_operands,
    require_attributes,
    require_opset,
    require_type,
)

Q, DQ = "QuantizeLinear", "DequantizeLinear"
NOT_DEFAULT: dict[str, Any] = {
    "axis": 0,
    "block_size": 2,
    "saturate": False,
    "output_dtype": "int8",
    "precision": "float",
}
SINCE: dict[str, dict[str, int]] = {
    op: {
        name: min(
            s.since_version for s in onnx.defs.get_all_schemas_with_history() if s.name == op and name in s.attributes
        )
        for name in onnx.defs.get_schema(op, 25).attributes
    }
    for op in (Q, DQ)
}
"""The opset that gave the operator each of its attributes, by the schemas."""


@pytest.mark.parametrize("op", [Q, DQ])
@pytest.mark.parametrize("name", NOT_DEFAULT)
def test_attributes_that_an_opset_lacks(op: str, name: str) -> None:
    settings = {name: NOT_DEFAULT[name]}
    first = SINCE[op].get(name)
    for opset in (10, 12, 13, 18, 19, 20, 21, 22, 23, 28):
        require_attributes(op, Settings(opset))
        if first is not None and opset >= first:
            require_attributes(op, Settings(opset, **settings))
            continue
        told = f"{op} has no {name}."
        if first is not None:
            told = f"{op} has no {name} at opset {opset}; it needs opset {first} or newer."
        with pytest.raises(CastsmithError, match=f"^{re.escape(told)}$"):
            require_attributes(op, Settings(opset, **settings))


def test_opsets() -> None:
    for opset in (10, 28):
        require_opset(Q, opset)
    for opset in (9, 29, 0, -1):
        with pytest.raises(CastsmithError, match=f"^unsupported opset {opset} for {Q}; supported are 10 to 28\\.$"):
            require_opset(Q, opset)
    with pytest.raises(TypeError, match=r"^opset must be an integer, not a value of type float\.$"):
        require_opset(Q, 21.0)  # pyright: ignore[reportArgumentType]


def test_types_that_an_opset_lacks() -> None:
    require_type(Q, "y", DataType.INT16, 21)
    with pytest.raises(
        CastsmithError, match=f"^{Q} does not support int16 as y at opset 20; it needs opset 21 or newer"
    ):
        require_type(Q, "y", DataType.INT16, 20)
    with pytest.raises(CastsmithError, match=rf"^{DQ} does not support double as x_scale\.$"):
        require_type(DQ, "x_scale", DataType.DOUBLE, 28)


_F, _H, _D, _I, _E = (DataType[name] for name in ("FLOAT", "FLOAT16", "DOUBLE", "INT32", "FLOAT8E8M0"))


@pytest.mark.parametrize(
    ("x", "scale", "precision", "expected"),
    [
        (_H, _F, None, _F), (_F, _H, None, _H), (_I, _H, None, _H), (_F, _I, None, _F), (_H, _I, None, _H),
        (_I, _I, None, _D), (_H, _E, None, _H), (_I, _E, None, _F), (_H, _F, _D, _D), (_I, _I, _H, _H),
    ],
)  # fmt: skip
def test_the_type_of_the_division(x: DataType, scale: DataType, precision: DataType, expected: DataType) -> None:
    assert division_type(x, scale, precision) is expected


def test_a_precision_in_which_nothing_is_divided() -> None:
    told = r"^invalid precision int32 of the division; expected float16, bfloat16, float, double\.$"
    with pytest.raises(CastsmithError, match=told):
        division_type(_F, _F, _I)


def operand(name: str, *shape: int) -> Any:
    return cast(np.ones(shape, np.float32), name)


REFUSED: list[tuple[Any, tuple[Any, ...], dict[str, Any], str]] = [
    (quantize_linear, (operand("float16"), operand("float")), {"opset": 19},
     f"{Q} at opset 19 requires x and y_scale of one type, not float16 and float."),
    (quantize_linear, (operand("float16"), operand("float")), {"opset": 22},
     f"{Q} at opset 22 requires x and y_scale of one type, not float16 and float."),
    (quantize_linear, (operand("float"), operand("float"), operand("int8")), {"output_dtype": "uint8"},
     f"the zero point of a {Q} has the quantized type; this one is int8 and not uint8."),
    (dequantize_linear, (operand("int8"), operand("float"), operand("uint8")), {},
     f"the zero point of a {DQ} has the quantized type; this one is uint8 and not int8."),
    (dequantize_linear, (operand("int8"), operand("float8e8m0")), {},
     f"{DQ} does not support float8e8m0 as y."),
    (quantize_linear, (operand("double"), operand("float")), {}, f"{Q} does not support double as x."),
    (quantize_linear, (operand("float"), operand("double")), {}, f"{Q} does not support double as y_scale."),
    (dequantize_linear, (operand("float"), operand("float")), {}, f"{DQ} does not support float as x."),
    (quantize_linear, (operand("float"), operand("float")), {"output_dtype": "int32"},
     f"{Q} does not support int32 as y."),
    *((function, (operand(of), operand("float")), {"opset": 9},
       f"unsupported opset 9 for {name}; supported are 10 to 28.")
      for function, of, name in ((quantize_linear, "float", Q), (dequantize_linear, "int8", DQ))),
    *((function, (operand(of), operand("float")), {"opset": 12, "axis": 0},
       f"{name} has no axis at opset 12; it needs opset 13 or newer.")
      for function, of, name in ((quantize_linear, "float", Q), (dequantize_linear, "int8", DQ))),
    *((function, (operand(of, 2, 3), operand("float", 2)), {},
       "a scale of shape (2,) fits neither a tensor of shape (2, 3) along axis 1 nor its blocks of size 0.")
      for function, of in ((quantize_linear, "float"), (dequantize_linear, "int8"))),
]  # fmt: skip


@pytest.mark.parametrize(("function", "operands", "settings", "told"), REFUSED)
def test_operands_that_do_not_fit(
    function: Any, operands: tuple[Any, ...], settings: dict[str, Any], told: str
) -> None:
    with pytest.raises(CastsmithError) as raised:
        function(*operands, **settings)
    assert str(raised.value) == told


def test_operands_that_fit() -> None:
    for opset in (23, 28):
        assert quantize_linear(operand("float16"), operand("float"), opset=opset) == 1
    for opset in (19, 22):
        assert quantize_linear(operand("float16"), operand("float16"), opset=opset) == 1
    assert quantize_linear(operand("int32"), operand("float"), opset=18) == 1
    assert quantize_linear(operand("float"), operand("float"), operand("int8"), output_dtype="int8").dtype == np.int8
    stated = quantize_operands(operand("float"), operand("float"), None, Settings(precision="float16"))
    assert (stated.compute, stated.stated, stated.output) == (_H, True, DataType.UINT8)
    assert not quantize_operands(operand("float"), operand("float"), None, Settings()).stated
    back = dequantize_operands(operand("int8"), operand("float"), None, Settings(output_dtype="float16"))
    assert (back.compute, back.stated, back.output) == (_H, True, _H)
    plain = dequantize_operands(operand("int8"), operand("float16"), None, Settings())
    assert (plain.compute, plain.stated, plain.output) == (_H, False, _H)


def test_each_setting_is_passed_on() -> None:
    """Each alone changes the result."""
    x, scale = np.array([[1.5, 500.0], [3.0, 0.3]], np.float32), np.array([1, 2], np.float32)
    plain = quantize_linear(x, scale, output_dtype="float8e4m3fn")
    for changed in (
        quantize_linear(x, scale, output_dtype="float8e4m3fn", axis=0),
        quantize_linear(x, np.array([[1], [2]], np.float32), output_dtype="float8e4m3fn", block_size=2),
        quantize_linear(x, scale[:1], output_dtype="float8e4m3fn", saturate=False),
        quantize_linear(x, scale, output_dtype="int8"),
    ):
        assert changed.tobytes() != plain.tobytes()
    third = np.float32(0.3)
    assert (
        quantize_linear(x, third, output_dtype="int16", precision="bfloat16").tolist()
        != quantize_linear(x, third, output_dtype="int16").tolist()
    )
    codes = np.array([[1, 2], [3, 4]], np.int8)
    assert dequantize_linear(codes, scale).tolist() == [[1, 4], [3, 8]]
    assert dequantize_linear(codes, scale, axis=0).tolist() == [[1, 2], [6, 8]]
    assert dequantize_linear(codes, np.array([[1], [2]], np.float32), block_size=2).tolist() == [[1, 2], [6, 8]]
    assert dequantize_linear(codes, scale, output_dtype="float16").dtype == np.float16
