"""The parts of a node that change with its precision: inputs, outputs, attributes, by schema and kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import onnx_ir
from onnx_ir import DataType

from castsmith.ir.ops.schemas import DEFAULT_DOMAINS, actual_inputs, actual_outputs, groups_for, op_key, opset_of
from castsmith.ir.ops.table import CASTS, LINEAR, operators, restriction, traits_of, type_attributes
from castsmith.ir.ops.traits import Moves, Role
from castsmith.ir.ops.value_types import named_type
from castsmith.ir.walks import graphs_in
from castsmith.numerics.errors import present
from castsmith.numerics.types import type_name
from castsmith.passes.core.min_cut import NO, YES
from castsmith.targets.target import Target

KEPT, CONVERTED = NO, YES
"""The sides of a node that stays in its types, and of one that gets the precision."""

Scope = onnx_ir.Graph | onnx_ir.Function
ANYTHING = -1
"""The demand of a use that accepts a value in either type."""

_NONE: frozenset[int] = frozenset()
_DEFAULT_TYPES = {"dtype": DataType.FLOAT, "output_datatype": DataType.FLOAT}
"""The default type of an attribute that is absent, if no input gives the type."""
_FOLLOW_INPUT = operators(lambda row: row.typed_by_input)
"""Operators whose type attribute, if absent, defaults to the type of an input."""
_HOLDERS = (Moves.PACK, Moves.UNPACK)


@dataclass(frozen=True)
class Aim:
    """The precision, the types that become it, and the target.

    Attributes:
        to: The precision.
        sources: The types that become it.
        target: The runtime whose kernels count; None: the schema alone.
    """

    to: DataType
    sources: frozenset[DataType]
    target: Target | None


@dataclass(frozen=True)
class Ports:
    """The changeable parts of a node.

    Attributes:
        follows: The inputs that change with the node.
        anything: The inputs that may have any type.
        gives: The outputs that change.
        attributes: The type attributes that change.
        why_not: The reason why the node cannot change; empty if it can.
    """

    follows: frozenset[int] = _NONE
    anything: frozenset[int] = _NONE
    gives: frozenset[int] = _NONE
    attributes: tuple[str, ...] = ()
    why_not: str = ""

    @property
    def concerned(self) -> bool:
        """True if any part of the node would change."""
        return bool(self.follows or self.gives)

    def values(self, node: onnx_ir.Node) -> list[onnx_ir.Value]:
        """Return the results of the node that change, then the operands."""
        operands = (present(node.inputs[index], "an operand that changes") for index in sorted(self.follows))
        return [*(node.outputs[index] for index in sorted(self.gives)), *operands]


@dataclass(frozen=True)
class Use:
    """A user of a value: input `index` of a node, or output `index` of a graph or function."""

    value: onnx_ir.Value
    place: onnx_ir.Node | Scope
    index: int
    wants: int


TypeOf = Callable[[onnx_ir.Value | None], DataType | None]


def _held(node: onnx_ir.Node, aim: Aim) -> str:
    """Return the name of a tensor attribute of a converted type, as tree ensembles have, or an empty text."""
    if node.domain in DEFAULT_DOMAINS:
        return ""
    tensors = (attribute for attribute in node.attributes.values() if attribute.type == onnx_ir.AttributeType.TENSOR)
    return next(
        (tensor.name for tensor in tensors if not tensor.is_ref() and tensor.as_tensor().dtype in aim.sources), ""
    )


def ports_of(node: onnx_ir.Node, type_of: TypeOf, imports: Mapping[str, int], aim: Aim) -> Ports:
    """Return the ports of a node that is neither a call of a function nor control flow."""
    key = op_key(node, imports)
    floats = [index for index, value in enumerate(node.inputs) if type_of(value) in aim.sources]
    results = [index for index, value in enumerate(node.outputs) if type_of(value) in aim.sources]
    if key is None:
        return Ports(why_not=f"the types that {operator_name(node)} takes are unknown")
    if any(map(graphs_in, node.attributes.data.values())):
        return Ports(why_not=f"{node.op_type} passes values to a subgraph")
    held = _held(node, aim)
    if held:
        return Ports(why_not=f"its attribute {held} holds constants of the type of its operands")
    if node.op_type in CASTS:
        return _cast(node, type_of, results, aim)
    row = traits_of(node.domain, node.op_type)
    if row.moves in (Moves.SHAPE, Moves.CONTENT):
        return Ports(anything=frozenset(floats))
    types = [type_of(value) for value in node.inputs]
    formals_in, formals_out = actual_inputs(key, len(types)), actual_outputs(key, len(node.outputs))
    follows, variables, refusals = set[int](), set[str](), list[str]()
    for group in groups_for(key, types, tuple(value is not None for value in node.inputs)):
        concerned = [index for index in group.indexes if types[index] in aim.sources]
        unknown = [index for index in group.indexes if types[index] is None]
        if not concerned:
            continue
        if aim.to not in group.allowed:
            is_fixed = len(group.allowed & aim.sources) == 1
            refusals += [] if is_fixed else [_not_taken(node, imports, aim)]
            continue
        refusals += [f"the type of {present(node.inputs[index], 'an operand').name} is unknown" for index in unknown]
        follows |= set(concerned)
        variables |= {group.variable}
    heterogeneous = [i for i in floats if (f := formals_in[i]) is not None and not f.homogeneous]
    refused, attributes = next(iter(refusals), ""), _attributes(node, results, aim, inputs_follow=bool(follows))
    gives = {
        index
        for index in results
        if (formal := formals_out[index]) is not None
        and (formal.variable in variables or (attributes and aim.to in formal.allowed) or row.moves in _HOLDERS)
    }
    if node.op_type in _FOLLOW_INPUT and follows:
        gives |= set(results)
    if row.moves is Moves.MAKE:
        gives = {index for index in results if (f := formals_out[index]) is not None and aim.to in f.allowed}
        refused = "" if gives or not results else _not_taken(node, imports, aim)
    if heterogeneous:
        refused = f"{node.op_type} takes inputs of any types"
    if attributes is None:
        refused, attributes = "a parameter of the enclosing function names its type", ()
    ports = Ports(frozenset(follows), gives=frozenset(gives), attributes=attributes)
    if not refused and ports.concerned:
        refused = _lacking(node, imports, aim) or _unasked(node, aim, inputs_follow=bool(follows))
    elif floats:
        refused = refused or _not_taken(node, imports, aim)
    return replace(ports, why_not=refused)


def _cast(node: onnx_ir.Node, type_of: TypeOf, outputs: list[int], aim: Aim) -> Ports:
    """Return the ports of a Cast: any input, and an output in the type that its users need."""
    if any(attribute.is_ref() for attribute in node.attributes.data.values()):
        return Ports(anything=frozenset({0}), why_not="a parameter of the enclosing function names its type")
    if node.op_type == "CastLike":
        like = frozenset({1}) if type_of(node.inputs[1]) in aim.sources else _NONE
        return Ports(like, frozenset({0}), frozenset(outputs))
    return Ports(_NONE, frozenset({0}), frozenset(outputs), ("to",))


def _attributes(node: onnx_ir.Node, outputs: list[int], aim: Aim, *, inputs_follow: bool) -> tuple[str, ...] | None:
    """Return the attributes that name an output type and must change; None if a function's parameter does."""
    names: list[str] = []
    for name, role in type_attributes(node.domain, node.op_type).items():
        attribute = node.attributes.get(name)
        if role is not Role.RESULT or not outputs:
            continue
        if attribute is None:
            if _DEFAULT_TYPES.get(name) in aim.sources and not inputs_follow:
                names.append(name)
        elif attribute.is_ref():
            return None
        elif named_type(attribute) in aim.sources:
            names.append(name)
    return tuple(names)


def _lacking(node: onnx_ir.Node, imports: Mapping[str, int], aim: Aim) -> str:
    opset = opset_of(imports, "") or 0
    row = restriction(node, opset)
    if row is not None and aim.to not in row.allowed:
        return row.because
    name = operator_name(node)
    if aim.target is None:
        return ""
    if node.domain not in DEFAULT_DOMAINS and aim.target.lacks_domain(node.domain):
        return f"{aim.target} has no operators of {node.domain}"
    if aim.target.has_kernel(name, aim.to, opset):
        return ""
    if name in LINEAR:  # kernels are known by the type of the codes
        return ""
    return f"{aim.target} has no {name} of {type_name(aim.to)} at opset {opset}"


def operator_name(node: onnx_ir.Node) -> str:
    """Return the operator as data of targets and messages name it: with its domain unless that is the standard's."""
    return node.op_type if node.domain in DEFAULT_DOMAINS else f"{node.domain}.{node.op_type}"


def _unasked(node: onnx_ir.Node, aim: Aim, *, inputs_follow: bool) -> str:
    """Return the reason to skip a node without such inputs whose operator was not probed in the target.

    Runtimes that cast the inputs of unsupported operators cannot do so here.
    """
    target = aim.target
    name = operator_name(node)
    if target is None or inputs_follow or not target.probed or name in target.probed:
        return ""
    return f"it is unknown whether {target} has {name} of {type_name(aim.to)}"


def _not_taken(node: onnx_ir.Node, imports: Mapping[str, int], aim: Aim) -> str:
    version = opset_of(imports, node.domain)
    where = f"opset {version}" if node.domain in DEFAULT_DOMAINS else f"version {version} of {node.domain}"
    return f"{node.op_type} of {where} does not support {type_name(aim.to)}"
