"""Valid indices, and what depends on inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnx_ir
import pytest

from castsmith.verification.evaluate.indices import depends_on_inputs, index_bounds, invalid_indices
from tests.verification.evaluate.test_operators import HEAD, node_of


@pytest.mark.parametrize(
    ("node", "shapes", "expected"),
    [
        (node_of("Gather"), [(3, 4), (2,)], [(1, -3, 2)]),
        (node_of("Gather", axis=1), [(3, 4), (2,)], [(1, -4, 3)]),
        (node_of("Gather", axis=-2), [(3, 4), (2,)], [(1, -3, 2)]),
        (node_of("Gather", axis=2), [(3, 4), (2,)], []),
        (node_of("Gather", axis=-3), [(3, 4), (2,)], []),
        (node_of("Gather"), [None, (2,)], []),
        (node_of("Gather", domain="f"), [(3, 4), (2,)], []),
        (node_of("GatherND"), [(3, 4, 5), (2, 2)], [(1, -3, 2)]),
        (node_of("GatherND", batch_dims=1), [(3, 4, 2), (3, 2)], [(1, -2, 1)]),
        (node_of("GatherND"), [(3, 4), ()], []),
        (node_of("Add"), [(3,), (3,)], []),
        (node_of("EmbedLayerNormalization", "com.microsoft", 5), [(1, 2), (1, 2), (9, 4), (7, 4), (3, 4)],
         [(0, 0, 8), (1, 0, 2)]),
        (node_of("EmbedLayerNormalization", "com.microsoft", 3), [(1, 2), (1, 2), (9, 4)], [(0, 0, 8)]),
    ],
)  # fmt: skip
def test_bounds_of_indices(node: onnx_ir.Node, shapes: list[Any], expected: list[Any]) -> None:
    assert list(index_bounds(node, shapes)) == expected


@pytest.mark.parametrize(
    ("node", "shape", "indices", "text"),
    [
        (node_of("Gather"), (3,), [-3, 2], None),
        (node_of("Gather"), (3,), [-4, 2], "Gather gets indices from -4 to 2, expected -3 to 2."),
        (node_of("Gather"), (3,), [0, 3], "Gather gets indices from 0 to 3, expected -3 to 2."),
        (node_of("Gather"), (3,), [], None),
        (node_of("GatherND"), (3, 5), [[2, 4], [-3, -5]], None),
        (node_of("GatherND"), (3, 5), [[3, 0]], "GatherND gets indices from 0 to 3, which exceed axes of [3, 5]."),
        (node_of("GatherND"), (3, 5), [[0, -6]], "GatherND gets indices from -6 to 0, which exceed axes of [3, 5]."),
    ],
)
def test_invalid_indices(node: onnx_ir.Node, shape: tuple[int, ...], indices: Any, text: str | None) -> None:
    found = invalid_indices(node, [np.zeros(shape), np.array(indices, np.int64)])
    assert (None if found is None else found[1]) == text
    assert invalid_indices(node, [np.zeros(shape), None]) is None
    assert invalid_indices(node, [np.zeros(shape), np.array(indices, np.float32)]) is None


def test_what_depends_on_inputs() -> None:
    text = """g (bool c, float[2] x, float[2] v = {1, 2}) => (float[2] y) <float[2] w = {1, 2}> {
        f = Neg (v) a = Neg (w) s = Shape (x) z = Size (x)
        b = Add (a, x) d = Cast <to = 1> (s) e = Add (d, a)
        i = If (c) <then_branch = t () => (float[2] p) { p = Neg (w) },
        else_branch = e () => (float[2] q) { q = Abs (w) }>
        y = Neg (i) }"""
    graph = onnx_ir.from_proto(onnx.parser.parse_model(HEAD % 21 + text)).graph
    made = {value.name: value for node in graph for value in node.outputs}
    expected = {"a": False, "s": False, "z": False, "b": True, "f": True, "d": False, "e": False, "i": True, "y": True}
    assert {name: depends_on_inputs(value) for name, value in made.items()} == expected
    assert depends_on_inputs(graph.inputs[0])
    assert not depends_on_inputs(None)
    assert not depends_on_inputs(graph.initializers["w"])
