"""The ways that `fit` tries, and how it ranks them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

import castsmith
from tests.lowering.fit.models import HEAD, brain_floats, doubles, four_bits, plain
from tests.lowering.fit.test_run import fitted


def test_weights_alone_are_a_way_whose_casts_run_once() -> None:
    model = onnx.parser.parse_model(f"{HEAD} g (float[1, 64] x) => (float[1, 64] y) {{ [mul] y = MatMul (x, w) }}")
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.eye(64, dtype=np.float32), "w"))
    result = castsmith.fit(model, target="onnxruntime-cpu", max_error=0.01, all_ways=True)
    (alone,) = (way for way in result.ways if "weights_only" in way.steps[0].options)
    assert alone.legal
    assert alone.error is not None
    assert alone.cost is not None
    assert result.before is not None
    assert alone.cost.tensor_bytes == result.before.tensor_bytes // 2
    assert alone.cost.launches == result.before.launches
    assert "--weights-only" in alone.commands("in.onnx", "out.onnx")[0]
    assert [step.command for step in result.plan] == ["optimize"]  # nothing is rounded where it is not needed


def test_all_ways_are_ranked_and_different() -> None:
    result = castsmith.fit(four_bits(), target="onnxruntime-webgpu", all_ways=True, max_error=0.1)
    ranks = [(not way.legal, way.lossy, 0 if way.cost is None else way.cost.total) for way in result.ways]
    assert ranks == sorted(ranks)
    assert len({(way.cost, way.obstacles, way.changes, way.lossy) for way in result.ways}) == len(result.ways)
    assert len(result.ways) > len(fitted("4 bits").ways)
    assert result.ways[0].steps == tuple(result.plan)


@pytest.mark.parametrize(
    ("model", "target", "tried"),
    [
        (plain, "tensorrt-11", ["optimize()"]),
        # trt has no zero points, and the packed weights need shifts, which TensorRT lacks.
        (four_bits, "tensorrt-11", ["optimize()", "optimize(storage='byte')"]),
        (four_bits, "onnxruntime-webgpu", ["optimize()", "optimize(vendor='com.microsoft')"]),
        (four_bits, "onnxruntime-cpu", ["optimize()"]),
        # TensorRT computes in float itself; of bfloat16, which ONNX Runtime's CPU does not, the conversion is tried.
        (doubles, "onnxruntime-cpu", ["optimize()"]),
        (brain_floats, "tensorrt-11", ["optimize()"]),
        (brain_floats, "onnxruntime-cpu", ["optimize()", "convert(to='float', lower=('*',))", "optimize()"]),
    ],
)
def test_no_step_is_tried_that_cannot_be_better(model: Any, target: str, tried: list[str]) -> None:
    done = list[str]()
    castsmith.fit(model(), target=target, progress=done.append)
    steps = [text.replace(f", target='{target}'", "").replace(f"target='{target}'", "") for text in done]
    assert [text.replace("(, ", "(") for text in steps if text != "measuring"] == tried
