"""Small files that ask for much: gigabytes, hours, or more stack than there is.

python -m tests.scale.hostile FOLDER writes them all.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

HUGE, LARGEST = 10**8, 2**62

_ONE = "k = Constant <value_floats = [1.0]> ()"
_SHAPE = f"s = Constant <value_ints = [{HUGE}]> ()"


def files() -> Iterator[tuple[str, bytes]]:
    """A name, whose suffix says the format, and what is in the file."""
    for texts in (_growing(), _doubling(), _calling(), _nesting(), _long()):
        for name, text in texts:
            yield f"{name}.onnxtxt", text.encode()
    for name, proto in _sparse_or_empty():
        yield f"{name}.onnx", proto.SerializeToString()
    yield "nested.onnx", _nested(2_000)
    yield "nested.json", b'{"graph":' * 50_000
    yield "lists.json", b"[" * 100_000
    yield "nested.textproto", b"graph { node { attribute { g { " * 20_000


def _model(body: str, functions: Sequence[str] = (), *, inputs: str = "float[2] x", outputs: str = "float[N] y") -> str:
    head = f'<ir_version: 10, opset_import: ["" : 21, "f" : 1]>\ng ({inputs}) => ({outputs}) {{ {body} }}\n'
    return head + "".join(f'<domain: "f", opset_import: ["" : 21, "f" : 1]>\n{each}\n' for each in functions)


def _cast(body: str) -> str:
    """Casts and moves of the large `a` that the nodes before make."""
    return _model(f"{body} b = Cast <to = 10> (a) c = Cast <to = 1> (b) d = Transpose (c) y = Identity (d)")


def _growing() -> Iterator[tuple[str, str]]:
    """One operator makes a vector of 100 million elements of a constant."""
    yield "tile", _cast(f"{_ONE} {_SHAPE} a = Tile (k, s)")
    yield "expand", _cast(f"{_ONE} {_SHAPE} a = Expand (k, s)")
    yield "filled", _cast(f"{_SHAPE} a = ConstantOfShape (s)")
    yield "largest", _cast(f"s = Constant <value_ints = [{LARGEST}, 4]> () a = ConstantOfShape (s)")
    yield "pad", _cast(f"{_ONE} s = Constant <value_ints = [0, {HUGE}]> () a = Pad (k, s)")
    yield "eye", _cast(f"{_SHAPE} e = Concat <axis = 0> (s, s) k = ConstantOfShape (e) a = EyeLike (k)")
    sizes = f"k = Constant <value = float[1, 1, 1] {{1}}> () s = Constant <value_ints = [1, 1, {HUGE}]> ()"
    yield "resize", _cast(f"{sizes} a = Resize (k, , , s)")
    hot = f"k = Constant <value_ints = [1]> () s = Constant <value_int = {HUGE}> ()"
    yield "one-hot", _cast(f"{hot} v = Constant <value_floats = [0.0, 1.0]> () a = OneHot (k, s, v)")
    integers = f"k = Constant <value_int = 0> () l = Constant <value_int = {HUGE}> () o = Constant <value_int = 1> ()"
    yield "range", _cast(f"{integers} a = Range (k, l, o)")
    yield "range-as-shape", _model(f"{integers} a = Range (k, l, o) b = Cast <to = 7> (a) y = Expand (x, b)")
    ones = f"{_SHAPE} a = ConstantOfShape <value = int64[1] {{1}}> (s)"
    yield "filled-as-shape", _model(f"{ones} b = Cast <to = 7> (a) y = Reshape (x, b)")
    parts = ", ".join(f"p{i}" for i in range(1_000))
    split = f"{parts} = Split <num_outputs = 1000> (k)"
    yield "split", _model(f"{_SHAPE} k = ConstantOfShape (s) {split} b = Cast <to = 10> (p0) y = Cast <to = 1> (b)")
    coded = f"{_ONE} {_SHAPE} t = Tile (k, s) e = Cast <to = 17> (t)"
    yield "tile-float8", _cast(f"{coded} a = Cast <to = 1> (e)")


def _doubling() -> Iterator[tuple[str, str]]:
    """Each node makes more of what the one before gives."""
    doubled = " ".join(f"k{i + 1} = Concat <axis = 0> (k{i}, k{i})" for i in range(40))
    yield "doubled", _cast(f"k0 = Constant <value_floats = [1.0]> () {doubled} a = Identity (k40)")
    yield "doubled-as-shape", _model(f"k0 = Shape (x) {doubled} b = Cast <to = 7> (k40) y = Expand (x, b)")
    yield "doubled-input", _model(f"k0 = Cast <to = 10> (x) {doubled} y = Cast <to = 1> (k40)")
    symbol = _model(f"k0 = Cast <to = 10> (x) {doubled} y = Cast <to = 1> (k40)", inputs="float[M] x")
    yield "doubled-symbol", symbol
    many = " ".join(f"k{i + 1} = Concat <axis = 0> ({', '.join([f'k{i}'] * 1_000)})" for i in range(4))
    yield "thousandfold", _model(f"k0 = Shape (x) {many} b = Cast <to = 7> (k4) y = Expand (x, b)")
    gathered = " ".join(f"k{i + 1} = Gather (k{i}, j)" for i in range(30))
    indices = "j = Constant <value = int64[2, 1] {0, 0}> ()"
    yield "gathered", _cast(f"k0 = Constant <value_floats = [1.0]> () {indices} {gathered} a = Identity (k30)")
    squared = " ".join(f"k{i + 1} = Mul (k{i}, k{i})" for i in range(60))
    yield "squared", _model(f"k0 = Constant <value_ints = [3]> () {squared} b = Cast <to = 7> (k60) y = Expand (x, b)")


def _calling() -> Iterator[tuple[str, str]]:
    """Functions that call others twice, loops in loops, and loops of 2**62 turns."""
    for levels in (12, 40):
        for name, number in (("float16", 10), ("float8", 17)):
            first = f"f0 (v) => (w) {{ k = Cast <to = {number}> (v) w = Cast <to = 1> (k) }}"
            rest = [f"f{i} (v) => (w) {{ k = f.f{i - 1} (v) w = f.f{i - 1} (k) }}" for i in range(1, levels + 1)]
            yield f"calls-{levels}-{name}", _model(f"y = f.f{levels} (x)", [first, *rest], outputs="float[2] y")
    halves = "f{0} (v) => (w) {{ h = Cast <to = 10> (v) k = f.f{1} (h) l = f.f{1} (v) w = Add (k, l) }}"
    rest = [halves.format(i, i - 1) for i in range(1, 41)]
    yield "calls-typed", _model("y = f.f40 (x)", ["f0 (v) => (w) { w = Add (v, v) }", *rest], outputs="float[2] y")
    taken = (
        "f{0} <to> (v) => (w) {{ k = f.f{1} <to : int = @to> (v) l = f.f{1} <to = 1> (k) w = f.f{1} <to = 17> (l) }}"
    )
    first = "f0 <to> (v) => (w) { w = Cast <to : int = @to> (v) }"
    rest = [taken.format(i, i - 1) for i in range(1, 25)]
    yield "calls-parameters", _model("y = f.f24 <to = 17> (x)", [first, *rest], outputs="float8e4m3fn[2] y")
    formals = ", ".join(f"v{i}" for i in range(20))
    turned = [
        f"f{i} ({formals}) => (w) {{ h = Cast <to = 10> (v{i}) k = f.f{i + 1} ({formals})"
        f" l = f.f{i + 1} ({formals.replace(f'v{i},', 'h,')}) w = Add (k, l) }}"
        for i in range(18)
    ]
    last = f"f18 ({formals}) => (w) {{ w = Sum ({formals}) }}"
    actuals = ", ".join(["x"] * 20)
    yield "calls-signatures", _model(f"y = f.f0 ({actuals})", [*turned, last], outputs="float[2] y")
    body = "co = Identity (c) k = Cast <to = 10> (v) vn = Cast <to = 1> (k)"
    turns = f"n = Constant <value_int = {LARGEST}> () t = Constant <value = bool {{1}}> ()"
    loop = f"y = Loop (n, t, x) <body = b (int64 i, bool c, float[2] v) => (bool co, float[2] vn) {{ {body} }}>"
    yield "loop", _model(f"{turns} {loop}", outputs="float[2] y")
    inner = "o0 = Relu (v0)"
    for i in range(6):
        inner = (
            f"o{i + 1} = Loop (n, t, v{i + 1}) <body = b{i} (int64 i{i}, bool c{i}, float[2] v{i}) =>"
            f" (bool d{i}, float[2] o{i}) {{ d{i} = Identity (c{i}) {inner} }}>"
        )
    turns = turns.replace(str(LARGEST), "250")
    yield "loops", _model(f"{turns} v6 = Cast <to = 1> (x) {inner} y = Identity (o6)", outputs="float[2] y")


def _nesting() -> Iterator[tuple[str, str]]:
    """Subgraphs in subgraphs, chains of calls, functions that call themselves, and text that nests for nothing."""
    for depth in (25, 200, 20_000):
        opened = "".join(f"y{i} = If (c) <then_branch = t{i} () => (float[2] y{i + 1}) {{ " for i in range(depth))
        closed = " }, else_branch = e () => (float[2] z) { z = Relu (x) }>" * depth
        body = f"{opened} k = Cast <to = 10> (x) y{depth} = Cast <to = 1> (k) {closed} y = Identity (y0)"
        yield f"ifs-{depth}", _model(body, inputs="float[2] x, bool c", outputs="float[2] y")
    passed_on = "".join(
        f"k{i + 1} = If (c) <then_branch = t{i} () => (a) {{ a = Identity (k{i}) }},"
        f" else_branch = e{i} () => (b) {{ b = Identity (k{i}) }}> "
        for i in range(1_000)
    )
    chained = f"k0 = Cast <to = 10> (x) {passed_on} t = Transpose (k1000) y = Cast <to = 1> (t)"
    yield "ifs-chained", _model(chained, inputs="float[2] x, bool c", outputs="float[2] y")
    for count in (60, 5_000):
        first = "f0 (v) => (w) { k = Cast <to = 17> (v) w = Cast <to = 1> (k) }"
        rest = [f"f{i} (v) => (w) {{ w = f.f{i - 1} (v) }}" for i in range(1, count + 1)]
        yield f"chain-of-{count}-calls", _model(f"y = f.f{count} (x)", [first, *rest], outputs="float[2] y")
    for count in (1, 3_000):
        ring = [f"f{i} (v) => (w) {{ w = f.f{(i + 1) % count} (v) }}" for i in range(count)]
        yield f"ring-of-{count}", _model("y = f.f0 (x)", ring, outputs="float[2] y")
    sequence = f"{'seq(' * 20_000}float[2]{')' * 20_000}"
    yield "sequences", _model("y = Identity (x)", inputs=f"{sequence} x", outputs=f"{sequence} y")
    yield "brackets", "<" * 100_000
    yield "parentheses", "g " + "(" * 100_000


def _long() -> Iterator[tuple[str, str]]:
    """Chains and fans of thousands of nodes, names of a megabyte, and shapes that no array has."""
    chain = " ".join(f"k{i + 1} = Cast <to = {(10, 1)[i % 2]}> (k{i})" for i in range(4_000))
    yield "casts", _model(f"k0 = Relu (x) {chain} y = Identity (k4000)", outputs="float[2] y")
    chain = " ".join(f"k{i + 1} = Transpose (k{i})" for i in range(4_000))
    yield "moves", _model(f"k0 = Cast <to = 17> (x) {chain} y = Cast <to = 1> (k4000)", outputs="float[2] y")
    yield "fan-in", _cast(f"a = Concat <axis = 0> ({', '.join(['x'] * 4_000)})")
    fan = " ".join(f"k{i} = Cast <to = 10> (x)" for i in range(3_000))
    names = ", ".join(f"k{i}" for i in range(3_000))
    yield "fan-out", _model(f"{fan} k = Concat <axis = 0> ({names}) y = Cast <to = 1> (k)")
    attributes = ", ".join(f"a{i} = {i}" for i in range(5_000))
    yield "attributes", _model(f"k = Cast <to = 10> (x) l = f.h <{attributes}> (k) y = Cast <to = 1> (l)")
    name = "n" * 1_000_000
    yield "name", _model(f"k = Cast <to = 10> (x) {name} = Relu (k) y = Cast <to = 1> ({name})")
    casts = "k = Cast <to = 10> (x) l = Transpose (k) y = Cast <to = 1> (l)"
    yield "symbol", _model(casts, inputs=f"float[{name}] x")
    for title, dims in (
        ("dims", f"{HUGE}, {HUGE}"),
        ("dims-largest", f"{LARGEST}, {LARGEST}"),
        ("rank", ", ".join(["1"] * 3_000)),
        ("rank-symbols", ", ".join(f"N{i}" for i in range(3_000))),
    ):
        yield title, _model(casts, inputs=f"float[{dims}] x", outputs="float[A, B] y")


def _sparse_or_empty() -> Iterator[tuple[str, ModelProto]]:
    """Sparse tensors of few values, and tensors of which no data is in the file."""
    for name, dims in (("sparse", [HUGE]), ("sparse-square", [2**31, 2**31]), ("sparse-largest", [2**40, 2**40])):
        values = numpy_helper.from_array(np.array([1.0], np.float32), "w")
        indices = numpy_helper.from_array(np.zeros((1, len(dims)), np.int64), "i")
        sparse = helper.make_sparse_tensor(values, indices, dims)
        yield name, _casting([], sparse_initializer=[sparse])
        yield f"{name}-constant", _casting([helper.make_node("Constant", [], ["w"], sparse_value=sparse)])
    for name, dims, kind in (
        ("empty", [0, LARGEST], TensorProto.FLOAT),
        ("strings", [HUGE], TensorProto.STRING),
        ("missing", [HUGE, HUGE], TensorProto.FLOAT),
    ):
        yield name, _casting([], initializer=[TensorProto(name="w", dims=dims, data_type=kind)])


def _casting(nodes: list[NodeProto], **graph: Any) -> ModelProto:
    half = helper.make_node("Cast", ["w"], ["k"], to=TensorProto.FLOAT16)
    nodes = [*nodes, half, helper.make_node("Cast", ["k"], ["y"], to=TensorProto.FLOAT)]
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    made = helper.make_graph(nodes, "g", [], [y], **graph)
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def _nested(depth: int) -> bytes:
    """A file of graphs in graphs, its bytes put together here since protobuf would copy all of it for each."""
    graph = GraphProto(name="g").SerializeToString()
    for _ in range(depth):
        kind = AttributeProto(name="then_branch", type=AttributeProto.GRAPH).SerializeToString()
        node = NodeProto(op_type="If", output=["y"]).SerializeToString() + _field(5, kind + _field(6, graph))
        graph = GraphProto(name="g").SerializeToString() + _field(1, node)
    return helper.make_model(helper.make_graph([], "g", [], []), ir_version=10).SerializeToString() + _field(7, graph)


def _field(number: int, content: bytes) -> bytes:
    """A field of a message, as protobuf writes it."""
    size, length = len(content), bytearray()
    while size > 127:
        length.append(size & 127 | 128)
        size >>= 7
    return bytes([number << 3 | 2, *length, size]) + content


if __name__ == "__main__":
    for name, data in files():
        (Path(sys.argv[1]) / name).write_bytes(data)
