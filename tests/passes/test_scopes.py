"""Names mean the same after a pass as before it, whatever scope they stand in; each pass runs alone on any model, says
that it changed something exactly if it did, and then has a record of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.checker
import onnx_ir
import onnxruntime
import pytest

from castsmith.ir.errors import ModelError, VerificationError
from castsmith.ir.io.loading import from_proto, load
from castsmith.ir.io.protos import to_proto
from castsmith.ir.io.saving import reloaded, save
from castsmith.ir.naming import settle_names
from castsmith.ir.records import RewriteResult
from castsmith.lowering.pipeline import optimize
from castsmith.lowering.registry import ON_REQUEST, PASSES, make_pass
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.targets.target import load_target
from castsmith.verification.run import require_same
from tests.graphs.scoped_graphs import scoped_model
from tests.sampling import sampled

pytestmark = pytest.mark.usefixtures("engines_here")

SEEDS = sampled("random graphs of names", range(40), 12)
NOT_RUN = (3, 23)
"""Seeds whose models ONNX Runtime does not run on the inputs that they get here."""
LOWERING = "castsmith.lowering."
ALONE = [name for name in PASSES if not PASSES[name].startswith(LOWERING) and name != "convert-precision"]
TARGETED = [name for name in PASSES if PASSES[name].startswith(LOWERING) and name not in ON_REQUEST]

HOISTED = """<ir_version: 10, opset_import: ["" : 18]>
g (float[2] x, int64 n) => (float[2] y, float[2] z) <int64[2] w = {3, 4}> {
  t = Constant <value = bool {1}> ()
  y = Loop (n, t, x) <body = b1 (int64 i, bool c, float[2] a) => (bool co, float[2] an) {
    co = Identity (c) k = Cast <to = 1> (w) an = Add (a, k) }>
  z = Loop (n, t, x) <body = b2 (int64 i2, bool c2, float[2] k) => (bool co2, float[2] bn) {
    co2 = Identity (c2) j = Cast <to = 1> (w) bn = Add (k, j) }>
}"""

BRANCHES = """<ir_version: 10, opset_import: ["" : 18]>
g (float[2] x, bool c) => (float[2] y) <int64[2] w = {3, 4}, int64[2] v = {5, 6}> {
  y = If (c) <then_branch = t () => (float[2] an) { k = Cast <to = 1> (w) an = Add (x, k) },
              else_branch = e () => (float[2] bn) { k = Cast <to = 1> (v) bn = Add (x, k) }>
}"""

BYPASSED = """<ir_version: 10, opset_import: ["" : 18]>
g (float[2] x, float[2] u, int64 n) => (float[2] y) {
  t = Constant <value = bool {1}> ()
  d = Cast <to = 11> (x)
  y = Loop (n, t, u) <body = b (int64 i, bool c, float[2] x) => (bool co, float[2] an) {
    co = Identity (c) f = Cast <to = 1> (d) an = Add (x, f) }>
}"""


def run(proto: onnx.ModelProto) -> list[Any] | None:
    """The outputs in ONNX Runtime, one node after the other; None where it does not run the model."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    held = {tensor.name for tensor in proto.graph.initializer}
    feeds: dict[str, Any] = {}
    for info in proto.graph.input:
        dtype = onnx.helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
        if info.name not in held:
            feeds[info.name] = np.array([1, 5] if info.type.tensor_type.shape.dim else 2, dtype)
    try:
        session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return [np.asarray(array) for array in session.run(None, feeds)]
    except Exception:  # ONNX Runtime raises a class of its own for each of its status codes
        return None


def require_same_meaning(before: onnx.ModelProto, after: onnx.ModelProto, expected: list[Any] | None) -> None:
    onnx.checker.check_model(after, full_check=True)
    assert list(after.graph.input) == list(before.graph.input)
    assert [value.name for value in after.graph.output] == [value.name for value in before.graph.output]
    if expected is not None:
        found = run(after)
        assert found is not None
        assert [array.tobytes() for array in found] == [array.tobytes() for array in expected]


@pytest.mark.parametrize("text", [HOISTED, BRANCHES, BYPASSED], ids=["hoisted", "branches", "bypassed"])
def test_a_name_of_another_scope_is_not_taken(text: str) -> None:
    before = onnx.parser.parse_model(text)
    expected = run(before)
    assert expected is not None
    require_same_meaning(before, to_proto(optimize(before, verify="reference").model), expected)


@pytest.mark.parametrize("seed", SEEDS)
def test_each_pass_alone_keeps_names_and_tells_what_it_did(seed: int) -> None:
    before = scoped_model(seed, ir_version=(8, 3)[seed % 4 == 0])
    expected, target = run(before), load_target("onnxruntime-cpu")
    assert expected is not None or seed in NOT_RUN
    for name in (*ALONE, *(TARGETED if seed % 5 == 0 else ())):
        model = from_proto(before)
        original = to_proto(model)
        result = make_pass(name, {"target": target})(model)
        after = to_proto(result.model)
        assert isinstance(result, RewriteResult)
        assert result.modified == (after != original), name
        assert result.modified == bool(result.records.rewrites), name
        require_same_meaning(before, after, expected)


@pytest.mark.parametrize("seed", SEEDS)
def test_optimize_keeps_names_and_tells_what_it_did(seed: int) -> None:
    before = scoped_model(seed, ir_version=(8, 3)[seed % 4 == 0])
    result = optimize(before, provenance=False)
    after = to_proto(result.model)
    assert bool(result.rewrites) == (after != to_proto(from_proto(before)))
    require_same_meaning(before, after, run(before))


def shadowing(inner: str) -> onnx_ir.Model:
    """A model in memory whose If reads the input `x` in a branch that has a value named `inner` of its own."""
    x, c = onnx_ir.val("x", onnx_ir.DataType.FLOAT, []), onnx_ir.val("c", onnx_ir.DataType.BOOL, [])
    branches: list[onnx_ir.Attr] = []
    for name in ("then_branch", "else_branch"):
        negative = onnx_ir.node("Neg", [x])
        result = onnx_ir.node("Add", [negative.outputs[0], x])
        negative.outputs[0].name, result.outputs[0].name = inner, f"{name}_result"
        for node in (negative, result):
            node.outputs[0].dtype, node.outputs[0].shape = onnx_ir.DataType.FLOAT, onnx_ir.Shape([])
        graph = onnx_ir.Graph([], result.outputs, nodes=[negative, result], name=name)
        branches.append(onnx_ir.AttrGraph(name, graph))
    node = onnx_ir.Node("", "If", [c], branches)
    node.outputs[0].name, node.outputs[0].dtype = "y", onnx_ir.DataType.FLOAT
    node.outputs[0].shape = onnx_ir.Shape([])
    graph = onnx_ir.Graph([x, c], node.outputs, nodes=[node], opset_imports={"": 18}, name="g")
    return onnx_ir.Model(graph, ir_version=10)


def test_save_writes_names_that_are_found_again(tmp_path: Any) -> None:
    model = shadowing("x")
    save(model, tmp_path / "m.onnx")
    branch = load(tmp_path / "m.onnx").graph[0].attributes["then_branch"].as_graph()
    assert [value.name if value else None for value in branch[1].inputs] == ["x_1", "x"]
    assert model.graph[0].attributes["then_branch"].as_graph()[0].outputs[0].name == "x"
    assert not settle_names(shadowing("negative"))


def test_save_refuses_two_values_of_the_interface_with_one_name(tmp_path: Any) -> None:
    model = shadowing("negative")
    model.graph.outputs[0].name = "x"
    with pytest.raises(ModelError, match="two inputs or outputs have the name 'x'"):
        save(model, tmp_path / "m.onnx")


def test_verification_compares_what_is_saved() -> None:
    with pytest.raises(VerificationError, match="verification failed: after hide"):
        require_same(shadowing("negative"), shadowing("x"), "hide", engine="reference", promotion=PromotionRules())


def test_a_model_read_again_shares_its_large_tensors() -> None:
    x = onnx_ir.val("x", onnx_ir.DataType.FLOAT, [1 << 15])
    w = onnx_ir.Value(name="w", const_value=onnx_ir.tensor(np.arange(1 << 15, dtype=np.float32), name="other"))
    node = onnx_ir.node("Add", [x, w])
    node.outputs[0].name = "y"
    graph = onnx_ir.Graph([x], node.outputs, nodes=[node], initializers=[w], opset_imports={"": 18}, name="g")
    again = reloaded(onnx_ir.Model(graph, ir_version=10))
    assert again.graph.initializers["w"].const_value is w.const_value


DECLARED = """<ir_version: 10, opset_import: ["" : 18]>
g (float[2] x) => (float[2] y) <float16[2] a> { a = Neg (x) y = Abs (a) }"""

UNUSED_IMPORT = """<ir_version: 10, opset_import: ["" : 18, "castsmith" : 1, "qonnx.custom_op.general" : 1]>
g (float[2] x) => (float[2] y) { y = Abs (x) }"""

UNUSED_BODY = (
    UNUSED_IMPORT
    + """ <domain: "castsmith", opset_import: ["" : 18]>
ConvertPromoteTypes_float (a, b) => (c, d) { c = Identity (a) d = Identity (b) }"""
)


@pytest.mark.parametrize("text", [DECLARED, UNUSED_IMPORT, UNUSED_BODY], ids=["declared", "import", "body"])
def test_every_change_has_a_record(text: str) -> None:
    changed = 0
    for name in (*ALONE, *TARGETED):
        model = from_proto(onnx.parser.parse_model(text))
        original = to_proto(model)
        result = make_pass(name, {"target": load_target("tensorrt-10")})(model)
        assert isinstance(result, RewriteResult)
        assert result.modified == (to_proto(model) != original) == bool(result.records.rewrites), name
        changed += result.modified
    assert changed
