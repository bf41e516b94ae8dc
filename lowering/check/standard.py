"""What the checker and the shape inference of onnx refuse in a model.

Without a target, the full check of onnx decides whether a model is valid. With one, its operators must fit together:
types and shapes are inferred from the inputs and constants alone, as runtimes do, which do not trust declarations.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

import onnx
import onnx.checker
import onnx.shape_inference
import onnx_ir
from onnx_ir import DataType

from castsmith.analysis.inference.by_onnx import crashes_onnx
from castsmith.analysis.inference.walk import Inference
from castsmith.ir.codes import FindingCode, Outcome
from castsmith.ir.io.loading import structure
from castsmith.ir.io.protos import graphs_of_proto
from castsmith.ir.ops.schemas import DEFAULT_DOMAINS, op_key
from castsmith.ir.ops.table import traits_of
from castsmith.ir.records import Diagnostic, Severity, Site
from castsmith.ir.text import site_of
from castsmith.ir.walks import all_nodes
from castsmith.lowering.check.apart import asked_apart

INVALID_MODEL = FindingCode(
    "invalid-model",
    "The model violates the standard: its operators do not fit their operands, or a declaration is false.",
    why="onnx.checker and most runtimes reject the model.",
    example="Add of float[2] and float[3]",
    advice="Export the model again, or correct the node that the message names.",
    outcomes=(Outcome.REFUSED,),
    fix="manual",
    silence="If the runtime loads the model as it is, which check --target T tells you.",
)
BRANCH_INPUTS = "branch-inputs"
"""The subject of a finding about branches of If that have inputs."""
_OF_BRANCH = re.compile(r"Graph has \d+ inputs but 0 were provided")
_LARGE = 1 << 12
"""Bytes from which a constant is left out: shape inference reads small ones only."""
_LIST = "Inference error(s)"
_FAULT = re.compile(r"\(op_type:(\w*)(?:, node name: ([^)]*))?\): ")


def declaration_findings(model: onnx_ir.Model, proto: onnx.ModelProto) -> Iterator[Diagnostic]:
    """Yield what the full check of onnx refuses, declarations, names and the order of nodes included."""
    crashing = list(_crashing(model))
    yield from crashing
    if not crashing and (text := asked_apart(lambda: onnx.checker.check_model(_light(proto), full_check=True))):
        yield from _faults(text, proto)


def operator_fits(model: onnx_ir.Model, inference: Inference) -> Iterator[Diagnostic]:
    """Yield operators that do not fit their operands, as far as types and shapes follow from inputs and constants."""
    if crashing := list(_crashing(model)):
        yield from crashing
        return
    proto = _light(structure(model))
    proto.ir_version = max(proto.ir_version, _FIRST_WITH_TYPED_INITIALIZERS)
    unnamed = {node.domain for node in all_nodes(model)} - {"ai.onnx", *model.opset_imports}
    for domain in sorted(unnamed - {*DEFAULT_DOMAINS} if {*DEFAULT_DOMAINS} & model.opset_imports.keys() else unnamed):
        version = 1 if domain else onnx.defs.onnx_opset_version()
        proto.opset_import.add(domain=domain, version=version)  # whether it need be imported is up to the target
    _drop_declarations(proto, model, inference)
    _replace_foreign(proto, model, inference)
    infer = partial(onnx.shape_inference.infer_shapes, proto, check_type=True, strict_mode=True, data_prop=True)
    operators = {node.op_type for node in all_nodes(model)}
    for finding in _faults(asked_apart(infer), proto):
        # Of other operators than those of the model in the functions that onnx expands, and of no operator at all.
        if finding.site.op in operators and not any(text in finding.message for text in _NO_FAULTS):
            yield finding


def _crashing(model: onnx_ir.Model) -> Iterator[Diagnostic]:
    """Yield the nodes at which onnx ends the process."""
    for node in filter(crashes_onnx, all_nodes(model)):
        message = f"{node.op_type} has an attribute that does not fit its outputs or the rank of its operand"
        yield Diagnostic(INVALID_MODEL.code, Severity.ERROR, site_of(node), message, _WAY_OUT)


_LIKE_FIRST = (
    *("BiasGelu", "FastGelu", "QuickGelu"),
    *("SimplifiedLayerNormalization", "SkipLayerNormalization", "SkipSimplifiedLayerNormalization"),
)
"""Operators of ONNX Runtime alone whose first result has the shape of their first operand."""
_PLAIN = (DataType.FLOAT, DataType.FLOAT16, DataType.DOUBLE, DataType.UINT8, DataType.INT8, DataType.INT32)


def _replace_foreign(proto: onnx.ModelProto, model: onnx_ir.Model, inference: Inference) -> None:
    """Write a Cast for each operator of ONNX Runtime that keeps shapes, so that onnx infers what follows."""
    for node, foreign in zip(proto.graph.node, model.graph, strict=True):
        keeps_shape = node.op_type in _LIKE_FIRST or traits_of("", node.op_type).keeps_shape
        if not keeps_shape or (op_key(foreign, model.opset_imports) and node.domain in DEFAULT_DOMAINS):
            continue
        types = [inference.type_of(value) for value in (*foreign.inputs[:1], *foreign.outputs[:1])]
        if len(types) == 2 and set(types) <= set(_PLAIN):
            cast = onnx.helper.make_node("Cast", node.input[:1], node.output[:1], node.name, to=int(types[1] or 0))
            node.CopyFrom(cast)


_FIRST_WITH_TYPED_INITIALIZERS = 4
"""The IR version from which onnx infers types from initializers that are no inputs."""
_NO_FAULTS = (
    *("expected to have type but instead is null", "already exists"),
    *("has unsupported type: tensor(", "output has unsupported type tensor("),
)
"""Words of onnx on the result of an operator that it does not know, on one it sees twice, and on types of elements."""


def _faults(text: str, proto: onnx.ModelProto) -> Iterator[Diagnostic]:
    """Yield each error that the message lists."""
    matches = [match for match in _FAULT.finditer(text) if _LIST not in text[match.end() : match.end() + 60]]
    name = proto.graph.name
    if not matches:
        yield Diagnostic(
            INVALID_MODEL.code, Severity.ERROR, Site(name), text.partition(" ==> ")[0].rstrip("."), _WAY_OUT
        )
        return
    ends = [match.start() for match in matches[1:]] + [len(text)]
    for match, end in zip(matches, ends, strict=True):
        op_type, node = match[1], match[2] or ""
        message = re.sub(r"^\[\w+\] ", "", text[match.end() : end].strip()).rstrip(".")
        site, subject = Site(name, node, op_type), BRANCH_INPUTS if _OF_BRANCH.match(message) else ""
        yield Diagnostic(INVALID_MODEL.code, Severity.ERROR, site, f"{op_type}: {message}", _WAY_OUT, subject)


_WAY_OUT = "correct the model where it says so, or export it again"


def _light(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy whose large constants are inputs."""
    light, graph = onnx.ModelProto(), onnx.GraphProto()
    for field, value in proto.ListFields():
        if field.name == "graph":
            continue
        if not isinstance(value, str | int):
            getattr(light, field.name).extend(value)
        else:
            setattr(light, field.name, value)
    inputs = {value.name for value in proto.graph.input}
    for field, value in proto.graph.ListFields():
        if field.name == "initializer":
            for tensor in value:
                if not _is_large(tensor):
                    graph.initializer.append(tensor)
                elif tensor.name not in inputs:
                    graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
        elif not isinstance(value, str):
            getattr(graph, field.name).extend(value)
        else:
            setattr(graph, field.name, value)
    light.graph.CopyFrom(graph)
    return light


def _is_large(tensor: onnx.TensorProto) -> bool:
    return tensor.data_location == onnx.TensorProto.EXTERNAL or tensor.ByteSize() > _LARGE


def _drop_declarations(proto: onnx.ModelProto, model: onnx_ir.Model, inference: Inference) -> None:
    """Remove the types of intermediate values, and the shapes of results; keep those that onnx cannot infer."""
    declared = onnx.GraphProto()
    for node in model.graph:
        for value in node.outputs if node.domain not in DEFAULT_DOMAINS else ():
            dtype = inference.type_of(value)
            if dtype is not None and value.name:
                declared.value_info.append(onnx.helper.make_tensor_value_info(value.name, int(dtype), None))
    for value in proto.graph.input:
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_value < 0:  # which runtimes take for any size
                dim.Clear()
    del proto.graph.value_info[:]
    proto.graph.value_info.extend(declared.value_info)
    _, *bodies = graphs_of_proto(proto)
    for value in (*proto.graph.output, *(value for body in bodies for value in (*body.output, *body.value_info))):
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("shape")
