"""Random graphs of moves and casts, for the tests of place-casts."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.helper as helper
import onnx_ir

PAIRS = (
    ("FLOAT16", "FLOAT"),
    ("FLOAT", "FLOAT16"),
    ("BFLOAT16", "FLOAT"),
    ("INT32", "INT64"),
    ("INT8", "FLOAT"),
    ("INT64", "FLOAT"),
    ("BOOL", "INT64"),
    ("FLOAT16", "BFLOAT16"),
    ("FLOAT", "FLOAT8E4M3FN"),
    ("FLOAT16", "FLOAT", "DOUBLE"),
    ("INT8", "INT32", "INT64"),
    ("FLOAT16", "BFLOAT16", "FLOAT"),
)
"""Types of one graph; the first is favoured as the type of its inputs."""


def first_opset(seed: int) -> int:
    """The first opset at which the moves and casts of the seed's model are defined."""
    words = " ".join(PAIRS[seed % len(PAIRS)])
    return 21 if "FLOAT8" in words else 16 if "BFLOAT16" in words else 9


def random_model(seed: int, most_moves: int, opset: int = 21) -> onnx_ir.Model:
    """A model of moves and casts over values of shape [2, 2] or [4, 2], with a few users outside the region."""
    rng = np.random.default_rng(seed)
    types = [getattr(onnx.TensorProto, name) for name in PAIRS[seed % len(PAIRS)]]
    values: list[tuple[str, int, int]] = []
    inputs: list[onnx.ValueInfoProto] = []
    for number in range(int(rng.integers(1, 4))):
        dtype = types[0] if rng.random() < 0.6 else types[int(rng.integers(len(types)))]
        inputs.append(helper.make_tensor_value_info(f"x{number}", dtype, [2, 2]))
        values.append((f"x{number}", dtype, 2))
    nodes: list[onnx.NodeProto] = []
    for number in range(int(rng.integers(2, most_moves + 1))):
        while rng.random() < 0.45:
            values.append(_cast(rng, nodes, values, types))
        values.append(_move(rng, nodes, values, f"m{number}"))
    values.append(_cast(rng, nodes, values, types))
    used = {name for node in nodes for name in node.input}
    outputs = [value for value in values if value[0] not in used and not value[0].startswith("x")]
    outputs += [value for value in values if value[0] in used and value[0][0] != "x" and rng.random() < 0.15]
    graph = helper.make_graph(
        nodes,
        "g",
        inputs,
        [helper.make_tensor_value_info(name, dtype, [rows, 2]) for name, dtype, rows in outputs],
        [helper.make_tensor("mask", onnx.TensorProto.BOOL, [2, 1], [True, False])],
    )
    return onnx_ir.from_proto(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10))


def _pick(rng: np.random.Generator, values: list[tuple[str, int, int]]) -> tuple[str, int, int]:
    recent = values[-4:] if rng.random() < 0.7 else values
    return recent[int(rng.integers(len(recent)))]


def _cast(
    rng: np.random.Generator, nodes: list[onnx.NodeProto], values: list[tuple[str, int, int]], types: list[int]
) -> tuple[str, int, int]:
    source, _, rows = _pick(rng, values)
    to = types[int(rng.integers(len(types)))]
    nodes.append(helper.make_node("Cast", [source], [f"c{len(nodes)}"], to=to))
    return f"c{len(nodes) - 1}", to, rows


def _move(
    rng: np.random.Generator, nodes: list[onnx.NodeProto], values: list[tuple[str, int, int]], name: str
) -> tuple[str, int, int]:
    first, dtype, rows = _pick(rng, values)
    others = [value for value in values if value[1] == dtype and value[2] == rows == 2]
    kind = int(rng.integers(4)) if dtype != onnx.TensorProto.FLOAT8E4M3FN else 2
    if kind == 0 and others:
        second = others[int(rng.integers(len(others)))][0]
        nodes.append(helper.make_node("Concat", [first, second], [name], axis=0))
        return name, dtype, 4
    if kind == 1 and others:
        second = others[int(rng.integers(len(others)))][0]
        nodes.append(helper.make_node("Where", ["mask", first, second], [name]))
        return name, dtype, 2
    if kind == 2 and rows == 2:
        nodes.append(helper.make_node("Transpose", [first], [name]))
        return name, dtype, rows
    nodes.append(helper.make_node("Identity", [first], [name]))
    return name, dtype, rows
