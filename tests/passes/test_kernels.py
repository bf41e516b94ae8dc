"""A model that ONNX Runtime loads before a rewrite loads afterwards: each operator with a changed type, each type.

`python -m tests.passes.test_kernels [STEP [FIRST]]` goes through all pairs of types at every opset at which an operator
changed, or through every STEP-th of them.
"""

from __future__ import annotations

import functools
import itertools
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import onnx.parser
import onnx_ir
import onnxruntime
import pytest
from onnx import helper
from onnx_ir import DataType

from castsmith.conformance.probe_models import TEXTS, model_text, versions
from castsmith.lowering.pipeline import optimize
from castsmith.numerics.cast.settings import FIRST_OPSET
from castsmith.numerics.types import ELEMENT_TYPES, parse_type, type_name
from castsmith.passes.place.movable import data_inputs
from castsmith.passes.simplify.see_through import SEEING_THROUGH
from castsmith.targets.target import load_target
from tests.sampling import sampled

TARGET = load_target("onnxruntime-cpu")
TYPES = [dtype for dtype in ELEMENT_TYPES if dtype in FIRST_OPSET and dtype != DataType.STRING]
"""The types that Cast takes; strings have tests of their own."""


def _retyped() -> list[str]:
    """The operators that simplify-casts and place-casts may give another type."""
    values = [onnx_ir.Value(name=name) for name in "abc"]
    moves = [op for op in TEXTS for n in (1, 3) if data_inputs(onnx_ir.node(op, values[:n])) is not None]
    return sorted({*moves, *(SEEING_THROUGH & TEXTS.keys()), "ConstantOfShape"})


def _cast_before(op_type: str, source: DataType, dtype: DataType, opset: int) -> onnx.ModelProto:
    """The operator of a type to which its operands are cast."""
    model: onnx.ModelProto = onnx.parser.parse_model(model_text(op_type, dtype, opset, TARGET.newest_ir_version))
    for value in model.graph.input:
        if value.type.tensor_type.elem_type == int(dtype):
            value.type.tensor_type.elem_type = int(source)
            model.graph.node.insert(0, helper.make_node("Cast", [f"{value.name}0"], [value.name], to=int(dtype)))
            value.name += "0"
    return model


def _cast_after(op_type: str, source: DataType, dtype: DataType, opset: int) -> onnx.ModelProto:
    """The operator of a type from which its results are cast."""
    model: onnx.ModelProto = onnx.parser.parse_model(model_text(op_type, source, opset, TARGET.newest_ir_version))
    for value in model.graph.output:
        if value.type.tensor_type.elem_type == int(source):
            value.type.tensor_type.elem_type = int(dtype)
            model.graph.node.append(helper.make_node("Cast", [value.name], [f"{value.name}0"], to=int(dtype)))
            value.name += "0"
    return model


def _cast_around(op_type: str, source: DataType, dtype: DataType, opset: int) -> onnx.ModelProto:
    """The operator of a type to which its operands are cast, and from which its results are cast back."""
    model = _cast_before(op_type, source, dtype, opset)
    for value in model.graph.output:
        if value.type.tensor_type.elem_type == int(dtype):
            value.type.tensor_type.elem_type = int(source)
            model.graph.node.append(helper.make_node("Cast", [value.name], [f"{value.name}0"], to=int(source)))
            value.name += "0"
    return model


def _opsets(op_type: str, source: DataType, dtype: DataType) -> Iterator[int]:
    first = max(7, FIRST_OPSET[source], FIRST_OPSET[dtype])
    found = {max(first, opset) for each in (source, dtype) for opset in versions(op_type, each, TARGET.newest_opset)}
    yield from sorted(found)


@functools.cache
def _options() -> Any:
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    return options


def _refusal(model: bytes) -> str:
    """Return the reason why ONNX Runtime does not load the model; empty if it does."""
    try:
        onnxruntime.InferenceSession(model, _options(), ["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime raises a class of its own for each of its status codes
        return str(error) or repr(error)
    return ""


def _broken(
    op_type: str, source: DataType, dtype: DataType, opset: int, targets: Iterable[str | None]
) -> Iterator[str]:
    """The models with the operator that load, and do not once they are optimized."""
    for form in (_cast_before, _cast_after, _cast_around):
        model = form(op_type, source, dtype, opset)
        if _refusal(model.SerializeToString()):
            continue
        for target in targets:
            result = optimize(model, target=target)
            if result.rewrites and (why := _refusal(onnx_ir.to_proto(result.model).SerializeToString())):
                yield f"{form.__name__} {op_type} {type_name(source)} {type_name(dtype)} {opset} {target}: {why}"


@pytest.mark.skipif(onnxruntime.__version__ != "1.32.0", reason="what the target's file says is of 1.32.0")
@pytest.mark.parametrize("op_type", sampled("operators that take another type", _retyped(), 10))
def test_what_loads_before_loads_after(op_type: str) -> None:
    """Types beside float, at the newest opset: the full table is the command's."""
    for source in TYPES:
        opset = max(_opsets(op_type, source, DataType.FLOAT), default=0)
        if opset and source != DataType.FLOAT:
            assert not list(_broken(op_type, source, DataType.FLOAT, opset, (None,)))


def main(step: int = 1, first: int = 0) -> int:
    broken = 0
    cases = [
        (op_type, source, dtype, opset)
        for op_type in _retyped()
        for source, dtype in itertools.permutations(TYPES, 2)
        for opset in _opsets(op_type, source, dtype)
    ][first::step]
    for op_type, of_one_operator in itertools.groupby(cases, key=lambda case: case[0]):
        for case in of_one_operator:
            for line in _broken(*case, (None, "onnxruntime-cpu")):
                print(line, flush=True)
                broken += 1
        print(op_type, flush=True)
    print(f"{len(cases)} cases, {broken} models no longer load")
    return broken > 0


if __name__ == "__main__":
    raise SystemExit(main(*map(int, sys.argv[1:])))


@pytest.mark.parametrize("dtype", ["int4", "uint4", "int2", "uint2"])
def test_no_identity_is_added_that_has_no_kernel(dtype: str) -> None:
    """A cast that changes nothing stays where its result is an output and the value cannot take over the name; a
    constant that is an output is made by a Constant."""
    number = int(parse_type(dtype))
    head, body = '<ir_version: 12, opset_import: ["": 25]> ', f"y = Cast <to = {number}> (x)"
    kept = f"{head}g ({dtype}[2] x) => ({dtype}[2] y) {{ {body} }}"
    made = f"{head}g () => ({dtype}[2] y) <float[2] x = {{0, 1}}> {{ {body} }}"
    for text, operator in ((kept, "Cast"), (made, "Constant")):
        result = optimize(onnx_ir.from_onnx_text(text))
        assert [node.op_type for node in result.model.graph] == [operator]
        onnxruntime.InferenceSession(onnx_ir.to_proto(result.model).SerializeToString())


@pytest.mark.parametrize("shape", ["", "[]", "[N]", "[3]"])
@pytest.mark.parametrize(
    "body",
    [
        "y = Cast <to = 1> (x)",
        "a = Cast <to = 11> (x) y = Cast <to = 1> (a)",
        "y = Cast <to = 1> (w)",
        "a = Cast <to = 11> (x) b = Transpose (a) y = Cast <to = 1> (b)",
        "y = If (c) <then_branch = t () => (float[3] p) { h = Cast <to = 11> (x) p = Cast <to = 1> (h) },"
        " else_branch = e () => (float[3] q) { k = Cast <to = 11> (x) q = Cast <to = 1> (k) }>",
    ],
)
def test_an_output_declares_what_it_declared(body: str, shape: str) -> None:
    """The declaration of an output does not come from the value that replaces it."""
    text = f"g (bool c, float[3] x) => (float{shape} y) <int32[3] w = {{1, 2, 3}}> {{ {body} }}"
    model = onnx_ir.from_onnx_text(f'<ir_version: 10, opset_import: ["": 21]> {text}')
    declared = onnx_ir.to_proto(model).graph.output[0]
    result = optimize(model)
    assert result.rewrites
    assert onnx_ir.to_proto(result.model).graph.output[0] == declared
