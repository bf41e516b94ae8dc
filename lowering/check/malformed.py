"""What is wrong with a model that can be read all the same: nodes that do not fit their operators, undefined values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import onnx_ir
from onnx_ir import AttributeType

from castsmith.ir.codes import FindingCode, Outcome
from castsmith.ir.errors import ModelError
from castsmith.ir.io.loading import ModelLike, as_model, model_in_memory
from castsmith.ir.ops.schemas import op_formals, op_key
from castsmith.ir.records import Diagnostic, Flaw, FlawKind, Severity, Site
from castsmith.ir.validation import require_sound
from castsmith.ir.walks import graph_of, imports_by_scope

MALFORMED_MODEL = FindingCode(
    "malformed-model",
    "The model is malformed: for example, a node does not fit its operator, or a value is not defined.",
    why="Such a node has no meaning, and most runtimes reject the whole model.",
    example="z = Add (x)  # one input, expected 2",
    advice="Export the model again, or correct the place that the message names.",
    outcomes=(Outcome.REFUSED,),
    fix="manual",
    silence="Never: the place has no meaning.",
)
OF_CONSTANT = "constant"
"""A word of the subject, beside kinds of flaws: for a Constant of the main graph that has a value, whatever else."""
_OF_MODEL = {FlawKind.UNVERSIONED, FlawKind.UNIMPORTED}
_COUNTS = {FlawKind.SURPLUS, FlawKind.MORE_THAN_EVER}
_APART = "castsmith.malformed"
"""The domain of nodes that mean nothing, while the rest of the model is checked."""


def malformed_findings(flaws: Iterable[Flaw], model: onnx_ir.Model | None) -> Iterator[Diagnostic]:
    """Yield an error for each flaw. model: The model, if it could be read."""
    for flaw in dict.fromkeys(flaws):
        way_out = "export the model again, or correct it"
        is_weight = FlawKind.RESULTS not in flaw.kinds and _is_weight(flaw.node, model)
        subject = " ".join([*sorted(flaw.kinds - {FlawKind.RESULTS}), *[OF_CONSTANT] * is_weight])
        yield Diagnostic(MALFORMED_MODEL.code, Severity.ERROR, flaw.site, flaw.text, way_out, subject)


def _is_weight(node: onnx_ir.Node | None, model: onnx_ir.Model | None) -> bool:
    """True for a Constant of the main graph, which runtimes make a weight, that has a value."""
    if node is None or model is None or node.op_type != "Constant" or node.graph is not model.graph:
        return False
    return any(attribute.type in _VALUES for attribute in node.attributes.values())


_VALUES = tuple(AttributeType[name] for kind in ("TENSOR", "FLOAT", "INT", "STRING") for name in (kind, f"{kind}S"))


def are_passed_over(flaws: Iterable[Flaw]) -> bool:
    """True if the model that was read means what it would mean without the flaws."""
    return all(flaw.kinds & _OF_MODEL if flaw.node is None else FlawKind.SURPLUS in flaw.kinds for flaw in flaws)


def _drop_surplus(node: onnx_ir.Node, model: onnx_ir.Model) -> bool:
    """Remove operands beyond those of the operator, and results that nothing uses; False if something uses one."""
    key = op_key(node, imports_by_scope(model)[graph_of(node)])
    formals = None if key is None else op_formals(*key)
    if formals is None:
        return False
    inputs, outputs = (len(side) for side in formals)
    if any(value.uses() or value.is_graph_output() for value in node.outputs[outputs:]):
        return False
    node.resize_inputs(min(inputs, len(node.inputs)))
    node.resize_outputs(min(outputs, len(node.outputs)))
    return True


def readable_model(model: ModelLike) -> tuple[onnx_ir.Model | None, list[Flaw]]:
    """Return the model, with operators that mean nothing where nodes are flawed, and its flaws.

    None for the model if values are missing, or it cannot be read further. A model in memory is not changed. Raises
    ModelError for a file that is no model at all.
    """
    flaws, again = list[Flaw](), list[Flaw]()
    try:
        loaded = as_model(model, flaws)
        if any(flaw.node is None and not flaw.kinds & _OF_MODEL for flaw in flaws):
            return None, flaws  # also no copy can be made of it
        if flaws and model_in_memory(model) is not None:
            loaded = loaded.clone()
            require_sound(loaded, "", flaws=again)
    except ModelError:
        if not flaws:
            raise
        return None, flaws
    apart = set[tuple[Site, str]]()
    for flaw in again or flaws:
        if flaw.node is not None and not (FlawKind.SURPLUS in flaw.kinds and _drop_surplus(flaw.node, loaded)):
            flaw.node.domain = _APART
            apart.add((flaw.site, flaw.site.output))
    # No runtime minds a surplus result that nothing uses; one that is used is no surplus.
    return loaded, [
        replace(flaw, kinds=flaw.kinds - _COUNTS) if (flaw.site, flaw.site.output) in apart else flaw for flaw in flaws
    ]
