"""AutoCast with bounds as its rule."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

convert_to_mixed_precision = pytest.importorskip("modelopt.onnx.autocast").convert_to_mixed_precision

from castsmith.integrations.autocast import BoundsRule

FLOAT, HALF = onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16


@pytest.fixture
def squares(tmp_path: Path) -> Path:
    """The squares of values of up to 1,000 reach 1,000,000; those of values up to 1 do not."""
    path = tmp_path / "model.onnx"
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["": 19]>
        g (float[4] x) => (float[4] y) {
            [square] a = Mul (x, x)
            [root] b = Sqrt (a)
            [half] y = Neg (b)
        }""")
    onnx.save(model, path)
    return path


def types(path: Path, rule: BoundsRule | None) -> list[int]:
    """The element types of the results of the nodes, without casts."""
    model = convert_to_mixed_precision(str(path), keep_io_types=True, data_max=float("inf"), custom_rule=rule)
    graph = onnx.shape_inference.infer_shapes(model).graph
    known = {value.name: value.type.tensor_type.elem_type for value in (*graph.value_info, *graph.output)}
    return [known[node.output[0]] for node in graph.node if node.op_type != "Cast"]


def test_nodes_that_may_overflow_stay_in_float(squares: Path) -> None:
    assert types(squares, None) == [HALF, HALF, HALF]
    rule = BoundsRule(squares, ranges={"x": (-1000, 1000)})
    assert types(squares, rule) == [FLOAT, FLOAT, HALF]
    assert rule.values == {"a": "a reaches 1e+06 (proven), beyond float16"}
    assert types(squares, BoundsRule(squares, ranges={"x": (-1, 1)})) == [HALF, HALF, HALF]
    assert types(squares, BoundsRule(squares, to="bfloat16", ranges={"x": (-1000, 1000)})) == [HALF, HALF, HALF]


def test_what_is_measured_counts_where_nothing_that_fits_is_proven(squares: Path) -> None:
    small, large = ([{"x": np.array([size, 0, 1, 2], np.float32)}] for size in (10, 1000))
    assert types(squares, BoundsRule(squares, ranges={"x": (-1000, 1000)}, inputs=small)) == [HALF, HALF, HALF]
    assert types(squares, BoundsRule(squares, inputs=large)) == [FLOAT, FLOAT, HALF]


def test_a_sum_inside_a_node_counts(tmp_path: Path) -> None:
    """The mean fits, and so does each element; the sum before the division does not."""
    path = tmp_path / "model.onnx"
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["": 18]>
        g (float[1, 4000] x) => (float[1, 4000] y) {
            axes = Constant <value_ints = [1]> ()
            [mean] m = ReduceMean (x, axes)
            [centre] y = Sub (x, m)
        }""")
    onnx.save(model, path)
    inputs = [{"x": np.full((1, 4000), 1000, np.float32)}]
    assert types(path, None)[-2:] == [HALF, HALF]
    assert types(path, BoundsRule(path, inputs=inputs))[-2:] == [FLOAT, HALF]
