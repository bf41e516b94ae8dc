"""An evaluator that gives mixed-type graphs the meaning which promotion gives them, one node at a time.

It shares nothing with the passes: operands that one type variable binds are cast to their common type where they meet,
Cast is the numeric core's, Trunc is qonnx's formula, and every other operator is the ONNX reference implementation's,
run alone in a model of one node.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnx.defs
import onnx.helper
import onnx_ir
from numpy.typing import NDArray
from onnx.reference import ReferenceEvaluator

from castsmith.ir.qonnx import is_trunc, read_trunc, trunc_operands
from castsmith.numerics.cast import cast
from castsmith.numerics.promotion import PromotionRules, common_type
from castsmith.numerics.trunc import trunc

Array = NDArray[Any]


def evaluate(model: onnx_ir.Model, inputs: Mapping[str, Array], rules: PromotionRules | None = None) -> list[Array]:
    """The outputs of the main graph for the named inputs."""
    evaluator = _Evaluator(model, rules or PromotionRules(promote_unsafe=True))
    scope = {value: inputs[value.name or ""] for value in model.graph.inputs if value.name in inputs}
    return evaluator.graph(model.graph, scope, model.graph.opset_imports)


class _Evaluator:
    def __init__(self, model: onnx_ir.Model, rules: PromotionRules) -> None:
        self.model = model
        self.rules = rules

    def graph(self, graph: onnx_ir.Graph, scope: dict[onnx_ir.Value, Array], imports: Mapping[str, int]) -> list[Array]:
        for value in graph.initializers.values():
            if value not in scope and value.const_value is not None:
                scope[value] = value.const_value.numpy()
        return self.nodes(graph, scope, imports)

    def nodes(
        self, body: onnx_ir.Graph | onnx_ir.Function, scope: dict[onnx_ir.Value, Array], imports: Mapping[str, int]
    ) -> list[Array]:
        for node in body:
            results = self.node(node, scope, imports)
            scope.update(zip(node.outputs, results, strict=False))
        return [scope[value] for value in body.outputs]

    def node(self, node: onnx_ir.Node, scope: dict[onnx_ir.Value, Array], imports: Mapping[str, int]) -> list[Array]:
        inputs = [None if value is None else scope[value] for value in node.inputs]
        function = self.model.functions.get(node.op_identifier())
        if function is not None:
            call = dict(zip(function.inputs, (array for array in inputs if array is not None), strict=True))
            return self.nodes(function, call, function.opset_imports)
        if node.op_type == "If":
            branch = "then_branch" if bool(np.all(inputs[0])) else "else_branch"
            return self.graph(node.attributes[branch].as_graph(), scope, imports)
        if node.op_type == "Loop":
            return self.loop(node, inputs, scope, imports)
        if node.op_type == "Constant":
            tensor = onnx_ir.convenience.get_const_tensor(node.outputs[0])
            assert tensor is not None
            return [tensor.numpy()]
        if node.op_type in ("Cast", "CastLike"):
            return [self.cast(node, inputs, imports)]
        if node.op_type == "ConvertPromoteTypes":
            return list(self.promote([array for array in inputs if array is not None]))
        if is_trunc(node):
            return [self.trunc(node, scope, imports)]
        return self.reference(node, inputs, imports)

    def loop(
        self,
        node: onnx_ir.Node,
        inputs: list[Array | None],
        scope: dict[onnx_ir.Value, Array],
        imports: Mapping[str, int],
    ) -> list[Array]:
        body = node.attributes["body"].as_graph()
        trips = None if inputs[0] is None else int(inputs[0])
        going = True if inputs[1] is None else bool(inputs[1])
        states = [array for array in inputs[2:] if array is not None]
        scans: list[list[Array]] = [[] for _ in range(len(node.outputs) - len(states))]
        turn = 0
        while going and (trips is None or turn < trips):
            entry = [np.array(turn, np.int64), np.array(going), *states]
            found = self.graph(body, scope | dict(zip(body.inputs, entry, strict=True)), imports)
            going, turn = bool(found[0]), turn + 1
            pairs = zip(states, found[1 : 1 + len(states)], strict=True)
            states = [self.promote([before, after])[1] for before, after in pairs]
            for collected, element in zip(scans, found[1 + len(states) :], strict=True):
                collected.append(element)
        return [*states, *(np.stack(collected) for collected in scans)]

    def cast(self, node: onnx_ir.Node, inputs: list[Array | None], imports: Mapping[str, int]) -> Array:
        array = inputs[0]
        assert array is not None
        like = inputs[1] if len(inputs) > 1 else None
        to = _target(node) if like is None else onnx_ir.DataType.from_numpy(like.dtype)
        saturate = bool(node.attributes.get_int("saturate", 1))
        return cast(array, to, saturate=saturate, opset=imports[""])

    def trunc(self, node: onnx_ir.Node, scope: dict[onnx_ir.Value, Array], imports: Mapping[str, int]) -> Array:
        meaning = read_trunc(node, imports)
        x, *parameters = [scope[value] for value in trunc_operands(node, meaning.version).values()]
        if meaning.version == 2:
            parameters[-2:] = reversed(parameters[-2:])
        mode = meaning.rounding_mode
        result = trunc(x, *parameters, rounding_mode=mode, signed=meaning.signed, narrow=meaning.narrow)
        return result.astype(np.float32)

    def promote(self, arrays: list[Array]) -> list[Array]:
        operands = [(onnx_ir.DataType.from_numpy(array.dtype), array.ndim) for array in arrays]
        common = common_type(operands, self.rules)
        assert common is not None
        return [cast(array, common) for array in arrays]

    def meant_to_promote(self, node: onnx_ir.Node, inputs: list[Array | None]) -> bool:
        """Pow gives the type of its base; where the model declares the promoted type, that is what it means."""
        base, exponent = inputs
        assert base is not None
        assert exponent is not None
        declared = node.outputs[0].dtype
        return declared is not None and declared.numpy() == self.promote([base, exponent])[0].dtype != base.dtype

    def reference(self, node: onnx_ir.Node, inputs: list[Array | None], imports: Mapping[str, int]) -> list[Array]:
        schema = onnx.defs.get_schema(node.op_type, imports[node.domain], node.domain)
        groups: dict[str, list[int]] = {}
        for index, array in enumerate(inputs):
            formal = schema.inputs[min(index, len(schema.inputs) - 1)]
            if array is not None and formal.is_homogeneous and not formal.type_str.startswith("tensor("):
                groups.setdefault(formal.type_str, []).append(index)
        if node.op_type == "Pow" and self.meant_to_promote(node, inputs):
            groups["as declared"] = [0, 1]
        for indexes in groups.values():
            arrays = [array for index in indexes if (array := inputs[index]) is not None]
            if len({array.dtype for array in arrays}) > 1:
                for index, array in zip(indexes, self.promote(arrays), strict=True):
                    inputs[index] = array
        return _run_alone(node, inputs, imports)


def _target(node: onnx_ir.Node) -> onnx_ir.DataType:
    return onnx_ir.DataType(node.attributes["to"].as_int())


def _run_alone(node: onnx_ir.Node, inputs: list[Array | None], imports: Mapping[str, int]) -> list[Array]:
    proto = onnx.NodeProto(op_type=node.op_type, domain=node.domain)
    proto.attribute.extend(onnx_ir.to_proto(attribute) for attribute in node.attributes.values())
    proto.input.extend("" if array is None else f"i{index}" for index, array in enumerate(inputs))
    proto.output.extend(f"o{index}" for index in range(len(node.outputs)))
    feeds = {f"i{index}": array for index, array in enumerate(inputs) if array is not None}
    graph = onnx.helper.make_graph(
        [proto],
        "alone",
        [
            onnx.helper.make_tensor_value_info(name, int(onnx_ir.DataType.from_numpy(array.dtype)), None)
            for name, array in feeds.items()
        ],
        [onnx.ValueInfoProto(name=name) for name in proto.output],
    )
    opsets = [onnx.helper.make_opsetid(domain, version) for domain, version in imports.items()]
    results: list[Array] = ReferenceEvaluator(onnx.helper.make_model(graph, opset_imports=opsets)).run(None, feeds)  # type: ignore[assignment]
    return [np.asarray(result) for result in results]
