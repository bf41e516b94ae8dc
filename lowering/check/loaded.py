"""What a target does not load, or loads although the standard forbids it, by the hazards that its file states."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import cast

import onnx_ir
from onnx_ir import DataType

from castsmith.analysis.inference.disagreement import rank_of
from castsmith.ir.constants import constant_tensor
from castsmith.ir.io.protos import REPEATED, WRITTEN
from castsmith.ir.ops.contrib import CONTRIB_DOMAIN
from castsmith.ir.ops.schemas import DEFAULT_DOMAINS
from castsmith.ir.ops.table import LINEAR
from castsmith.ir.records import Diagnostic, FlawKind, Severity
from castsmith.ir.text import site_of
from castsmith.ir.walks import all_values, graphs_of, graphs_with_initializers
from castsmith.lowering.check.forms import TARGET_LACKS_FORM
from castsmith.lowering.check.malformed import MALFORMED_MODEL, OF_CONSTANT
from castsmith.lowering.check.scene import Scene, unused_nodes
from castsmith.lowering.check.standard import BRANCH_INPUTS, INVALID_MODEL
from castsmith.lowering.check.types import MIXED_OPERAND_TYPES, OUTPUT_TYPE_MISMATCH
from castsmith.numerics.types import HALF_TYPES, Kind, element_type
from castsmith.targets.target import Target


def _trains(node: onnx_ir.Node, scene: Scene) -> bool:
    """True for a Dropout unless it is known not to train, as one before opset 7 without is_test is."""
    if (scene.opset(node) or _FIRST_WITHOUT_TRAINING) < _FIRST_WITHOUT_TRAINING:
        return not node.attributes.get_int("is_test", 0)
    mode = node.inputs[2] if len(node.inputs) > 2 else None
    tensor = constant_tensor(mode)
    return mode is not None and (tensor is None or bool(tensor.numpy().any()))


_FIRST_WITHOUT_TRAINING = 7


def _scans_outer_values(node: onnx_ir.Node, _: Scene) -> bool:
    """True if the body uses a value from outside that is no constant, and no initializer that a caller may replace."""
    bodies = graphs_of(node)
    inner_values = {value for body in bodies for inner in body.all_nodes() for value in inner.outputs}
    inner_values |= {value for body in bodies for value in (*body.inputs, *body.initializers.values())}
    operands = {value for body in bodies for inner in body.all_nodes() for value in inner.inputs} - inner_values
    return any(v is not None and v.const_value is None and constant_tensor(v) is None for v in operands)


def _returns_no_result(node: onnx_ir.Node, _: Scene) -> bool:
    """True if the body of a Loop has a result that no node of it makes."""
    bodies = graphs_of(node)
    results = (value.producer() for body in bodies for value in body.outputs)
    return any(maker is None or maker.graph not in bodies for maker in results)


def _is_integer_mod_of_floats(node: onnx_ir.Node, scene: Scene) -> bool:
    dtype = scene.type_of(node.inputs[0])
    is_float = dtype is not None and element_type(dtype).kind is Kind.FLOATING
    return is_float and not node.attributes.get_int("fmod", 0)


def _dims(node: onnx_ir.Node, index: int) -> list[int | None] | None:
    """Return the sizes of an input, None for those that are unknown; None if its rank is."""
    value = node.inputs[index] if index < len(node.inputs) else None
    shape = None if value is None else value.shape if value.const_value is None else value.const_value.shape
    return None if shape is None else [size if isinstance(size, int) else None for size in shape]


def _scales_other_axis(node: onnx_ir.Node, _: Scene) -> bool:
    """True for a vector as scale or zero point, which does not fit the second axis."""
    for data, parameters in ((0, (1, 2)), (3, (4, 5))):
        dims, vectors = _dims(node, data), [_dims(node, index) for index in parameters]
        if dims is not None and len(dims) > 1 and dims[1] not in (None, 1) and any(vectors):
            return True
    return False


def _multiplies_vectors(node: onnx_ir.Node, _: Scene) -> bool:
    """True for a product of a vector, or with a scale or zero point of several elements."""
    is_vector = any(len(_dims(node, index) or "no") == 1 for index in (0, 3))
    return is_vector or any(size not in (None, 1) for index in (1, 2, 4, 5) for size in _dims(node, index) or ())


def _has_other_scales(node: onnx_ir.Node, _: Scene) -> bool:
    """True for a scale of several elements, but not as many as its axis has."""
    dims, scales = _dims(node, 0), _dims(node, 1)
    if node.attributes.get_int("block_size", 0) or not dims or scales is None or len(scales) != 1:
        return False
    axis = node.attributes.get_int("axis", 1)
    if not -len(dims) <= axis < len(dims):
        return scales[0] not in (None, 1)
    return None not in (dims[axis], scales[0]) and scales[0] not in (1, dims[axis])


def _computes_parameter(node: onnx_ir.Node, _: Scene) -> bool:
    value = node.inputs[1] if len(node.inputs) > 1 else None
    return value is not None and known_before_run(value) is False


def _splits_into_more(node: onnx_ir.Node, _: Scene) -> bool:
    dims, axis = _dims(node, 0), node.attributes.get_int("axis", 0)
    length = dims[axis] if dims and -len(dims) <= axis < len(dims) else None
    return length is not None and node.attributes.get_int("num_outputs", 0) > length


def _normalizes_beyond_rank(node: onnx_ir.Node, scene: Scene) -> bool:
    rank = scene.rank(node, 0)
    return rank is not None and not -rank <= node.attributes.get_int("axis", -1) < rank


def _misfits_heads(node: onnx_ir.Node, scene: Scene) -> bool:
    """True for an Attention of ONNX Runtime whose weights, bias or heads contradict each other."""
    if node.domain != CONTRIB_DOMAIN:
        return False
    if any(scene.rank(node, index) not in (None, 3 - index) for index in range(3)):
        return True
    weights, bias = _dims(node, 1), _dims(node, 2)
    width = None if weights is None else weights[1]
    if width is None:
        return False
    heads = 0 if "qkv_hidden_sizes" in node.attributes else node.attributes.get_int("num_heads", 0)
    return (bias is not None and bias[0] not in (None, width)) or (heads > 0 and width // 3 % heads != 0)


def _differs_in_rank(node: onnx_ir.Node, scene: Scene) -> bool | None:
    """True for an If whose results have several ranks, unless the condition is known before the model runs."""
    outputs, ranks = [graph.outputs for graph in graphs_of(node)], scene.inference.ranks
    by_result = [{rank_of(value, ranks) for value in values} for values in zip(*outputs, strict=False)]
    if node.inputs[0] is None or not any(len(results) > 1 and None not in results for results in by_result):
        return False
    is_known = known_before_run(node.inputs[0])
    return None if is_known is None else not is_known


def known_before_run(value: onnx_ir.Value) -> bool | None:
    """Return whether the value is computed from constants and fixed sizes alone; None if a shape is not declared."""
    return _is_fixed(value, {})


def _is_fixed(value: onnx_ir.Value, cache: dict[onnx_ir.Value, bool | None]) -> bool | None:
    if value not in cache:
        cache[value] = None
        cache[value] = _computed_fixed(value, cache)
    return cache[value]


def _computed_fixed(value: onnx_ir.Value, cache: dict[onnx_ir.Value, bool | None]) -> bool | None:
    node = value.producer()
    if constant_tensor(value) is not None or value.const_value is not None:
        return True
    if node is None:
        return False
    first = next(iter(node.inputs), None)
    if node.op_type in ("Shape", "Size") and first is not None:
        return None if first.shape is None else first.shape.is_static()
    source = None if first is None else first.producer()
    if node.op_type == "Gather" and source is not None and source.op_type == "Shape" and source.inputs[0] is not None:
        shape, index = source.inputs[0].shape, constant_tensor(node.inputs[1])
        if shape is None or index is None or index.size != 1:
            return None
        place = int(index.numpy().item())
        return isinstance(shape[place], int) if -len(shape) <= place < len(shape) else None
    operands = {_is_fixed(operand, cache) for operand in node.inputs if operand is not None}
    return False if False in operands else None if None in operands else True


def _is_grouped_convolution(node: onnx_ir.Node, scene: Scene) -> bool | None:
    """None for a convolution of float16 in groups, for which there may be no kernel."""
    grouped = node.attributes.get_int("group", 1) != 1 and node.domain in DEFAULT_DOMAINS
    return None if grouped and scene.type_of(node.inputs[0]) == DataType.FLOAT16 else False


def _crashes(node: onnx_ir.Node, scene: Scene) -> bool | None:
    """True for a product of a transposed batch at which the target ends the process.

    ONNX Runtime 1.32 fuses Transpose, Cast and MatMul without asking whether it knows the ranks; the Cast may be one
    that it inserts, before a MatMul of float16. It infers some ranks that are not declared: without them this may be.
    """
    dtype, ranks = scene.type_of(node.inputs[0]), [_rank(value, scene) for value in node.inputs]
    if (ranks[0] is not None and ranks[0] == ranks[1]) or dtype not in _FUSED:
        return False
    sources = [_behind_cast(value) for value in node.inputs] + list(node.inputs if dtype == DataType.FLOAT16 else ())
    if not any(map(_moves_batch, sources)):
        return False
    return True if dtype != DataType.FLOAT16 and None not in ranks else None


_FUSED = (DataType.FLOAT, DataType.DOUBLE, DataType.FLOAT16)


def _rank(value: onnx_ir.Value | None, scene: Scene) -> int | None:
    """Return the rank that is declared, or that of the value which Casts and Transposes are of."""
    while value is not None:
        rank, node = rank_of(value, scene.inference.ranks), value.producer()
        if rank is not None:
            return rank
        value = node.inputs[0] if node is not None and node.op_type in ("Cast", "Transpose") else None
    return None


def _behind_cast(value: onnx_ir.Value | None) -> onnx_ir.Value | None:
    """Return what a Cast makes the value of; None for another value, and for a result of the model."""
    node = None if value is None or value.is_graph_output() else value.producer()
    return node.inputs[0] if node is not None and node.op_type == "Cast" and node.domain in DEFAULT_DOMAINS else None


def _moves_batch(value: onnx_ir.Value | None) -> bool:
    """True if a Transpose moves the first axis behind the others, or before the last."""
    node = None if value is None else value.producer()
    perm = node.attributes.get("perm") if node is not None and node.op_type == "Transpose" else None
    order = [] if perm is None or perm.is_ref() else list(perm.as_ints())
    rest = list(range(1, len(order)))
    return len(order) > 2 and order in ([*rest[:-1], 0, rest[-1]], [*rest, 0])


@dataclass(frozen=True)
class RefusedForm:
    """Nodes of some operators that a target does not load.

    Attributes:
        operators: The operators.
        applies: True for a node that the target does not load, None for one that it may not load.
        why: What is wrong with it.
        way_out: What to do; `{name}` is the name of the node.
    """

    operators: Container[str]
    applies: Callable[[onnx_ir.Node, Scene], bool | None]
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
        {"Attention"},
        lambda node, scene: node.domain == CONTRIB_DOMAIN and scene.rank(node, 3) == 4,
        "its mask has four dimensions",
        "give it a mask of fewer dimensions",
    ),
    "normalization-beyond-rank": RefusedForm(
        {"LayerNormalization"}, _normalizes_beyond_rank, "its operand has no such axis", "correct its axis"
    ),
    "attention-sizes": RefusedForm(
        {"Attention"}, _misfits_heads, "its weights, its bias and num_heads do not fit", "export the model again"
    ),
    "embeddings-without-epsilon": RefusedForm(
        {"EmbedLayerNormalization"},
        lambda node, _: "epsilon" not in node.attributes,
        "it has no epsilon",
        "state its epsilon, 1e-12 by default",
    ),
    "keys-of-other-ranks": RefusedForm(
        {"GroupQueryAttention"},
        lambda node, scene: scene.rank(node, 1) not in (None, 3),
        "its keys have no three dimensions",
        "leave keys and values out if packed",
    ),
    "conditions-of-rank-2": RefusedForm(
        {"If"}, lambda node, scene: (scene.rank(node, 0) or 0) > 1, "its condition is no scalar", "make it a scalar"
    ),
    "branches-of-several-ranks": RefusedForm(
        {"If"},
        _differs_in_rank,
        "the results of its branches differ in rank",
        "give the results of both branches one rank, or make the condition a constant",
    ),
    "grouped-float16-conv": RefusedForm(
        {"Conv", "ConvTranspose"},
        _is_grouped_convolution,
        "float16 in groups may have no kernel",
        "keep it in float: `convert(keep=[{name!r}])`",
    ),
    "transpose-cast-matmul-crashes": RefusedForm(
        {"MatMul"},
        _crashes,
        "the process ends, as a batch is transposed and the other operand has another rank, or one that is unknown",
        "put the Cast before the Transpose, or declare operands of one rank",
    ),
    "fastgelu-of-other-types": RefusedForm(
        {"FastGelu"},
        lambda node, scene: scene.type_of(node.inputs[0]) not in (None, DataType.FLOAT, *HALF_TYPES),
        "its operand is no float",
        "cast the operand to float",
    ),
    "volumetric-gridsample": RefusedForm(
        {"GridSample"},
        lambda node, scene: scene.rank(node, 0) == 5,
        "its operand has five dimensions",
        "write it as other operators",
    ),
}
"""The forms by hazard."""


def refused_findings(scene: Scene) -> Iterator[Diagnostic]:
    """Yield the nodes, and the declarations of values, that the target does not load."""
    target, model = scene.target, scene.model
    stated = {hazard: form for hazard, form in REFUSED_FORMS.items() if hazard in target.hazards}
    for node in scene.own if stated else ():
        for hazard, form in stated.items() if node.domain in (*DEFAULT_DOMAINS, CONTRIB_DOMAIN) else ():
            if node.op_type in form.operators and (applies := form.applies(node, scene)) is not False:
                message = f"{target} {'does' if applies else 'may'} not load this {node.op_type}: {form.why}"
                severity, way_out = Severity.ERROR if applies else Severity.WARNING, form.way_out.format(name=node.name)
                yield Diagnostic(TARGET_LACKS_FORM.code, severity, site_of(node), message, way_out, hazard)
    repeated = [text.strip() for text in cast("list[str]", model.meta.get(REPEATED, [])) if "(" in text]
    written = dict(cast("dict[str, str]", model.meta.get(WRITTEN, {})))
    if nodes := [text for text in repeated if "= Constant" not in text]:
        written["repeated-nodes"] = f"the model, which has this node twice, with one result: {nodes[0]}"
    for hazard in filter(target.has_hazard, written):
        message, way_out = f"{target} does not load {written[hazard]}", f"{scene.lowering} writes it otherwise"
        yield Diagnostic(TARGET_LACKS_FORM.code, Severity.ERROR, scene.site, message, way_out, hazard)
    for value, hazard, why, way_out in _misdeclared(model):
        if target.has_hazard(hazard):
            message = f"{target} does not load the {why}"
            yield Diagnostic(TARGET_LACKS_FORM.code, Severity.ERROR, scene.site, message, way_out, value.name or "")


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
