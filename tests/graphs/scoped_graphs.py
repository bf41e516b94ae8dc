"""Random valid models in which few names are used for many values.

The same names in sibling scopes, inputs of subgraphs that shadow outer values, nested If, Loop and Scan, functions,
dead nodes and unused outputs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import onnx
import onnx.helper as make
from onnx import TensorProto

WORDS = ("k", "w", "a", "j", "y", "k_1", "x_double", "castsmith_Cast")
"""Names for values, few enough to meet, some of them such as passes make up."""

TYPES = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.INT64, TensorProto.INT32)
_LENGTH = 2

Visible = dict[str, int]
"""The element type of each vector in sight, by name."""


@dataclass
class Names:
    """The names that nothing new in a scope may have: those in sight, and those of the scopes inside, as ONNX Runtime
    allows no name of a later value there."""

    taken: set[str]
    below: set[str] = field(default_factory=set[str])

    def fresh(self, random: Random) -> str:
        """A name that is free here: in another scope the same one may be taken again."""
        free = [word for word in WORDS if word not in self.taken | self.below]
        name = random.choice(free or [f"t{random.randrange(1 << 30)}"])
        self.taken.add(name)
        return name


class ScopedModel:
    """A model that grows from a seed."""

    def __init__(self, random: Random, *, opset: int = 18, ir_version: int = 8) -> None:
        self.random = random
        self.opset = opset
        self.ir_version = ir_version
        self.functions: list[onnx.FunctionProto] = []

    def build(self) -> onnx.ModelProto:
        """The whole model."""
        self.functions = [self.function(name) for name in ("f", "g")[: self.random.randint(0, 2)]]
        constants = ("w", "v") if self.random.random() < 0.8 else ()
        tensors = [make.make_tensor(name, self.random.choice(TYPES), [_LENGTH], [3, 4]) for name in constants]
        inputs = [make.make_tensor_value_info("x", self.random.choice(TYPES), [_LENGTH])]
        inputs += [make.make_tensor_value_info("n", TensorProto.INT64, []), make.make_tensor_value_info("c", 9, [])]
        if self.ir_version < 4:
            inputs += [make.make_tensor_value_info(t.name, t.data_type, [_LENGTH]) for t in tensors]
        visible: Visible = {"x": inputs[0].type.tensor_type.elem_type, **{t.name: t.data_type for t in tensors}}
        taken = Names({"n", "c", *visible})
        nodes = self.nodes(visible, taken, 2, self.random.randint(3, 7), calls=True)
        given: list[onnx.ValueInfoProto] = []
        for index in range(self.random.randint(1, 3)):
            name, source = f"out{index}", self.pick(visible)
            nodes.append(self.random.choice((self.identity, self.cast))(source, name, visible))
            given.append(make.make_tensor_value_info(name, visible[name], [_LENGTH]))
        graph = make.make_graph(nodes, "scoped", inputs, given, tensors)
        opsets = [make.make_opsetid("", self.opset), make.make_opsetid("local", 1)]
        return make.make_model(graph, functions=self.functions, opset_imports=opsets, ir_version=self.ir_version)

    def function(self, name: str) -> onnx.FunctionProto:
        """A function of one float vector, whose names are those of the graphs that call it."""
        visible: Visible = {"x": TensorProto.FLOAT}
        nodes = [make.make_node("Constant", [], ["c"], value=make.make_tensor("", TensorProto.BOOL, [], [True]))]
        nodes += [make.make_node("Constant", [], ["n"], value=make.make_tensor("", TensorProto.INT64, [], [2]))]
        nodes += self.nodes(visible, Names({"x", "c", "n"}), 1, self.random.randint(1, 3))
        nodes.append(make.make_node("Cast", [self.pick(visible)], ["y_out"], to=TensorProto.FLOAT))
        return make.make_function("local", name, ["x"], ["y_out"], nodes, [make.make_opsetid("", self.opset)])

    def pick(self, visible: Visible) -> str:
        return self.random.choice(list(visible))

    def nodes(
        self, visible: Visible, taken: Names, depth: int, count: int, *, calls: bool = False
    ) -> list[onnx.NodeProto]:
        """Add nodes whose results become visible; some stay unused."""
        made: list[onnx.NodeProto] = []
        for _ in range(count):
            kinds = ["cast", "cast", "cast", "move", "add", "constant"] + ["If", "Loop", "Scan"] * bool(depth)
            kind = self.random.choice(kinds + ["call"] * bool(calls and self.functions))
            if kind in ("If", "Loop", "Scan"):
                made.append(self.flow(kind, visible, taken, depth))
                continue
            name, source = taken.fresh(self.random), self.pick(visible)
            match kind:
                case "cast":
                    made.append(self.cast(source, name, visible))
                case "move":
                    made.append(self.move(source, name, visible))
                case "add":
                    other = self.random.choice([each for each in visible if visible[each] == visible[source]])
                    visible[name] = visible[source]
                    made.append(make.make_node("Add", [source, other], [name]))
                case "constant":
                    visible[name] = self.random.choice(TYPES)
                    value = make.make_tensor("", visible[name], [_LENGTH], [1, self.random.randint(0, 2)])
                    made.append(make.make_node("Constant", [], [name], value=value))
                case _:
                    entering = taken.fresh(self.random)
                    made.append(make.make_node("Cast", [source], [entering], to=TensorProto.FLOAT))
                    function = self.random.choice(self.functions).name
                    made.append(make.make_node(function, [entering], [name], domain="local"))
                    visible[entering] = visible[name] = TensorProto.FLOAT
        return made

    def cast(self, source: str, name: str, visible: Visible) -> onnx.NodeProto:
        visible[name] = self.random.choice(TYPES)
        return make.make_node("Cast", [source], [name], to=visible[name], name=self.random.choice(("", name)))

    def identity(self, source: str, name: str, visible: Visible) -> onnx.NodeProto:
        visible[name] = visible[source]
        return make.make_node("Identity", [source], [name])

    def move(self, source: str, name: str, visible: Visible) -> onnx.NodeProto:
        visible[name] = visible[source]
        return make.make_node(self.random.choice(("Transpose", "Identity")), [source], [name])

    def flow(self, kind: str, visible: Visible, taken: Names, depth: int) -> onnx.NodeProto:
        """An If of two branches, a Loop or a Scan of one state and one stacked output."""
        state = self.pick(visible)
        dtype = visible[state]
        if kind == "If":
            then_branch = self.subgraph("then_branch", visible, taken, depth, [], [dtype])
            else_branch = self.subgraph("else_branch", visible, taken, depth, [], [dtype])
            result = taken.fresh(self.random)
            node = make.make_node("If", ["c"], [result], then_branch=then_branch, else_branch=else_branch)
            visible[node.output[0]] = dtype
            return node
        # Inputs of a body may have the name of a value outside, which they hide.
        entering = self.random.choice([each for each in visible if visible[each] == dtype])
        entering = self.random.choice((entering, taken.fresh(self.random)))
        names, types = ["i", "going", entering], [TensorProto.INT64, TensorProto.BOOL, dtype]
        if kind == "Scan":
            names, types = [entering, "e"], [dtype, -1]
        inputs = [
            make.make_tensor_value_info(name, each, [_LENGTH] if name == entering else [])
            for name, each in zip(names, types, strict=True)
            if each >= 0
        ]
        body = self.subgraph(kind, visible, taken, depth, inputs, [dtype], loop=kind == "Loop")
        out, scanned = taken.fresh(self.random), self.pick(visible)
        body.input.append(make.make_tensor_value_info("e", visible[scanned], []))
        visible[out] = dtype
        if kind == "Loop":
            del body.input[-1]
            return make.make_node("Loop", ["n", "", state], [out], body=body)
        return make.make_node("Scan", [state, scanned], [out], body=body, num_scan_inputs=1)

    def subgraph(
        self,
        name: str,
        visible: Visible,
        taken: Names,
        depth: int,
        inputs: list[onnx.ValueInfoProto],
        outputs: list[int],
        *,
        loop: bool = False,
    ) -> onnx.GraphProto:
        inner = dict(visible)
        own = Names({*taken.taken, "e", *(value.name for value in inputs)})
        for value in inputs:
            inner.pop(value.name, None)
            if value.type.tensor_type.shape.dim:
                inner[value.name] = value.type.tensor_type.elem_type
        nodes = self.nodes(inner, own, depth - 1, self.random.randint(0, 4))
        given: list[onnx.ValueInfoProto] = []
        if loop:
            still = own.fresh(self.random)
            nodes.append(make.make_node("Identity", ["going"], [still]))
            given.append(make.make_tensor_value_info(still, TensorProto.BOOL, []))
        for dtype in outputs:
            result = own.fresh(self.random)
            nodes.append(make.make_node("Cast", [self.pick(inner)], [result], to=dtype))
            given.append(make.make_tensor_value_info(result, dtype, [_LENGTH]))
        taken.below |= {*own.taken, *own.below} - taken.taken
        return make.make_graph(nodes, f"{name}_{self.random.randint(0, 99)}", inputs, given)


def scoped_model(seed: int, *, opset: int = 18, ir_version: int = 8) -> onnx.ModelProto:
    """The model of a seed."""
    return ScopedModel(Random(seed), opset=opset, ir_version=ir_version).build()
