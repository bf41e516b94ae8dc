"""Graphs of any number of nodes, in every shape that could take quadratic work.

Each function returns a model of about so many nodes, counting those of subgraphs and functions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from benchmarks.graphs import cast_graph

_F32, _F16, _F64, _I64, _U8 = (
    TensorProto.FLOAT,
    TensorProto.FLOAT16,
    TensorProto.DOUBLE,
    TensorProto.INT64,
    TensorProto.UINT8,
)
_OPSET = 21


def consumers(nodes: int) -> onnx.ModelProto:
    """One value that all nodes read: casts of it to two types, and operators."""
    made = [_cast("x", f"c{i}", (_F16, _F64)[i % 2]) if i % 2 else _node("Neg", "x", f"c{i}") for i in range(nodes - 1)]
    kept = [_node("Shape", f"c{i}", f"s{i}") for i in range(1, nodes - 1, 2)]
    return _model([*made, *kept], ["c0"])


def shared_constant(nodes: int) -> onnx.ModelProto:
    """One constant that every second node casts: folded once."""
    made = list[onnx.NodeProto]()
    for i in range(nodes // 2):
        made += [_cast("w", f"c{i}", _F32), _node("Add", _previous(made), f"c{i}", f"a{i}")]
    return _model(made, [made[-1].output[0]], [numpy_helper.from_array(np.ones(4, np.float16), "w")])


def constants(nodes: int) -> onnx.ModelProto:
    """As many initializers as nodes, half of them cast."""
    made, weights = list[onnx.NodeProto](), list[onnx.TensorProto]()
    for i in range(nodes // 2):
        weights.append(numpy_helper.from_array(np.full(4, i % 9, np.float16), f"w{i}"))
        made += [_cast(f"w{i}", f"c{i}", _F32), _node("Add", _previous(made), f"c{i}", f"a{i}")]
    return _model(made, [made[-1].output[0]], weights)


def constant_nodes(nodes: int) -> onnx.ModelProto:
    """Every second node is a Constant."""
    made = list[onnx.NodeProto]()
    for i in range(nodes // 2):
        value = numpy_helper.from_array(np.full(4, i % 9, np.float32))
        previous = _previous(made)
        made += [_node("Constant", f"c{i}", value=value), _node("Add", previous, f"c{i}", f"a{i}")]
    return _model(made, [made[-1].output[0]])


def chain_of_casts(nodes: int) -> onnx.ModelProto:
    """One chain of exact casts and nothing else, of which two are left."""
    made = list[onnx.NodeProto]()
    for i in range(nodes):
        made.append(_cast(_previous(made), f"c{i}", (_F64, _F32)[i % 2] if i < nodes - 1 else _F16))
    return _model(made, [made[-1].output[0]], dtype=_F16)


def chain_of_lossy_casts(nodes: int) -> onnx.ModelProto:
    """One chain of casts that all count."""
    made = list[onnx.NodeProto]()
    for i in range(nodes):
        made.append(_cast(_previous(made), f"c{i}", (_F16, TensorProto.BFLOAT16)[i % 2] if i < nodes - 1 else _F32))
    return _model(made, [made[-1].output[0]])


def chain_of_adds(nodes: int) -> onnx.ModelProto:
    """One chain of additions of the input."""
    made = list[onnx.NodeProto]()
    for i in range(nodes):
        made.append(_node("Add", _previous(made), "x", f"a{i}"))
    return _model(made, [made[-1].output[0]])


def chain_of_products(nodes: int) -> onnx.ModelProto:
    """A chain of MatMul with weights and activations: what a conversion changes."""
    made, weights = list[onnx.NodeProto](), list[onnx.TensorProto]()
    for i in range(nodes // 2):
        weights.append(numpy_helper.from_array(np.eye(4, dtype=np.float32) * np.float32(0.5), f"w{i}"))
        made += [_node("MatMul", _previous(made), f"w{i}", f"p{i}"), _node("Tanh", f"p{i}", f"t{i}")]
    return _model(made, [made[-1].output[0]], weights)


def diamonds(nodes: int) -> onnx.ModelProto:
    """Each value is used by two nodes, whose results are added: twice as many paths with each level."""
    made = list[onnx.NodeProto]()
    for i in range(nodes // 4):
        value = _previous(made)
        made += [_cast(value, f"h{i}", _F16), _cast(f"h{i}", f"l{i}", _F32), _node("Abs", value, f"r{i}")]
        made.append(_node("Mul" if i % 2 else "Add", f"l{i}", f"r{i}", f"d{i}"))
    return _model(made, [made[-1].output[0]])


def one_region(nodes: int) -> onnx.ModelProto:
    """A chain of moves and casts: one problem of placing. The last cast but one is to float16 at any size."""
    made = list[onnx.NodeProto]()
    for i in range(nodes // 8 * 8 - 4):
        value = _previous(made)
        if i % 4:
            made.append(_node("Transpose", value, f"t{i}", perm=[0]))
        else:
            made.append(_cast(value, f"t{i}", (_F16, _F32)[i // 4 % 2]))
    return _model([*made, _cast(_previous(made), "end", _F32)], ["end"])


def mixed(nodes: int) -> onnx.ModelProto:
    """Every second node has operands of two types: two conversions each."""
    made = list[onnx.NodeProto]()
    for i in range(nodes // 2):
        made += [_cast(_previous(made), f"n{i}", _F16), _node("Add", f"n{i}", "x", f"a{i}")]
    return _model(made, [made[-1].output[0]])


def branches(nodes: int) -> onnx.ModelProto:
    """Many small subgraphs that capture an outer value."""
    made = list[onnx.NodeProto]()
    for i in range(nodes // 6):
        value = _previous(made)
        arms = [
            _body(f"{side}_{i}", [_cast(value, f"{side}c{i}", _F64), _cast(f"{side}c{i}", f"{side}{i}", _F32)])
            for side in ("then", "else")
        ]
        made += [_node("If", "b", f"i{i}", then_branch=arms[0], else_branch=arms[1]), _node("Neg", f"i{i}", f"n{i}")]
    return _model(made, [made[-1].output[0]])


def one_large_branch(nodes: int) -> onnx.ModelProto:
    """An If with all nodes in its two branches, and one output for each of them."""
    arms = list[onnx.GraphProto]()
    for side in ("then", "else"):
        made = [_cast("x", f"{side}{i}", _F16) if i % 2 else _node("Neg", "x", f"{side}{i}") for i in range(nodes // 4)]
        results = [helper.make_tensor_value_info(f"{side}{i}", _F16 if i % 2 else _F32, [4]) for i in range(nodes // 4)]
        arms.append(helper.make_graph(made, side, [], results))
    outputs = [f"o{i}" for i in range(nodes // 4)]
    chosen = helper.make_node("If", ["b"], outputs, "If", then_branch=arms[0], else_branch=arms[1])
    back = [_cast(name, f"b{i}", _F32) if i % 2 else _node("Abs", name, f"b{i}") for i, name in enumerate(outputs)]
    return _model([chosen, *back], [node.output[0] for node in back[:4]])


def nested_branches(nodes: int) -> onnx.ModelProto:
    """Graphs nested 25 deep, each with its part of the nodes, all of which read values of the outermost."""
    depth = 25
    inner = onnx.GraphProto()
    for level in reversed(range(depth)):
        made = list[onnx.NodeProto]()
        for i in range(nodes // depth // 2):
            made += [_cast("x", f"c{level}_{i}", _F16), _cast(f"c{level}_{i}", f"d{level}_{i}", _F32)]
        if level < depth - 1:
            other = _body(f"e{level}", [_node("Neg", "x", f"n{level}")])
            made.append(_node("If", "b", f"y{level}", then_branch=inner, else_branch=other))
        else:
            made.append(_node("Abs", "x", f"y{level}"))
        inner = _body(f"t{level}", made)
    return _model(list(inner.node), ["y0"])


def states_of_a_loop(nodes: int) -> onnx.ModelProto:
    """A Loop with as many states as nodes in its body, each cast there and back."""
    count = nodes // 3
    body = [helper.make_node("Identity", ["c"], ["c_out"])]
    for i in range(count):
        body += [_cast(f"s{i}", f"h{i}", _F16), _cast(f"h{i}", f"r{i}", _F32)]
    inputs = [helper.make_tensor_value_info("i", _I64, []), helper.make_tensor_value_info("c", TensorProto.BOOL, [])]
    inputs += [helper.make_tensor_value_info(f"s{i}", _F32, [4]) for i in range(count)]
    results = [helper.make_tensor_value_info("c_out", TensorProto.BOOL, [])]
    results += [helper.make_tensor_value_info(f"r{i}", _F32, [4]) for i in range(count)]
    graph = helper.make_graph(body, "body", inputs, results)
    before = [_node("Neg", "x", f"v{i}") for i in range(count)]
    outputs = [f"y{i}" for i in range(count)]
    loop = helper.make_node("Loop", ["turns", "b", *(f"v{i}" for i in range(count))], outputs, "loop", body=graph)
    return _model([*before, loop], outputs[:2], [numpy_helper.from_array(np.array(2), "turns")])


def functions(nodes: int) -> onnx.ModelProto:
    """Many calls of one function, and of functions of their own."""
    made, bodies = list[onnx.NodeProto](), list[onnx.FunctionProto]()
    for i in range(nodes // 4):
        name = f"f{i}" if i % 2 else "shared"
        if i < 1 or i % 2:
            bodies.append(_function(name, [_cast("a", "d", _F64), _cast("d", "e", _F32), _node("Neg", "e", "r")]))
        made.append(helper.make_node(name, [_previous(made)], [f"r{i}"], f"r{i}", domain="own"))
    return _model(made, [made[-1].output[0]], functions=bodies)


def calling_functions(nodes: int) -> onnx.ModelProto:
    """Functions that call two others, four levels of them."""
    made, bodies = list[onnx.NodeProto](), list[onnx.FunctionProto]()
    for i in range(nodes // 16):
        for level in range(4):
            if level:
                inner = f"f{i}_{level - 1}"
                body = [_call(inner, "a", "m"), _cast("m", "h", _F16), _cast("h", "k", _F32), _call(inner, "k", "r")]
            else:
                body = [_node("Neg", "a", "r")]
            bodies.append(_function(f"f{i}_{level}", body))
        made.append(_call(f"f{i}_3", _previous(made), f"r{i}"))
    return _model(made, [made[-1].output[0]], functions=bodies)


def wide(nodes: int) -> onnx.ModelProto:
    """One Concat of as many casts as there are nodes."""
    made = [_cast("x", f"c{i}", (_F16, _F64, _I64)[i % 3]) for i in range(nodes // 2)]
    back = [_cast(f"c{i}", f"d{i}", _F32) for i in range(nodes // 2)]
    joined = helper.make_node("Concat", [node.output[0] for node in back], ["y"], "joined", axis=0)
    return _model([*made, *back, joined], ["y"], shape=[4 * (nodes // 2)])


def split(nodes: int) -> onnx.ModelProto:
    """One Split into as many parts, each cast, and a Concat of them."""
    count = nodes // 2
    parts = [f"p{i}" for i in range(count)]
    lengths = numpy_helper.from_array(np.ones(count, np.int64), "lengths")
    cut = helper.make_node("Split", ["w", "lengths"], parts, "split", axis=0)
    casts = [_cast(part, f"c{i}", _F16) for i, part in enumerate(parts)]
    whole = helper.make_node("Concat", [node.output[0] for node in casts], ["y"], "joined", axis=0)
    ports = [helper.make_tensor_value_info("w", _F32, [count])]
    return _model([cut, *casts, whole], ["y"], [lengths], dtype=_F16, shape=[count], more_inputs=ports)


def outputs(nodes: int) -> onnx.ModelProto:
    """As many outputs of the model as nodes, half of them casts."""
    made = [_cast("x", f"c{i}", _F16) if i % 2 else _node("Neg", "x", f"c{i}") for i in range(nodes)]
    return _model(made, [node.output[0] for node in made], dtypes=[_F16 if i % 2 else _F32 for i in range(nodes)])


def inputs(nodes: int) -> onnx.ModelProto:
    """As many inputs of the model as nodes, each cast and added."""
    made = list[onnx.NodeProto]()
    for i in range(nodes // 2):
        previous = _previous(made)
        made += [_cast(f"x{i}", f"c{i}", _F32), _node("Add", previous, f"c{i}", f"a{i}")]
    ports = [helper.make_tensor_value_info(f"x{i}", _F16, ["N", 4]) for i in range(nodes // 2)]
    return _model(made, [made[-1].output[0]], shape=["N", 4], more_inputs=ports)


def symbols(nodes: int) -> onnx.ModelProto:
    """Many dimensions with names of their own, and Reshapes computed from them."""
    made, ports = list[onnx.NodeProto](), list[onnx.ValueInfoProto]()
    for i in range(nodes // 4):
        ports.append(helper.make_tensor_value_info(f"x{i}", _F32, [f"A{i}", f"B{i}"]))
        made += [
            _node("Shape", f"x{i}", f"s{i}"),
            _node("Gather", f"s{i}", "one", f"g{i}", axis=0),
            _node("Concat", "minus", f"g{i}", f"j{i}", axis=0),
            _node("Reshape", f"x{i}", f"j{i}", f"r{i}"),
        ]
    weights = [numpy_helper.from_array(np.array([number]), name) for name, number in (("one", 1), ("minus", -1))]
    return _model(made, ["r0"], weights, shape=["P", "Q"], more_inputs=ports)


def shape_arithmetic(nodes: int) -> onnx.ModelProto:
    """One chain of arithmetic on a length, which ends as the shape of a Reshape."""
    made = [_node("Shape", "z", "s"), _node("Gather", "s", "zero", "g0", axis=0)]
    for i in range(nodes):
        made.append(_node(("Add", "Sub", "Mul", "Div")[i % 4], f"g{i}", "one" if i % 4 < 2 else "two", f"g{i + 1}"))
    made += [_node("Reshape", "z", f"g{nodes}", "y")]
    numbers = {"zero": [0], "one": [1], "two": [2]}
    weights = [numpy_helper.from_array(np.array(value), name) for name, value in numbers.items()]
    ports = [helper.make_tensor_value_info("z", _F32, ["N"])]
    return _model(made, ["y"], weights, shape=["M"], more_inputs=ports)


def growing_shapes(nodes: int) -> onnx.ModelProto:
    """Lengths that are sums of more and more symbols."""
    ports = [helper.make_tensor_value_info(f"x{i}", _F32, [f"N{i}"]) for i in range(nodes // 3)]
    made = list[onnx.NodeProto]()
    for i in range(1, nodes // 3):
        before = f"j{i - 1}" if i > 1 else "x0"
        made += [_node("Concat", before, f"x{i}", f"j{i}", axis=0), _node("Shape", f"j{i}", f"s{i}")]
        made.append(_node("Expand", "x", f"s{i}", f"e{i}"))
    return _model(made, [f"j{nodes // 3 - 1}"], shape=["M"], more_inputs=ports)


def quantized(nodes: int) -> onnx.ModelProto:
    """A chain of QuantizeLinear and DequantizeLinear, with an operator between them."""
    made = list[onnx.NodeProto]()
    for i in range(nodes // 3):
        made += [
            _node("QuantizeLinear", _previous(made), "scale", "zero", f"q{i}"),
            _node("DequantizeLinear", f"q{i}", "scale", "zero", f"d{i}"),
            _node("Relu", f"d{i}", f"r{i}"),
        ]
    weights = [
        numpy_helper.from_array(np.array(0.5, np.float32), "scale"),
        numpy_helper.from_array(np.array(3, np.uint8), "zero"),
    ]
    return _model(made, [made[-1].output[0]], weights)


def quantized_weights(nodes: int) -> onnx.ModelProto:
    """Products with dequantized weights of int8 and float8."""
    made, weights = list[onnx.NodeProto](), [numpy_helper.from_array(np.array(0.5, np.float32), "scale")]
    for i in range(nodes // 2):
        codes = helper.make_tensor(
            f"w{i}", (TensorProto.INT8, TensorProto.FLOAT8E4M3FN)[i % 2], [4, 4], bytes(16), raw=True
        )
        weights.append(codes)
        previous = _previous(made)
        made += [_node("DequantizeLinear", f"w{i}", "scale", f"d{i}"), _node("MatMul", previous, f"d{i}", f"m{i}")]
    return _model(made, [made[-1].output[0]], weights)


def packed_products(nodes: int) -> onnx.ModelProto:
    """MatMulNBits, each with its packed weights."""
    made, weights = list[onnx.NodeProto](), list[onnx.TensorProto]()
    for i in range(nodes):
        codes = (np.arange(32 * 16, dtype=np.uint32).reshape(32, 1, 16) * 7 + i).astype(np.uint8)
        weights += [
            numpy_helper.from_array(codes, f"w{i}"),
            numpy_helper.from_array(np.full(32, 0.01, np.float32), f"s{i}"),
        ]
        attributes: dict[str, Any] = {"K": 32, "N": 32, "bits": 4, "block_size": 32}
        names = [_previous(made) if made else "a", f"w{i}", f"s{i}"]
        made.append(helper.make_node("MatMulNBits", names, [f"m{i}"], f"m{i}", domain="com.microsoft", **attributes))
    ports = [helper.make_tensor_value_info("a", _F32, [4, 32])]
    return _model(made, [made[-1].output[0]], weights, shape=[4, 32], more_inputs=ports)


def float8(nodes: int) -> onnx.ModelProto:
    """Values of float8 that are moved and cast."""
    made = list[onnx.NodeProto]()
    for i in range(nodes // 3):
        previous = _previous(made)
        made += [
            _cast(previous, f"e{i}", TensorProto.FLOAT8E4M3FN),
            _node("Identity", f"e{i}", f"m{i}"),
            _cast(f"m{i}", f"b{i}", _F32),
        ]
    return _model(made, [made[-1].output[0]])


def bfloat16(nodes: int) -> onnx.ModelProto:
    """Arithmetic on bfloat16, which many targets lack."""
    made = [_cast("x", "v", TensorProto.BFLOAT16)]
    for i in range(nodes):
        made.append(_node(("Add", "Mul")[i % 2], made[-1].output[0], "v", f"a{i}"))
    return _model([*made, _cast(made[-1].output[0], "y", _F32)], ["y"])


def equal_nodes(nodes: int) -> onnx.ModelProto:
    """Nodes that are equal in pairs, level by level."""
    made = list[onnx.NodeProto]()
    for i in range(nodes // 3):
        value = _previous(made)
        made += [_cast(value, f"a{i}", _F64), _cast(value, f"b{i}", _F64)]
        made.append(_node("Add", f"a{i}", f"b{i}", f"s{i}") if i % 2 else _node("Max", f"a{i}", f"b{i}", f"s{i}"))
        made.append(_cast(f"s{i}", f"t{i}", _F32))
    return _model(made, [made[-1].output[0]])


def integers(nodes: int) -> onnx.ModelProto:
    """int64 arithmetic that int32 may hold."""
    made = [_node("ArgMax", "x", "i", axis=0)]
    for i in range(nodes):
        made.append(_node(("Add", "Min")[i % 2], made[-1].output[0], "k", f"a{i}"))
    return _model(made, [made[-1].output[0]], [numpy_helper.from_array(np.array([5]), "k")], dtype=_I64, shape=[1])


def sequence(nodes: int) -> onnx.ModelProto:
    """A sequence to which every second node adds a value."""
    made = [_node("SequenceEmpty", "q0", dtype=_F16)]
    for i in range(nodes // 2):
        made += [_cast("x", f"c{i}", _F16), _node("SequenceInsert", f"q{i}", f"c{i}", f"q{i + 1}")]
    made.append(_node("ConcatFromSequence", f"q{nodes // 2}", "y", axis=0))
    return _model(made, ["y"], dtype=_F16, shape=["M"])


def long_names(nodes: int) -> onnx.ModelProto:
    """Names that share a long beginning."""
    made = list[onnx.NodeProto]()
    for i in range(nodes):
        value = f"/model/layers.{i}/self_attn/rotary_emb/Cast_{'_'.join('0123456789')}"
        made.append(_cast(_previous(made), value, (_F64, _F32)[i % 2] if i < nodes - 1 else _F32))
    return _model(made, [made[-1].output[0]])


SHAPES: Mapping[str, Callable[[int], onnx.ModelProto]] = {
    "chain": lambda nodes: cast_graph(nodes, nodes // 4),
    "consumers of one value": consumers,
    "casts of one constant": shared_constant,
    "constants": constants,
    "Constant nodes": constant_nodes,
    "one chain of casts": chain_of_casts,
    "one chain of lossy casts": chain_of_lossy_casts,
    "one chain of Adds": chain_of_adds,
    "one chain of products": chain_of_products,
    "diamonds": diamonds,
    "one region of moves": one_region,
    "mixed operands": mixed,
    "branches": branches,
    "one large branch": one_large_branch,
    "nested branches": nested_branches,
    "states of a loop": states_of_a_loop,
    "functions": functions,
    "functions that call functions": calling_functions,
    "one Concat": wide,
    "one Split": split,
    "outputs": outputs,
    "inputs": inputs,
    "symbols": symbols,
    "shape arithmetic": shape_arithmetic,
    "growing shapes": growing_shapes,
    "quantized": quantized,
    "quantized weights": quantized_weights,
    "packed products": packed_products,
    "float8": float8,
    "bfloat16": bfloat16,
    "equal nodes": equal_nodes,
    "integers": integers,
    "sequence": sequence,
    "long names": long_names,
}


def _cast(value: str, result: str, to: int) -> onnx.NodeProto:
    return helper.make_node("Cast", [value], [result], result, to=to)


def _node(op_type: str, *names: str, **attributes: Any) -> onnx.NodeProto:
    *operands, output = names
    return helper.make_node(op_type, operands, [output], output, **attributes)


def _call(name: str, value: str, result: str) -> onnx.NodeProto:
    return helper.make_node(name, [value], [result], result, domain="own")


def _function(name: str, body: Sequence[onnx.NodeProto]) -> onnx.FunctionProto:
    opsets = [helper.make_opsetid("", _OPSET), helper.make_opsetid("own", 1)]
    return helper.make_function("own", name, ["a"], ["r"], body, opsets)


def _body(name: str, nodes: Sequence[onnx.NodeProto]) -> onnx.GraphProto:
    """A subgraph without inputs whose output is that of its last node."""
    return helper.make_graph(nodes, name, [], [helper.make_tensor_value_info(nodes[-1].output[0], _F32, [4])])


def _previous(made: Sequence[onnx.NodeProto]) -> str:
    return made[-1].output[0] if made else "x"


def _model(
    nodes: Sequence[onnx.NodeProto],
    results: Sequence[str],
    weights: Sequence[onnx.TensorProto] = (),
    *,
    functions: Sequence[onnx.FunctionProto] = (),
    dtype: int = _F32,
    dtypes: Sequence[int] = (),
    shape: Sequence[int | str] = (4,),
    more_inputs: Sequence[onnx.ValueInfoProto] = (),
) -> onnx.ModelProto:
    ports = [helper.make_tensor_value_info("x", _F32, [4]), helper.make_tensor_value_info("b", TensorProto.BOOL, [])]
    kinds = dtypes or [dtype] * len(results)
    ends = [helper.make_tensor_value_info(name, kind, shape) for name, kind in zip(results, kinds, strict=True)]
    graph = helper.make_graph(nodes, "g", [*ports, *more_inputs], ends, weights)
    opsets = [helper.make_opsetid("", _OPSET), helper.make_opsetid("own", 1), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10, functions=functions)
