"""Any one random change of a real model is found by diff and named; renaming and reordering are not reported.

A sample is run; CASTSMITH_MUTATIONS=1000 runs as many.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from functools import cache
from pathlib import Path

import onnx
import onnx.parser
import onnx_ir
import pytest
from onnx import NodeProto, TensorProto, helper

from castsmith.verification.diff.models import ModelDiff, diff
from tests.sampling import sampled

FOLDER = Path(__file__).parents[3] / "models"
MODELS = sorted(path for path in FOLDER.glob("*.onnx"))
COUNT = int(os.environ.get("CASTSMITH_MUTATIONS", "70"))

Mutation = Callable[[onnx.ModelProto, random.Random], "str | None"]
"""Changes the model and returns a name that the difference has to mention; None where it does not apply."""


@cache
def original(path: Path) -> bytes:
    proto = onnx.load_model(path)
    for index, node in enumerate(proto.graph.node):
        node.name = node.name or f"node_{index}"
    return proto.SerializeToString()


def computing(proto: onnx.ModelProto) -> list[NodeProto]:
    """Nodes that some output depends on: a change of another is found too, but may pair with its equal."""
    needed = {value.name for value in proto.graph.output}
    found: list[NodeProto] = []
    for node in reversed(proto.graph.node):
        if needed & set(node.output):
            found.append(node)
            needed |= {*node.input, *(name for a in node.attribute for n in a.g.node for name in n.input)}
            needed |= {value.name for a in node.attribute for value in a.g.output}
    return [node for node in found if node.op_type != "Constant"]


def change_operator(proto: onnx.ModelProto, rng: random.Random) -> str:
    node = rng.choice(computing(proto))
    node.op_type += "Other"
    return node.op_type


def remove_node(proto: onnx.ModelProto, rng: random.Random) -> str | None:
    outputs = {value.name for value in proto.graph.output}
    candidates = [n for n in computing(proto) if len(n.output) == 1 and n.input and n.output[0] not in outputs]
    if not candidates:
        return None
    node = rng.choice(candidates)
    replaced, by = node.output[0], node.input[0]
    proto.graph.node.remove(node)
    for graph in graphs(proto.graph):
        for other in graph.node:
            other.input[:] = [by if name == replaced else name for name in other.input]
        for value in graph.output:
            value.name = by if value.name == replaced else value.name
    return replaced


def add_node(proto: onnx.ModelProto, rng: random.Random) -> str | None:
    node = rng.choice(computing(proto))
    places = [index for index, name in enumerate(node.input) if name]
    if not places:
        return None
    place = rng.choice(places)
    new = helper.make_node("Marker", [node.input[place]], ["mutation_output"], name="mutation", domain="other")
    node.input[place] = "mutation_output"
    proto.graph.node.insert(list(proto.graph.node).index(node), new)
    return "mutation"


def change_attribute(proto: onnx.ModelProto, rng: random.Random) -> str | None:
    pairs = [(n, a) for n in computing(proto) for a in n.attribute if a.type in (1, 2, 3, 6, 7)]
    if not pairs:
        return None
    _, attribute = rng.choice(pairs)
    if attribute.type == 1:
        attribute.f += 1.5
    elif attribute.type == 2:
        attribute.i += 1
    elif attribute.type == 3:
        attribute.s += b"x"
    else:
        (attribute.floats if attribute.type == 6 else attribute.ints).append(7)
    return attribute.name


def add_attribute(proto: onnx.ModelProto, rng: random.Random) -> str:
    rng.choice(computing(proto)).attribute.append(helper.make_attribute("mutation", 3))
    return "mutation"


def change_constant(proto: onnx.ModelProto, rng: random.Random) -> str | None:
    used = {name for graph in graphs(proto.graph) for node in graph.node for name in node.input}
    needed = {name for node in computing(proto) for name in node.input} & used
    tensors = [tensor for tensor in proto.graph.initializer if tensor.raw_data and tensor.name in needed]
    if not tensors:
        return None
    tensor = rng.choice(tensors)
    content = bytearray(tensor.raw_data)
    content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    tensor.raw_data = bytes(content)
    return tensor.name


def change_input_type(proto: onnx.ModelProto, rng: random.Random) -> str:
    value = rng.choice(proto.graph.input)
    dtype = value.type.tensor_type.elem_type
    value.type.tensor_type.elem_type = TensorProto.UINT16 if dtype != TensorProto.UINT16 else TensorProto.INT16
    return value.name


def change_dimension(proto: onnx.ModelProto, rng: random.Random) -> str:
    value = rng.choice(proto.graph.output)
    value.type.tensor_type.shape.dim.add().dim_value = 3
    return value.name


def swap_operands(proto: onnx.ModelProto, rng: random.Random) -> str | None:
    nodes = [node for node in computing(proto) if len({name for name in node.input if name}) > 1]
    if not nodes:
        return None
    node = rng.choice(nodes)
    first, second = rng.sample(range(len(node.input)), 2)
    if node.input[first] == node.input[second] or not (node.input[first] and node.input[second]):
        return None
    node.input[first], node.input[second] = node.input[second], node.input[first]
    return node.name


def graphs(graph: onnx.GraphProto) -> list[onnx.GraphProto]:
    inner = [a.g for node in graph.node for a in node.attribute if a.HasField("g")]
    return [graph, *(found for one in inner for found in graphs(one))]


MUTATIONS: tuple[Mutation, ...] = (
    *(change_operator, remove_node, add_node, change_attribute, add_attribute),
    *(change_constant, change_input_type, change_dimension, swap_operands),
)


def compare(a: bytes, b: onnx.ModelProto) -> ModelDiff:
    return diff(onnx_ir.from_proto(onnx.ModelProto.FromString(a)), onnx_ir.from_proto(b))


@pytest.mark.parametrize(
    "seed", sampled("random changes", range(COUNT), COUNT, cover=lambda seed: [seed % len(MUTATIONS)])
)
def test_a_random_change_is_found_and_named(seed: int) -> None:
    rng, mutation = random.Random(seed), MUTATIONS[seed % len(MUTATIONS)]
    name, path, mutated = None, MODELS[0], onnx.ModelProto()
    while name is None:
        path = rng.choice(MODELS)
        mutated = onnx.ModelProto.FromString(original(path))
        name = mutation(mutated, rng)
    found = compare(original(path), mutated).changes
    assert found, (mutation.__name__, path.stem, name)
    text = "\n".join(f"{c.place} {c.subject} {c.before} {c.after}" for c in found)
    assert name in text, (mutation.__name__, path.stem, name, text)
    assert len(found) <= 12


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_renaming_and_reordering_are_no_difference(path: Path) -> None:
    rng, other = random.Random(0), onnx.ModelProto.FromString(original(path))
    interface = {value.name for value in (*other.graph.input, *other.graph.output)}
    names = {name for graph in graphs(other.graph) for node in graph.node for name in (*node.input, *node.output)}
    names |= {tensor.name for graph in graphs(other.graph) for tensor in graph.initializer}
    new = {name: f"r{index}" for index, name in enumerate(sorted(names - interface - {""}))}
    for graph in graphs(other.graph):
        for node in graph.node:
            node.input[:] = [new.get(name, name) for name in node.input]
            node.output[:] = [new.get(name, name) for name in node.output]
            node.name = ""
        for value in (*graph.initializer, *graph.value_info, *graph.output, *graph.input):
            value.name = new.get(value.name, value.name)
    nodes, ready = (
        list(other.graph.node),
        {value.name for value in (*other.graph.input, *other.graph.initializer)} | {""},
    )
    ordered: list[NodeProto] = []
    while nodes:
        free = [node for node in nodes if needs(node) <= ready]
        node = rng.choice(free)
        nodes.remove(node)
        ordered.append(NodeProto.FromString(node.SerializeToString()))
        ready |= set(node.output)
    del other.graph.node[:]
    other.graph.node.extend(ordered)
    assert compare(original(path), other).changes == ()


def needs(node: NodeProto) -> set[str]:
    inner = [graph for a in node.attribute if a.HasField("g") for graph in graphs(a.g)]
    made = {name for graph in inner for one in graph.node for name in one.output}
    made |= {value.name for graph in inner for value in (*graph.input, *graph.initializer)}
    used = {name for graph in inner for one in graph.node for name in one.input}
    used |= {value.name for graph in inner for value in graph.output}
    return set(node.input) | (used - made)


_HEAD = '<ir_version: 10, opset_import: ["" : 21, "f" : 1]> g (float[2] x) => (float[2] y) '
_STEPS = "{ m = Sqrt (x) u = Elu <alpha = 0.5> (m) y = Abs (u) }"
MATCHED: dict[str, tuple[str, str, list[str]]] = {
    "one of the same name, and another": (
        "{ y = Neg (x) }", "{ y = Neg (x) q = Neg (x) }", ["node-added g: q (Neg)"],
    ),
    "two of the same names in another order": (
        "<float[2] u, float[3] v> { u = f.n (x) v = f.n (x) y = Neg (x) }",
        "<float[2] u, float[3] v> { v = f.n (x) u = f.n (x) y = Neg (x) }",
        [],
    ),
    "two that compute the same as one": (
        "{ u = Neg (x) v = Neg (x) y = Add (u, v) }", "{ u = Neg (x) y = Add (u, u) }", ["node-removed g: v (Neg)"],
    ),
    "unused ones of other operators": (
        "{ u = Abs (x) y = Neg (x) }", "{ w = Sqrt (x) y = Neg (x) }",
        ["node-added g: w (Sqrt)", "node-removed g: u (Abs)"],
    ),
    "unused ones without a name": (
        "{ u = f.n <a = 1> (x) y = Neg (x) }", "{ w = f.n <a = 2> (x) y = Neg (x) }",
        ["node-added g: w (n)", "node-removed g: u (n)"],
    ),
    "unused ones of one result": (
        "{ u = f.n <a = 1> (x) y = Neg (x) }", "{ u = f.n <a = 2> (x) y = Neg (x) }", ["attribute-changed g: u (n)"],
    ),
    "unused ones of one name": (
        "{ [n] u = f.n <a = 1> (x) y = Neg (x) }", "{ [n] w = f.n <a = 2> (x) y = Neg (x) }",
        ["attribute-changed g: n (n)"],
    ),
    "ones of one operator before neighbors": (
        _STEPS, "{ m = Sqrt (x) t = Elu <alpha = 0.25> (m) w = Neg (t) y = Abs (w) }",
        ["attribute-changed g: u (Elu)", "node-added g: w (Neg)", "operand-changed g: y (Abs)"],
    ),
    "one of another operator between neighbors": (
        _STEPS.replace("Abs (u)", "f.n (u, m)"), _STEPS.replace("u", "v").replace("Elv <alpha = 0.5>", "Neg")
        .replace("Abs (v)", "f.n (v, m)"), ["operator-changed g: u (Elu)"],
    ),
    "consumers by the place of the operand": (
        "{ m = Sqrt (x) u = f.n <a = 1> (m, x) v = f.n <a = 2> (x, m) y = f.o (u, v) }",
        "{ m = Sqrt (x) w = f.n <a = 4> (x, m) t = f.n <a = 3> (m, x) y = f.p (x, x) }",
        ["attribute-changed g: u (n)", "attribute-changed g: v (n)", "operator-changed g: y (o)"],
    ),
    "consumers in order": (
        "{ m = Sqrt (x) u = f.n <a = 1> (m) v = f.n <a = 2> (m) y = Neg (x) }",
        "{ m = Sqrt (x) w = f.n <a = 3> (m) t = f.n <a = 4> (m) y = Neg (x) }",
        ["attribute-changed g: u (n)", "attribute-changed g: v (n)"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MATCHED)
def test_which_nodes_are_matched(name: str) -> None:
    before, after, expected = MATCHED[name]
    found = diff(*(onnx.parser.parse_model(_HEAD + text) for text in (before, after))).changes
    assert sorted(f"{change.kind} {change.place}" for change in found) == expected


def test_nodes_without_results() -> None:
    models = [onnx.parser.parse_model(_HEAD + "{ y = Neg (x) }") for _ in range(2)]
    for model, name in zip(models, "no", strict=True):
        model.graph.node.add(op_type=name, domain="f", input=["x"])
    assert [change.kind for change in diff(*models).changes] == ["node-added", "node-removed"]
