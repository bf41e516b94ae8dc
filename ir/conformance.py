"""Whether a node is what the schema of its operator allows, as far as later code takes it for granted.

That is: as many inputs and outputs as the operator has, none empty that it needs, each attribute of the right kind,
those without a default present, and subgraphs that fit their node. Types are not looked at: repairing them is what
Castsmith is for. A node whose operator has no schema conforms, and so do attributes that its schema does not know.

    Cast <to = 1.0> (x)     "the attribute to of Cast is FLOAT, and has to be INT"
    Add (x)                 "Add has 1 input, and takes 2"
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import onnx.defs
import onnx_ir
from onnx_ir import AttributeType

from castsmith.ir.ops import type_attributes
from castsmith.ir.qonnx import QONNX_DOMAINS
from castsmith.ir.schemas import DEFAULT_DOMAINS, opset_of
from castsmith.ir.value_types import named_type

_SUBGRAPHS = frozenset({"If", "Loop", "Scan"})


@dataclass(frozen=True, slots=True)
class _Form:
    inputs: tuple[int, int]
    outputs: tuple[int, int]
    needed: tuple[int, ...]
    attributes: Mapping[str, AttributeType]
    required: tuple[str, ...]
    may_be_undefined: frozenset[str] = frozenset()
    """Attributes whose default is 0, which stands for no element type."""


def nonconformity(
    node: onnx_ir.Node, imports: Mapping[str, int], functions: Mapping[onnx_ir.OperatorIdentifier, onnx_ir.Function]
) -> str | None:
    """What about the node its schema, or the function that it calls, does not allow; None where it conforms."""
    opset = opset_of(imports, node.domain)
    form = _QONNX if node.domain in QONNX_DOMAINS else _form(node.domain, node.op_type, opset or 0)
    if form is None:
        called = functions.get(node.op_identifier()) if functions else None
        if called is None and node.domain in DEFAULT_DOMAINS and node.op_type in _SUBGRAPHS:
            return f"opset {opset or 0} has no {node.op_type}"
        return None if called is None else _misfit(node, (0, len(called.inputs)), (0, len(called.outputs)))
    wrong = _misfit(node, form.inputs, form.outputs)
    if wrong is not None:
        return wrong
    for index in form.needed:
        if index < len(node.inputs) and node.inputs[index] is None:
            return f"{node.op_type} needs its input {index}, which is empty"
    attributes = node.attributes.data
    for name in form.required:
        if name not in attributes:
            return f"{node.op_type} has no attribute {name}, which it needs"
    for name, attribute in attributes.items():
        expected = form.attributes.get(name)
        if expected is not None and not attribute.is_ref():
            wrong = _wrong_attribute(node, attribute, expected, form.may_be_undefined)
            if wrong is not None:
                return wrong
    return _unfit_subgraphs(node) if node.domain in DEFAULT_DOMAINS and node.op_type in _SUBGRAPHS else None


def _misfit(node: onnx_ir.Node, inputs: tuple[int, int], outputs: tuple[int, int]) -> str | None:
    for what, has, (least, most) in (
        ("input", len(node.inputs), inputs),
        ("output", len(node.outputs), outputs),
    ):
        if not least <= has <= most:
            takes = f"{least}" if least == most else f"at least {least}" if has < least else f"at most {most}"
            return f"{node.op_type} has {has} {what}{'' if has == 1 else 's'}, and takes {takes}"
    return None


def _wrong_attribute(
    node: onnx_ir.Node, attribute: onnx_ir.Attr, expected: AttributeType, may_be_undefined: frozenset[str]
) -> str | None:
    op_type = node.op_type
    if attribute.type != expected:
        return f"the attribute {attribute.name} of {op_type} is {attribute.type.name}, and has to be {expected.name}"
    if expected == AttributeType.STRING and isinstance(attribute.value, bytes) and op_type != "Constant":
        return f"the attribute {attribute.name} of {op_type}, {attribute.value!r}, is not UTF-8"
    if attribute.name not in type_attributes(node.domain, op_type):
        return None
    if attribute.value == 0 and attribute.name in may_be_undefined:
        return None
    if named_type(attribute) is None:
        return f"the attribute {attribute.name} of {op_type} is {attribute.value!r}, which is not an ONNX element type"
    return None


def _unfit_subgraphs(node: onnx_ir.Node) -> str | None:
    """Subgraphs whose inputs and outputs are not as many as their node passes on."""
    if node.op_type == "If":
        for name in ("then_branch", "else_branch"):
            if len(node.attributes[name].as_graph().outputs) != len(node.outputs):
                return f"the {name} of If has other outputs than it"
        return None
    body = node.attributes["body"].as_graph()
    if node.op_type == "Loop":
        states = len(node.inputs) - 2
        fits = len(body.inputs) == 2 + states and len(body.outputs) == 1 + len(node.outputs) >= 1 + states
        return None if fits else "the body of Loop has other inputs or outputs than it passes on"
    scanned = node.attributes["num_scan_inputs"].as_int()
    first = len(node.inputs) - len(body.inputs)  # in opset 8 sequence_lens come first
    fits = first in (0, 1) and 1 <= scanned <= len(body.inputs) and len(body.outputs) == len(node.outputs)
    return None if fits else "the body of Scan has other inputs or outputs than it passes on"


_FLAGS = ("signed", "narrow", "has_inf", "has_nan", "has_subnormal", "saturation")

_QONNX = _Form(
    (0, 2**31),
    (1, 1),
    (),
    {"rounding_mode": AttributeType.STRING, **dict.fromkeys(_FLAGS, AttributeType.INT)},
    (),
)
"""What Quant, IntQuant, BipolarQuant, FloatQuant and Trunc have in common; QONNX registers no schemas."""


@cache
def _form(domain: str, op_type: str, opset: int) -> _Form | None:
    domain = "" if domain in DEFAULT_DOMAINS else domain
    if not onnx.defs.has(op_type, opset, domain):
        return None
    schema = onnx.defs.get_schema(op_type, opset, domain)
    if schema.deprecated:
        return None
    single = onnx.defs.OpSchema.FormalParameterOption.Single
    attributes = _attributes(schema)
    # One that came later is of no effect, and is read all the same.
    known = {**_attributes(onnx.defs.get_schema(op_type, domain)), **attributes}
    return _Form(
        (schema.min_input, schema.max_input),
        (schema.min_output, schema.max_output),
        tuple(index for index, formal in enumerate(schema.inputs) if formal.option == single),
        {name: _type_of(attribute) for name, attribute in known.items()},
        tuple(name for name, attribute in attributes.items() if attribute.required),
        frozenset(name for name, attribute in known.items() if _defaults_to_zero(attribute)),
    )


def _attributes(schema: onnx.defs.OpSchema) -> dict[str, onnx.defs.OpSchema.Attribute]:
    return dict(schema.attributes)


def _type_of(attribute: onnx.defs.OpSchema.Attribute) -> AttributeType:
    return AttributeType(attribute.type.value)  # pyright: ignore[reportAttributeAccessIssue]


def _defaults_to_zero(attribute: onnx.defs.OpSchema.Attribute) -> bool:
    default = attribute.default_value
    return {onnx.AttributeProto.INT: default.i, onnx.AttributeProto.FLOAT: default.f}.get(default.type) == 0
