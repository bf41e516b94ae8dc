"""Random graphs of mixed types come out valid, load in ONNX Runtime, and compute what promotion at each node means."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import onnx
import onnx.checker
import onnx.shape_inference
import onnx_ir
import onnxruntime
import pytest
from hypothesis import HealthCheck, Phase, assume, given, reject, settings, strategies as st
from numpy.typing import NDArray
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidGraph, NotImplemented as NoKernel

from castsmith.ir.io.loading import from_proto
from castsmith.ir.records import Severity
from castsmith.numerics.cast.convert import cast
from castsmith.numerics.errors import PromotionError
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.passes.promote.insert import InsertPromoteTypes
from castsmith.passes.promote.resolve import ResolvePromoteTypes
from castsmith.verification.evaluate.engines import EngineError
from tests.evaluator import evaluate
from tests.graphs.inputs import inputs_for
from tests.graphs.random_graphs import LENGTH, random_model
from tests.sampling import check_all, shortened

pytestmark = pytest.mark.usefixtures("engines_here")

OPENVINO = PromotionRules(promote_unsafe=True)
RULES = [OPENVINO, *(PromotionRules.preset(name) for name in ("torch", "numpy", "jax", "tensorflow"))]
PHASES = (Phase.explicit, Phase.generate)
"""A seed does not shrink to anything simpler."""
SEEDS = st.integers(0, 2**32 - 1)


def insert(rules: PromotionRules, *, keep_output_types: bool = False) -> InsertPromoteTypes:
    return InsertPromoteTypes(
        **{name: getattr(rules, name) for name in rules.__dataclass_fields__}, keep_output_types=keep_output_types
    )


def with_ranks(model: onnx_ir.Model, ranks: dict[str, int]) -> onnx_ir.Model:
    """The model with the shapes that an exporter writes down, and that rules about scalars need."""
    for scope in (model.graph, *model.functions.values()):
        for graph in (scope, *scope.subgraphs()):
            for value in (*graph.inputs, *(output for node in graph for output in node.outputs)):
                if value.name in ranks:
                    value.shape = onnx_ir.Shape([LENGTH] * ranks[value.name])
    return model


def accepted(model: onnx_ir.Model) -> None:
    proto = onnx_ir.to_proto(model)
    onnx.checker.check_model(proto, full_check=True)
    onnx.shape_inference.infer_shapes(proto, check_type=True, strict_mode=True, data_prop=True)
    quiet = onnxruntime.SessionOptions()
    quiet.log_severity_level, quiet.intra_op_num_threads = 4, 1
    quiet.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        onnxruntime.InferenceSession(proto.SerializeToString(), quiet, providers=["CPUExecutionProvider"])
    except NoKernel:
        # The types are right; this runtime has no kernel for one of them.
        return
    except (InvalidGraph, Fail) as error:
        # It replaces PRelu and its like by bodies of older operators, whose nodes have no name; all of ours have one.
        if "bfloat16" not in str(error) or "in node ()" not in str(error):
            raise


def same_bits(old: list[NDArray[Any]], new: list[NDArray[Any]]) -> None:
    for before, after in zip(old, new, strict=True):
        expected = cast(before, onnx_ir.DataType.from_numpy(after.dtype)).reshape(-1)
        after = after.reshape(-1)
        both_nan = (expected != expected) & (after != after)
        equal = expected.view(np.uint8) == after.view(np.uint8)
        assert np.all(equal.reshape(-1, after.itemsize).all(axis=1) | both_nan)


def repaired(model: onnx_ir.Model, rules: PromotionRules, *, keep: bool) -> onnx_ir.Model | None:
    """The model made right, or None where it is refused for a reason."""
    try:
        records = insert(rules, keep_output_types=keep).call(model).records
    except PromotionError as error:
        if rules is OPENVINO and "opset" not in str(error):
            raise
        return None
    refused = [d for d in records.diagnostics if d.severity is Severity.ERROR]
    return None if refused or records.refusals else model


@settings(
    max_examples=shortened("random graphs of mixed types", 240, 10),
    deadline=None,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
    phases=PHASES,
)
@given(SEEDS, st.booleans())
def test_a_random_graph_is_valid_and_means_the_same(seed: int, keep: bool) -> None:
    check(*random_model(Random(seed)), OPENVINO, keep=keep)


@pytest.mark.parametrize("rules", RULES[1:], ids=lambda rules: rules.library)
def test_so_it_is_with_every_preset(rules: PromotionRules) -> None:
    @settings(
        max_examples=shortened("random graphs for each preset", 40, 3),
        deadline=None,
        suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
        phases=PHASES,
    )
    @given(SEEDS)
    def run(seed: int) -> None:
        check(*random_model(Random(seed), functions=seed % 2 == 0), rules, keep=False)

    run()


def check(proto: onnx.ModelProto, ranks: dict[str, int], rules: PromotionRules, *, keep: bool) -> None:
    before = with_ranks(from_proto(proto), ranks)
    model = repaired(with_ranks(from_proto(proto), ranks), rules, keep=keep)
    assume(model is not None)
    assert model is not None
    accepted(model)
    saved = onnx_ir.to_proto(model)
    assert not insert(rules).call(model).records.rewrites
    assert onnx_ir.to_proto(model) == saved
    ResolvePromoteTypes().call(model)
    accepted(model)
    reloaded = onnx_ir.from_proto(saved)
    ResolvePromoteTypes().call(reloaded)
    assert list(onnx_ir.to_proto(reloaded).graph.node) == list(onnx_ir.to_proto(model).graph.node)
    feeds = inputs_for(before, ranks.get("x4", 0))
    with np.errstate(all="ignore"):
        same_bits(meaning(before, feeds, rules), evaluate(model, feeds))


def meaning(model: onnx_ir.Model, feeds: dict[str, NDArray[Any]], rules: PromotionRules) -> list[NDArray[Any]]:
    """Return the evaluator's results for a mixed graph; an example that it does not support is skipped.

    It goes turn by turn, so a state that the body widens is still narrow in the first turn, where a library may have no
    common type for it (bool and uint64 in PyTorch). The pass widens the state at entry and never meets that pair. Under
    the rules of OpenVINO every pair has a common type.
    """
    try:
        return evaluate(model, feeds, rules)
    except (PromotionError, EngineError) as error:  # EngineError: within a Scan
        if rules is OPENVINO or "no common type" not in str(error):
            raise
        reject()


CONVERTED = "castsmith.ConvertPromoteTypes <promote_unsafe = 1>"
RESOLVED: list[tuple[str, list[str], list[str], list[str]]] = [
    # the nodes, those after it with their operands, what is said of each, the refusals
    (f"a, b = {CONVERTED} (x, i) y = Add (a, b)", ["Cast i", "Add x,1"], ["float; 1"], []),
    (f"a, b = {CONVERTED} (x, x) y = Add (a, b)", ["Add x,x"], ["float; 0"], []),
    (f"a, b = {CONVERTED} (i, h) y = Add (a, b)", ["Cast i", "Add 1,h"], ["float16; 1"], []),
    # A graph has one Cast of a value to a type.
    (f"a, b = {CONVERTED} (x, i) c, d = {CONVERTED} (i, x) e = Add (a, b) y = Sub (c, d)",
     ["Cast i", "Add x,1", "Sub 1,x"], ["float; 1", "float; 0"], []),
    (f"m = com.acme.Any (x) a, b = {CONVERTED} (m, x) y = Add (a, b)",
     ["Any x", "ConvertPromoteTypes m,x", "Add a,b"], [], ["the type of an operand is unknown"]),
    ("y = Add (x, x)", ["Add x,x"], [], []),
]  # fmt: skip


def require_resolved(body: str, expected: list[str], said: list[str], refused: list[str]) -> None:
    text = f"""<ir_version: 10, opset_import: ["": 21, "castsmith": 1, "com.acme": 1]>
    g (float[2] x, int32[2] i, float16[2] h) => (y) {{ {body} }}"""
    model = onnx_ir.from_onnx_text(text)
    result = ResolvePromoteTypes()(model)
    casts = [node.outputs[0] for node in model.graph if node.op_type == "Cast"]
    names = {value: str(number) for number, value in enumerate(casts, 1)}
    nodes = [
        f"{node.op_type} {','.join(names.get(v, v.name or '') for v in node.inputs if v is not None)}"
        for node in model.graph
    ]
    assert nodes == expected
    reasons = [record.reason for record in result.records.rewrites if record.rule == "resolve-promotion"]
    assert reasons == [f"the common type is {each} of 2 operands need a Cast" for each in said]
    assert [refusal.reason for refusal in result.records.refusals] == refused


def test_the_casts_that_are_needed() -> None:
    check_all(require_resolved, RESOLVED)
