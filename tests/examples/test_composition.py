"""Every pass of Castsmith runs inside onnx_ir's own pass managers, beside onnxscript's, with its records."""

from __future__ import annotations

import dataclasses
import inspect
import itertools
from typing import Any

import numpy as np
import onnx
import onnx_ir
import pytest
from onnx_ir.passes import InPlacePass, PassBase, PassManager, PassResult, Sequential, common, functionalize
from onnxscript.optimizer import optimize_ir
from onnxscript.rewriter import RewritePass as TheirRewritePass
from onnxscript.rewriter.rules.common import cast_cast_rule, no_op_cast_rule

import castsmith
import castsmith.lowering
import castsmith.passes
from castsmith.ir.records import RewriteResult
from castsmith.passes import RewritePass

onnxruntime = pytest.importorskip("onnxruntime")

# Older than the newest opset, with the casts to bool of OpenVINO, and without NonZero of bool, so that
# legalize-version, lower-casts and lower-operators have something to do.
REAL = castsmith.load_target("onnxruntime-android")
OF_BOOL = {name: since for name, since in REAL.kernels[onnx_ir.DataType.BOOL].items() if name != "NonZero"}
ANDROID = dataclasses.replace(
    REAL,
    kernels={**REAL.kernels, onnx_ir.DataType.BOOL: OF_BOOL},
    newest_opset=26,
    wrong_casts=castsmith.load_target("openvino-cpu").wrong_casts,
)
UNSAFE = castsmith.PromotionRules(promote_unsafe=True)

MIXED = """<ir_version: 10, opset_import: ["": 21, "local": 1]>
g (int32[3] x, float[3] y, bool choose) => (float[3] z, float[3] w) <int64[3] steps = {1, 2, 3}> {
    scaled = Cast <to = 1> (steps)
    again = Cast <to = 1> (scaled)
    sum = local.f (x, y)
    moved = Mul (sum, again)
    z = If (choose) <
        then_branch = yes () => (float[3] a) { a = Add (moved, x) },
        else_branch = no () => (float[3] b) { b = Identity (moved) }>
    w = Identity (moved)
}
<domain: "local", opset_import: ["": 21]>
f (a, b) => (c) { c = Add (a, b) }"""

FLOAT8 = """<ir_version: 10, opset_import: ["": 21]>
g (float[4] x) => (float[4] y) <float[4] weight = {0.3, 1.7, 2.2, 500.0}> {
    w8 = Cast <to = 17> (weight)
    w = Cast <to = 1> (w8)
    x8 = Cast <to = 17> (x)
    back = Cast <to = 1> (x8)
    y = Mul (back, w)
}"""

TRUNC = """<ir_version: 10, opset_import: ["": 21, "qonnx.custom_op.general": 2]>
g (float[N] x) => (float[N] y)
<float s = {0.5}, float zp = {0}, float bi = {8}, float os = {8}, float bo = {4}> {
    y = qonnx.custom_op.general.Trunc <rounding_mode = "FLOOR", signed = 1, narrow = 0> (x, s, zp, bi, os, bo)
}"""

QUANT = """<ir_version: 10, opset_import: ["": 21, "qonnx.custom_op.general": 1]>
g (float[N] x) => (float[N] y) <float s = {0.5}, float zp = {0}, float bits = {4}> {
    y = qonnx.custom_op.general.Quant <rounding_mode = "ROUND", signed = 1, narrow = 0> (x, s, zp, bits)
}"""

BFLOAT16 = """<ir_version: 10, opset_import: ["": 21]>
g (float[4] x) => (float[4] y) { a = Cast <to = 16> (x)  b = Add (a, a)  y = Cast <to = 1> (b) }"""

MOVES = """<ir_version: 10, opset_import: ["": 21]>
g (float16[2, 2] x) => (float[2, 2] y, float[2, 2] z) {
    wide = Cast <to = 1> (x)
    turned = Transpose <perm = [1, 0]> (wide)
    narrow = Cast <to = 10> (turned)
    back = Transpose <perm = [1, 0]> (narrow)
    y = Cast <to = 1> (back)
    z = Relu (turned)
}"""

SHARED = """<ir_version: 10, opset_import: ["": 21]>
g (float16[2, 2] x) => (float[2, 2] y, float[2, 2] z) {
    wide = Cast <to = 1> (x)
    turned = Transpose <perm = [1, 0]> (wide)
    narrow = Cast <to = 10> (turned)
    y = Cast <to = 1> (narrow)
    z = Transpose <perm = [1, 0]> (wide)
}"""

SHAPES = """<ir_version: 10, opset_import: ["": 21]>
g (float[4, 2] x) => (float[4, 2] y) {
    whole = Shape (x)
    wide = Cast <to = 1> (whole)
    back = Cast <to = 7> (wide)
    y = Reshape (x, back)
}"""

TO_BOOL = """<ir_version: 10, opset_import: ["": 21]>
g (float[4] x) => (bool[4] y) { y = Cast <to = 9> (x) }"""

OF_MASKS = """<ir_version: 10, opset_import: ["": 21]>
g (bool[4] x) => (int64[1, N] y) { y = NonZero (x) }"""

CUSTOM = """<ir_version: 10, opset_import: ["": 21, "com.example": 1]>
g (float[4] x) => (float[4] y) { a = com.example.Twice (x)  b = Relu (a)  y = com.example.Twice (b) }"""


KNOWS_NEW = onnx.defs.onnx_opset_version() >= 27
NEW = """<ir_version: 13, opset_import: ["": 27]>
g (float[4] x) => (float[4] y) { y = Relu (x) }"""

MODELS = {
    "mixed": MIXED,
    "float8": FLOAT8,
    "trunc": TRUNC,
    "quant": QUANT,
    "bfloat16": BFLOAT16,
    "moves": MOVES,
    "shapes": SHAPES,
    "to bool": TO_BOOL,
    "masks": OF_MASKS,
    "custom": CUSTOM,
    **({"new": NEW} if KNOWS_NEW else {}),
}


NEVER_ALONE = ("ResolvePromoteTypes", "NarrowTypes", "UseVendor", *(() if KNOWS_NEW else ("LegalizeVersion",)))
"""Passes with nothing to do on a model that another has not made ready, or unless they are asked."""


def twice(node: onnx_ir.Node, build: castsmith.lowering.NodeBuilder) -> castsmith.lowering.Replacement:
    """The lowering of the operator of CUSTOM."""
    assert node.inputs[0] is not None
    return build.replace(build.op("Mul", node.inputs[0], 2), reason="x * 2")


LOWERINGS = {"com.example.Twice": twice}


NOT_EXACT = (RewritePass, castsmith.passes.ConvertPrecision, castsmith.lowering.Rescale)


def passes() -> dict[str, PassBase]:
    """Every public pass that keeps values, with the promotion that the mixed model needs."""
    found: dict[str, PassBase] = {}
    for module in (castsmith.passes, castsmith.lowering):
        for name in module.__all__:
            kind = getattr(module, name)
            if inspect.isclass(kind) and issubclass(kind, RewritePass) and kind not in NOT_EXACT:
                options: dict[str, object] = {"target": ANDROID, "promote_unsafe": True, "lowerings": LOWERINGS}
                known = inspect.signature(kind).parameters
                found[name] = kind(**{key: value for key, value in options.items() if key in known})
    return found


PASSES = passes()
PIPELINE = (
    "InsertPromoteTypes",
    "ResolvePromoteTypes",
    "LowerCustom",
    "UseVendor",
    "FoldShapes",
    "FoldConstants",
    "SimplifyCasts",
    "PlaceCasts",
    "NarrowTypes",
    "LowerTrunc",
    "LowerQuant",
    "LowerCasts",
    "LowerFloat8",
    "WidenFloats",
    "LowerOperators",
    "LegalizeVersion",
)
THEIRS: tuple[PassBase, ...] = (
    common.TopologicalSortPass(),
    common.LiftConstantsToInitializersPass(),
    common.DeduplicateInitializersPass(),
    common.CommonSubexpressionEliminationPass(),
    common.RemoveUnusedNodesPass(),
    TheirRewritePass([cast_cast_rule, no_op_cast_rule]),
)


class Recorded(InPlacePass):
    """Any pass, whose last result is kept: Sequential's own result has no room for records."""

    def __init__(self, inner: PassBase) -> None:
        self.inner, self.results = inner, list[PassResult]()

    def call(self, model: onnx_ir.Model) -> PassResult:
        self.results.append(self.inner(model))
        return self.results[-1]


def feeds_for(model: onnx_ir.Model) -> dict[str, np.ndarray[Any, Any]]:
    numbers = np.array([0.4, -3.3, 17.2, 1e9])
    feeds: dict[str, np.ndarray[Any, Any]] = {}
    for value in model.graph.inputs:
        assert value.name
        assert value.dtype
        assert value.shape is not None
        shape = [4 if not isinstance(dim, int) else dim for dim in value.shape]
        array = np.zeros(shape, value.dtype.numpy())
        array.flat[:] = numbers[: array.size].clip(-1000, 1000)
        feeds[value.name] = array
    return feeds


def run(model: onnx_ir.Model) -> list[bytes]:
    proto = onnx_ir.to_proto(model)
    onnx.checker.check_model(proto, full_check=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, ["CPUExecutionProvider"])
    results = session.run(None, feeds_for(model))
    return [np.asarray(array).tobytes() for array in results]


def test_every_public_pass_is_in_the_pipeline_here() -> None:
    assert set(PASSES) == set(PIPELINE)


@pytest.mark.parametrize("name", PASSES)
def test_one_pass_in_a_sequence_gives_its_records(name: str) -> None:
    changed = 0
    for text in MODELS.values():
        recorded = Recorded(PASSES[name])
        model = onnx_ir.from_onnx_text(text)
        result = Sequential(common.TopologicalSortPass(), recorded, common.RemoveUnusedNodesPass())(model)
        (own,) = recorded.results
        assert isinstance(own, RewriteResult)
        assert own.modified == bool(own.records.rewrites)
        assert not own.modified or result.modified
        changed += own.modified
    assert changed or name in NEVER_ALONE


@pytest.mark.parametrize("name", MODELS)
def test_all_passes_beside_those_of_onnxscript_until_nothing_changes(name: str) -> None:
    alone = castsmith.optimize(
        onnx_ir.from_onnx_text(MODELS[name]), target=ANDROID, promotion=UNSAFE, lowerings=LOWERINGS
    ).model
    recorded = [Recorded(PASSES[other]) for other in PIPELINE]
    mixed = [step for pair in zip(recorded, itertools.cycle(THEIRS), strict=False) for step in pair]
    model = onnx_ir.from_onnx_text(MODELS[name])
    result = PassManager(mixed, steps=6, early_stop=True)(model)
    assert result.model is model
    assert result.modified
    assert not any(step.results[-1].modified for step in recorded)
    assert len(recorded[0].results) < 6
    if name != "bfloat16":
        assert run(model) == run(alone)


@pytest.mark.parametrize("name", MODELS)
def test_onnxscripts_optimizer_after_ours(name: str) -> None:
    model = onnx_ir.from_onnx_text(MODELS[name])
    Sequential(*(PASSES[other] for other in PIPELINE))(model)
    expected = run(model)
    optimize_ir(model)
    assert run(model) == expected


def test_optimize_leaves_the_types_of_its_input() -> None:
    model = onnx_ir.from_onnx_text(SHARED)
    before = onnx_ir.to_proto(model).SerializeToString()
    castsmith.optimize(model)
    assert onnx_ir.to_proto(model).SerializeToString() == before


@pytest.mark.parametrize("name", MODELS)
def test_a_pass_made_functional_leaves_its_input(name: str) -> None:
    model = onnx_ir.from_onnx_text(MODELS[name])
    before = onnx_ir.to_proto(model).SerializeToString()
    for other in PIPELINE:
        result = functionalize(PASSES[other])(model)
        assert result.model is not model
    assert onnx_ir.to_proto(model).SerializeToString() == before
