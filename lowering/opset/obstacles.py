"""Equivalence of a model under another opset, decided node by node from the schemas at both.

A node may stay unchanged if no newer version of its operator lies between the opsets, or if the two versions have
the same parameters in the positions that the node uses, define its attributes, have the same defaults for those it
leaves out, allow its types, and `castsmith.ir.ops` lists no change of meaning that affects it. Anything else is an
obstacle, and so is a version before opset 13 of an operator whose texts were not compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import onnx.defs
import onnx_ir
from onnx_ir import DataType

from castsmith.ir.codes import Rule
from castsmith.ir.ops.changes import SAME_FROM_9_TO_13, changes_between
from castsmith.ir.ops.schemas import DEFAULT_DOMAINS, opset_of, since_version, with_formals
from castsmith.ir.ops.table import restriction
from castsmith.ir.ops.value_types import nesting_of
from castsmith.ir.records import Rewrite, Site
from castsmith.ir.text import site_of

LAST_UNREAD = 13
"""The newest opset whose changes are in no table (`castsmith.ir.ops.changes`)."""


FormalParameter = onnx.defs.OpSchema.FormalParameter
FormalParameterOption = onnx.defs.OpSchema.FormalParameterOption
TypeOf = Mapping[onnx_ir.Value, DataType]


CHANGE_OPSET = Rule(
    "opset",
    "The model's opset is changed to one that the target accepts. Skipped if an operator would change.",
    why="Operators differ between opsets; this is exact only if no operator of the model does.",
    example="- opset 28\n+ opset 26",
    advice="If it is skipped, the reason names the operator.",
)


@dataclass(frozen=True)
class Obstacle:
    """A node that would have a different meaning, or none, under the other opset."""

    site: Site
    reason: str


def standard_nodes(model: onnx_ir.Model) -> Iterator[tuple[onnx_ir.Node, int]]:
    """Yield the nodes of standard operators, including those of functions, each with the opset of its scope."""
    for scope in (model.graph, *model.functions.values()):
        now = opset_of(scope.opset_imports, "")
        for node in scope.all_nodes():
            if node.domain in DEFAULT_DOMAINS and node.op_identifier() not in model.functions and now is not None:
                yield node, now


def obstacle_to_opset(model: onnx_ir.Model, to: int, types: TypeOf) -> Obstacle | None:
    """Return the first node that cannot move to that opset unchanged."""
    for node, now in standard_nodes(model):
        reason = node_obstacle(node, now, to, types)
        if reason is not None:
            return Obstacle(site_of(node), reason)
    return None


def move_to_opset(model: onnx_ir.Model, to: int, pass_name: str, reason: str) -> Rewrite:
    """Relabel the model and its functions, once there is no obstacle, and record that."""
    before = opset_of(model.graph.opset_imports, "")
    for scope in (model.graph, *model.functions.values()):
        key = "ai.onnx" if "ai.onnx" in scope.opset_imports else ""
        if key in scope.opset_imports:
            _drop_unknown_attributes(model, scope, to)
            scope.opset_imports[key] = to
    site = Site(model.graph.name or "")
    return Rewrite(pass_name, CHANGE_OPSET.code, site, f"opset {before}", f"opset {to}", reason)


def _drop_unknown_attributes(model: onnx_ir.Model, scope: onnx_ir.Graph | onnx_ir.Function, to: int) -> None:
    """Remove attributes, all at their defaults, that an operator does not have under opset `to`."""
    for node in scope.all_nodes():
        if node.domain not in DEFAULT_DOMAINS or node.op_identifier() in model.functions:
            continue
        formals = onnx.defs.get_schema(node.op_type, to, "").attributes if onnx.defs.has(node.op_type, to, "") else None
        for name in [name for name in node.attributes if formals is not None and name not in formals]:
            del node.attributes[name]


def node_obstacle(node: onnx_ir.Node, now: int, to: int, types: TypeOf) -> str | None:
    """Return the reason why the node cannot move between the two opsets unchanged; None if it can."""
    if not onnx.defs.has(node.op_type, now, ""):
        return f"opset {now} has no {node.op_type}"
    if not onnx.defs.has(node.op_type, to, ""):
        return f"opset {to} has no {node.op_type}"
    forbidden = _forbidden(node, now, to, types)
    if forbidden is not None:
        return forbidden
    old, new = onnx.defs.get_schema(node.op_type, now, ""), onnx.defs.get_schema(node.op_type, to, "")
    if old.since_version == new.since_version:
        return None
    return next(_differences(node, old, new, types), None)


def is_legal(node: onnx_ir.Node, now: int, to: int, types: TypeOf) -> bool:
    """True if opset `to` has the attributes that opset `now` gives no default, and the types in use.

    The node is of an operator that both opsets have, and has no subgraphs.
    """
    written, wanted = (onnx.defs.get_schema(node.op_type, opset, "") for opset in (now, to))
    if any(name not in wanted.attributes and not _at_default(node, name, written) for name in node.attributes):
        return False
    key = ("", node.op_type, to)
    typed = ((formal, None if v is None else types.get(v, v.dtype)) for v, formal in with_formals(node, key))
    return all(formal is not None and (dtype is None or dtype in formal.allowed) for formal, dtype in typed)


def _forbidden(node: onnx_ir.Node, now: int, to: int, types: TypeOf) -> str | None:
    """Return why the operator's document forbids the node's type under opset `to`, but not under its present one."""
    value = node.inputs[0] if node.inputs else None
    dtype = None if value is None else types.get(value, value.dtype)
    before, after = restriction(node, now), restriction(node, to)
    if after is None or after is before or dtype in after.allowed:
        return None
    return f"{node.op_type} of opset {to} does not support {_named(dtype)}: {after.because}"


def _differences(node: onnx_ir.Node, old: onnx.defs.OpSchema, new: onnx.defs.OpSchema, types: TypeOf) -> Iterator[str]:
    """Yield the differences between two versions of the operator; the first one is told."""
    low, high = sorted((old.since_version, new.since_version))
    in_use = [None if value is None else types.get(value, value.dtype) for value in (*node.inputs, *node.outputs)]
    for change in changes_between(node, in_use, low, high):
        yield f"{node.op_type} changed in opset {change.since}: {change.reason}"
    if new.deprecated:
        yield f"{node.op_type} is deprecated in opset {new.since_version}"
    yield from _parameter_differences(node, old, new, in_use)
    yield from _type_differences(node, old, new, in_use)
    yield from _attribute_differences(node, old, new)
    was_read = low >= 9 and new.since_version > old.since_version and node.op_type in SAME_FROM_9_TO_13
    if not was_read and (since_version(node.op_type, min(high, LAST_UNREAD)) or low) > low:
        yield f"the changes of {node.op_type} between opset {low} and {min(high, LAST_UNREAD)} were not compared"


def _parameter_differences(
    node: onnx_ir.Node, old: onnx.defs.OpSchema, new: onnx.defs.OpSchema, in_use: list[DataType | None]
) -> Iterator[str]:
    pairs = (("input", node.inputs, old.inputs, new.inputs, 0),
             ("output", node.outputs, old.outputs, new.outputs, len(node.inputs)))  # fmt: skip
    for what, values, before, after, offset in pairs:
        for index in range(max(len(values), _required(after))):
            old_formal, new_formal = _formal(before, index), _formal(after, index)
            if old_formal is None or new_formal is None or old_formal.option != new_formal.option:
                yield _not_the_same(node, f"{what} {index}", old_formal, new_formal, new.since_version)
                continue
            value = values[index] if index < len(values) else None
            if value is not None and not _allows(old_formal, new_formal, value, dtype := in_use[offset + index]):
                stated = _schema_type(value, dtype) if nesting_of(value.type) else _named(dtype)
                yield f"{node.op_type} of opset {new.since_version} does not support {stated} as {what} {index}"


def _not_the_same(
    node: onnx_ir.Node, place: str, old: FormalParameter | None, new: FormalParameter | None, opset: int
) -> str:
    """Return the reason why a node cannot keep an input or output whose parameter is another one in the opset."""
    if old is not None and new is None:
        return f"{node.op_type} of opset {opset} has no {place} ({old.name})"
    if new is not None and old is None:
        return f"{node.op_type} of opset {opset} requires {place} ({new.name})"
    return f"{place} of {node.op_type} is not the same parameter in opset {opset}"


def _type_differences(
    node: onnx_ir.Node, old: onnx.defs.OpSchema, new: onnx.defs.OpSchema, in_use: list[DataType | None]
) -> Iterator[str]:
    """Yield parameters of several types for which the new version has one type variable and the old one several."""
    first: dict[str, tuple[str, DataType]] = {}
    for index, dtype in enumerate(in_use):
        at = index if index < len(node.inputs) else index - len(node.inputs)
        pair = (old.inputs, new.inputs) if index < len(node.inputs) else (old.outputs, new.outputs)
        old_formal, new_formal = (_formal(formals, at) for formals in pair)
        if dtype is None or old_formal is None or new_formal is None:
            continue
        before, dtype_before = first.setdefault(new_formal.type_str, (old_formal.type_str, dtype))
        if dtype_before != dtype and before != old_formal.type_str:
            types = f"{_named(dtype_before)} and {_named(dtype)}"
            yield f"{node.op_type} of opset {new.since_version} requires the same type where this node has {types}"


def _attribute_differences(node: onnx_ir.Node, old: onnx.defs.OpSchema, new: onnx.defs.OpSchema) -> Iterator[str]:
    before, after = old.attributes, new.attributes
    for name in sorted(node.attributes):
        if name not in after and not _at_default(node, name, old):
            yield f"{node.op_type} of opset {new.since_version} has no attribute {name}"
    for name in sorted(set(before) & set(after) - set(node.attributes)):
        if before[name].default_value.SerializeToString() != after[name].default_value.SerializeToString():
            yield f"the default of attribute {name} of {node.op_type} changed by opset {new.since_version}"
    for name in sorted(set(after) - set(before) - set(node.attributes)):
        if after[name].required:
            yield f"{node.op_type} of opset {new.since_version} requires attribute {name}"


def _at_default(node: onnx_ir.Node, name: str, schema: onnx.defs.OpSchema) -> bool:
    """True if the attribute has its default value."""
    attribute, formal = node.attributes[name], schema.attributes.get(name)
    if formal is None or attribute.is_ref() or not formal.default_value.name:
        return False
    return bool(attribute.value == onnx_ir.from_proto(formal.default_value).value)


def _formal(formals: Sequence[FormalParameter], index: int) -> FormalParameter | None:
    if index < len(formals):
        return formals[index]
    variadic = FormalParameterOption.Variadic
    return formals[-1] if formals and formals[-1].option == variadic else None


def _required(formals: Sequence[FormalParameter]) -> int:
    single = FormalParameterOption.Single
    return sum(formal.option == single for formal in formals)


def _allows(old: FormalParameter, new: FormalParameter, value: onnx_ir.Value, dtype: DataType | None) -> bool:
    """True if the new parameter supports the type; for an unknown type, all types of the old parameter."""
    if dtype is None:
        return old.types <= new.types
    text = _schema_type(value, dtype)
    return text in new.types or text not in old.types


def _schema_type(value: onnx_ir.Value, dtype: DataType | None) -> str:
    """Return the type of the value as schemas write it."""
    text = f"tensor({_named(dtype)})"
    for outer in reversed(nesting_of(value.type)):
        text = f"{'seq' if outer is onnx_ir.SequenceType else 'optional'}({text})"
    return text


def _named(dtype: DataType | None) -> str:
    return "all of its types" if dtype is None else dtype.name.lower()
