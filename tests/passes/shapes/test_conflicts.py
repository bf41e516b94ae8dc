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
from tests.graphs.contradictory_shapes import contradictory

_LEVELS = (
    onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
    onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
)


def _session(model: onnx.ModelProto, level: Any) -> Any:
    """A session, or None if ONNX Runtime does not load the model."""
    options: Any = onnxruntime.SessionOptions()
    options.graph_optimization_level, options.log_severity_level = level, 4
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


def main(count: int, first: int = 0) -> None:
    """Judge random models, and print what was found."""
    judged = [_judge(seed) for seed in range(first, first + count)]
    print(f"{count} models, {sum(r for r, _ in judged)} rewrites, {sum(c > 0 for _, c in judged)} with a conflict")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
