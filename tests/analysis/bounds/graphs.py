"""Random whole graphs whose values overflow, vanish and become NaN: chains of operators, control flow and functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnx.helper
from onnx import TensorProto

from tests.analysis.bounds.cases import Case, numpy_type

ROWS, COLUMNS = 2, 4
OPSET = 22
_NODES = (4, 14)
"""Least and greatest number of layers."""
_FLOATS = (*(TensorProto.FLOAT,) * 6, TensorProto.DOUBLE, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16)
_UNARY = (
    "Exp", "Log", "Sqrt", "Reciprocal", "Neg", "Abs", "Relu", "Sigmoid", "Tanh", "Erf", "Sin", "Cos", "Softplus",
    "Floor", "Round", "Sign", "HardSwish", "LeakyRelu", "Elu", "Selu", "HardSigmoid", "Gelu", "Identity", "Exp",
    "Reciprocal",
)  # fmt: skip
_NOT_OF_DOUBLE = ("Erf", "HardSigmoid", "LeakyRelu", "Softplus", "Elu", "Selu", "HardSwish")
_BINARY = ("Add", "Sub", "Mul", "Div", "Max", "Min", "Add", "Sub", "Mul", "Div", "Sum", "Mean")
_REDUCED = ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceSumSquare")
_NUMBERS = (0.0, 1.0, -1.0, 0.5, 2.0, 3.0, 20.0, 1e-3, 1e3, 1e-7, -100.0)
_LARGE: dict[int, tuple[float, ...]] = {
    TensorProto.FLOAT: (1e-38, 1e30, 3e38, -3e38, 1e-30, 1e19),
    TensorProto.DOUBLE: (1e-308, 1e200, 1.7e308, -1.7e308, 1e-200),
    TensorProto.FLOAT16: (1e-6, 6e4, -6e4, 250.0, 1e-4),
    TensorProto.BFLOAT16: (1e-38, 1e30, 3e38, -3e38, 1e19),
}


class Graph(Case):
    """A model that grows layer by layer; its values have ROWS rows and COLUMNS columns."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        super().__init__(rng, OPSET, int(rng.choice(_FLOATS)))
        self.functions: list[onnx.FunctionProto] = []
        self.values = [
            self.like(ROWS, COLUMNS, low=low, high=high) for low, high in (self.range(self.dtype) for _ in range(2))
        ]
        self.condition = self.like(low=0, high=1, dtype=TensorProto.BOOL)
        layers: list[tuple[Callable[[], str], float]] = [
            (self.unary, 10), (self.binary, 9), (self.scaled, 5), (self.reduced, 4), (self.softmax, 3),
            (self.clipped, 3), (self.norm, 3), (self.product, 3), (self.chosen, 2), (self.over_norm, 2),
            (self.exponentials, 2), (self.nothing, 2), (self.integers, 3), (self.rounded, 2), (self.moved, 2),
            (self.branches, 1), (self.loop, 1.5), (self.scan, 1), (self.called, 1.5), (self.remainder, 1),
            (self.power, 1), (self.decays, 1), (self.pooled, 1),
        ]  # fmt: skip
        if self.dtype == TensorProto.DOUBLE:  # of which ONNX Runtime lacks the pools
            layers.pop()
        if self.dtype == TensorProto.BFLOAT16:  # of which the reference evaluator lacks much
            layers = [*layers[:6], (self.nothing, 2), (self.rounded, 2), (self.moved, 2)]
        shares = np.array([share for _, share in layers])
        for _ in range(int(rng.integers(*_NODES))):
            layer = layers[int(rng.choice(len(layers), p=shares / shares.sum()))][0]
            self.values.append(layer())

    def value(self) -> str:
        """One of the values, more often one of the last."""
        count = len(self.values)
        return (
            self.values[max(0, count - 1 - int(self.rng.geometric(0.35)) + 1)]
            if self.coin(0.8)
            else self.pick(*self.values)
        )

    def number(self, *shape: int) -> str:
        numbers = (*_NUMBERS, *(_LARGE[self.dtype] if self.coin(0.3) else ()))
        with np.errstate(all="ignore"):
            return self.constant(np.asarray(self.rng.choice(numbers, shape)).astype(numpy_type(self.dtype)))

    # Layers.

    def unary(self) -> str:
        return self.node(self.one(), self.value())

    def one(self) -> str:
        """An operator of one operand that ONNX Runtime has for the type."""
        found = self.pick(*_UNARY)
        return "Exp" if self.dtype == TensorProto.DOUBLE and found in _NOT_OF_DOUBLE else found

    def two(self) -> str:
        found = self.pick(*_BINARY)
        return "Sum" if found == "Mean" and self.dtype == TensorProto.DOUBLE else found

    def binary(self) -> str:
        x = self.value()
        return self.node(self.two(), x, x if self.coin(0.1) else self.value())

    def scaled(self) -> str:
        parts = [self.value(), self.number(*self.pick((), (1,), (COLUMNS,), (ROWS, 1)))]
        if self.coin(0.3):
            parts.reverse()
        return self.node(self.pick("Add", "Sub", "Mul", "Div", "Max", "Min"), *parts)

    def reduced(self) -> str:
        x = self.value()
        axes = [self.ints(*self.pick((-1,), (0,), (0, 1)))] if self.coin(0.9) else []
        return self.node(self.pick("Add", "Sub", "Mul", "Div"), x, self.node(self.pick(*_REDUCED), x, *axes))

    def softmax(self) -> str:
        return self.node(self.pick("Softmax", "Softmax", "LogSoftmax"), self.value(), axis=self.pick(-1, 0))

    def clipped(self) -> str:
        low, high = sorted(self.pick((-1.0, 1.0), (0.0, 6.0), (-1e3, 1e3), (0.0, 0.5)))
        kind = numpy_type(self.dtype)
        ends = [self.constant(np.asarray(end).astype(kind)) if self.coin(0.8) else "" for end in (low, high)]
        return self.node("Clip", self.value(), *ends)

    def norm(self) -> str:
        x, scale = self.value(), self.number(COLUMNS)
        given: dict[str, Any] = {"epsilon": self.pick(1e-5, 1.0, 1e-12)}
        if self.dtype == TensorProto.FLOAT16:
            self.reference = False  # it computes the norm in float16, against `stash_type`
        return self.node("LayerNormalization", x, scale, *([self.number(COLUMNS)] if self.coin() else []), **given)

    def product(self) -> str:
        x, shape = self.value(), (COLUMNS, COLUMNS)
        w = self.number(*shape) if self.coin(0.4) else self.floats(*shape)
        if self.coin(0.3):
            return self.node(
                "MatMul", x, self.node("MatMul", self.node("Transpose", self.value(), perm=[1, 0]), self.value())
            )
        if self.coin():
            return self.node("MatMul", x, w)
        given = {"alpha": self.pick(1.0, 0.0, 0.5), "beta": self.pick(1.0, 0.0, -2.0)}
        return self.node("Gemm", x, w, *([self.value()] if self.coin() else []), **given)

    def chosen(self) -> str:
        x, y = self.value(), self.value()
        if self.coin(0.3):
            return self.node("Where", self.node("IsNaN", x), self.number(), x)
        test = self.node(self.pick("Less", "Greater", "LessOrEqual", "GreaterOrEqual"), x, y)
        if self.coin(0.3):
            parts = [self.pick(x, y), self.node(self.one(), self.pick(x, y))]
            return self.node("Where", test, *self.pick(parts, parts[::-1]))
        return self.node("Where", test, *self.pick((x, y), (y, x), (self.value(), y)))

    def over_norm(self) -> str:
        x = self.value()
        total = self.node(self.pick("ReduceMean", "ReduceSum"), self.node("Mul", x, x), self.ints(-1))
        if self.coin(0.6):
            total = self.node("Add", total, self.floats(low=1e-6, high=1e-3))
        root = self.node("Sqrt", total)
        if self.coin():
            return self.node("Div", x, root)
        return self.node("Mul", x, self.node("Reciprocal", root))

    def exponentials(self) -> str:
        x = self.value()
        if self.coin():
            x = self.node("Sub", x, self.node("ReduceMax", x, self.ints(-1)))
        e = self.node("Exp", x)
        return self.node("Div", e, self.node("ReduceSum", e, self.ints(-1)))

    def nothing(self) -> str:
        """The difference of a value to itself."""
        x = self.node(self.pick("Reciprocal", "Exp", "Log", "Identity"), self.value())
        return self.node("Sub", x, x)

    def integers(self) -> str:
        """Arithmetic of integers, which wrap round."""
        kind = self.pick(TensorProto.INT32, TensorProto.INT64, TensorProto.INT8)
        small = self.node("Clip", self.node("Where", self.node("IsNaN", x := self.value()), self.floats(), x), *(
            self.constant(np.asarray(end).astype(numpy_type(self.dtype))) for end in (-100.0, 100.0)
        ))  # fmt: skip
        n = self.node("Cast", small, to=kind)
        for _ in range(int(self.rng.integers(1, 4))):
            other = self.constant(np.asarray(self.pick(1, 3, -7, 100, 2)).astype(numpy_type(kind)))
            op_type = self.pick("Add", "Mul", "Sub", "Div", "Mod")
            if kind == TensorProto.INT8 and op_type == "Div":
                op_type = "Mul"
            n = self.node(op_type, n, n if self.coin(0.3) and op_type not in ("Div", "Mod") else other)
        return self.node("Cast", n, to=self.dtype)

    def rounded(self) -> str:
        """In another type and back."""
        kinds = {
            TensorProto.FLOAT16,
            TensorProto.BFLOAT16,
            TensorProto.DOUBLE,
            TensorProto.FLOAT,
            TensorProto.FLOAT8E5M2,
        }
        to = self.pick(*sorted(kinds))
        made = self.node("Cast", self.value(), to=to)
        if to in (TensorProto.BFLOAT16, TensorProto.FLOAT8E5M2):
            self.hidden.add(made)
        return self.node("Cast", made, to=self.dtype)

    def moved(self) -> str:
        x = self.value()
        match int(self.rng.integers(4)):
            case 0:
                return self.node("Concat", self.part(x, 1, 2, 0), self.part(self.value(), 0, 1, 0), axis=0)
            case 1:
                return self.node("Concat", self.part(x, 2, 4, 1), self.part(x, 0, 2, 1), axis=1)
            case 2:
                return self.node("Gather", x, self.ints(*self.pick((1, 0), (0, 0), (-1, 0))), axis=0)
            case _:
                turned = self.node("Transpose", self.node("Reshape", x, self.ints(2, 2, 2)), perm=[0, 2, 1])
                return self.node("Reshape", turned, self.ints(ROWS, COLUMNS))

    def part(self, x: str, start: int, end: int, axis: int) -> str:
        return self.node("Slice", x, self.ints(start), self.ints(end), self.ints(axis))

    def remainder(self) -> str:
        return self.node("Mod", self.value(), self.pick(self.number(), self.value()), fmod=1)

    def decays(self) -> str:
        """The last of cumulative sums less each of them, and near misses of that."""
        x = self.node("Neg", self.node("Abs", self.value())) if self.coin(0.7) else self.value()
        axis, other = self.pick((1, -1), (1, 1), (0, 0), (0, 1))
        sums = self.node("CumSum", x, self.scalar(axis), reverse=int(self.coin(0.2)), exclusive=int(self.coin(0.2)))
        start, end = self.pick((-1, 2**31 - 1), (-1, 2**31 - 1), (0, 1))
        return self.node("Sub", self.node("Slice", sums, self.ints(start), self.ints(end), self.ints(other)), sums)

    def power(self) -> str:
        exponent = np.asarray(self.pick(2.0, 3.0, 0.5, -1.0, 20.0, -0.5)).astype(numpy_type(self.dtype))
        return self.node("Pow", self.value(), self.constant(exponent))

    def pooled(self) -> str:
        image = self.node("Reshape", self.value(), self.ints(1, 1, ROWS, COLUMNS))
        if self.coin():
            made = self.node(self.pick("MaxPool", "AveragePool"), image, kernel_shape=[1, 3], pads=[0, 1, 0, 1])
        else:
            made = self.node("Conv", image, self.floats(1, 1, 1, 3), pads=[0, 1, 0, 1])
        return self.node("Reshape", made, self.ints(ROWS, COLUMNS))

    # Subgraphs and functions.

    def info(self, name: str, *shape: int) -> onnx.ValueInfoProto:
        return onnx.helper.make_tensor_value_info(name, self.dtype, shape)

    def body(self, prefix: str, start: str) -> tuple[list[onnx.NodeProto], str]:
        """Nodes that compute with a value and those of the graph, and the name of the result."""
        nodes, last = list[onnx.NodeProto](), start
        for index in range(int(self.rng.integers(1, 4))):
            name = f"{prefix}{index}"
            if self.coin():
                nodes.append(onnx.helper.make_node(self.one(), [last], [name]))
            else:
                other = self.pick(last, self.value())
                nodes.append(onnx.helper.make_node(self.two(), [last, other], [name]))
            last = name
        return nodes, last

    def branches(self) -> str:
        graphs = list[onnx.GraphProto]()
        for name in ("t", "e"):
            nodes, last = self.body(f"{name}{len(self.nodes)}_", self.value())
            graphs.append(onnx.helper.make_graph(nodes, name, [], [self.info(last, ROWS, COLUMNS)]))
        condition = self.condition if self.coin(0.8) else self.constant(np.array(self.coin()))
        return self.node("If", condition, then_branch=graphs[0], else_branch=graphs[1])

    def loop(self) -> str:
        n = len(self.nodes)
        nodes, last = self.body(f"l{n}_", f"s{n}")
        again = "Identity" if self.coin(0.7) else "Not"
        nodes.append(onnx.helper.make_node(again, [f"c{n}"], [f"d{n}"]))
        turn = onnx.helper.make_tensor_value_info(f"i{n}", TensorProto.INT64, [])
        conditions = [onnx.helper.make_tensor_value_info(f"{name}{n}", TensorProto.BOOL, []) for name in "cd"]
        inputs = [turn, conditions[0], self.info(f"s{n}", ROWS, COLUMNS)]
        graph = onnx.helper.make_graph(nodes, "b", inputs, [conditions[1], self.info(last, ROWS, COLUMNS)])
        go = self.constant(np.array(True)) if self.coin() else ""
        if not go:
            self.reference = False  # it takes no condition for a false one
        return self.node("Loop", self.scalar(int(self.rng.integers(0, 6))), go, self.value(), body=graph)

    def scan(self) -> str:
        n = len(self.nodes)
        nodes = [
            onnx.helper.make_node(self.two(), [f"s{n}", f"e{n}"], [f"a{n}"]),
            onnx.helper.make_node(self.one(), [f"a{n}"], [f"o{n}"]),
        ]
        inputs, outputs = ([self.info(f"{name}{n}", COLUMNS) for name in pair] for pair in ("se", "ao"))
        graph = onnx.helper.make_graph(nodes, "b", inputs, outputs)
        self.node("Scan", self.number(COLUMNS), self.value(), count=2, body=graph, num_scan_inputs=1)
        return f"{self.nodes[-1].output[1]}"

    def called(self) -> str:
        """A call of a function, which may call the one before twice; some have a parameter."""
        if not self.functions or self.coin():
            number, opsets = (
                len(self.functions),
                [onnx.helper.make_opsetid("", OPSET), onnx.helper.make_opsetid("f", 1)],
            )
            made = onnx.helper.make_node
            nodes = [made(self.two(), ["a", "b"], ["t"]), made(self.one(), ["t"], ["r"])]
            if number and self.coin():
                called = f"f{number - 1}"
                nodes = [made(called, ["a", "b"], ["t"], domain="f"), made(called, ["t", "a"], ["r"], domain="f")]
            elif self.coin(0.4):
                nodes[1] = made("LeakyRelu", ["t"], ["r"])
                nodes[1].attribute.append(
                    onnx.AttributeProto(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT)
                )
            slope = ["slope"] if any(each.attribute for each in nodes) else []
            function = onnx.helper.make_function("f", f"f{number}", ["a", "b"], ["r"], nodes, opsets, slope)
            self.functions.append(function)
        function = self.pick(*self.functions)
        given = {"slope": self.pick(0.5, -3.0)} if function.attribute else {}
        return self.node(function.name, self.value(), self.pick(self.value(), self.number()), domain="f", **given)

    def model(self) -> onnx.ModelProto:
        model = super().model()
        model.functions.extend(self.functions)
        return model
