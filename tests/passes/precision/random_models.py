"""Random small models over every feature that a conversion has to follow: opsets, types, scopes, functions, domains."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper

FLOAT, HALF, DOUBLE, INT64, BOOL, UINT8 = 1, 10, 11, 7, 9, 2
SIDE = 4
SHAPE = [SIDE, SIDE]
NEWEST = 26
"""The newest opset that the runtime loads."""

Value = tuple[str, int]
"""A value of shape [4, 4]: its name and element type."""


@dataclass
class Scope:
    """A graph or function body in the making."""

    nodes: list[onnx.NodeProto] = field(default_factory=list[onnx.NodeProto])
    values: list[Value] = field(default_factory=list[Value])


@dataclass
class Maker:
    """Draws a model."""

    draw: random.Random
    opset: int
    ir: int
    scope: Scope = field(default_factory=Scope)
    initializers: list[onnx.TensorProto] = field(default_factory=list[onnx.TensorProto])
    functions: list[onnx.FunctionProto] = field(default_factory=list[onnx.FunctionProto])
    domains: set[str] = field(default_factory=set[str])
    names: int = 0
    depth: int = 0
    in_function: bool = False
    contrib: bool = False
    """Operators of com.microsoft in place of subgraphs: the runtime crashes on both in one model."""

    def fresh(self, stem: str) -> str:
        self.names += 1
        return f"{stem}_{self.names}"

    def node(self, op_type: str, inputs: Sequence[str], outputs: int | str = 1, domain: str = "", **kept: Any) -> str:
        names = [outputs] if isinstance(outputs, str) else [self.fresh(op_type.lower()) for _ in range(outputs)]
        written = onnx.helper.make_node(op_type, inputs, names, name=self.fresh("node"), domain=domain, **kept)
        self.scope.nodes.append(written)
        if domain:
            self.domains.add(domain)
        return names[0]

    def constant(self, array: np.ndarray[Any, Any]) -> str:
        name = self.fresh("c")
        tensor = onnx.numpy_helper.from_array(np.asarray(array), name)
        if self.in_function or self.depth or self.draw.random() < 0.4:
            self.scope.nodes.append(onnx.helper.make_node("Constant", [], [name], value=tensor))
        else:
            self.initializers.append(tensor)
        return name

    def weight(self, dtype: int, spread: float = 0.3) -> str:
        draw = np.random.default_rng(self.draw.randrange(1 << 30))
        return self.constant(draw.normal(0, spread, SHAPE).astype(numpy_type(dtype)))

    def value(self, dtype: int | None = None) -> Value:
        candidates = [candidate for candidate in self.scope.values if dtype in (None, candidate[1])]
        if candidates:
            return self.draw.choice(candidates)
        name, source = self.draw.choice(self.scope.values)
        return self.cast(name, source, dtype or source)

    def cast(self, name: str, source: int, to: int) -> Value:
        if source == to:
            return name, to
        text = {FLOAT: "FLOAT", HALF: "FLOAT16", DOUBLE: "DOUBLE", INT64: "INT64", BOOL: "BOOL"}[to]
        return self.node("Cast", [name], to=text if self.opset < 6 else to), to


def numpy_type(dtype: int) -> np.dtype[Any]:
    return onnx.helper.tensor_dtype_to_np_dtype(dtype)


def _unary(maker: Maker) -> Value:
    name, dtype = maker.value()
    operators = ["Relu", "Neg", "Abs", "Tanh", "Sigmoid", "Softmax", "Identity", "Transpose", "LeakyRelu", "Exp", "Elu"]
    operators += ["Erf"] if maker.opset >= 9 else []
    op_type = maker.draw.choice(operators)
    if op_type == "Exp":
        name = maker.node("Tanh", [name])
    return maker.node(op_type, [name]), dtype


def _binary(maker: Maker) -> Value:
    a, dtype = maker.value()
    b, _ = maker.value(dtype)
    op_type = maker.draw.choice(["Add", "Sub", "Mul", "MatMul"] + (["Max", "Min"] if maker.opset >= 8 else []))
    if op_type in ("Mul", "MatMul"):
        a = maker.node("Tanh", [a])
    return maker.node(op_type, [a, b]), dtype


def _weighted(maker: Maker) -> Value:
    name, dtype = maker.value()
    op_type = maker.draw.choice(["MatMul", "Add", "Mul", "Gemm"])
    return maker.node(
        op_type, [name, maker.weight(dtype)] + ([maker.weight(dtype)] if op_type == "Gemm" else [])
    ), dtype


def _shared(maker: Maker) -> Value:
    """One constant for a sensitive and for another operator."""
    name, dtype = maker.value()
    weight = maker.weight(dtype)
    return maker.node("Add", [maker.node("MatMul", [name, weight]), maker.node("Exp", [weight])]), dtype


def _mask(maker: Maker) -> Value:
    name, dtype = maker.value()
    low = -1e4 if dtype == HALF else maker.draw.choice([-1e9, -np.inf, float(np.finfo("f4").min)])
    mask = maker.constant(np.tri(SIDE, dtype=bool))
    if maker.opset < 9:
        return maker.node("Softmax", [name]), dtype
    filled = maker.node("Where", [mask, name, maker.constant(np.array(low, numpy_type(dtype)))])
    return maker.node("Softmax", [filled]), dtype


def _moved(maker: Maker) -> Value:
    a, dtype = maker.value()
    b, _ = maker.value(dtype)
    joined = maker.node("Concat", [a, b], axis=0)
    rows = maker.constant(np.array([0, 5, 2, 7], np.int64))
    return maker.node("Gather", [joined, rows], axis=0), dtype


def _shaped(maker: Maker) -> Value:
    name, dtype = maker.value()
    return maker.node("Reshape", [name, maker.node("Shape", [maker.value()[0]])]), dtype


def _there_and_back(maker: Maker) -> Value:
    name, dtype = maker.value()
    between = maker.draw.choice([HALF, DOUBLE, FLOAT])
    through, _ = maker.cast(name, dtype, between)
    if maker.opset >= 15 and maker.draw.random() < 0.4:
        return maker.node("CastLike", [through, maker.value(dtype)[0]]), dtype
    return maker.cast(maker.node("Tanh", [through]), between, dtype)


def _other_type(maker: Maker) -> Value:
    """A value of another type, which stays in the pool."""
    name, dtype = maker.value()
    return maker.cast(name, dtype, maker.draw.choice([HALF, DOUBLE, FLOAT]))


def _filled(maker: Maker) -> Value:
    name, dtype = maker.value()
    if maker.opset < 9:
        return name, dtype
    filling = onnx.helper.make_tensor("f", dtype, [1], [maker.draw.choice([0.0, 0.5, 2.0])])
    filled = maker.node("ConstantOfShape", [maker.node("Shape", [name])], value=filling)
    return maker.node("Add", [name, filled]), dtype


def _by_attribute(maker: Maker) -> Value:
    """Operators whose attribute names a type; what is random is multiplied by zero."""
    name, dtype = maker.value(FLOAT)
    op_type = maker.draw.choice(["EyeLike", "RandomNormal", "RandomUniformLike", "default"])
    if op_type == "EyeLike" and maker.opset >= 9:
        kept: dict[str, Any] = {"dtype": dtype} if maker.draw.random() < 0.5 else {}
        return maker.node("Add", [name, maker.node("EyeLike", [name], **kept)]), dtype
    if op_type == "RandomNormal":
        drawn = maker.node(op_type, [], dtype=dtype, shape=SHAPE)
    elif op_type == "default":
        drawn = maker.node("RandomUniform", [], shape=SHAPE)
    else:
        like: dict[str, Any] = {"dtype": dtype} if maker.draw.random() < 0.5 else {}
        drawn = maker.node("RandomUniformLike", [name], **like)
    zero = maker.constant(np.zeros([1], np.float32))
    return maker.node("Add", [name, maker.node("Mul", [drawn, zero])]), dtype


def _normalized(maker: Maker) -> Value:
    name, dtype = maker.value()
    scale = maker.constant(np.full([SIDE], 0.7, numpy_type(dtype)))
    if maker.opset < 17 or dtype == HALF:
        return maker.node("Tanh", [name]), dtype
    kept: dict[str, Any] = {"stash_type": 1} if maker.draw.random() < 0.3 else {}
    return maker.node("LayerNormalization", [name, scale], **kept), dtype


def _batch_normalized(maker: Maker) -> Value:
    name, dtype = maker.value(FLOAT)
    row = [maker.constant(np.full([SIDE], number, np.float32)) for number in (0.9, 0.1, 0.05, 1.1)]
    return maker.node("BatchNormalization", [name, *row]), dtype


def _quantized(maker: Maker) -> Value:
    if maker.opset < 13:
        return _unary(maker)
    name, dtype = maker.value(FLOAT)
    scale, zero = maker.constant(np.array(0.05, np.float32)), maker.constant(np.array(128, np.uint8))
    kind = maker.draw.choice(["pair", "weight", "linear", "dynamic"])
    codes = maker.node("QuantizeLinear", [name, scale, zero])
    if kind == "pair":
        return maker.node("DequantizeLinear", [codes, scale, zero]), dtype
    if kind == "weight":
        weight = maker.constant(np.arange(16, dtype=np.uint8).reshape(SHAPE) + 120)
        return maker.node("MatMul", [name, maker.node("DequantizeLinear", [weight, scale, zero])]), dtype
    if kind == "linear":
        weight = maker.constant(np.arange(16, dtype=np.uint8).reshape(SHAPE) + 120)
        product = maker.node("QLinearMatMul", [codes, scale, zero, weight, scale, zero, scale, zero])
        return maker.node("DequantizeLinear", [product, scale, zero]), dtype
    maker.scope.nodes.append(
        onnx.helper.make_node("DynamicQuantizeLinear", [name], outs := [maker.fresh("dq") for _ in range(3)])
    )
    return maker.node("DequantizeLinear", outs), dtype


def _sequence(maker: Maker) -> Value:
    if maker.opset < 11 or maker.in_function:
        return _unary(maker)
    a, dtype = maker.value()
    b, _ = maker.value(dtype)
    if maker.opset >= 18 and maker.draw.random() < 0.3:
        return maker.node("OptionalGetElement", [maker.node("Optional", [a])]), dtype
    held = maker.node("SequenceConstruct", [a, b])
    if maker.draw.random() < 0.4:
        held = maker.node("SequenceInsert", [held, maker.node("Tanh", [a])])
    return maker.node("SequenceAt", [held, maker.constant(np.array(1, np.int64))]), dtype


def _contrib(maker: Maker) -> Value:
    if not maker.contrib:
        return _unary(maker)
    name, dtype = maker.value(FLOAT)
    row = np.full([SIDE], 0.5, np.float32)
    domain = "com.microsoft"
    op_type = maker.draw.choice(["Gelu", "FastGelu", "QuickGelu", "BiasGelu", "FusedMatMul", "Skip", "Simplified"])
    if op_type == "BiasGelu":
        return maker.node(op_type, [name, maker.constant(row)], domain=domain), dtype
    if op_type == "FusedMatMul":
        return maker.node(op_type, [name, maker.weight(dtype)], domain=domain, alpha=0.5, transB=1), dtype
    if op_type in ("Skip", "Simplified"):
        a = maker.node("Reshape", [name, maker.constant(np.array([1, SIDE, SIDE], np.int64))])
        b = maker.node("Reshape", [maker.value(dtype)[0], maker.constant(np.array([1, SIDE, SIDE], np.int64))])
        full = "SkipLayerNormalization" if op_type == "Skip" else "SkipSimplifiedLayerNormalization"
        result = maker.node(full, [a, b, maker.constant(row)], domain=domain)
        return maker.node("Reshape", [result, maker.constant(np.array(SHAPE, np.int64))]), dtype
    return maker.node(op_type, [name], domain=domain), dtype


def _inside(maker: Maker, entering: list[Value], steps: int) -> tuple[list[onnx.NodeProto], list[Value]]:
    """Nodes of a subgraph that sees the given values and those outside."""
    outer = maker.scope
    maker.scope, maker.depth = Scope([], [*outer.values, *entering]), maker.depth + 1
    for _ in range(steps):
        _step(maker)
    found = maker.scope
    maker.scope, maker.depth = outer, maker.depth - 1
    return found.nodes, found.values


def _info(name: str, dtype: int, shape: Sequence[int | str] | None = SHAPE) -> onnx.ValueInfoProto:
    return onnx.helper.make_tensor_value_info(name, dtype, shape)


def _ended(maker: Maker, nodes: list[onnx.NodeProto], values: list[Value], dtype: int) -> str:
    """The last value of the subgraph, as an output of the type that only the subgraph makes."""
    name, source = values[-1]
    end = maker.fresh("end")
    nodes.append(onnx.helper.make_node("Cast", [name], [end], to=dtype)) if source != dtype else nodes.append(
        onnx.helper.make_node("Identity", [name], [end])
    )
    return end


def _branch(maker: Maker) -> Value:
    if maker.depth > 1 or maker.in_function or maker.contrib:
        return _unary(maker)
    name, dtype = maker.value()
    total = maker.node("ReduceMax", [name], keepdims=0)
    condition = maker.node("Less", [total, maker.constant(np.array(0.5, numpy_type(dtype)))])
    graphs: list[onnx.GraphProto] = []
    for label in ("then", "else"):
        nodes, values = _inside(maker, [], maker.draw.randrange(1, 4))
        end = _ended(maker, nodes, values, dtype)
        graphs.append(onnx.helper.make_graph(nodes, maker.fresh(label), [], [_info(end, dtype)]))
    return maker.node("If", [condition], then_branch=graphs[0], else_branch=graphs[1]), dtype


def _loop(maker: Maker) -> Value:
    if maker.depth > 1 or maker.in_function or maker.contrib or maker.opset < 11:
        return _unary(maker)
    name, dtype = maker.value()
    i, going, state = (maker.fresh(word) for word in ("i", "going", "state"))
    nodes, values = _inside(maker, [(state, dtype)], maker.draw.randrange(1, 4))
    end, on, seen = _ended(maker, nodes, values, dtype), maker.fresh("on"), maker.fresh("seen")
    nodes.append(onnx.helper.make_node("Identity", [going], [on]))
    bounded = maker.fresh("bounded")
    nodes.append(onnx.helper.make_node("Tanh", [end], [bounded]))
    nodes.append(onnx.helper.make_node("Neg", [state], [seen]))
    body = onnx.helper.make_graph(
        nodes,
        maker.fresh("body"),
        [_info(i, INT64, []), _info(going, BOOL, []), _info(state, dtype)],
        [_info(on, BOOL, []), _info(bounded, dtype), _info(seen, dtype)],
    )
    trip, go = maker.constant(np.array(2, np.int64)), maker.constant(np.array(True))
    last, scanned = maker.fresh("last"), maker.fresh("scanned")
    maker.scope.nodes.append(onnx.helper.make_node("Loop", [trip, go, name], [last, scanned], body=body))
    first = maker.node("Gather", [scanned, maker.constant(np.array(0, np.int64))], axis=0)
    return maker.node("Add", [last, first]), dtype


def _scan(maker: Maker) -> Value:
    if maker.depth > 1 or maker.in_function or maker.contrib or maker.opset < 9:
        return _unary(maker)
    name, dtype = maker.value()
    scanned, _ = maker.value(dtype)
    state, row, end, out = (maker.fresh(word) for word in ("state", "row", "end", "out"))
    outer, _ = maker.value(dtype)
    mixed = maker.fresh("mixed")
    nodes = [
        onnx.helper.make_node("Add", [state, row], [mixed]),
        onnx.helper.make_node("Tanh", [mixed], [end]),
        onnx.helper.make_node("MatMul", [end, outer], [out]),
    ]
    ins = [_info(state, dtype, [SIDE]), _info(row, dtype, [SIDE])]
    outs = [_info(end, dtype, [SIDE]), _info(out, dtype, [SIDE])]
    body = onnx.helper.make_graph(nodes, maker.fresh("body"), ins, outs)
    start = maker.node("Gather", [scanned, maker.constant(np.array(0, np.int64))], axis=0)
    last, rows = maker.fresh("last"), maker.fresh("rows")
    maker.scope.nodes.append(onnx.helper.make_node("Scan", [start, name], [last, rows], body=body, num_scan_inputs=1))
    return maker.node("Add", [rows, last]), dtype


def _call(maker: Maker) -> Value:
    """A call of a function, new or known, with one of the types."""
    if maker.ir < 8 or maker.opset < 15:
        return _unary(maker)
    if not maker.functions or maker.draw.random() < 0.4:
        _define(maker)
    called = maker.draw.choice(maker.functions)
    name, dtype = maker.value()
    second, _ = maker.value(dtype)
    kept: dict[str, Any] = {"slope": maker.draw.choice([0.1, 0.3])} if "slope" in called.attribute else {}
    return maker.node(called.name, [name, second][: len(called.input)], domain=called.domain, **kept), dtype


def _define(maker: Maker) -> None:
    """A function that works for every type: no constants but by CastLike; it may call the ones before it."""
    outer, names = maker.scope, [maker.fresh("p") for _ in range(maker.draw.choice([1, 2]))]
    maker.scope, maker.in_function = Scope([], [(parameter, 0) for parameter in names]), True
    attributes: list[str] = []
    for _ in range(maker.draw.randrange(1, 4)):
        name = maker.draw.choice(maker.scope.values)[0]
        kind = maker.draw.choice(["unary", "binary", "like", "attribute", "call", "softmax"])
        if kind == "binary":
            result = maker.node("MatMul", [maker.node("Tanh", [name]), maker.draw.choice(maker.scope.values)[0]])
        elif kind == "like":
            half = maker.constant(np.array(0.5, np.float32))
            result = maker.node("Mul", [name, maker.node("CastLike", [half, name])])
        elif kind == "attribute":
            result = maker.node("LeakyRelu", [name])
            reference = onnx.AttributeProto(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT)
            maker.scope.nodes[-1].attribute.append(reference)
            attributes = ["slope"]
        elif kind == "call" and maker.functions:
            called = maker.draw.choice(maker.functions)
            result = maker.node(called.name, [name] * len(called.input), domain=called.domain)
            if "slope" in called.attribute:
                maker.scope.nodes[-1].attribute.append(onnx.helper.make_attribute("slope", 0.2))
        else:
            result = maker.node("Softmax" if kind == "softmax" else maker.draw.choice(["Tanh", "Relu", "Exp"]), [name])
            if maker.scope.nodes[-1].op_type == "Exp":
                result = maker.node("Tanh", [result])
        maker.scope.values.append((result, 0))
    body, maker.scope, maker.in_function = maker.scope, outer, False
    imports = [onnx.helper.make_opsetid("", maker.opset), onnx.helper.make_opsetid("local", 1)]
    function = onnx.helper.make_function(
        "local", maker.fresh("F"), names, [body.values[-1][0]], body.nodes, imports, attributes
    )
    maker.functions.append(function)


STEPS: tuple[Callable[[Maker], Value], ...] = (
    *(_unary, _unary, _binary, _binary, _weighted, _weighted, _shared, _mask, _moved, _shaped, _there_and_back),
    *(_other_type, _filled, _by_attribute, _normalized, _batch_normalized, _quantized, _sequence, _contrib, _branch),
    *(_loop, _scan, _call, _call),
)


def _step(maker: Maker) -> None:
    maker.scope.values.append(maker.draw.choice(STEPS)(maker))


def random_model(seed: int) -> onnx.ModelProto:
    """The model of that seed: opsets 7 to the newest, IR versions that go with them."""
    draw = random.Random(seed)
    opset = draw.choice([7, 8, 9, 11, 13, 14, 15, 17, 18, 19, 21, 22, 23, 24, 25, NEWEST])
    ir = 3 if opset < 9 and draw.random() < 0.6 else 8 if opset < 19 else 10 if opset < 24 else 13
    source = draw.choice([FLOAT, FLOAT, FLOAT, DOUBLE, HALF])
    maker = Maker(draw, opset, ir, contrib=draw.random() < 0.3)
    inputs = [("x", source), ("z", FLOAT)]
    maker.scope.values += inputs
    for _ in range(draw.randrange(3, 9)):
        _step(maker)
    outputs = list(dict.fromkeys([maker.scope.values[-1], *draw.sample(maker.scope.values, 2)]))
    ports = [(f"out_{index}", dtype) for index, (_, dtype) in enumerate(outputs)]
    for (name, _), (out, _) in zip(outputs, ports, strict=True):
        maker.node("Identity", [name], out)
    if draw.random() < 0.2:
        ports.append(outputs[0] if outputs[0][0] not in ("x", "z") else ports[0])
    ports = list(dict.fromkeys(ports))
    weights = [_info(tensor.name, tensor.data_type, list(tensor.dims)) for tensor in maker.initializers]
    as_inputs = weights if ir < 4 else weights[:1] if draw.random() < 0.15 else []
    graph = onnx.helper.make_graph(
        maker.scope.nodes,
        f"random_{seed}",
        [*(_info(*each) for each in inputs), *as_inputs],
        [_info(*each) for each in ports],
        maker.initializers,
    )
    domains = {*maker.domains, *({"local"} if maker.functions else ())}
    imports = [onnx.helper.make_opsetid("", opset), *(onnx.helper.make_opsetid(each, 1) for each in sorted(domains))]
    return onnx.helper.make_model(graph, opset_imports=imports, ir_version=ir, functions=maker.functions)
