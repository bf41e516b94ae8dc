"""Every node that optimize emits is legal at the model's opset: each opset, element type and target.

`python -m tests.lowering.test_legal_nodes [STEP [FIRST]]` goes through all pairs of types and all targets, or through
every STEP-th of these cases.
"""

from __future__ import annotations

import dataclasses
import itertools
import sys
from collections.abc import Iterator

import onnx
import onnx.checker
import onnx.parser
import onnx.shape_inference
import onnx_ir
import pytest
from onnx_ir import DataType

from castsmith.analysis.inference.walk import infer_element_types
from castsmith.ir.io.saving import reloaded
from castsmith.ir.ops.schemas import actual_inputs, actual_outputs, op_key
from castsmith.ir.walks import all_nodes
from castsmith.lowering.pipeline import optimize
from castsmith.numerics.errors import CastsmithError
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.numerics.types import CODED_TYPES, ELEMENT_TYPES, type_name
from castsmith.targets.target import load_target, target_names
from tests.sampling import sampled

BODIES = {
    "cast": "(S[2] x) => (T[2] y) { y = Cast <to = CODE> (x) }",
    "back": "(S[2] x) => (S[2] y, T[2] z) { z = Cast <to = CODE> (x) y = Cast <to = BACK> (z) }",
    "moved": "(S[2,2] x) => (T[2,2] y) { a = Transpose (x) b = Cast <to = CODE> (a) y = Transpose (b) }",
    "constant": "(S[2] x) => (T[4] y) { c = Constant <value = float[2] {1.0, 0.5}> () d = Cast <to = CODE> (c)"
    " y = Concat <axis = 0> (d, d) }",
    "added": "(S[2] x, T[2] z) => (int64[1] y) { a = Add (x, z) y = Shape (a) }",
    "like": "(S[2] x, T[2] z) => (T[2] y) { y = CastLike (x, z) }",
    "branches": "(bool c, S[2] x, S[2] z) => (T[2] y) { y = If (c) <then_branch = t () => (T[2] a)"
    " { a = Cast <to = CODE> (x) }, else_branch = e () => (T[2] b) { b = Cast <to = CODE> (z) }> }",
}
"""Models that cast, move, promote and fold: S is the type of the input, T the type it is cast to."""

_REPAIRED = ("added", "like")
"""Those that may be invalid as they are given, by their types alone."""


def _model(body: str, source: DataType, to: DataType, opset: int) -> onnx.ModelProto:
    text = BODIES[body].replace("CODE", str(int(to))).replace("BACK", str(int(source)))
    for letter, dtype in (("S", source), ("T", to)):
        text = text.replace(f"{letter}[", f"{type_name(dtype)}[")
    return onnx.parser.parse_model(f'<ir_version: 14, opset_import: ["" : {opset}]> g {text}')


def illegal_nodes(model: onnx_ir.Model) -> Iterator[str]:
    """The nodes of which a type, or the operator itself, is not in the schema of the model's opset."""
    inference = infer_element_types(model, PromotionRules(promote_unsafe=True))
    for node in all_nodes(model):
        key = op_key(node, model.graph.opset_imports)
        if key is None:
            if node.op_identifier() not in model.functions:
                yield f"{node.op_type} is not an operator of the opset"
            continue
        formals = (*actual_inputs(key, len(node.inputs)), *actual_outputs(key, len(node.outputs)))
        for value, formal in zip((*node.inputs, *node.outputs), formals, strict=True):
            dtype = inference.type_of(value)
            if value is not None and dtype is not None and formal is not None and dtype not in formal.allowed:
                yield f"{node.op_type} does not take {type_name(dtype)}"


def _valid(model: onnx_ir.Model) -> str:
    """Return the reason why the model is invalid; empty if it is valid."""
    proto = onnx_ir.to_proto(model)
    try:
        onnx.checker.check_model(proto)
        onnx.shape_inference.infer_shapes(proto, check_type=True, strict_mode=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        return str(error)
    return "; ".join(illegal_nodes(model))


def _wrong(body: str, source: DataType, to: DataType, opset: int, target: str | None) -> str:
    """Return the fault of the result of optimize; empty if it is valid, or reported as invalid."""
    model = _model(body, source, to, opset)
    was_valid = not _valid(onnx_ir.from_proto(model))
    if not was_valid and body not in _REPAIRED:
        return ""
    try:
        result = optimize(model, target=None if target is None else load_target(target), promotion="openvino")
    except CastsmithError:
        return "" if not was_valid else "refused, and it was valid"
    why = _valid(result.model)
    if why and not was_valid and (result.diagnostics or result.refusals):
        return ""  # what stood in the model is not repaired, and that is said
    return why


NARROW = (DataType.BFLOAT16, DataType.FLOAT16, DataType.FLOAT8E4M3FN, DataType.INT4, DataType.FLOAT6E2M3)
TARGETS = (None, "onnxruntime-cpu", "onnxruntime-android", "onnx-mlir", "tensorrt-10", "openvino-cpu")


@pytest.mark.parametrize("opset", [7, 10, 11, 12, 18, 20, 22, 28])
def test_every_node_is_legal(opset: int) -> None:
    """The targets in turn."""
    targets = itertools.cycle(TARGETS)
    cases = itertools.product(BODIES, (DataType.DOUBLE, DataType.INT32), NARROW)
    for body, source, to in sampled(f"nodes that are to be legal [{opset}]", cases, 10, cover=lambda case: case[:1]):
        for first, second in ((source, to), (to, source)):
            target = next(targets)
            assert not _wrong(body, first, second, opset, target), (body, first, second, target)


@pytest.mark.parametrize("opset", [8, 13, 17])
@pytest.mark.parametrize("to", CODED_TYPES, ids=type_name)
def test_a_type_that_the_opset_lacks_is_lowered_to_operators_that_it_has(to: DataType, opset: int) -> None:
    for target in ("onnx-mlir", "qonnx"):
        model = _model("back", DataType.FLOAT, to, opset)
        onnx.checker.check_model(model)  # which looks at operators, and not at their types
        onnx.checker.check_model(onnx_ir.to_proto(optimize(model, target=target).model))


@pytest.mark.parametrize(
    ("opset", "source", "to", "target", "says"),
    [
        (
            10,
            DataType.DOUBLE,
            DataType.FLOAT16,
            "onnxruntime-cpu",
            "needs Clip with bounds as inputs: raise the opset from 10 to 11",
        ),
        (
            10,
            DataType.DOUBLE,
            DataType.FLOAT16,
            "onnxruntime-android",
            "needs Clip with bounds as inputs: raise the opset from 10 to 11",
        ),
        (11, DataType.INT64, DataType.FLOAT16, "onnx-mlir", "needs Min of int64: raise the opset from 11 to 12"),
        (11, DataType.UINT64, DataType.FLOAT16, "onnx-mlir", "needs Min of uint64: raise the opset from 11 to 12"),
    ],
)
def test_what_the_opset_cannot_round_is_refused(
    opset: int, source: DataType, to: DataType, target: str, says: str
) -> None:
    model = _model("cast", source, to, opset)
    result = optimize(model, target=target)
    assert [node.op_type for node in result.model.graph] == ["Cast"]
    assert says in result.refusals[0].reason
    assert not _wrong("cast", source, to, opset, target)


def test_what_rounds_ahead_of_a_cast_has_kernels() -> None:
    """A target that has no kernel of what would be inserted keeps the cast, and the refusal names the kernel."""
    target = load_target("onnxruntime-cpu")
    rows = {dtype: dict(row) for dtype, row in target.kernels.items()}
    rows[DataType.DOUBLE].pop("Max")
    result = optimize(
        _model("cast", DataType.DOUBLE, DataType.FLOAT16, 13), target=dataclasses.replace(target, kernels=rows)
    )
    assert [node.op_type for node in result.model.graph] == ["Cast"]
    assert "no Max of double at opset 13" in result.refusals[0].reason


@pytest.mark.parametrize(
    ("source", "to", "reason"),
    [
        (DataType.DOUBLE, DataType.BFLOAT16, "opset 13 allows it"),
        (DataType.INT4, DataType.INT4, "an Identity of int4, for which the target has no kernel"),
    ],
)
def test_a_castlike_stays_where_the_opset_has_no_cast_of_its_types(source: DataType, to: DataType, reason: str) -> None:
    result = optimize(_model("like", source, to, 11))
    assert [node.op_type for node in result.model.graph] == ["CastLike"]
    assert reason in result.refusals[0].reason


def test_no_constant_of_float6_is_put_in_a_function() -> None:
    text = """<ir_version: 14, opset_import: ["" : 28, "d" : 1]> g (float[2] x) => (float6e2m3[2] y) { y = d.f (x) }
        <domain: "d", opset_import: ["" : 28]>
        f (x) => (k) { c = Constant <value = float[2] {1.0, 0.5}> () k = Cast <to = 27> (c) }"""
    assert not _valid(optimize(onnx.parser.parse_model(text)).model)


def main(step: int = 1, first: int = 0) -> int:
    wrong = 0
    types = [dtype for dtype in ELEMENT_TYPES if dtype is not DataType.STRING]
    cases = list(itertools.product(range(7, 29), BODIES, types, types, (None, *target_names())))[first::step]
    for opset, body, source, to, target in cases:
        try:
            why = _wrong(body, source, to, opset, target)
        except Exception as error:  # what is not a refusal is a finding, and the sweep goes on
            why = repr(error)
        if why:
            wrong += 1
            print(body, type_name(source), type_name(to), opset, target, why.splitlines()[0][:200], flush=True)
    print(f"{len(cases)} cases, {wrong} models with nodes that are not legal")
    return wrong > 0


if __name__ == "__main__":
    raise SystemExit(main(*map(int, sys.argv[1:])))


@pytest.mark.parametrize("opset", [1, 5])
@pytest.mark.parametrize(
    ("body", "to"),
    [
        ("g (float[2] x) => (double[2] y) { a = Neg (x) y = Cast <to = 'DOUBLE'> (a) }", []),
        ("g (float16[2] x) => (double[2] y) { a = Cast <to = 'float'> (x) y = Cast <to = 'DOUBLE'> (a) }", ["DOUBLE"]),
        (
            "g (float16[4] x) => (float[1] y) { a = Cast <to = 'FLOAT'> (x)"
            " y = Slice <axes = [0], starts = [0], ends = [1]> (a) }",
            ["FLOAT"],
        ),
        ("g (float[1,1,2,2] x, double[1,1,1,1] w) => (double[1,1,2,2] y) { y = Conv (x, w) }", ["DOUBLE"]),
    ],
)
def test_casts_name_their_type_by_text_where_the_opset_has_it(body: str, to: list[str], opset: int) -> None:
    """Cast-1 takes `to` as text: a pass that moves, merges or inserts a Cast writes it so, and the file is valid."""
    quoted = body.replace("'", '"')
    model = onnx_ir.from_onnx_text(f'<ir_version: 3, opset_import: ["": {opset}]> {quoted}')
    result = optimize(model)
    casts = [node for node in result.model.graph if node.op_type == "Cast"]
    assert [node.attributes["to"].value for node in casts] == (to or ["DOUBLE"])
    reloaded(result.model)
