"""What a target does not load, or loads although the standard forbids it, by the hazards that its file states."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import cast

import onnx_ir
from onnx_ir import DataType

from castsmith.analysis.inference.disagreement import rank_of
from castsmith.analysis.inference.walk import Inference
from castsmith.ir.constants import constant_tensor
from castsmith.ir.io.protos import REPEATED, WRITTEN
from castsmith.ir.ops.contrib import CONTRIB_DOMAIN
from castsmith.ir.ops.schemas import DEFAULT_DOMAINS, opset_of
from castsmith.ir.ops.table import LINEAR
from castsmith.ir.records import Diagnostic, FlawKind, Severity, Site
from castsmith.ir.text import site_of
from castsmith.ir.walks import all_nodes, all_values, graphs_of, graphs_with_initializers
from castsmith.lowering.check.branches import known_before_run
from castsmith.lowering.check.device import unused_nodes
from castsmith.lowering.check.forms import TARGET_LACKS_FORM
from castsmith.lowering.check.malformed import MALFORMED_MODEL, OF_CONSTANT
from castsmith.lowering.check.standard import BRANCH_INPUTS, INVALID_MODEL
from castsmith.lowering.check.types import MIXED_OPERAND_TYPES, OUTPUT_TYPE_MISMATCH
from castsmith.numerics.types import HALF_TYPES, Kind, element_type
from castsmith.targets.target import Target


def _trains(node: onnx_ir.Node, _: Inference) -> bool:
    """True for a Dropout unless it is known not to train, as one before opset 7 without is_test is."""
    if isinstance(node.graph, onnx_ir.Graph):
        opset = opset_of(node.graph.opset_imports, "")
        if opset is not None and opset < _FIRST_WITHOUT_TRAINING:
            return not node.attributes.get_int("is_test", 0)
    mode = node.inputs[2] if len(node.inputs) > 2 else None
    tensor = constant_tensor(mode)
    return mode is not None and (tensor is None or bool(tensor.numpy().any()))


_FIRST_WITHOUT_TRAINING = 7


def _lacks_epsilon(node: onnx_ir.Node, _: Inference) -> bool:
    return "epsilon" not in node.attributes


def _has_flat_keys(node: onnx_ir.Node, inference: Inference) -> bool:
    return len(node.inputs) > 1 and rank_of(node.inputs[1], inference.ranks) not in (None, 3)


def _has_condition_of_high_rank(node: onnx_ir.Node, inference: Inference) -> bool:
    return (rank_of(node.inputs[0], inference.ranks) or 0) > 1


def _is_of_other_types(node: onnx_ir.Node, inference: Inference) -> bool:
    return inference.type_of(node.inputs[0]) not in (None, DataType.FLOAT, *HALF_TYPES)


def _scans_outer_values(node: onnx_ir.Node, _: Inference) -> bool:
    bodies = graphs_of(node)
    inner_values = {value for body in bodies for inner in body.all_nodes() for value in inner.outputs}
    inner_values |= {value for body in bodies for value in (*body.inputs, *body.initializers.values())}
    operands = (value for body in bodies for inner in body.all_nodes() for value in inner.inputs)
    return any(value is not None and value not in inner_values and _is_computed(value) for value in operands)


def _is_computed(value: onnx_ir.Value) -> bool:
    """False for a constant, and for an initializer that a caller may replace."""
    return value.const_value is None and constant_tensor(value) is None


def _returns_no_result(node: onnx_ir.Node, _: Inference) -> bool:
    """True if the body of a Loop has a result that no node of it makes."""
    bodies = graphs_of(node)
    results = (value.producer() for body in bodies for value in body.outputs)
    return any(maker is None or maker.graph not in bodies for maker in results)


def _is_integer_mod_of_floats(node: onnx_ir.Node, inference: Inference) -> bool:
    dtype = inference.type_of(node.inputs[0])
    is_float = dtype is not None and element_type(dtype).kind is Kind.FLOATING
    return is_float and not node.attributes.get_int("fmod", 0)


def _dims(node: onnx_ir.Node, index: int) -> list[int | None] | None:
    """Return the sizes of an input, None for those that are unknown; None if its rank is."""
    value = node.inputs[index] if index < len(node.inputs) else None
    shape = None if value is None else value.shape if value.const_value is None else value.const_value.shape
    return None if shape is None else [size if isinstance(size, int) else None for size in shape]


def _scales_other_axis(node: onnx_ir.Node, _: Inference) -> bool:
    """True for a vector as scale or zero point, which does not fit the second axis."""
    for data, parameters in ((0, (1, 2)), (3, (4, 5))):
        dims, vectors = _dims(node, data), [_dims(node, index) for index in parameters]
        if dims is not None and len(dims) > 1 and dims[1] not in (None, 1) and any(vectors):
            return True
    return False


def _multiplies_vectors(node: onnx_ir.Node, _: Inference) -> bool:
    """True for a product of a vector, or with a scale or zero point of several elements."""
    is_vector = any(len(_dims(node, index) or "no") == 1 for index in (0, 3))
    return is_vector or any(size not in (None, 1) for index in (1, 2, 4, 5) for size in _dims(node, index) or ())


def _has_other_scales(node: onnx_ir.Node, _: Inference) -> bool:
    """True for a scale of several elements, but not as many as its axis has."""
    dims, scales = _dims(node, 0), _dims(node, 1)
    if node.attributes.get_int("block_size", 0) or not dims or scales is None or len(scales) != 1:
        return False
    axis = node.attributes.get_int("axis", 1)
    if not -len(dims) <= axis < len(dims):
        return scales[0] not in (None, 1)
    return None not in (dims[axis], scales[0]) and scales[0] not in (1, dims[axis])


def _computes_parameter(node: onnx_ir.Node, _: Inference) -> bool:
    value = node.inputs[1] if len(node.inputs) > 1 else None
    return value is not None and known_before_run(value) is False


def _splits_into_more(node: onnx_ir.Node, _: Inference) -> bool:
    dims, axis = _dims(node, 0), node.attributes.get_int("axis", 0)
    length = dims[axis] if dims and -len(dims) <= axis < len(dims) else None
    return length is not None and node.attributes.get_int("num_outputs", 0) > length


def _masks_each_head(node: onnx_ir.Node, inference: Inference) -> bool:
    is_contrib = node.domain == CONTRIB_DOMAIN and len(node.inputs) > 3
    return is_contrib and rank_of(node.inputs[3], inference.ranks) == 4


def _normalizes_beyond_rank(node: onnx_ir.Node, inference: Inference) -> bool:
    rank = rank_of(node.inputs[0], inference.ranks)
    return rank is not None and not -rank <= node.attributes.get_int("axis", -1) < rank


def _misfits_heads(node: onnx_ir.Node, inference: Inference) -> bool:
    """True for an Attention of ONNX Runtime whose weights, bias or heads contradict each other."""
    if node.domain != CONTRIB_DOMAIN:
        return False
    ranks = zip((rank_of(value, inference.ranks) for value in node.inputs[:3]), (3, 2, 1), strict=False)
    if any(rank not in (None, required) for rank, required in ranks):
        return True
    weights, bias = _dims(node, 1), _dims(node, 2)
    width = None if weights is None else weights[1]
    if width is None:
        return False
    heads = 0 if "qkv_hidden_sizes" in node.attributes else node.attributes.get_int("num_heads", 0)
    return (bias is not None and bias[0] not in (None, width)) or (heads > 0 and width // 3 % heads != 0)


def _is_volumetric(node: onnx_ir.Node, inference: Inference) -> bool:
    return rank_of(node.inputs[0], inference.ranks) == 5


@dataclass(frozen=True)
class RefusedForm:
    """Nodes of some operators that a target does not load.

    Attributes:
        operators: The operators.
        applies: True for a node that the target does not load.
        why: What is wrong with it.
        way_out: What to do.
    """

    operators: Container[str]
    applies: Callable[[onnx_ir.Node, Inference], bool]
    why: str
    way_out: str


REFUSED_FORMS = {
    "training-dropout": RefusedForm({"Dropout"}, _trains, "it may train", "export the model for inference"),
    "scan-of-outer-values": RefusedForm(
        {"Scan"}, _scans_outer_values, "its body uses values from outside", "pass these values to the body as states"
    ),
    "loop-of-passed-values": RefusedForm(
        {"Loop"}, _returns_no_result, "its body returns a value as it was given", "return an Identity of the value"
    ),
    "quantized-conv-of-vectors": RefusedForm(
        {"QLinearConv"},
        _scales_other_axis,
        "a scale or zero point is a vector, which it takes along the second axis",
        "write it as DequantizeLinear, Conv and QuantizeLinear",
    ),
    "quantized-matmul-of-vectors": RefusedForm(
        {"QLinearMatMul"},
        _multiplies_vectors,
        "an operand, a scale or a zero point is a vector",
        "write it as DequantizeLinear, MatMul and QuantizeLinear",
    ),
    "scales-unlike-axis": RefusedForm(
        LINEAR,
        _has_other_scales,
        "its scale has another number of elements than its axis",
        "correct the scale, or the attribute axis",
    ),
    "integer-mod-of-floats": RefusedForm(
        {"Mod"}, _is_integer_mod_of_floats, "fmod is 0, and its operands are floats", "set fmod to 1"
    ),
    "computed-parameters": RefusedForm(
        {"SplitToSequence", "STFT", "Unsqueeze", "MatMulNBits"},
        _computes_parameter,
        "an input is computed that it reads while it loads the model",
        "make it a constant",
    ),
    "split-into-more": RefusedForm(
        {"Split"}, _splits_into_more, "it has more parts than the axis has elements", "correct num_outputs"
    ),
    "attention-masks-of-rank-4": RefusedForm(
        {"Attention"}, _masks_each_head, "its mask has four dimensions", "give it a mask of fewer dimensions"
    ),
    "normalization-beyond-rank": RefusedForm(
        {"LayerNormalization"}, _normalizes_beyond_rank, "its operand has no such axis", "correct its axis"
    ),
    "attention-sizes": RefusedForm(
        {"Attention"}, _misfits_heads, "its weights, its bias and num_heads do not fit", "export the model again"
    ),
    "embeddings-without-epsilon": RefusedForm(
        {"EmbedLayerNormalization"}, _lacks_epsilon, "it has no epsilon", "state its epsilon, 1e-12 by default"
    ),
    "keys-of-other-ranks": RefusedForm(
        {"GroupQueryAttention"},
        _has_flat_keys,
        "its keys have no three dimensions",
        "leave keys and values out if packed",
    ),
    "conditions-of-rank-2": RefusedForm(
        {"If"}, _has_condition_of_high_rank, "its condition is no scalar", "make it a scalar"
    ),
    "fastgelu-of-other-types": RefusedForm(
        {"FastGelu"}, _is_of_other_types, "its operand is no float", "cast the operand to float"
    ),
    "volumetric-gridsample": RefusedForm(
        {"GridSample"}, _is_volumetric, "its operand has five dimensions", "write it as other operators"
    ),
}
"""The forms by hazard."""


def refused_findings(model: onnx_ir.Model, inference: Inference, target: Target) -> Iterator[Diagnostic]:
    """Yield the nodes, and the declarations of values, that the target does not load."""
    stated = {hazard: form for hazard, form in REFUSED_FORMS.items() if hazard in target.hazards}
    for node in all_nodes(model) if stated else ():
        if node.domain not in (*DEFAULT_DOMAINS, CONTRIB_DOMAIN) or node.op_identifier() in model.functions:
            continue
        for hazard, form in stated.items():
            if node.op_type in form.operators and form.applies(node, inference):
                message = f"{target} does not load this {node.op_type}: {form.why}"
                yield Diagnostic(TARGET_LACKS_FORM.code, Severity.ERROR, site_of(node), message, form.way_out, hazard)
    repeated = [text.strip() for text in cast("list[str]", model.meta.get(REPEATED, [])) if "(" in text]
    if target.has_hazard("repeated-nodes") and (nodes := [text for text in repeated if "= Constant" not in text]):
        message = f"{target} does not load the model, which has this node twice, with one result: {nodes[0]}"
        site, way_out = Site(model.graph.name or ""), f"`optimize(target={str(target)!r})` writes it once"
        yield Diagnostic(TARGET_LACKS_FORM.code, Severity.ERROR, site, message, way_out, "repeated-nodes")
    written = cast("dict[str, str]", model.meta.get(WRITTEN, {}))
    for hazard in filter(target.has_hazard, written):
        message, site = f"{target} does not load {written[hazard]}", Site(model.graph.name or "")
        way_out = f"`optimize(target={str(target)!r})` writes it otherwise"
        yield Diagnostic(TARGET_LACKS_FORM.code, Severity.ERROR, site, message, way_out, hazard)
    for value, hazard, why, way_out in _misdeclared(model):
        if target.has_hazard(hazard):
            message = f"{target} does not load the {why}"
            site = Site(model.graph.name or "")
            yield Diagnostic(TARGET_LACKS_FORM.code, Severity.ERROR, site, message, way_out, value.name or "")


def _misdeclared(model: onnx_ir.Model) -> Iterator[tuple[onnx_ir.Value, str, str, str]]:
    """Yield the values that are not declared as some targets need it, with the hazard, why, and what to do."""
    for value in model.graph.inputs:
        tensor = value.const_value
        if tensor is not None and not _holds(value, tensor):
            why = f"initializer {value.name}, whose input is declared with another type or shape"
            yield value, "initializers-unlike-inputs", why, "declare the input as the initializer is"
        elif tensor is None and value.type is None:
            yield value, "inputs-without-type", f"input {value.name}, whose type is not declared", "declare its type"
        elif tensor is None and value.shape is None and isinstance(value.type, onnx_ir.TensorType):
            way_out = "declare its shape, with a name for each unknown size"
            yield value, "inputs-without-rank", f"input {value.name}, whose rank is not declared", way_out
    inner = [graph for graph in graphs_with_initializers(model) if graph is not model.graph]
    for value in (value for graph in inner for value in graph.initializers.values()) if model.ir_version < 4 else ():
        if not value.is_graph_input():
            why = f"initializer {value.name} of a subgraph, which is no input of it, at IR version {model.ir_version}"
            yield value, "subgraph-initializers-below-4", why, "raise the IR version to 4"
    for value in model.graph.initializers.values() if model.ir_version < 4 else ():
        if not (value.is_graph_input() or value.is_graph_output() or value.uses()):
            why = f"initializer {value.name}, which is no input and is not read, at IR version {model.ir_version}"
            yield value, "unread-initializers-below-4", why, "raise the IR version to 4"
    for value in all_values(model):
        if type(value.type) is onnx_ir.TensorType and value.dtype == onnx_ir.DataType.UNDEFINED:  # a map has none
            why = f"value {value.name}, which is declared with the element type 0"
            yield value, "undefined-types", why, "declare its type, or remove the declaration"


def _holds(value: onnx_ir.Value, tensor: onnx_ir.TensorProtocol) -> bool:
    """True if the tensor fits the declaration of its value."""
    if value.dtype not in (None, onnx_ir.DataType.UNDEFINED, tensor.dtype):
        return False
    if value.shape is None:
        return True
    sizes = zip(value.shape, tensor.shape, strict=False)
    return len(value.shape) == len(tensor.shape) and all(
        size == actual or not isinstance(size, int) or size < 0 for size, actual in sizes
    )


def as_loaded(
    findings: Iterable[Diagnostic], model: onnx_ir.Model | None, target: Target | None
) -> Iterator[Diagnostic]:
    """Yield the findings; what the target does not look at is a warning, as it loads the model all the same.

    model: The model, if it could be read.
    """
    hazards = dict[str, str]() if target is None else target.hazards
    nodes = unused_nodes(model) if model is not None and "unused-nodes-unread" in hazards else ()
    unused = {(site_of(node), site_of(node).output) for node in nodes}
    for finding in findings:
        unchecked = {_UNCHECKED.get((finding.code, word)) for word in finding.subject.split() or ("",)}
        if target and finding.code == MIXED_OPERAND_TYPES.code and finding.site.op in target.mixes_operands:
            unchecked.add("mixed-operands-unchecked")
        if FlawKind.MORE_THAN_EVER in finding.subject.split() and target and finding.site.op in target.counts_operands:
            unchecked = set[str]()
        if finding.severity is Severity.ERROR and (
            unchecked & hazards.keys() or (finding.site, finding.site.output) in unused
        ):
            finding = replace(finding, severity=Severity.WARNING)
        yield finding


_UNCHECKED = {
    (OUTPUT_TYPE_MISMATCH.code, ""): "output-types-unchecked",
    (MALFORMED_MODEL.code, FlawKind.SURPLUS): "surplus-operands-unchecked",
    (MALFORMED_MODEL.code, FlawKind.NEWER): "opset-unchecked",
    (MALFORMED_MODEL.code, FlawKind.CYCLE): "cycles-unchecked",
    (MALFORMED_MODEL.code, FlawKind.NUMBER): "number-kinds-unchecked",
    (MALFORMED_MODEL.code, OF_CONSTANT): "constants-unchecked",
    (MALFORMED_MODEL.code, FlawKind.UNVERSIONED): "ir-version-unchecked",
    (MALFORMED_MODEL.code, FlawKind.UNIMPORTED): "imports-unchecked",
    (INVALID_MODEL.code, BRANCH_INPUTS): "branch-inputs-unchecked",
}
