"""Equivalence of a model under another opset, decided node by node from the schemas at both.

A node may stay unchanged if no newer version of its operator lies between the opsets, or if the two versions have
the same parameters in the positions that the node uses, define its attributes, have the same defaults for those it
leaves out, allow its types, and the table below lists no change of meaning that affects it. Anything else is an
obstacle. Versions up to opset 13 must have the same text too, since their changes are in no table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import onnx.defs
import onnx_ir
from onnx_ir import DataType

from castsmith.ir.ops import DEFAULT_DOMAINS, opset_of, restriction
from castsmith.ir.records import Site

# Changes of an operator's meaning between opsets that its signature does not show; found by comparing the schema texts
# of every operator from opset 14 to 28. Older texts were not read.

Types = Sequence[DataType | None]
"""The element types of a node's inputs and then of its outputs; None if unknown."""

LAST_UNREAD = 13


@dataclass(frozen=True)
class Change:
    """From opset `since` on, `op_type` has a different meaning for the nodes that `touches` selects."""

    op_type: str
    since: int
    reason: str
    touches: Callable[[onnx_ir.Node, Types], bool]


def _always(_node: onnx_ir.Node, _types: Types) -> bool:
    return True


def _saturates_to_fnuz(node: onnx_ir.Node, types: Types) -> bool:
    fnuz = (DataType.FLOAT8E4M3FNUZ, DataType.FLOAT8E5M2FNUZ)
    return (types[-1] is None or types[-1] in fnuz) and node.attributes.get_int("saturate", 1) == 1


def _ceil_mode(node: onnx_ir.Node, _types: Types) -> bool:
    return node.attributes.get_int("ceil_mode", 0) != 0


def _lacks(attribute: str) -> Callable[[onnx_ir.Node, Types], bool]:
    return lambda node, _types: attribute not in node.attributes


def _no_second_input(node: onnx_ir.Node, _types: Types) -> bool:
    return len(node.inputs) < 2 or node.inputs[1] is None


def _fmod_of_the_other_kind(node: onnx_ir.Node, types: Types) -> bool:
    return types[0] is None or types[0].is_integer() == (node.attributes.get_int("fmod", 0) == 1)


def _trains(node: onnx_ir.Node, _types: Types) -> bool:
    return len(node.outputs) > 1 or node.attributes.get_int("training_mode", 0) != 0


def _says(attribute: str, *texts: str) -> Callable[[onnx_ir.Node, Types], bool]:
    return lambda node, _types: node.attributes.get_string(attribute, "") in texts


_LACKS_MODE = _lacks("coordinate_transformation_mode")
_INFINITY = "infinity saturates to the largest value of the fnuz types from opset 24 on, and gave NaN before"
_WINDOW = "with ceil_mode, windows that start in the right padding are omitted from opset {} on"
_SOFTMAX = "it normalises over one axis from opset 13 on, and over all axes from `axis` before"

CHANGES: tuple[Change, ...] = (
    Change("Cast", 24, _INFINITY, _saturates_to_fnuz),
    Change("CastLike", 24, _INFINITY, _saturates_to_fnuz),
    Change("QuantizeLinear", 24, _INFINITY, _saturates_to_fnuz),
    Change("Softmax", 13, _SOFTMAX, _always),
    Change("LogSoftmax", 13, _SOFTMAX, _always),
    Change("Hardmax", 13, _SOFTMAX, _always),
    Change("BatchNormalization", 14, "its training outputs were redefined", _trains),
    Change("RoiAlign", 16, "coordinates are shifted by half a pixel unless told otherwise", _LACKS_MODE),
    Change("ScatterElements", 18, "max and min are new reductions", _says("reduction", "max", "min")),
    Change("ScatterND", 18, "max and min are new reductions", _says("reduction", "max", "min")),
    Change("Pad", 19, "the mode wrap is new", _says("mode", "wrap")),
    Change("Split", 18, "without the input `split`, `num_outputs` must say how many", _no_second_input),
    Change("Resize", 18, "`sizes` may name fewer axes, and rounding of the output size was redefined", _always),
    Change("Resize", 19, "tf_crop_and_resize, half_pixel_symmetric and the cubic edges were redefined", _always),
    Change("AveragePool", 19, "with ceil_mode, the size of the output was redefined", _ceil_mode),
    Change("AveragePool", 22, _WINDOW.format(22), _ceil_mode),
    Change("MaxPool", 22, _WINDOW.format(22), _ceil_mode),
    Change("DFT", 20, "the axis became an input and its default the last but one", _always),
    Change("GridSample", 20, "the modes were renamed (bilinear is now linear) and volumes added", _always),
    Change("GroupNormalization", 21, "scale and bias are per channel; they were per group", _always),
    Change("Attention", 24, "the causal mask is aligned by the cached keys; fully masked rows were redefined", _always),
    Change("Attention", 25, "causal alignment and fully masked rows were corrected", _always),
    Change("Mod", 28, "fmod = 0 of floats and fmod = 1 of integers became defined", _fmod_of_the_other_kind),
)  # fmt: skip


def changes_between(node: onnx_ir.Node, types: Types, low: int, high: int) -> list[Change]:
    """Return the changes after opset `low` and up to `high` that affect the node.

    An attribute that refers to a function's parameter may have any value, so every change is assumed to affect it.
    """
    unknown = any(attribute.is_ref() for attribute in node.attributes.values())
    crossed = (change for change in CHANGES if change.op_type == node.op_type and low < change.since <= high)
    return [change for change in crossed if unknown or change.touches(node, types)]


FormalParameter = onnx.defs.OpSchema.FormalParameter
FormalParameterOption = onnx.defs.OpSchema.FormalParameterOption
TypeOf = Mapping[onnx_ir.Value, DataType]


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


def move_to_opset(model: onnx_ir.Model, to: int) -> None:
    """Relabel the model and its functions, once there is no obstacle."""
    for scope in (model.graph, *model.functions.values()):
        key = "ai.onnx" if "ai.onnx" in scope.opset_imports else ""
        if key in scope.opset_imports:
            _drop_unknown_attributes(model, scope, to)
            scope.opset_imports[key] = to


def _drop_unknown_attributes(model: onnx_ir.Model, scope: onnx_ir.Graph | onnx_ir.Function, to: int) -> None:
    """Remove attributes, all at their defaults, that an operator does not have under opset `to`."""
    for node in scope.all_nodes():
        if node.domain not in DEFAULT_DOMAINS or node.op_identifier() in model.functions or not node.attributes:
            continue
        known = onnx.defs.get_schema(node.op_type, to, "").attributes if onnx.defs.has(node.op_type, to, "") else None
        for name in [name for name in node.attributes if known is not None and name not in known]:
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


def _forbidden(node: onnx_ir.Node, now: int, to: int, types: TypeOf) -> str | None:
    """Return why the operator's document forbids the node's type under opset `to`, but not under its present one."""
    value = node.inputs[0] if node.inputs else None
    dtype = None if value is None else types.get(value, value.dtype)
    before, after = restriction(node, now), restriction(node, to)
    if after is None or after is before or dtype in after.allowed:
        return None
    return f"{node.op_type} of opset {to} does not support {_named(dtype)}: {after.because}"


def _differences(node: onnx_ir.Node, old: onnx.defs.OpSchema, new: onnx.defs.OpSchema, types: TypeOf) -> Iterator[str]:
    low, high = sorted((old.since_version, new.since_version))
    in_use = [None if value is None else types.get(value, value.dtype) for value in (*node.inputs, *node.outputs)]
    for change in changes_between(node, in_use, low, high):
        yield f"{node.op_type} changed in opset {change.since}: {change.reason}"
    if _unread_change(node.op_type, low, high):
        yield f"the description of {node.op_type} changed between opset {low} and {min(high, LAST_UNREAD)}"
    if new.deprecated:
        yield f"{node.op_type} is deprecated in opset {new.since_version}"
    yield from _parameter_differences(node, old, new, in_use)
    yield from _attribute_differences(node, old, new)


def _unread_change(op_type: str, low: int, high: int) -> bool:
    """Return a change of the operator's text, from opset `low` on, in a version too old for the table."""
    docs = [onnx.defs.get_schema(op_type, opset, "").doc or "" for opset in range(low, min(high, LAST_UNREAD) + 1)]
    return len({tuple(doc.split()) for doc in docs}) > 1


def _parameter_differences(
    node: onnx_ir.Node, old: onnx.defs.OpSchema, new: onnx.defs.OpSchema, in_use: list[DataType | None]
) -> Iterator[str]:
    pairs = (("input", node.inputs, old.inputs, new.inputs, 0),
             ("output", node.outputs, old.outputs, new.outputs, len(node.inputs)))  # fmt: skip
    for what, values, before, after, offset in pairs:
        for index in range(max(len(values), _required(after))):
            mine, other = _formal(before, index), _formal(after, index)
            if other is None or (mine is None and index >= len(values)) or mine is None or mine.option != other.option:
                yield f"{what} {index} of {node.op_type} is not the same parameter in opset {new.since_version}"
                return
            dtype = in_use[offset + index] if index < len(values) else None
            if index < len(values) and values[index] is not None and not _allows(mine, other, dtype):
                yield f"{node.op_type} of opset {new.since_version} does not support {_named(dtype)} as {what} {index}"
                return


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
    attribute, known = node.attributes[name], schema.attributes.get(name)
    if known is None or attribute.is_ref() or not known.default_value.name:
        return False
    return bool(attribute.value == onnx_ir.from_proto(known.default_value).value)


def _formal(formals: Sequence[FormalParameter], index: int) -> FormalParameter | None:
    if index < len(formals):
        return formals[index]
    variadic = FormalParameterOption.Variadic
    return formals[-1] if formals and formals[-1].option == variadic else None


def _required(formals: Sequence[FormalParameter]) -> int:
    single = FormalParameterOption.Single
    return sum(formal.option == single for formal in formals)


def _allows(old: FormalParameter, new: FormalParameter, dtype: DataType | None) -> bool:
    """True if the new parameter supports the type; for an unknown type, all types of the old parameter."""
    if dtype is None:
        return old.types <= new.types
    text = f"tensor({_named(dtype)})"
    return text in new.types or text not in old.types


def _named(dtype: DataType | None) -> str:
    return "all of its types" if dtype is None else dtype.name.lower()
