"""Questions to a target: kernels with and without a fallback, dropped operators, hazards, operands of one type."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx_ir
import pytest
from onnx_ir import DataType

from castsmith.numerics.types import ELEMENT_TYPES
from castsmith.targets.kernels import (
    broken_block_rule,
    operands_of_several_types,
    takes_identity,
    takes_operator,
    takes_type,
    varied_input,
)
from castsmith.targets.statements import TargetError
from castsmith.targets.target import (
    TARGETS_FOLDER,
    Target,
    _fit,  # pyright: ignore[reportPrivateUsage]
    load_target,
)

_CPU = load_target("onnxruntime-cpu")
_F, _H, _F8, _U8 = DataType.FLOAT, DataType.FLOAT16, DataType.FLOAT8E4M3FN, DataType.UINT8


def target(*, lacks: frozenset[DataType] = frozenset({DataType.FLOAT8E4M3FN}), **given: Any) -> Target:
    """A target with all types but some, and the operators Add, Mul, Identity and Cast of float and float16."""
    kernels = {_F: {"Add": 1, "Mul": 7, "Identity": 1, "Cast": 1}, _H: {"Identity": 13, "Cast": 13}}
    probed = frozenset(("Add", "Mul", "Identity", "Cast"))
    fields = {"name": "t", "kernels": kernels, "probed": probed, "types": ELEMENT_TYPES.keys() - lacks, "unknown": ()}
    return replace(_CPU, **{**fields, "dropped": {}, **given})


@pytest.mark.parametrize(
    ("op_type", "dtype", "opset", "expected"),
    [
        ("Mul", _F, 7, True), ("Mul", _F, 6, False), ("Add", _H, 21, False), ("Identity", _H, 13, True),
        ("Identity", _H, 12, False), ("Add", _F8, 21, False), ("Neg", _F, 21, False),
    ],
)  # fmt: skip
def test_kernels(op_type: str, dtype: DataType, opset: int, expected: bool) -> None:
    assert takes_operator(op_type, dtype, opset, target()) is expected


def test_operators_that_were_not_probed() -> None:
    """A type with arithmetic is taken by operators that were not probed; `takes_operator` asks for more."""
    found = target()
    assert (found.has_kernel("Neg", _F, 21), found.has_kernel("Neg", _H, 21)) == (True, False)
    assert found.has_kernel("Neg", DataType.INT32, 21)  # no row: nothing is known against it
    assert not target(probed=frozenset[str]()).has_kernel("Neg", _F, 21)
    assert not takes_operator("Neg", DataType.INT32, 21, found)
    assert takes_operator("Neg", DataType.INT32, 21, target(probed=frozenset[str]()))


def test_older_forms_than_were_probed_count_as_supported() -> None:
    kernels = {_F: {"Add": 14, "Einsum": 12}, _U8: {"Einsum": 12}}
    found = target(kernels=kernels, probed=frozenset(("Add", "Einsum")), probed_from=17)
    assert [found.has_kernel("Add", _F, opset) for opset in (7, 13, 14, 17)] == [True] * 4
    newer = target(kernels={_F: {"Add": 18}}, probed=frozenset(("Add",)), probed_from=17)
    assert [newer.has_kernel("Add", _F, opset) for opset in (7, 16, 17, 18)] == [True, True, False, True]
    assert not found.has_kernel("Add", _U8, 7)
    assert not found.has_kernel("Einsum", _F, 11)  # which the standard has from opset 12 on
    assert not target(kernels=kernels).has_kernel("Add", _F, 7)


def test_a_target_of_unknown_kernels_has_those_of_the_default() -> None:
    found = target(unknown=("kernels",), kernels={}, lacks=frozenset[DataType]())
    assert takes_operator("Add", _F, 21, found)
    assert takes_operator("Neg", _F, 21, found)
    assert not takes_operator("Identity", _F8, 21, found)
    assert not found.has_kernel("Identity", _F8, 21)
    assert takes_operator("Add", _H, 21, found) is takes_operator("Add", _H, 21, None)
    assert not takes_operator("Add", _F, 21, replace(found, lacks=frozenset({_F})))


def test_a_target_of_unknown_kernels_with_some_rows() -> None:
    """They decide for their types."""
    found = target(
        unknown=("kernels",), kernels={_H: {"Add": 14}}, probed=frozenset[str](), lacks=frozenset[DataType]()
    )
    assert [takes_operator("Add", _H, opset, found) for opset in (13, 14)] == [False, True]
    assert not takes_operator("Add", DataType.BFLOAT16, 21, found)  # nor does the default take it
    assert not takes_operator("Add", DataType.BFLOAT16, 21, None)


def test_an_index_goes_by_the_schema_whatever_its_row() -> None:
    found = target(kernels={_F: {"Gather": 1}, DataType.INT64: {"Add": 1}}, probed=frozenset(("Gather", "Add")))
    assert takes_type(node_of("Gather", _F, DataType.INT64), 1, DataType.INT64, {"": 13}, found)
    assert not takes_type(node_of("Gather", _F, DataType.INT64), 0, DataType.INT64, {"": 13}, found)
    scaler = node_of("Scaler", _F, domain="ai.onnx.ml")
    assert not takes_type(scaler, 0, _F, {"": 13, "ai.onnx.ml": 1}, target(kernels={}, probed=frozenset[str]()))
    assert takes_type(node_of("Gather", _F, DataType.INT64), 1, DataType.INT64, {"": 13}, None)
    assert takes_type(node_of("OneHot", DataType.INT64), 0, DataType.INT64, {"": 13}, target())  # too few operands


def test_an_identity_of_a_type() -> None:
    assert takes_identity(_H, {"": 13}, target())
    assert not takes_identity(_H, {"": 12}, target())
    assert takes_identity(_F8, {"": 19}, target())  # lacked entirely: lowered later
    assert not takes_identity(_F8, {"": 18}, target())  # not by the schema
    assert not takes_identity(DataType.INT32, {"": 19}, target(kernels={DataType.INT32: {"Add": 1}}))
    assert not takes_identity(_F, {}, target())
    assert takes_identity(_F, {"": 19}, None)


def node_of(op_type: str, *types: DataType | None, domain: str = "") -> onnx_ir.Node:
    values = [
        onnx_ir.Value(name=f"x{i}", type=None if t is None else onnx_ir.TensorType(t)) for i, t in enumerate(types)
    ]
    return onnx_ir.Node(domain, op_type, values, num_outputs=1)


@pytest.mark.parametrize(
    ("op_type", "index", "dtype", "opset", "expected"),
    [
        ("Add", 0, _F, 14, True), ("Add", 1, _F, 14, True), ("Add", 0, _H, 14, False), ("Add", 2, _F, 14, False),
        ("Add", 0, DataType.STRING, 14, False), ("Gather", 1, DataType.INT64, 13, True),
        ("Gather", 1, DataType.INT32, 13, False), ("Gather", 1, _F, 13, False), ("Unknown", 0, _F, 13, False),
    ],
)  # fmt: skip
def test_types_of_operands(op_type: str, index: int, dtype: DataType, opset: int, expected: bool) -> None:
    found = target(lacks=frozenset({_F8, DataType.INT32}), probed=frozenset(("Add", "Mul", "Gather")))
    assert takes_type(node_of(op_type, _F, _F), index, dtype, {"": opset}, found) is expected
    assert not takes_type(node_of(op_type, _F, _F, domain="f"), index, dtype, {"": opset, "f": 1}, found)
    assert not takes_type(node_of(op_type, _F, _F), index, dtype, {}, found)


@pytest.mark.parametrize(
    ("op_type", "types", "expected"),
    [
        ("Attention", (_F, _H, _F), {0: _F, 1: _H, 2: _F}),
        ("Attention", (_F, _F, _F), {}),
        ("Attention", (_F, None, _F), {}),
        ("Attention", (_F, _H, _F, DataType.BOOL), {0: _F, 1: _H, 2: _F}),
        ("Attention", (_F, _F, _F, _H), {0: _F, 1: _F, 2: _F, 3: _H}),
        ("Attention", (_F, _F, _F, None, None, None, DataType.INT64), {}),  # nonpad_kv_seqlen
        ("Attention", (_F,) * 9, {}),  # more operands than it has
        ("Mul", (_F, _H), {}),
    ],
)
def test_operands_that_must_have_one_type(op_type: str, types: tuple[Any, ...], expected: dict[int, Any]) -> None:
    def type_of(value: onnx_ir.Value | None) -> DataType | None:
        return None if value is None else value.dtype

    found = target(one_type={"Attention": ""})
    assert operands_of_several_types(node_of(op_type, *types), type_of, {"": 24}, found) == expected
    assert operands_of_several_types(node_of(op_type, *types, domain="f"), type_of, {"": 23, "f": 1}, found) == {}
    assert operands_of_several_types(node_of(op_type, *types), type_of, {"": 23}, target(one_type={})) == {}
    contrib = node_of(op_type, *types, domain="com.microsoft")
    assert operands_of_several_types(contrib, type_of, {"": 24, "com.microsoft": 1}, found) == {}


def test_operators_that_a_newer_opset_drops() -> None:
    found = target(dropped={_F: {"Mul": 14, "Add": 20}, _H: {"Mul": 13}}, newest_opset=23)
    assert found.complete_opset == 13
    assert target(newest_opset=23).complete_opset == 23
    assert [found.drops("Mul", (_F,), opset) for opset in (13, 14, 15)] == [None, 13, 13]
    assert found.drops("Mul", (_F, _H), 14) == 12
    assert found.drops("Mul", (None, DataType.INT8), 14) is None
    assert found.drops("Mul", (None,), 14) is None
    assert found.drops("Mul", (), 14) is None
    assert found.drops("Neg", (_F,), 14) is None
    assert [found.has_kernel("Mul", _F, opset) for opset in (13, 14)] == [True, False]


def test_a_device_with_a_fallback() -> None:
    found = target(fallback=_CPU, off_device=frozenset({_H}), lacks=frozenset[DataType]())
    assert found.has_kernel("Relu", _H, 21) is _CPU.has_kernel("Relu", _H, 21) is True
    assert found.computes(_H) is _CPU.computes(_H) is True
    assert not target(lacks=frozenset[DataType]()).computes(_H)
    assert target().computes(_F)
    assert not target(lacks=frozenset({_F})).computes(_F)
    assert target().computes(DataType.INT32)
    alone = found.strict()
    assert (alone.fallback, alone.off_device, alone.lacks) == (None, frozenset(), {_H})
    assert not alone.computes(_H)
    wrong = next(entry for entry in _CPU.wrong_casts if not entry.disputed) if _CPU.wrong_casts else None
    if wrong is not None:
        cases = [(s, t, sat) for s in DataType for t in DataType for sat in (True, False)]
        hit = next(c for c in cases if _CPU.wrong_cast(c[0], c[1], saturate=c[2], opset=21))
        near = replace(found, wrong_casts=(), off_device=frozenset({hit[0]}))
        assert near.wrong_cast(hit[0], hit[1], saturate=hit[2], opset=21)
        far = replace(found, wrong_casts=(), off_device=frozenset[DataType]())
        assert far.wrong_cast(hit[0], hit[1], saturate=hit[2], opset=21) is None


def test_hazards_and_tables() -> None:
    name = "quantize-divides-in-float"
    for hazards, expected in (
        ({}, [False, False]),
        ({name: ""}, [True, True]),
        ({f"{name}-below-23": ""}, [True, False]),
    ):
        assert [target(hazards=hazards).divides_in_float(opset) for opset in (22, 23)] == expected
    crash = {"transpose-cast-matmul-crashes": ""}
    assert [target(hazards=each).breaks_cast_after_transpose for each in ({}, crash)] == [False, True]
    assert target().operators_on_float8 == {}
    of_float8 = target(lacks=frozenset(), kernels={_F8: {"Cast": 19}})
    assert of_float8.operators_on_float8 == {"Cast": 19}
    assert [of_float8.has_kernel("Cast", _F8, opset) for opset in (18, 19)] == [False, True]
    probed = frozenset(("Transpose", "Reshape", "Mul"))
    assert target(probed=probed, kernels={_U8: {"Reshape": 1}}).operators_without_uint8 == {"Transpose"}
    assert target(probed=probed, kernels={}).operators_without_uint8 == frozenset()
    assert [target(domains=frozenset(each)).lacks_domain("d") for each in ((), ("d",), ("e",))] == [False, False, True]


def test_a_target_of_a_package_is_itself_or_a_path(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    data = json.loads((TARGETS_FOLDER / "onnxruntime-cpu.json").read_text())
    path.write_text(json.dumps({**data, "name": "mine"}))
    assert _fit(path, "mine").name == _fit(str(path), "mine").name == "mine"
    assert _fit(_CPU, "onnxruntime-cpu") is _CPU
    with pytest.raises(ValueError, match=r"^the target's own name is 'mine'$"):
        _fit(path, "other")
    with pytest.raises(TypeError, match=r"^it is neither a Target nor the path of a file$"):
        _fit(3, "mine")


@pytest.mark.parametrize("name", ["onnxruntime-android-x", "onnxruntime-cup", "x.txt"])
def test_an_unknown_target(name: str) -> None:
    with pytest.raises(TargetError, match=rf"^unknown target '{name}'; "):
        load_target(name)


def test_the_first_statements_by_their_place() -> None:
    made = Target("t", "what it is", 20, 9)
    assert (made.name, made.description, made.newest_opset, made.newest_ir_version) == ("t", "what it is", 20, 9)


def test_the_input_that_rows_describe() -> None:
    """The first one with elements: of Where not the condition."""
    names = ("Add", "Where", "Gather", "OneHot", "Unknown")
    assert [varied_input(name) for name in names] == [0, 1, 0, 2, 0]


_RULES = ("whole-blocks", "zero-points-of-blocks")
_Q, _DQ = "QuantizeLinear", "DequantizeLinear"


@pytest.mark.parametrize(
    ("op_type", "shape", "attributes", "inputs", "expected"),
    [
        (_DQ, (4, 6), {"block_size": 3}, 3, None),
        (_DQ, (4, 6), {"block_size": 4}, 3, "whole-blocks"),  # along axis 1, the default
        (_DQ, (4, 6), {"block_size": 4, "axis": 0}, 3, None),
        (_DQ, (4, 6), {"block_size": 4, "axis": -1}, 3, "whole-blocks"),
        (_DQ, (4, 6), {"block_size": 4, "axis": -2}, 3, None),
        (_DQ, (4, 6), {"block_size": 3, "axis": -2}, 3, "whole-blocks"),
        (_DQ, (4, 6), {"block_size": 4, "axis": 2}, 3, None),  # no axis
        (_DQ, (4, 6), {"block_size": 4, "axis": -3}, 3, None),
        (_DQ, (6,), {"block_size": 3, "axis": 0}, 3, "whole-blocks"),  # one dimension
        (_DQ, (4, "n"), {"block_size": 4}, 3, None),
        (_DQ, None, {"block_size": 4}, 3, None),
        (_DQ, (4, 6), {"block_size": 0}, 3, None),
        (_DQ, (4, 6), {"block_size": 1}, 3, None),
        (_DQ, (6,), {"block_size": 1, "axis": 0}, 3, "whole-blocks"),
        (_DQ, (4, 6), {}, 3, None),
        (_DQ, (4, 6), {"block_size": 3}, 2, None),  # DequantizeLinear needs no zero point
        ("Add", (4, 6), {"block_size": 4}, 3, None),
        (_Q, (4, 6), {"block_size": 3}, 3, None),
        (_Q, (4, 6), {"block_size": 3}, 2, "zero-points-of-blocks"),
        (_Q, (4, "n"), {"block_size": 3}, 3, "zero-points-of-blocks"),
        (_Q, None, {"block_size": 3}, 3, "zero-points-of-blocks"),
        (_Q, (4, 6), {"block_size": 4}, 3, "whole-blocks"),
        (_Q, (4, 6), {}, 2, None),
    ],
)
def test_rules_of_blocks(
    op_type: str, shape: tuple[Any, ...] | None, attributes: dict[str, int], inputs: int, expected: str | None
) -> None:
    values = [onnx_ir.Value(name=f"x{i}") for i in range(inputs)]
    values[0].shape = None if shape is None else onnx_ir.Shape(shape)
    node = onnx_ir.node(op_type, values, attributes)
    assert broken_block_rule(node, target(quantization=dict.fromkeys(_RULES, ""))) == expected
    for rule in _RULES:
        alone = broken_block_rule(node, target(quantization={rule: ""}))
        assert alone in (None, rule)
        assert alone == expected or rule != expected
    assert broken_block_rule(node, target(quantization={})) is None
    omitted = onnx_ir.node(op_type, [None, *values[1:]], attributes)
    assert broken_block_rule(omitted, target(quantization={_RULES[0]: ""})) is None
    parameter = onnx_ir.RefAttr("block_size", "b", onnx_ir.AttributeType.INT)
    of_function = onnx_ir.Node("", op_type, values, [parameter], num_outputs=1)
    assert broken_block_rule(of_function, target(quantization=dict.fromkeys(_RULES, ""))) is None
    empty = onnx_ir.node(op_type, [*values[:2], None], attributes)
    no_point = op_type == _Q and "block_size" in attributes
    assert broken_block_rule(empty, target(quantization={_RULES[1]: ""})) == (_RULES[1] if no_point else None)
