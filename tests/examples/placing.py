"""A model's graph put elsewhere: into a function, or the branches of an If; and the part that gives one output."""

from __future__ import annotations

import onnx
import onnx_ir
from onnx import helper
from onnx.compose import add_prefix_graph

FUNCTION = "placed"


def in_a_function(model: onnx_ir.Model) -> onnx_ir.Model:
    """Return a model whose main graph calls a function with the given model's graph."""
    proto = onnx_ir.to_proto(model)
    graph = proto.graph
    constants = [helper.make_node("Constant", [], [tensor.name], value=tensor) for tensor in graph.initializer]
    inputs, outputs = ([value.name for value in values] for values in (graph.input, graph.output))
    body = helper.make_function(FUNCTION, "body", inputs, outputs, [*constants, *graph.node], proto.opset_import)
    main = helper.make_graph(
        [helper.make_node("body", inputs, outputs, domain=FUNCTION)], "main", graph.input, graph.output
    )
    imports = [*proto.opset_import, helper.make_opsetid(FUNCTION, 1)]
    functions = [*proto.functions, body]
    return onnx_ir.from_proto(
        helper.make_model(main, ir_version=proto.ir_version, opset_imports=imports, functions=functions)
    )


def in_a_branch(model: onnx_ir.Model) -> onnx_ir.Model:
    """Return a model of one If, both branches of which are the given model's graph on the outer inputs."""
    proto = onnx_ir.to_proto(model)
    branches: list[onnx.GraphProto] = []
    for prefix in ("then_", "else_"):
        branch = add_prefix_graph(proto.graph, prefix, rename_inputs=False)
        del branch.input[:]
        branches.append(branch)
    names = [output.name for output in proto.graph.output]
    node = helper.make_node("If", ["condition"], names, then_branch=branches[0], else_branch=branches[1])
    condition = helper.make_tensor_value_info("condition", onnx.TensorProto.BOOL, [])
    main = helper.make_graph([node], "main", [*proto.graph.input, condition], proto.graph.output)
    made = helper.make_model(
        main, ir_version=proto.ir_version, opset_imports=proto.opset_import, functions=proto.functions
    )
    return onnx_ir.from_proto(made)


def submodels(model: onnx_ir.Model) -> list[onnx_ir.Model]:
    """For each output a model of the part that gives it."""
    return [
        onnx_ir.Model(
            onnx_ir.convenience.extract(model.graph, model.graph.inputs, [output]),
            ir_version=model.ir_version,
            functions=list(model.clone().functions.values()),
        )
        for output in model.graph.outputs
    ]
