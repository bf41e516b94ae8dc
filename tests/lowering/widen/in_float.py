"""The meaning that widen-floats gives a model: each operator alone, in float, in ONNX Runtime, its results rounded once
by the codec to the type that the model says. For graphs without subgraphs."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
import onnx_ir
from onnx_ir import DataType

from castsmith.analysis.inference.walk import infer_element_types
from castsmith.ir.ops.casts import read_cast
from castsmith.numerics.cast.convert import cast
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.numerics.types import HALF_TYPES
from tests.lowering.runtime import LEVELS, Array, run, session


def evaluated(model: onnx_ir.Model, feeds: Mapping[str, Array]) -> list[Array]:
    """The outputs of the model."""
    types = infer_element_types(model, PromotionRules()).types
    scope = {value: value.const_value.numpy() for value in model.graph.initializers.values() if value.const_value}
    scope |= {value: feeds[value.name or ""] for value in model.graph.inputs}
    for node in model.graph:
        inputs = [None if value is None else scope[value] for value in node.inputs]
        meaning, x = read_cast(node), inputs[0] if inputs else None
        if meaning is not None and meaning.to is not None and x is not None:
            scope[node.outputs[0]] = cast(x, meaning.to)
            continue
        results = _in_float(node, inputs, model)
        for value, result in zip(node.outputs, results, strict=True):
            dtype = types[value]
            scope[value] = cast(result, dtype) if dtype in HALF_TYPES else result
    return [scope[value] for value in model.graph.outputs]


def _in_float(node: onnx_ir.Node, inputs: list[Array | None], model: onnx_ir.Model) -> list[Array]:
    halves = {dtype.numpy() for dtype in HALF_TYPES}
    arrays = [a if a is None or a.dtype not in halves else cast(a, DataType.FLOAT) for a in inputs]
    feeds = {f"i{index}": array for index, array in enumerate(arrays) if array is not None}
    proto = onnx.helper.make_node(node.op_type, ["" if a is None else f"i{i}" for i, a in enumerate(arrays)],
                                  [f"o{i}" for i in range(len(node.outputs))])  # fmt: skip
    proto.attribute.extend(onnx_ir.to_proto(attribute) for attribute in node.attributes.values())
    infos = [
        onnx.helper.make_tensor_value_info(n, int(DataType.from_numpy(np.asarray(a).dtype)), np.shape(a))
        for n, a in feeds.items()
    ]
    graph = onnx.helper.make_graph([proto], "alone", infos, [onnx.ValueInfoProto(name=name) for name in proto.output])
    opsets = [onnx.helper.make_opsetid("", model.graph.opset_imports[""])]
    return run(session(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10), LEVELS[0]), feeds)
