"""Shape arithmetic that leads to operands that do not fit: what loads in ONNX Runtime loads after, with the same bits.

python -m tests.passes.shapes.test_conflicts 1000 [FIRST]
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import onnx
import onnx_ir
import onnxruntime
import pytest

import castsmith
from castsmith.analysis.shapes.walk import Shapes
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.passes.core.session import Session
from castsmith.passes.shapes.conflicts import conflicts_of
from tests.analysis.shapes.test_walk import shapes_of
from tests.graphs.contradictory_shapes import contradictory

_LEVELS = (
    onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
    onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
)


def _session(model: onnx.ModelProto, level: Any) -> Any:
    """A session, or None if ONNX Runtime does not load the model."""
    options: Any = onnxruntime.SessionOptions()
    options.graph_optimization_level, options.log_severity_level = level, 4
    options.intra_op_num_threads = 1
    try:
        return onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    except Exception:  # its classes have no common base
        return None


def _results(session: Any, feeds: dict[str, np.ndarray]) -> list[np.ndarray] | None:
    try:
        return session.run(None, {each.name: feeds[each.name] for each in session.get_inputs()})
    except Exception:  # its classes have no common base
        return None


def _judge(seed: int) -> tuple[int, int]:
    """The numbers of rewrites and of refusals for a conflict."""
    model, feeds = contradictory(seed)
    result = castsmith.optimize(model)
    after = onnx_ir.to_proto(result.model)
    for level in _LEVELS:
        old = _session(model, level)
        if old is None:
            continue
        new = _session(after, level)
        assert new is not None, f"seed {seed}: no longer loads"
        expected = _results(old, feeds)
        if expected is not None:
            found = _results(new, feeds)
            assert found is not None, f"seed {seed}: no longer runs"
            for a, b in zip(expected, found, strict=True):
                assert (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes()), f"seed {seed}"
    return len(result.rewrites), sum(each.rule == "shape-conflict" for each in result.refusals)


@pytest.mark.parametrize("first", [20, 45])
def test_what_loads_before_loads_after(first: int) -> None:
    rewrites, conflicts = map(sum, zip(*map(_judge, range(first, first + 20)), strict=True))
    assert rewrites > 20
    assert conflicts


CONSTANTS = {
    "one": "value_ints = [3]",
    "two": "value_ints = [3, 4]",
    "three": "value_ints = [1, 2, 3]",
    "i": "value_int = 3",
    "large": "value_ints = [100000]",
    "deep": "value = int64[1,1] {3}",
    "tenth": "value_floats = [0.1]",
}
CONFLICTS: list[tuple[int, str, list[str]]] = [
    (21, "y = Add (w, e)", ["w [3, 4] and e [?, 5]"]),
    (6, "y = Add (w, e)", []),  # the attribute `broadcast` decides there
    (21, "y = local.Add (w, e)", []),
    (21, "y = Add (w, o)", []),
    (21, "y = Add (half, w)", []),
    (21, "y = Add (one, i)", []),
    (21, "u = Reshape (x, l) y = Add (u, u)", []),
    (21, "u = Reshape (x, l) y = Sum (w, u, e)", ["w [3, 4] and e [?, 5]"]),
    (21, "y = Concat <axis = 0> (w, e)", ["w [3, 4] and e [?, 5]"]),
    (21, "y = Concat <axis = -1> (w, e)", []),
    (21, "y = Concat <axis = 0> (w, o)", []),
    (21, "y = Concat <axis = 0> (w, x)", ["w [3, 4] and x [N, 4, M]"]),
    (21, "y = Concat <axis = 0> (one, i)", ["one [1] and i []"]),
    (21, "u = Reshape (x, l) y = Concat <axis = 0> (w, u, e)", ["w [3, 4] and e [?, 5]"]),
    (21, "y = local.Concat <axis = 0> (w, e)", []),
    (21, "y = MatMul (w, z)", ["w [3, 4] and z [7, N]"]),
    (21, "y = com.microsoft.FusedMatMul (w, z)", []),
    (18, "y, u, v = Split <num_outputs = 2> (w)", []),  # which ends the process of onnx
    (21, "y = Slice (w, three, two, , two)", ["w [3, 4] and three [3] and two [2] and two [2]"]),
    (21, "y = Range (one, one, one)", []),
    (21, "y = Range (two, two, two)", ["two [2] and two [2] and two [2]"]),
    (21, "y = Range (deep, deep, deep)", ["deep [1, 1] and deep [1, 1] and deep [1, 1]"]),
    (21, "y = Range (one, large, one)", ["one [1] and large [1] and one [1]"]),
    (21, "y = Range (tenth, tenth, tenth)", ["tenth [1] and tenth [1] and tenth [1]"]),
    (21, "k = Shape <end = 1> (x) y = Range (one, k, one)", []),
]


def test_each_condition_decides_a_model() -> None:
    constants = " ".join(f"{name} = Constant <{value}> ()" for name, value in CONSTANTS.items())
    for opset, nodes, expected in CONFLICTS:
        model, shapes = shapes_of(str(opset), f"{constants} {nodes}")
        assert list(conflicts_of(shapes, list(model.graph)).values()) == expected, nodes


def test_declarations_conflict_whether_they_were_used_or_not() -> None:
    head = '<ir_version: 8, opset_import: ["": 21, "local": 1]> g (float[N] p, float[3] q) => (y) <float[2] a>'
    for operator in ("Neg", "local.Neg"):  # whose result is inferred to be of [N], and not inferred
        session = Session(onnx_ir.from_onnx_text(f"{head} {{ a = {operator} (p) y = Add (a, q) }}"))
        shapes = Shapes(session.model, session.inference(PromotionRules()))
        for start in (shapes, shapes.restarted(declared=False)):
            assert list(conflicts_of(start, session.nodes).values()) == ["a [2] and q [3]"], operator


def main(count: int, first: int = 0) -> None:
    """Judge random models, and print what was found."""
    judged = [_judge(seed) for seed in range(first, first + count)]
    print(f"{count} models, {sum(r for r, _ in judged)} rewrites, {sum(c > 0 for _, c in judged)} with a conflict")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
