"""An evaluator that gives mixed-type graphs the meaning which promotion gives them, one node at a time.

It shares nothing with the passes: operands are promoted where they meet (`tests.promoting`), control flow is run for
the types that meet in it (`tests.evaluator_flow`), Cast is the numeric core's, Trunc is qonnx's formula, and any other
operator is the ONNX reference implementation's, run alone in a model of one node.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import onnx.defs
import onnx.helper
import onnx_ir
from numpy.typing import NDArray
from onnx.reference import ReferenceEvaluator

from castsmith.ir.constants import constant_tensor
from castsmith.ir.ops.promote_types import promotion_rules_of
from castsmith.ir.ops.qonnx import is_trunc, read_trunc, trunc_operands
from castsmith.numerics.cast.convert import cast
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.numerics.trunc import trunc
from tests.evaluator_flow import branches, loop, scan
from tests.promoting import LOGIC, allowed_by, dtype_of, goes_back, groups_of, legal_stand_in, promote

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
            return branches(self, node, bool(np.all(inputs[0])), scope, imports)
        if node.op_type == "Loop":
            return loop(self, node, inputs, scope, imports)
        if node.op_type == "Scan":
            return scan(self, node, [array for array in inputs if array is not None], scope, imports)
        if node.op_type == "Constant":
            tensor = onnx_ir.convenience.get_const_tensor(node.outputs[0])
            assert tensor is not None
            return [tensor.numpy()]
        if node.op_type in ("Cast", "CastLike"):
            return [self.cast(node, inputs, imports)]
        if node.op_type == "ConvertPromoteTypes":
            return promote([array for array in inputs if array is not None], promotion_rules_of(node))
        if is_trunc(node):
            return [self.trunc(node, scope, imports)]
        return self.reference(node, inputs, imports)

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

    def meant_to_promote(self, node: onnx_ir.Node, inputs: list[Array | None]) -> bool:
        """Pow gives the type of its base; where the model declares the promoted type, that is what it means."""
        base, exponent = inputs
        assert base is not None
        assert exponent is not None
        declared = node.outputs[0].dtype
        if declared is None or declared.numpy() == base.dtype:
            return False
        promoted = promote([base, exponent], replace(self.rules, promote_unsafe=True), self.constants(node))
        return declared.numpy() == promoted[0].dtype

    def constants(self, node: onnx_ir.Node) -> list[bool]:
        return [constant_tensor(value) is not None for value in node.inputs if value is not None]

    def reference(self, node: onnx_ir.Node, inputs: list[Array | None], imports: Mapping[str, int]) -> list[Array]:
        schema = onnx.defs.get_schema(node.op_type, imports[node.domain], node.domain)
        groups = groups_of(schema, len(inputs))
        if node.op_type == "Pow" and self.meant_to_promote(node, inputs):
            groups = {"T": [0, 1]}
        back: dict[str, onnx_ir.DataType] = {}
        for type_str, indexes in groups.items():
            present = [index for index in indexes if inputs[index] is not None]
            arrays = [array for index in present if (array := inputs[index]) is not None]
            if not arrays:
                continue
            if len({array.dtype for array in arrays}) > 1:
                constants = [constant_tensor(node.inputs[index]) is not None for index in present]
                arrays = promote(arrays, self.rules, constants)
            dtype = dtype_of(arrays[0])
            bound = any(formal.type_str == type_str for formal in schema.outputs)
            declared = node.outputs[0].dtype if bound else None
            stand_in = legal_stand_in(dtype, allowed_by(schema, type_str), declared)
            if stand_in not in (dtype, declared) and dtype is onnx_ir.DataType.BOOL and node.op_type in LOGIC:
                return [functools.reduce(LOGIC[node.op_type], arrays)]
            if stand_in is not None and stand_in is not dtype:
                arrays = [cast(array, stand_in) for array in arrays]
                if goes_back(dtype, stand_in, declared):
                    back[type_str] = dtype
            inputs = [arrays[present.index(i)] if i in present else array for i, array in enumerate(inputs)]
        results = _run_alone(node, inputs, imports)
        formals = [schema.outputs[min(index, len(schema.outputs) - 1)] for index in range(len(results))]
        pairs = zip(results, formals, strict=True)
        return [cast(a, back[formal.type_str]) if formal.type_str in back else a for a, formal in pairs]


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
