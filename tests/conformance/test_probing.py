"""How what a probe finds is written."""

from __future__ import annotations

from onnx_ir import DataType

from castsmith.conformance.probing import grouped


def test_types_with_the_same_kernels_are_one_entry_in_whatever_order_they_were_found() -> None:
    rows = {
        DataType.FLOAT: {"Add": 7, "Mul": 1},
        DataType.INT8: {"Add": 7},
        DataType.DOUBLE: {"Mul": 1, "Add": 7},
        DataType.INT16: {"Add": 14},
    }
    assert list(grouped(rows)) == [
        {"types": ["float", "double"], "operators": {"Add": 7, "Mul": 1}},
        {"types": ["int8"], "operators": {"Add": 7}},
        {"types": ["int16"], "operators": {"Add": 14}},
    ]
