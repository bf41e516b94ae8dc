"""Random models whose operands disagree in type everywhere: in nested If, Loop and Scan, in functions called with
different types, through captured values. Only shapes are right: scalars, and vectors of `LENGTH` elements."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import numpy as np
import onnx
import onnx.helper
import onnx_ir
from onnx_ir import DataType

LENGTH = 3
NAMES = "bool int8 uint8 int16 uint16 int32 int64 uint32 uint64 float16 bfloat16 float double"
TYPES = [DataType[name.upper()] for name in NAMES.split()]
BINARY = ("Add", "Sub", "Mul", "Max", "Min", "Sum", "Mean", "Equal", "Less", "Greater", "PRelu", "Where", "Clip")
UNARY = ("Neg", "Abs", "Relu", "Not", "Identity", "Sign")
BOOLEAN = {"Equal", "Less", "Greater", "Not"}
FUNCTIONS = ("f", "g")

Pool = dict[str, int]
"""Names in scope, with the rank of each."""


@dataclass
class Builder:
    random: Random
    opset: int
    ranks: dict[str, int] = field(default_factory=dict[str, int])
    """The rank of every value in the model."""
    booleans: set[str] = field(default_factory=set[str])
    initializers: list[onnx.TensorProto] = field(default_factory=list[onnx.TensorProto])

    def name(self, rank: int, prefix: str = "v") -> str:
        name = f"{prefix}{len(self.ranks)}"
        self.ranks[name] = rank
        return name

    def pick(self, pool: Pool, rank: int | None = None) -> str:
        return self.random.choice([name for name, found in pool.items() if rank in (None, found)])

    def nodes(self, pool: Pool, depth: int, count: int, functions: tuple[str, ...] = ()) -> list[onnx.NodeProto]:
        """Nodes one after the other, whose results join the pool."""
        made: list[onnx.NodeProto] = []
        for _ in range(count):
            kinds = ["binary"] * 6 + ["unary", "constant"] + (["If", "Loop", "Scan"] if depth else []) + list(functions)
            kind = self.random.choice(kinds)
            match kind:
                case "binary":
                    made.append(self.binary(pool))
                case "unary":
                    made.append(self.unary(pool))
                case "constant":
                    made.append(self.constant(pool))
                case "If":
                    made.append(self.branches(pool, depth))
                case "Loop":
                    made += self.loop(pool, depth)
                case "Scan":
                    made.append(self.scan(pool, depth))
                case _:
                    made.append(self.call(pool, kind))
        return made

    def binary(self, pool: Pool) -> onnx.NodeProto:
        op_type = self.random.choice(BINARY)
        inputs = [self.pick(pool), self.pick(pool)]
        if op_type in ("Sum", "Mean", "Max", "Min"):
            # The reference implementation adds into the first operand.
            inputs = sorted([*inputs, self.pick(pool)], key=lambda name: -pool[name])
        if op_type == "Where":
            conditions = [name for name in pool if name in self.booleans]
            inputs = [self.random.choice(conditions), *inputs]
        if op_type == "Clip":
            inputs = [inputs[0], self.pick(pool, 0), self.pick(pool, 0)]
        rank = pool[inputs[0]] if op_type in ("Clip", "PRelu") else max(pool[name] for name in inputs)
        if op_type == "PRelu" and pool[inputs[1]] > rank:
            inputs.reverse()
            rank = 1
        return self.made(op_type, inputs, rank, pool)

    def unary(self, pool: Pool) -> onnx.NodeProto:
        op_type = self.random.choice(UNARY)
        booleans = [name for name in pool if name in self.booleans]
        source = self.random.choice(booleans) if op_type == "Not" else self.pick(pool)
        return self.made(op_type, [source], pool[source], pool)

    def made(self, op_type: str, inputs: list[str], rank: int, pool: Pool) -> onnx.NodeProto:
        output = self.name(rank)
        pool[output] = rank
        if op_type in BOOLEAN:
            self.booleans.add(output)
        return onnx.helper.make_node(op_type, inputs, [output], name=f"n_{output}")

    def constant(self, pool: Pool) -> onnx.NodeProto:
        output = self.name(0, "k")
        pool[output] = 0
        dtype = self.random.choice(TYPES)
        if dtype is DataType.BOOL:
            self.booleans.add(output)
        value = np.array(self.random.choice([0, 1, 2, 100]), dtype.numpy())
        tensor = onnx_ir.to_proto(onnx_ir.tensor(value, dtype=dtype, name=output))
        return onnx.helper.make_node("Constant", [], [output], value=tensor)

    def call(self, pool: Pool, function: str) -> onnx.NodeProto:
        output = self.name(1)
        inputs = [self.pick(pool, 1), self.pick(pool, 1)]
        pool[output] = 1
        return onnx.helper.make_node(function, inputs, [output], domain="local", name=f"n_{output}")

    def branches(self, pool: Pool, depth: int) -> onnx.NodeProto:
        condition = self.random.choice([n for n, rank in pool.items() if rank == 0 and n in self.booleans])
        rank = self.random.choice((0, 1))
        graphs: list[onnx.GraphProto] = []
        for name in ("then_branch", "else_branch"):
            inner = dict(pool)
            nodes = self.nodes(inner, depth - 1, self.random.randint(1, 3))
            result = self.name(rank)
            nodes.append(onnx.helper.make_node("Identity", [self.pick(inner, rank)], [result]))
            graphs.append(onnx.helper.make_graph(nodes, f"{name}_{result}", [], [onnx.ValueInfoProto(name=result)]))
        output = self.name(rank)
        pool[output] = rank
        then_branch, else_branch = graphs
        return onnx.helper.make_node(
            "If", [condition], [output], name=f"n_{output}", then_branch=then_branch, else_branch=else_branch
        )

    def loop(self, pool: Pool, depth: int) -> list[onnx.NodeProto]:
        trips, states = self.name(0, "k"), [self.pick(pool) for _ in range(self.random.randint(1, 2))]
        trip_count = onnx.helper.make_tensor(trips, onnx.TensorProto.INT64, [], [self.random.randint(1, 3)])
        turn, going = self.name(0, "turn"), self.name(0, "going")
        entering = {self.name(pool[state], "s"): pool[state] for state in states}
        self.booleans.add(going)
        inner = {**pool, turn: 0, going: 0, **entering}
        nodes, leaving = self.body(inner, depth, list(entering.values()))
        element = self.pick(inner, 0)
        still = self.name(0, "still")
        nodes += [onnx.helper.make_node("Identity", [going], [still])]
        body = self.graph(nodes, [turn, going, *entering], [still, *leaving, self.copied(element, nodes)])
        for info, dtype in zip(body.input, (DataType.INT64, DataType.BOOL), strict=False):
            info.type.CopyFrom(onnx.helper.make_tensor_type_proto(int(dtype), []))
        outputs = {self.name(rank): rank for rank in entering.values()}
        pool.update(outputs)
        unused = self.name(1)
        constant = onnx.helper.make_node("Constant", [], [trips], value=trip_count)
        node = onnx.helper.make_node("Loop", [trips, "", *states], [*outputs, unused], name=f"n_{unused}", body=body)
        return [constant, node]

    def scan(self, pool: Pool, depth: int) -> onnx.NodeProto:
        state, scanned = self.pick(pool), self.pick(pool, 1)
        entering, element = self.name(pool[state], "s"), self.name(0, "e")
        inner = {**pool, entering: pool[state], element: 0}
        nodes, leaving = self.body(inner, depth, [pool[state]])
        body = self.graph(nodes, [entering, element], [*leaving, self.copied(self.pick(inner, 0), nodes)])
        outputs = {self.name(pool[state]): pool[state], self.name(1): 1}
        pool.update(outputs)
        return onnx.helper.make_node(
            "Scan", [state, scanned], [*outputs], name=f"n_{self.name(0)}", body=body, num_scan_inputs=1
        )

    def body(self, inner: Pool, depth: int, ranks: list[int]) -> tuple[list[onnx.NodeProto], list[str]]:
        nodes = self.nodes(inner, depth - 1, self.random.randint(1, 3))
        return nodes, [self.copied(self.pick(inner, rank), nodes) for rank in ranks]

    def copied(self, name: str, nodes: list[onnx.NodeProto]) -> str:
        output = self.name(self.ranks[name])
        nodes.append(onnx.helper.make_node("Identity", [name], [output]))
        return output

    def graph(self, nodes: list[onnx.NodeProto], inputs: list[str], outputs: list[str]) -> onnx.GraphProto:
        taken, given = ([onnx.ValueInfoProto(name=name) for name in names] for names in (inputs, outputs))
        return onnx.helper.make_graph(nodes, f"body_{outputs[0]}", taken, given)

    def function(self, name: str, callable_from_it: tuple[str, ...]) -> onnx.FunctionProto:
        inputs = [self.name(1, "a"), self.name(1, "a")]
        pool = {**dict.fromkeys(inputs, 1)}
        flag = self.name(0, "k")
        self.booleans.add(flag)
        scalar = onnx.helper.make_tensor(flag, onnx.TensorProto.BOOL, [], [True])
        pool[flag] = 0
        nodes = [onnx.helper.make_node("Constant", [], [flag], value=scalar)]
        nodes += self.nodes(pool, 1, self.random.randint(1, 4), callable_from_it)
        result = self.copied(self.pick(pool, 1), nodes)
        opsets = [onnx.helper.make_opsetid("", self.opset), onnx.helper.make_opsetid("local", 1)]
        return onnx.helper.make_function("local", name, inputs, [result], nodes, opsets)


def random_model(random: Random, *, functions: bool = True) -> tuple[onnx.ModelProto, dict[str, int]]:
    """A model, and the rank of each of its values, functions included."""
    build = Builder(random, random.choice((13, 17, 18, 21, 23)))
    local = [build.function("g", ()), build.function("f", ("g",))] if functions else []
    inputs: list[onnx.ValueInfoProto] = []
    pool: Pool = {}
    for rank, dtype in [(0, DataType.BOOL), (1, DataType.BOOL), *((i % 2, random.choice(TYPES)) for i in range(4))]:
        name = build.name(rank, "x")
        pool[name] = rank
        inputs.append(onnx.helper.make_tensor_value_info(name, int(dtype), [LENGTH] * rank))
        if dtype is DataType.BOOL:
            build.booleans.add(name)
    nodes = build.nodes(pool, 2, random.randint(3, 8), FUNCTIONS if functions else ())
    results = [name for name in pool if name.startswith("v")][-3:] or [build.copied(build.pick(pool), nodes)]
    outputs = [
        onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [LENGTH] * build.ranks[n]) for n in results
    ]
    graph = onnx.helper.make_graph(nodes, "random", inputs, outputs)
    opsets = [onnx.helper.make_opsetid("", build.opset), onnx.helper.make_opsetid("local", 1)]
    model = onnx.helper.make_model(graph, functions=local, opset_imports=opsets, ir_version=random.choice((8, 10)))
    return model, build.ranks
