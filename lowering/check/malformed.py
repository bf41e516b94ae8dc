"""What is wrong with a model that can be read all the same: nodes that do not fit their operators, undefined values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import onnx_ir

from castsmith.ir.codes import FindingCode, Outcome
from castsmith.ir.errors import ModelError
from castsmith.ir.io.loading import NO_IR_VERSION, ModelLike, as_model, model_in_memory
from castsmith.ir.ops.schemas import op_formals, op_key
from castsmith.ir.records import Diagnostic, Flaw, Severity
from castsmith.ir.validation import require_sound
from castsmith.ir.walks import imports_by_scope

MALFORMED_MODEL = FindingCode(
    "malformed-model",
    "The model is malformed: for example, a node does not fit its operator, or a value is not defined.",
    why="No runtime gives such a node a meaning, and most refuse the whole model.",
    example="z = Add (x)  # one input, expected 2",
    advice="Export the model again, or correct the place that the message names.",
    outcomes=(Outcome.REFUSED,),
    fix="manual",
    silence="Never: the place has no meaning.",
)
SURPLUS = "surplus"
"""The subject of a finding about operands or results beyond those of the operator."""
UNVERSIONED = "version"
"""The subject of a finding about a model without IR version."""
_APART = "castsmith.malformed"
"""The domain of nodes that mean nothing, while the rest of the model is checked."""


def malformed_findings(flaws: Iterable[Flaw]) -> Iterator[Diagnostic]:
    """Yield an error for each flaw."""
    for flaw in dict.fromkeys(flaws):
        way_out = "export the model again, or correct it"
        subject = SURPLUS if flaw.surplus else UNVERSIONED if flaw.text == NO_IR_VERSION else ""
        yield Diagnostic(MALFORMED_MODEL.code, Severity.ERROR, flaw.site, flaw.text, way_out, subject)


def _drop_surplus(node: onnx_ir.Node, model: onnx_ir.Model) -> bool:
    """Remove operands beyond those of the operator, and results that nothing uses; False if something uses one."""
    key = None if node.graph is None else op_key(node, imports_by_scope(model)[node.graph])
    formals = None if key is None else op_formals(*key)
    if formals is None:
        return False
    inputs, outputs = (len(each) for each in formals)
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
        if flaws and model_in_memory(model) is not None:
            loaded = loaded.clone()
            require_sound(loaded, "", flaws=again)
    except ModelError:
        if not flaws:
            raise
        return None, flaws
    if any(flaw.node is None and flaw.text != NO_IR_VERSION for flaw in flaws):
        return None, flaws
    for flaw in again or flaws:
        if flaw.node is not None and not (flaw.surplus and _drop_surplus(flaw.node, loaded)):
            flaw.node.domain = _APART
    return loaded, flaws
